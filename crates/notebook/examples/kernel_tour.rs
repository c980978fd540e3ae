//! A tour of a real kernel through a room, for `tests/notebook/kernel`: what a cell may do, and
//! what may happen to a kernel. Ends with an error where something is not as it must be.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a script's helper")]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use softland_agent::tools::{ProgramRunner, supervise_program};
use softland_notebook::{
    Actor, Cell, CellType, Edit, KernelStatus, NotebookOptions, RefusalCode, RunResult,
    SharedNotebook,
};

const SUPERVISE: &str = "__supervise";

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(first) = arguments.next() else {
        println!("usage: kernel_tour NOTEBOOK STATE [hang|fill]; tests/notebook/kernel runs it");
        return ExitCode::SUCCESS;
    };
    if first == SUPERVISE {
        return ExitCode::from(supervise_program(std::io::stdin()));
    }
    let state = arguments.next().expect("a folder for state");
    let this = std::env::current_exe().expect("this program");
    let programs = ProgramRunner::new(this, SUPERVISE, std::env::vars_os(), &[]);
    let mut options = NotebookOptions::new(state, Some(programs));
    let hangs = std::env::args().nth(3).is_some();
    options.cell_timeout = Duration::from_secs(if hangs { 10 } else { 120 });
    let notebook =
        SharedNotebook::open(Path::new(&first), options).await.expect("the notebook opens");
    match arguments.next().as_deref() {
        Some("hang") => hang(&notebook).await,
        Some("fill") => return fill(&notebook).await,
        _ => {}
    }
    tour(&notebook).await;
    notebook.close().await;
    println!("kernel tour: all well");
    ExitCode::SUCCESS
}

/// For a script that kills this and looks for what is left.
async fn hang(notebook: &Arc<SharedNotebook>) {
    let source = "import os, time, subprocess\n\
                  p = subprocess.Popen(['sleep', '1000'])\n\
                  print(os.getpid(), p.pid, flush=True)\n\
                  time.sleep(1000)";
    let id = create(notebook, source).await;
    let ran = notebook.run_cell(&id, Actor::Human).await.expect("it runs");
    println!("{}", text(&ran.cell));
    std::future::pending::<()>().await;
}

/// For a script that gives this a small disk.
async fn fill(notebook: &Arc<SharedNotebook>) -> ExitCode {
    for cells in 0..1000 {
        let source = "x".repeat(20_000);
        let edit = Edit::CreateCell { index: None, kind: CellType::Raw, source };
        if let Err(refused) = notebook.apply_edit(edit, Actor::Human).await {
            assert_eq!(refused.code, RefusalCode::File);
            println!("{cells} {refused}");
            return ExitCode::SUCCESS;
        }
    }
    ExitCode::FAILURE
}

async fn create(notebook: &Arc<SharedNotebook>, source: &str) -> String {
    let edit = Edit::CreateCell { index: None, kind: CellType::Code, source: source.to_owned() };
    notebook.apply_edit(edit, Actor::Human).await.expect("a cell").cell.expect("a cell").id
}

async fn run(notebook: &Arc<SharedNotebook>, source: &str) -> RunResult {
    let id = create(notebook, source).await;
    let begun = Instant::now();
    let ran = notebook.run_cell(&id, Actor::Human).await.expect("it runs");
    println!("{:>6} ms  {}", begun.elapsed().as_millis(), source.lines().next().unwrap_or(""));
    ran
}

fn text(cell: &Cell) -> String {
    let piece = |output: &Value| match &output["output_type"] {
        kind if kind == "stream" => output["text"].as_str().unwrap_or("").to_owned(),
        kind if kind == "error" => format!("{}: {}", output["ename"], output["evalue"]),
        _ => output["data"].to_string(),
    };
    cell.outputs.iter().map(piece).collect::<Vec<_>>().join("|")
}

#[track_caller]
fn check(ran: &RunResult, ok: bool, wanted: &str) {
    let found = text(&ran.cell);
    assert!(
        ran.ok == ok && !ran.still_running && found.contains(wanted),
        "{wanted:?} not in {ran:#?}"
    );
}

async fn tour(notebook: &Arc<SharedNotebook>) {
    let ran = run(notebook, "print('hello')\n6 * 7").await;
    check(&ran, true, "hello\n|{\"text/plain\":\"42\"}");
    assert_eq!(ran.cell.execution_count, Some(1));
    check(
        &run(notebook, "for n in range(3000): print(n, flush=True)").await,
        true,
        "\n2998\n2999\n",
    );
    check(&run(notebook, "import sys; print('a'); print('b', file=sys.stderr)").await, true, "b\n");
    check(&run(notebook, "1 / 0").await, false, "\"ZeroDivisionError\": \"division by zero\"");
    check(&run(notebook, "input('name?')").await, false, "StdinNotImplementedError");
    let cleared = "from IPython.display import clear_output, display, HTML\nprint('gone')\nclear_output()\nprint('kept')";
    let ran = run(notebook, cleared).await;
    check(&ran, true, "kept");
    assert!(!text(&ran.cell).contains("gone"));
    check(&run(notebook, "display(HTML('<b>x</b>'))").await, true, "<b>x</b>");
    let shown = run(notebook, "h = display('first', display_id=True)").await;
    check(&shown, true, "first");
    check(&run(notebook, "h.update('second')").await, true, "");
    let (state, _) = notebook.watch();
    let (_, cell) = state.find_cell(&shown.cell.id).expect("the cell");
    assert!(text(cell).contains("second"), "{cell:?}");
    let big = run(notebook, "print('x' * 3_000_000)").await;
    assert!(text(&big.cell).len() < 600_000 && text(&big.cell).contains("were left out"));
    check(
        &run(notebook, "for n in range(5): print(f'\\r{n}', end='', flush=True)").await,
        true,
        "4",
    );
    interrupt(notebook).await;
    die(notebook).await;
}

async fn interrupt(notebook: &Arc<SharedNotebook>) {
    interrupt_at(notebook, "cell_output").await;
    // At once, when the kernel may not have begun it.
    for _ in 0..10 {
        interrupt_at(notebook, "cell_running").await;
    }
}

async fn interrupt_at(notebook: &Arc<SharedNotebook>, at: &str) {
    let id = create(notebook, "import time\nprint('in', flush=True)\ntime.sleep(1000)").await;
    let (_, mut changes) = notebook.watch();
    let running = {
        let (notebook, id) = (Arc::clone(notebook), id.clone());
        tokio::spawn(async move { notebook.run_cell(&id, Actor::Human).await })
    };
    while let Ok(change) = changes.recv().await {
        let json = serde_json::to_value(&*change).expect("json");
        if json["change"] == at && json["id"] == id.as_str() {
            break;
        }
    }
    let begun = Instant::now();
    notebook.interrupt_cells().await;
    let ran = running.await.expect("a run").expect("it ran");
    println!("{:>6} ms  (interrupted)", begun.elapsed().as_millis());
    check(&ran, false, "KeyboardInterrupt");
}

async fn die(notebook: &Arc<SharedNotebook>) {
    check(&run(notebook, "kept = 5").await, true, "");
    check(&run(notebook, "import os\nos._exit(3)").await, false, "exit code 3");
    let (state, _) = notebook.watch();
    assert_eq!(state.kernel.state, KernelStatus::Dead);
    let id = create(notebook, "kept").await;
    let refused = notebook.run_cell(&id, Actor::Human).await.expect_err("there is no kernel");
    assert!(refused.message.contains("has died (it ended with exit code 3)"), "{refused}");
    notebook.restart_kernel().await.expect("another kernel");
    check(&notebook.run_cell(&id, Actor::Human).await.expect("it runs"), false, "NameError");
    check(
        &run(notebook, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)").await,
        false,
        "signal 9",
    );
    notebook.restart_kernel().await.expect("another kernel");
    check(&run(notebook, "print('again')").await, true, "again");
}
