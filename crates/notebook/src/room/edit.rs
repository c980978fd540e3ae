//! Edits of a notebook's cells.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use super::Room;
use crate::document::Document;
use crate::types::{By, Cell, CellType, Edit, Edited, Refused, RefusedCode, What};

/// The longest source of a cell, in bytes.
const MAX_SOURCE: usize = 1024 * 1024;

/// The most cells of a notebook to which cells can be added.
const MAX_CELLS: usize = 10_000;

/// The effect of an edit: the file after it, and the change to announce.
struct Plan {
    document: Option<Document>,
    what: Option<What>,
    index: usize,
    /// The cell after the edit, if there is one.
    cell: Option<String>,
}

impl Room {
    pub(super) async fn make(&self, edit: Edit, by: By) -> Result<Edited, Refused> {
        let mut desk = self.desk.lock().await;
        self.look(&mut desk).await?;
        let plan = self.plan(&desk.document, edit, by)?;
        if let Some(document) = plan.document {
            desk.save(document).await?;
        }
        let mut shared = self.shared();
        if let Some(what) = plan.what {
            if let What::CellCleared { id } | What::CellDeleted { id } = &what {
                let id = id.clone();
                shared.unsaved.remove(&id);
                shared.forget_displays(&id);
            }
            shared.tell(Some(by), what);
        }
        let cell = plan.cell.and_then(|id| shared.state.find(&id).map(|(_, cell)| cell.clone()));
        Ok(Edited { rev: shared.state.rev, cell, index: plan.index })
    }

    fn plan(&self, document: &Document, edit: Edit, by: By) -> Result<Plan, Refused> {
        let shared = self.shared();
        shared.open()?;
        // The caller has locked the desk: this edit is the next one.
        let rev = shared.state.rev + 1;
        match edit {
            Edit::CreateCell { index, kind, source } => {
                let id = loop {
                    let id = new_id();
                    if shared.state.find(&id).is_none() {
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
                created(document, index, cell, shared.state.cells.len())
            }
            Edit::UpdateCell { id, rev: seen, source } => {
                fits(&source)?;
                let (index, cell) = shared.cell(&id)?;
                as_seen(cell, seen)?;
                if cell.source == source {
                    return Ok(Plan { document: None, what: None, index, cell: Some(id) });
                }
                let document = document.update(&id, &source).map_err(broken)?;
                let cell = Cell { source, rev, by, ..cell.clone() };
                let what = What::CellUpdated { id: id.clone(), cell };
                Ok(Plan { document: Some(document), what: Some(what), index, cell: Some(id) })
            }
            Edit::DeleteCell { id, rev: seen } => {
                let (index, cell) = shared.cell(&id)?;
                as_seen(cell, seen)?;
                idle(cell, "deleted")?;
                let document = document.delete(&id).map_err(broken)?;
                let what = What::CellDeleted { id };
                Ok(Plan { document: Some(document), what: Some(what), index, cell: None })
            }
            Edit::MoveCell { id, index } => {
                let (from, _) = shared.cell(&id)?;
                let index = index.min(shared.state.cells.len() - 1);
                if from == index {
                    return Ok(Plan { document: None, what: None, index, cell: Some(id) });
                }
                let document = document.reorder(&id, index).map_err(broken)?;
                let what = What::CellMoved { id: id.clone(), index };
                Ok(Plan { document: Some(document), what: Some(what), index, cell: Some(id) })
            }
            Edit::ClearOutputs { id } => {
                let (index, cell) = shared.cell(&id)?;
                if cell.kind != CellType::Code {
                    return Err(Refused::invalid("only code cells have outputs"));
                }
                idle(cell, "cleared")?;
                let document = document.give(&id, &[], None).map_err(broken)?;
                let what = What::CellCleared { id: id.clone() };
                Ok(Plan { document: Some(document), what: Some(what), index, cell: Some(id) })
            }
        }
    }
}

fn created(
    document: &Document,
    index: Option<usize>,
    cell: Cell,
    count: usize,
) -> Result<Plan, Refused> {
    fits(&cell.source)?;
    if count >= MAX_CELLS {
        return Err(Refused::invalid(format!("a notebook has at most {MAX_CELLS} cells")));
    }
    let index = index.unwrap_or(count);
    if index > count {
        return Err(Refused::invalid(format!(
            "there is no place {index}: the notebook has {count} cells, counted from 0"
        )));
    }
    let document = document.create(index, &cell.id, cell.kind, &cell.source).map_err(broken)?;
    let id = cell.id.clone();
    let what = What::CellCreated { index, cell };
    Ok(Plan { document: Some(document), what: Some(what), index, cell: Some(id) })
}

fn fits(source: &str) -> Result<(), Refused> {
    if source.len() > MAX_SOURCE {
        return Err(Refused::invalid(format!(
            "a cell's source may have {MAX_SOURCE} bytes; this one has {}",
            source.len()
        )));
    }
    Ok(())
}

fn as_seen(cell: &Cell, seen: u64) -> Result<(), Refused> {
    if cell.rev != seen { Err(Refused::conflict(cell, seen)) } else { Ok(()) }
}

fn idle(cell: &Cell, done: &str) -> Result<(), Refused> {
    if cell.running {
        return Err(Refused::invalid(format!(
            "cell `{}` is running and cannot be {done}; interrupt it, or wait for its end",
            cell.id
        )));
    }
    Ok(())
}

fn broken(why: String) -> Refused {
    Refused::new(RefusedCode::File, format!("the edit cannot be made in the file: {why}"))
}

/// Returns a new cell id, as Jupyter makes them: eight hexadecimal digits.
pub(super) fn new_id() -> String {
    // The standard library's random seeds are random enough for an id.
    format!("{:08x}", RandomState::new().build_hasher().finish() & 0xffff_ffff)
}
