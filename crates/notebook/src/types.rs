//! What a notebook looks like to those who share it: cells, changes, edits and refusals, as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Somebody at a page.
    Human,
    /// The assistant, by one of its tools.
    Assistant,
}

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellType {
    /// A program that the kernel runs.
    Code,
    /// Text.
    Markdown,
    /// What is neither: it is kept as it is.
    Raw,
}

impl CellType {
    /// The word in notebook files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
            Self::Raw => "raw",
        }
    }
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Its name, unique in the notebook.
    pub id: String,
    /// What it holds.
    #[serde(rename = "type")]
    pub kind: CellType,
    /// Its text.
    pub source: String,
    /// The notebook's `rev` at the last change of its source.
    pub rev: u64,
    /// Its outputs as in nbformat, texts joined. Bounded: what was left out is said in their place.
    pub outputs: Vec<Value>,
    /// How many cells the kernel had run with this one.
    pub execution_count: Option<u64>,
    /// The kernel runs it, or will when it comes to it.
    pub running: bool,
    /// Who wrote the source as it is.
    pub by: By,
}

/// What is known of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelState {
    /// The kernel's name (`python3`), as in its kernelspec.
    pub name: String,
    /// How it stands.
    pub state: KernelStatus,
    /// Why it is so, where that is not plain.
    pub why: Option<String>,
}

/// How a kernel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelStatus {
    /// Not started yet: the first run does.
    None,
    /// Being started.
    Starting,
    /// Waits for a cell.
    Idle,
    /// Runs a cell.
    Busy,
    /// Its process is there, but does not answer.
    Silent,
    /// Ended by itself, or could not be started.
    Dead,
    /// Ended, since the notebook was closed.
    Stopped,
}

/// A notebook at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct State {
    /// How many changes led here.
    pub rev: u64,
    /// The file.
    pub path: String,
    /// The kernel.
    pub kernel: KernelState,
    /// What is wrong with the file, where it was removed or broken by others: nothing is saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The cells, in order.
    pub cells: Vec<Cell>,
}

impl State {
    /// The place of a cell, and the cell.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<(usize, &Cell)> {
        self.cells.iter().enumerate().find(|(_, cell)| cell.id == id)
    }
}

/// One change, told to everybody who watches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The notebook's `rev` with it: one more than before.
    pub rev: u64,
    /// Who made it; for what a cell gives, who ran it. Nobody where the kernel or the file did.
    pub by: Option<By>,
    /// What changed.
    #[serde(flatten)]
    pub what: What,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum What {
    /// A new cell.
    CellCreated {
        /// Where it stands.
        index: usize,
        /// The cell.
        cell: Cell,
    },
    /// A cell has another source.
    CellUpdated {
        /// Which.
        id: String,
        /// The cell as it is now.
        cell: Cell,
    },
    /// A cell is gone.
    CellDeleted {
        /// Which.
        id: String,
    },
    /// A cell stands elsewhere.
    CellMoved {
        /// Which.
        id: String,
        /// Where it stands now.
        index: usize,
    },
    /// A cell was given to the kernel; its outputs are empty.
    CellRunning {
        /// Which.
        id: String,
    },
    /// A cell has given something.
    CellOutput {
        /// Which.
        id: String,
        /// The output's place: what stands there is replaced; one behind the last is appended.
        index: usize,
        /// The output, as in nbformat.
        output: Value,
    },
    /// A cell's outputs and its execution count are gone.
    CellCleared {
        /// Which.
        id: String,
    },
    /// A cell has ended.
    CellRan {
        /// Which.
        id: String,
        /// Without an error.
        ok: bool,
        /// How many cells the kernel had run with it.
        execution_count: Option<u64>,
        /// How long it took.
        seconds: f64,
    },
    /// The kernel stands otherwise.
    Kernel(KernelState),
    /// The file cannot be read any more, or can be again.
    File {
        /// What is wrong with it, if something is.
        trouble: Option<String>,
    },
    /// The file was changed by another program: everything anew.
    Reloaded {
        /// The notebook as it is now.
        state: State,
    },
}

/// What somebody wants changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Edit {
    /// A new cell.
    CreateCell {
        /// Before the cell that stands there; at the end where there is none.
        #[serde(default)]
        index: Option<usize>,
        /// What it holds.
        #[serde(rename = "type")]
        kind: CellType,
        /// Its text.
        source: String,
    },
    /// Another source for a cell.
    UpdateCell {
        /// Which.
        id: String,
        /// The cell's `rev` that the writer has seen.
        rev: u64,
        /// Its text.
        source: String,
    },
    /// One cell less.
    DeleteCell {
        /// Which.
        id: String,
        /// The cell's `rev` that the writer has seen.
        rev: u64,
    },
    /// A cell to another place.
    MoveCell {
        /// Which.
        id: String,
        /// Its place then.
        index: usize,
    },
    /// A cell without outputs.
    ClearOutputs {
        /// Which.
        id: String,
    },
}

/// What an edit has led to. It is saved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Edited {
    /// The notebook's `rev` with it.
    pub rev: u64,
    /// The cell as it is now; none where it was deleted.
    pub cell: Option<Cell>,
    /// Where it stands, or stood.
    pub index: usize,
}

/// What running a cell has led to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ran {
    /// The cell as it is now, its outputs with it.
    pub cell: Cell,
    /// It has ended without an error.
    pub ok: bool,
    /// It goes on: the time that is waited is over.
    pub still_running: bool,
    /// How long it took, or has taken until now.
    pub seconds: f64,
}

/// Why something was not done. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refused {
    /// The kind of reason.
    pub code: RefusedCode,
    /// The reason.
    pub message: String,
    /// The cell as it is, for a conflict.
    pub cell: Option<Box<Cell>>,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedCode {
    /// The cell has changed since the writer saw it.
    Conflict,
    /// There is no cell of that name.
    NoSuchCell,
    /// What was asked for makes no sense there.
    Invalid,
    /// The kernel cannot.
    Kernel,
    /// The file cannot be written, or was changed into something else.
    File,
    /// The notebook is closed.
    Closed,
}

impl Refused {
    pub(crate) fn new(code: RefusedCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), cell: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(RefusedCode::Invalid, message)
    }

    pub(crate) fn no_such_cell(id: &str) -> Self {
        let id: String = id.chars().take(80).collect();
        Self::new(RefusedCode::NoSuchCell, format!("there is no cell `{id}` in this notebook"))
    }

    pub(crate) fn conflict(cell: &Cell, seen: u64) -> Self {
        let message = format!(
            "cell `{}` was changed since (revision {seen} was seen, it is at {}); look at it as \
             it is now and decide again",
            cell.id, cell.rev
        );
        Self { code: RefusedCode::Conflict, message, cell: Some(Box::new(cell.clone())) }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

/// Why a notebook cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another softland has it open.
    Locked {
        /// The process that has it, where it said so.
        holder: Option<u32>,
    },
    /// What is asked for cannot be: another kind of file, a kernel that is not there.
    Unfit(String),
    /// It is not a notebook that can be read.
    NotANotebook(String),
    /// The file system says no.
    Io(String, std::io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { holder: Some(id) } => {
                write!(
                    f,
                    "the notebook is open in another softland (process {id}); close that first"
                )
            }
            Self::Locked { holder: None } => {
                f.write_str("the notebook is open in another softland; close that first")
            }
            Self::Unfit(why) | Self::NotANotebook(why) => f.write_str(why),
            Self::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}
