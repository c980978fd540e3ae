use std::collections::BTreeSet;

use super::*;

fn parsed(args: &[&str]) -> Result<Command, Failure> {
    parse(["softland"].iter().chain(args).map(OsString::from))
}

fn run_of(args: &[&str]) -> RunArgs {
    match parsed(&[&["run", "a.md"], args].concat()) {
        Ok(Command::Run(args)) => args,
        other => panic!("{other:?}"),
    }
}

fn refused(args: &[&str]) -> String {
    match parsed(args) {
        Err(failure) => {
            assert_eq!(failure.code(), std::process::ExitCode::from(2));
            failure.messages.join("\n")
        }
        Ok(command) => panic!("{command:?}"),
    }
}

#[test]
fn the_command_line_is_sound() {
    spec::command().debug_assert();
}

#[test]
fn every_policy_key_is_a_flag_in_a_part_of_the_help() {
    let help = match parsed(&["run", "--help"]) {
        Ok(Command::Print(help)) => help,
        other => panic!("{other:?}"),
    };
    let headings: BTreeSet<_> = KEYS.iter().map(|key| spec::heading(key.name)).collect();
    for heading in headings {
        assert!(help.contains(&format!("{heading}:\n")), "{heading}\n{help}");
    }
    for key in KEYS {
        assert!(help.contains(&format!("--{} <", spec::flag_of(key.name))), "{}", key.name);
    }
    for later in LATER_FLAGS {
        assert!(!help.contains(&format!("--{later}")), "{later}");
    }
}

#[test]
fn flags_become_policy_values() {
    let args = run_of(&["--tool-calls-limit", "30", "--time-limit=10m", "--tool-limits", "grep=5"]);
    let mut policy = Policy::default();
    for (key, value) in &args.keys {
        policy.set(key, value).unwrap();
    }
    let mut wanted = Policy { tool_calls_limit: Some(30), ..Policy::default() };
    wanted.set("time_limit", &Value::Text("10m".to_owned())).unwrap();
    wanted.tool_limits.insert("grep".to_owned(), 5);
    assert_eq!(policy, wanted);
}

#[test]
fn wrong_values_name_flag_and_what_is_allowed() {
    for (flag, value, message) in [
        (
            "--tool-calls-limit",
            "-3",
            "--tool-calls-limit must be a whole number, 0 or more, got \"-3\"",
        ),
        ("--countdown", "yes", "--countdown must be every, milestones or off, got \"yes\""),
        (
            "--tool-limits",
            "grep=x",
            "--tool-limits must be NAME=NUMBER[,NAME=NUMBER]; `grep` must be a whole number, 0 or \
             more, got \"x\"",
        ),
        ("--tool-limits", "grep", "--tool-limits must be NAME=NUMBER[,NAME=NUMBER], got \"grep\""),
        (
            "--loop-keys",
            "wait=now",
            "--loop-keys must be NAME=WHAT[,NAME=WHAT], where WHAT is reads, writes, polls, \
             exempt, or argument names with + between; `wait` must be a list of argument names, \
             or one of reads, writes, polls and exempt, got \"now\"",
        ),
        ("--warn-at", "2", "--warn-at must be a share from 0 to 1, got \"2\""),
    ] {
        assert_eq!(refused(&["run", "a.md", "x", flag, value]), message);
    }
    assert!(refused(&["run", "a.md", "--format", "xml"]).contains("[possible values: text, json]"));
    assert!(refused(&["run", "a.md", "--api", "soap"]).contains("[possible values: anthropic]"));
    let mistyped = refused(&["run", "a.md", "--tool-call-limit", "3"]);
    assert!(mistyped.contains("'--tool-calls-limit'"), "{mistyped}");
}

#[test]
fn what_comes_later_is_refused_by_name() {
    for command in LATER_COMMANDS {
        let message = refused(&[command, "--anything", "x"]);
        assert!(message.contains(&format!("`softland {command}` comes with a later version")));
    }
    for flag in LATER_FLAGS {
        for args in [&["run", "a.md", "x"][..], &["run"][..]] {
            let flag = format!("--{flag}");
            let message = refused(&[args, &[&flag]].concat());
            assert_eq!(message, format!("`{flag}` comes with a later version"));
        }
    }
    assert_eq!(refused(&["run", "--resume", "run-1"]), "`--resume` comes with a later version");
    let help = match parsed(&["--help"]) {
        Ok(Command::Print(help)) => help,
        other => panic!("{other:?}"),
    };
    let commands: Vec<&str> = help
        .lines()
        .filter(|line| line.starts_with("  ") && !line.trim_start().starts_with('-'))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(commands, ["run", "sim", "check"]);
}

#[test]
fn protocols_to_come_are_refused_by_name_and_not_in_the_help() {
    for api in LATER_APIS {
        let message = refused(&["run", "a.md", "x", "--api", api]);
        assert_eq!(message, format!("`--api {api}` comes with a later version"));
    }
    assert_eq!(run_of(&["--api", "anthropic"]).api, Some(Api::Anthropic));
    let Ok(Command::Print(help)) = parsed(&["run", "--help"]) else { panic!() };
    assert!(!help.contains("openai-"), "{help}");
}

#[test]
fn a_bare_run_has_the_defaults() {
    let args = run_of(&[]);
    let root = PathBuf::from(".");
    assert_eq!(args, RunArgs { agent: "a.md".into(), root, ..RunArgs::default() });
    assert_eq!(run_of(&["-"]).prompt.as_deref(), Some("-"));
    assert!(refused(&["run"]).contains("no agent file"));
}

#[test]
fn sim_takes_address_and_scenario() {
    let Ok(Command::Sim(args)) = parsed(&["sim", "--listen", "127.0.0.1:0"]) else { panic!() };
    assert_eq!((args.listen.as_str(), args.scenario.as_str()), ("127.0.0.1:0", "reader"));
    let Ok(Command::Print(help)) = parsed(&["sim", "--help"]) else { panic!() };
    for (name, _) in softland_sim::Scenario::names() {
        assert!(help.contains(&format!("\n  {name} ")), "{name}");
    }
}
