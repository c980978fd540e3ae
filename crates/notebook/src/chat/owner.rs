//! Finds the notebook that a conversation belongs to: not the file that has the path now, but the
//! notebook whose cells the conversation knows. Cells have ids of their own in the file, and every
//! program keeps them. An inode number would change with each save, and a mark in the file would
//! change the user's data. The known cells are stored beside the list of runs.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use softland_agent::core::Digest;

use crate::document::MAX_FILE;
use crate::mend::replace_surrogates;
use crate::platform::make_private;

/// The number of notebooks that are searched for one that was moved.
const MOST: usize = 10_000;

/// The known facts about a notebook.
#[derive(Debug, Default, Serialize, Deserialize)]
struct KnownNotebook {
    notebook: PathBuf,
    cells: BTreeSet<String>,
}

/// The relation of the file at a notebook's path to the list that is kept for the path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListOwner {
    /// The notebook of the list, as far as can be told.
    Same,
    /// Another notebook, which has come to the path since.
    Another,
    /// A notebook that was elsewhere before, with the path of its list.
    Moved(PathBuf),
}

/// Returns the owner of the list at `list`. `made` is true if the notebook's file was just created.
pub(super) fn find_owner(list: &Path, notebook: &Path, made: bool) -> ListOwner {
    if made {
        return ListOwner::Another;
    }
    let cells = read_cell_ids(notebook);
    let known = read_known(&cells_path(list)).unwrap_or_default();
    // A notebook without cells proves nothing.
    let differ = !known.cells.is_empty() && !cells.is_empty() && known.cells.is_disjoint(&cells);
    if list.exists() && !differ {
        return ListOwner::Same;
    }
    find_moved(list, &cells)
        .map_or(if differ { ListOwner::Another } else { ListOwner::Same }, ListOwner::Moved)
}

/// Records the cells that the notebook has now.
pub(super) fn remember_cells(list: &Path, notebook: &Path) -> std::io::Result<()> {
    let known = KnownNotebook { notebook: notebook.to_owned(), cells: read_cell_ids(notebook) };
    write_known(&cells_path(list), &known)
}

fn write_known(place: &Path, known: &KnownNotebook) -> std::io::Result<()> {
    let text = serde_json::to_vec(known)?;
    let temporary = place.with_extension("cells-tmp");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    make_private(&mut options).open(&temporary)?.write_all(&text)?;
    std::fs::rename(temporary, place)
}

/// Puts a list away whose notebook is no longer at its path. Its cells lead to it later.
pub(super) fn put_away(list: &Path) -> std::io::Result<()> {
    if !list.exists() {
        return Ok(());
    }
    let name = list.file_stem().unwrap_or_default().to_string_lossy();
    let free = |n: &usize| !list.with_file_name(format!("{name}.{n}.ndjson")).exists();
    let n = (1..MOST).find(free).ok_or_else(|| std::io::Error::other("too many are put away"))?;
    let away = list.with_file_name(format!("{name}.{n}.ndjson"));
    let known = read_known(&cells_path(list)).unwrap_or_default();
    write_known(&cells_path(&away), &KnownNotebook { notebook: PathBuf::new(), ..known })?;
    std::fs::rename(list, &away)
}

/// Takes over a list.
pub(super) fn take_over(from: &Path, list: &Path) -> std::io::Result<()> {
    std::fs::rename(from, list)?;
    std::fs::remove_file(cells_path(from))
}

/// Returns the list of a notebook whose file is gone and of whose cells at least half are in
/// `cells`.
fn find_moved(own: &Path, cells: &BTreeSet<String>) -> Option<PathBuf> {
    let folder = std::fs::read_dir(own.parent()?).ok()?;
    folder.flatten().take(MOST).map(|entry| entry.path()).find_map(|path| {
        let list = path.with_extension("ndjson");
        let is_one = path.extension().is_some_and(|kind| kind == "cells") && list != own;
        let known = is_one.then(|| read_known(&path)).flatten()?;
        let common = known.cells.intersection(cells).count();
        let same = common > 0 && common * 2 >= known.cells.len();
        (same && list.exists() && !known.notebook.exists()).then_some(list)
    })
}

fn cells_path(list: &Path) -> PathBuf {
    list.with_extension("cells")
}

fn read_known(place: &Path) -> Option<KnownNotebook> {
    serde_json::from_slice(&std::fs::read(place).ok()?).ok()
}

/// Returns the ids of a notebook's cells; if the file stores none, digests of their sources.
fn read_cell_ids(notebook: &Path) -> BTreeSet<String> {
    #[derive(Deserialize)]
    struct Notebook {
        cells: Vec<Cell>,
    }
    #[derive(Deserialize)]
    struct Cell {
        id: Option<String>,
        source: Option<Value>,
    }
    let text = || {
        let mut text = String::new();
        std::fs::File::open(notebook).ok()?.take(MAX_FILE).read_to_string(&mut text).ok()?;
        serde_json::from_str::<Notebook>(&replace_surrogates(&text)).ok()
    };
    let cells = text().map(|notebook| notebook.cells).unwrap_or_default();
    let name = |cell: Cell| {
        cell.id.filter(|id| !id.is_empty()).or_else(|| {
            let source = cell.source?;
            let none = source
                .as_str()
                .map_or_else(|| source.as_array().is_none_or(Vec::is_empty), str::is_empty);
            (!none).then(|| Digest::from_bytes(source.to_string().as_bytes()).to_string())
        })
    };
    cells.into_iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notebook_of(path: &Path, ids: &[&str]) {
        let cells: Vec<Value> =
            ids.iter().map(|id| serde_json::json!({"id": id, "source": []})).collect();
        std::fs::write(path, serde_json::json!({"cells": cells}).to_string()).unwrap();
    }

    #[test]
    fn a_conversation_belongs_to_the_cells_and_not_to_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (list, notebook) = (at("a.ndjson"), at("a.ipynb"));
        notebook_of(&notebook, &["one", "two"]);
        assert_eq!(find_owner(&list, &notebook, false), ListOwner::Same, "nothing is known");
        std::fs::write(&list, "").unwrap();
        remember_cells(&list, &notebook).unwrap();
        notebook_of(&notebook, &["two", "three"]);
        assert_eq!(find_owner(&list, &notebook, false), ListOwner::Same, "it was edited");
        notebook_of(&notebook, &[]);
        assert_eq!(find_owner(&list, &notebook, false), ListOwner::Same, "nobody can tell");
        assert_eq!(find_owner(&list, &notebook, true), ListOwner::Another, "it was not there");
        notebook_of(&notebook, &["other"]);
        assert_eq!(find_owner(&list, &notebook, false), ListOwner::Another);
        // It was moved; what has its path now is another one.
        notebook_of(&at("b.ipynb"), &["one", "two", "new"]);
        assert_eq!(
            find_owner(&at("b.ndjson"), &at("b.ipynb"), false),
            ListOwner::Same,
            "a copy has none"
        );
        std::fs::remove_file(&notebook).unwrap();
        assert_eq!(
            find_owner(&at("b.ndjson"), &at("b.ipynb"), false),
            ListOwner::Moved(list.clone())
        );
        notebook_of(&at("c.ipynb"), &["else"]);
        assert_eq!(find_owner(&at("c.ndjson"), &at("c.ipynb"), false), ListOwner::Same);
        // Another has its path now, and its list was put away.
        notebook_of(&notebook, &["else"]);
        put_away(&list).unwrap();
        assert!(!list.exists());
        let ListOwner::Moved(away) = find_owner(&at("b.ndjson"), &at("b.ipynb"), false) else {
            panic!("it is not found")
        };
        take_over(&away, &at("b.ndjson")).unwrap();
        assert!(!away.exists() && at("b.ndjson").exists());
    }

    #[test]
    fn cells_without_names_are_told_by_what_stands_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ipynb");
        std::fs::write(&path, r#"{"cells":[{"source":"1"},{"source":["1"]},{"source":""}]}"#)
            .unwrap();
        assert_eq!(read_cell_ids(&path).len(), 2);
    }
}
