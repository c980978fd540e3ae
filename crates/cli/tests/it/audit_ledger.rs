//! The audit of a ledger and an event log that a gateway has just written.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::server::*;
use crate::support::*;
use serde_json::{Value, json};
use tempfile::tempdir;

/// Runs an agent of its own through the gateway, which only the gateway bounds.
fn run_through(gateway: &Server, prompt: &str) {
    let mut command = softland();
    command.env("ANTHROPIC_API_KEY", SECRET).arg("run").arg(analyst());
    command.args([prompt, "--base-url", &gateway.url(), "--mode", "observe", "--root"]);
    said_by(command.arg(notes()).args(["--model", "anthropic/claude-sonnet-5-5"]));
}

fn audit(path: &Path) -> Value {
    let said = said(&["audit", "--format", "json", path.to_str().unwrap()]).status(0);
    serde_json::from_str(&said.stdout).unwrap()
}

/// A gateway's own sums, from its pages.
fn totals(gateway: &Server) -> Value {
    let text = gateway.get("/api/totals?days=30");
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap();
    serde_json::from_str(&body).unwrap()
}

#[test]
fn a_ledger_that_a_gateway_has_just_written_is_read_as_it_is() {
    let folder = tempdir().unwrap();
    let events = folder.path().join("events.jsonl");
    let config = format!("[log]\nevents = {:?}\n", events.display().to_string());
    let config = file(folder.path(), "softland.toml", &config);
    for scenario in ["looper", "reader", "empty"] {
        let sim = Server::sim(scenario);
        let url = sim.url();
        let flags = ["--config", &config, "--anthropic-base-url", &url];
        let gateway = Server::serve(folder.path(), &flags, &[]);
        run_through(&gateway, &format!("What did we decide about pricing, {scenario}?"));
        gateway.signal("INT");
        assert_eq!(gateway.ended().0.code(), Some(0));
    }
    let ledger = folder.path().join("softland.db");
    let listed = said(&["runs", "--json", "--ledger", ledger.to_str().unwrap()]).status(0).events();
    assert_eq!(listed.len(), 3, "{listed:?}");
    let (of_ledger, of_log) = (audit(&ledger), audit(&events));
    let name = |run: &Value| run["run"].as_str().unwrap().to_owned();
    for report in [&of_ledger, &of_log] {
        assert_eq!(report["unreadable"], json!([]), "{report}");
        let runs = report["runs"].as_array().unwrap();
        let audited: BTreeMap<String, &Value> = runs.iter().map(|run| (name(run), run)).collect();
        assert_eq!(audited.len(), 3, "{report}");
        for run in &listed {
            let (_, own) = audited
                .iter()
                .find(|(name, _)| name.contains(run["run"].as_str().unwrap()))
                .unwrap();
            assert_eq!(own["tool_calls"], run["tool_calls"], "{own}");
            assert_eq!(own["turns"], run["turns"], "{own}");
            assert_eq!(own["end"]["outcome"], run["outcome"], "{own}");
            let (ours, theirs) =
                (own["cost_usd"].as_f64().unwrap(), run["cost_usd"].as_f64().unwrap());
            assert!((ours - theirs).abs() < 1e-9, "{own}");
        }
        let landed = audited.values().filter(|run| run["end"]["outcome"] == "landed");
        assert!(landed.clone().count() > 0, "the looper lands");
        assert!(landed.clone().all(|run| run["wasted_usd"].as_f64().unwrap() > 0.0), "{report}");
    }
    assert_eq!(of_ledger["totals"]["wasted_usd"], of_log["totals"]["wasted_usd"]);
    // Both together tell of the same three runs.
    let of_both = audit(folder.path());
    assert_eq!(of_both["totals"], of_ledger["totals"]);
    let again = Server::serve(folder.path(), &["--config", &config], &[]);
    let shown = totals(&again)["all"]["wasted_usd"].as_f64().unwrap();
    let audited = of_ledger["totals"]["wasted_usd"].as_f64().unwrap();
    assert!((shown - audited).abs() < 1e-9, "the page says {shown}, the audit {audited}");
    again.signal("INT");
    again.ended();
}

/// A price of 0 would make a limit of money void.
#[test]
fn d12_a_suggested_price_is_refused_until_it_is_filled_in() {
    let folder = tempdir().unwrap();
    let said_once = json!({"id": "s", "model": "nobodys-model", "messages": [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "That is how it is.",
            "usage": {"input_tokens": 1000, "output_tokens": 100}},
    ]});
    let recorded = file(folder.path(), "s.json", &said_once.to_string());
    let report = audit(Path::new(&recorded));
    let entry = report["models"][0]["price_entry"].as_str().unwrap();
    let text = said(&["audit", &recorded]).status(0).stdout;
    assert!(entry.lines().all(|line| text.contains(line)), "{entry}\n{text}");
    let pasted = file(folder.path(), "prices.toml", entry);
    said(&["check", &pasted]).status(2).says("price.input: must be an amount of dollars");
    said(&["audit", &recorded, "--policy", &pasted]).status(2).says("price.input: must be");
    file(folder.path(), "prices.toml", &entry.replace("\"?\"", "2"));
    said(&["check", &pasted]).status(0);
}
