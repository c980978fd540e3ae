//! Keys that run programs or reach hosts: `shell`, `commands`, `http_get`, `http_allow`.

use serde_json::json;

use super::*;
use crate::Root;
use crate::tools::{RunLine, ToolResources};

const COMMANDS: &str = "commands:
  count:
    description: Counts words
    schema: {type: object, properties: {text: {type: string}, max: {type: integer, minimum: 1}}}
    run: wc -w
    repeatable: true
  deploy:
    description: Deploys
    run: [./deploy.sh, --port, 80]";

#[test]
fn commands_are_tools() {
    let agent = parse_ok(&with(&format!("tools: deploy, grep\n{COMMANDS}")));
    assert_eq!(agent.tools, ["grep"]);
    let [count, deploy] = agent.commands.as_slice() else { panic!("{:?}", agent.commands) };
    assert_eq!((count.name.as_str(), count.repeatable), ("count", true));
    assert_eq!(count.schema["properties"]["max"], json!({"type": "integer", "minimum": 1}));
    assert_eq!(count.run, RunLine::Shell("wc -w".to_owned()));
    assert_eq!((deploy.description.as_str(), deploy.repeatable), ("Deploys", false));
    assert_eq!(deploy.schema, json!({"type": "object"}));
    let wanted = ["./deploy.sh", "--port", "80"].map(str::to_owned).to_vec();
    assert_eq!(deploy.run, RunLine::Program(wanted));
    // Commands are tools whether `tools` names them or not.
    assert_eq!(parse_ok(&with(COMMANDS)).commands.len(), 2);
}

#[test]
fn commands_that_cannot_be_used_name_what_is_wrong() {
    let command = |rest: &str| check(&with(&format!("commands: {{x: {{{rest}}}}}")));
    for (rest, wanted) in [
        ("run: a", "commands.x.description: must be text that is not empty, got nothing"),
        (
            "description: d",
            "commands.x.run: must be a command line, or a list of a program and its arguments, got nothing",
        ),
        ("description: d, run: ''", "commands.x.run: must be a command line, or a list"),
        ("description: d, run: []", "commands.x.run: must be a command line, or a list"),
        ("description: d, run: [[a]]", "commands.x.run: must be a command line, or a list"),
        (
            "description: d, run: a, schema: {type: string}",
            "commands.x.schema: must be a JSON Schema with `type: object`",
        ),
        ("description: d, run: a, schema: [1]", "commands.x.schema: must be a JSON Schema"),
        (
            "description: d, run: a, repeatable: 1",
            "commands.x.repeatable: must be true or false, got 1",
        ),
    ] {
        let text = command(rest);
        assert!(text.starts_with(&format!("a.md:4: {wanted}")), "{rest}: {text}");
    }
    let typo = command("description: d, run: a, repeatible: true");
    assert_eq!(
        typo,
        "warning: a.md:4: commands.x.repeatible: unknown key, ignored; did you mean `repeatable`?"
    );
    for (name, wanted) in [
        ("shell", "named otherwise than softland's own tools"),
        ("agent", "named otherwise than softland's own tools"),
        ("mcp__a__b", "named otherwise than softland's own tools"),
        ("'a b'", "named with 1 to 64 of"),
    ] {
        let text = check(&with(&format!("commands: {{{name}: {{description: d, run: a}}}}")));
        assert!(text.contains(&format!("must be {wanted}")), "{name}: {text}");
    }
    assert!(check(&with("commands: [a]")).starts_with("a.md:4: commands: must be names with {"));
}

#[test]
fn hosts_are_named_for_http_get() {
    let agent =
        parse_ok(&with("tools: http_get\nhttp_allow: [docs.rs, '*.example.com', localhost:3000]"));
    let hosts: Vec<String> = agent.http_allow.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["docs.rs", "*.example.com", "localhost:3000"]);
    assert_eq!(parse_ok(&with("http_allow: docs.rs, crates.io")).http_allow.len(), 2);
    assert_eq!(
        check(&with("tools: grep, http_get")),
        "a.md:4: tools: `http_get` needs `http_allow`, the hosts that it may ask, such as [docs.rs]; [\"*\"] is every public one",
    );
    for bad in ["https://docs.rs", "[7]", "{a: b}", "[a/b]", "''"] {
        let text = check(&with(&format!("http_allow: {bad}")));
        assert!(text.starts_with("a.md:4: http_allow: must be a list of hosts"), "{bad}: {text}");
    }
}

#[test]
fn programs_need_a_leave_that_no_file_gives() {
    let folder = tempfile::tempdir().unwrap();
    let means = || ToolResources::new(Root::open(folder.path()).unwrap());
    let programs = || crate::tools::ProgramRunner::new("/none", "x", [], &[]);
    let agent =
        parse_ok(&with(&format!("tools: grep, shell, http_get\nhttp_allow: docs.rs\n{COMMANDS}")));
    let problems = agent.tool_set("a.md", means()).unwrap_err();
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let needs = "on this machine, which is not confined to --root: it needs --allow-shell";
    assert_eq!(
        problems,
        [
            format!("a.md:4: tools: `shell` runs command lines {needs}"),
            format!("a.md:6: commands.count: runs a program {needs}"),
            format!("a.md:6: commands.deploy: runs a program {needs}"),
        ]
    );
    let tools = agent.tool_set("a.md", means().with_programs(programs())).unwrap();
    let said: Vec<_> =
        tools.defs().map(|def| (def.name.as_str(), def.reads, def.repeatable)).collect();
    assert_eq!(
        said,
        [
            ("grep", true, true),
            ("shell", false, false),
            ("http_get", true, true),
            ("count", false, true),
            ("deploy", false, false),
        ]
    );
    assert!(tools.get("shell").unwrap().description.contains("not confined to the root folder"));
    let plain = parse_ok(&with("tools: grep, write_file"));
    assert!(plain.tool_set("a.md", means()).is_ok());
}
