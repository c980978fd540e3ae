//! One open notebook: who shares it edits it, runs its cells, and hears of every change once.
//!
//! Two locks: `desk` orders those who write the file, and `shared` is what everybody sees. A change
//! is made at the desk, saved, and only then seen; so what is acknowledged is on the disk, and what
//! cannot be saved has not happened.

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

/// How many changes somebody who watches may be behind before they are told to look anew.
const BEHIND: usize = 256;

/// How a notebook is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RoomOptions {
    /// The kernel's name, over the one that the notebook names.
    pub kernel: Option<String>,
    /// How long [`Room::run`] waits for a cell.
    pub cell_timeout: Duration,
    /// How long a kernel may take to answer a heartbeat until it is said not to answer.
    pub silence: Duration,
    /// The user's folder for state: locks, and files for kernels.
    pub state: PathBuf,
    /// The leave to start kernels; without it there is none.
    pub programs: Option<Programs>,
}

impl RoomOptions {
    /// A notebook whose kernels are started by `programs`.
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
    /// One kernel is started at a time.
    starting: AsyncMutex<()>,
    options: RoomOptions,
    path: PathBuf,
    made: bool,
    /// This room, for what goes on after a call.
    me: Weak<Self>,
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Room").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Room {
    /// Opens a notebook and locks it. A file that is not there is made. No kernel is started yet;
    /// where the one that the notebook names is not there, [`KernelState::why`] says so.
    ///
    /// # Errors
    /// It is open elsewhere, it is not a notebook, the kernel asked for is not there, or the file
    /// system says no. Where there was no file, there is none then.
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

    /// The notebook as it is, and every change that follows, none missed and none twice. Who is
    /// told that they are behind asks again.
    pub fn watch(&self) -> (State, broadcast::Receiver<Arc<Change>>) {
        let shared = self.shared();
        (shared.state.clone(), shared.changes.subscribe())
    }

    /// The file, behind every link.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there was no file, so that it was made.
    #[must_use]
    pub const fn was_made(&self) -> bool {
        self.made
    }

    /// A name for what is kept of this notebook in the user's folder for state.
    #[must_use]
    pub fn key(&self) -> String {
        disk::key(&self.path)
    }

    /// How long [`Self::run`] waits for a cell.
    #[must_use]
    pub const fn cell_timeout(&self) -> Duration {
        self.options.cell_timeout
    }

    /// Makes an edit. It is saved when this returns. Once begun it is made also where nobody waits
    /// for it.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub async fn edit(self: &Arc<Self>, edit: Edit, by: By) -> Result<Edited, Refused> {
        let room = Arc::clone(self);
        let made = tokio::spawn(async move { room.make(edit, by).await }).await;
        made.unwrap_or_else(|error| Err(Refused::invalid(format!("the edit failed: {error}"))))
    }

    /// Writes the file anew, as the notebook is shown, where others have removed or broken it.
    ///
    /// # Errors
    /// It can be read, or cannot be written.
    pub async fn write_anew(self: &Arc<Self>) -> Result<(), Refused> {
        let room = Arc::clone(self);
        let written = tokio::spawn(async move { room.save_anew().await }).await;
        written.unwrap_or_else(|error| Err(Refused::invalid(format!("it failed: {error}"))))
    }

    /// Saves what cells have given until now, as it is done every second while they run.
    ///
    /// # Errors
    /// Why it is not saved.
    pub(crate) async fn save_now(&self) -> Result<(), Refused> {
        let mut desk = self.desk.lock().await;
        self.save_outputs(&mut desk).await
    }

    /// Runs a cell, starting the kernel if there is none, and waits for its end, but not longer
    /// than [`Self::cell_timeout`]: the cell then goes on. Once the kernel has it, it goes on also
    /// where nobody waits; where nobody does before that, it is not begun.
    ///
    /// # Errors
    /// Why it does not run.
    pub async fn run(self: &Arc<Self>, cell: &str, by: By) -> Result<Ran, Refused> {
        let begun = self.begin_run(cell, by).await?;
        self.end_of(begun).await
    }

    /// Breaks off the cell that runs, and those that wait to run. Nothing where none does.
    pub async fn interrupt(&self) {
        self.break_off().await;
    }

    /// Ends the kernel, if there is one, and starts another.
    ///
    /// # Errors
    /// Why there is no kernel now.
    pub async fn restart(self: &Arc<Self>) -> Result<(), Refused> {
        let room = Arc::clone(self);
        let restarted = tokio::spawn(async move { room.start_again().await }).await;
        restarted.unwrap_or_else(|error| {
            Err(Refused::new(RefusedCode::Kernel, format!("the restart failed: {error}")))
        })
    }

    /// Ends the kernel and saves what there is. The lock ends with the room itself.
    pub async fn close(&self) {
        self.shared().closed = true;
        self.end_kernel("the notebook was closed", KernelStatus::Stopped).await;
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // A panic between two changes leaves what was seen before.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wanted(&self, named: Option<&str>) -> Wanted {
        let folder = self.path.parent().unwrap_or_else(|| Path::new("/")).to_owned();
        let name = self.options.kernel.as_deref().or(named).map(str::to_owned);
        Wanted { name, folder, silence: self.options.silence }
    }
}

/// The folder for locks and kernels' files.
fn folder(options: &RoomOptions) -> PathBuf {
    options.state.join("notebooks")
}

/// Work that waits for a disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    let failed = |error| OpenError::Io("internal error".to_owned(), std::io::Error::other(error));
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}
