//! The one classifier of a finished turn. Every path asks it; no other code looks for emptiness,
//! truncation or refusals.

use crate::event::{Call, FinishedTurn, Stop};
use crate::tables;

/// The class of a finished turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnClass {
    /// The answer: visible text, or other content that the client is given, and no tool call. It
    /// does not matter which markup the text quotes.
    Final,
    /// A call of the answer tool.
    Answer,
    /// Tool calls to decide on. A cut last call does not count.
    Calls,
    /// Nothing visible, nothing given and no call, with a natural end.
    Empty,
    /// Nothing visible and no call, without a natural end (a stop sequence, a reason that is not
    /// known).
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
pub fn classify_turn(turn: &FinishedTurn<'_>, answers: impl Fn(&Call<'_>) -> bool) -> TurnClass {
    let text = !turn.text.is_blank() && !turn.text.placeholder;
    if turn.stop == Stop::Refusal {
        return TurnClass::Refused { text };
    }
    let cut = usize::from(turn.cut_call);
    let complete = turn.calls.get(..turn.calls.len().saturating_sub(cut)).unwrap_or(&[]);
    if complete.iter().any(answers) {
        return TurnClass::Answer;
    }
    if complete.iter().any(|call| !call.server) {
        return TurnClass::Calls;
    }
    match turn.stop {
        // Without a tool of the provider's, there is nothing to wait for and nothing to resume.
        Stop::Pause if turn.calls.iter().any(|call| call.server) => TurnClass::Paused,
        Stop::Length => TurnClass::Truncated,
        Stop::ContextFull => TurnClass::Full { text },
        _ if turn.cut_call => TurnClass::Truncated,
        _ if text || turn.gives => TurnClass::Final,
        Stop::Sequence | Stop::Other => TurnClass::Silent,
        Stop::Natural | Stop::Unknown | Stop::Refusal | Stop::Pause => TurnClass::Empty,
    }
}

/// Returns true if a tool is known by name as an answer tool. `forced` is true if the client allows
/// the model nothing but tool calls; otherwise the tool must be the client's own, not a server's.
#[must_use]
pub fn is_known_answer_tool(name: &str, forced: bool) -> bool {
    tables::is_answer_tool(name) && (forced || tables::bare_name(name) == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::VisibleText;
    use alloc::vec::Vec;

    fn turn(
        text: &str,
        calls: &[&'static str],
        stop: Stop,
        cut_call: bool,
    ) -> FinishedTurn<'static> {
        let call =
            |name: &&'static str| Call { id: "c", name, input: "{}", server: *name == "web" };
        let calls: Vec<_> = calls.iter().map(call).collect();
        let text = VisibleText::from_text(text);
        FinishedTurn {
            text,
            calls,
            cut_call,
            hidden: false,
            gives: false,
            stop,
            output_tokens: None,
        }
    }

    #[test]
    fn one_row_for_each_way_to_end() {
        use Stop::{ContextFull, Length, Natural, Other, Pause, Refusal, Sequence, Unknown};
        let none: &[&str] = &[];
        for (text, calls, stop, cut, class) in [
            ("yes", none, Natural, false, TurnClass::Final),
            ("<b>x</b> [Tool Result]", none, Natural, false, TurnClass::Final),
            ("yes", none, Sequence, false, TurnClass::Final),
            ("", none, Natural, false, TurnClass::Empty),
            (" \n\u{200b}", none, Unknown, false, TurnClass::Empty),
            ("[no answer]", none, Natural, false, TurnClass::Empty),
            ("", none, Sequence, false, TurnClass::Silent),
            ("", none, Other, false, TurnClass::Silent),
            ("", &["web"], Other, false, TurnClass::Silent),
            ("yes", none, Other, false, TurnClass::Final),
            ("", &["grep"], Other, false, TurnClass::Calls),
            ("<think>hm</think>", none, Natural, false, TurnClass::Empty),
            ("<think>hm</think>yes", none, Natural, false, TurnClass::Final),
            ("<think>hm", &["grep"], Natural, false, TurnClass::Calls),
            ("", none, Length, false, TurnClass::Truncated),
            ("half", none, Length, false, TurnClass::Truncated),
            ("", &["grep"], Length, true, TurnClass::Truncated),
            ("", &["grep", "read"], Length, true, TurnClass::Calls),
            ("", &["grep"], Natural, false, TurnClass::Calls),
            ("text", &["grep"], Unknown, false, TurnClass::Calls),
            ("", &["web"], Natural, false, TurnClass::Empty),
            ("found", &["web"], Natural, false, TurnClass::Final),
            ("", &["grep", "respond"], Natural, false, TurnClass::Answer),
            ("", &["respond"], Length, true, TurnClass::Truncated),
            ("", &["grep"], Refusal, false, TurnClass::Refused { text: false }),
            ("no", none, Refusal, false, TurnClass::Refused { text: true }),
            ("", &["web"], Pause, false, TurnClass::Paused),
            ("", none, Pause, false, TurnClass::Empty),
            ("", &["web", "grep"], Pause, false, TurnClass::Calls),
            ("", none, ContextFull, false, TurnClass::Full { text: false }),
            ("so far", none, ContextFull, false, TurnClass::Full { text: true }),
        ] {
            let turn = turn(text, calls, stop, cut);
            assert_eq!(
                classify_turn(&turn, |call| call.name == "respond"),
                class,
                "{text:?} {calls:?} {stop:?}"
            );
        }
        assert_eq!(
            classify_turn(&turn("", &["respond"], Natural, false), |_| false),
            TurnClass::Calls
        );
    }

    /// Given content stands for text in a turn that would say nothing, and nowhere else.
    #[test]
    fn what_is_given_is_an_answer() {
        use Stop::{Length, Natural, Refusal, Sequence, Unknown};
        for (calls, stop, class) in [
            (&[][..], Natural, TurnClass::Final),
            (&[], Unknown, TurnClass::Final),
            (&[], Sequence, TurnClass::Final),
            (&["web"], Natural, TurnClass::Final),
            (&[], Length, TurnClass::Truncated),
            (&[], Refusal, TurnClass::Refused { text: false }),
            (&["grep"], Natural, TurnClass::Calls),
        ] {
            let given = FinishedTurn { gives: true, ..turn("", calls, stop, false) };
            assert_eq!(classify_turn(&given, |_| false), class, "{calls:?} {stop:?}");
        }
    }
}
