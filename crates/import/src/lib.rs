//! Sessions that other programs recorded, read as the core's words.
//!
//! [`read`] walks paths, tells what each file is by its content, and hands what it says to a
//! [`Sink`], step by step: what people and tools said as core's `User`, what the model said as
//! core's `Finished` with what was recorded of its usage. Nothing is kept of what was read but ids;
//! files are read by several threads, and a file that cannot be read, or a part of it, is listed
//! and never stops the rest.
//!
//! Readers decide nothing: where runs begin and what was waste is for whoever folds the steps.
//! [`Folder`] is that sink: it replays every conversation through the core's fold, and [`report()`]
//! says what was seen and what a policy would have done.

mod claude_code;
mod codex;
mod copilot_cli;
mod draft;
mod fields;
mod fold;
mod gemini_cli;
mod input;
mod items;
mod kind;
mod message;
mod messages;
mod mini_swe;
mod opencode;
mod openrouter_csv;
mod out;
mod reading;
pub mod report;
mod softland;
mod sqlite;
mod step;
mod suggest;
mod swe_agent;
mod totals;
mod walk;

pub use fold::{Folder, Settings, Spend, Trees};
pub use step::{Begin, Noted, Row, Sink, Talk, Turn, Usage, UserStep};
pub use suggest::is_good;
pub use totals::report;

use std::path::{Path, PathBuf};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A session of Claude Code.
    ClaudeCode,
    /// A rollout of Codex.
    Codex,
    /// OpenRouter's activity as CSV.
    OpenRouterCsv,
    /// Message arrays in Anthropic's or OpenAI's form.
    Messages,
    /// Sessions of opencode: its storage, its database or a dump of it, an export.
    OpenCode,
    /// A chat of Gemini CLI.
    GeminiCli,
    /// Events of Copilot CLI.
    CopilotCli,
    /// A trajectory of mini-swe-agent.
    MiniSwe,
    /// A trajectory of SWE-agent.
    SweAgent,
    /// softland's own ledgers and event logs.
    Softland,
}

impl Kind {
    /// Its name in the contract.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::OpenRouterCsv => "openrouter-csv",
            Self::Messages => "messages",
            Self::OpenCode => "opencode",
            Self::GeminiCli => "gemini-cli",
            Self::CopilotCli => "copilot-cli",
            Self::MiniSwe => "mini-swe",
            Self::SweAgent => "swe-agent",
            Self::Softland => "softland",
        }
    }
}

/// A file that was looked at.
#[derive(Debug)]
pub struct Source<S> {
    /// Its path, as given or as found below a folder that was given.
    pub path: PathBuf,
    /// What it is; `None` where nothing could tell.
    pub kind: Option<Kind>,
    /// Its size on disk.
    pub bytes: u64,
    /// What took its steps; `None` where there were none to take.
    pub sink: Option<S>,
}

/// What could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1, where lines are what it is read by.
    pub line: Option<u64>,
    /// Why, in a few words.
    pub reason: String,
}

/// What came of reading.
#[derive(Debug)]
pub struct Read<S> {
    /// Every file looked at, in the order of the paths given, names sorted within folders.
    pub sources: Vec<Source<S>>,
    /// What could not be read, in the same order.
    pub unreadable: Vec<Unreadable>,
}

/// How to read.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Files that are read at the same time.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self { threads: threads.clamp(2, 16) }
    }
}

/// How far it is, in bytes on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub done: u64,
    /// Bytes of all files.
    pub total: u64,
}

/// Reads files and folders. `sink` makes what takes the steps of a file; it may be called more than
/// once for one file, and what came last counts. `progress` is called now and then, by any thread.
pub fn read<S: Sink>(
    paths: &[PathBuf],
    options: &Options,
    sink: impl Fn(&Path) -> S + Sync,
    progress: impl Fn(Progress) + Sync,
) -> Read<S> {
    let on = |now| {
        progress(now);
        true
    };
    reading::read(paths, options, &sink, &on)
}

/// As [`read`](fn@read), for as long as `on` says so: it is asked as `progress` is told. What is not
/// read then is listed.
pub fn read_while<S: Sink>(
    paths: &[PathBuf],
    options: &Options,
    sink: impl Fn(&Path) -> S + Sync,
    on: impl Fn(Progress) -> bool + Sync,
) -> Read<S> {
    reading::read(paths, options, &sink, &on)
}
