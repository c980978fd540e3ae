//! Data that detectors and classifiers look things up in: the effects of tools, the arguments and
//! fields without meaning, the texts that a harness writes in a user's name, the signs of failed
//! results.
//!
//! Every row has its source. All functions are pure, look at bounded parts of their input or once
//! over it, and do not allocate. Nothing here decides what a match means: rules do. Names are
//! compared without regard to case, `_`, `-`, `.` and spaces, so that `read_file`, `ReadFile` and
//! `read-file` are equal.

mod compaction;
mod flat;
mod hosted;
mod results;
mod shell;
#[cfg(test)]
mod tests;
mod texts;
mod thinking;
mod tools;

pub use compaction::{asks_for_summary, asks_plainly_for_summary, is_volatile_system};
pub use flat::{FLAT, FlatFormat, FlatResult};
pub use hosted::{explain_unlimitable, hosted_name};
pub use results::{
    exit_failed, is_cleared, is_unfinished, is_volatile_field, is_volatile_line, may_be_cleared,
    may_be_unfinished, may_hold_volatile_line, may_tell_exit, may_tell_exit_escaped,
};
pub use shell::shell_kind;
pub use texts::{
    MachineTextKind, asks_for_retry, classify_machine_text, is_common_nudge, is_compaction_summary,
    is_harness_only, is_nudge, is_telling_nudge, is_validation_retry, names_a_person,
    strip_harness_tags,
};
pub(crate) use thinking::{may_hold_thinking, without_thinking};
pub use tools::{
    ToolKind, bare_name, ending_command, is_agent_tool, is_answer_tool, is_presentation_argument,
    kind_of_call, kind_of_tool, reads_file,
};

use core::cmp::Ordering;

/// One word of a table, with its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableWord {
    /// The word, folded (lower case letters and digits only) if names are compared.
    pub(crate) word: &'static str,
    /// The program or standard that the word is from.
    #[cfg_attr(not(test), expect(dead_code, reason = "kept beside its row; tests read it"))]
    pub(crate) source: &'static str,
}

const fn w(word: &'static str, source: &'static str) -> TableWord {
    TableWord { word, source }
}

/// Returns the letters and digits of a name, in lower case.
fn fold_name(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase())
}

/// The length of the longest folded word of the searched tables, in bytes.
const LONGEST: usize = 40;

/// A folded name, to be looked up in several tables.
struct FoldedName {
    bytes: [u8; LONGEST],
    length: usize,
}

impl FoldedName {
    /// Folds a name; `None` for a name that no table with these lengths has.
    fn find_within(lengths: &[u64; 26], name: &str) -> Option<Self> {
        let letter = fold_name(name).next()?.checked_sub(b'a')?;
        let lengths = *lengths.get(usize::from(letter))?;
        // Folding removes letters and adds none.
        let shorter = u64::MAX >> 63_usize.saturating_sub(name.len());
        let folded = (lengths & shorter != 0).then(|| Self::from_name(name))??;
        (lengths >> folded.length & 1 == 1).then_some(folded)
    }

    /// Folds a name; `None` for a name that is longer than every word of the tables.
    fn from_name(name: &str) -> Option<Self> {
        let mut bytes = [0; LONGEST];
        let mut slots = bytes.iter_mut();
        for byte in fold_name(name) {
            *slots.next()? = byte;
        }
        let length = LONGEST - slots.len();
        Some(Self { bytes, length })
    }

    fn is_word(&self, word: &str) -> bool {
        self.bytes.get(..self.length) == Some(word.as_bytes())
    }

    /// Compares a folded word of a table with this name. First letters nearly always decide,
    /// without a call to compare memory.
    fn compare_word(&self, word: &str) -> Ordering {
        let name = self.bytes.get(..self.length).unwrap_or_default();
        let word = word.as_bytes();
        word.first().cmp(&name.first()).then_with(|| word.cmp(name))
    }
}

/// Returns the lengths of a table's words, a bit for each, by their first letter. Most names fail
/// at this check.
const fn word_lengths(table: &[TableWord]) -> [u64; 26] {
    let mut lengths = [0; 26];
    let mut at = 0;
    while at < table.len() {
        let word = table[at].word.as_bytes();
        lengths[(word[0] - b'a') as usize] |= 1 << word.len();
        at += 1;
    }
    lengths
}

/// Returns true if a table sorted by folded word has a name.
fn has_name(table: &[TableWord], name: &str) -> bool {
    FoldedName::from_name(name).is_some_and(|name| has_folded(table, &name))
}

fn has_folded(table: &[TableWord], name: &FoldedName) -> bool {
    table.binary_search_by(|row| name.compare_word(row.word)).is_ok()
}

fn starts_with_any(table: &[TableWord], text: &str) -> bool {
    table.iter().any(|row| starts_ignoring_case(text, row.word))
}

fn starts_ignoring_case(text: &str, start: &str) -> bool {
    let first = |text: &str| text.as_bytes().first().map(u8::to_ascii_lowercase);
    // Most rows differ in the first letter.
    let head = text.as_bytes().get(..start.len()).filter(|_| first(text) == first(start));
    head.is_some_and(|head| head.eq_ignore_ascii_case(start.as_bytes()))
}
