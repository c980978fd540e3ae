//! Scenario files: what they say is played, and what is wrong in them is named.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

mod support;

use serde_json::json;
use softland_sim::{Config, DEFAULT_MODEL, Scenario, Script, Sim};
use support::{ask, body, drive};

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
"#;

fn sim(text: &str) -> Sim {
    Sim::new(Config::new(Scenario::Script(Script::parse("s.toml", text).unwrap())))
}

#[test]
fn turns_are_played_in_order_and_conditions_go_before() {
    let sim_of = sim(SCRIPT);
    let question = || body(DEFAULT_MODEL, json!([{"role": "user", "content": "beans?"}]));
    let (_, first) = ask(&sim_of, &question());
    assert_eq!(first["content"][1]["input"], json!({"pattern": "beans"}));
    assert_eq!(ask(&sim_of, &question()).0, 529);
    let (_, third) = ask(&sim_of, &question());
    assert_eq!(third["content"][0]["input"], json!({"limit": 3, "path": "a.md"}));
    assert_eq!(third["content"][1]["input"], json!("{\"pattern\": "));
    let (_, fourth) = ask(&sim_of, &question());
    assert_eq!(fourth["content"][0]["input"], third["content"][0]["input"]);
    assert_ne!(fourth["content"][0]["id"], third["content"][0]["id"]);
    assert_eq!(ask(&sim_of, &question()).1["content"][0]["text"], "Beans.");
    assert_eq!(ask(&sim_of, &question()).1["content"][0]["text"], "The script ends here.");
    let told = drive(&sim(SCRIPT), question(), 9, |_, _| "Answer now with what you have.".into());
    assert_eq!(told.text(), "Told.");
    let mut none = question();
    none["tool_choice"] = json!({"type": "none"});
    assert_eq!(ask(&sim(SCRIPT), &none).1["content"][0]["text"], "No tools.");
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
            &["s.toml:2:", "key `when`", "`always`, `limit`, `none`, `nudged`"],
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
        let error = Script::parse("s.toml", text).unwrap_err();
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
    assert!(matches!(Scenario::load(path.to_str().unwrap()), Ok(Scenario::Script(_))));
    let error = Scenario::load("nowhere/at-all.toml").unwrap_err();
    assert!(error.starts_with("nowhere/at-all.toml: "), "{error}");
    assert!(matches!(Scenario::load("looper"), Ok(Scenario::Builtin(_))));
}
