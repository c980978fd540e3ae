//! Finds the positions of the parts of a notebook's text.

use softland_agent::wire::json::{Cursor, Error, Kind, MemberKey, Span};

/// The parts of a notebook's text, with their positions.
#[derive(Clone, Debug, Default)]
pub(super) struct DocumentIndex {
    /// `nbformat_minor`.
    pub(super) minor: u64,
    /// The list of cells, including its brackets.
    pub(super) list: Span,
    pub(super) cells: Vec<CellSpans>,
    /// `metadata.kernelspec.name`.
    pub(super) kernel: Option<String>,
}

/// The positions of one cell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CellSpans {
    /// The cell, including its braces.
    pub(super) span: Span,
    /// Values, without their names.
    pub(super) source: Option<Span>,
    pub(super) outputs: Option<Span>,
    pub(super) count: Option<Span>,
    /// True if the source is one text instead of a list of lines.
    pub(super) source_is_text: bool,
}

pub(super) fn scan_notebook(text: &str) -> Result<DocumentIndex, Error> {
    let mut cursor = Cursor::new(text);
    let mut index = DocumentIndex::default();
    cursor.read_members(|cursor, member: MemberKey<'_>| {
        match &*member.key.unescape() {
            "cells" => {
                index.cells.clear();
                index.list = cursor.read_elements(|cursor| {
                    index.cells.push(scan_cell(cursor)?);
                    Ok::<_, Error>(())
                })?;
            }
            "nbformat_minor" => index.minor = cursor.read_uint_or_skip()?.unwrap_or_default(),
            "metadata" => index.kernel = scan_kernel(cursor)?,
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    cursor.expect_end()?;
    Ok(index)
}

fn scan_cell(cursor: &mut Cursor<'_>) -> Result<CellSpans, Error> {
    let mut slot = CellSpans::default();
    slot.span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "source" => {
                slot.source_is_text = cursor.peek()? == Kind::String;
                slot.source = Some(cursor.skip_value()?);
            }
            "outputs" => slot.outputs = Some(cursor.skip_value()?),
            "execution_count" => slot.count = Some(cursor.skip_value()?),
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    Ok(slot)
}

fn scan_kernel(cursor: &mut Cursor<'_>) -> Result<Option<String>, Error> {
    let mut name = None;
    if cursor.peek()? != Kind::Object {
        return Ok(None);
    }
    cursor.read_members(|cursor, member| {
        if &*member.key.unescape() == "kernelspec" && cursor.peek()? == Kind::Object {
            cursor.read_members(|cursor, member| {
                if &*member.key.unescape() == "name" {
                    name =
                        cursor.read_string_or_skip()?.map(|(text, _)| text.unescape().into_owned());
                }
                Ok::<_, Error>(())
            })?;
        }
        Ok::<_, Error>(())
    })?;
    Ok(name)
}
