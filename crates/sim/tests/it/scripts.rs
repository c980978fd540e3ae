//! Scenario files: their turns are played, and errors in them are reported with their place.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use crate::support;

use crate::support::{ask, body, drive};
use serde_json::json;
use softland_sim::{Config, DEFAULT_MODEL, Scenario, Script, Sim};

const SCRIPT: &str = r#"
name = "two greps"

[[turn]]
text = "Let me look."
[[turn.call]]
tool = "grep"
input = { pattern = "beans" }

[[turn]]
error = 529
retry_after = 1

[[turn]]
repeat = 2
[[turn.call]]
tool = "read_file"
input = { path = "a.md", limit = 3 }
[[turn.call]]
tool = "grep"
raw = '{"pattern": '

[[turn]]
text = "Beans."

[[turn]]
when = "limit"
text = "Told."

[[turn]]
when = "none"
text = "No tools."

[[turn]]
when = "forced"
[[turn.call]]
tool = "list_dir"
input = { path = "forced" }
"#;

fn sim(text: &str) -> Sim {
    Sim::new(Config::new(Scenario::Script(Script::parse_toml("s.toml", text).unwrap())))
}

#[test]
fn turns_are_played_in_order_and_conditions_go_before() {
    let sim_of = sim(SCRIPT);
    let question = || body(DEFAULT_MODEL, json!([{"role": "user", "content": "beans?"}]));
    let mut run = question();
    let (_, first) = ask(&sim_of, &run);
    assert_eq!(first["content"][1]["input"], json!({"pattern": "beans"}));
    go_on(&mut run, &first);
    assert_eq!(ask(&sim_of, &run).0, 529);
    let (_, third) = ask(&sim_of, &run);
    assert_eq!(third["content"][0]["input"], json!({"limit": 3, "path": "a.md"}));
    assert_eq!(third["content"][1]["input"], json!("{\"pattern\": "));
    let (_, fourth) = ask(&sim_of, &run);
    assert_eq!(fourth["content"][0]["input"], third["content"][0]["input"]);
    assert_ne!(fourth["content"][0]["id"], third["content"][0]["id"]);
    assert_eq!(ask(&sim_of, &run).1["content"][0]["text"], "Beans.");
    assert_eq!(ask(&sim_of, &run).1["content"][0]["text"], "The script ends here.");
    let told = drive(&sim(SCRIPT), question(), 9, |_, _| "Answer now with what you have.".into());
    assert_eq!(told.text(), "Told.");
    let mut none = question();
    none["tool_choice"] = json!({"type": "none"});
    assert_eq!(ask(&sim(SCRIPT), &none).1["content"][0]["text"], "No tools.");
    let mut forced = body("claude-sonnet-4-5", json!([{"role": "user", "content": "beans?"}]));
    forced["tool_choice"] = json!({"type": "tool", "name": "list_dir"});
    let (_, call) = ask(&sim(SCRIPT), &forced);
    assert_eq!(call["content"][0]["input"], json!({"path": "forced"}));
    // Free to choose among the tools, so not forced to call this one.
    forced["tool_choice"] = json!({"type": "any"});
    assert_eq!(ask(&sim(SCRIPT), &forced).1["content"][0]["name"], "grep");
}

/// Continues a run after an answer with one call: adds the answer and the call's result.
fn go_on(run: &mut serde_json::Value, answer: &serde_json::Value) {
    let calls = answer["content"].as_array().unwrap().iter().filter(|b| b["type"] == "tool_use");
    let results: Vec<_> = calls
        .map(|c| json!({"type": "tool_result", "tool_use_id": c["id"], "content": "a.md:1:beans"}))
        .collect();
    let messages = run["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": answer["content"]}));
    messages.push(json!({"role": "user", "content": results}));
}

#[test]
fn each_run_begins_at_the_first_turn() {
    let sim = sim(SCRIPT);
    for _ in 0..3 {
        let mut run = body(DEFAULT_MODEL, json!([{"role": "user", "content": "beans?"}]));
        let (_, first) = ask(&sim, &run);
        assert_eq!(first["content"][0]["text"], "Let me look.");
        go_on(&mut run, &first);
        assert_eq!(ask(&sim, &run).0, 529);
    }
}

#[test]
fn faults_are_counted_per_run_and_tries_of_a_first_request_are_one_run() {
    let faulty = "[[turn]]\nerror = 529\nrepeat = 2\n[[turn]]\n[[turn]]\ntext = 'Here.'\n";
    let run = body(DEFAULT_MODEL, json!([{"role": "user", "content": "beans?"}]));
    let (scripted, overloaded) = (sim(faulty), support::sim("overloaded"));
    for _ in 0..3 {
        let statuses: Vec<u16> = (0..3).map(|_| ask(&overloaded, &run).0).collect();
        assert_eq!(statuses, [529, 529, 200]);
        let statuses: Vec<u16> = (0..3).map(|_| ask(&scripted, &run).0).collect();
        assert_eq!(statuses, [529, 529, 200]);
        // The turn was empty: repeating the request continues the run.
        assert_eq!(ask(&scripted, &run).1["content"][0]["text"], "Here.");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, parts) in [
        (
            "[[turn]]\ntxt = \"a\"\n",
            &["s.toml:2:", "`txt`", "expected one of `when`, `repeat`"][..],
        ),
        (
            "[[turn]]\nwhen = \"never\"\n",
            &["s.toml:2:", "key `when`", "`none`, `forced`, `nudged`"],
        ),
        ("[[turn]]\nstop = \"halt\"\n", &["s.toml:2:", "key `stop`", "`end_turn`"]),
        ("[[turn]]\nrepeat = 0\n", &["s.toml:1:", "`repeat` is 1 or more"]),
        ("[[turn]]\nrepeat = \"twice\"\n", &["s.toml:2:", "key `repeat`", "or \"forever\""]),
        (
            "\n[[turn]]\nerror = 200\n",
            &["s.toml:2:", "`error` is 200; allowed is a status from 400 to 599"],
        ),
        ("[[turn]]\nretry_after = 1\n", &["`retry_after` needs `error`"]),
        (
            "[[turn]]\nerror = 500\ncut_after = 1\n",
            &["one of `error`, `error_event_after`, `cut_after`"],
        ),
        ("[[turn]]\n[[turn.call]]\ninput = {}\n", &["s.toml:2:", "missing field `tool`"]),
        (
            "[[turn]]\n[[turn.call]]\ntool = \"a\"\ninput = {}\nraw = \"\"\n",
            &["`input` or `raw`, not both"],
        ),
        ("[[turn]]\ntext = 5\n", &["s.toml:2:", "key `text`", "expected a string"]),
        ("name = \"x\"\n", &["no turn; a scenario file has at least one [[turn]]"]),
        ("[[turn]\n", &["s.toml:1:"]),
    ] {
        let error = Script::parse_toml("s.toml", text).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{text:?}: `{error}` has no `{part}`");
        }
    }
}

#[test]
fn files_are_found_by_path_and_missing_ones_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, SCRIPT).unwrap();
    assert!(matches!(Scenario::from_name_or_path(path.to_str().unwrap()), Ok(Scenario::Script(_))));
    let error = Scenario::from_name_or_path("nowhere/at-all.toml").unwrap_err();
    assert!(error.starts_with("nowhere/at-all.toml: "), "{error}");
    assert!(matches!(Scenario::from_name_or_path("looper"), Ok(Scenario::Builtin(_))));
}
