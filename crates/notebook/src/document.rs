//! A notebook file as text: read once, then edited by splicing. Whatever is not edited stays as it
//! is, byte for byte: unknown members, the format's version, the indentation, other cells.
//!
//! A [`Document`] is a value: an edit returns a new one. It knows no disk and no kernel.

use serde_json::{Value, json};
use softland_agent::wire::{Splice, json::Span};

use crate::mend::replace_surrogates;
use crate::types::CellType;

mod check;
mod scan;
mod style;
#[cfg(test)]
mod tests;
use scan::{CellSpans, DocumentIndex};
use style::JsonLayout;

/// The longest file that is read, in bytes.
pub(crate) const MAX_FILE: u64 = 128 * 1024 * 1024;

/// A cell as it is in the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileCell {
    pub(crate) id: String,
    pub(crate) kind: CellType,
    pub(crate) source: String,
    pub(crate) outputs: Vec<Value>,
    pub(crate) count: Option<u64>,
}

/// A notebook's text, and the positions of its cells in it.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    text: String,
    index: DocumentIndex,
    style: JsonLayout,
    ids: Vec<String>,
}

impl Document {
    /// Returns the text of a notebook without cells.
    pub(crate) fn empty_text(kernel: &str) -> String {
        let display_name = if kernel == "python3" { "Python 3 (ipykernel)" } else { kernel };
        let value = json!({
            "cells": [],
            "metadata": { "kernelspec": { "display_name": display_name, "name": kernel } },
            "nbformat": 4,
            "nbformat_minor": 5,
        });
        let mut text = String::new();
        JsonLayout::default().write_value(&mut text, &value, 0);
        text.push('\n');
        text
    }

    /// Reads a file's text. Cells without a name of their own are named by their position.
    ///
    /// # Errors
    /// Returns the reason why it is not a notebook of format 4.
    pub(crate) fn from_text(text: String) -> Result<(Self, Vec<FileCell>), String> {
        if text.trim().is_empty() {
            return Err("it is empty: a notebook is JSON with its cells; without the file a new one is made"
                .to_owned());
        }
        if text.starts_with('\u{feff}') {
            return Err("it begins with a byte-order mark, which JSON does not allow: save it as UTF-8 without one"
                .to_owned());
        }
        let sound = replace_surrogates(&text);
        let value: Value = serde_json::from_str(&sound)
            .map_err(|error| format!("it is not a notebook: {}", describe_error(&sound, &error)))?;
        check::check_notebook(&value)?;
        let index =
            scan::scan_notebook(&text).map_err(|error| format!("it is not a notebook: {error}"))?;
        let mut cells = check::read_cells(&value);
        check::name_cells(&mut cells, index.minor);
        let ids = cells.iter().map(|cell| cell.id.clone()).collect();
        let style = JsonLayout::from_text(&text);
        Ok((Self { text, index, style, ids }, cells))
    }

    /// Returns the text, as it is to be saved.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the kernel that the notebook's metadata names.
    pub(crate) fn kernel_name(&self) -> Option<&str> {
        self.index.kernel.as_deref()
    }

    /// Renames the cells of a file that has no names, after it was read again.
    pub(crate) fn rename_cells(&mut self, ids: Vec<String>) {
        debug_assert_eq!(ids.len(), self.ids.len(), "one name a cell");
        self.ids = ids;
    }

    /// Returns true if the file stores cell ids.
    pub(crate) const fn has_names(&self) -> bool {
        self.index.minor >= 5
    }

    /// Returns the document with a new cell before the one at `index`.
    pub(crate) fn create_cell(
        &self,
        index: usize,
        id: &str,
        kind: CellType,
        source: &str,
    ) -> Result<Self, String> {
        let mut cell = json!({
            "cell_type": kind.as_str(),
            "metadata": {},
            "source": style::split_lines(source),
        });
        if self.has_names() {
            cell["id"] = id.into();
        }
        if kind == CellType::Code {
            cell["execution_count"] = Value::Null;
            cell["outputs"] = json!([]);
        }
        let mut text = String::new();
        self.style.write_value(&mut text, &cell, 2);
        self.insert_cell(index, id, &text)
    }

    /// Returns the document with a new source for a cell.
    pub(crate) fn update_cell(&self, id: &str, source: &str) -> Result<Self, String> {
        let slot = self.cell_spans(id)?;
        let value = match slot.source_is_text {
            true => Value::from(source),
            false => style::split_lines(source),
        };
        let mut edits = Splice::new();
        self.set_member(&mut edits, slot, slot.source, "source", &value);
        self.apply_edits(&edits, self.ids.clone())
    }

    /// Returns the document with these outputs for a code cell.
    pub(crate) fn set_outputs(
        &self,
        id: &str,
        outputs: &[Value],
        count: Option<u64>,
    ) -> Result<Self, String> {
        let slot = self.cell_spans(id)?;
        let outputs = outputs.iter().map(style::split_texts).collect();
        let mut edits = Splice::new();
        self.set_member(&mut edits, slot, slot.count, "execution_count", &count.into());
        self.set_member(&mut edits, slot, slot.outputs, "outputs", &Value::Array(outputs));
        self.apply_edits(&edits, self.ids.clone())
    }

    /// Returns the document without a cell.
    pub(crate) fn delete_cell(&self, id: &str) -> Result<Self, String> {
        let at = self.cell_index(id)?;
        let slots = &self.index.cells;
        let span = |at: usize| slots.get(at).map(|slot| slot.span).ok_or("no such cell");
        let gone = match (at, slots.len()) {
            (_, 1) => Span::new(self.index.list.start + 1, self.index.list.end - 1),
            (at, count) if at + 1 < count => Span::new(span(at)?.start, span(at + 1)?.start),
            (at, _) => Span::new(span(at - 1)?.end, span(at)?.end),
        };
        let mut edits = Splice::new();
        edits.replace(gone, "");
        let mut ids = self.ids.clone();
        ids.remove(at);
        self.apply_edits(&edits, ids)
    }

    /// Returns the document with a cell at another position.
    pub(crate) fn move_cell(&self, id: &str, index: usize) -> Result<Self, String> {
        let slot = self.cell_spans(id)?;
        let cell = slot.span.slice_of(&self.text).to_owned();
        self.delete_cell(id)?.insert_cell(index, id, &cell)
    }

    fn insert_cell(&self, index: usize, id: &str, cell: &str) -> Result<Self, String> {
        let slots = &self.index.cells;
        let mut edits = Splice::new();
        match (slots.get(index), slots.last(), slots.first()) {
            (Some(next), _, Some(first)) => {
                let space =
                    Span::new(self.index.list.start + 1, first.span.start).slice_of(&self.text);
                edits.insert(next.span.start, format!("{cell},{space}"));
            }
            (_, Some(last), Some(first)) => {
                let space =
                    Span::new(self.index.list.start + 1, first.span.start).slice_of(&self.text);
                edits.insert(last.span.end, format!(",{space}{cell}"));
            }
            _ => {
                let inner = Span::new(self.index.list.start + 1, self.index.list.end - 1);
                let (before, behind) = (self.style.line_break(2), self.style.line_break(1));
                edits.replace(inner, format!("{before}{cell}{behind}"));
            }
        }
        let mut ids = self.ids.clone();
        ids.insert(index.min(ids.len()), id.to_owned());
        self.apply_edits(&edits, ids)
    }

    /// Replaces a member's value, or adds the member if there is none yet.
    fn set_member(
        &self,
        edits: &mut Splice,
        slot: &CellSpans,
        at: Option<Span>,
        name: &str,
        value: &Value,
    ) {
        let mut text = String::new();
        self.style.write_value(&mut text, value, 3);
        match at {
            Some(at) => edits.replace(at, text),
            None => {
                let (line, colon) = (self.style.line_break(3), self.style.colon());
                edits.insert(slot.span.start + 1, format!("{line}\"{name}\"{colon}{text},"));
            }
        }
    }

    fn apply_edits(&self, edits: &Splice, ids: Vec<String>) -> Result<Self, String> {
        let bytes = edits.apply(self.text.as_bytes()).map_err(|error| error.to_string())?;
        let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
        let index = scan::scan_notebook(&text).map_err(|error| error.to_string())?;
        if index.cells.len() != ids.len() {
            return Err("the cells of the file are not those that were read".to_owned());
        }
        Ok(Self { text, index, style: self.style.clone(), ids })
    }

    fn cell_index(&self, id: &str) -> Result<usize, String> {
        let place = self.ids.iter().position(|other| other == id);
        place.ok_or_else(|| format!("no cell `{id}` is in the file"))
    }

    fn cell_spans(&self, id: &str) -> Result<&CellSpans, String> {
        let at = self.cell_index(id)?;
        self.index.cells.get(at).ok_or_else(|| format!("no cell `{id}` is in the file"))
    }
}

/// Describes why a text is not JSON. Python writes three numbers that JSON does not have, also as
/// the results of cells; browsers' notebooks refuse them as well.
fn describe_error(text: &str, error: &serde_json::Error) -> String {
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default().as_bytes();
    let at = error.column().saturating_sub(1);
    let stands = |word: &str, at: usize| {
        line.get(at..).is_some_and(|rest| rest.starts_with(word.as_bytes()))
    };
    let before = |word: &str| stands(word, at) || at > 0 && stands(word, at - 1);
    match ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| before(word)) {
        Some(word) => format!(
            "JSON has no number {word} (line {}, column {}): write null or \"{word}\" there",
            error.line(),
            error.column()
        ),
        None => error.to_string(),
    }
}
