//! One open notebook. Everybody who shares it can edit it and run its cells, and receives every
//! change once.
//!
//! There are two locks: `file` orders the writers of the file, and `shared` guards the state that
//! all watchers see. A change is made in the file's text, saved, and only then becomes visible. So
//! an acknowledged change is on the disk, and a change that cannot be saved has not happened.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use softland_agent::tools::ProgramRunner;
use tokio::sync::{Mutex as AsyncMutex, broadcast};

use crate::disk::{self, LockedFile};
use crate::document::Document;
use crate::kernel::{JupyterStarter, KernelRequest, KernelStarter, NoKernels};
use crate::types::{
    Actor, Change, Edit, EditResult, KernelState, KernelStatus, NotebookState, OpenError, Refusal,
    RefusalCode, RunResult,
};

mod edit;
mod outputs;
mod run;
mod saving;
mod shared;

use saving::SavedDocument;
use shared::SharedState;

/// The number of changes that a watcher may be behind before it has to read the whole state again.
const BEHIND: usize = 256;

/// The options for opening a notebook.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NotebookOptions {
    /// The kernel's name; it takes precedence over the one that the notebook names.
    pub kernel: Option<String>,
    /// The longest time that [`SharedNotebook::run_cell`] waits for a cell.
    pub cell_timeout: Duration,
    /// The longest time that a kernel may take to answer a heartbeat before it counts as silent.
    pub silence: Duration,
    /// The user's state folder: locks, and files for kernels.
    pub state: PathBuf,
    /// The permission to start kernels. Without it, there is no kernel.
    pub programs: Option<ProgramRunner>,
}

impl NotebookOptions {
    /// Creates options for a notebook whose kernels are started by `programs`.
    pub fn new(state: impl Into<PathBuf>, programs: Option<ProgramRunner>) -> Self {
        let (cell_timeout, silence) = (Duration::from_secs(60), Duration::from_secs(10));
        Self { kernel: None, cell_timeout, silence, state: state.into(), programs }
    }
}

/// One open notebook.
pub struct SharedNotebook {
    file: AsyncMutex<SavedDocument>,
    shared: Mutex<SharedState>,
    kernels: Arc<dyn KernelStarter>,
    /// Held while a kernel is started, so that only one is started at a time.
    starting: AsyncMutex<()>,
    options: NotebookOptions,
    path: PathBuf,
    made: bool,
    /// This notebook, for tasks that outlive a call.
    me: Weak<Self>,
}

impl std::fmt::Debug for SharedNotebook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedNotebook").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SharedNotebook {
    /// Opens a notebook and locks it. A missing file is created. No kernel is started yet; if the
    /// kernel that the notebook names does not exist, [`KernelState::why`] says so.
    ///
    /// # Errors
    /// The notebook is open elsewhere, the file is not a notebook, the requested kernel does not
    /// exist, or the file system reports an error. A missing file is not created then.
    pub async fn open(path: &Path, options: NotebookOptions) -> Result<Arc<Self>, OpenError> {
        let (path, name) = (path.to_owned(), options.kernel.clone());
        let locks = state_folder(&options);
        if let (Some(name), Some(programs)) = (&options.kernel, &options.programs) {
            JupyterStarter::check_kernel(programs, name).map_err(OpenError::Unfit)?;
        }
        let opened = run_blocking(move || {
            let text = Document::empty_text(name.as_deref().unwrap_or("python3"));
            let disk = LockedFile::open(&path, &locks, &text)?;
            let shown = disk.path().display().to_string();
            let (text, print) = disk
                .read_text()
                .map_err(|error| OpenError::Io(format!("{shown} cannot be read"), error))?;
            let (document, cells) = Document::from_text(text).map_err(|why| {
                OpenError::NotANotebook(format!("{shown} cannot be opened: {why}"))
            })?;
            Ok((disk, document, cells, print))
        });
        let (disk, document, cells, print) = opened.await?;
        let (path, made) = (disk.path().to_owned(), disk.was_created());
        let name = options
            .kernel
            .as_deref()
            .or_else(|| document.kernel_name())
            .unwrap_or_default()
            .to_owned();
        let has = |programs| JupyterStarter::check_kernel(programs, &name).err();
        let why = options.programs.as_ref().filter(|_| !name.is_empty()).and_then(has);
        let state = NotebookState {
            rev: 0,
            path: path.display().to_string(),
            kernel: KernelState { name, state: KernelStatus::None, why },
            trouble: None,
            cells: cells.into_iter().map(outputs::cell_from_file).collect(),
        };
        let kernels: Arc<dyn KernelStarter> = match options.programs.clone() {
            Some(programs) => Arc::new(JupyterStarter::new(
                programs,
                state_folder(&options),
                disk::state_key(&path),
            )),
            None => Arc::new(NoKernels),
        };
        let notebook = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            file: AsyncMutex::new(SavedDocument::new(disk, document, print)),
            shared: Mutex::new(SharedState::new(state, broadcast::Sender::new(BEHIND))),
            kernels,
            starting: AsyncMutex::new(()),
            options,
            path,
            made,
        });
        tokio::spawn(saving::watch_file(Arc::downgrade(&notebook)));
        Ok(notebook)
    }

    /// Returns the notebook as it is, and a receiver of every change that follows: none is missed
    /// and none comes twice. A watcher that has fallen behind calls this again.
    pub fn watch(&self) -> (NotebookState, broadcast::Receiver<Arc<Change>>) {
        let shared = self.lock_shared();
        (shared.state.clone(), shared.changes.subscribe())
    }

    /// Returns the path of the file, with all links resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the file did not exist and was created.
    #[must_use]
    pub const fn was_created(&self) -> bool {
        self.made
    }

    /// Returns the key under which data of this notebook is kept in the user's state folder.
    #[must_use]
    pub fn state_key(&self) -> String {
        disk::state_key(&self.path)
    }

    /// Returns the longest time that [`Self::run_cell`] waits for a cell.
    #[must_use]
    pub const fn cell_timeout(&self) -> Duration {
        self.options.cell_timeout
    }

    /// Makes an edit. It is saved when this returns. Once begun, the edit is made even if nobody
    /// waits for it.
    ///
    /// # Errors
    /// Returns the reason why nothing was changed.
    pub async fn apply_edit(
        self: &Arc<Self>,
        edit: Edit,
        by: Actor,
    ) -> Result<EditResult, Refusal> {
        let notebook = Arc::clone(self);
        let made = tokio::spawn(async move { notebook.make_edit(edit, by).await }).await;
        made.unwrap_or_else(|error| Err(Refusal::invalid(format!("the edit failed: {error}"))))
    }

    /// Writes the notebook as it is shown, after another program removed or broke the file.
    ///
    /// # Errors
    /// The file can be read, or cannot be written.
    pub async fn rewrite_file(self: &Arc<Self>) -> Result<(), Refusal> {
        let notebook = Arc::clone(self);
        let written = tokio::spawn(async move { notebook.write_shown_state().await }).await;
        written.unwrap_or_else(|error| Err(Refusal::invalid(format!("it failed: {error}"))))
    }

    /// Saves the outputs so far, as it is done every second while cells run.
    ///
    /// # Errors
    /// Returns the reason why they are not saved.
    pub(crate) async fn save_now(&self) -> Result<(), Refusal> {
        let mut file = self.file.lock().await;
        self.save_outputs(&mut file).await
    }

    /// Runs a cell and waits for its end, at most [`Self::cell_timeout`]; a longer cell then goes
    /// on. The kernel is started if there is none. Once the kernel has the cell, it goes on even if
    /// nobody waits. If nobody waits before that, the cell is not begun.
    ///
    /// # Errors
    /// Returns the reason why the cell does not run.
    pub async fn run_cell(self: &Arc<Self>, cell: &str, by: Actor) -> Result<RunResult, Refusal> {
        let begun = self.begin_run(cell, by).await?;
        self.wait_for_run(begun).await
    }

    /// Interrupts the running cell, and cancels those in the queue. Does nothing if none runs.
    pub async fn interrupt_cells(&self) {
        self.cancel_runs().await;
    }

    /// Ends the kernel, if there is one, and starts another.
    ///
    /// # Errors
    /// Returns the reason why there is no kernel now.
    pub async fn restart_kernel(self: &Arc<Self>) -> Result<(), Refusal> {
        let notebook = Arc::clone(self);
        let restarted = tokio::spawn(async move { notebook.replace_kernel().await }).await;
        restarted.unwrap_or_else(|error| {
            Err(Refusal::new(RefusalCode::Kernel, format!("the restart failed: {error}")))
        })
    }

    /// Ends the kernel and saves the outputs. The lock is released when the value is dropped.
    pub async fn close(&self) {
        self.lock_shared().closed = true;
        self.end_kernel("the notebook was closed", KernelStatus::Stopped).await;
    }

    fn lock_shared(&self) -> MutexGuard<'_, SharedState> {
        // A panic between two changes leaves the state before it.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kernel_request(&self, named: Option<&str>) -> KernelRequest {
        let folder = self.path.parent().unwrap_or_else(|| Path::new("/")).to_owned();
        let name = self.options.kernel.as_deref().or(named).map(str::to_owned);
        KernelRequest { name, folder, silence: self.options.silence }
    }
}

/// Returns the folder for locks and kernels' files.
fn state_folder(options: &NotebookOptions) -> PathBuf {
    options.state.join("notebooks")
}

/// Runs work that waits for a disk.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    let failed = |error| OpenError::Io("internal error".to_owned(), std::io::Error::other(error));
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}
