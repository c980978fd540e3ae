//! `softland run` from outside: its output streams and its exit status.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::*;
use serde_json::Value;

const QUESTION: &str = "What did we decide about pricing?";

#[test]
fn the_first_command_lands_with_an_answer_from_the_notes() {
    let said = run(QUESTION, &[]).status(0);
    assert!(said.stdout.contains("product/pricing.md:7: “We decided on one price per berth"));
    assert!(said.stdout.ends_with('\n') && !said.stdout.ends_with("\n\n"));
    for wanted in [
        "analyst · sim/reader · tool_calls_limit 8\n",
        "\nturn 1 · 0 of 8 tool calls\n",
        "\n→ grep {\"pattern\":\"(?i)decide|pric\"}\n",
        " 4 tool calls remaining\n",
        " 1 tool call remaining\n",
        "» ask [tool_calls: 8 of 8] Tool call limit reached (8 of 8).",
        " · landing · 8 of 8 tool calls\n",
        "\nlanded: a limit was reached (tool_calls_limit 8); the model answered (rung ask)\n",
        " simulated, nothing was paid",
        " more lines: softland show run-",
    ] {
        assert!(said.stderr.contains(wanted), "no `{wanted}` in:\n{}", said.stderr);
    }
    assert!(!said.stderr.contains("This is what the folder says"), "the answer is on stdout only");
    assert!(!said.stderr.contains('\u{1b}'));
}

#[test]
fn events_are_valid() {
    for (flags, terminal) in [
        (&[][..], "done"),
        (&["--model", "sim/thinker", "--show-thinking"][..], "done"),
        (&["--model", "sim/thinker"][..], "done"),
        (&["--model", "sim/parallel", "--tool-calls-limit", "7"][..], "done"),
        (&["--model", "sim/mute"][..], "done"),
        (&["--model", "sim/midstream-error"][..], "error"),
    ] {
        let said = run(QUESTION, &[&["--format", "json"], flags].concat());
        assert!(said.stderr.is_empty(), "{flags:?}: {}", said.stderr);
        let events = said.events();
        valid(&events, terminal);
        let thinks = events.iter().any(|e| name(e).starts_with("thinking"));
        assert_eq!(thinks, flags.contains(&"--show-thinking"), "{flags:?}");
    }
}

fn name(event: &Value) -> &str {
    event["event"].as_str().unwrap()
}

fn valid(events: &[Value], terminal: &str) {
    assert_eq!(name(&events[0]), "run_start");
    let mut open_calls: Vec<&str> = Vec::new();
    for (seq, event) in events.iter().enumerate() {
        assert_eq!(event["v"], 1);
        assert_eq!(event["seq"], seq as u64);
        assert_eq!(event["run"], events[0]["run"]);
        assert!(event["ts"].as_str().unwrap().ends_with('Z'));
        match name(event) {
            "tool_execute" => open_calls.push(event["id"].as_str().unwrap()),
            "tool_result" => {
                let id = event["id"].as_str().unwrap();
                let at = open_calls.iter().position(|open| *open == id).unwrap();
                open_calls.remove(at);
            }
            _ => {}
        }
    }
    assert!(open_calls.is_empty());
    let ends: Vec<usize> =
        (0..events.len()).filter(|at| matches!(name(&events[*at]), "done" | "error")).collect();
    assert_eq!(ends, [events.len() - 1]);
    let last = &events[events.len() - 1];
    assert_eq!(name(last), terminal);
    assert!(last["outcome"].is_string() && last["reason"].is_string());
    assert_eq!(last["answer"].is_string(), terminal == "done");
    assert!(last["usage"]["input"].is_u64() && last["cost_usd"].is_f64());
}

#[test]
fn every_end_has_its_status() {
    for (model, status, first) in [
        ("sim/reader", 0, "landed: "),
        ("sim/trivial", 0, "answered: "),
        ("sim/stubborn", 0, "landed: "),
        ("sim/mute", 3, "stopped: "),
        ("sim/refuser", 3, "stopped: the model refused"),
        ("sim/refuser:text", 0, "answered: the model refused"),
        ("sim/empty:never", 3, "stopped: the model's turns were empty"),
        ("sim/midstream-error", 4, "failed: the provider gave no answer"),
        ("sim/reader@claude-0", 4, "failed: the provider gave no answer"),
    ] {
        let said = run(QUESTION, &["--model", model]).status(status);
        assert!(said.stderr.contains(&format!("\n{first}")), "{model}: {}", said.stderr);
        assert_eq!(said.stdout.is_empty(), status == 4, "{model}: {}", said.stdout);
        let local = said.stdout.starts_with("[This answer is softland's, not the model's.]");
        assert_eq!(local, status == 3, "{model}: {}", said.stdout);
    }
}

#[test]
fn a_prompt_comes_from_a_pipe_too() {
    let agent = analyst();
    let root = notes();
    let args = ["run", agent.to_str().unwrap(), "--root", root.to_str().unwrap()];
    let piped = said_with_input(&args, QUESTION.as_bytes()).status(0);
    let dashed = said_with_input(&[&args[..], &["-"]].concat(), QUESTION.as_bytes()).status(0);
    assert_eq!(piped.stdout, run(QUESTION, &[]).stdout);
    assert_eq!(dashed.stdout, piped.stdout);
    said_with_input(&args, b"  \n").status(2).says("the prompt from standard input is empty");
    said_with_input(&args, b"\xff").status(2).says("is not UTF-8 text");
}

#[test]
fn colours_come_when_forced_and_go_with_no_color() {
    let coloured = |no_color: &str| {
        let mut command = softland();
        command.env("CLICOLOR_FORCE", "1").env("NO_COLOR", no_color).arg("run").arg(analyst());
        said_by(command.arg(QUESTION).arg("--root").arg(notes())).status(0)
    };
    assert!(coloured("").stderr.contains("\u{1b}[2mturn 1"));
    assert!(!coloured("1").stderr.contains('\u{1b}'));
    assert!(!coloured("").stdout.contains('\u{1b}'), "answers are never coloured");
}

#[test]
fn later_wins_config_file_flags() {
    let folder = tempfile::tempdir().unwrap();
    let config = file(
        folder.path(),
        "c.toml",
        "listen = \"127.0.0.1:0\"\n[policy.default]\ntool_calls_limit = 3\nturns_limit = 9\n\
         [policy.two]\nturns_limit = 2\n[[price]]\nmodel = \"reader\"\ninput = 1000\noutput = 1000\n",
    );
    let plain = file(folder.path(), "plain.md", "---\nname: p\ndescription: d\n---\nGo.\n");
    let limits = |agent: &str, flags: &[&str]| {
        let root = notes();
        let args = ["run", agent, QUESTION, "--root", root.to_str().unwrap()];
        let args = [&args, &["--model", "sim/reader", "--format", "json"][..], flags].concat();
        let events = said(&args).status(0).events();
        let policy = &events[0]["policy"];
        (policy["tool_calls_limit"].as_u64(), policy["turns_limit"].as_u64())
    };
    let analyst = analyst();
    let analyst = analyst.to_str().unwrap();
    assert_eq!(limits(&plain, &[]), (None, None));
    assert_eq!(limits(&plain, &["--policy", "specialist"]), (Some(30), None));
    assert_eq!(limits(&plain, &["--config", &config]), (Some(3), Some(9)));
    assert_eq!(limits(&plain, &["--config", &config, "--policy", "two"]), (None, Some(2)));
    assert_eq!(limits(analyst, &["--config", &config]), (Some(8), Some(9)));
    assert_eq!(
        limits(analyst, &["--config", &config, "--tool-calls-limit", "2"]),
        (Some(2), Some(9))
    );
    let dear = run(QUESTION, &["--config", &config]).status(0);
    assert!(!dear.stderr.contains("$0.0"), "the config's price counts: {}", dear.stderr);
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let mut child = start(&["--format", "json", "--model", "sim/looper", "--repeat-limit", "0"]);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("run_start"));
    // The reader is dropped here: standard output is closed.
    assert_eq!(ended(child), (Some(130), String::new()));
}

#[test]
fn the_first_signal_cancels_and_the_second_does_not_wait() {
    for signal in ["INT", "TERM"] {
        let mut child = start(&["--format", "json", "--model", "sim/slow:600000"]);
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        kill(child.id(), signal);
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        let last: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
        assert_eq!((name(&last), &last["outcome"]), ("error", &Value::from("cancelled")));
        assert_eq!(ended(child).0, Some(130), "SIG{signal}");
    }
    let mut child = start(&["--model", "sim/slow:600000"]);
    let mut notes = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    notes.read_line(&mut line).unwrap();
    kill(child.id(), "INT");
    let mut rest = String::new();
    notes.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("cancelled: by you"), "{rest}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_second_signal_ends_a_run_whose_output_nobody_takes() {
    // The output is full from the beginning, and the run waits for it to be read.
    let (reader, full) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while (&full).write(&[b'\n'; 4096]).is_ok() {}
    full.set_nonblocking(false).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("run.ndjson");
    let mut command = command(&["--format", "json", "--model", "sim/reader", "--journal"]);
    command.arg(&journal).stdout(OwnedFd::from(full));
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !journal.exists() {
        assert!(Instant::now() < deadline, "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(child.id(), "INT");
    let mut notes = BufReader::new(child.stderr.take().unwrap());
    let mut note = String::new();
    notes.read_line(&mut note).unwrap();
    assert_eq!(note, "cancelling; a second signal ends the run at once\n");
    assert!(child.try_wait().unwrap().is_none(), "the first signal alone does not end it");
    kill(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(reader);
}

fn start(flags: &[&str]) -> Child {
    command(flags).spawn().unwrap()
}

fn command(flags: &[&str]) -> Command {
    let mut command = softland();
    command.arg("run").arg(analyst()).arg(QUESTION).arg("--root").arg(notes()).args(flags);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ended(mut child: Child) -> (Option<i32>, String) {
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (child.wait().unwrap().code(), stderr)
}

#[test]
fn a_terminal_streams_the_text_between_the_notes() {
    let binary = env!("CARGO_BIN_EXE_softland");
    let (agent, root) = (analyst(), notes());
    let line = format!("{binary} run {} 'prices?' --root {}", agent.display(), root.display());
    // `script` gives the program a terminal of its own.
    let typed = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .env_remove("CI")
        .stdin(Stdio::null())
        .output();
    let Ok(typed) = typed else {
        println!("skipped: no `script` here to make a terminal with");
        return;
    };
    let shown = String::from_utf8(typed.stdout).unwrap();
    let text = shown.find("I will search the folder").expect("text streams");
    let call = shown.find("→ list_dir").expect("calls are shown");
    let answer = shown.find("This is what the folder says").expect("the answer streams");
    let summary = shown.find("answered: ").expect("the summary is last");
    assert!(text < call && call < answer && answer < summary, "{shown}");
    assert_eq!(shown.matches("This is what the folder says").count(), 1);
    assert!(shown.contains("\u{1b}[2mturn 1"), "colours on a terminal");
}

#[test]
fn an_answer_that_cannot_be_written_is_no_success() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full");
    if full().is_err() {
        println!("skipped: this system has no /dev/full");
        return;
    }
    for args in [vec!["run"], vec!["run", "--format", "json"], vec!["check"], vec!["--help"]] {
        let mut command = softland();
        command.args(&args);
        match args.first() {
            Some(&"run") => command.arg(analyst()).arg(QUESTION).arg("--root").arg(notes()),
            Some(&"check") => command.arg(analyst()),
            _ => &mut command,
        };
        let child = command.stdout(full().unwrap()).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?} {stderr}");
        assert!(stderr.contains("error: standard output cannot be written: "), "{stderr}");
    }
}

#[test]
fn a_reader_that_has_gone_is_a_quiet_cancellation() {
    for format in ["text", "json"] {
        let mut command = softland();
        command
            .arg("run")
            .arg(analyst())
            .args([QUESTION, "--format", format, "--root"])
            .arg(notes());
        // The reader is gone before the run begins: a run of this model may be over before this
        // thread continues.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{format} {stderr}");
        assert!(!stderr.contains("error: "), "{stderr}");
    }
}
