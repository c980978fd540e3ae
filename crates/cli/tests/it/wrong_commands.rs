//! Wrong invocations: each gives an error that names the mistake and the way out.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::server::Server;
use crate::support::*;
use softland_ledger::{Ledger, Options, Payer, Record, RunStart};

/// A wrong invocation: its arguments, its exit status, the words for the mistake, and those for the
/// way out. `{here}` is the test's folder, and `{taken}` an address that is in use.
type WrongCommand<'a> = (&'a [&'a str], i32, &'a str, &'a str);

const TABLE: &[WrongCommand<'_>] = &[
    // Before `wrap` has begun a ledger.
    (&["show", "last"], 2, "there is no ledger yet", "`softland wrap -- CMD`"),
    // Names that do not exist.
    (&["warp", "--", "claude"], 2, "unrecognized subcommand 'warp'", "'wrap'"),
    (
        &["run", "a.md", "hi", "--tool-call-limit", "3"],
        2,
        "'--tool-call-limit'",
        "'--tool-calls-limit'",
    ),
    (
        &["run", "a.md", "hi", "--policy", "codeing"],
        2,
        "no policy is named `codeing`",
        "did you mean `coding`?",
    ),
    (
        &["run", "a.md", "hi", "--model", "antropic/claude-sonnet-5-5"],
        2,
        "`antropic`",
        "did you mean `anthropic`?",
    ),
    (&["run", "a.md", "hi", "--model", "sim/raeder"], 2, "raeder", "did you mean `reader`?"),
    (
        &["run", "a.md", "hi", "--model", "claude-sonnet-5-5"],
        2,
        "claude-sonnet-5-5",
        "PROVIDER/MODEL",
    ),
    (
        &["check", "key.toml"],
        2,
        "key.toml:2: policy.default.tool_call_limit: unknown key",
        "did you mean `tool_calls_limit`?",
    ),
    (
        &["check", "key.md"],
        0,
        "key.md:4: tool_call_limit: unknown key",
        "did you mean `tool_calls_limit`?",
    ),
    // Values that are not allowed.
    (
        &["run", "a.md", "hi", "--tool-calls-limit", "-1"],
        2,
        "got \"-1\"",
        "must be a whole number, 0 or more",
    ),
    (
        &["check", "value.toml"],
        2,
        "value.toml:2: policy.default.countdown: ",
        "every, milestones or off",
    ),
    (&["check", "broken.toml"], 2, "broken.toml:2", "expected"),
    (
        &["serve", "--listen", "127.0.0.1:99999"],
        2,
        "got \"127.0.0.1:99999\"",
        "such as 127.0.0.1:4141",
    ),
    (
        &["serve", "--listen", "{taken}"],
        2,
        "cannot listen on {taken}: another program uses this port",
        "--listen 127.0.0.1:0",
    ),
    (
        &["sim", "--listen", "{taken}"],
        2,
        "cannot listen on {taken}: another program uses this port",
        "--listen 127.0.0.1:0",
    ),
    (
        &["notebook", "n.ipynb", "--model", "sim/notebook", "--listen", "{taken}"],
        2,
        "--listen: another program uses this port",
        "port 0 takes a free one",
    ),
    (
        &["mcp", "agents", "--listen", "{taken}"],
        2,
        "--listen: another program uses this port",
        "port 0 takes a free one",
    ),
    // Files that are missing, or that are something else.
    (
        &["run", "none.md", "hi", "--model", "sim/reader"],
        2,
        "none.md: the file does not exist",
        "softland init",
    ),
    (
        &["run", "agents", "hi", "--model", "sim/reader"],
        2,
        "agents: is a folder",
        "an agent file is needed",
    ),
    (&["serve", "--config", "none.toml"], 2, "none.toml: the file does not exist", "softland init"),
    (&["serve", "--config", "agents"], 2, "agents: is a folder", "a config file is needed"),
    (&["audit", "none.jsonl"], 2, "none.jsonl", "No such file"),
    (&["mcp", "a.md"], 2, "a.md: is a file", "a folder of agent files is needed"),
    (&["runs", "--ledger", "agents"], 2, "agents: is a folder", "a ledger is a file"),
    (&["show", "last", "--ledger", "agents"], 2, "agents: is a folder", "a ledger is a file"),
    (&["audit", "a.md"], 2, "a.md: not a known kind of recording", "softland audit --help"),
    // Things that are missing.
    (&["run", "a.md", "hi"], 2, "no model", "--model"),
    (
        &["run", "a.md", "hi", "--model", "anthropic/claude-sonnet-5-5"],
        2,
        "no key for `anthropic`",
        "ANTHROPIC_API_KEY",
    ),
    (&["run", "a.md", "hi", "--model", "own/m"], 2, "`own`", "--base-url"),
    (
        &["run", "a.md", "hi", "--cost-limit-usd", "1", "--model", "ollama/m"],
        2,
        "the price of `ollama/m` is not known",
        "[[price]]",
    ),
    (
        &["run", "shell.md", "hi", "--model", "sim/reader"],
        2,
        "shell.md:4: tools: `shell`",
        "--allow-shell",
    ),
    (&["wrap"], 2, "required", "softland wrap [OPTIONS] -- <CMD>"),
    (&["wrap", "--observe", "--"], 2, "required", "softland wrap [OPTIONS] -- <CMD>"),
    (&["wrap", "cluade"], 127, "`cluade` was not found in any folder of PATH", "is it installed"),
    // `wrap` without `--`: the program's flag is not softland's.
    (&["wrap", "-p", "claude"], 2, "'-p'", "softland wrap [OPTIONS] -- <CMD>"),
    // Flags of other commands.
    (&["run", "a.md", "hi", "--json"], 2, "'--json'", "`--format json`"),
    (&["serve", "--ledger", "l.db"], 2, "'--ledger <FILE|URL>'", "`[ledger] url` of a config"),
    (
        &["wrap", "--ledger", "l.db", "--", "claude"],
        2,
        "'--ledger <FILE|URL>'",
        "`[ledger] url` of a config",
    ),
    // Runs that there are not, or more than one.
    (
        &["show", "run-x", "--ledger", "l.db"],
        2,
        "l.db has no run `run-x`",
        "the newest are run-12, run-11",
    ),
    (
        &["show", "run-1", "--ledger", "l.db"],
        2,
        "`run-1` begins the ids of several runs: run-11, run-12",
        "write one of them out",
    ),
    (
        &["runs", "--ledger", "none.db"],
        2,
        "none.db: there is no such ledger",
        "the default ledger is read",
    ),
    (&["runs", "--ledger", "a.md"], 2, "a.md: is not a softland ledger", "left as it is"),
    (&["run", "--resume", "run-x"], 2, "run-x", "--journal FILE"),
    (&["man", "servee"], 2, "no command `servee`", "did you mean `serve`?"),
];

fn prepare(folder: &Path) {
    let agent = "---\nname: a\ndescription: d\n---\nGo.\n";
    file(folder, "a.md", agent);
    file(folder, "shell.md", "---\nname: a\ndescription: d\ntools: shell\n---\nGo.\n");
    file(folder, "key.md", "---\nname: a\ndescription: d\ntool_call_limit: 3\n---\nGo.\n");
    file(folder, "key.toml", "[policy.default]\ntool_call_limit = 3\n");
    file(folder, "value.toml", "[policy.default]\ncountdown = \"yes\"\n");
    file(folder, "broken.toml", "[policy.default]\ntool_calls_limit 3\n");
    std::fs::create_dir(folder.join("agents")).unwrap();
    file(
        &folder.join("agents"),
        "a.md",
        "---\nname: a\ndescription: d\nmodel: sim/reader\n---\nGo.\n",
    );
    let ledger = Options::with_path(folder.join("l.db"));
    let ledger = Ledger::open(ledger, Arc::new(|| 1_790_000_000_000)).unwrap();
    for (at, run) in [(1, "run-11"), (2, "run-12")] {
        ledger.record(Record::RunStart(RunStart {
            at,
            run: run.into(),
            session: "s".into(),
            payer: Payer::default(),
            name: None,
            observed: false,
            agent: None,
            continues: None,
            model: "m".into(),
            policy: "default".to_owned(),
            client: None,
        }));
    }
    ledger.close(Duration::from_secs(30)).unwrap();
}

#[test]
fn each_names_the_mistake_and_the_way_out() {
    let (folder, taken) = (tempfile::tempdir().unwrap(), Server::sim("reader"));
    prepare(folder.path());
    let here = folder.path().to_str().unwrap();
    let fill = |text: &str| text.replace("{here}", here).replace("{taken}", &taken.address);
    assert!(TABLE.len() >= 20);
    let mut wrong = Vec::new();
    for (args, status, mistake, way_out) in TABLE {
        let mut command = softland();
        command.current_dir(folder.path()).env("XDG_STATE_HOME", folder.path().join("state"));
        command.env("PATH", "/usr/bin:/bin").args(args.iter().map(|arg| fill(arg)));
        let said = said_by(&mut command);
        let (mistake, way_out) = (fill(mistake), fill(way_out));
        // An error is short: what is wrong, and what to do.
        let short = said.stderr.lines().count() <= 12;
        let named = said.stderr.contains(&mistake) && said.stderr.contains(&way_out);
        if said.status != Some(*status) || !named || !short {
            wrong.push(format!("{args:?}: {:?}\n{}", said.status, said.stderr));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), TABLE.len(), wrong.join("\n"));
}
