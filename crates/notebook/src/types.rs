//! The JSON form of a notebook for those who share it: cells, changes, edits and refusals.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The author of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// A person at a page.
    Human,
    /// The assistant, by one of its tools.
    Assistant,
}

/// The kind of a cell's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellType {
    /// A program that the kernel runs.
    Code,
    /// Text.
    Markdown,
    /// Neither code nor Markdown: kept as it is.
    Raw,
}

impl CellType {
    /// Returns the word that notebook files use.
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
    /// The cell's name, unique in the notebook.
    pub id: String,
    /// The kind of its content.
    #[serde(rename = "type")]
    pub kind: CellType,
    /// The text of the cell.
    pub source: String,
    /// The notebook's `rev` at the last change of its source.
    pub rev: u64,
    /// The outputs, as in nbformat, texts joined. They are bounded: a note stands for whatever was
    /// left out.
    pub outputs: Vec<Value>,
    /// The number of cells that the kernel had run, this one included.
    pub execution_count: Option<u64>,
    /// True if the kernel runs the cell, or has it in its queue.
    pub running: bool,
    /// The author of the current source.
    pub by: Actor,
}

/// The known state of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelState {
    /// The kernel's name (`python3`), as in its kernelspec.
    pub name: String,
    /// The kernel's status.
    pub state: KernelStatus,
    /// The reason for the status, where it is not obvious.
    pub why: Option<String>,
}

/// The status of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelStatus {
    /// Not started yet: the first run starts it.
    None,
    /// Being started.
    Starting,
    /// Waiting for a cell.
    Idle,
    /// Running a cell.
    Busy,
    /// The process is there, but does not answer.
    Silent,
    /// Ended by itself, or could not be started.
    Dead,
    /// Ended, because the notebook was closed.
    Stopped,
}

/// A notebook at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotebookState {
    /// The number of changes that led to this state.
    pub rev: u64,
    /// The file.
    pub path: String,
    /// The kernel.
    pub kernel: KernelState,
    /// The problem with the file, if another program removed or broke it. Nothing is saved then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The cells, in order.
    pub cells: Vec<Cell>,
}

impl NotebookState {
    /// Returns a cell and its index.
    #[must_use]
    pub fn find_cell(&self, id: &str) -> Option<(usize, &Cell)> {
        self.cells.iter().enumerate().find(|(_, cell)| cell.id == id)
    }
}

/// One change, sent to all watchers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The notebook's `rev` after the change: one more than before.
    pub rev: u64,
    /// The author of the change; for outputs, the author of the run. `None` if the kernel or the
    /// file changed.
    pub by: Option<Actor>,
    /// The change itself.
    #[serde(flatten)]
    pub what: ChangeKind,
}

/// The kinds of changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum ChangeKind {
    /// A cell was created.
    CellCreated {
        /// The cell's index.
        index: usize,
        /// The cell.
        cell: Cell,
    },
    /// A cell has a new source.
    CellUpdated {
        /// The cell's id.
        id: String,
        /// The cell as it is now.
        cell: Cell,
    },
    /// A cell was deleted.
    CellDeleted {
        /// The cell's id.
        id: String,
    },
    /// A cell was moved.
    CellMoved {
        /// The cell's id.
        id: String,
        /// The cell's new index.
        index: usize,
    },
    /// A cell was given to the kernel; its outputs are empty.
    CellRunning {
        /// The cell's id.
        id: String,
    },
    /// A cell has a new output.
    CellOutput {
        /// The cell's id.
        id: String,
        /// The output's index. An output at this index is replaced; an index behind the last one
        /// appends.
        index: usize,
        /// The output, as in nbformat.
        output: Value,
    },
    /// A cell's outputs and its execution count were cleared.
    CellCleared {
        /// The cell's id.
        id: String,
    },
    /// The run of a cell has ended.
    CellRan {
        /// The cell's id.
        id: String,
        /// True if it ended without an error.
        ok: bool,
        /// The number of cells that the kernel had run, this one included.
        execution_count: Option<u64>,
        /// The duration of the run, in seconds.
        seconds: f64,
    },
    /// The kernel's state has changed.
    Kernel(KernelState),
    /// The file can no longer be read, or can be read again.
    File {
        /// The problem with the file, if there is one.
        trouble: Option<String>,
    },
    /// Another program changed the file: the whole notebook is sent again.
    Reloaded {
        /// The notebook as it is now.
        state: NotebookState,
    },
}

/// A change that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Edit {
    /// Creates a cell.
    CreateCell {
        /// The index at which the cell is inserted; `None` stands for the end.
        #[serde(default)]
        index: Option<usize>,
        /// The kind of its content.
        #[serde(rename = "type")]
        kind: CellType,
        /// The text of the cell.
        source: String,
    },
    /// Replaces a cell's source.
    UpdateCell {
        /// The cell's id.
        id: String,
        /// The cell's `rev` that the author has seen.
        rev: u64,
        /// The new text.
        source: String,
    },
    /// Deletes a cell.
    DeleteCell {
        /// The cell's id.
        id: String,
        /// The cell's `rev` that the author has seen.
        rev: u64,
    },
    /// Moves a cell.
    MoveCell {
        /// The cell's id.
        id: String,
        /// The cell's new index.
        index: usize,
    },
    /// Clears a cell's outputs.
    ClearOutputs {
        /// The cell's id.
        id: String,
    },
}

/// The result of an edit, which is saved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EditResult {
    /// The notebook's `rev` after the edit.
    pub rev: u64,
    /// The cell as it is now; `None` if it was deleted.
    pub cell: Option<Cell>,
    /// The index of the cell, or its former index.
    pub index: usize,
}

/// The result of running a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunResult {
    /// The cell as it is now, with its outputs.
    pub cell: Cell,
    /// True if the run has ended without an error.
    pub ok: bool,
    /// True if the cell is still running after the waiting time.
    pub still_running: bool,
    /// The duration of the run so far, in seconds.
    pub seconds: f64,
}

/// The reason why something was not done. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refusal {
    /// The kind of the reason.
    pub code: RefusalCode,
    /// The reason.
    pub message: String,
    /// The cell as it is now, if the reason is a conflict.
    pub cell: Option<Box<Cell>>,
}

/// The kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The cell has changed since the author saw it.
    Conflict,
    /// There is no cell with this id.
    NoSuchCell,
    /// The request makes no sense there.
    Invalid,
    /// The kernel cannot do it.
    Kernel,
    /// The file cannot be written, or was changed into something else.
    File,
    /// The notebook is closed.
    Closed,
}

impl Refusal {
    pub(crate) fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), cell: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(RefusalCode::Invalid, message)
    }

    pub(crate) fn no_such_cell(id: &str) -> Self {
        let id: String = id.chars().take(80).collect();
        Self::new(RefusalCode::NoSuchCell, format!("there is no cell `{id}` in this notebook"))
    }

    pub(crate) fn conflict(cell: &Cell, seen: u64) -> Self {
        let message = format!(
            "cell `{}` was changed since (revision {seen} was seen, it is at {}); look at it as \
             it is now and decide again",
            cell.id, cell.rev
        );
        Self { code: RefusalCode::Conflict, message, cell: Some(Box::new(cell.clone())) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// The reason why a notebook cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another softland has the notebook open.
    Locked {
        /// The process that has it open, if it is known.
        holder: Option<u32>,
    },
    /// The request cannot be met: another kind of file, or a kernel that does not exist.
    Unfit(String),
    /// The file is not a notebook that can be read.
    NotANotebook(String),
    /// The file system reports an error.
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
