//! The assistant's tools over a notebook: look, create, update, run, delete.
//!
//! They remember which revision of each cell the assistant has seen. Changes that somebody else has
//! made since are not overwritten: the assistant is shown the current cell, and decides again.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use softland_agent::{Tool, ToolContext, ToolDef, ToolOutput, ToolSet};

use crate::notebook::SharedNotebook;
use crate::types::{Actor, Cell, CellType, Edit, EditResult, NotebookState, Refusal, RunResult};

#[cfg(test)]
mod tests;
mod text;

/// The longest time for starting a kernel, beyond the time of a cell.
const START: Duration = Duration::from_secs(200);

/// Bytes of a cell's source, and of its outputs, if all cells are shown.
const SOURCE: usize = 4 * 1024;
const OUTPUTS: usize = 600;
/// Bytes of a single cell that is requested, or has run.
const WHOLE: usize = 24 * 1024;
/// Bytes of all cells.
const ALL: usize = 40 * 1024;

/// Creates the five tools of one assistant over a notebook.
#[must_use]
pub fn notebook_tools(notebook: &Arc<SharedNotebook>) -> ToolSet {
    let tools = Arc::new(NotebookTools { notebook: Arc::clone(notebook), seen: Mutex::default() });
    let mut set = ToolSet::new();
    for kind in
        [ToolKind::Look, ToolKind::Create, ToolKind::Update, ToolKind::Run, ToolKind::Delete]
    {
        // The five names are unique and short, so that adding cannot fail.
        let _ = set.add_tool(Arc::new(CellTool { kind, tools: Arc::clone(&tools) }));
    }
    set
}

/// The state that the tools share.
struct NotebookTools {
    notebook: Arc<SharedNotebook>,
    /// The revisions of cells that the assistant has seen.
    seen: Mutex<HashMap<String, u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolKind {
    Look,
    Create,
    Update,
    Run,
    Delete,
}

struct CellTool {
    kind: ToolKind,
    tools: Arc<NotebookTools>,
}

/// The arguments of all five tools; a tool's schema says which of them it takes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolArgs {
    id: Option<String>,
    from: Option<usize>,
    index: Option<usize>,
    #[serde(rename = "type")]
    kind: Option<CellType>,
    source: Option<String>,
    restart_kernel: Option<bool>,
}

#[async_trait]
impl Tool for CellTool {
    fn def(&self) -> ToolDef {
        let (name, description, input_schema) = match self.kind {
            ToolKind::Look => (
                "get_notebook_state",
                "Shows the notebook: its cells in order, each with its id, type, source and \
                 outputs, and how the kernel stands. Long sources and outputs are cut, which is \
                 said; with `id`, one cell is shown at length.",
                json!({
                    "id": {"type": "string", "description": "Show only this cell, at length"},
                    "from": {"type": "integer", "minimum": 0, "description": "Show cells from this place on, counted from 0"}
                }),
            ),
            ToolKind::Create => (
                "create_cell",
                "Creates a cell and says its id. It is not run.",
                json!({
                    "type": {"type": "string", "enum": ["code", "markdown", "raw"], "description": "What the cell holds"},
                    "source": {"type": "string", "description": "Its text"},
                    "index": {"type": "integer", "minimum": 0, "description": "The place before whose cell it goes, counted from 0; at the end if left out"}
                }),
            ),
            ToolKind::Update => (
                "update_cell",
                "Replaces the source of a cell. It is not run. Refused where somebody has changed \
                 the cell since you saw it: the cell is then shown as it is.",
                json!({
                    "id": {"type": "string", "description": "The cell's id"},
                    "source": {"type": "string", "description": "The whole new text"}
                }),
            ),
            ToolKind::Run => (
                "run_cell",
                "Runs a code cell in the kernel and gives its outputs. A cell that takes long \
                 goes on, which is said; get_notebook_state then shows how it stands. Where the \
                 kernel has died, `restart_kernel` starts another, which knows nothing of what ran \
                 before.",
                json!({
                    "id": {"type": "string", "description": "The cell's id"},
                    "restart_kernel": {"type": "boolean", "description": "Start the kernel anew before; it forgets everything"}
                }),
            ),
            ToolKind::Delete => (
                "delete_cell",
                "Deletes a cell. Refused where somebody has changed the cell since you saw it: \
                 the cell is then shown as it is.",
                json!({"id": {"type": "string", "description": "The cell's id"}}),
            ),
        };
        let required: &[&str] = match self.kind {
            ToolKind::Look => &[],
            ToolKind::Create => &["type", "source"],
            ToolKind::Update => &["id", "source"],
            ToolKind::Run | ToolKind::Delete => &["id"],
        };
        ToolDef {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": input_schema,
                "required": required,
                "additionalProperties": false,
            }),
            reads: self.kind == ToolKind::Look,
            repeatable: self.kind == ToolKind::Look,
        }
    }

    async fn call(&self, input: Value, _cx: &ToolContext) -> ToolOutput {
        let args: ToolArgs = match serde_json::from_value(input) {
            Ok(args) => args,
            Err(error) => return ToolOutput::error(format!("the arguments do not fit: {error}")),
        };
        let done = match self.kind {
            ToolKind::Look => self.tools.look_at_cells(&args).await,
            ToolKind::Create => self.tools.create_cell(args).await,
            ToolKind::Update => self.tools.update_cell(args).await,
            ToolKind::Run => self.tools.run_cell(&args).await,
            ToolKind::Delete => self.tools.delete_cell(args).await,
        };
        done.unwrap_or_else(|refused| ToolOutput::error(self.tools.describe_refusal(&refused)))
    }

    fn timeout(&self) -> Option<Duration> {
        let more = if self.kind == ToolKind::Run {
            self.tools.notebook.cell_timeout()
        } else {
            Duration::ZERO
        };
        Some(START + more)
    }
}

impl NotebookTools {
    async fn look_at_cells(&self, args: &ToolArgs) -> Result<ToolOutput, Refusal> {
        let (state, _) = self.notebook.watch();
        let unsaved = self.save_warning().await;
        if let Some(id) = &args.id {
            let (place, cell) = state.find_cell(id).ok_or_else(|| Refusal::no_such_cell(id))?;
            self.mark_seen(cell);
            return Ok(ToolOutput::ok(text::describe_cell(place, cell, WHOLE, WHOLE) + &unsaved));
        }
        Ok(ToolOutput::ok(self.describe_notebook(&state, args.from.unwrap_or(0)) + &unsaved))
    }

    /// Saves the outputs before the assistant is told of them. Returns a note if they cannot be
    /// saved.
    async fn save_warning(&self) -> String {
        let saved = self.notebook.save_now().await;
        saved
            .map_or_else(|why| format!("\n\n[not all of this is saved: {why}]"), |()| String::new())
    }

    fn describe_notebook(&self, state: &NotebookState, from: usize) -> String {
        let count = state.cells.len();
        let kernel = text::describe_kernel(&state.kernel);
        let mut told = format!("{}: {count} cells; {kernel}", state.path);
        for (place, cell) in state.cells.iter().enumerate().skip(from) {
            let cell_text = text::describe_cell(place, cell, SOURCE, OUTPUTS);
            if told.len() + cell_text.len() > ALL {
                let _ = write!(
                    told,
                    "\n\n[{} more cells left out; `from`: {place} shows them]",
                    count - place
                );
                break;
            }
            self.mark_seen(cell);
            told.push_str("\n\n");
            told.push_str(&cell_text);
        }
        told
    }

    async fn create_cell(&self, args: ToolArgs) -> Result<ToolOutput, Refusal> {
        let kind = args.kind.unwrap_or(CellType::Code);
        let source = args.source.unwrap_or_default();
        let edit = Edit::CreateCell { index: args.index, kind, source };
        let EditResult { cell, index, .. } =
            self.notebook.apply_edit(edit, Actor::Assistant).await?;
        let id = cell.as_ref().map_or("", |cell| cell.id.as_str());
        cell.iter().for_each(|cell| self.mark_seen(cell));
        Ok(ToolOutput::ok(format!("created cell `{id}` at place {index}; it has not run")))
    }

    async fn update_cell(&self, args: ToolArgs) -> Result<ToolOutput, Refusal> {
        let id = args.id.unwrap_or_default();
        let rev = self.require_seen(&id)?;
        let source = args.source.unwrap_or_default();
        let edit = Edit::UpdateCell { id: id.clone(), rev, source };
        let edited = self.notebook.apply_edit(edit, Actor::Assistant).await?;
        edited.cell.iter().for_each(|cell| self.mark_seen(cell));
        Ok(ToolOutput::ok(format!("updated cell `{id}`; it has not run with its new source")))
    }

    async fn delete_cell(&self, args: ToolArgs) -> Result<ToolOutput, Refusal> {
        let id = args.id.unwrap_or_default();
        let rev = self.require_seen(&id)?;
        let edited = self
            .notebook
            .apply_edit(Edit::DeleteCell { id: id.clone(), rev }, Actor::Assistant)
            .await?;
        Ok(ToolOutput::ok(format!("deleted cell `{id}`, which was at place {}", edited.index)))
    }

    async fn run_cell(&self, args: &ToolArgs) -> Result<ToolOutput, Refusal> {
        let id = args.id.as_deref().unwrap_or_default();
        let (state, _) = self.notebook.watch();
        let (_, before) = state.find_cell(id).ok_or_else(|| Refusal::no_such_cell(id))?;
        let seen = self.seen_revision(id);
        if args.restart_kernel == Some(true) {
            self.notebook.restart_kernel().await?;
        }
        let RunResult { cell, ok, still_running, seconds } =
            self.notebook.run_cell(id, Actor::Assistant).await?;
        let mut told = if still_running {
            format!(
                "cell `{id}` goes on: it is still running after {seconds:.0} s. \
                 get_notebook_state shows how it stands; its outputs until now:"
            )
        } else {
            let count =
                cell.execution_count.map_or(String::new(), |count| format!(" as [{count}]"));
            let how = if ok { "without an error" } else { "and failed" };
            format!("cell `{id}` ran{count} in {seconds:.1} s {how}; its outputs:")
        };
        told.push('\n');
        told.push_str(&text::describe_outputs(&cell.outputs, WHOLE));
        if seen.is_some_and(|seen| before.rev > seen) {
            told.push_str("\n\nSomebody had changed the cell since you saw it. What ran:\n");
            told.push_str(&text::quote_source(&before.source, SOURCE));
        }
        if still_running {
            told.push_str(&self.save_warning().await);
        }
        self.mark_seen(before);
        Ok(if ok || still_running { ToolOutput::ok(told) } else { ToolOutput::error(told) })
    }

    /// Notes that the assistant now knows the current cell.
    fn mark_seen(&self, cell: &Cell) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(cell.id.clone(), cell.rev);
    }

    fn seen_revision(&self, id: &str) -> Option<u64> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(id).copied()
    }

    /// Returns the revision that the assistant has seen.
    ///
    /// # Errors
    /// The assistant has not seen the cell: what it does not know is not overwritten.
    fn require_seen(&self, id: &str) -> Result<u64, Refusal> {
        let (state, _) = self.notebook.watch();
        if state.find_cell(id).is_none() {
            return Err(Refusal::no_such_cell(id));
        }
        self.seen_revision(id).ok_or_else(|| {
            Refusal::invalid(format!(
                "you have not seen cell `{id}` yet; get_notebook_state shows it"
            ))
        })
    }

    /// Describes a refusal. For a conflict, the current cell is shown, which the assistant has seen
    /// then.
    fn describe_refusal(&self, refused: &Refusal) -> String {
        let Some(cell) = &refused.cell else {
            return format!("{}; nothing was changed", refused.message);
        };
        self.mark_seen(cell);
        let (state, _) = self.notebook.watch();
        let place = state.find_cell(&cell.id).map_or(0, |(place, _)| place);
        format!(
            "cell `{}` was changed by somebody else since you saw it; nothing was changed. As it \
             is now:\n{}",
            cell.id,
            text::describe_cell(place, cell, WHOLE, OUTPUTS)
        )
    }
}
