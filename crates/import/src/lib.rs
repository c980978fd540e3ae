//! Reads sessions that other programs recorded, as the core's types.
//!
//! [`read_paths`] walks paths, recognizes each file by its content, and hands the recorded steps to a
//! [`Sink`]: messages of people and tools as the core's `User`, turns of the model as the core's
//! `Finished` with their recorded usage. Of what was read, only ids are kept. Several threads read
//! files. A file, or a part of a file, that cannot be read is listed and never stops the rest.
//!
//! Readers decide nothing. Runs are cut, and waste is found, by the sink. [`FileReplay`] is that sink:
//! it replays every conversation through the core's fold, and [`build_report()`] says what was seen and
//! what a policy would have done.

mod atif;
mod claude_code;
mod cline;
mod codex;
mod content;
mod copilot_cli;
mod draft;
mod export;
mod fields;
mod fold;
mod gemini_cli;
mod goose;
mod input;
mod inspect;
mod items;
mod kind;
mod litellm;
mod message;
mod messages;
mod mini_swe;
mod opencode;
mod openhands;
mod openrouter_csv;
mod otlp;
mod pi;
mod qwen_code;
mod reading;
mod repeated;
pub mod report;
mod softland;
mod sqlite;
mod step;
mod step_output;
mod suggest;
mod swe_agent;
mod totals;
mod walk;

pub use export::RunTrajectory;
pub use fold::{FileReplay, ReplaySettings, SharedSpending};
pub use report::TurnSpend;
pub use step::{
    ActivityRow, ConversationId, ConversationStart, KnownTurn, RecordedSignal, RequestUsage, Sink,
    TurnStep, TurnUsage, UserStep,
};
pub use suggest::is_good_run;
pub use totals::build_report;

use std::path::{Path, PathBuf};

/// The kind of a recording.
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
    /// A trajectory in ATIF.
    Atif,
    /// A session of Pi.
    Pi,
    /// A session of OpenClaw.
    OpenClaw,
    /// Traces of OpenTelemetry as JSON.
    OtlpJson,
    /// A log of Inspect, as JSON or as an archive.
    Inspect,
    /// A task of Cline, Roo Code or Kilo Code.
    Cline,
    /// Goose's database.
    Goose,
    /// A session of Qwen Code.
    QwenCode,
    /// A trajectory or a conversation of OpenHands.
    OpenHands,
    /// Spend logs of LiteLLM.
    LiteLlm,
    /// A trajectory of mini-swe-agent.
    MiniSwe,
    /// A trajectory of SWE-agent.
    SweAgent,
    /// softland's own ledgers and event logs.
    Softland,
}

impl Kind {
    /// Returns the kind's name, as reports and `docs/audit.md` spell it.
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
            Self::Atif => "atif",
            Self::Pi => "pi",
            Self::OpenClaw => "openclaw",
            Self::OtlpJson => "otlp-json",
            Self::Inspect => "inspect",
            Self::Cline => "cline",
            Self::Goose => "goose",
            Self::QwenCode => "qwen-code",
            Self::OpenHands => "openhands",
            Self::LiteLlm => "litellm",
            Self::MiniSwe => "mini-swe",
            Self::SweAgent => "swe-agent",
            Self::Softland => "softland",
        }
    }
}

/// A file that was looked at.
#[derive(Debug)]
pub struct Source<S> {
    /// The path, as given or as found below a given folder.
    pub path: PathBuf,
    /// The kind of the recording; `None` for an unknown file.
    pub kind: Option<Kind>,
    /// Size on disk, in bytes.
    pub bytes: u64,
    /// The sink that took the file's steps; `None` if the file had no steps.
    pub sink: Option<S>,
}

/// A file, or a part of a file, that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1, if the file is read by lines.
    pub line: Option<u64>,
    /// The reason, in a few words.
    pub reason: String,
}

/// The result of reading.
#[derive(Debug)]
pub struct Recordings<S> {
    /// All files looked at, in the order of the given paths; names are sorted within folders.
    pub sources: Vec<Source<S>>,
    /// Everything that could not be read, in the same order.
    pub unreadable: Vec<Unreadable>,
}

/// Options of reading.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// The number of files that are read at the same time.
    pub threads: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self { threads: threads.clamp(2, 16) }
    }
}

/// The progress of reading, in bytes on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read so far.
    pub done: u64,
    /// Bytes of all files.
    pub total: u64,
}

/// Reads files and folders.
///
/// `sink` makes the sink that takes the steps of a file. It may be called more than once for the
/// same file; the last sink counts. `progress` is called now and then, by any thread.
pub fn read_paths<S: Sink>(
    paths: &[PathBuf],
    options: &ReadOptions,
    sink: impl Fn(&Path) -> S + Sync,
    progress: impl Fn(Progress) + Sync,
) -> Recordings<S> {
    let on = |now| {
        progress(now);
        true
    };
    reading::read_paths(paths, options, &sink, &on)
}

/// Reads files and folders like [`read_paths`], as long as `on` returns true. `on` is called
/// wherever `progress` would be. Files that are not read because of it are listed.
pub fn read_paths_while<S: Sink>(
    paths: &[PathBuf],
    options: &ReadOptions,
    sink: impl Fn(&Path) -> S + Sync,
    on: impl Fn(Progress) -> bool + Sync,
) -> Recordings<S> {
    reading::read_paths(paths, options, &sink, &on)
}
