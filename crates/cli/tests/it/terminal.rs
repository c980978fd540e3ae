//! The view of a person: the binary on a pseudo-terminal, and the screen that results.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::support::{analyst, file, notes, said_by, softland, state};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};

/// The spinner of a status line.
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// The result of a command on a terminal.
struct Shown {
    raw: String,
    /// The screen at the end, as text.
    screen: String,
    status: u32,
    took: Duration,
}

impl Shown {
    /// The texts of the status lines, as they were drawn.
    fn statuses(&self) -> Vec<&str> {
        let drawn = self.raw.split('\r').filter(|part| part.starts_with(FRAMES));
        drawn.map(|part| part.split('\u{1b}').next().unwrap()).collect()
    }
}

/// The change to the terminal once there is a status line.
enum Then {
    /// The terminal gets this number of columns.
    Resize(u16),
    /// Control-C is typed.
    Interrupt,
}

/// A command on a terminal of so many columns.
fn on_terminal(command: CommandBuilder, columns: u16, then: Option<Then>) -> Shown {
    let size = |cols| PtySize { rows: 400, cols, pixel_width: 0, pixel_height: 0 };
    let began = Instant::now();
    let pty = native_pty_system().openpty(size(columns)).unwrap();
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut reader = pty.master.try_clone_reader().unwrap();
    let mut writer = pty.master.take_writer().unwrap();
    let mut screen = vt100::Parser::new(400, columns, 0);
    let (mut raw, mut buffer, mut then) = (Vec::new(), [0; 4096], then);
    // The terminal of a program that has ended reads as an error on some systems.
    while let Ok(read @ 1..) = reader.read(&mut buffer) {
        let new = &buffer[..read];
        raw.extend_from_slice(new);
        screen.process(new);
        if !String::from_utf8_lossy(new).contains(FRAMES) {
            continue;
        }
        match then.take() {
            Some(Then::Resize(cols)) => {
                pty.master.resize(size(cols)).unwrap();
                screen.screen_mut().set_size(400, cols);
            }
            Some(Then::Interrupt) => writer.write_all(b"\x03").unwrap(),
            None => {}
        }
    }
    let status = child.wait().unwrap().exit_code();
    let raw = String::from_utf8(raw).unwrap();
    Shown { raw, screen: screen.screen().contents(), status, took: began.elapsed() }
}

/// The binary, with this environment alone.
fn command(env: &[(&str, &str)], args: &[&str]) -> CommandBuilder {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_softland"));
    command.env_clear();
    command.env("XDG_STATE_HOME", state());
    for (name, value) in env {
        command.env(name, value);
    }
    command.args(args);
    command
}

/// The example agent on the example notes.
fn run<'a>(agent: &'a str, root: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
    [&["run", agent, "What did we decide about pricing?", "--root", root], flags].concat()
}

fn texts() -> (String, String) {
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    (text(analyst()), text(notes()))
}

const XTERM: (&str, &str) = ("TERM", "xterm-256color");

#[test]
fn the_answer_is_rendered_and_the_rest_of_a_result_can_be_seen() {
    let (agent, root) = texts();
    let shown = on_terminal(command(&[XTERM], &run(&agent, &root, &[])), 100, None);
    assert_eq!(shown.status, 0);
    let screen = &shown.screen;
    assert!(screen.contains("\n• product/pricing.md:7: “We decided on one price"), "{screen}");
    assert!(!screen.contains("\n- product"), "{screen}");
    assert!(screen.contains("\nlanded: a limit was reached (tool_calls_limit 8)"), "{screen}");
    assert!(screen.contains(" simulated, nothing was paid"), "{screen}");
    assert!(screen.contains("softland run --continue run-"), "{screen}");
    assert!(!screen.contains(FRAMES), "{screen}");
    assert!(shown.raw.contains("\u{1b}[2mturn 1"));
    // The command that a folded result names shows it whole.
    let hint = screen.lines().find_map(|line| line.split_once("lines: softland ")).unwrap().1;
    let words: Vec<&str> = hint.split_whitespace().collect();
    let whole = said_by(softland().args(words)).status(0).stdout;
    let mut lines = whole.lines();
    assert!(lines.next().unwrap().starts_with("→ grep "), "{whole}");
    assert!(whole.contains("\"pattern\": ") && whole.lines().count() > 15, "{whole}");
    assert!(whole.contains("research/sailor-survey.md"), "{whole}");
}

#[test]
fn what_is_waited_for_is_shown_and_leaves_nothing_behind() {
    let (agent, root) = texts();
    let flags = ["--model", "sim/slow:400", "--tool-calls-limit", "2"];
    let shown = on_terminal(command(&[XTERM], &run(&agent, &root, &flags)), 80, None);
    assert_eq!(shown.status, 0, "{}", shown.screen);
    let statuses = shown.statuses();
    assert!(statuses.iter().any(|line| line.contains(" model ")), "{statuses:?}");
    assert!(!shown.screen.contains(FRAMES), "{}", shown.screen);
    assert!(!shown.screen.contains("\nmodel "), "{}", shown.screen);
    // Apart from the status line the screen is the same as without one.
    let plain = on_terminal(command(&[("TERM", "dumb")], &run(&agent, &root, &flags)), 80, None);
    let known = |line: &&str| !line.contains(" ms") && !line.contains("run-");
    let notes = |shown: &Shown| -> Vec<String> {
        let before = shown.screen.lines().take_while(|line| !line.contains(" · landing · "));
        let lines = before.filter(|line| line.starts_with([' ', '→', 't']));
        lines.filter(known).map(str::to_owned).collect()
    };
    assert_eq!(notes(&shown), notes(&plain));
}

#[test]
fn control_c_leaves_nothing_behind_either() {
    let (agent, root) = texts();
    let flags = ["--model", "sim/slow:600000"];
    let command = command(&[XTERM], &run(&agent, &root, &flags));
    let shown = on_terminal(command, 80, Some(Then::Interrupt));
    assert_eq!(shown.status, 130, "{}", shown.screen);
    assert!(shown.screen.contains("\ncancelled: by you\n"), "{}", shown.screen);
    assert!(shown.screen.contains("softland run --resume run-"), "{}", shown.screen);
    assert!(!shown.screen.contains(FRAMES) && !shown.screen.contains("^C"), "{}", shown.screen);
}

#[test]
fn over_ssh_it_is_drawn_seldom() {
    let (agent, root) = texts();
    let flags = ["--model", "sim/slow:700", "--tool-calls-limit", "1"];
    let ssh = [XTERM, ("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22")];
    let shown = on_terminal(command(&ssh, &run(&agent, &root, &flags)), 80, None);
    let drawn = shown.statuses().len();
    assert!(drawn > 0, "{}", shown.raw);
    assert!(drawn as f64 <= shown.took.as_secs_f64() * 4.0, "{drawn} in {:?}", shown.took);
}

#[test]
fn a_status_line_keeps_to_a_width_that_changes() {
    let (agent, root) = texts();
    let flags = ["--model", "sim/slow:400", "--tool-calls-limit", "2"];
    let shown =
        on_terminal(command(&[XTERM], &run(&agent, &root, &flags)), 80, Some(Then::Resize(30)));
    assert_eq!(shown.status, 0);
    assert!(!shown.screen.contains(FRAMES), "{}", shown.screen);
    assert!(shown.screen.contains("tool call"), "{}", shown.screen);
}

#[test]
fn sub_agents_stand_in_it_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let agents = folder.path().join("agents");
    std::fs::create_dir(&agents).unwrap();
    let agent =
        |keys: &str, name: &str| format!("---\nname: {name}\ndescription: d\n{keys}\n---\nGo.\n");
    for name in ["one", "two"] {
        let keys = "model: sim/slow:400\ntool_calls_limit: 2";
        file(&agents, &format!("{name}.md"), &agent(keys, name));
    }
    let lead = file(folder.path(), "lead.md", &agent("tools: agent\nmodel: sim/delegate", "lead"));
    let root = notes();
    let args = run(&lead, root.to_str().unwrap(), &["--agents", agents.to_str().unwrap()]);
    let shown = on_terminal(command(&[XTERM], &args), 60, None);
    assert_eq!(shown.status, 0, "{}", shown.screen);
    let statuses = shown.statuses();
    let both = |line: &&&str| line.contains("one #1: model") && line.contains("two #2: model");
    assert!(statuses.iter().any(|line| both(&line)), "{statuses:?}");
    assert!(statuses.iter().all(|line| line.chars().count() < 60), "{statuses:?}");
    assert!(!shown.screen.contains(FRAMES), "{}", shown.screen);
}

#[test]
fn ci_dumb_terminals_and_pipes_get_no_escape() {
    let (agent, root) = texts();
    let flags = ["--model", "sim/slow:300", "--tool-calls-limit", "1"];
    for env in [[("TERM", "dumb"), ("CI", "")], [XTERM, ("CI", "true")]] {
        let shown = on_terminal(command(&env, &run(&agent, &root, &flags)), 80, None);
        assert_eq!(shown.status, 0);
        assert!(!shown.raw.contains('\u{1b}'), "{env:?} {}", shown.raw);
        assert!(!shown.raw.contains(FRAMES), "{env:?} {}", shown.raw);
    }
    let no_color = [XTERM, ("NO_COLOR", "1")];
    let shown = on_terminal(command(&no_color, &run(&agent, &root, &[])), 80, None);
    assert!(!shown.raw.replace("\u{1b}[K", "").contains('\u{1b}'), "{}", shown.raw);
    assert!(shown.screen.contains("\n- product/pricing.md:7"), "the text as it came");
    let piped = said_by(softland().env("TERM", "xterm").args(run(&agent, &root, &flags)));
    assert!(!piped.stdout.contains('\u{1b}') && !piped.stderr.contains('\u{1b}'));
}

#[test]
fn an_answer_that_goes_into_a_file_keeps_its_bytes() {
    let (agent, root) = texts();
    let piped = said_by(softland().args(run(&agent, &root, &[]))).status(0).stdout;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("answer");
    let line = format!(
        "exec {} run {agent} 'What did we decide about pricing?' --root {root} > {}",
        env!("CARGO_BIN_EXE_softland"),
        out.display()
    );
    let mut sh = CommandBuilder::new("sh");
    sh.args(["-c", &line]);
    sh.env_remove("CI");
    sh.env_remove("NO_COLOR");
    for (name, value) in [XTERM, ("CLICOLOR_FORCE", "1"), ("XDG_STATE_HOME", state_text())] {
        sh.env(name, value);
    }
    let shown = on_terminal(sh, 80, None);
    assert_eq!(shown.status, 0, "{}", shown.screen);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), piped);
    assert!(!shown.screen.contains("This is what the folder says"), "{}", shown.screen);
    assert!(shown.raw.contains("\u{1b}[2mturn 1"));
}

fn state_text() -> &'static str {
    concat!(env!("CARGO_TARGET_TMPDIR"), "/state")
}
