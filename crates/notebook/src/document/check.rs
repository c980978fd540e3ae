//! Checks whether a file is a notebook, by nbformat's own reading, and reads its cells.

use std::collections::HashSet;

use nbformat::{legacy, v4};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{FileCell, style};
use crate::types::CellType;

/// Checks that a value is a notebook.
///
/// # Errors
/// Returns the reason why the value is not a notebook of format 4.
pub(super) fn check_notebook(notebook: &Value) -> Result<(), String> {
    let number = |name| notebook.get(name).and_then(Value::as_u64);
    let minor = match (number("nbformat"), number("nbformat_minor")) {
        (Some(4), Some(minor)) => minor,
        (Some(1..=3), _) => {
            return Err("it is a notebook of an old format (3 or before); \
                        `jupyter nbconvert --to notebook --inplace FILE` converts it"
                .to_owned());
        }
        (Some(major), _) if major != 4 => {
            return Err(format!(
                "it is a notebook of format {major}, and softland opens format 4 only"
            ));
        }
        _ => return Err("it is not a notebook: it has no `nbformat` and `nbformat_minor`".into()),
    };
    let metadata = notebook.get("metadata").cloned().unwrap_or(Value::Null);
    check_shape::<v4::Metadata>(metadata)
        .map_err(|error| format!("its metadata are wrong: {error}"))?;
    let Some(cells) = notebook.get("cells").and_then(Value::as_array) else {
        return Err("it is not a notebook: it has no list of `cells`".to_owned());
    };
    for (n, cell) in cells.iter().enumerate() {
        let cell = strip_unchecked(cell);
        let read = if minor >= 5 {
            check_shape::<v4::Cell>(cell)
        } else {
            check_shape::<legacy::Cell>(cell)
        };
        read.map_err(|error| format!("its cell {} is wrong: {error}", n + 1))?;
    }
    Ok(())
}

/// Returns a cell without the parts that are not checked.
fn strip_unchecked(cell: &Value) -> Value {
    let Some(members) = cell.as_object() else { return cell.clone() };
    let members = members.iter().filter_map(|(name, value)| match name.as_str() {
        // Outputs that nbformat does not know are kept as they are.
        "outputs" if value.is_array() => Some((name.clone(), json!([]))),
        // Metadata belongs to other programs and is kept as it is: nbformat's reading of it is
        // narrower than its schema.
        "metadata" if value.is_object() => Some((name.clone(), json!({}))),
        "execution_count" if value.is_u64() => Some((name.clone(), json!(1))),
        // An empty name counts as none; a name is found for the cell.
        "id" if value.as_str() == Some("") => None,
        _ => Some((name.clone(), value.clone())),
    });
    Value::Object(members.collect())
}

fn check_shape<T: DeserializeOwned>(value: Value) -> Result<(), String> {
    serde_json::from_value::<T>(value).map(|_| ()).map_err(|error| error.to_string())
}

/// Returns the cells of a checked notebook.
pub(super) fn read_cells(notebook: &Value) -> Vec<FileCell> {
    let cells = notebook.get("cells").and_then(Value::as_array);
    cells.into_iter().flatten().map(read_cell).collect()
}

fn read_cell(cell: &Value) -> FileCell {
    let kind = match cell.get("cell_type").and_then(Value::as_str) {
        Some("code") => CellType::Code,
        Some("markdown") => CellType::Markdown,
        _ => CellType::Raw,
    };
    let outputs = cell.get("outputs").and_then(Value::as_array);
    FileCell {
        id: cell.get("id").and_then(Value::as_str).unwrap_or_default().to_owned(),
        kind,
        source: cell.get("source").and_then(style::join_lines).unwrap_or_default(),
        outputs: outputs.into_iter().flatten().map(style::join_texts).collect(),
        count: cell.get("execution_count").and_then(Value::as_u64),
    }
}

/// Names cells without a name of their own, or with the name of another cell, by their position.
/// Before format 4.5 a file has no names.
pub(super) fn name_cells(cells: &mut [FileCell], minor: u64) {
    let mut taken = HashSet::new();
    let mut nameless = Vec::new();
    for (n, cell) in cells.iter().enumerate() {
        if minor < 5 || cell.id.is_empty() || !taken.insert(cell.id.clone()) {
            nameless.push(n);
        }
    }
    for n in nameless {
        let mut id = format!("cell-{}", n + 1);
        while !taken.insert(id.clone()) {
            id.push('x');
        }
        if let Some(cell) = cells.get_mut(n) {
            cell.id = id;
        }
    }
}
