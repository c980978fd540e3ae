//! A notebook that people and an assistant share: an `.ipynb` file, a Jupyter kernel, and tools.
//!
//! A [`SharedNotebook`] is one open notebook. It holds the file's lock, makes and saves edits, runs
//! cells, and sends every change to all watchers, once and in order. The file is edited by
//! splicing: whatever is not changed keeps its bytes.
//!
//! A [`Chat`] is the conversation with the notebook's assistant, and a [`Server`] shows both to
//! pages.
//!
//! This crate prints nothing and reads no argument.

mod chat;
mod cut;
mod disk;
mod document;
mod kernel;
mod mend;
mod notebook;
mod platform;
mod server;
mod tools;
mod types;

pub use chat::{Chat, ChatOptions, ExplainEvent, QuestionOutcome, StoppedBy};
pub use notebook::{NotebookOptions, SharedNotebook};
pub use server::{Server, ServerOptions};
pub use tools::notebook_tools;
pub use types::{
    Actor, Cell, CellType, Change, ChangeKind, Edit, EditResult, KernelState, KernelStatus,
    NotebookState, OpenError, Refusal, RefusalCode, RunResult,
};
