//! `softland check`, help and version from outside.

use crate::support::*;

#[test]
fn what_is_right_is_said_to_be() {
    let agent = analyst();
    let agent = agent.to_str().unwrap();
    let said = said(&["check", agent]).status(0);
    assert_eq!(said.stdout, format!("{agent}: ok\n"));
    assert!(said.stderr.is_empty());
}

#[test]
fn warnings_are_counted_beside_what_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let text = "---\nname: a\ndescription: d\ncost_limit: 3\n---\nGo.\n";
    let agent = file(folder.path(), "a.md", text);
    let said = said(&["check", &agent]).status(0);
    assert_eq!(said.stdout, format!("{agent}: ok, with 1 warning\n"));
    said.says("a.md:4: cost_limit: unknown key, ignored; did you mean `cost_limit_usd`?");
}

#[test]
fn every_error_of_every_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = file(folder.path(), "good.toml", "[policy.default]\ntool_calls_limit = 3\n");
    let agent = file(
        folder.path(),
        "a.md",
        "---\nname: a\ndescription: d\nturns_limit: -1\ncountdown: maybe\ncolour: red\n---\nGo.\n",
    );
    let config = file(folder.path(), "c.toml", "[policy.x]\nlanding = 'soft'\n");
    let other = file(folder.path(), "x.json", "{}");
    let said = said(&["check", &good, &agent, &config, &other]).status(2);
    assert_eq!(said.stdout, format!("{good}: ok\n"));
    said.says("a.md:4: turns_limit: must be a whole number")
        .says("a.md:5: countdown: must be every, milestones or off")
        .says("c.toml:2: policy.x.landing: must be auto, ask, none, respond or stop, got \"soft\"")
        .says("x.json: is neither an agent file (.md) nor a config (.toml)");
}

#[test]
fn limits_of_tools_that_no_api_holds_are_named_in_agent_files() {
    let folder = tempfile::tempdir().unwrap();
    let checked = |tool: &str| {
        let text = format!("---\nname: a\ndescription: d\ntool_limits:\n  {tool}: 2\n---\nGo.\n");
        said(&["check", &file(folder.path(), "a.md", &text)])
    };
    checked("grep").status(0);
    let wanted = "a.md: tool_limits: the limit of `code_execution` cannot be enforced: Anthropic's";
    checked("code_execution").status(2).says(wanted);
}

#[test]
fn c84_names_that_no_client_can_call_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let checked = |name: &str| {
        let text = format!("---\nname: {name}\ndescription: d\n---\nGo.\n");
        said(&["check", &file(folder.path(), "a.md", &text)])
    };
    for name in ["notes analyst", "analyst.v2", "\"é\"", &"x".repeat(65)] {
        let said = checked(name).status(2);
        said.says("a.md: name: `").says("cannot name a tool: 1 to 64 of a-z A-Z 0-9 _ - are");
    }
    for name in ["notes-analyst", "a", "A_1", &"x".repeat(64)] {
        checked(name).status(0);
    }
}

#[test]
fn models_that_no_run_would_take_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let checked = |model: &str| {
        let text = format!("---\nname: a\ndescription: d\nmodel: {model}\n---\nGo.\n");
        said(&["check", &file(folder.path(), "a.md", &text)])
    };
    for (model, wanted) in
        [("nowhere/x", "unknown provider `nowhere`"), ("sim/raeder", "unknown scenario `raeder`")]
    {
        checked(model).status(2).says("a.md:4: model: ").says(wanted);
    }
    for model in
        ["anthropic/claude-sonnet-5-5", "sim/looper@claude-opus-5-5", "openai/gpt-5", "inherit"]
    {
        checked(model).status(0);
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    for args in [&["--help"][..], &["run", "--help"], &["sim", "--help"], &["check", "--help"]] {
        let said = said(args).status(0);
        assert!(said.stdout.contains("Usage: softland") && said.stderr.is_empty(), "{args:?}");
        assert!(said.stdout.lines().all(|line| line.chars().count() <= 100), "{args:?}");
    }
    assert_eq!(said(&["help", "run"]).status(0).stdout, said(&["run", "--help"]).stdout);
    assert_eq!(said(&["help"]).status(0).stdout, said(&["--help"]).stdout);
    said(&["help", "frobnicate"]).status(2).says("frobnicate");
    let version = said(&["--version"]).status(0);
    assert_eq!(version.stdout, format!("softland {}\n", env!("CARGO_PKG_VERSION")));
    said(&["frobnicate"]).status(2).says("frobnicate");
}
