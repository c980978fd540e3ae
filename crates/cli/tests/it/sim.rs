//! `softland sim` from outside, and `softland run` against it.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use crate::support::*;

/// A simulator of the test's own; it is ended with the test.
struct Sim {
    child: Child,
    url: String,
    usage: Vec<String>,
}

impl Sim {
    fn start(flags: &[&str]) -> Self {
        let mut command = softland();
        command.args(["sim", "--listen", "127.0.0.1:0"]).args(flags);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let usage: Vec<String> = lines.by_ref().take(3).map(Result::unwrap).collect();
        let url = usage[0].split_whitespace().nth(2).unwrap().to_owned();
        Self { child, url, usage }
    }

    fn asked(&self, model: &str, key: &str) -> Said {
        said_by(
            softland()
                .env("ANTHROPIC_BASE_URL", &self.url)
                .env("ANTHROPIC_API_KEY", key)
                .arg("run")
                .arg(analyst())
                .args(["What did we decide about pricing?", "--model", model, "--root"])
                .arg(notes()),
        )
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_run_over_http_is_the_run_in_process() {
    let sim = Sim::start(&[]);
    assert!(sim.usage[0].starts_with("listening on http://127.0.0.1:"), "{:?}", sim.usage);
    assert!(sim.usage[1].contains(&format!("ANTHROPIC_BASE_URL={}", sim.url)));
    let over_http = sim.asked("anthropic/claude-sonnet-5-5", "any").status(0);
    let in_process = run("What did we decide about pricing?", &[]).status(0);
    assert_eq!(over_http.stdout, in_process.stdout);
    assert!(!over_http.stderr.contains("simulated"), "a real provider's price is no simulation");
}

#[test]
fn the_simulator_by_its_own_name_needs_no_key() {
    let sim = Sim::start(&[]);
    let said = run("prices?", &["--model", "sim/looper", "--base-url", &sim.url]).status(0);
    assert!(said.stderr.contains("simulated, nothing was paid"));
}

#[test]
fn its_refusals_are_the_real_ones() {
    let sim = Sim::start(&["--scenario", "stubborn"]);
    sim.asked("anthropic/claude-sonnet-5-5", "any").status(0).says("(rung none)");
    sim.asked("anthropic/claude-sonnet-5-5", "invalid").status(4).says("(HTTP 401)");
    sim.asked("anthropic/claude-0", "any").status(4).says("(HTTP 404)");
}

#[test]
fn scenarios_come_from_files_too() {
    let folder = tempfile::tempdir().unwrap();
    let script = file(folder.path(), "s.toml", "[[turn]]\ntext = \"By the book.\"\n");
    let sim = Sim::start(&["--scenario", &script]);
    let said = sim.asked("anthropic/claude-sonnet-5-5", "any").status(0);
    assert_eq!(said.stdout, "By the book.\n");
    let bad = file(folder.path(), "bad.toml", "[[turn]]\ntxet = 1\n");
    said_by(softland().args(["sim", "--scenario", &bad])).status(2).says("bad.toml:2:");
    said_by(softland().args(["sim", "--scenario", "nope"]))
        .status(2)
        .says("--scenario: unknown scenario `nope`");
    said_by(softland().args(["sim", "--listen", "nowhere"])).status(2).says("--listen nowhere: ");
}

#[test]
fn it_stops_when_told() {
    for signal in ["INT", "TERM"] {
        let mut sim = Sim::start(&[]);
        kill(sim.child.id(), signal);
        assert_eq!(sim.child.wait().unwrap().code(), Some(0), "SIG{signal}");
    }
}
