//! Cells, run by a real process that speaks Jupyter's protocol: the tests' own tiny kernel, under
//! the real supervisor. Both are this program again, told apart by a variable.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "a supervisor and a kernel end with a code")]

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use softland_agent::tools::{ProgramRunner, supervise_program};
use softland_agent::{ToolCall, ToolSet};
use softland_notebook::{
    Actor, Cell, CellType, Change, ChangeKind, Edit, KernelStatus, NotebookOptions, RefusalCode,
    RunResult, SharedNotebook, notebook_tools,
};
use tempfile::TempDir;

#[path = "kernels/tiny.rs"]
mod tiny;

/// Set where this program is a supervisor or a kernel.
const ACTS: &str = "NOTEBOOK_TEST_ACTS";
const LONG: Duration = Duration::from_secs(120);

#[test]
fn acts_as_supervisor() {
    if std::env::var_os(ACTS).is_some() {
        std::process::exit(i32::from(supervise_program(std::io::stdin())));
    }
}

#[tokio::test]
#[ignore = "started by the other tests, with an environment"]
async fn acts_as_kernel() {
    if std::env::var_os(ACTS).is_some() {
        tiny::run(&std::env::args().next_back().unwrap()).await;
    }
}

/// A folder with a notebook, and its kernel's kernelspec.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let spec = folder.path().join("jupyter/kernels/tiny");
        std::fs::create_dir_all(&spec).unwrap();
        let this = std::env::current_exe().unwrap();
        let argv = json!([this, "acts_as_kernel", "--ignored", "--nocapture", "{connection_file}"]);
        let kernel = json!({ "argv": argv, "display_name": "Tiny", "language": "tiny" });
        std::fs::write(spec.join("kernel.json"), kernel.to_string()).unwrap();
        Self { folder }
    }

    fn options(&self) -> NotebookOptions {
        let path = self.folder.path().join("jupyter").into_os_string();
        let variables = [("JUPYTER_PATH", path), (ACTS, OsString::from("1"))];
        let variables = variables.map(|(name, value)| (OsString::from(name), value));
        let this = std::env::current_exe().unwrap();
        let programs = ProgramRunner::new(this, "acts_as_supervisor", variables, &[]);
        let mut options = NotebookOptions::new(self.folder.path().join("state"), Some(programs));
        options.kernel = Some("tiny".to_owned());
        options.cell_timeout = LONG;
        options
    }

    async fn room(&self) -> Arc<SharedNotebook> {
        self.room_with(self.options()).await
    }

    async fn room_with(&self, options: NotebookOptions) -> Arc<SharedNotebook> {
        SharedNotebook::open(&self.file(), options).await.unwrap()
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("a.ipynb")
    }

    fn saved(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.file()).unwrap()).unwrap()
    }
}

async fn create(room: &Arc<SharedNotebook>, source: &str) -> String {
    let edit = Edit::CreateCell { index: None, kind: CellType::Code, source: source.to_owned() };
    room.apply_edit(edit, Actor::Human).await.unwrap().cell.unwrap().id
}

async fn run(room: &Arc<SharedNotebook>, source: &str) -> RunResult {
    let id = create(room, source).await;
    room.run_cell(&id, Actor::Human).await.unwrap()
}

fn texts(cell: &Cell) -> Vec<String> {
    let text = |output: &Value| match output["output_type"].as_str().unwrap() {
        "stream" => {
            format!("{}:{}", output["name"].as_str().unwrap(), output["text"].as_str().unwrap())
        }
        "error" => output["ename"].as_str().unwrap().to_owned(),
        _ => output["data"]["text/plain"].as_str().unwrap_or("?").to_owned(),
    };
    cell.outputs.iter().map(text).collect()
}

/// Starts a cell, and waits until it has given something.
async fn begin(room: &Arc<SharedNotebook>, id: &str) -> tokio::task::JoinHandle<RunResult> {
    let (_, mut changes) = room.watch();
    let (other, name) = (Arc::clone(room), id.to_owned());
    let running = tokio::spawn(async move { other.run_cell(&name, Actor::Human).await.unwrap() });
    loop {
        let change = serde_json::to_value(&*changes.recv().await.unwrap()).unwrap();
        if change["change"] == "cell_output" && change["id"] == id {
            return running;
        }
    }
}

#[tokio::test]
async fn a_cell_gives_what_its_kernel_tells_and_it_is_saved() {
    let place = Place::new();
    let room = place.room().await;
    let ran = run(&room, "print a\nprint b\nwarn c\nprint d\nforged\nshow e\nresult f").await;
    assert_eq!(texts(&ran.cell), ["stdout:a\nb\n", "stderr:c\n", "stdout:d\n", "e", "f"]);
    assert!(ran.ok && !ran.still_running && !ran.cell.running);
    assert_eq!(ran.cell.execution_count, Some(1));
    let saved = &place.saved()["cells"][0];
    assert_eq!(saved["execution_count"], 1);
    assert_eq!(saved["outputs"][0]["text"], json!(["a\n", "b\n"]));
    assert_eq!(saved["outputs"][4]["execution_count"], 1);
    assert!(saved["outputs"][3].get("transient").is_none(), "not of the file's format");
    let failed = run(&room, "print x\nfail Ouch\nprint never").await;
    assert!(!failed.ok);
    assert_eq!(texts(&failed.cell), ["stdout:x\n", "Ouch"]);
    assert_eq!(failed.cell.execution_count, Some(2));
    // Some kernels tell an error in the reply alone.
    let failed = run(&room, "print x\nreply Ouch\nprint never").await;
    assert!(!failed.ok);
    assert_eq!(texts(&failed.cell), ["stdout:x\n", "Ouch"]);
    assert_eq!(texts(&run(&room, "abort").await.cell), ["aborted"]);
}

#[tokio::test]
async fn a_text_with_half_a_character_in_it_is_kept() {
    let place = Place::new();
    let room = place.room().await;
    let ran = run(&room, "print a\nhalf\nprint b").await;
    assert_eq!(texts(&ran.cell), ["stdout:a\n", "Half", "stdout:b\n"]);
    let saved = &place.saved()["cells"][0]["outputs"][1];
    assert_eq!(
        (&saved["evalue"], &saved["traceback"][0]),
        (&json!("a\u{fffd}b"), &json!("\u{fffd}"))
    );
    // In a file, it stays as it is.
    room.close().await;
    drop(room);
    let text = std::fs::read_to_string(place.file()).unwrap().replace('\u{fffd}', r"\ud800");
    std::fs::write(place.file(), &text).unwrap();
    let room = place.room().await;
    assert_eq!(room.watch().0.cells[0].outputs[1]["evalue"], "a\u{fffd}b");
    create(&room, "x").await;
    assert!(std::fs::read_to_string(place.file()).unwrap().contains(r"a\ud800b"));
}

#[tokio::test]
async fn a_kernel_that_hangs_is_said_not_to_answer_and_can_be_restarted() {
    let place = Place::new();
    let mut options = place.options();
    options.silence = Duration::from_millis(500);
    let room = place.room_with(options).await;
    let number = texts(&run(&room, "process").await.cell)[0].clone();
    let number = number.trim_start_matches("stdout:").trim().to_owned();
    let signal = |name: &str| {
        let sent = std::process::Command::new("kill").args([name, &number]).status().unwrap();
        assert!(sent.success());
    };
    let (_, mut changes) = room.watch();
    let mut until = async |wanted: KernelStatus| {
        let told = async {
            loop {
                match &changes.recv().await.unwrap().what {
                    ChangeKind::Kernel(kernel) if kernel.state == wanted => return kernel.clone(),
                    _ => {}
                }
            }
        };
        tokio::time::timeout(LONG, told).await.unwrap()
    };
    // It has a heart that has beaten.
    tokio::time::timeout(LONG, async {
        loop {
            signal("-STOP");
            if tokio::time::timeout(Duration::from_secs(2), until(KernelStatus::Silent))
                .await
                .is_ok()
            {
                break;
            }
            signal("-CONT");
        }
    })
    .await
    .unwrap();
    let why = room.watch().0.kernel.why.unwrap();
    assert!(why.contains("has not answered for 0.5 s"), "{why}");
    // The kernel does not carry out commands, and is still known to be silent.
    let id = create(&room, "print later").await;
    let (other, name) = (Arc::clone(&room), id.clone());
    let running = tokio::spawn(async move { other.run_cell(&name, Actor::Human).await });
    while !room.watch().0.find_cell(&id).unwrap().1.running {
        tokio::task::yield_now().await;
    }
    assert_eq!(room.watch().0.kernel.state, KernelStatus::Silent);
    signal("-CONT");
    assert!(running.await.unwrap().unwrap().ok);
    until(KernelStatus::Idle).await;
    signal("-STOP");
    until(KernelStatus::Silent).await;
    room.restart_kernel().await.unwrap();
    assert_eq!(room.watch().0.kernel.state, KernelStatus::Idle);
    assert!(run(&room, "print x").await.ok);
}

#[tokio::test]
async fn what_the_assistant_is_told_of_a_cell_that_runs_is_in_the_file() {
    let place = Place::new();
    let mut options = place.options();
    options.cell_timeout = Duration::from_millis(300);
    let room = place.room_with(options).await;
    let tools = notebook_tools(&room);
    for (tool, word) in [("run_cell", "one"), ("get_notebook_state", "two")] {
        let id = create(&room, &format!("print {word}\nhang")).await;
        if tool == "get_notebook_state" {
            drop(begin(&room, &id).await);
        }
        let (ok, said) = call(&tools, tool, json!({ "id": id })).await;
        assert!(ok && said.contains(word), "{said}");
        let saved = place.saved()["cells"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(saved["outputs"][0]["text"], json!([format!("{word}\n")]));
        room.restart_kernel().await.unwrap();
    }
}

#[tokio::test]
async fn outputs_are_cleared_replaced_and_overwritten_as_asked() {
    let place = Place::new();
    let room = place.room().await;
    let ran = run(&room, "print a\nclear\nprint b\nclear wait\nshow c").await;
    assert_eq!(texts(&ran.cell), ["c"]);
    let ran = run(&room, "print a\nclear wait").await;
    assert_eq!(texts(&ran.cell), ["stdout:a\n"], "nothing came that would have taken its place");
    let shown = run(&room, "show first").await;
    run(&room, "again second").await;
    let (state, _) = room.watch();
    assert_eq!(texts(state.find_cell(&shown.cell.id).unwrap().1), ["second"]);
    let bar = run(&room, "raw \"begin\\n 1 %\"\nraw \"\\r50 %\"\nraw \"\\r99 %\\r\\n\"").await;
    assert_eq!(texts(&bar.cell), ["stdout:begin\n99 %\r\n"]);
    room.close().await;
    assert_eq!(place.saved()["cells"][2]["outputs"][0]["data"]["text/plain"], json!(["second"]));
}

/// Waits until a cell has these outputs.
async fn until_texts(room: &Arc<SharedNotebook>, id: &str, wanted: &[&str]) {
    let (state, mut changes) = room.watch();
    let mut had = texts(state.find_cell(id).unwrap().1);
    while had != wanted {
        let next = tokio::time::timeout(Duration::from_secs(60), changes.recv()).await;
        assert!(next.is_ok(), "{had:?} and not {wanted:?}");
        had = texts(room.watch().0.find_cell(id).unwrap().1);
    }
}

#[tokio::test]
async fn c89_what_a_thread_says_after_its_cells_end_belongs_to_the_cell() {
    let place = Place::new();
    let room = place.room().await;
    let first = run(&room, "print a\nlate b\nthread c\nshow d\nlate_again e").await.cell.id;
    until_texts(&room, &first, &["stdout:a\n", "e", "stdout:b\n"]).await;
    // Another cell runs, and what it says is its own.
    let second = run(&room, "print x").await;
    assert_eq!(texts(&second.cell), ["stdout:x\n"]);
    until_texts(&room, &first, &["stdout:a\n", "e", "stdout:b\nc\n"]).await;
    // A cell that has run again has nothing of its earlier run.
    let third = run(&room, "print y\nthread z").await.cell.id;
    let again = room.run_cell(&third, Actor::Human).await.unwrap();
    assert_eq!(texts(&again.cell), ["stdout:y\n"]);
    room.close().await;
    let saved = place.saved()["cells"][0]["outputs"].clone();
    assert_eq!(saved[2]["text"], json!(["b\n", "c\n"]), "{saved}");
}

#[tokio::test]
async fn outputs_are_bounded_and_say_what_was_cut() {
    let place = Place::new();
    let room = place.room().await;
    let ran = run(&room, "flood 200000\nflood 200000\nprint end\nfail Ouch").await;
    let [text, error, note] = &texts(&ran.cell)[..] else { panic!("{:?}", ran.cell.outputs.len()) };
    assert!(text.len() <= 513 * 1024 && error == "Ouch", "{}", text.len());
    assert_eq!(
        note,
        "stderr:[softland: 275716 bytes of text were left out: more than a cell keeps]\n"
    );
    let many = "show x\n".repeat(600);
    let ran = run(&room, &many).await;
    assert_eq!(ran.cell.outputs.len(), 501);
    assert!(texts(&ran.cell)[500].contains("100 outputs were left out"));
    let ran = run(&room, "picture 5000000").await;
    let text = &texts(&ran.cell)[0];
    assert!(
        text.starts_with("a picture\n[softland: image/png of 5000000 bytes left out"),
        "{text}"
    );
}

#[tokio::test]
async fn a_cell_that_takes_long_goes_on_and_says_so() {
    let place = Place::new();
    let mut options = place.options();
    options.cell_timeout = Duration::from_millis(300);
    let room = place.room_with(options).await;
    let id = create(&room, "print in\nhang").await;
    let ran = room.run_cell(&id, Actor::Human).await.unwrap();
    assert!(ran.still_running && ran.cell.running && !ran.ok);
    let again = room.run_cell(&id, Actor::Human).await.unwrap_err();
    assert_eq!(again.code, RefusalCode::Invalid);
    let delete = Edit::DeleteCell { id: id.clone(), rev: ran.cell.rev };
    let gone = room.apply_edit(delete, Actor::Human).await.unwrap_err();
    assert!(gone.message.contains("is running"), "{gone}");
    // Another waits behind it, and both are broken off.
    let second = create(&room, "print never").await;
    assert!(room.run_cell(&second, Actor::Human).await.unwrap().still_running);
    let (_, mut changes) = room.watch();
    room.interrupt_cells().await;
    let mut ended = 0;
    while ended < 2 {
        let change = serde_json::to_value(&*changes.recv().await.unwrap()).unwrap();
        ended += usize::from(change["change"] == "cell_ran");
    }
    let (state, _) = room.watch();
    assert_eq!(texts(state.find_cell(&id).unwrap().1), ["stdout:in\n", "KeyboardInterrupt"]);
    assert_eq!(texts(state.find_cell(&second).unwrap().1), ["Interrupted"]);
    assert!(state.cells.iter().all(|cell| !cell.running));
}

#[tokio::test]
async fn a_cell_is_broken_off_before_its_kernel_has_begun_it() {
    let place = Place::new();
    let room = place.room().await;
    run(&room, "print x").await;
    for _ in 0..20 {
        let id = create(&room, "hang").await;
        let (_, mut changes) = room.watch();
        let (other, name) = (Arc::clone(&room), id.clone());
        let running =
            tokio::spawn(async move { other.run_cell(&name, Actor::Human).await.unwrap() });
        while !matches!(changes.recv().await.unwrap().what, ChangeKind::CellRunning { .. }) {}
        room.interrupt_cells().await;
        assert_eq!(texts(&running.await.unwrap().cell), ["KeyboardInterrupt"]);
    }
}

#[tokio::test]
async fn a_cell_that_nobody_waits_for_while_the_kernel_starts_is_not_begun() {
    let place = Place::new();
    let room = place.room().await;
    let (first, second) = (create(&room, "print x").await, create(&room, "print y").await);
    let (_, mut changes) = room.watch();
    let (other, name) = (Arc::clone(&room), first.clone());
    let running = tokio::spawn(async move { other.run_cell(&name, Actor::Human).await });
    while !matches!(changes.recv().await.unwrap().what, ChangeKind::Kernel(_)) {}
    running.abort();
    assert!(running.await.is_err());
    assert!(
        room.run_cell(&second, Actor::Human).await.unwrap().ok,
        "the kernel was started all the same"
    );
    assert_eq!(room.watch().0.find_cell(&first).unwrap().1.execution_count, None);
}

/// Waits until the end of a run is told: what it gave last is in the file by then.
async fn told_when_saved(
    place: &Place,
    changes: &mut tokio::sync::broadcast::Receiver<Arc<Change>>,
    at: usize,
    error: &str,
) {
    while !matches!(changes.recv().await.unwrap().what, ChangeKind::CellRan { .. }) {}
    let outputs = place.saved()["cells"][at]["outputs"].clone();
    assert_eq!(outputs.as_array().unwrap().last().unwrap()["ename"], error, "{outputs}");
}

#[tokio::test]
async fn a_kernel_that_dies_is_said_and_restarted_on_request() {
    let place = Place::new();
    let room = place.room().await;
    let first = create(&room, "print in\nhang").await;
    let running = begin(&room, &first).await;
    let behind = {
        let (room, id) = (Arc::clone(&room), create(&room, "print x").await);
        tokio::spawn(async move { room.run_cell(&id, Actor::Human).await.unwrap() })
    };
    while !room.watch().0.cells[1].running {
        tokio::task::yield_now().await;
    }
    let (_, mut changes) = room.watch();
    let restarting = {
        let room = Arc::clone(&room);
        tokio::spawn(async move { room.restart_kernel().await })
    };
    told_when_saved(&place, &mut changes, 0, "Interrupted").await;
    told_when_saved(&place, &mut changes, 1, "Interrupted").await;
    restarting.await.unwrap().unwrap();
    let ran = running.await.unwrap();
    assert_eq!(texts(&ran.cell), ["stdout:in\n", "Interrupted"]);
    assert!(!behind.await.unwrap().ok);
    let dies = tokio::spawn({
        let room = Arc::clone(&room);
        async move { run(&room, "print x\ndie 7").await }
    });
    told_when_saved(&place, &mut changes, 2, "KernelDied").await;
    let ran = dies.await.unwrap();
    assert_eq!(texts(&ran.cell).last().unwrap(), "KernelDied");
    let kernel = room.watch().0.kernel;
    assert_eq!(kernel.state, KernelStatus::Dead);
    assert_eq!(kernel.why.as_deref(), Some("it ended with exit code 7"));
    let id = create(&room, "print y").await;
    let refused = room.run_cell(&id, Actor::Human).await.unwrap_err();
    assert!(refused.code == RefusalCode::Kernel && refused.message.contains("exit code 7"));
    room.restart_kernel().await.unwrap();
    assert!(room.run_cell(&id, Actor::Human).await.unwrap().ok);
    assert_eq!(
        place.saved()["cells"][2]["outputs"].as_array().unwrap().last().unwrap()["ename"],
        "KernelDied"
    );
}

#[tokio::test]
async fn who_hears_all_changes_has_what_who_looks_has() {
    let place = Place::new();
    let room = place.room().await;
    let (begin, mut changes) = room.watch();
    let ran = run(&room, "print a\nshow b\nclear\nprint c\nfail d").await;
    let id = ran.cell.id.clone();
    let edit = Edit::UpdateCell { id: id.clone(), rev: ran.cell.rev, source: "print z".to_owned() };
    room.apply_edit(edit, Actor::Assistant).await.unwrap();
    room.run_cell(&id, Actor::Assistant).await.unwrap();
    room.apply_edit(Edit::ClearOutputs { id }, Actor::Human).await.unwrap();
    let (end, _) = room.watch();
    let mut rev = begin.rev;
    let mut ids = Vec::new();
    while rev < end.rev {
        let change: Arc<Change> = changes.recv().await.unwrap();
        rev += 1;
        assert_eq!(change.rev, rev, "one more each, none twice");
        ids.push(serde_json::to_value(&*change).unwrap()["change"].as_str().unwrap().to_owned());
    }
    let kinds: Vec<&str> =
        ids.iter().map(String::as_str).filter(|kind| *kind != "kernel").collect();
    assert_eq!(kinds.first(), Some(&"cell_created"));
    assert_eq!(kinds.last(), Some(&"cell_cleared"));
    assert_eq!(kinds.iter().filter(|kind| **kind == "cell_ran").count(), 2);
    assert!(changes.try_recv().is_err());
}

async fn call(tools: &ToolSet, name: &str, input: Value) -> (bool, String) {
    let call = ToolCall { id: "1".to_owned(), name: name.to_owned(), input_raw: input.to_string() };
    let output = tools.run_call(&call, &Default::default()).await;
    (!output.is_error, output.content)
}

#[tokio::test]
async fn the_assistant_works_with_its_tools_and_hears_of_conflicts() {
    let place = Place::new();
    let room = place.room().await;
    let tools = notebook_tools(&room);
    let (ok, said) =
        call(&tools, "create_cell", json!({ "type": "code", "source": "fail Ouch" })).await;
    assert!(ok, "{said}");
    let id = room.watch().0.cells[0].id.clone();
    assert!(said.contains(&id));
    let (ok, said) = call(&tools, "run_cell", json!({ "id": id })).await;
    assert!(
        !ok && said.contains("and failed") && said.contains("here\nthere\nOuch: why"),
        "{said}"
    );
    let (ok, _) = call(&tools, "update_cell", json!({ "id": id, "source": "print 42" })).await;
    assert!(ok);
    let (ok, said) = call(&tools, "run_cell", json!({ "id": id })).await;
    assert!(ok && said.contains("without an error; its outputs:\n42"), "{said}");
    // Somebody else changes the cell: the assistant's change is not made, and it is shown why.
    let rev = room.watch().0.cells[0].rev;
    let source = "print mine".to_owned();
    room.apply_edit(Edit::UpdateCell { id: id.clone(), rev, source }, Actor::Human).await.unwrap();
    let (before, mut changes) = room.watch();
    for (name, input) in [
        ("update_cell", json!({ "id": id, "source": "print theirs" })),
        ("update_cell", json!({ "id": "nowhere", "source": "" })),
        ("delete_cell", json!({ "id": "nowhere" })),
        ("create_cell", json!({ "type": "code", "source": "", "index": 9 })),
        ("run_cell", json!({ "id": "nowhere" })),
    ] {
        let (ok, said) = call(&tools, name, input).await;
        assert!(!ok, "{said}");
        assert!(!said.contains("changed by somebody") || said.contains("| print mine"), "{said}");
    }
    assert!(changes.try_recv().is_err(), "what failed is told to nobody");
    assert_eq!(room.watch().0, before);
    let (ok, said) = call(&tools, "update_cell", json!({ "id": id, "source": "print both" })).await;
    assert!(ok, "it has seen the cell now: {said}");
    assert_eq!(serde_json::to_value(&*changes.try_recv().unwrap()).unwrap()["by"], "assistant");
    assert!(changes.try_recv().is_err(), "once");
    let (_, said) = call(&tools, "get_notebook_state", json!({})).await;
    assert!(
        said.contains("| print both") && said.contains("ran as [2]") && said.contains("42"),
        "{said}"
    );
    let (ok, said) = call(&tools, "delete_cell", json!({ "id": id })).await;
    assert!(ok && room.watch().0.cells.is_empty(), "{said}");
}

#[tokio::test]
async fn nothing_is_left_of_a_kernel_when_the_room_closes() {
    let place = Place::new();
    let room = place.room().await;
    run(&room, "print x").await;
    let kernels = place.folder.path().join("state/notebooks");
    let files = |folder: &Path| {
        let names = std::fs::read_dir(folder).unwrap().flatten();
        names.filter(|file| file.path().extension().is_some_and(|kind| kind == "json")).count()
    };
    assert_eq!(files(&kernels), 1);
    room.close().await;
    assert_eq!(room.watch().0.kernel.state, KernelStatus::Stopped);
    let begun = std::time::Instant::now();
    while files(&kernels) > 0 {
        assert!(begun.elapsed() < LONG, "the kernel is still there");
        tokio::task::yield_now().await;
    }
    let refused = room.run_cell("x", Actor::Human).await.unwrap_err();
    assert_eq!(refused.code, RefusalCode::Closed);
}

#[tokio::test]
async fn a_kernel_that_is_not_there_is_named_before_a_file_is_made() {
    let place = Place::new();
    let mut options = place.options();
    options.kernel = Some("nowhere".to_owned());
    let refused = SharedNotebook::open(&place.file(), options).await.unwrap_err().to_string();
    assert!(refused.contains("there are: python3, tiny"), "{refused}");
    assert!(!place.file().exists());
    // One that the notebook names is known to be missing once it is to be started.
    drop(place.room().await);
    let text = std::fs::read_to_string(place.file()).unwrap().replace("tiny", "nowhere");
    std::fs::write(place.file(), text).unwrap();
    let mut options = place.options();
    options.kernel = None;
    let room = place.room_with(options).await;
    let id = create(&room, "print x").await;
    let refused = room.run_cell(&id, Actor::Human).await.unwrap_err();
    assert!(refused.message.contains("there are: python3, tiny"), "{refused}");
    let (state, _) = room.watch();
    assert_eq!(state.kernel.state, KernelStatus::Dead);
    assert!(!state.cells[0].running && state.cells[0].outputs.is_empty());
}

#[tokio::test]
async fn a_kernel_that_the_notebook_names_and_is_not_there_is_said_at_once() {
    let place = Place::new();
    let named = |kernel: &str| {
        let metadata = json!({ "kernelspec": { "name": kernel, "display_name": kernel } });
        let text = json!({ "cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5 });
        std::fs::write(place.file(), text.to_string()).unwrap();
    };
    let why = || async {
        let mut options = place.options();
        options.kernel = None;
        let room = place.room_with(options).await;
        let kernel = room.watch().0.kernel;
        room.close().await;
        kernel.why
    };
    named("elsewhere");
    let told = why().await.unwrap();
    assert!(told.contains("no kernel `elsewhere`") && told.contains("tiny"), "{told}");
    named("tiny");
    assert_eq!(why().await, None);
}
