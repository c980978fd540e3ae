//! The state that everybody who shares a notebook sees, and the announcement of changes.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};

use super::run::CellRun;
use crate::kernel::KernelCommand;
use crate::types::{
    Actor, Cell, Change, ChangeKind, KernelState, NotebookState, Refusal, RefusalCode,
};

/// The visible state, and the data that belongs to it.
pub(super) struct SharedState {
    pub(super) state: NotebookState,
    pub(super) changes: broadcast::Sender<Arc<Change>>,
    /// The channel for commands to the kernel, while there is one.
    pub(super) orders: Option<mpsc::UnboundedSender<KernelCommand>>,
    /// The number of the current kernel: events of an earlier kernel are ignored.
    pub(super) generation: u64,
    /// The run that the kernel executes.
    pub(super) running: Option<CellRun>,
    /// The runs that wait for it.
    pub(super) queue: VecDeque<CellRun>,
    /// The newest ended run of each cell, by its number: its threads may still say something.
    pub(super) ended: BTreeMap<u64, CellRun>,
    /// The number of runs so far.
    pub(super) runs: u64,
    /// Cells whose outputs the file does not have yet.
    pub(super) unsaved: BTreeSet<String>,
    /// The outputs displayed under a name: cells, and indices of their outputs.
    pub(super) displays: HashMap<String, Vec<(String, usize)>>,
    /// True if the kernel has ended by itself, and none was started since.
    pub(super) died: bool,
    /// The time for which the kernel has not answered, if that is too long.
    pub(super) silent: Option<Duration>,
    pub(super) closed: bool,
}

impl SharedState {
    pub(super) fn new(state: NotebookState, changes: broadcast::Sender<Arc<Change>>) -> Self {
        Self {
            state,
            changes,
            orders: None,
            generation: 0,
            running: None,
            queue: VecDeque::new(),
            ended: BTreeMap::new(),
            runs: 0,
            unsaved: BTreeSet::new(),
            displays: HashMap::new(),
            died: false,
            silent: None,
            closed: false,
        }
    }

    /// Makes a change and announces it.
    pub(super) fn announce_change(&mut self, by: Option<Actor>, what: ChangeKind) {
        self.state.rev += 1;
        apply_change(&mut self.state, &what);
        // There may be no watcher.
        let _ = self.changes.send(Arc::new(Change { rev: self.state.rev, by, what }));
    }

    /// Announces the kernel's state, if it is new.
    pub(super) fn announce_kernel(&mut self, kernel: KernelState) {
        if self.state.kernel != kernel {
            self.announce_change(None, ChangeKind::Kernel(kernel));
        }
    }

    /// Announces the problem with the file, or its end, if that is new.
    pub(super) fn announce_trouble(&mut self, trouble: Option<String>) {
        if self.state.trouble != trouble {
            self.announce_change(None, ChangeKind::File { trouble });
        }
    }

    pub(super) fn find_cell(&self, id: &str) -> Result<(usize, &Cell), Refusal> {
        self.state.find_cell(id).ok_or_else(|| Refusal::no_such_cell(id))
    }

    /// Checks that the notebook is open.
    ///
    /// # Errors
    /// The notebook is closed.
    pub(super) fn require_open(&self) -> Result<(), Refusal> {
        if self.closed {
            return Err(Refusal::new(RefusalCode::Closed, "the notebook is closed"));
        }
        Ok(())
    }
}

/// Applies a change to a state. A watcher with a state and all changes after it has the current
/// state.
pub(super) fn apply_change(state: &mut NotebookState, what: &ChangeKind) {
    let cell = |state: &mut NotebookState, id: &str, change: &dyn Fn(&mut Cell)| {
        if let Some(cell) = state.cells.iter_mut().find(|cell| cell.id == id) {
            change(cell);
        }
    };
    match what {
        ChangeKind::CellCreated { index, cell } => {
            state.cells.insert((*index).min(state.cells.len()), cell.clone());
        }
        ChangeKind::CellUpdated { id, cell: new } => cell(state, id, &|cell| *cell = new.clone()),
        ChangeKind::CellDeleted { id } => state.cells.retain(|cell| cell.id != *id),
        ChangeKind::CellMoved { id, index } => {
            if let Some(from) = state.cells.iter().position(|cell| cell.id == *id) {
                let cell = state.cells.remove(from);
                state.cells.insert((*index).min(state.cells.len()), cell);
            }
        }
        ChangeKind::CellRunning { id } => cell(state, id, &|cell| {
            cell.running = true;
            cell.outputs.clear();
            cell.execution_count = None;
        }),
        ChangeKind::CellOutput { id, index, output } => {
            cell(state, id, &|cell| match cell.outputs.get_mut(*index) {
                Some(place) => *place = output.clone(),
                None => cell.outputs.push(output.clone()),
            })
        }
        ChangeKind::CellCleared { id } => cell(state, id, &|cell| {
            cell.outputs.clear();
            cell.execution_count = None;
        }),
        ChangeKind::CellRan { id, execution_count, .. } => cell(state, id, &|cell| {
            cell.running = false;
            cell.execution_count = *execution_count;
        }),
        ChangeKind::Kernel(kernel) => state.kernel = kernel.clone(),
        ChangeKind::File { trouble } => state.trouble.clone_from(trouble),
        ChangeKind::Reloaded { state: new } => *state = new.clone(),
    }
}
