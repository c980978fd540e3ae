//! What everybody who shares a notebook sees, and how they hear of changes.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};

use super::run::Run;
use crate::kernel::Order;
use crate::types::{By, Cell, Change, KernelState, Refused, RefusedCode, State, What};

/// What is seen, and what belongs to it.
pub(super) struct Shared {
    pub(super) state: State,
    pub(super) changes: broadcast::Sender<Arc<Change>>,
    /// The kernel's ear, while there is a kernel.
    pub(super) orders: Option<mpsc::UnboundedSender<Order>>,
    /// Which kernel it is: what an earlier one still says counts for nothing.
    pub(super) generation: u64,
    /// The run that the kernel has, and those behind it.
    pub(super) running: Option<Run>,
    pub(super) queue: VecDeque<Run>,
    pub(super) runs: u64,
    /// Cells whose outputs the file does not have yet.
    pub(super) unsaved: BTreeSet<String>,
    /// What was displayed under a name: cells, and places among their outputs.
    pub(super) displays: HashMap<String, Vec<(String, usize)>>,
    /// The kernel has ended by itself, and none was started since.
    pub(super) died: bool,
    /// For how long the kernel has not answered, where that is too long.
    pub(super) silent: Option<Duration>,
    pub(super) closed: bool,
}

impl Shared {
    pub(super) fn new(state: State, changes: broadcast::Sender<Arc<Change>>) -> Self {
        Self {
            state,
            changes,
            orders: None,
            generation: 0,
            running: None,
            queue: VecDeque::new(),
            runs: 0,
            unsaved: BTreeSet::new(),
            displays: HashMap::new(),
            died: false,
            silent: None,
            closed: false,
        }
    }

    /// Makes a change and tells it.
    pub(super) fn tell(&mut self, by: Option<By>, what: What) {
        self.state.rev += 1;
        apply(&mut self.state, &what);
        // Nobody need be watching.
        let _ = self.changes.send(Arc::new(Change { rev: self.state.rev, by, what }));
    }

    /// Tells how the kernel stands, if that is new.
    pub(super) fn tell_kernel(&mut self, kernel: KernelState) {
        if self.state.kernel != kernel {
            self.tell(None, What::Kernel(kernel));
        }
    }

    /// Tells what is wrong with the file, or that nothing is any more, if that is new.
    pub(super) fn tell_trouble(&mut self, trouble: Option<String>) {
        if self.state.trouble != trouble {
            self.tell(None, What::File { trouble });
        }
    }

    pub(super) fn cell(&self, id: &str) -> Result<(usize, &Cell), Refused> {
        self.state.find(id).ok_or_else(|| Refused::no_such_cell(id))
    }

    /// # Errors
    /// The notebook is closed.
    pub(super) fn open(&self) -> Result<(), Refused> {
        if self.closed {
            return Err(Refused::new(RefusedCode::Closed, "the notebook is closed"));
        }
        Ok(())
    }
}

/// A state with a change made. Who has a state and hears all changes has the state that follows.
pub(super) fn apply(state: &mut State, what: &What) {
    let cell = |state: &mut State, id: &str, change: &dyn Fn(&mut Cell)| {
        if let Some(cell) = state.cells.iter_mut().find(|cell| cell.id == id) {
            change(cell);
        }
    };
    match what {
        What::CellCreated { index, cell } => {
            state.cells.insert((*index).min(state.cells.len()), cell.clone());
        }
        What::CellUpdated { id, cell: new } => cell(state, id, &|cell| *cell = new.clone()),
        What::CellDeleted { id } => state.cells.retain(|cell| cell.id != *id),
        What::CellMoved { id, index } => {
            if let Some(from) = state.cells.iter().position(|cell| cell.id == *id) {
                let cell = state.cells.remove(from);
                state.cells.insert((*index).min(state.cells.len()), cell);
            }
        }
        What::CellRunning { id } => cell(state, id, &|cell| {
            cell.running = true;
            cell.outputs.clear();
            cell.execution_count = None;
        }),
        What::CellOutput { id, index, output } => {
            cell(state, id, &|cell| match cell.outputs.get_mut(*index) {
                Some(place) => *place = output.clone(),
                None => cell.outputs.push(output.clone()),
            })
        }
        What::CellCleared { id } => cell(state, id, &|cell| {
            cell.outputs.clear();
            cell.execution_count = None;
        }),
        What::CellRan { id, execution_count, .. } => cell(state, id, &|cell| {
            cell.running = false;
            cell.execution_count = *execution_count;
        }),
        What::Kernel(kernel) => state.kernel = kernel.clone(),
        What::File { trouble } => state.trouble.clone_from(trouble),
        What::Reloaded { state: new } => *state = new.clone(),
    }
}
