//! Every text that softland puts before a model. A text that was sent once is sent the same for
//! ever: a run's [`PinnedRecord`](crate::PinnedRecord) names the [`Wording`] that it began under.
//! Whoever rewords a line adds a wording, and keeps the old words for the runs of the old one.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::because::{Because, Quantity, Reason};
use crate::policy::{Limit, REACHED, list_limits};

/// The assistant message in place of an empty turn.
pub const NO_ANSWER: &str = "[no answer]";
/// The first line of an answer that softland gives in the model's place.
pub const LOCAL_ANSWER: &str = "[This answer is softland's, not the model's.]";
/// The user message of a nudge.
pub const NUDGE: &str = "Please continue.";
/// The user message after cut text.
pub const CONTINUE: &str = "Continue exactly where you stopped.";
/// The line of a gateway's batch from which some calls were taken out.
pub const BEYOND: &str = "Further calls of that turn were beyond the limit and were not run.";

/// The end of a [`format_remark`]. JSON escapes no character of it.
pub const REMARK_END: &str = "(This is all that the user said.)";

const ANSWER_NOW: &str = "Answer now with what you have; further tool calls will not be run.";
const PREPARE: &str = "Finish your research and prepare the final answer.";
const CHANGE: &str = "Try something else, or answer with what you have.";
const REMAIN: &str = "; other tools remain";
const NOT_RUN: &str = "limit reached: not run.";

/// The words of the lines in a run's history, by their version. Messages behind the history are
/// sent once, and have the newest words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Wording {
    /// The words of all records that name none.
    #[default]
    First,
    /// Other words, by which tests prove that a run keeps its own.
    #[cfg(test)]
    Second,
}

impl Wording {
    /// The wording of runs that begin now.
    pub const NEWEST: Self = Self::First;

    /// Returns the countdown, as [`format_countdown`] does.
    pub(crate) fn countdown(self, remaining: u64, tool: Option<&str>) -> String {
        match self {
            Self::First => format_countdown(remaining, tool),
            #[cfg(test)]
            Self::Second => format!("left: {remaining} {}", tool.unwrap_or("tool")),
        }
    }

    /// Returns the note that asks for the answer, as [`format_ask`] does.
    pub(crate) fn ask(self, because: &Because) -> String {
        match self {
            Self::First => format_ask(because),
            #[cfg(test)]
            Self::Second => format!("left: nothing ({})", because.reason),
        }
    }

    /// Returns the one warning, as [`format_warning`] does.
    pub(crate) fn warning(self, reason: &Reason, left: u32) -> String {
        match self {
            Self::First => format_warning(reason, left),
            #[cfg(test)]
            Self::Second => format!("left: {left}% ({reason})"),
        }
    }

    /// Returns the note about a loop, as [`format_note`] does.
    pub(crate) fn note(self, because: &Because) -> String {
        match self {
            Self::First => format_note(because),
            #[cfg(test)]
            Self::Second => format!("again ({})", because.reason),
        }
    }

    /// Returns the refusal of a tool at its own limit, as [`format_tool_refusal`] does.
    pub(crate) fn tool_refusal(self, tool: &str, limit: Quantity) -> String {
        match self {
            Self::First => format_tool_refusal(tool, limit),
            #[cfg(test)]
            Self::Second => format!("left: no {tool} ({limit})"),
        }
    }

    /// Returns the refusal for several tools, as [`format_tool_refusals`] does.
    pub(crate) fn tool_refusals(self, refused: &[&Because]) -> String {
        match self {
            Self::First => format_tool_refusals(refused),
            #[cfg(test)]
            Self::Second => format!("left: no {} tools", refused.len()),
        }
    }
}

/// The error of a record whose words this release does not know: a newer one wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWording(u8);

impl core::fmt::Display for UnknownWording {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "a record of a newer release, whose words (version {}) are not known", self.0)
    }
}

impl TryFrom<u8> for Wording {
    type Error = UnknownWording;

    fn try_from(version: u8) -> Result<Self, UnknownWording> {
        match version {
            1 => Ok(Self::First),
            #[cfg(test)]
            2 => Ok(Self::Second),
            other => Err(UnknownWording(other)),
        }
    }
}

impl From<Wording> for u8 {
    fn from(words: Wording) -> Self {
        match words {
            Wording::First => 1,
            #[cfg(test)]
            Wording::Second => 2,
        }
    }
}

/// Returns `3 tool calls remaining`; with a tool's name, `3 grep calls remaining`.
#[must_use]
pub fn format_countdown(remaining: u64, tool: Option<&str>) -> String {
    let tool = tool.unwrap_or("tool");
    let calls = if remaining == 1 { "call" } else { "calls" };
    let mut line = String::with_capacity(40 + tool.len());
    // A countdown ends nearly every result, so it is written into reserved room. A string takes all
    // of it.
    let _ = write!(line, "{remaining} {tool} {calls} remaining");
    line
}

/// Returns the text that a person wrote while a round ran, for the end of the round's last result.
#[must_use]
pub fn format_remark(said: &str) -> String {
    format!("The user said while this ran:\n{said}\n{REMARK_END}")
}

/// Returns the note that asks for the answer, at a limit or in a loop.
#[must_use]
pub fn format_ask(because: &Because) -> String {
    format!("{} {ANSWER_NOW}", describe_reached(because))
}

/// Returns the one warning before a limit. `left` is in percent of the limit.
#[must_use]
pub fn format_warning(reason: &Reason, left: u32) -> String {
    match reason {
        Reason::ToolCalls => format!("One tool call remains. {PREPARE}"),
        _ => format!("About {left}% of the {} limit remains. {PREPARE}", limit_name(reason)),
    }
}

/// Returns the note about a loop, before the loop leads to anything.
#[must_use]
pub fn format_note(because: &Because) -> String {
    format!("{} {CHANGE}", describe_reached(because))
}

/// Returns the result of a call of a tool at its own limit, while other tools remain.
#[must_use]
pub fn format_tool_refusal(tool: &str, limit: Quantity) -> String {
    format!("{tool}: limit of {limit} reached{REMAIN}")
}

/// Returns the same for several tools, in one line.
#[must_use]
pub fn format_tool_refusals(refused: &[&Because]) -> String {
    let reached = |because: &&Because| match &because.reason {
        Reason::Tool(tool) => format!("{tool}: limit of {} reached", because.limit),
        reason => format!("{reason}: limit of {} reached", because.limit),
    };
    let reached: Vec<String> = refused.iter().map(reached).collect();
    format!("{}{REMAIN}", reached.join("; "))
}

/// Returns the result of a call beyond the limit, in a batch that passed it.
#[must_use]
pub fn format_not_run(because: &Because) -> String {
    format!("{} {NOT_RUN}", capitalize(&limit_name(&because.reason)))
}

/// Returns the result of a call that is refused while the run is landing.
#[must_use]
pub fn format_refusal(because: &Because) -> String {
    format!("Not run. {}", format_ask(because))
}

/// Returns true if a text already ends in a line of softland's, of any version.
#[must_use]
pub fn ends_in_line(text: &str) -> bool {
    let text = text.trim_end();
    is_line(text.rsplit('\n').next().unwrap_or(text).trim_start())
}

/// The beginnings of the sentences before [`ANSWER_NOW`] and [`CHANGE`], apart from those that name
/// a limit of usage and its numbers in brackets.
const OPENINGS: [&str; 3] = ["Limit of ", "The same ", "Not run. "];

/// Returns true if a line begins as a sentence about a limit that is reached.
fn opens_reached(line: &str) -> bool {
    let names_limit = |limit: &Limit| {
        let opening = limit.sentence.split_inclusive('(').next().unwrap_or_default();
        line.starts_with(&opening.replace("{Name}", &capitalize(limit.name)))
    };
    OPENINGS.iter().any(|opening| line.starts_with(opening))
        || list_limits().filter(|limit| limit.bounds_usage()).any(names_limit)
}

/// Returns true if this is a whole line of softland's, not only its last words.
fn is_line(line: &str) -> bool {
    let opens = |with: &str| line.starts_with(with);
    let warns = opens("About ") || opens("One tool call remains.");
    ((line.ends_with(ANSWER_NOW) || line.ends_with(CHANGE)) && opens_reached(line))
        || (line.ends_with(PREPARE) && warns)
        || (line.ends_with(REMAIN) && line.contains(": limit of "))
        || (line.ends_with(NOT_RUN) && line.matches('.').count() == 1)
        || line == BEYOND
        || is_countdown(line)
}

/// Returns true if a text with this end, escaped as in JSON or not, may end in a line of
/// softland's: each line ends in one of three characters. This spares most results the closer look.
#[must_use]
pub fn may_end_in_line(end: &str) -> bool {
    let mut end = end.trim_end();
    // White space may be written as an escape: the usual ones, or any other as `\uXXXX`.
    while let Some((before, b"\\n" | b"\\r" | b"\\t" | b"\\f")) = end.as_bytes().split_last_chunk()
    {
        end = end.get(..before.len()).unwrap_or_default().trim_end();
    }
    let escape = end.as_bytes().last_chunk::<6>().is_some_and(|last| last.starts_with(b"\\u"));
    escape || matches!(end.as_bytes().last(), None | Some(b'.' | b'n' | b'g'))
}

/// Returns true if a user message is a text of softland's own: a nudge, a continuation, or the note
/// alone.
#[must_use]
pub fn is_own_message(text: &str) -> bool {
    let text = text.trim();
    matches!(text, NUDGE | CONTINUE) || (text.ends_with(ANSWER_NOW) && is_line(text))
}

/// The length of a result's end that [`ends_in_line`] needs, in bytes.
pub const LINE_BYTES: usize = 400;

fn is_countdown(line: &str) -> bool {
    let Some(rest) =
        line.strip_suffix(" calls remaining").or_else(|| line.strip_suffix(" call remaining"))
    else {
        return false;
    };
    rest.split_once(' ').is_some_and(|(number, tool)| {
        number.bytes().all(|b| b.is_ascii_digit()) && !number.is_empty() && !tool.contains(' ')
    })
}

fn describe_reached(because: &Because) -> String {
    let Because { reason, used, limit, .. } = because;
    let sentence = match reason {
        Reason::Errors if has_several_errors(used, limit) => {
            "The same errors keep coming ({used} times in a row)."
        }
        reason => reason.limit().map_or(REACHED, |limit| limit.sentence),
    };
    let tool = if let Reason::Tool(tool) = reason { tool } else { "" };
    sentence
        .replace("{Name}", &capitalize(&limit_name(reason)))
        .replace("{used}", &used.to_string())
        .replace("{limit}", &limit.to_string())
        .replace("{tool}", tool)
}

fn capitalize(name: &str) -> String {
    let (first, rest) = name.split_at_checked(1).unwrap_or_default();
    first.to_uppercase() + rest
}

/// Returns true if a streak of errors consists of several errors: it is long enough, and a single
/// error would have been noted and landed earlier.
fn has_several_errors(used: &Quantity, limit: &Quantity) -> bool {
    match (used, limit) {
        (Quantity::Count(used), Quantity::Count(limit)) => *limit > 2 && *used >= 2 * limit,
        _ => false,
    }
}

/// Returns the name of a limit in a sentence.
#[must_use]
pub fn limit_name(reason: &Reason) -> String {
    reason.limit().map_or_else(|| reason.to_string(), |limit| limit.name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::NanoUsd;
    use crate::time::Millis;

    #[test]
    fn lines_have_the_documented_words() {
        assert_eq!(format_countdown(2, None), "2 tool calls remaining");
        assert_eq!(format_countdown(1, None), "1 tool call remaining");
        assert_eq!(format_countdown(2, Some("grep")), "2 grep calls remaining");
        assert_eq!(
            format_ask(&Because::from_counts(Reason::ToolCalls, 30, 30)),
            "Tool call limit reached (30 of 30). Answer now with what you have; further tool \
             calls will not be run."
        );
        assert_eq!(
            format_warning(&Reason::Cost, 10),
            "About 10% of the cost limit remains. Finish your research and prepare the final answer."
        );
        assert_eq!(
            format_tool_refusal("grep", Quantity::Count(5)),
            "grep: limit of 5 reached; other tools remain"
        );
    }

    #[test]
    fn every_line_is_known_again() {
        let money = |nano| Quantity::Money(NanoUsd(nano));
        let time = |secs| Quantity::Time(Millis::from_secs(secs));
        let count = |limit: &Limit| Because::from_counts(limit.reason.clone(), 3, 3);
        // Empty turns and answers in vain bring no line.
        let told = list_limits().filter(|l| !matches!(l.reason, Reason::Empty | Reason::Stale));
        let mut becauses: Vec<Because> = told.map(count).collect();
        becauses.extend([
            Because::from_counts(Reason::Tool("grep".into()), 5, 5),
            Because::from_counts(Reason::Errors, 6, 3),
            Because::new(Reason::Cost, money(1), money(2)),
            Because::new(Reason::Time, time(1), time(2)),
        ]);
        for because in &becauses {
            for line in [
                format_ask(because),
                format_note(because),
                format_refusal(because),
                format_not_run(because),
                format_warning(&because.reason, 10),
                format_countdown(7, Some("mcp__a__b")),
                format_countdown(1, None),
                format_tool_refusal("x", Quantity::Count(1)),
            ] {
                assert!(line.len() < LINE_BYTES);
                assert!(ends_in_line(&line), "{line}");
                for space in ["", "\n", " \t\n", "\\n", " \\r\\n\n", "\\u0020\\f", "\\u00a0"] {
                    assert!(may_end_in_line(&format!("{line}{space}")), "{line}{space}");
                }
                assert!(ends_in_line(&format!("found it\n\n{line}\n")), "{line}");
            }
        }
        for text in [
            "zz Answer now with what you have; further tool calls will not be run.",
            "say: Finish your research and prepare the final answer.",
            "zz; other tools remain",
        ] {
            assert!(!ends_in_line(text), "{text}");
        }
        for text in ["}", "};\\n", "ok\\n\\n\n", "end\\u", "\\n)"] {
            assert!(!may_end_in_line(text), "{text}");
        }
        for text in ["", "tool calls remaining", "there are 3 other calls remaining", "Answer now"]
        {
            assert!(!ends_in_line(text), "{text}");
        }
    }
}
