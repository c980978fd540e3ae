//! A cell's outputs, kept within bounds. A note stands for whatever is left out.

use std::time::Duration;

use crate::cut;
use serde_json::{Value, json};

use super::run::CellRun;
use super::shared::SharedState;
use crate::document::FileCell;
use crate::types::{Actor, Cell, ChangeKind};

/// Bytes of stream text that a cell keeps.
const MAX_TEXT: usize = 512 * 1024;
/// Outputs that a cell keeps.
const MAX_OUTPUTS: usize = 500;
/// Bytes of one representation of an output.
const MAX_RICH: usize = 4 * 1024 * 1024;
/// Bytes of all outputs of a cell, without its streams.
const MAX_ALL: usize = 16 * 1024 * 1024;
/// Bytes of an error's traceback, and of its message.
const MAX_TRACEBACK: usize = 64 * 1024;
const MAX_MESSAGE: usize = 8 * 1024;

/// The time for which stream text is collected before it is announced. The second one holds for
/// long texts, since the whole text is announced each time.
const GATHER: Duration = Duration::from_millis(50);
const GATHER_MUCH: Duration = Duration::from_millis(500);
const MUCH: usize = 32 * 1024;

/// The outputs of a run, counted.
#[derive(Debug, Default)]
pub(super) struct OutputTally {
    /// Text that is not announced yet, and its stream.
    gathered: Option<(String, String)>,
    /// True if the next output clears the outputs before it.
    clears: bool,
    text: usize,
    rich: usize,
    left_out_text: usize,
    left_out: usize,
}

/// Converts a cell of a file into the form that is shown.
pub(super) fn cell_from_file(read: FileCell) -> Cell {
    Cell {
        id: read.id,
        kind: read.kind,
        source: read.source,
        rev: 0,
        outputs: bound_outputs(read.outputs),
        execution_count: read.count,
        running: false,
        by: Actor::Human,
    }
}

/// Shortens the outputs of a file for showing; the file keeps its own.
fn bound_outputs(outputs: Vec<Value>) -> Vec<Value> {
    let count = outputs.len();
    let mut left = MAX_ALL;
    let mut kept: Vec<Value> = Vec::new();
    for mut output in outputs {
        shorten_output(&mut output, MAX_RICH);
        if let Some(Value::String(text)) = output.get_mut("text") {
            *text = cut::cut_middle(text, MAX_TEXT);
        }
        let size = estimate_size(&output);
        if kept.len() == MAX_OUTPUTS || size > left {
            let more = count - kept.len();
            kept.push(note_output(&format!("{more} more outputs are in the file and not shown")));
            break;
        }
        left -= size;
        kept.push(output);
    }
    kept
}

impl SharedState {
    /// Forgets the named displays of a cell.
    pub(super) fn forget_displays(&mut self, id: &str) {
        for places in self.displays.values_mut() {
            places.retain(|(cell, _)| cell != id);
        }
        self.displays.retain(|_, places| !places.is_empty());
    }

    /// Collects text of a stream.
    pub(super) fn gather_text(&mut self, run: &mut CellRun, name: &str, text: &str) {
        if run.given.gathered.as_ref().is_some_and(|(of, _)| of != name) {
            self.flush_run(run);
        }
        let (_, gathered) =
            run.given.gathered.get_or_insert_with(|| (name.to_owned(), String::new()));
        gathered.push_str(text);
        if gathered.len() > MAX_TEXT {
            self.flush_run(run);
        }
    }

    /// Returns the time that collected text may wait, if there is any.
    pub(super) fn flush_delay(&self) -> Option<Duration> {
        let run = self.running.as_ref().filter(|run| run.given.gathered.is_some())?;
        Some(if run.given.text > MUCH { GATHER_MUCH } else { GATHER })
    }

    /// Announces the collected text of the current run.
    pub(super) fn flush_running(&mut self) {
        if let Some(mut run) = self.running.take() {
            self.flush_run(&mut run);
            self.running = Some(run);
        }
    }

    /// Announces the collected text of a run.
    pub(super) fn flush_run(&mut self, run: &mut CellRun) {
        let Some((name, new)) = run.given.gathered.take() else { return };
        self.apply_clear(run);
        let Ok((_, cell)) = self.find_cell(&run.id) else { return };
        let last = cell.outputs.last().filter(|last| {
            last["output_type"] == "stream" && last["name"] == name.as_str() && !is_note(last)
        });
        let index = cell.outputs.len() - usize::from(last.is_some());
        let before = last.and_then(|last| last["text"].as_str()).unwrap_or_default();
        let mut text = before.to_owned();
        append_text(&mut text, &new);
        let room = MAX_TEXT.saturating_sub(run.given.text.saturating_sub(before.len()));
        if text.len() > room {
            let end = text.floor_char_boundary(room);
            run.given.left_out_text += text.len() - end;
            text.truncate(end);
        }
        run.given.text = run.given.text.saturating_sub(before.len()) + text.len();
        if text.len() > before.len() || text != before {
            let output = json!({ "output_type": "stream", "name": name, "text": text });
            self.set_output(run, index, output);
        }
    }

    /// Announces an output.
    pub(super) fn add_output(
        &mut self,
        run: &mut CellRun,
        mut output: Value,
        shown_as: Option<String>,
    ) {
        self.apply_clear(run);
        let Ok((_, cell)) = self.find_cell(&run.id) else { return };
        let index = cell.outputs.len();
        shorten_output(&mut output, MAX_RICH);
        let size = estimate_size(&output);
        let is_error = output["output_type"] == "error";
        if !is_error && (index >= MAX_OUTPUTS || run.given.rich + size > MAX_ALL) {
            run.given.left_out += 1;
            return;
        }
        run.given.rich += size;
        if let Some(name) = shown_as {
            self.displays.entry(name).or_default().push((run.id.clone(), index));
        }
        self.set_output(run, index, output);
    }

    /// Replaces the display of a name, in every cell that shows it.
    pub(super) fn replace_display(
        &mut self,
        by: Actor,
        name: &str,
        data: &Value,
        metadata: &Value,
    ) {
        for (id, index) in self.displays.get(name).cloned().unwrap_or_default() {
            let Ok((_, cell)) = self.find_cell(&id) else { continue };
            let Some(mut output) = cell.outputs.get(index).cloned() else { continue };
            output["data"] = data.clone();
            output["metadata"] = metadata.clone();
            shorten_output(&mut output, MAX_RICH);
            self.unsaved.insert(id.clone());
            self.announce_change(Some(by), ChangeKind::CellOutput { id, index, output });
        }
    }

    /// Clears the outputs, at once or with the next one.
    pub(super) fn clear_outputs(&mut self, run: &mut CellRun, waits: bool) {
        run.given.clears = true;
        if !waits {
            self.apply_clear(run);
        }
    }

    fn apply_clear(&mut self, run: &mut CellRun) {
        if std::mem::take(&mut run.given.clears) {
            run.given = OutputTally::default();
            self.forget_displays(&run.id);
            self.unsaved.insert(run.id.clone());
            self.announce_change(Some(run.by), ChangeKind::CellCleared { id: run.id.clone() });
        }
    }

    /// Adds a note about everything that was left out, at the end of a run.
    pub(super) fn note_left_out(&mut self, run: &mut CellRun) {
        let (text, outputs) = (run.given.left_out_text, run.given.left_out);
        let Ok((_, cell)) = self.find_cell(&run.id) else { return };
        let index = cell.outputs.len();
        let words = match (text, outputs) {
            (0, 0) => return,
            (text, 0) => format!("{text} bytes of text were left out"),
            (0, outputs) => format!("{outputs} outputs were left out"),
            (text, outputs) => format!("{text} bytes of text and {outputs} outputs were left out"),
        };
        (run.given.left_out_text, run.given.left_out) = (0, 0);
        self.set_output(run, index, note_output(&format!("{words}: more than a cell keeps")));
    }

    fn set_output(&mut self, run: &CellRun, index: usize, output: Value) {
        self.unsaved.insert(run.id.clone());
        self.announce_change(
            Some(run.by),
            ChangeKind::CellOutput { id: run.id.clone(), index, output },
        );
    }
}

/// Appends text as a terminal would: a carriage return restarts the line.
fn append_text(text: &mut String, new: &str) {
    let line = text.rfind('\n').map_or(0, |at| at + 1);
    let rest = text.split_off(line) + new;
    for line in rest.split_inclusive('\n') {
        let body = line.trim_end_matches(['\r', '\n']);
        let from = body.rfind('\r').map_or(0, |at| at + 1);
        text.push_str(line.get(from..).unwrap_or_default());
    }
}

/// Returns softland's own note among a cell's outputs.
fn note_output(words: &str) -> Value {
    json!({ "output_type": "stream", "name": "stderr", "text": format!("[softland: {words}]\n") })
}

fn is_note(output: &Value) -> bool {
    output["text"].as_str().is_some_and(|text| text.starts_with("[softland: "))
}

/// Removes representations that are too long, with a note; shortens errors.
fn shorten_output(output: &mut Value, most: usize) {
    if let Some(Value::String(message)) = output.get_mut("evalue") {
        *message = cut::cut_middle(message, MAX_MESSAGE);
    }
    if let Some(lines) = output.get_mut("traceback").and_then(Value::as_array_mut) {
        let all: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
        if all.iter().map(|line| line.len()).sum::<usize>() > MAX_TRACEBACK {
            *lines = vec![cut::cut_middle(&all.join("\n"), MAX_TRACEBACK).into()];
        }
    }
    let Some(data) = output.get_mut("data").and_then(Value::as_object_mut) else { return };
    let mut gone = Vec::new();
    data.retain(|kind, value| {
        let length = estimate_size(value);
        if length > most {
            gone.push(format!("{kind} of {length} bytes"));
        }
        length <= most
    });
    if !gone.is_empty() {
        let words = format!("[softland: {} left out: more than is kept]", gone.join(", "));
        let said = data.get("text/plain").and_then(Value::as_str).unwrap_or_default();
        let text = if said.is_empty() { words } else { format!("{said}\n{words}") };
        data.insert("text/plain".to_owned(), text.into());
    }
}

/// Estimates the bytes that a value takes.
fn estimate_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(estimate_size).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + estimate_size(value)).sum()
        }
    }
}
