//! Edits of a notebook's cells.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use super::SharedNotebook;
use crate::document::Document;
use crate::types::{Actor, Cell, CellType, ChangeKind, Edit, EditResult, Refusal, RefusalCode};

/// The longest source of a cell, in bytes.
const MAX_SOURCE: usize = 1024 * 1024;

/// The most cells of a notebook to which cells can be added.
const MAX_CELLS: usize = 10_000;

/// The effect of an edit: the file after it, and the change to announce.
struct EditPlan {
    document: Option<Document>,
    what: Option<ChangeKind>,
    index: usize,
    /// The cell after the edit, if there is one.
    cell: Option<String>,
}

impl SharedNotebook {
    pub(super) async fn make_edit(&self, edit: Edit, by: Actor) -> Result<EditResult, Refusal> {
        let mut file = self.file.lock().await;
        self.check_file(&mut file).await?;
        let plan = self.plan_edit(&file.document, edit, by)?;
        if let Some(document) = plan.document {
            file.save_document(document).await?;
        }
        let mut shared = self.lock_shared();
        if let Some(what) = plan.what {
            if let ChangeKind::CellCleared { id } | ChangeKind::CellDeleted { id } = &what {
                let id = id.clone();
                shared.unsaved.remove(&id);
                shared.forget_displays(&id);
            }
            shared.announce_change(Some(by), what);
        }
        let cell =
            plan.cell.and_then(|id| shared.state.find_cell(&id).map(|(_, cell)| cell.clone()));
        Ok(EditResult { rev: shared.state.rev, cell, index: plan.index })
    }

    fn plan_edit(&self, document: &Document, edit: Edit, by: Actor) -> Result<EditPlan, Refusal> {
        let shared = self.lock_shared();
        shared.require_open()?;
        // The caller has locked the file: this edit is the next one.
        let rev = shared.state.rev + 1;
        match edit {
            Edit::CreateCell { index, kind, source } => {
                let id = loop {
                    let id = new_id();
                    if shared.state.find_cell(&id).is_none() {
                        break id;
                    }
                };
                let cell = Cell {
                    id,
                    kind,
                    source,
                    rev,
                    outputs: Vec::new(),
                    execution_count: None,
                    running: false,
                    by,
                };
                plan_creation(document, index, cell, shared.state.cells.len())
            }
            Edit::UpdateCell { id, rev: seen, source } => {
                check_source(&source)?;
                let (index, cell) = shared.find_cell(&id)?;
                check_revision(cell, seen)?;
                if cell.source == source {
                    return Ok(EditPlan { document: None, what: None, index, cell: Some(id) });
                }
                let document = document.update_cell(&id, &source).map_err(document_refusal)?;
                let cell = Cell { source, rev, by, ..cell.clone() };
                let what = ChangeKind::CellUpdated { id: id.clone(), cell };
                Ok(EditPlan { document: Some(document), what: Some(what), index, cell: Some(id) })
            }
            Edit::DeleteCell { id, rev: seen } => {
                let (index, cell) = shared.find_cell(&id)?;
                check_revision(cell, seen)?;
                check_idle(cell, "deleted")?;
                let document = document.delete_cell(&id).map_err(document_refusal)?;
                let what = ChangeKind::CellDeleted { id };
                Ok(EditPlan { document: Some(document), what: Some(what), index, cell: None })
            }
            Edit::MoveCell { id, index } => {
                let (from, _) = shared.find_cell(&id)?;
                let index = index.min(shared.state.cells.len() - 1);
                if from == index {
                    return Ok(EditPlan { document: None, what: None, index, cell: Some(id) });
                }
                let document = document.move_cell(&id, index).map_err(document_refusal)?;
                let what = ChangeKind::CellMoved { id: id.clone(), index };
                Ok(EditPlan { document: Some(document), what: Some(what), index, cell: Some(id) })
            }
            Edit::ClearOutputs { id } => {
                let (index, cell) = shared.find_cell(&id)?;
                if cell.kind != CellType::Code {
                    return Err(Refusal::invalid("only code cells have outputs"));
                }
                check_idle(cell, "cleared")?;
                let document = document.set_outputs(&id, &[], None).map_err(document_refusal)?;
                let what = ChangeKind::CellCleared { id: id.clone() };
                Ok(EditPlan { document: Some(document), what: Some(what), index, cell: Some(id) })
            }
        }
    }
}

fn plan_creation(
    document: &Document,
    index: Option<usize>,
    cell: Cell,
    count: usize,
) -> Result<EditPlan, Refusal> {
    check_source(&cell.source)?;
    if count >= MAX_CELLS {
        return Err(Refusal::invalid(format!("a notebook has at most {MAX_CELLS} cells")));
    }
    let index = index.unwrap_or(count);
    if index > count {
        return Err(Refusal::invalid(format!(
            "there is no place {index}: the notebook has {count} cells, counted from 0"
        )));
    }
    let document =
        document.create_cell(index, &cell.id, cell.kind, &cell.source).map_err(document_refusal)?;
    let id = cell.id.clone();
    let what = ChangeKind::CellCreated { index, cell };
    Ok(EditPlan { document: Some(document), what: Some(what), index, cell: Some(id) })
}

fn check_source(source: &str) -> Result<(), Refusal> {
    if source.len() > MAX_SOURCE {
        return Err(Refusal::invalid(format!(
            "a cell's source may have {MAX_SOURCE} bytes; this one has {}",
            source.len()
        )));
    }
    Ok(())
}

fn check_revision(cell: &Cell, seen: u64) -> Result<(), Refusal> {
    if cell.rev != seen { Err(Refusal::conflict(cell, seen)) } else { Ok(()) }
}

fn check_idle(cell: &Cell, done: &str) -> Result<(), Refusal> {
    if cell.running {
        return Err(Refusal::invalid(format!(
            "cell `{}` is running and cannot be {done}; interrupt it, or wait for its end",
            cell.id
        )));
    }
    Ok(())
}

fn document_refusal(why: String) -> Refusal {
    Refusal::new(RefusalCode::File, format!("the edit cannot be made in the file: {why}"))
}

/// Returns a new cell id, as Jupyter makes them: eight hexadecimal digits.
pub(super) fn new_id() -> String {
    // The standard library's random seeds are random enough for an id.
    format!("{:08x}", RandomState::new().build_hasher().finish() & 0xffff_ffff)
}
