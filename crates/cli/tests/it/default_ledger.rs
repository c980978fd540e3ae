//! The ledger that `wrap` and `serve` keep if nobody names one, and what reads it afterwards.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::support::server::*;
use crate::support::*;
use tempfile::tempdir;

const MODEL: &str = "claude-sonnet-5-5";
const QUESTION: &str = "What did we decide about pricing?";

/// The binary in a folder, whose state folder is `state/softland` there.
fn at(folder: &Path, args: &[&str]) -> Command {
    let mut command = softland();
    command.current_dir(folder).env("XDG_STATE_HOME", folder.join("state"));
    command.env("PATH", "/usr/bin:/bin").args(args);
    command
}

/// `softland wrap` with the simulator behind it.
fn wrap(folder: &Path, sim: &Server, flags: &[&str]) -> Command {
    let mut command = at(folder, &["wrap"]);
    command.env("ANTHROPIC_BASE_URL", sim.url()).env("ANTHROPIC_API_KEY", SECRET);
    command.args(flags).arg("--");
    command
}

/// Adds `softland run` on the example notes. Its journal is elsewhere, so that only the ledger
/// knows the run.
fn add_run(command: &mut Command) {
    let journal = tempfile::Builder::new().suffix(".ndjson").tempfile().unwrap();
    command.args([env!("CARGO_BIN_EXE_softland"), "run"]);
    command.arg(analyst().canonicalize().unwrap()).arg(QUESTION);
    command.args(["--model", "anthropic/claude-sonnet-5-5", "--root"]);
    command.arg(notes().canonicalize().unwrap()).arg("--journal").arg(journal.path());
    journal.close().unwrap();
}

/// Wraps `softland run` on the example notes; `flags` are those of `wrap`.
fn wrapping(folder: &Path, sim: &Server, flags: &[&str]) -> Command {
    let mut command = wrap(folder, sim, flags);
    add_run(&mut command);
    command
}

/// Returns true if a line of `wrap` names the command that shows more. The wrapped run names it, too.
fn names_show(said: &str) -> bool {
    said.lines().any(|line| line.starts_with("softland: ") && line.contains("softland show"))
}

fn ledger_of(folder: &Path) -> PathBuf {
    folder.join("state/softland/softland.db")
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_wrapped_run_is_found_again_without_a_path() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let folder = folder.path();
    let said = said_by(&mut wrapping(folder, &sim, &["--tool-calls-limit", "3"])).status(0);
    let ledger = ledger_of(folder);
    let said = said.says(&format!("ledger: {}", ledger.display()));
    assert_eq!((mode(&ledger), mode(ledger.parent().unwrap())), (0o600, 0o700));
    let said =
        said.says(" landed: tool_calls_limit 3 was reached; ").says("softland: softland show ");
    let listed = said_by(&mut at(folder, &["runs", "--json"])).status(0).events();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(
        (&listed[0]["outcome"], &listed[0]["limit"]),
        (&"landed".into(), &"tool_calls_limit".into())
    );
    let id = listed[0]["run"].as_str().unwrap();
    let said = said.says(&format!("softland show {id} shows it step by step"));
    assert!(said.stdout.contains("product/pricing.md"), "{}", said.stdout);
    for run in ["last", id] {
        let shown = said_by(&mut at(folder, &["show", run])).status(0).stdout;
        assert!(
            shown.starts_with(&format!("{id} · landed: tool_calls (tool_calls_limit 3)")),
            "{shown}"
        );
    }
    let lines = said_by(&mut at(folder, &["show", "last", "--json"])).status(0).events();
    assert_eq!(lines.last().unwrap()["event"], "done");
    // What was said is not in the file.
    let bytes = std::fs::read(&ledger).unwrap();
    assert!(!bytes.windows(QUESTION.len()).any(|window| window == QUESTION.as_bytes()));
}

#[test]
fn the_last_run_is_the_one_that_was_written_last() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let folder = folder.path();
    said_by(&mut at(folder, &["show", "last"])).status(2).says("there is no ledger yet: ");
    let (agent, root) = (analyst().canonicalize().unwrap(), notes().canonicalize().unwrap());
    let run = || {
        let mut command = at(folder, &["run"]);
        command.arg(&agent).args([QUESTION, "--model", "sim/reader", "--root"]).arg(&root);
        said_by(&mut command).status(0)
    };
    run();
    let kept = said_by(&mut at(folder, &["show", "last"])).status(0).stdout;
    assert!(kept.contains("model sim/reader"), "{kept}");
    // Each call has one line, and its result another.
    let input = "{\"path\":\".\"}";
    assert_eq!(kept.matches(input).count(), 1, "{kept}");
    said_by(&mut at(folder, &["show", "last", "--call", "1.1"])).status(0);
    said_by(&mut wrapping(folder, &sim, &[])).status(0);
    let wrapped = said_by(&mut at(folder, &["show", "last"])).status(0).stdout;
    assert!(wrapped.contains("model claude-sonnet-5-5"), "{wrapped}");
    run();
    let kept = said_by(&mut at(folder, &["show", "last"])).status(0).stdout;
    assert!(kept.contains("model sim/reader"), "{kept}");
}

#[test]
fn it_can_be_left_out() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let folder = folder.path();
    said_by(&mut wrapping(folder, &sim, &["--no-ledger"]))
        .status(0)
        .says("ledger: off (--no-ledger)");
    let said = said_by(wrapping(folder, &sim, &[]).env("SOFTLAND_LEDGER", "off")).status(0);
    let said =
        said.says("ledger: off (SOFTLAND_LEDGER)").says(" answered: the model ended by itself; ");
    assert!(!names_show(&said.stderr), "{}", said.stderr);
    assert!(!folder.join("state").exists());
    said_by(wrapping(folder, &sim, &[]).env("SOFTLAND_LEDGER", "no")).status(2).says(
        "SOFTLAND_LEDGER must be off, on, or an address that begins with postgres://, got \"no\"",
    );
}

#[test]
fn many_wraps_at_once_write_one_ledger() {
    const MANY: usize = 6;
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let folder = folder.path();
    let start = |_| {
        let mut command = wrapping(folder, &sim, &[]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let wraps: Vec<Child> = (0..MANY).map(start).collect();
    for wrap in wraps {
        let output = wrap.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains(" shows it step by step") && !said.contains("lacks"), "{said}");
    }
    let listed = said_by(&mut at(folder, &["runs", "--json"])).status(0).events();
    assert_eq!(listed.len(), MANY, "{listed:?}");
    for run in &listed {
        assert_eq!((&run["outcome"], &run["requests"]), (&"answered".into(), &5.into()), "{run}");
    }
}

#[test]
fn a_state_folder_that_cannot_be_written_costs_the_record_only() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let folder = folder.path();
    // Nobody can create a folder below a file, not even root.
    let file = file(folder, "file", "");
    let said = said_by(wrapping(folder, &sim, &[]).env("XDG_STATE_HOME", &file)).status(0);
    let said = said.says("warning: no ledger is kept: the folder ").says(&file);
    let said = said.says("ledger: none").says(" answered: the model ended by itself; ");
    assert!(!said.stdout.is_empty() && !names_show(&said.stderr), "{}", said.stderr);
    let gone = said_by(wrapping(folder, &sim, &[]).env_remove("XDG_STATE_HOME")).status(0);
    gone.says("no ledger is kept: neither XDG_STATE_HOME nor HOME names a folder");
    let mut command = at(folder, &["serve", "--listen", "127.0.0.1:0"]);
    let gateway = Server::start(command.env("XDG_STATE_HOME", &file));
    assert_eq!(gateway.status("/healthz", &gateway.address), 200);
    gateway.signal("TERM");
    let (status, said) = gateway.ended();
    assert!(status.success() && said.contains("no ledger is kept: the folder "), "{said}");
}

/// A limit on file sizes fails like a full disk, and needs no special rights.
#[test]
fn a_full_disk_loses_records_and_says_how_many() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let folder = folder.path();
    let limited = wrap(folder, &sim, &[]);
    let mut command = Command::new("sh");
    command.current_dir(folder).env_clear().stdin(Stdio::null());
    command.envs(limited.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(["-c", "ulimit -S -f 8; exec \"$@\"", "sh"]);
    command.arg(limited.get_program()).args(limited.get_args());
    // The limit is not the wrapped program's.
    command.args(["sh", "-c", "ulimit -S -f unlimited; exec \"$@\"", "sh"]);
    add_run(&mut command);
    let said = said_by(&mut command).status(0);
    assert!(said.stderr.contains(" spent on 5 requests"), "{}", said.stderr);
    let said = said.says("softland: the ledger lacks ").says(" of this program: ");
    assert!(!names_show(&said.stderr), "{}", said.stderr);
}

/// Writes a ledger as an earlier version did, with one run.
fn old_ledger(path: &Path, version: usize) {
    let steps = [
        include_str!("../../../ledger/src/db/1.sql"),
        include_str!("../../../ledger/src/db/2.sql"),
        include_str!("../../../ledger/src/db/3.sql"),
        include_str!("../../../ledger/src/db/4.sql"),
    ];
    let db = rusqlite::Connection::open(path).unwrap();
    for step in &steps[..version] {
        db.execute_batch(step).unwrap();
    }
    db.pragma_update(None, "user_version", version as i64).unwrap();
    db.pragma_update(None, "application_id", 0x736f_6674).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let sql = format!(
        "INSERT INTO runs (run, started, last, met, next_seq, turns, requests, input, output, \
         cache_read, cache_write, unpriced) VALUES ('run-of-old', {now}, {now}, 1, 2, 1, 0, 0, 0, \
         0, 0, 0); INSERT INTO events VALUES (1, 0, {now}, 0, 'run_start', '{{}}')"
    );
    db.execute_batch(&sql).unwrap();
}

#[test]
fn an_old_ledger_in_the_folder_is_brought_up_and_used() {
    let sim = Server::sim("reader");
    for version in 1..=4 {
        let folder = tempdir().unwrap();
        let folder = folder.path();
        old_ledger(&folder.join("softland.db"), version);
        let flags = ["--anthropic-base-url", &*sim.url()];
        let gateway = Server::serve(folder, &flags, &[]);
        rest(gateway.ask_as_agent(MODEL, false));
        gateway.signal("TERM");
        let (status, said) = gateway.ended();
        assert!(status.success() && said.contains("ledger: softland.db"), "{said}");
        assert!(!folder.join("softland").exists(), "no other ledger is begun");
        // `wrap` writes into the state folder, and the runs of both are listed.
        said_by(&mut wrapping(folder, &sim, &[])).status(0);
        let listed = said_by(&mut at(folder, &["runs", "--json"])).status(0).events();
        assert_eq!(listed.len(), 3, "{version}: {listed:?}");
        assert!(listed.iter().any(|run| run["run"] == "run-of-old"), "{listed:?}");
        said_by(&mut at(folder, &["show", "run-of-old"])).status(0);
    }
}

#[test]
fn a_file_that_is_no_ledger_is_left_alone_and_nobody_stops() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let folder = folder.path();
    let text = "this is no ledger".repeat(99);
    file(folder, "softland.db", &text);
    let flags = ["--anthropic-base-url", &*sim.url()];
    let gateway = Server::serve(folder, &flags, &[]);
    rest(gateway.ask_as_agent(MODEL, false));
    gateway.signal("TERM");
    let (status, said) = gateway.ended();
    assert!(status.success(), "{said}");
    assert!(said.contains("no ledger is kept: softland.db: is not a softland ledger"), "{said}");
    assert_eq!(std::fs::read_to_string(folder.join("softland.db")).unwrap(), text);
    // A file that the config names stops the gateway.
    let config = file(folder, "c.toml", "[ledger]\nurl = 'sqlite:softland.db'\n");
    said_by(&mut at(folder, &["serve", "--listen", "127.0.0.1:0", "--config", &config]))
        .status(2)
        .says("softland.db: is not a softland ledger");
}

#[test]
fn pages_show_the_ledger_and_change_nothing() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let folder = folder.path();
    said_by(&mut at(folder, &["pages"])).status(2).says("there is no ledger yet");
    said_by(&mut wrapping(folder, &sim, &[])).status(0);
    let mut pages = Server::start(&mut at(folder, &["pages", "--listen", "127.0.0.1:0"]));
    let address = pages.until("pages: http://");
    assert!(address.contains("/#token="), "{address}");
    pages.until(&format!("ledger: {} (read only)", ledger_of(folder).display()));
    let list = pages.get("/api/runs");
    assert!(list.contains("\"read_only\":true") && list.contains("\"answered\""), "{list}");
    assert!(pages.get("/").contains("<title>"));
    assert_eq!(pages.status("/v1/models", &pages.address), 404, "no provider is reached");
    // Runs that other processes write meanwhile are shown.
    said_by(&mut wrapping(folder, &sim, &["--tool-calls-limit", "2"])).status(0);
    let list = pages.get("/api/runs?state=landed");
    assert!(list.contains("\"landed\"") && !list.contains("\"answered\""), "{list}");
    pages.signal("TERM");
    assert!(pages.ended().0.success());
}

/// A run that another process has open grows on its page until it has ended.
#[test]
fn an_open_runs_page_follows_what_is_written() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let folder = folder.path();
    let flags = ["--anthropic-base-url", &*sim.url()];
    let gateway = Server::start(at(folder, &["serve", "--listen", "127.0.0.1:0"]).args(flags));
    rest(gateway.ask_as_agent(MODEL, false));
    let pages = Server::start(&mut at(folder, &["pages", "--listen", "127.0.0.1:0"]));
    let deadline = Instant::now() + PATIENCE;
    let run = loop {
        let listed = said_by(&mut at(folder, &["runs", "--json"])).status(0).events();
        if let Some(run) = listed.first() {
            break run["run"].as_str().unwrap().to_owned();
        }
        assert!(Instant::now() < deadline, "the run is not recorded");
    };
    let mut stream = pages.open(&format!("/api/runs/{run}/events"));
    let begun = read_until(&mut stream, "\"event\":\"usage\"");
    assert!(!begun.contains("\"event\":\"done\""), "{begun}");
    // The gateway ends its open runs when it stops.
    gateway.signal("TERM");
    gateway.ended();
    let more = read_until(&mut stream, "\"event\":\"error\"");
    assert!(more.contains("\"cancelled\"") && !more.contains("run_start"), "{more}");
    assert!(!rest(stream).contains("\"event\""), "nothing comes behind the end");
}
