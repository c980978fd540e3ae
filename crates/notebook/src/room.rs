//! One open notebook. Everybody who shares it can edit it and run its cells, and receives every
//! change once.
//!
//! There are two locks: `desk` orders the writers of the file, and `shared` guards the state that
//! all watchers see. A change is made at the desk, saved, and only then becomes visible. So an
//! acknowledged change is on the disk, and a change that cannot be saved has not happened.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use softland_agent::tools::Programs;
use tokio::sync::{Mutex as AsyncMutex, broadcast};

use crate::disk::{self, Disk};
use crate::document::Document;
use crate::kernel::{Jupyter, Kernels, NoKernels, Wanted};
use crate::types::{
    By, Change, Edit, Edited, KernelState, KernelStatus, OpenError, Ran, Refused, RefusedCode,
    State,
};

mod desk;
mod edit;
mod given;
mod run;
mod shared;

use desk::Desk;
use shared::Shared;

/// The number of changes that a watcher may be behind before it has to read the whole state again.
const BEHIND: usize = 256;

/// The options for opening a notebook.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RoomOptions {
    /// The kernel's name; it takes precedence over the one that the notebook names.
    pub kernel: Option<String>,
    /// The longest time that [`Room::run`] waits for a cell.
    pub cell_timeout: Duration,
    /// The longest time that a kernel may take to answer a heartbeat before it counts as silent.
    pub silence: Duration,
    /// The user's state folder: locks, and files for kernels.
    pub state: PathBuf,
    /// The permission to start kernels. Without it, there is no kernel.
    pub programs: Option<Programs>,
}

impl RoomOptions {
    /// Creates options for a notebook whose kernels are started by `programs`.
    pub fn new(state: impl Into<PathBuf>, programs: Option<Programs>) -> Self {
        let (cell_timeout, silence) = (Duration::from_secs(60), Duration::from_secs(10));
        Self { kernel: None, cell_timeout, silence, state: state.into(), programs }
    }
}

/// One open notebook.
pub struct Room {
    desk: AsyncMutex<Desk>,
    shared: Mutex<Shared>,
    kernels: Arc<dyn Kernels>,
    /// Held while a kernel is started, so that only one is started at a time.
    starting: AsyncMutex<()>,
    options: RoomOptions,
    path: PathBuf,
    made: bool,
    /// This notebook, for tasks that outlive a call.
    me: Weak<Self>,
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Room").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Room {
    /// Opens a notebook and locks it. A missing file is created. No kernel is started yet; if the
    /// kernel that the notebook names does not exist, [`KernelState::why`] says so.
    ///
    /// # Errors
    /// The notebook is open elsewhere, the file is not a notebook, the requested kernel does not
    /// exist, or the file system reports an error. A missing file is not created then.
    pub async fn open(path: &Path, options: RoomOptions) -> Result<Arc<Self>, OpenError> {
        let (path, name) = (path.to_owned(), options.kernel.clone());
        let locks = folder(&options);
        if let (Some(name), Some(programs)) = (&options.kernel, &options.programs) {
            Jupyter::has(programs, name).map_err(OpenError::Unfit)?;
        }
        let opened = blocking(move || {
            let text = Document::empty(name.as_deref().unwrap_or("python3"));
            let disk = Disk::open(&path, &locks, &text)?;
            let shown = disk.path().display().to_string();
            let (text, print) = disk
                .read()
                .map_err(|error| OpenError::Io(format!("{shown} cannot be read"), error))?;
            let (document, cells) = Document::read(text).map_err(|why| {
                OpenError::NotANotebook(format!("{shown} cannot be opened: {why}"))
            })?;
            Ok((disk, document, cells, print))
        });
        let (disk, document, cells, print) = opened.await?;
        let (path, made) = (disk.path().to_owned(), disk.made());
        let name =
            options.kernel.as_deref().or_else(|| document.kernel()).unwrap_or_default().to_owned();
        let has = |programs| Jupyter::has(programs, &name).err();
        let why = options.programs.as_ref().filter(|_| !name.is_empty()).and_then(has);
        let state = State {
            rev: 0,
            path: path.display().to_string(),
            kernel: KernelState { name, state: KernelStatus::None, why },
            trouble: None,
            cells: cells.into_iter().map(given::shown).collect(),
        };
        let kernels: Arc<dyn Kernels> = match options.programs.clone() {
            Some(programs) => Arc::new(Jupyter::new(programs, folder(&options), disk::key(&path))),
            None => Arc::new(NoKernels),
        };
        let room = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            desk: AsyncMutex::new(Desk::new(disk, document, print)),
            shared: Mutex::new(Shared::new(state, broadcast::Sender::new(BEHIND))),
            kernels,
            starting: AsyncMutex::new(()),
            options,
            path,
            made,
        });
        tokio::spawn(desk::keep(Arc::downgrade(&room)));
        Ok(room)
    }

    /// Returns the notebook as it is, and a receiver of every change that follows: none is missed
    /// and none comes twice. A watcher that has fallen behind calls this again.
    pub fn watch(&self) -> (State, broadcast::Receiver<Arc<Change>>) {
        let shared = self.shared();
        (shared.state.clone(), shared.changes.subscribe())
    }

    /// Returns the path of the file, with all links resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the file did not exist and was created.
    #[must_use]
    pub const fn was_made(&self) -> bool {
        self.made
    }

    /// Returns the key under which data of this notebook is kept in the user's state folder.
    #[must_use]
    pub fn key(&self) -> String {
        disk::key(&self.path)
    }

    /// Returns the longest time that [`Self::run`] waits for a cell.
    #[must_use]
    pub const fn cell_timeout(&self) -> Duration {
        self.options.cell_timeout
    }

    /// Makes an edit. It is saved when this returns. Once begun, the edit is made even if nobody
    /// waits for it.
    ///
    /// # Errors
    /// Returns the reason why nothing was changed.
    pub async fn edit(self: &Arc<Self>, edit: Edit, by: By) -> Result<Edited, Refused> {
        let room = Arc::clone(self);
        let made = tokio::spawn(async move { room.make(edit, by).await }).await;
        made.unwrap_or_else(|error| Err(Refused::invalid(format!("the edit failed: {error}"))))
    }

    /// Writes the notebook as it is shown, after another program removed or broke the file.
    ///
    /// # Errors
    /// The file can be read, or cannot be written.
    pub async fn write_anew(self: &Arc<Self>) -> Result<(), Refused> {
        let room = Arc::clone(self);
        let written = tokio::spawn(async move { room.save_anew().await }).await;
        written.unwrap_or_else(|error| Err(Refused::invalid(format!("it failed: {error}"))))
    }

    /// Saves the outputs so far, as it is done every second while cells run.
    ///
    /// # Errors
    /// Returns the reason why they are not saved.
    pub(crate) async fn save_now(&self) -> Result<(), Refused> {
        let mut desk = self.desk.lock().await;
        self.save_outputs(&mut desk).await
    }

    /// Runs a cell and waits for its end, at most [`Self::cell_timeout`]; a longer cell then goes
    /// on. The kernel is started if there is none. Once the kernel has the cell, it goes on even if
    /// nobody waits. If nobody waits before that, the cell is not begun.
    ///
    /// # Errors
    /// Returns the reason why the cell does not run.
    pub async fn run(self: &Arc<Self>, cell: &str, by: By) -> Result<Ran, Refused> {
        let begun = self.begin_run(cell, by).await?;
        self.end_of(begun).await
    }

    /// Interrupts the running cell, and cancels those in the queue. Does nothing if none runs.
    pub async fn interrupt(&self) {
        self.break_off().await;
    }

    /// Ends the kernel, if there is one, and starts another.
    ///
    /// # Errors
    /// Returns the reason why there is no kernel now.
    pub async fn restart(self: &Arc<Self>) -> Result<(), Refused> {
        let room = Arc::clone(self);
        let restarted = tokio::spawn(async move { room.start_again().await }).await;
        restarted.unwrap_or_else(|error| {
            Err(Refused::new(RefusedCode::Kernel, format!("the restart failed: {error}")))
        })
    }

    /// Ends the kernel and saves the outputs. The lock is released when the value is dropped.
    pub async fn close(&self) {
        self.shared().closed = true;
        self.end_kernel("the notebook was closed", KernelStatus::Stopped).await;
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // A panic between two changes leaves the state before it.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wanted(&self, named: Option<&str>) -> Wanted {
        let folder = self.path.parent().unwrap_or_else(|| Path::new("/")).to_owned();
        let name = self.options.kernel.as_deref().or(named).map(str::to_owned);
        Wanted { name, folder, silence: self.options.silence }
    }
}

/// Returns the folder for locks and kernels' files.
fn folder(options: &RoomOptions) -> PathBuf {
    options.state.join("notebooks")
}

/// Runs work that waits for a disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    let failed = |error| OpenError::Io("internal error".to_owned(), std::io::Error::other(error));
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}
