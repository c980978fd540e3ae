//! Data that detectors and classifiers look things up in: what tools do, which arguments
//! and fields say nothing, what a harness writes in a user's name, how results fail.
//!
//! Every row has its source. All functions are pure, look at bounded parts of their input
//! or once over it, and do not allocate. Nothing here decides what a match means: rules do.
//! Names are compared without regard to case, `_`, `-`, `.` and spaces, so that
//! `read_file`, `ReadFile` and `read-file` are one.

mod results;
mod shell;
#[cfg(test)]
mod tests;
mod texts;
mod tools;

pub use results::{exit_failed, is_cleared, is_unfinished, is_volatile_field, is_volatile_line};
pub use shell::shell_kind;
pub use texts::{
    Machine, is_compaction_summary, is_harness_only, is_nudge, is_validation_retry, machine_made,
};
pub use tools::{
    ToolKind, bare_name, is_answer_tool, is_presentation_argument, kind_of, kind_of_call,
};

use core::cmp::Ordering;

/// One word of a table, with where it comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    /// The word, folded (lower case letters and digits only) where names are compared.
    pub(crate) word: &'static str,
    /// Whose word it is.
    #[cfg_attr(not(test), expect(dead_code, reason = "kept beside its row; tests read it"))]
    pub(crate) source: &'static str,
}

const fn w(word: &'static str, source: &'static str) -> Word {
    Word { word, source }
}

/// The letters and digits of a name, in lower case.
fn folded(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase())
}

/// Order of a folded word of a table against a name as it is written.
fn fold_order(word: &str, name: &str) -> Ordering {
    word.bytes().cmp(folded(name))
}

/// Whether a table sorted by folded word has a name.
fn has_name(table: &[Word], name: &str) -> bool {
    table.binary_search_by(|row| fold_order(row.word, name)).is_ok()
}

fn starts_with_any(table: &[Word], text: &str) -> bool {
    table.iter().any(|row| starts_ignoring_case(text, row.word))
}

fn starts_ignoring_case(text: &str, start: &str) -> bool {
    let head = text.as_bytes().get(..start.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(start.as_bytes()))
}
