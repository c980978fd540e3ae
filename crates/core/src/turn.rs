//! The one classifier of a finished turn. Every path asks it; no other code looks for emptiness,
//! truncation or refusals.

use crate::event::{Call, Finished, Stop};
use crate::tables;

/// The class of a finished turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The answer: visible text, or other content that the client is given, and no tool call. It
    /// does not matter which markup the text quotes.
    Final,
    /// A call of the answer tool.
    Answer,
    /// Tool calls to decide on. A cut last call does not count.
    Calls,
    /// Nothing visible, nothing given and no call, with a natural end.
    Empty,
    /// Nothing visible and no call, without a natural end (a stop sequence).
    Silent,
    /// Cut by the output limit, with or without text.
    Truncated,
    /// Refused by the model or a filter.
    Refused {
        /// True if there is visible text.
        text: bool,
    },
    /// The provider paused its own tools.
    Paused,
    /// Cut because the context window is full.
    Full {
        /// True if there is visible text.
        text: bool,
    },
}

/// Classifies a turn. `answers` returns true for a call that is the answer.
#[must_use]
pub fn classify(turn: &Finished<'_>, answers: impl Fn(&Call<'_>) -> bool) -> Class {
    let text = !turn.text.is_blank() && !turn.text.placeholder;
    if turn.stop == Stop::Refusal {
        return Class::Refused { text };
    }
    let cut = usize::from(turn.cut_call);
    let complete = turn.calls.get(..turn.calls.len().saturating_sub(cut)).unwrap_or(&[]);
    if complete.iter().any(answers) {
        return Class::Answer;
    }
    if complete.iter().any(|call| !call.server) {
        return Class::Calls;
    }
    match turn.stop {
        // Without a tool of the provider's, there is nothing to wait for and nothing to resume.
        Stop::Pause if turn.calls.iter().any(|call| call.server) => Class::Paused,
        Stop::Length => Class::Truncated,
        Stop::ContextFull => Class::Full { text },
        _ if turn.cut_call => Class::Truncated,
        _ if text || turn.gives => Class::Final,
        Stop::Sequence => Class::Silent,
        Stop::Natural | Stop::Unknown | Stop::Refusal | Stop::Pause => Class::Empty,
    }
}

/// Returns true if a tool is known by name as an answer tool. `forced` is true if the client allows
/// the model nothing but tool calls; otherwise the tool must be the client's own, not a server's.
#[must_use]
pub fn known_answer_tool(name: &str, forced: bool) -> bool {
    tables::is_answer_tool(name) && (forced || tables::bare_name(name) == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Text;
    use alloc::vec::Vec;

    fn turn(text: &str, calls: &[&'static str], stop: Stop, cut_call: bool) -> Finished<'static> {
        let call =
            |name: &&'static str| Call { id: "c", name, input: "{}", server: *name == "web" };
        let calls: Vec<_> = calls.iter().map(call).collect();
        let text = Text::of(text);
        Finished { text, calls, cut_call, hidden: false, gives: false, stop, output_tokens: None }
    }

    #[test]
    fn one_row_for_each_way_to_end() {
        use Stop::{ContextFull, Length, Natural, Pause, Refusal, Sequence, Unknown};
        let none: &[&str] = &[];
        for (text, calls, stop, cut, class) in [
            ("yes", none, Natural, false, Class::Final),
            ("<b>x</b> [Tool Result]", none, Natural, false, Class::Final),
            ("yes", none, Sequence, false, Class::Final),
            ("", none, Natural, false, Class::Empty),
            (" \n\u{200b}", none, Unknown, false, Class::Empty),
            ("[no answer]", none, Natural, false, Class::Empty),
            ("", none, Sequence, false, Class::Silent),
            ("", none, Length, false, Class::Truncated),
            ("half", none, Length, false, Class::Truncated),
            ("", &["grep"], Length, true, Class::Truncated),
            ("", &["grep", "read"], Length, true, Class::Calls),
            ("", &["grep"], Natural, false, Class::Calls),
            ("text", &["grep"], Unknown, false, Class::Calls),
            ("", &["web"], Natural, false, Class::Empty),
            ("found", &["web"], Natural, false, Class::Final),
            ("", &["grep", "respond"], Natural, false, Class::Answer),
            ("", &["respond"], Length, true, Class::Truncated),
            ("", &["grep"], Refusal, false, Class::Refused { text: false }),
            ("no", none, Refusal, false, Class::Refused { text: true }),
            ("", &["web"], Pause, false, Class::Paused),
            ("", none, Pause, false, Class::Empty),
            ("", &["web", "grep"], Pause, false, Class::Calls),
            ("", none, ContextFull, false, Class::Full { text: false }),
            ("so far", none, ContextFull, false, Class::Full { text: true }),
        ] {
            let turn = turn(text, calls, stop, cut);
            assert_eq!(
                classify(&turn, |call| call.name == "respond"),
                class,
                "{text:?} {calls:?} {stop:?}"
            );
        }
        assert_eq!(classify(&turn("", &["respond"], Natural, false), |_| false), Class::Calls);
    }

    /// Given content stands for text in a turn that would say nothing, and nowhere else.
    #[test]
    fn what_is_given_is_an_answer() {
        use Stop::{Length, Natural, Refusal, Sequence, Unknown};
        for (calls, stop, class) in [
            (&[][..], Natural, Class::Final),
            (&[], Unknown, Class::Final),
            (&[], Sequence, Class::Final),
            (&["web"], Natural, Class::Final),
            (&[], Length, Class::Truncated),
            (&[], Refusal, Class::Refused { text: false }),
            (&["grep"], Natural, Class::Calls),
        ] {
            let given = Finished { gives: true, ..turn("", calls, stop, false) };
            assert_eq!(classify(&given, |_| false), class, "{calls:?} {stop:?}");
        }
    }
}
