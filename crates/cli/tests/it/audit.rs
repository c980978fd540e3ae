//! `softland audit` through the real binary, on recordings of our own making.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use crate::support;

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{Said, file, notes, said, said_by, softland};
use serde_json::{Value, json};
use tempfile::TempDir;

const HEADER: &str = "generation_id,created_at,cost_total,cost_web_search,cost_cache,\
    cost_file_processing,byok_usage_inference,tokens_prompt,tokens_completion,tokens_reasoning,\
    tokens_cached,model_permaslug,provider_name,variant,cancelled,streamed,user,\
    finish_reason_raw,finish_reason_normalized,generation_time_ms,time_to_first_token_ms,\
    api_key_disabled,api_key_name,app_name";

/// A row: seconds after noon, money, prompt and completion tokens, app.
fn row(at: u64, cost: f64, prompt: u64, completion: u64, app: &str) -> String {
    let (minute, second) = (at / 60, at % 60);
    format!(
        "gen-{at}-{app},2026-03-05 12:{minute:02}:{second:02}.000,{cost},0,0,0,0,{prompt},\
         {completion},0,0,z-ai/glm-4.6,Z.AI,standard,false,true,,stop,stop,900,300,false,key,{app}"
    )
}

fn audit(args: &[&str]) -> Value {
    let mut all = vec!["audit", "--format", "json"];
    all.extend(args);
    let said = said(&all).status(0);
    serde_json::from_str(&said.stdout).unwrap()
}

fn runs(report: &Value) -> &Vec<Value> {
    report["runs"].as_array().unwrap()
}

/// A session of Anthropic's messages: a question, rounds of one call, and an answer.
fn session(id: &str, rounds: impl Iterator<Item = (String, String)>, answer: &str) -> String {
    let mut messages = vec![json!({"role": "user", "content": "Look into it."})];
    for (n, (input, result)) in rounds.enumerate() {
        let id = format!("toolu_{n}");
        messages.push(json!({
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 1000, "output_tokens": 100},
            "content": [{"type": "tool_use", "id": id, "name": "read_file", "input": {"path": input}}],
        }));
        messages.push(json!({
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": id, "content": result}],
        }));
    }
    messages.push(json!({
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1000, "output_tokens": 100},
        "content": [{"type": "text", "text": answer}],
    }));
    json!({"id": id, "messages": messages}).to_string()
}

fn healthy(id: &str, rounds: usize) -> String {
    let rounds = (0..rounds).map(|n| (format!("{id}-{n}.md"), format!("text {n} of {id}")));
    session(id, rounds, "That is what the notes say about it.")
}

fn looping(id: &str, rounds: usize) -> String {
    session(id, (0..rounds).map(|_| ("a.md".to_owned(), "same".to_owned())), "I give up on it.")
}

#[test]
fn rows_answered_in_vain_are_found_among_healthy_traffic_with_their_money() {
    let folder = TempDir::new().unwrap();
    let mut rows = Vec::new();
    for n in 0..22 {
        rows.push(row(n * 20, 0.28, 56_065, 3, "agent"));
        // Another agent of the same key and model works on, and a chat of another app.
        rows.push(row(n * 20 + 7, 0.02, 3000 + 400 * n, 350, "agent"));
        rows.push(row(n * 20 + 11, 0.01, 900 + 50 * n, 120, "chat"));
    }
    for newest_first in [false, true] {
        if newest_first {
            rows.reverse();
        }
        let csv = file(folder.path(), "activity.csv", &format!("{HEADER}\n{}\n", rows.join("\n")));
        let report = audit(&[&csv]);
        let flagged: Vec<&Value> =
            runs(&report).iter().filter(|run| run["signals"] != json!([])).collect();
        assert_eq!(flagged.len(), 1, "{report}");
        let stale = &flagged[0]["signals"][0];
        assert_eq!((&stale["signal"], &stale["turns"]), (&json!("stale"), &json!(22)), "{stale}");
        let wasted = report["totals"]["wasted_usd"].as_f64().unwrap();
        assert!((wasted - 6.16).abs() <= 6.16 * 0.05, "{wasted}");
        assert_eq!(flagged[0]["inferred"], json!(true));
        assert_eq!(report["totals"]["turns"], json!(66));
        let spent = report["totals"]["cost_usd"].as_f64().unwrap();
        assert!((spent - 22.0 * 0.31).abs() < 1e-6, "{spent}");
    }
}

#[test]
fn json_has_the_documented_shape() {
    let folder = TempDir::new().unwrap();
    let lines = [looping("bad", 6), healthy("good", 3)].join("\n");
    let path = file(folder.path(), "runs.jsonl", &lines);
    let missing = folder.path().join("missing.jsonl").display().to_string();
    let report = audit(&[&path, &missing]);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut top = keys(&report);
    top.sort();
    let parts = ["agents", "days", "findings", "models", "projects", "tools"];
    let mut old: Vec<&str> =
        vec!["runs", "sources", "suggested_policy", "totals", "unreadable", "v"];
    let one = audit(&[&path, &missing, "--json-version", "1"]);
    assert_eq!((keys(&one).len(), &one["v"], &report["v"]), (old.len(), &json!(1), &json!(2)));
    assert!(one["runs"][0].get("where").is_none() && one["totals"].get("where").is_none(), "{one}");
    old.extend(parts);
    old.sort_unstable();
    assert_eq!(top, old);
    assert_eq!(report["sources"][0]["kind"], json!("messages"));
    assert_eq!(report["sources"][0]["runs"], json!(2));
    assert_eq!(report["unreadable"][0]["line"], Value::Null);
    for key in [
        "runs",
        "turns",
        "tool_calls",
        "usage",
        "cost_usd",
        "unpriced_turns",
        "wasted_usd",
        "wasted_tokens",
        "wasted_turns",
    ] {
        assert!(!report["totals"][key].is_null(), "totals.{key}");
    }
    let bad = runs(&report).iter().find(|run| run["session"] == json!("bad")).unwrap();
    assert!(bad["run"].as_str().unwrap().starts_with("bad"));
    assert_eq!((&bad["turns"], &bad["tool_calls"]), (&json!(7), &json!(6)));
    assert_eq!(bad["usage"]["input"], json!(7000));
    let signal = &bad["signals"][0];
    assert_eq!(signal["signal"], json!("repeat"));
    assert_eq!((&signal["from_turn"], &signal["to_turn"]), (&json!(1), &json!(6)));
    assert_eq!(signal["evidence"]["turns"], json!([1, 2, 3, 4, 5, 6]));
    assert!(signal["evidence"]["call"].as_str().unwrap().contains("a.md"));
    // 3 dollars a million in, 15 out: 0.0045 a turn, and five are waste.
    assert_eq!(bad["wasted_usd"], json!(0.0225));
    assert_eq!(bad["what_if"]["ended_at_turn"], json!(5));
    assert_eq!(bad["what_if"]["saved_turns"], json!(2));
    assert_eq!(bad["what_if"]["saved_usd"], json!(0.009));
    assert_eq!(bad["what_if"]["reason"], json!("repeat"));
    let good = runs(&report).iter().find(|run| run["session"] == json!("good")).unwrap();
    assert_eq!((&good["signals"], &good["what_if"]), (&json!([]), &Value::Null));
}

#[test]
fn a_policy_file_is_tried_with_its_prices() {
    let folder = TempDir::new().unwrap();
    let path = file(folder.path(), "runs.jsonl", &healthy("good", 8));
    let policy = file(
        folder.path(),
        "softland.toml",
        "[policy.default]\ntool_calls_limit = 4\n[[price]]\nmodel = \"claude-sonnet-4-5\"\n\
         input = 1000\noutput = 0\n",
    );
    let report = audit(&[&path, "--policy", &policy]);
    let run = &runs(&report)[0];
    assert_eq!(run["cost_usd"], json!(9.0));
    assert_eq!(run["what_if"]["ended_at_turn"], json!(5));
    assert_eq!(run["what_if"]["reason"], json!("tool_calls"));
    assert_eq!(run["what_if"]["saved_usd"], json!(4.0));
    let flagged = audit(&[&path, "--policy", &policy, "--tool-calls-limit", "6"]);
    assert_eq!(runs(&flagged)[0]["what_if"]["ended_at_turn"], json!(7), "a flag goes first");
    let two = file(folder.path(), "two.toml", "[policy.a]\n[policy.b]\n");
    said(&["audit", &path, "--policy", &two]).status(2).says("none is named `default`");
    said(&["audit", &path, "--policy", "coding"]).status(2).says("audit takes a config here");
    let wrong = file(folder.path(), "wrong.toml", "[policy.default]\ntool_call_limit = 4\n");
    said(&["audit", &path, "--policy", &wrong]).status(2).says("tool_calls_limit");
}

#[test]
fn the_table_says_what_is_worst_and_suggests_a_config_that_is_taken() {
    let folder = TempDir::new().unwrap();
    let mut lines: Vec<String> = (0..30).map(|n| healthy(&format!("good-{n}"), n % 7)).collect();
    lines.push(looping("small", 4));
    lines.push(looping("large", 20));
    let path = file(folder.path(), "runs.jsonl", &lines.join("\n"));
    let said = said(&["audit", &path]).status(0);
    let text = &said.stdout;
    let (large, small) = (text.find("large#1").unwrap(), text.find("small#1").unwrap());
    assert!(large < small, "the worst first:\n{text}");
    assert!(text.contains("repeat 20 turns (1–20)"), "{text}");
    assert!(text.contains("would end at turn 5 (repeat)"), "{text}");
    let toml = text.split_once("[policy.default]").unwrap().1;
    let config = file(folder.path(), "suggested.toml", &format!("[policy.default]{toml}"));
    support::said(&["check", &config]).status(0);
    let again = audit(&[&path, "--policy", &config]);
    for run in runs(&again) {
        let good = run["signals"] == json!([]);
        assert_eq!(good, run["what_if"]["ended_at_turn"].is_null(), "{run}");
    }
    let suggested = &again["suggested_policy"];
    assert!(suggested["tool_calls_limit"].as_u64().unwrap() > 6, "{suggested}");
}

#[test]
fn runs_that_hand_their_work_in_are_good_ones() {
    let folder = TempDir::new().unwrap();
    let call = |command: &str| json!({"role": "assistant", "content": format!("Now:\n\n```bash\n{command}\n```")});
    let user = |content: &str| json!({"role": "user", "content": content});
    for n in 0..20 {
        let messages = [
            json!({"role": "system", "content": "s"}),
            user("fix it"),
            call(&format!("sed -i s/a/b/ {n}.py")),
            user("<returncode>0</returncode>"),
            call("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff --cached"),
            user("diff --git"),
        ];
        let run = json!({"instance_id": n.to_string(), "info": {"exit_status": "Submitted"},
            "trajectory_format": "mini-swe-agent-1", "messages": messages});
        file(folder.path(), &format!("{n}.traj.json"), &run.to_string());
    }
    let report = audit(&[&folder.path().display().to_string()]);
    assert_eq!(report["sources"][0]["kind"], json!("mini-swe"), "{report}");
    assert!(report["suggested_policy"]["tool_calls_limit"].as_u64() >= Some(3), "{report}");
}

#[test]
fn the_page_is_one_file_that_fetches_and_obeys_nothing() {
    let folder = TempDir::new().unwrap();
    let nasty = "<script>alert(1)</script>\u{202e}&quot;' onload=x";
    let mut lines: Vec<String> = vec![looping(nasty, 6)];
    lines.extend((0..60).map(|n| looping(&format!("run-{n}"), 5)));
    let path = file(folder.path(), "runs.jsonl", &lines.join("\n"));
    let out = folder.path().join("report.html").display().to_string();
    said(&["audit", &path, "--format", "html", "--out", &out]).status(0).says("wrote");
    let page = std::fs::read_to_string(&out).unwrap();
    for forbidden in ["<script>alert", "\u{202e}", "http://", "https://", " src=", " href=", "url("]
    {
        assert!(!page.contains(forbidden), "{forbidden:?} is in the page");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(page.contains("The worst 50 of 61"));
    assert!(page.contains("softlandReport();") && page.contains("id=\"by-project\""));
    assert_eq!(page.matches("<details class=\"run\"").count(), 50);
    assert!(page.contains("read_file {"), "steps have their calls");
}

#[test]
fn bounded_output_of_many_steps() {
    let folder = TempDir::new().unwrap();
    let path = file(folder.path(), "long.jsonl", &looping("long", 450));
    let page = said(&["audit", &path, "--format", "html"]).status(0).stdout;
    assert!(page.contains("251 more turns left out"), "200 of 451 are shown");
}

#[test]
fn what_cannot_be_read_is_listed_and_stops_nothing_else() {
    let folder = TempDir::new().unwrap();
    let good = file(folder.path(), "good.jsonl", &healthy("good", 2));
    let empty = file(folder.path(), "empty.jsonl", "");
    let report = audit(&[&good, &empty, "/does/not/exist"]);
    assert_eq!(runs(&report).len(), 1);
    assert!(report["unreadable"].as_array().unwrap().iter().any(|one| {
        one["path"] == json!("/does/not/exist") && one["reason"].as_str().is_some()
    }));
    said(&["audit", "/does/not/exist"]).status(2).says("/does/not/exist");
    let nothing = said(&["audit", "/does/not/exist", "--format", "json"]).status(2);
    let listed: Value = serde_json::from_str(&nothing.stdout).unwrap();
    assert_eq!(listed["runs"], json!([]));
}

#[test]
fn without_a_path_the_usual_folders_are_read_and_named() {
    let home = TempDir::new().unwrap();
    let projects = home.path().join("claude/projects/-work");
    std::fs::create_dir_all(&projects).unwrap();
    let line = json!({
        "type": "user", "sessionId": "s1", "uuid": "u1", "timestamp": "2026-03-05T12:00:00.000Z",
        "message": {"role": "user", "content": "Hello there."},
    });
    let answer = json!({
        "type": "assistant", "sessionId": "s1", "uuid": "u2", "parentUuid": "u1",
        "timestamp": "2026-03-05T12:00:05.000Z",
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [{"type": "text", "text": "Hello, what can I do for you?"}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 10, "output_tokens": 9},
        },
    });
    std::fs::write(projects.join("s1.jsonl"), format!("{line}\n{answer}\n")).unwrap();
    let config = home.path().join("claude").display().to_string();
    let mut command = softland();
    command.current_dir(home.path()).env("HOME", home.path()).env("CLAUDE_CONFIG_DIR", &config);
    command.env("XDG_STATE_HOME", home.path().join("state"));
    let found = said_by(command.args(["audit", "--format", "json"])).status(0);
    assert!(found.stderr.contains("(Claude Code)"), "{}", found.stderr);
    let report: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(report["totals"]["runs"], json!(1));
    let mut none = softland();
    none.current_dir(home.path()).env("XDG_STATE_HOME", home.path().join("state"));
    said_by(none.arg("audit")).status(2).says("none of the usual folders");
}

/// The audit must agree with the engine: a run without limits on a simulated model is recorded, and
/// then both audited and run under each limit.
#[test]
fn runs_would_end_where_the_engine_ends_them() {
    let folder = TempDir::new().unwrap();
    let free = ["--on-loop", "observe", "--tool-calls-limit", "25", "--countdown", "off"];
    let recorded = engine(&free, &folder, "free.ndjson");
    for keys in [
        "on_loop = 'observe'\ntool_calls_limit = 6",
        "on_loop = 'observe'\ntool_calls_limit = 1",
        "on_loop = 'observe'\nturns_limit = 7",
        "on_loop = 'observe'\nturns_limit = 2",
        "on_loop = 'observe'\ntool_limits = { grep = 2 }",
        "on_loop = 'observe'\nresult_chars_limit = 60",
        "on_loop = 'observe'\ntokens_limit = 8000\nreserve_tokens = 200",
        "on_loop = 'ladder'",
        "on_loop = 'land'\nrepeat_limit = 5",
        "on_loop = 'stop'",
    ] {
        for landing in ["auto", "stop"] {
            let policy = format!("[policy.default]\n{keys}\nlanding = \"{landing}\"\n");
            let config = file(folder.path(), "policy.toml", &policy);
            let report = audit(&[&recorded, "--policy", &config]);
            let judged = &runs(&report)[0]["what_if"];
            let ended = engine_end(&["--config", &config, "--policy", "default"], &folder);
            assert_eq!(judged["reason"], ended["reason"], "{policy}{judged}");
            // A turn of the engine's that was landed is the one that carried the note.
            assert_eq!(judged["ended_at_turn"], ended["turns"], "{policy}{ended}");
        }
    }
}

/// Under a limit of money, too, where what a request can cost is reserved before it is sent. One
/// step of these limits is less than what a turn costs.
#[test]
fn runs_would_end_where_the_engine_ends_them_under_a_limit_of_money() {
    let folder = TempDir::new().unwrap();
    let free = ["--on-loop", "observe", "--tool-calls-limit", "25", "--countdown", "off"];
    let recorded = engine(&free, &folder, "free.ndjson");
    let mut at = BTreeSet::new();
    // Under a smaller limit the engine sends nothing, which matches no turn of a recording.
    for key in ["cost_limit_usd", "session_cost_limit_usd"] {
        for limit in (16..=40).step_by(2).map(|thousandth| f64::from(thousandth) / 1000.0) {
            for landing in ["auto", "stop"] {
                let policy = format!(
                    "[policy.default]\non_loop = 'observe'\n{key} = {limit}\n\
                     reserve_tokens = 200\nlanding = \"{landing}\"\n"
                );
                let config = file(folder.path(), "policy.toml", &policy);
                let report = audit(&[&recorded, "--policy", &config]);
                let judged = &runs(&report)[0]["what_if"];
                let ended = engine_end(&["--config", &config, "--policy", "default"], &folder);
                assert_eq!(judged["reason"], ended["reason"], "{policy}{judged}{ended}");
                assert_eq!(judged["ended_at_turn"], ended["turns"], "{policy}{judged}{ended}");
                at.insert(ended["turns"].as_u64());
            }
        }
    }
    assert!(at.len() > 8, "they end in many turns: {at:?}");
}

/// A sub-agent's money counts for its caller, too. The caller ends where the engine would have
/// ended it, under a limit that its sub-agent reaches.
#[test]
fn a_run_with_a_sub_agent_would_end_where_the_engine_ends_it_under_a_limit_of_money() {
    let folder = TempDir::new().unwrap();
    let agents = folder.path().join("agents");
    std::fs::create_dir(&agents).unwrap();
    let head = "---\nname: looper\ndescription: d\nmodel: sim/looper\n";
    let keys = "on_loop: observe\ncountdown: off\ntool_calls_limit: 8\n---\nLoop.\n";
    file(&agents, "looper.md", &format!("{head}{keys}"));
    let lead = "---\nname: lead\ndescription: d\ntools: read_file, agent\nmodel: sim/delegate\n";
    let lead = file(folder.path(), "lead.md", &format!("{lead}---\nLead.\n"));
    let run = |flags: &[&str]| {
        let mut command = softland();
        command.env("XDG_STATE_HOME", folder.path().join("state")).args(["run", &lead, "What?"]);
        command.arg("--agents").arg(&agents).args(["--format", "json"]).args(flags);
        said_by(command.arg("--root").arg(notes()))
    };
    let free = run(&["--on-loop", "observe", "--countdown", "off"]);
    let recorded = file(folder.path(), "free.ndjson", &free.stdout);
    let mut ends = BTreeSet::new();
    for key in ["cost_limit_usd", "session_cost_limit_usd"] {
        for limit in (5..=26).step_by(3).map(|thousandth| f64::from(thousandth) / 1000.0) {
            let policy = format!(
                "[policy.default]\non_loop = 'observe'\ncountdown = 'off'\n{key} = {limit}\n\
                 reserve_tokens = 100\n"
            );
            let config = file(folder.path(), "policy.toml", &policy);
            let report = audit(&[&recorded, "--policy", &config]);
            let events = run(&["--config", &config, "--policy", "default"]).events();
            let lead = &events[0]["run"];
            let end = |event: &&Value| event["event"] == json!("done") && event["run"] == *lead;
            let end = events.iter().find(end).unwrap();
            let judged = runs(&report).iter().find(|run| run["agent"] == json!("lead")).unwrap();
            let judged = &judged["what_if"];
            if end["outcome"] == json!("answered") {
                assert!(judged["ended_at_turn"].is_null(), "{policy}{judged}{end}");
            } else {
                assert_eq!(judged["reason"], end["reason"], "{policy}{judged}{end}");
                assert_eq!(judged["ended_at_turn"], end["turns"], "{policy}{judged}{end}");
            }
            let child = runs(&report).iter().find(|run| run["agent"] == json!("looper")).unwrap();
            ends.insert(child["what_if"]["ended_at_turn"].as_u64());
        }
    }
    assert!(ends.len() > 3, "the sub-agent ends in several turns: {ends:?}");
}

#[test]
fn simulated_money_is_called_so_and_what_was_decided_then_is_said() {
    let folder = TempDir::new().unwrap();
    let recorded = engine(&["--tool-calls-limit", "25"], &folder, "events.ndjson");
    let report = audit(&[&recorded]);
    let run = &runs(&report)[0];
    assert_eq!(run["simulated_usd"], run["cost_usd"]);
    assert_eq!(report["totals"]["simulated_usd"], report["totals"]["cost_usd"]);
    let ended = json!({"outcome": "landed", "reason": "repeat"});
    assert_eq!((&run["end"], &report["v"]), (&ended, &json!(2)));
    let one = audit(&[&recorded, "--json-version", "1"]);
    assert_eq!(runs(&one)[0]["ended"], ended, "the older shape calls it so");
    let text = said(&["audit", &recorded]).status(0).stdout;
    for words in
        ["of it simulated", "softland ended at the time: 1 landed (repeat)", "simulated money"]
    {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    let page = said(&["audit", &recorded, "--format", "html"]).status(0).stdout;
    assert!(page.contains("of it simulated") && page.contains("was landed at the time (repeat)"));
}

#[test]
fn a_known_kind_that_holds_nothing_readable_is_nothing() {
    let folder = TempDir::new().unwrap();
    let cut =
        file(folder.path(), "cut.jsonl", "{\"type\":\"user\",\"sessionId\":\"s\",\"uuid\":\"u\",");
    let header = file(folder.path(), "a.csv", &format!("{HEADER}\nx\n"));
    for path in [&cut, &header] {
        let said = said(&["audit", path]).status(2);
        assert!(said.stdout.is_empty(), "{}", said.stdout);
    }
    let good = file(folder.path(), "good.jsonl", &healthy("good", 2));
    said(&["audit", &cut, &good]).status(0);
}

#[test]
fn the_report_takes_its_form_from_its_ending_and_never_an_inputs_place() {
    let folder = TempDir::new().unwrap();
    let path = file(folder.path(), "runs.jsonl", &healthy("good", 2));
    let out = |name: &str| folder.path().join(name).display().to_string();
    for (name, begins) in
        [("r.html", "<!doctype html>"), ("r.json", "{\"v\":2"), ("r.txt", "1 run")]
    {
        said(&["audit", &path, "--out", &out(name)]).status(0);
        let text = std::fs::read_to_string(out(name)).unwrap();
        assert!(text.starts_with(begins), "{name}: {text}");
    }
    said(&["audit", &path, "--out", &out("r.pdf")])
        .status(2)
        .says("--format text, json, csv or html");
    said(&["audit", &path, "--format", "json", "--out", &out("r.pdf")]).status(0);
    let before = std::fs::read(&path).unwrap();
    let all = folder.path().display().to_string();
    for (given, form) in [(&path, "json"), (&all, "text")] {
        let asked = ["audit", given, "--format", form, "--out", &path];
        said(&asked).status(2).says("is not overwritten");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    // An earlier report among the files is none of them.
    said(&["audit", &all, "--out", &out("r.html")]).status(0);
}

/// The audit of a run's journal agrees with that of its events.
#[test]
fn a_journal_is_read_as_its_events_are() {
    let folder = TempDir::new().unwrap();
    // Some of the models are asked more than once in a turn, or have calls refused.
    let models = ["reader", "looper", "whitespace", "stubborn", "mute"];
    for model in models.map(|name| format!("sim/{name}")) {
        for api in ["anthropic", "openai-chat", "openai-responses"] {
            let name = format!("{}-{api}", model.split_once('/').unwrap().1);
            let journal = folder.path().join(format!("{name}.journal")).display().to_string();
            let flags = ["--journal", &journal, "--api", api, "--model", &model];
            let limits = ["--tool-calls-limit", "7", "--on-loop", "observe"];
            let events = engine(&[&flags[..], &limits].concat(), &folder, &name);
            let [of_journal, of_events] = [&journal, &events].map(|path| audit(&[path]));
            assert_eq!(of_journal["unreadable"], json!([]), "{name}");
            assert_eq!(of_journal["sources"][0]["kind"], json!("softland"));
            for key in ["run", "turns", "tool_calls", "usage", "cost_usd", "end"] {
                let [own, other] = [&of_journal, &of_events].map(|report| &runs(report)[0][key]);
                assert_eq!(own, other, "{name} {key}");
            }
            // Signals that only the events record are marked.
            let seen = |report: &Value| {
                let mut signals = runs(report)[0]["signals"].as_array().unwrap().clone();
                signals.retain(|signal| signal["recorded"].is_null());
                signals
            };
            assert_eq!(seen(&of_journal), seen(&of_events), "{name}");
            assert_eq!(of_journal["totals"]["unpriced_turns"], json!(0));
        }
    }
}

/// Records the events of a run of the looping model.
fn engine(flags: &[&str], folder: &TempDir, name: &str) -> String {
    let said = looper(flags, folder.path());
    assert!(said.stdout.contains("\"event\":\"done\""), "{}", said.stderr);
    file(folder.path(), name, &said.stdout)
}

fn engine_end(flags: &[&str], folder: &TempDir) -> Value {
    let said = looper(flags, folder.path());
    said.events().into_iter().find(|event| event["event"] == json!("done")).unwrap()
}

fn looper(flags: &[&str], folder: &Path) -> Said {
    let agent = "---\nname: free\ndescription: Has no limits of its own\n---\nAnswer.\n";
    let agent = file(folder, "free.md", agent);
    let mut command = softland();
    command.env("XDG_STATE_HOME", folder.join("state")).arg("run").arg(agent);
    let model = if flags.contains(&"--model") { &[][..] } else { &["--model", "sim/looper"] };
    command.arg("What is it?").args(model).args(["--format", "json"]);
    said_by(command.arg("--root").arg(notes()).args(flags))
}

#[test]
fn help_says_what_it_reads() {
    let help = said(&["audit", "--help"]).status(0).stdout;

    for word in ["Claude Code", "--policy", "--format", "--out", "Exit status"] {
        assert!(help.contains(word), "{word}:\n{help}");
    }
}

#[test]
fn the_money_is_grouped_as_asked_and_runs_are_chosen() {
    let folder = TempDir::new().unwrap();
    let lines = [looping("bad", 6), healthy("good", 3)].join("\n");
    let other = healthy("other", 2).replace("claude-sonnet-4-5", "gpt-5");
    let path = file(folder.path(), "runs.jsonl", &format!("{lines}\n{other}"));
    let by_model = said(&["audit", &path, "--by", "model", "--format", "csv"]).status(0).stdout;
    let rows: Vec<&str> = by_model.lines().collect();
    assert!(rows[0].starts_with("model,runs,turns,cost_usd,"), "{by_model}");
    assert!(rows[1].starts_with("claude-sonnet-4-5,2,11,0.0495,0,"), "{by_model}");
    assert!(rows[2].starts_with("gpt-5,1,3,"), "{by_model}");
    let runs_csv = said(&["audit", &path, "--out", folder.path().join("r.csv").to_str().unwrap()]);
    runs_csv.status(0);
    let written = std::fs::read_to_string(folder.path().join("r.csv")).unwrap();
    assert_eq!(written.lines().count(), 4, "{written}");
    let table = said(&["audit", &path, "--by", "run"]).status(0).stdout;
    assert!(table.contains("bad#1  Look into it."), "{table}");
    let chosen = audit(&[&path, "--model", "GPT"]);
    assert_eq!(
        (&chosen["totals"]["runs"], &chosen["runs"][0]["session"]),
        (&json!(1), &json!("other"))
    );
    let none = audit(&[&path, "--since", "1d"]);
    assert_eq!(none["totals"]["runs"], json!(0), "they have no times");
    said(&["audit", &path, "--since", "soon"]).status(2).says("--since must be a day such as");
}

#[test]
fn exported_runs_are_read_again_with_the_same_figures() {
    let folder = TempDir::new().unwrap();
    let path = file(folder.path(), "runs.jsonl", &[looping("a", 4), healthy("b", 2)].join("\n"));
    let out = folder.path().join("out").display().to_string();
    said(&["audit", &path, "--export", "atif", &out]).status(0).says("wrote 2 runs");
    let (before, after) = (audit(&[&path]), audit(&[&out]));
    let kinds: Vec<_> = after["sources"].as_array().unwrap().iter().map(|s| &s["kind"]).collect();
    assert_eq!(kinds, ["atif", "atif"]);
    for figure in ["runs", "turns", "tool_calls", "usage", "cost_usd"] {
        let (mut before, mut after) = (before["totals"].clone(), after["totals"].clone());
        // What was written stands nowhere, so nothing is estimated from it.
        for totals in [&mut before, &mut after] {
            totals["usage"]["estimated"] = json!(0);
        }
        assert_eq!(before[figure], after[figure], "{figure}");
    }
    said(&["audit", &path, "--export", "atif", &out]).status(2).says("cannot be written");
    said(&["audit", &path, "--export", "har", &out]).status(2).says("atif alone");
}
