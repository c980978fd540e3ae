use super::*;
use softland_agent::core::policy::KeySection;

fn parsed(args: &[&str]) -> Result<Command, Failure> {
    parse_args(["softland"].iter().chain(args).map(OsString::from))
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
            assert_eq!(failure.exit_code(), std::process::ExitCode::from(2));
            failure.messages.join("\n")
        }
        Ok(command) => panic!("{command:?}"),
    }
}

#[test]
fn the_command_line_is_sound() {
    spec::build_command().debug_assert();
}

#[test]
fn every_policy_key_is_a_flag_in_a_part_of_the_help() {
    let help = match parsed(&["run", "--help"]) {
        Ok(Command::Print(help)) => help,
        other => panic!("{other:?}"),
    };
    for heading in KeySection::WORDS {
        assert!(help.contains(&format!("{heading}:\n")), "{heading}\n{help}");
    }
    for key in KEYS {
        assert!(help.contains(&format!("--{} <", spec::flag_name(key.name))), "{}", key.name);
    }
}

#[test]
fn flags_become_policy_values() {
    let args = run_of(&["--tool-calls-limit", "30", "--time-limit=10m", "--tool-limits", "grep=5"]);
    let mut policy = Policy::default();
    for (key, value) in &args.keys {
        policy.set_key(key, value).unwrap();
    }
    let mut wanted = Policy { tool_calls_limit: Some(30), ..Policy::default() };
    wanted.set_key("time_limit", &PolicyValue::Text("10m".to_owned())).unwrap();
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
    assert!(
        refused(&["run", "a.md", "--api", "soap"])
            .contains("[possible values: anthropic, openai-chat, openai-responses]")
    );
    let mistyped = refused(&["run", "a.md", "--tool-call-limit", "3"]);
    assert!(mistyped.contains("'--tool-calls-limit'"), "{mistyped}");
}

/// A paragraph is broken in one place only: wrapping a line that is already too long would leave a
/// word alone.
#[test]
fn what_stands_below_a_help_is_not_broken_twice() {
    for command in command_line().get_subcommands() {
        let below = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        let lines: Vec<&str> = below.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.len() > 100) {
            let next = lines.get(at + 1).copied().unwrap_or_default();
            assert!(next.is_empty(), "{}: {line}\n{next}", command.get_name());
        }
    }
}

#[test]
fn the_help_lists_every_command() {
    let help = match parsed(&["--help"]) {
        Ok(Command::Print(help)) => help,
        other => panic!("{other:?}"),
    };
    let commands: Vec<&str> = help
        .lines()
        .filter(|line| line.starts_with("  ") && !line.trim_start().starts_with('-'))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let listed = [
        "run",
        "serve",
        "wrap",
        "runs",
        "show",
        "pages",
        "keys",
        "audit",
        "init",
        "sim",
        "check",
        "completions",
        "man",
        "mcp",
        #[cfg(feature = "notebook")]
        "notebook",
        #[cfg(feature = "engine")]
        "worker",
        #[cfg(feature = "engine")]
        "cancel",
    ];
    assert_eq!(commands, listed);
}

#[test]
fn each_command_has_a_short_help_and_a_long_one_that_names_a_page() {
    let print = |args: &[&str]| match parsed(args) {
        Ok(Command::Print(help)) => help,
        other => panic!("{other:?}"),
    };
    for command in command_line().get_subcommands() {
        let name = command.get_name();
        let (short, long) = (print(&[name, "-h"]), print(&[name, "--help"]));
        assert!(short.lines().count() <= 50 && short.len() < long.len(), "{name}:\n{short}");
        assert!(short.contains(&format!("More: softland {name} --help")), "{short}");
        let page = long.split("/blob/main/").nth(1).unwrap_or_else(|| panic!("{name}:\n{long}"));
        let page = page.split_whitespace().next().unwrap();
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        assert!(file.is_file(), "{name}: {page}");
        assert!(spec::PAGES.iter().any(|(known, _)| *known == name), "{name} has no page");
    }
    assert!(!print(&["run", "-h"]).contains("--tool-calls-limit <"));
    assert!(print(&["run", "-h"]).contains("with policy keys as flags"));
}

#[test]
fn without_arguments_eight_lines_say_what_one_can_do() {
    let Ok(Command::Print(text)) = parsed(&[]) else { panic!() };
    assert_eq!(text.lines().count(), 8, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    // Every command that it names exists.
    for line in text.lines().filter(|line| line.starts_with("  softland ")) {
        let name = line.split_whitespace().nth(1).unwrap();
        assert!(command_line().find_subcommand(name).is_some(), "{name}");
    }
}

#[test]
fn pages_and_init_have_their_defaults() {
    let Ok(Command::Init(init)) = parsed(&["init"]) else { panic!() };
    assert_eq!(init.folder, PathBuf::from("."));
    let Ok(Command::Pages(pages)) = parsed(&["pages"]) else { panic!() };
    assert_eq!(
        (pages.listen.to_string().as_str(), pages.of),
        ("127.0.0.1:4145", LedgerArgs::default())
    );
    let far = refused(&["pages", "--listen", "0.0.0.0:80"]);
    assert!(far.contains("--listen must be a loopback address"), "{far}");
}

#[test]
fn a_run_that_is_there_has_its_agent_file_already() {
    let of = |args: &[&str]| match parsed(&[&["run"], args].concat()) {
        Ok(Command::Run(args)) => (args.which, args.agent, args.prompt),
        other => panic!("{other:?}"),
    };
    let agent = Some(PathBuf::from("a.md"));
    let (resume, further) = (RunSelection::Resume("r".into()), RunSelection::Continue("r".into()));
    assert_eq!(of(&["--resume", "r"]), (resume.clone(), None, None));
    assert_eq!(of(&["--resume", "r", "a.md"]), (resume, agent.clone(), None));
    let prompt = Some("Why?".to_owned());
    assert_eq!(of(&["--continue", "r", "Why?"]), (further.clone(), None, prompt.clone()));
    assert_eq!(of(&["--continue", "r", "a.md", "Why?"]), (further.clone(), agent, prompt));
    assert_eq!(of(&["--continue", "r"]), (further, None, None));
    assert!(refused(&["run", "--resume", "r", "a.md", "Why?"]).contains("takes no prompt"));
    let both = refused(&["run", "--resume", "r", "--continue", "r"]);
    assert!(both.contains("cannot be used with"), "{both}");
    for flag in ["--policy=coding", "--turns-limit=3"] {
        let message = refused(&["run", "--resume", "r", flag]);
        assert!(message.contains("cannot be given with --resume"), "{message}");
    }
}

#[test]
fn every_protocol_may_be_asked_for() {
    for api in Api::ALL {
        assert_eq!(run_of(&["--api", api.name()]).api, Some(api));
    }
    let Ok(Command::Print(help)) = parsed(&["run", "--help"]) else { panic!() };
    assert!(help.contains("openai-chat, openai-responses"), "{help}");
}

#[test]
fn a_bare_run_has_the_defaults() {
    let args = run_of(&[]);
    assert_eq!(args, RunArgs { agent: Some("a.md".into()), ..RunArgs::default() });
    assert_eq!(run_of(&["-"]).prompt.as_deref(), Some("-"));
    assert!(refused(&["run"]).contains("no agent file"));
}

#[test]
fn serve_takes_addresses_and_a_policy() {
    let Ok(Command::Serve(bare)) = parsed(&["serve"]) else { panic!() };
    assert_eq!(bare, ServeArgs::default());
    let url = "--anthropic-base-url=https://gw.example/v1";
    let flags = ["serve", "--listen", "localhost:0", url, "--policy", "coding", "--mode=observe"];
    let Ok(Command::Serve(args)) = parsed(&flags) else { panic!() };
    assert_eq!(args.listen.unwrap().to_string(), "127.0.0.1:0");
    assert_eq!(args.policy.as_deref(), Some("coding"));
    let (upstream, url) = &args.upstreams[0];
    assert_eq!((*upstream, url.to_string().as_str()), ("anthropic", "https://gw.example"));
    assert_eq!(args.keys, [("mode", PolicyValue::Text("observe".to_owned()))]);
    for (flag, value, message) in [
        ("--listen", "4141", "--listen must be an address and a port such as 127.0.0.1:4141"),
        ("--openai-base-url", "sk-hunter2", "--openai-base-url must be an http:// or https://"),
        ("--turns-limit", "x", "--turns-limit must be a whole number"),
        ("--anthropic-base-url", "http://u:hunter2@x", "may not carry a user or a password"),
    ] {
        let said = refused(&["serve", flag, value]);
        assert!(said.contains(message) && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn wrap_leaves_what_follows_the_program_to_it() {
    let wrapped = |args: &[&str]| match parsed(&[&["wrap"], args].concat()) {
        Ok(Command::Wrap(args)) => args,
        other => panic!("{other:?}"),
    };
    let own = ["--turns-limit", "3", "--observe", "--log", "l", "--", "claude", "--policy", "-p"];
    let args = wrapped(&own);
    assert_eq!(args.command, ["claude", "--policy", "-p"]);
    let text = |text: &str| PolicyValue::Text(text.to_owned());
    assert_eq!(args.keys, [("turns_limit", text("3")), ("mode", text("observe"))]);
    assert_eq!((args.log, args.policy), (Some("l".into()), None));
    // The dashes may be left out; a program's own `--` stays.
    assert_eq!(wrapped(&["claude", "--turns-limit", "3"]).command.len(), 3);
    assert_eq!(wrapped(&["--", "a", "--", "b"]).command, ["a", "--", "b"]);
    assert!(refused(&["wrap"]).contains("Usage: softland wrap"));
    assert!(refused(&["wrap", "--observe"]).contains("Usage: softland wrap"));
    let mistyped = refused(&["wrap", "--turn-limit", "3", "--", "claude"]);
    assert!(mistyped.contains("'--turns-limit'"), "{mistyped}");
    assert!(refused(&["wrap", "--observe", "--mode=enforce", "--", "a"]).contains("--mode"));
}

#[test]
fn runs_and_show_take_a_ledger() {
    let Ok(Command::Runs(bare)) = parsed(&["runs"]) else { panic!() };
    assert_eq!(bare, RunsArgs { limit: Some(20), ..RunsArgs::default() });
    let flags = ["runs", "--ledger=l.db", "--json", "--limit", "0", "--since", "2026-03-05"];
    let Ok(Command::Runs(args)) = parsed(&flags) else { panic!() };
    let of = LedgerArgs { ledger: Some("l.db".into()), config: None, json: true };
    let march_5 = 1_772_668_800_000;
    let since = Some(march_5);
    assert_eq!(args, RunsArgs { of: of.clone(), since, ..RunsArgs::default() });
    let delete = |args: &[&str]| match parsed(&[&["runs", "--delete"], args].concat()) {
        Ok(Command::Runs(args)) => args.delete.unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(delete(&["run-1"]), Deletion::Run("run-1".to_owned()));
    assert_eq!(delete(&["--before", "2026-03-05T00:00:00Z"]), Deletion::Before(march_5));
    let Deletion::Before(ago) = delete(&["--before", "2d"]) else { panic!() };
    assert!(ago.abs_diff(crate::runs::time_ago("48h".parse().unwrap())) < 60_000, "{ago}");
    let named = Deletion::Of { session: Some("s".to_owned()), key: Some("ana".to_owned()) };
    assert_eq!(delete(&["--session", "s", "--key", "ana"]), named);
    for (args, message) in [
        (&["runs", "--delete"][..], "--delete needs a RUN, --before TIME, or"),
        (&["runs", "--delete", "run-1", "--before", "1d"], "--delete takes one of RUN, --before"),
        (&["runs", "--delete", "run-1", "--key", "ana"], "--delete takes one of RUN, --before"),
        (&["runs", "--delete", "--key", "ana", "--before", "1d"], "--delete takes one of RUN"),
        (&["runs", "--delete", "--key", "a", "--model", "m"], "--delete does not go by --model"),
        (&["runs", "--before", "1d"], "--delete"),
        (
            &["runs", "--since", "yesterday"],
            "--since must be a day such as 2026-03-05, a time such as 2026-03-05T12:00:00Z, or how",
        ),
        (&["runs", "--limit", "-1"], "'-1'"),
        (&["runs", "--limit", "x"], "--limit must be a whole number, 0 or more, got \"x\""),
        (&["runs", "--ledger", "a", "--config", "b"], "cannot be used with"),
    ] {
        assert!(refused(args).contains(message), "{}", refused(args));
    }
    let Ok(Command::Show(bare)) = parsed(&["show"]) else { panic!() };
    assert_eq!(bare.run, "last");
    let Ok(Command::Show(args)) = parsed(&["show", "run-1", "--ledger=l.db", "--json"]) else {
        panic!()
    };
    assert_eq!(args, ShowArgs { of, run: "run-1".to_owned(), call: Vec::new() });
}

#[test]
fn whoever_reads_a_ledger_is_told_that_it_may_be_in_a_database() {
    for command in ["runs", "show", "pages"] {
        let Ok(Command::Print(help)) = parsed(&[command, "--help"]) else { panic!() };
        assert!(help.contains("--ledger <FILE|URL>") && help.contains("postgres://"), "{help}");
        let flag = "--ledger=postgres://10.0.0.5/softland";
        assert!(parsed(&[command, flag]).is_ok(), "{command} takes {flag}");
    }
    for command in ["serve", "wrap"] {
        let refusal = refused(&[command, "--ledger=postgres://10.0.0.5/softland"]);
        assert!(refusal.contains("`[ledger] url` of a config"), "{refusal}");
    }
}

#[test]
fn sim_takes_address_and_scenario() {
    let Ok(Command::Sim(args)) = parsed(&["sim", "--listen", "127.0.0.1:0"]) else { panic!() };
    assert_eq!((args.listen.as_str(), args.scenario.as_str()), ("127.0.0.1:0", "reader"));
    let Ok(Command::Print(help)) = parsed(&["sim", "--help"]) else { panic!() };
    for (name, _) in softland_sim::Scenario::builtin_names() {
        assert!(help.contains(&format!("\n  {name} ")), "{name}");
    }
}
