//! The first commands of a new user: `softland` alone, `softland init`, and the helps.

use crate::support::*;
use tempfile::tempdir;

#[test]
fn without_arguments_it_says_what_one_can_do() {
    let said = said(&[]).status(0);
    assert_eq!(said.stdout.lines().count(), 8, "{}", said.stdout);
    assert!(said.stderr.is_empty());
}

#[test]
fn what_init_writes_is_valid_and_runs() {
    let folder = tempdir().unwrap();
    let here = |args: &[&str]| said_by(softland().current_dir(folder.path()).args(args));
    let wrote = here(&["init"]).status(0).stdout;
    assert!(wrote.contains("wrote ./softland.toml\n"), "{wrote}");
    let checked = here(&["check", "softland.toml", "agents/reader.md"]).status(0);
    assert!(checked.stderr.is_empty(), "{}", checked.stderr);
    // The command that it names works, and the config that it wrote does, too.
    let run = ["run", "agents/reader.md", "What is here?", "--model", "sim/reader"];
    let ran = here(&run).status(0);
    assert!(!ran.stdout.trim().is_empty());
    here(&[&run[..], &["--config", "softland.toml", "--policy", "research"]].concat()).status(0);
    let mut serve = softland();
    serve.current_dir(folder.path()).args(["serve", "--config", "softland.toml"]);
    let gateway = server::Server::start(serve.args(["--listen", "127.0.0.1:0"]));
    assert_eq!(gateway.status("/healthz", &gateway.address), 200);
}

#[test]
fn the_keys_of_the_written_config_are_valid_without_their_marks_too() {
    let text = include_str!("../../src/init/softland.toml");
    // A commented key or table is a line of TOML behind `# `.
    let is_toml = |line: &str| {
        line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
    };
    let uncommented: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|line| is_toml(line)).unwrap_or(line))
        .collect();
    assert!(uncommented.contains(&"[[route]]") && uncommented.len() > 40);
    let folder = tempdir().unwrap();
    let path = file(folder.path(), "all.toml", &uncommented.join("\n"));
    said(&["check", &path]).status(0);
}

#[test]
fn init_overwrites_nothing() {
    let folder = tempdir().unwrap();
    let config = file(folder.path(), "softland.toml", "# mine\n");
    let target = folder.path().to_str().unwrap();
    let wrote = said(&["init", target]).status(0).stdout;
    assert!(wrote.contains("kept (it was there already) ") && wrote.contains("wrote "), "{wrote}");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "# mine\n");
    let again = said(&["init", target]).status(0).stdout;
    assert_eq!(again.matches("kept (it was there already) ").count(), 2, "{again}");
    let new = folder.path().join("a/b");
    said(&["init", new.to_str().unwrap()]).status(0);
    assert!(new.join("agents/reader.md").is_file());
    said(&["init", &config]).status(2).says("needs a folder");
}

#[test]
fn a_journal_of_an_earlier_version_is_shown_to_its_end() {
    let folder = tempdir().unwrap();
    let journal = folder.path().join("run.ndjson");
    let journal = journal.to_str().unwrap();
    run("What did we decide?", &["--model", "sim/reader", "--journal", journal]).status(0);
    let whole = said(&["show", journal, "--json"]).status(0);
    // Earlier versions did not record the model that a simulated one poses as.
    let text = std::fs::read_to_string(journal).unwrap();
    let at = text.find("\"served\":{").unwrap();
    let end = at + text[at..].find("},").unwrap() + 2;
    std::fs::write(journal, [&text[..at], &text[end..]].concat()).unwrap();
    let said = said(&["show", journal, "--json"]).status(0);
    assert!(said.stderr.is_empty(), "{}", said.stderr);
    let kinds = |said: &Said| {
        said.events().into_iter().map(|event| event["event"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&said), kinds(&whole));
    assert_eq!(kinds(&said).last().unwrap(), "done");
}

/// What is told of a run afterwards has the time at which it happened.
#[test]
fn c85_what_is_shown_again_has_its_own_time() {
    let folder = tempdir().unwrap();
    let journal = folder.path().join("run.ndjson");
    let journal = journal.to_str().unwrap();
    run("What did we decide?", &["--model", "sim/reader", "--journal", journal]).status(0);
    let text = std::fs::read_to_string(journal).unwrap();
    let at = text.find("\"ts\":\"").unwrap() + "\"ts\":\"".len();
    let older = [&text[..at], "2020", &text[at + 4..]].concat();
    std::fs::write(journal, older).unwrap();
    let events = said(&["show", journal, "--json"]).status(0).events();
    let times: Vec<&str> = events.iter().map(|event| event["ts"].as_str().unwrap()).collect();
    assert!(times.len() > 5 && times.iter().all(|time| time.starts_with("2020-")), "{times:?}");
    assert!(times.is_sorted(), "{times:?}");
    let shown = said(&["show", journal]).status(0).stdout;
    let pieces = ["_delta", "text_start", "tool_start", "block_stop"];
    assert!(pieces.iter().all(|piece| !shown.contains(piece)), "{shown}");
    let calls = shown.lines().filter(|line| line.contains("→ read_file")).count();
    let results = shown.lines().filter(|line| line.contains("← read_file")).count();
    assert!(calls > 0 && calls == results, "{shown}");
}

#[test]
fn d18_simulated_money_is_called_so_where_runs_are_listed_and_shown() {
    let folder = tempdir().unwrap();
    let mut command = softland();
    command.env("XDG_STATE_HOME", folder.path()).arg("run").arg(analyst()).arg("--root");
    said_by(command.arg(notes()).args(["What is it?", "--model", "sim/reader"])).status(0);
    let tell = |args: &[&str]| {
        said_by(softland().env("XDG_STATE_HOME", folder.path()).args(args)).status(0).stdout
    };
    let listed = tell(&["runs"]);
    let [heading, line] = listed.lines().collect::<Vec<_>>()[..] else { panic!("{listed}") };
    assert!(heading.contains("COST") && line.contains("  simulated $0.0"), "{listed}");
    let shown = tell(&["show", "last"]);
    assert!(shown.contains(" simulated, nothing was paid\n"), "{shown}");
}
