//! Writes the file: one change at a time, and never over the changes of another program.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{SharedNotebook, outputs};
use crate::disk::{FileStamp, LockedFile};
use crate::document::{Document, FileCell};
use crate::types::{Cell, CellType, ChangeKind, NotebookState, Refusal, RefusalCode};

/// The interval at which the file is checked, and outputs of running cells are saved.
const PAUSE: Duration = Duration::from_secs(1);

/// The file and its text.
#[derive(Debug)]
pub(super) struct SavedDocument {
    disk: Arc<LockedFile>,
    pub(super) document: Document,
    print: FileStamp,
    /// The state in which the file could not be read, and the reason.
    bad: Option<(FileStamp, Refusal)>,
}

impl SavedDocument {
    pub(super) fn new(disk: LockedFile, document: Document, print: FileStamp) -> Self {
        Self { disk: Arc::new(disk), document, print, bad: None }
    }

    /// Saves a document; it replaces the current one only after it is saved.
    pub(super) async fn save_document(&mut self, document: Document) -> Result<(), Refusal> {
        let (disk, document) = (Arc::clone(&self.disk), document);
        let saved = run_blocking(move || Ok((disk.save_text(document.text())?, document))).await;
        let (print, document) = saved
            .map_err(|error| file_refusal(format!("the notebook cannot be saved: {error}")))?;
        self.print = print;
        self.document = document;
        self.bad = None;
        Ok(())
    }

    /// Reads the file again, if another program has changed it.
    async fn reload_changed(&mut self) -> Result<Option<Vec<FileCell>>, Refusal> {
        let lost =
            |error| file_refusal(format!("the notebook's file cannot be read any more: {error}"));
        let disk = Arc::clone(&self.disk);
        let print = run_blocking(move || disk.read_stamp()).await.map_err(lost)?;
        if print == self.print {
            return Ok(None);
        }
        if let Some((_, why)) = self.bad.as_ref().filter(|(bad, _)| *bad == print) {
            return Err(why.clone());
        }
        let read = self.reload_text().await;
        if let Err(why) = &read {
            self.bad = Some((print, why.clone()));
        }
        read
    }

    async fn reload_text(&mut self) -> Result<Option<Vec<FileCell>>, Refusal> {
        let told = "it was changed by another program, and nothing is written over that";
        let lost =
            |error| file_refusal(format!("the notebook's file cannot be read any more: {error}"));
        let disk = Arc::clone(&self.disk);
        let (text, print) = run_blocking(move || disk.read_text()).await.map_err(lost)?;
        if text == self.document.text() {
            self.print = print;
            return Ok(None);
        }
        let (document, cells) = Document::from_text(text).map_err(|why| {
            file_refusal(format!("the notebook's file cannot be read any more: {why}; {told}"))
        })?;
        self.document = document;
        self.print = print;
        Ok(Some(cells))
    }
}

/// Runs work that waits for a disk.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

fn file_refusal(message: String) -> Refusal {
    Refusal::new(RefusalCode::File, message)
}

impl SharedNotebook {
    /// Checks whether another program has changed or removed the file. If so, all watchers are
    /// told.
    pub(super) async fn check_file(&self, file: &mut SavedDocument) -> Result<(), Refusal> {
        let changed = file.reload_changed().await;
        let mut shared = self.lock_shared();
        shared.announce_trouble(changed.as_ref().err().map(|why| why.message.clone()));
        let Some(read) = changed? else { return Ok(()) };
        let old = &shared.state;
        let cells = merge_cells(read, &old.cells, old.rev + 1, file.document.has_names());
        file.document.rename_cells(cells.iter().map(|cell| cell.id.clone()).collect());
        let state = NotebookState { rev: old.rev + 1, cells, ..old.clone() };
        shared.unsaved.retain(|id| state.find_cell(id).is_some());
        shared.displays.clear();
        shared.announce_change(None, ChangeKind::Reloaded { state });
        Ok(())
    }

    /// Saves the outputs that the file does not have yet.
    pub(super) async fn save_outputs(&self, file: &mut SavedDocument) -> Result<(), Refusal> {
        if self.lock_shared().unsaved.is_empty() {
            return Ok(());
        }
        self.check_file(file).await?;
        self.write_unsaved(file).await
    }

    /// Writes the notebook as it is shown, after another program removed or broke the file.
    pub(super) async fn write_shown_state(&self) -> Result<(), Refusal> {
        self.lock_shared().require_open()?;
        let mut file = self.file.lock().await;
        if self.check_file(&mut file).await.is_ok() {
            return Err(Refusal::invalid("the file can be read; nothing is written over it"));
        }
        self.write_unsaved(&mut file).await?;
        self.lock_shared().announce_trouble(None);
        Ok(())
    }

    /// Saves the document with the outputs that it does not have yet.
    async fn write_unsaved(&self, file: &mut SavedDocument) -> Result<(), Refusal> {
        let cells: Vec<Cell> = {
            let shared = self.lock_shared();
            let unsaved =
                |cell: &&Cell| cell.kind == CellType::Code && shared.unsaved.contains(&cell.id);
            shared.state.cells.iter().filter(unsaved).cloned().collect()
        };
        let mut document = file.document.clone();
        for cell in &cells {
            document = document
                .set_outputs(&cell.id, &cell.outputs, cell.execution_count)
                .map_err(file_refusal)?;
        }
        file.save_document(document).await?;
        let mut shared = self.lock_shared();
        for cell in cells {
            // The cell may have new outputs since.
            if shared.state.find_cell(&cell.id).is_none_or(|(_, now)| now.outputs == cell.outputs) {
                shared.unsaved.remove(&cell.id);
            }
        }
        Ok(())
    }
}

/// Returns the cells of a changed file, with the known facts about them. A cell with the same name
/// and source is the same cell. In a file without names, it is the next cell with that source.
fn merge_cells(read: Vec<FileCell>, old: &[Cell], rev: u64, has_names: bool) -> Vec<Cell> {
    let mut rest: HashMap<&str, &Cell> = old.iter().map(|cell| (cell.id.as_str(), cell)).collect();
    let mut cells: Vec<Cell> = Vec::with_capacity(read.len());
    let mut next = 0;
    for read in read {
        let mut cell = Cell { rev, ..outputs::cell_from_file(read) };
        if !has_names {
            let behind = old.iter().enumerate().skip(next);
            let same = |other: &Cell| other.source == cell.source && other.kind == cell.kind;
            let found = behind.into_iter().find(|(_, other)| same(other));
            match found {
                Some((at, other)) => {
                    next = at + 1;
                    cell.id.clone_from(&other.id);
                }
                None => cell.id = super::edit::new_id(),
            }
        }
        if let Some(known) = rest.remove(cell.id.as_str())
            && known.kind == cell.kind
        {
            if known.source == cell.source {
                cell.rev = known.rev;
                cell.by = known.by;
            }
            if known.running {
                cell.running = true;
                cell.outputs.clone_from(&known.outputs);
                cell.execution_count = known.execution_count;
            }
        }
        cells.push(cell);
    }
    cells
}

/// Checks the file and saves outputs, as long as the notebook is open.
pub(super) async fn watch_file(notebook: Weak<SharedNotebook>) {
    let mut pause = tokio::time::interval(PAUSE);
    pause.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        pause.tick().await;
        let Some(notebook) = notebook.upgrade() else { return };
        if notebook.lock_shared().closed {
            return;
        }
        // The next edit reports the problem with the file.
        let mut file = notebook.file.lock().await;
        let _ = notebook.check_file(&mut file).await;
        let _ = notebook.save_outputs(&mut file).await;
    }
}
