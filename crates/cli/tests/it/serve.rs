//! `softland serve` from outside: a simulator behind it, real signals, real files.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::server::*;
use crate::support::*;
use serde_json::{Value, json};
use tempfile::tempdir;

/// The model that the tests ask for.
const MODEL: &str = "claude-sonnet-5-5";

#[test]
fn an_agent_gets_through_it_what_it_gets_without() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let gateway = Server::serve(folder.path(), &["--anthropic-base-url", &sim.url()], &[]);
    let asked = |url: &str| {
        let mut command = softland();
        command.env("ANTHROPIC_API_KEY", SECRET).arg("run").arg(analyst());
        command.args(["What did we decide about pricing?", "--base-url", url]);
        command.args(["--model", "anthropic/claude-sonnet-5-5", "--root"]).arg(notes());
        said_by(&mut command).status(0)
    };
    assert_eq!(asked(&gateway.url()).stdout, asked(&sim.url()).stdout);
    assert_eq!(gateway.status("/healthz", &gateway.address), 200);
    assert_eq!(gateway.status("/healthz", "evil.example"), 403);
    gateway.signal("INT");
    let (status, said) = gateway.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    let ledger = folder.path().join("softland/softland.db");
    assert!(ledger.exists() && !folder.path().join("softland.db").exists(), "{said}");
    assert!(said.contains(&format!("ledger: {}", ledger.display())), "{said}");
}

#[test]
fn it_says_where_it_listens_and_nothing_secret_however_much_it_logs() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let config = format!(
        "[upstream.anthropic]\nbase_url = \"{}/v1\"\napi_key_env = \"KEY\"\n\
         [clients]\ntokens_env = \"TOKENS\"\n[ledger]\nurl = \"off\"\n",
        sim.url()
    );
    let config = file(folder.path(), "softland.toml", &config);
    let token = "token-2b9d7e";
    let variables = [("KEY", SECRET), ("TOKENS", token), ("SOFTLAND_LOG", "trace")];
    let gateway = Server::serve(folder.path(), &["--config", &config], &variables);
    // Without a token nothing is sent on, with one the gateway's own key is.
    assert!(rest(gateway.ask(MODEL, false)).starts_with("HTTP/1.1 401"));
    let asked = said_by(
        softland()
            .env("ANTHROPIC_API_KEY", token)
            .args(["run"])
            .arg(analyst())
            .args(["prices?", "--base-url", &gateway.url(), "--model"])
            .args(["anthropic/claude-sonnet-5-5", "--root"])
            .arg(notes()),
    );
    asked.status(0);
    gateway.signal("TERM");
    let (_, said) = gateway.ended();
    assert!(said.contains("/v1/messages"), "requests are logged:\n{said}");
    assert!(!said.contains(SECRET) && !said.contains(token), "{said}");
    assert!(!folder.path().join("softland").exists(), "the ledger is off");
    assert!(said.contains("ledger: off ([ledger] url)"), "{said}");
}

#[test]
fn what_it_cannot_do_is_said_before_it_listens() {
    let folder = tempdir().unwrap();
    let said = |flags: &[&str]| {
        let mut command = softland();
        command.current_dir(folder.path()).arg("serve").args(flags).env("KEY", SECRET);
        said_by(&mut command).status(2)
    };
    let config = file(
        folder.path(),
        "a.toml",
        "listen = \"0.0.0.0:0\"\n[upstream.anthropic]\napi_key_env = \"KEY\"\n",
    );
    said(&["--config", &config])
        .says("a.toml:1: listen: 0.0.0.0:0 can be reached from other machines")
        .says("a.toml:3: upstream.anthropic.api_key_env; name the tokens");
    let unset = file(folder.path(), "b.toml", "[upstream.openai]\napi_key_env = \"NOT_SET\"\n");
    said(&["--config", &unset])
        .says("b.toml:2: upstream.openai.api_key_env: the variable NOT_SET is not set");
    let wrong = file(folder.path(), "c.toml", "listen = 1\n[ledger]\nurl = \"x\"\n[routes]\n");
    said(&["--config", &wrong])
        .says("c.toml:1: listen: must be an address")
        .says("c.toml:3: ledger.url: must be")
        .says("c.toml:4: routes: unknown key; did you mean `route`?");
    said(&["--config", "none.toml"]).says("none.toml: the file does not exist");
    said(&["--policy", "lax"]).says("no policy is named `lax`");
    let taken = Server::sim("reader");
    said(&["--listen", &taken.address]).says(&format!("cannot listen on {}", taken.address));
    let loud = said_by(softland().arg("serve").env("SOFTLAND_LOG", "softland=loud")).status(2);
    loud.says("SOFTLAND_LOG must be a level");
}

#[test]
fn a_config_is_read_again_and_one_with_mistakes_is_not_taken() {
    let folder = tempdir().unwrap();
    let with = |text: &str| file(folder.path(), "softland.toml", text);
    let config = with("[ledger]\nurl = \"off\"\n");
    let mut gateway = Server::serve(folder.path(), &["--config", &config], &[]);
    let port = gateway.address.rsplit(':').next().unwrap().to_owned();
    let name = format!("gateway.example:{port}");
    assert_eq!(gateway.status("/healthz", &name), 403);

    with("allowed_hosts = [\"gateway.example\"]\n[ledger]\nurl = \"off\"\n");
    gateway.signal("HUP");
    gateway.until("is in force");
    assert_eq!(gateway.status("/healthz", &name), 200);

    with("allowed_host = []\n[ledger]\nurl = \"off\"\n[policy.x]\nturns_limit = -1\n");
    gateway.signal("HUP");
    gateway.until("softland.toml:1: allowed_host: unknown key; did you mean `allowed_hosts`?");
    gateway.until("softland.toml:5: policy.x.turns_limit: must be a whole number");
    gateway.until("the old settings stay");
    assert_eq!(gateway.status("/healthz", &name), 200);

    // A gateway with the default ledger keeps it.
    let plain = tempdir().unwrap();
    let config_of_plain = file(plain.path(), "softland.toml", "[policy.x]\nturns_limit = 3\n");
    let mut other = Server::serve(plain.path(), &["--config", &config_of_plain], &[]);
    assert!(plain.path().join("softland.db").exists());
    file(plain.path(), "softland.toml", "[policy.x]\nturns_limit = 4\n");
    other.signal("HUP");
    other.until("is in force");

    // Changes that need a restart are refused, too.
    with("[ledger]\nurl = \"sqlite:other.db\"\n");
    gateway.signal("HUP");
    gateway.until("[ledger] and [log] events cannot change while the gateway runs");
    assert_eq!(gateway.status("/healthz", &name), 200);
    assert!(gateway.runs());
}

#[test]
fn a_config_that_is_half_written_is_not_taken() {
    let folder = tempdir().unwrap();
    let with = |text: &str| file(folder.path(), "softland.toml", text);
    let policy = "[policy.x]\nturns_limit = 3\n";
    let upstream = "[upstream.openai]\nbase_url = \"http://127.0.0.1:9\"\n";
    let ledger = "[ledger]\nurl = \"off\"\n";
    let config = with(&[policy, upstream, ledger].concat());
    let mut gateway = Server::serve(folder.path(), &["--config", &config], &[]);
    let half = [
        (String::new(), "[policy.x], [upstream.openai] base_url"),
        ("# soon\n".to_owned(), "[policy.x], [upstream.openai] base_url"),
        ([policy, ledger].concat(), "lacks [upstream.openai] base_url,"),
        ([ledger, upstream].concat(), "lacks [policy.x],"),
        ([ledger, policy, "[upstream.openai]\n"].concat(), "lacks [upstream.openai] base_url,"),
        ([upstream, ledger, "[policy.x]\nturns_limit = 30"].concat(), "lacks the end of its last"),
    ];
    for (text, lacks) in half {
        with(&text);
        gateway.signal("HUP");
        gateway.until(lacks);
    }
    with(&[policy, upstream, ledger, "[policy.y]\n"].concat());
    gateway.signal("HUP");
    gateway.until("is in force");
}

/// A simulator that waits before each piece of its answer.
fn slow_sim(folder: &Path, pause_ms: u64) -> Server {
    let text = "one two three four five six seven eight nine ten";
    let script = format!("[[turn]]\ntext = \"{text}\"\ndelta_delay_ms = {pause_ms}\n");
    Server::sim(&file(folder, "slow.toml", &script))
}

/// A gateway before such a one.
fn slow(folder: &Path, pause_ms: u64) -> (Server, Server) {
    let sim = slow_sim(folder, pause_ms);
    let gateway = Server::serve(folder, &["--anthropic-base-url", &sim.url()], &[]);
    (gateway, sim)
}

#[test]
fn it_stops_when_the_requests_under_way_have_ended() {
    let folder = tempdir().unwrap();
    let (mut gateway, _sim) = slow(folder.path(), 400);
    let mut stream = gateway.ask(MODEL, true);
    let head = read_until(&mut stream, "message_start");
    assert!(!head.contains("message_stop"), "too fast for this test:\n{head}");
    gateway.signal("TERM");
    gateway.until("stopping: running requests may end");
    assert!(gateway.runs());
    let tail = rest(stream);
    assert!(tail.contains("event: message_stop"), "the stream was cut:\n{tail}");
    let address = gateway.address.clone();
    let (status, said) = gateway.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(TcpStream::connect(address).is_err(), "somebody still listens");
}

#[cfg(target_os = "linux")]
#[test]
fn on_one_core_streams_are_served_side_by_side_and_to_their_ends() {
    let folder = tempdir().unwrap();
    let sim = slow_sim(folder.path(), 100);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let core = allowed.trim().split([',', '-']).next().unwrap();
    let mut command = std::process::Command::new("taskset");
    command.env_clear().env("XDG_STATE_HOME", folder.path()).current_dir(folder.path());
    command.args(["-c", core]).arg(softland().get_program());
    command.args(["serve", "--listen", "127.0.0.1:0", "--anthropic-base-url", &sim.url()]);
    let mut gateway = Server::start(&mut command);
    let mut streams = [(); 8].map(|()| gateway.ask_as_agent(MODEL, true));
    for stream in &mut streams {
        read_until(stream, "message_start");
    }
    assert_eq!(gateway.status("/healthz", &gateway.address), 200, "while streams are open");
    gateway.signal("TERM");
    gateway.until("stopping: running requests may end");
    for stream in streams {
        assert!(rest(stream).contains("event: message_stop"), "a stream was cut");
    }
    let (status, said) = gateway.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_eq!(runs(folder.path(), |_| true).len(), 8);
}

/// A process that ends with the test, whether the test passes or fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_log_that_nobody_reads_stops_nobody() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let mut command = softland();
    command.current_dir(folder.path()).args(["serve", "--listen", "127.0.0.1:0"]);
    command.args(["--anthropic-base-url", &sim.url()]).env("SOFTLAND_LOG", "trace");
    let gateway = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let Ended(gateway) = &mut Ended(gateway);
    // Its output is read up to the address, and no further.
    let mut said = BufReader::new(gateway.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening on http://") {
        line.clear();
        said.read_line(&mut line).unwrap();
    }
    let address = line.trim().rsplit('/').next().unwrap();
    // A pipe holds 64 KiB, and each refusal is logged.
    for _ in 0..1000 {
        assert_eq!(status_at(address, "/to/nobody/v1/messages"), 404);
    }
    kill(gateway.id(), "TERM");
    let deadline = Instant::now() + PATIENCE;
    while gateway.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until `softland runs --json` lists enough runs of the ledger in a folder, and returns
/// them.
fn runs(folder: &Path, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = softland()
            .current_dir(folder)
            .env("XDG_STATE_HOME", folder)
            .args(["runs", "--json"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let runs: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if enough(&runs) {
            return runs;
        }
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_second_signal_does_not_wait_and_loses_nothing() {
    let folder = tempdir().unwrap();
    let (mut gateway, _sim) = slow(folder.path(), 600_000);
    let mut stream = gateway.ask_as_agent(MODEL, true);
    read_until(&mut stream, "message_start");
    gateway.signal("TERM");
    gateway.until("stopping: running requests may end");
    gateway.signal("TERM");
    let (status, said) = gateway.ended();
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("running requests are cut off"), "{said}");
    assert!(!rest(stream).contains("message_stop"), "it was cut");
    let runs = runs(folder.path(), |_| true);
    assert_eq!(runs.len(), 1, "{runs:?}");
    let run = &runs[0];
    assert_eq!((&run["outcome"], &run["reason"]), (&json!("cancelled"), &json!("user")));
    assert_eq!(run["requests"], 1);
    assert!(run["cost_usd"].as_f64().unwrap() > 0.0, "what came of it is paid: {run}");
}

#[test]
fn what_a_killed_gateway_left_open_is_ended_by_the_next() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let flags = ["--anthropic-base-url", &*sim.url()];
    let killed = Server::serve(folder.path(), &flags, &[]);
    let answer = rest(killed.ask_as_agent(MODEL, false));
    assert!(answer.contains("tool_use"), "the run goes on: {answer}");
    let counted = |runs: &[Value]| runs.first().is_some_and(|run| run["requests"] == 1);
    let open = runs(folder.path(), counted).remove(0);
    assert!(open.get("outcome").is_none(), "{open}");
    killed.signal("KILL");
    killed.ended();

    let next = Server::serve(folder.path(), &flags, &[]);
    let over = |runs: &[Value]| runs.iter().any(|run| run.get("outcome").is_some());
    let run = runs(folder.path(), over).remove(0);
    assert_eq!((&run["outcome"], &run["reason"]), (&json!("cancelled"), &json!("user")));
    assert_eq!(run["run"], open["run"]);
    for kept in ["cost_usd", "usage", "requests", "turns", "started", "last"] {
        assert_eq!(run[kept], open[kept], "{kept}");
    }
    assert!(run["tool_calls"].is_null(), "nobody has counted them: {run}");
    let id = run["run"].as_str().unwrap();
    let table = said_by(
        softland().current_dir(folder.path()).env("XDG_STATE_HOME", folder.path()).arg("runs"),
    )
    .status(0);
    assert!(table.stdout.contains("cancelled: user"), "{}", table.stdout);
    let shown = said_by(
        softland()
            .current_dir(folder.path())
            .env("XDG_STATE_HOME", folder.path())
            .args(["show", id]),
    )
    .status(0);
    assert!(shown.stdout.contains("cancelled: user"), "{}", shown.stdout);

    // Another gateway does not end this one's runs.
    rest(next.ask_as_agent(MODEL, false));
    let two = |runs: &[Value]| runs.len() == 2 && runs.iter().all(|run| run["requests"] == 1);
    runs(folder.path(), two);
    let beside = Server::serve(folder.path(), &flags, &[]);
    rest(beside.ask_as_agent(MODEL, false));
    // What it ends when it begins is written before its own request.
    let three = |runs: &[Value]| runs.len() == 3 && runs.iter().all(|run| run["requests"] == 1);
    let open = runs(folder.path(), three);
    assert_eq!(open.iter().filter(|run| run.get("outcome").is_none()).count(), 2, "{open:?}");
}

#[test]
fn an_admin_address_is_said_and_served() {
    let folder = tempdir().unwrap();
    let config = "[ledger]\nurl = \"off\"\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    let config = file(folder.path(), "softland.toml", config);
    let mut gateway = Server::serve(folder.path(), &["--config", &config], &[]);
    let line = gateway.until("health, readiness and metrics also on http://");
    let admin = line.rsplit("http://").next().unwrap().trim().to_owned();
    for (path, status) in [("/readyz", 200), ("/metrics", 200), ("/v1/models", 404)] {
        assert_eq!(status_at(&admin, path), status, "{path}");
    }
    assert_eq!(gateway.status("/metrics", &gateway.address), 200);
}
