//! The tools that write, run and fetch, through the binary, on models that follow a script.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::server::{PATIENCE, Server};
use crate::support::*;
use serde_json::{Value, json};

/// A model that makes these calls, one a turn, and then answers.
fn model(folder: &Path, calls: &[(&str, Value)]) -> Server {
    let mut script = String::new();
    for (tool, input) in calls {
        // The JSON is written as text, since a TOML string may hold anything.
        let raw = serde_json::to_string(&input.to_string()).unwrap();
        script.push_str(&format!("[[turn]]\n[[turn.call]]\ntool = \"{tool}\"\nraw = {raw}\n\n"));
    }
    script.push_str("[[turn]]\ntext = \"All is done.\"\n");
    Server::sim(&file(folder, "script.toml", &script))
}

/// An agent file with these lines in its front matter.
fn agent(folder: &Path, lines: &str) -> String {
    file(folder, "a.md", &format!("---\nname: a\ndescription: d\n{lines}\n---\nGo.\n"))
}

fn running(folder: &Path, sim: &Server, lines: &str, flags: &[&str]) -> Command {
    let root = folder.join("root");
    std::fs::create_dir_all(&root).unwrap();
    let mut command = softland();
    command
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("ANTHROPIC_API_KEY", SECRET)
        .args(["run", &agent(folder, lines), "go", "--format", "json", "--root"])
        .arg(root)
        .args(["--model", "anthropic/claude-sonnet-5-5", "--base-url", &sim.url()])
        .args(flags);
    command
}

/// The results of the calls, in order: whether each is an error, and its content.
fn results(said: &Said) -> Vec<(bool, String)> {
    let results = said.events().into_iter().filter(|event| event["event"] == "tool_result");
    results
        .map(|result| {
            let content = result["content"].as_str().unwrap().to_owned();
            (!result["ok"].as_bool().unwrap(), content)
        })
        .collect()
}

#[test]
fn files_are_written_and_edited_under_the_root() {
    let folder = tempfile::tempdir().unwrap();
    let edit =
        |old: &str, new: &str| ("edit_file", json!({"path": "n/a.md", "old": old, "new": new}));
    let sim = model(
        folder.path(),
        &[
            ("write_file", json!({"path": "n/a.md", "content": "one\ntwo\n"})),
            edit("two", "three"),
            ("write_file", json!({"path": "there.md", "content": "mine"})),
            ("write_file", json!({"path": "../out.md", "content": "mine"})),
            ("read_file", json!({"path": "n/a.md"})),
        ],
    );
    let mut command = running(folder.path(), &sim, "tools: read_file, write_file, edit_file", &[]);
    file(&folder.path().join("root"), "there.md", "yours\n");
    let said = said_by(&mut command).status(0);
    let wanted = [
        (false, "created `n/a.md` (8 bytes)"),
        (false, "edited `n/a.md`: the new text stands at line 2"),
        (true, "`there.md` exists and was not read in this run: read it first, with read_file"),
        (
            true,
            "`../out.md` leads outside of the root folder, which is all that can be seen: give a path inside it, relative to it",
        ),
        (false, "     1→one\n     2→three\n"),
    ];
    assert_eq!(results(&said), wanted.map(|(error, text)| (error, text.to_owned())));
    let read = |path: &str| std::fs::read_to_string(folder.path().join(path)).unwrap();
    assert_eq!(read("root/n/a.md"), "one\nthree\n");
    assert_eq!(read("root/there.md"), "yours\n");
    assert!(!folder.path().join("out.md").exists());
}

#[test]
fn nothing_is_run_without_leave() {
    let folder = tempfile::tempdir().unwrap();
    let needs = "on this machine, which is not confined to --root: it needs --allow-shell";
    for (lines, wanted) in [
        ("tools: [grep, shell]", format!("a.md:4: tools: `shell` runs command lines {needs}")),
        (
            "tools: grep\ncommands: {x: {description: d, run: 'touch ran'}}",
            format!("a.md:5: commands.x: runs a program {needs}"),
        ),
    ] {
        let path = agent(folder.path(), lines);
        said(&["check", &path]).status(0);
        let refused = said(&["run", &path, "go", "--model", "sim/reader"]).status(2).says(&wanted);
        assert!(refused.stdout.is_empty());
        said(&["run", &path, "go", "--model", "sim/reader", "--allow-shell"]).status(0);
    }
}

#[test]
fn programs_run_in_the_root_without_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let shell = |command: &str| ("shell", json!({"command": command}));
    let sim = model(
        folder.path(),
        &[
            shell("pwd; cat; echo \"${ANTHROPIC_API_KEY-none} ${CONFIGURED-none} ${PLAIN-none}\""),
            shell("echo no >&2; exit 7"),
            ("count", json!({"text": "a b\nc"})),
            ("exact", json!({"n": 1})),
            ("missing", json!({})),
        ],
    );
    let config = "[upstream.x]\nbase_url = 'http://127.0.0.1:9'\napi_key_env = 'CONFIGURED'\n";
    let config = file(folder.path(), "c.toml", config);
    let lines = "tools: shell\ncommands:\n  count: {description: d, run: 'wc -c; pwd'}\n  \
                 exact: {description: d, run: [cat, /dev/stdin]}\n  \
                 missing: {description: d, run: [/no/such/program]}";
    let mut command = running(folder.path(), &sim, lines, &["--allow-shell", "--config", &config]);
    command.env("CONFIGURED", "x").env("PLAIN", "y");
    let said = said_by(&mut command).status(0);
    assert!(!said.stdout.contains(SECRET) && !said.stderr.contains(SECRET));
    let root = folder.path().join("root").canonicalize().unwrap();
    let root = root.display();
    let wanted = [
        (false, format!("{root}\nnone none y\n")),
        (true, "no\nExit code 7".to_owned()),
        (false, format!("{}\n{root}\n", json!({"text": "a b\nc"}).to_string().len())),
        (false, json!({"n": 1}).to_string()),
    ];
    let results = results(&said);
    assert_eq!(results[..4], wanted);
    let (error, content) = &results[4];
    assert!(*error && content.ends_with("Exit code 127"), "{content}");
}

/// Processes that have left group and session, lost their parent, taken another environment and
/// refuse to be asked; each writes its number into a file.
const RUNAWAYS: &str = "\
    : > pids; run() { sh -c 'trap \"\" HUP INT TERM; echo $$ >> pids; while :; do sleep 1; done'; }; \
    setsid sh -c 'trap \"\" HUP INT TERM; echo $$ >> pids; while :; do sleep 1; done' </dev/null >/dev/null 2>&1 & \
    (setsid env -i /bin/sh -c 'echo $$ >> pids; (:; exec sleep 1000) & wait' &) ; \
    (run &) ; \
    while [ \"$(wc -l < pids 2>/dev/null || echo 0)\" -lt 3 ]; do sleep 0.02; done; ";

/// The processes that wrote their numbers.
fn runaways(root: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(root.join("pids")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[cfg(target_os = "linux")]
fn is_there(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // A zombie has ended, whichever process reaps it.
    !stat.is_empty() && !stat.contains(") Z ")
}

#[cfg(target_os = "linux")]
#[track_caller]
fn all_end(root: &Path) {
    let processes = runaways(root);
    assert_eq!(processes.len(), 3);
    let deadline = Instant::now() + PATIENCE;
    while processes.iter().any(|process| is_there(*process)) {
        assert!(Instant::now() < deadline, "{processes:?} still run");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A program that asks a person for something must fail instead of waiting forever.
#[cfg(target_os = "linux")]
#[test]
fn a_command_has_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let asks = json!({"command": "printf '\\033]0;title\\007' > /dev/tty; head -n 1 /dev/tty; echo asked"});
    let sim = model(folder.path(), &[("shell", asks)]);
    let run = running(folder.path(), &sim, "tools: shell", &["--allow-shell"]);
    let words = [run.get_program()].into_iter().chain(run.get_args());
    let line: Vec<String> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    // `script` gives the program a terminal of its own.
    let typed = Command::new("script")
        .args(["-qec", &line.join(" "), "/dev/null"])
        .envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output();
    let Ok(typed) = typed else {
        println!("skipped: no `script` here to make a terminal with");
        return;
    };
    let shown = String::from_utf8(typed.stdout).unwrap();
    assert!(!shown.contains("\u{1b}]0;title"), "{shown}");
    assert!(shown.contains("/dev/tty") && shown.contains("asked\\n"), "{shown}");
    assert!(shown.contains("All is done."), "{shown}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_command_leaves_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let command = format!("{RUNAWAYS} echo left");
    let sim = model(folder.path(), &[("shell", json!({"command": command}))]);
    let mut command = running(folder.path(), &sim, "tools: shell", &["--allow-shell"]);
    let began = Instant::now();
    let said = said_by(&mut command).status(0);
    assert_eq!(results(&said), [(false, "left\n".to_owned())]);
    assert!(began.elapsed() < Duration::from_secs(15));
    let root = folder.path().join("root");
    let processes = runaways(&root);
    assert_eq!(processes.len(), 3);
    // The processes had ended before the result arrived.
    assert!(!processes.iter().any(|process| is_there(*process)), "{processes:?}");
}

/// The processes end however softland itself ends: by a request, or killed.
#[cfg(target_os = "linux")]
#[test]
fn what_a_command_started_ends_with_softland() {
    for signal in ["INT", "TERM", "KILL"] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let command = format!("{RUNAWAYS} touch ready; sleep 1000");
        let sim = model(folder.path(), &[("shell", json!({"command": command}))]);
        let mut command = running(folder.path(), &sim, "tools: shell", &["--allow-shell"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while !root.join("ready").exists() {
            assert!(Instant::now() < deadline, "it did not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(runaways(&root).iter().all(|process| is_there(*process)));
        kill(child.id(), signal);
        child.wait().unwrap();
        all_end(&root);
    }
}

/// Starts the supervisor with an order; its input stays open.
fn supervised(folder: &Path, order: &Value) -> Child {
    let mut command = softland();
    command.env("PATH", std::env::var_os("PATH").unwrap()).current_dir(folder).arg("__supervise");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = order.to_string().into_bytes();
    line.push(b'\n');
    child.stdin.as_mut().unwrap().write_all(&line).unwrap();
    child
}

#[test]
fn the_supervisor_has_the_programs_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    for (program, input, code) in [
        (json!(["sh", "-c", "exit 0"]), Value::Null, 0),
        (json!(["sh", "-c", "exit 9"]), Value::Null, 9),
        (json!(["sh", "-c", "kill -9 $$"]), Value::Null, 137),
        // The signal goes to the program's own group, which does not include the supervisor.
        (json!(["sh", "-c", "kill -TERM 0"]), Value::Null, 143),
        (json!(["sh", "-c", "read x; test \"$x\" = hello"]), json!("hello\n"), 0),
        // Nobody reads a large input.
        (json!(["true"]), json!("x".repeat(1_000_000)), 0),
        (json!(["/no/such/program"]), Value::Null, 127),
        (json!(["/"]), Value::Null, 126),
        (json!([]), Value::Null, 126),
    ] {
        let order = json!({"program": program, "input": input});
        let mut child = supervised(folder.path(), &order);
        // Held open until it has ended by itself.
        let hold = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        drop(hold);
        assert_eq!(output.status.code(), Some(code), "{order:.80}");
    }
    let nonsense = said_with_input(&["__supervise"], b"nonsense\n").status(126);
    nonsense.says("the command cannot be run: ");
}

#[cfg(target_os = "linux")]
#[test]
fn the_supervisor_ends_all_when_its_orders_end() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("{RUNAWAYS} sleep 1000");
    let mut child =
        supervised(folder.path(), &json!({"program": ["sh", "-c", line], "input": null}));
    let deadline = Instant::now() + PATIENCE;
    while runaways(folder.path()).len() < 3 {
        assert!(Instant::now() < deadline, "it did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(137));
    assert!(!runaways(folder.path()).iter().any(|process| is_there(*process)));
}

#[test]
fn pages_are_fetched_from_allowed_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
    let provider = Provider::raw(page);
    let host = provider.url.trim_start_matches("http://");
    let get = |url: String| ("http_get", json!({"url": url}));
    let sim = model(
        folder.path(),
        &[get(format!("{}/x", provider.url)), get("http://127.0.0.1:9/".to_owned())],
    );
    let lines = format!("tools: http_get\nhttp_allow: ['{host}']");
    let said = said_by(&mut running(folder.path(), &sim, &lines, &[])).status(0);
    let refused = format!("http://127.0.0.1:9/ is not allowed; allowed are: {host}");
    let results = results(&said);
    assert_eq!(results[0], (false, format!("HTTP 200 · text/plain · {}/x\n\nhello", provider.url)));
    assert!(results[1].0 && results[1].1.starts_with(&refused), "{results:?}");
}
