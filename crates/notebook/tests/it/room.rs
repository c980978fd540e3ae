//! A room and its file: what is acknowledged is saved, what others write is not written over, and
//! who comes too late is told.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use softland_notebook::{
    Actor, CellType, Change, ChangeKind, Edit, NotebookOptions, OpenError, RefusalCode,
    SharedNotebook,
};
use tempfile::TempDir;
use tokio::sync::broadcast::Receiver;

/// The folder of this program when it acts as a writer that is killed.
const ACTS: &str = "NOTEBOOK_TEST_WRITES_IN";
const LONG: Duration = Duration::from_secs(120);

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("a.ipynb")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    fn cells(&self) -> Value {
        serde_json::from_str::<Value>(&self.text()).unwrap()["cells"].clone()
    }

    async fn room(&self) -> Arc<SharedNotebook> {
        self.open(&self.file()).await.unwrap()
    }

    async fn open(&self, file: &Path) -> Result<Arc<SharedNotebook>, OpenError> {
        SharedNotebook::open(file, NotebookOptions::new(self.0.path().join("state"), None)).await
    }
}

fn new_cell(source: &str) -> Edit {
    Edit::CreateCell { index: None, kind: CellType::Code, source: source.to_owned() }
}

async fn create(room: &Arc<SharedNotebook>, source: &str) -> (String, u64) {
    let edited = room.apply_edit(new_cell(source), Actor::Human).await.unwrap();
    let cell = edited.cell.unwrap();
    (cell.id, cell.rev)
}

fn update(id: &str, rev: u64, source: &str) -> Edit {
    Edit::UpdateCell { id: id.to_owned(), rev, source: source.to_owned() }
}

async fn reloaded(changes: &mut Receiver<Arc<Change>>) {
    let heard = async {
        while !matches!(changes.recv().await.unwrap().what, ChangeKind::Reloaded { .. }) {}
    };
    tokio::time::timeout(LONG, heard).await.unwrap();
}

#[tokio::test]
async fn an_edit_is_on_the_disk_when_it_is_acknowledged() {
    let place = Place::new();
    let room = place.room().await;
    let (id, rev) = create(&room, "a\nb").await;
    assert_eq!(place.cells()[0]["source"], json!(["a\n", "b"]));
    let edited = room.apply_edit(update(&id, rev, "c"), Actor::Assistant).await.unwrap();
    assert_eq!(place.cells()[0]["source"], json!(["c"]));
    assert_eq!(edited.cell.unwrap().by, Actor::Assistant);
    let (second, _) = create(&room, "d").await;
    room.apply_edit(Edit::MoveCell { id: second.clone(), index: 0 }, Actor::Human).await.unwrap();
    assert_eq!(place.cells()[0]["id"], second.as_str());
    room.apply_edit(Edit::DeleteCell { id, rev: edited.rev }, Actor::Human).await.unwrap();
    assert_eq!(place.cells().as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn of_two_who_edit_one_cell_one_is_told() {
    let place = Place::new();
    let room = place.room().await;
    let (id, rev) = create(&room, "a").await;
    let (one, two) = (update(&id, rev, "mine"), update(&id, rev, "theirs"));
    let (one, two) =
        tokio::join!(room.apply_edit(one, Actor::Human), room.apply_edit(two, Actor::Assistant));
    let refused = [one, two].into_iter().filter_map(Result::err).collect::<Vec<_>>();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].code, RefusalCode::Conflict);
    let now = refused[0].cell.clone().unwrap();
    assert_eq!(now.source, room.watch().0.cells[0].source);
    let delete = Edit::DeleteCell { id: id.clone(), rev };
    assert_eq!(
        room.apply_edit(delete, Actor::Human).await.unwrap_err().code,
        RefusalCode::Conflict
    );
    // A revision that was never shown is no newer one.
    let never = room.apply_edit(update(&id, now.rev + 9, "blind"), Actor::Human).await.unwrap_err();
    assert_eq!(never.code, RefusalCode::Conflict);
    room.apply_edit(update(&id, now.rev, "both"), Actor::Human).await.unwrap();
}

#[tokio::test]
async fn what_others_write_is_noticed_and_not_written_over() {
    let place = Place::new();
    let room = place.room().await;
    let (id, rev) = create(&room, "a").await;
    let (other, other_rev) = create(&room, "b").await;
    let (_, mut changes) = room.watch();
    let theirs = place.text().replace("\"a\"", "\"theirs\"");
    std::fs::write(place.file(), &theirs).unwrap();
    // Nobody edits: it is noticed all the same.
    reloaded(&mut changes).await;
    assert_eq!(room.watch().0.cells[0].source, "theirs");
    let refused = room.apply_edit(update(&id, rev, "mine"), Actor::Human).await.unwrap_err();
    assert_eq!(refused.code, RefusalCode::Conflict);
    assert_eq!(place.text(), theirs);
    // A cell that they left alone can be edited as before; at once, before anybody looked.
    std::fs::write(place.file(), theirs.replace("theirs", "again")).unwrap();
    room.apply_edit(update(&other, other_rev, "mine"), Actor::Human).await.unwrap();
    reloaded(&mut changes).await;
    assert_eq!(place.cells()[0]["source"], json!(["again"]));
    assert_eq!(place.cells()[1]["source"], json!(["mine"]));
}

#[tokio::test]
async fn a_file_that_is_no_notebook_any_more_is_left_alone() {
    let place = Place::new();
    let room = place.room().await;
    let (id, rev) = create(&room, "a").await;
    let before = place.text();
    std::fs::write(place.file(), "half a no").unwrap();
    let refused = room.apply_edit(update(&id, rev, "b"), Actor::Human).await.unwrap_err();
    assert_eq!(refused.code, RefusalCode::File);
    assert_eq!(place.text(), "half a no");
    std::fs::remove_file(place.file()).unwrap();
    let refused = room.apply_edit(update(&id, rev, "b"), Actor::Human).await.unwrap_err();
    assert_eq!(refused.code, RefusalCode::File);
    assert!(!place.file().exists());
    // It is put back: it goes on.
    std::fs::write(place.file(), before).unwrap();
    room.apply_edit(update(&id, rev, "b"), Actor::Human).await.unwrap();
    assert_eq!(place.cells()[0]["source"], json!(["b"]));
}

#[tokio::test]
async fn what_cannot_be_saved_has_not_happened() {
    let place = Place::new();
    let room = place.room().await;
    let (id, rev) = create(&room, "a").await;
    let (before, mut changes) = room.watch();
    // No file can be made there, as on a full disk.
    std::fs::create_dir(place.0.path().join(".a.ipynb.softland-tmp")).unwrap();
    for edit in [update(&id, rev, "b"), new_cell("c"), Edit::DeleteCell { id: id.clone(), rev }] {
        let refused = room.apply_edit(edit, Actor::Human).await.unwrap_err();
        assert!(refused.code == RefusalCode::File && refused.message.contains("cannot be saved"));
    }
    assert_eq!(room.watch().0, before);
    assert!(changes.try_recv().is_err(), "nobody is told of what has not happened");
    std::fs::remove_dir(place.0.path().join(".a.ipynb.softland-tmp")).unwrap();
    room.apply_edit(update(&id, rev, "b"), Actor::Human).await.unwrap();
}

#[tokio::test]
async fn one_softland_has_a_notebook() {
    let place = Place::new();
    let room = place.room().await;
    let refused = place.open(&place.file()).await.unwrap_err();
    let holder = format!("process {}", std::process::id());
    assert!(refused.to_string().contains(&holder), "{refused}");
    room.close().await;
    drop(room);
    let begun = Instant::now();
    while place.open(&place.file()).await.is_err() {
        assert!(begun.elapsed() < LONG, "the lock is still held");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_notebook_of_before_names_keeps_its_format() {
    let place = Place::new();
    let cell = |source: &str| json!({ "cell_type": "markdown", "metadata": {}, "source": source });
    let old = json!({
        "cells": [cell("a"), cell("b"), cell("c")], "metadata": {}, "nbformat": 4, "nbformat_minor": 2,
    });
    std::fs::write(place.file(), old.to_string()).unwrap();
    let room = place.room().await;
    let (_, mut changes) = room.watch();
    let c = room.watch().0.cells[2].clone();
    // Others put a cell before it: it is still the same cell.
    let theirs = json!({
        "cells": [cell("new"), cell("a"), cell("c")], "metadata": {}, "nbformat": 4, "nbformat_minor": 2,
    });
    std::fs::write(place.file(), theirs.to_string()).unwrap();
    reloaded(&mut changes).await;
    room.apply_edit(update(&c.id, c.rev, "c!"), Actor::Human).await.unwrap();
    let sources: Vec<Value> =
        place.cells().as_array().unwrap().iter().map(|cell| cell["source"].clone()).collect();
    assert_eq!(sources, ["new", "a", "c!"]);
    assert!(!place.text().contains("\"id\""));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let place = Place::new();
    let room = place.room().await;
    let (id, rev) = create(&room, "a").await;
    let text = Edit::CreateCell { index: Some(0), kind: CellType::Markdown, source: "t".into() };
    let text = room.apply_edit(text, Actor::Human).await.unwrap().cell.unwrap().id;
    let (before, _) = room.watch();
    for (edit, code) in [
        (update("nowhere", 9, ""), RefusalCode::NoSuchCell),
        (update(&id, rev, &"x".repeat(2 << 20)), RefusalCode::Invalid),
        (Edit::ClearOutputs { id: text.clone() }, RefusalCode::Invalid),
        (
            Edit::CreateCell { index: Some(3), kind: CellType::Raw, source: String::new() },
            RefusalCode::Invalid,
        ),
    ] {
        assert_eq!(room.apply_edit(edit, Actor::Human).await.unwrap_err().code, code);
    }
    assert_eq!(room.run_cell(&text, Actor::Human).await.unwrap_err().code, RefusalCode::Invalid);
    assert_eq!(room.run_cell(&id, Actor::Human).await.unwrap_err().code, RefusalCode::Kernel);
    assert_eq!(room.watch().0.cells, before.cells);
    room.close().await;
    assert_eq!(
        room.apply_edit(new_cell("x"), Actor::Human).await.unwrap_err().code,
        RefusalCode::Closed
    );
}

#[tokio::test]
async fn the_words_of_the_seam_are_as_agreed() {
    let place = Place::new();
    let room = place.room().await;
    let (_, mut changes) = room.watch();
    let edit: Edit = serde_json::from_value(
        json!({ "do": "create_cell", "index": null, "type": "code", "source": "x" }),
    )
    .unwrap();
    room.apply_edit(edit, Actor::Assistant).await.unwrap();
    let change = serde_json::to_value(&*changes.recv().await.unwrap()).unwrap();
    let id = change["cell"]["id"].clone();
    let cell = json!({
        "id": id, "type": "code", "source": "x", "rev": 1, "outputs": [], "execution_count": null,
        "running": false, "by": "assistant",
    });
    let wanted =
        json!({ "rev": 1, "by": "assistant", "change": "cell_created", "index": 0, "cell": cell });
    assert_eq!(change, wanted);
    let state = serde_json::to_value(room.watch().0).unwrap();
    let kernel = json!({ "name": "python3", "state": "none", "why": null });
    let path = place.file().canonicalize().unwrap();
    assert_eq!(state, json!({ "rev": 1, "path": path, "kernel": kernel, "cells": [cell] }));
    let refused = room.apply_edit(update("x", 0, ""), Actor::Human).await.unwrap_err();
    let refused = serde_json::to_value(refused).unwrap();
    assert_eq!((&refused["code"], &refused["cell"]), (&json!("no_such_cell"), &Value::Null));
}

#[tokio::test]
#[ignore = "started by the other tests, with an environment"]
async fn acts_as_writer() {
    let Some(folder) = std::env::var_os(ACTS) else { return };
    let file = Path::new(&folder).join("a.ipynb");
    let options = NotebookOptions::new(Path::new(&folder).join("state"), None);
    let room = SharedNotebook::open(&file, options).await.unwrap();
    for n in 0.. {
        let (id, rev) = create(&room, "not yet").await;
        room.apply_edit(update(&id, rev, &format!("source {n}")), Actor::Human).await.unwrap();
        println!("acknowledged {n}.");
    }
}

#[tokio::test]
async fn a_kill_at_any_moment_leaves_a_whole_file_with_all_that_was_acknowledged() {
    let place = Place::new();
    let mut acknowledged = 0;
    for round in 0..8_usize {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "room::acts_as_writer", "--ignored", "--nocapture"])
            .env(ACTS, place.0.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let heard = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut heard = heard.map_while(Result::ok).filter(|line| line.contains("acknowledged"));
        acknowledged += heard.by_ref().take(round * 3 + 1).count();
        writer.kill().unwrap();
        writer.wait().unwrap();
        acknowledged += heard.count();
        nbformat::parse_notebook(&place.text()).unwrap();
        let cells = place.cells();
        let cells = cells.as_array().unwrap();
        let whole = cells.iter().filter(|cell| cell["source"][0] != "not yet").count();
        assert!(whole >= acknowledged, "{whole} of {acknowledged} in round {round}");
        // The lock is free, and what was half written is gone.
        drop(place.room().await);
        assert!(!place.0.path().join(".a.ipynb.softland-tmp").exists());
        // Killed between the save and saying so is as good as not killed.
        acknowledged = whole;
    }
}
