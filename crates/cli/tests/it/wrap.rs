//! `softland wrap` from outside: real programs with a simulator behind them.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::server::*;
use crate::support::*;
use tempfile::tempdir;

const QUESTION: &str = "What did we decide about pricing?";

/// `softland wrap` in a folder of its own, with these variables.
fn wrap(folder: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = softland();
    command.current_dir(folder).arg("wrap").env("PATH", "/usr/bin:/bin");
    command.envs(variables.iter().copied());
    command
}

/// Wraps `softland run` on the example notes.
fn wrapped_run(sim: &Server, folder: &Path, flags: &[&str]) -> Said {
    let variables = [("ANTHROPIC_BASE_URL", &*sim.url()), ("ANTHROPIC_API_KEY", SECRET)];
    said_by(
        wrap(folder, &variables)
            .args(flags)
            .args(["--", env!("CARGO_BIN_EXE_softland"), "run"])
            .arg(analyst().canonicalize().unwrap())
            .args([QUESTION, "--model", "anthropic/claude-sonnet-5-5", "--root"])
            .arg(notes().canonicalize().unwrap()),
    )
}

#[test]
fn an_agent_runs_as_without_it_and_what_it_spent_is_told() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    for flags in [&[][..], &["--observe"]] {
        let said = wrapped_run(&sim, folder.path(), flags).status(0);
        assert_eq!(said.stdout, run(QUESTION, &[]).status(0).stdout, "{flags:?}");
        let account = said.stderr.lines().find(|line| line.starts_with("softland: $0.01"));
        let account = account.unwrap_or_else(|| panic!("{}", said.stderr));
        assert!(account.contains(" spent on 5 requests; 1 run: "), "{account}");
        assert!(!said.stderr.contains(SECRET));
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "a wrapped program's folder stays as it was: {left:?}");
}

#[test]
fn a_limit_of_the_gateway_lands_an_agent_that_knows_none() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let said = wrapped_run(&sim, folder.path(), &["--tool-calls-limit", "3"]).status(0);
    assert!(!said.stdout.trim().is_empty(), "{}", said.stderr);
    said.says("1 landed").says(" landed: tool_calls_limit 3 was reached; ");
}

#[test]
fn what_is_observed_is_told_at_the_end() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let flags = ["--observe", "--tool-calls-limit", "3"];
    let said = wrapped_run(&sim, folder.path(), &flags).status(0);
    assert_eq!(said.stdout, run(QUESTION, &[]).status(0).stdout, "nothing is changed");
    let said = said.says("; 1 run: 1 answered, 0 landed, 0 stopped\n");
    let says = "softland: nothing was changed. Of 1 run observed, 1 would have landed and 0 would \
                have been stopped; interventions that would have been made: ";
    let would = said.stderr.lines().find(|line| line.starts_with(says));
    assert!(would.is_some_and(|would| would.contains(" × ask")), "{}", said.stderr);
}

#[test]
fn its_status_is_the_programs() {
    let folder = tempdir().unwrap();
    let script = file(folder.path(), "script", "#!/bin/sh\nexit 3\n");
    let broken = file(folder.path(), "broken", "#!/no/such/shell\n");
    std::fs::set_permissions(&broken, PermissionsExt::from_mode(0o755)).unwrap();
    for (command, status, said) in [
        (&["sh", "-c", "exit 0"][..], 0, "`sh` sent no request through softland"),
        (&["sh", "-c", "exit 7"], 7, "sent no request through softland"),
        (&["sh", "-c", "kill -9 $$"], 137, "sent no request through softland"),
        (&["sh", "-c", "kill -TERM $$"], 143, "sent no request through softland"),
        (&["no-such-program"], 127, "error: `no-such-program` was not found in any folder of"),
        (&["./no-such-program"], 127, "error: `./no-such-program` does not exist"),
        (&[broken.as_str()], 127, "or the program that its first line names does not"),
        (&[script.as_str()], 126, "may not be run (permission denied)"),
        (&["/"], 126, "error: `/` is a folder; a program is needed"),
    ] {
        said_by(wrap(folder.path(), &[]).arg("--").args(command)).status(status).says(said);
    }
}

#[test]
fn the_program_finds_the_gateway_and_nothing_else_is_changed() {
    let folder = tempdir().unwrap();
    let variables = [
        ("OPENAI_API_BASE", "http://127.0.0.1:9/v1"),
        ("https_proxy", "http://127.0.0.1:9"),
        ("NO_PROXY", "corp.example"),
        ("OTHER", "as it was"),
    ];
    let script = "echo $ANTHROPIC_BASE_URL; echo $OPENAI_BASE_URL; echo $OPENAI_API_BASE; \
                  echo $NO_PROXY; echo $no_proxy; echo $https_proxy; echo $OTHER; \
                  cat; echo to stderr >&2";
    let mut command = wrap(folder.path(), &variables);
    command.args(["sh", "-c", script]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"to stdin\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = stdout.lines().collect();
    let url = lines[0];
    let port = url.strip_prefix("http://127.0.0.1:").unwrap().parse::<u16>().unwrap();
    assert!(port != 9);
    let hosts = "corp.example,127.0.0.1,localhost";
    let openai = format!("{url}/v1");
    let rest = [&*openai, &*openai, hosts, hosts, "http://127.0.0.1:9", "as it was", "to stdin"];
    assert_eq!(&lines[1..], rest);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let (pages, rest) = stderr.split_once('\n').unwrap();
    assert!(pages.starts_with(&format!("pages: {url}/#token=")), "{stderr}");
    let (ledger, rest) = rest.split_once('\n').unwrap();
    assert!(ledger.starts_with("ledger: "), "{stderr}");
    assert!(rest.starts_with("to stderr\nsoftland: `sh` sent no request"), "{stderr}");
}

#[test]
fn signals_are_the_programs() {
    let folder = tempdir().unwrap();
    for (signal, status) in [("TERM", 5), ("INT", 5), ("HUP", 5), ("QUIT", 5)] {
        let script = format!(
            "trap 'echo heard; exit {status}' {signal}; echo ready; while :; do sleep 0.02; done"
        );
        let mut command = wrap(folder.path(), &[]);
        command.args(["--", "sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        kill(child.id(), signal);
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "heard\n", "SIG{signal}");
        assert_eq!(child.wait().unwrap().code(), Some(status), "SIG{signal}");
    }
}

#[test]
fn a_program_that_does_not_hear_is_ended_by_the_signal() {
    let folder = tempdir().unwrap();
    let mut command = wrap(folder.path(), &[]);
    command.args(["--", "sh", "-c", "echo ready; exec sleep 60"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    kill(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn logins_that_would_not_come_by_are_refused() {
    let folder = tempdir().unwrap();
    for variable in ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"]
    {
        let said =
            said_by(wrap(folder.path(), &[(variable, "1")]).args(["--", "sh", "-c", "echo ran"]));
        assert!(said.stdout.is_empty(), "it ran all the same");
        said.status(2).says(&format!("{variable} is set")).says("past ANTHROPIC_BASE_URL");
    }
}

#[test]
fn what_is_wrong_is_said_before_the_program_runs() {
    let folder = tempdir().unwrap();
    let config = file(folder.path(), "c.toml", "[policy.x]\nturn_limit = 3\n");
    let key = [("ANTHROPIC_BASE_URL", SECRET)];
    for (variables, flags, wanted) in [
        (&key[..], &[][..], "the variable ANTHROPIC_BASE_URL must be an http:// or https://"),
        (&[], &["--policy", "lax"], "no policy is named `lax`"),
        (&[], &["--config", &config], "c.toml:2: policy.x.turn_limit: unknown key; did you mean"),
        (&[], &["--turns-limit", "x"], "--turns-limit must be a whole number"),
        (&[], &["--log", "/"], "--log /: the file cannot be written"),
    ] {
        let said =
            said_by(wrap(folder.path(), variables).args(flags).args(["sh", "-c", "echo ran"]));
        assert!(said.stdout.is_empty() && !said.stderr.contains(SECRET), "{}", said.stderr);
        said.status(2).says(wanted);
    }
}

#[test]
fn a_key_of_the_config_does_not_go_to_an_address_of_the_environment() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let text = "[upstream.anthropic]\nbase_url = \"https://corp.example\"\napi_key_env = \"KEY\"\n";
    let config = file(folder.path(), "c.toml", text);
    let log = folder.path().join("gateway.log");
    let flags = ["--config", &config, "--log", log.to_str().unwrap()];
    let said = wrapped_run(&sim, folder.path(), &flags).status(0);
    said.says("warning: ").says("c.toml:3: upstream.anthropic.api_key_env: is not used");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("/v1/messages") && !log.contains(SECRET), "{log}");
}

/// A program of that name.
fn program(folder: &Path, name: &str, script: &str) -> String {
    let path = file(folder, name, &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[test]
fn codex_gets_its_provider_in_arguments_and_is_landed_there() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    // The program uses its fourth argument as Codex does.
    let script = format!(
        "echo \"$1 $2 $3 $5 $6\" >&2; url=${{4#*base_url=\\\"}}; url=${{url%%\\\"*}}\n\
         exec '{}' run '{}' '{QUESTION}' --model openai/gpt-5.2 --api openai-responses \
         --base-url \"$url\" --root '{}'",
        env!("CARGO_BIN_EXE_softland"),
        analyst().canonicalize().unwrap().display(),
        notes().canonicalize().unwrap().display(),
    );
    let codex = program(folder.path(), "codex", &script);
    let home = folder.path().to_str().unwrap();
    let openai = format!("{}/v1", sim.url());
    let variables = [("HOME", home), ("OPENAI_BASE_URL", &*openai), ("OPENAI_API_KEY", SECRET)];
    let mut command = wrap(folder.path(), &variables);
    let said = said_by(command.args(["--tool-calls-limit", "3", "--", &codex, "exec", "hi"]));
    let said = said.status(0).says("-c model_provider=\"softland\" -c exec hi");
    assert!(!said.stdout.trim().is_empty() && !said.stderr.contains(SECRET), "{}", said.stderr);
    said.says("1 landed");
}

#[test]
fn opencode_gets_addresses_in_its_config() {
    let folder = tempdir().unwrap();
    let opencode = program(folder.path(), "opencode", "echo \"$OPENCODE_CONFIG_CONTENT\"; echo $#");
    let config = "{\"theme\": \"x\"}";
    let variables = [("HOME", "/nowhere"), ("OPENCODE_CONFIG_CONTENT", config)];
    let said = said_by(wrap(folder.path(), &variables).args(["--", &opencode, "run"])).status(0);
    let [config, count] = said.stdout.lines().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(count, "1", "no argument is added");
    let config: serde_json::Value = serde_json::from_str(config).unwrap();
    assert_eq!(config["theme"], "x");
    for provider in ["anthropic", "openai"] {
        let url = config["provider"][provider]["options"]["baseURL"].as_str().unwrap();
        assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/v1"), "{url}");
    }
}

#[test]
fn clients_that_would_go_elsewhere_are_not_run() {
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let login = format!("{{\"tokens\": {{\"access_token\": \"{SECRET}\"}}}}");
    file(folder, "auth.json", &login);
    let own =
        format!("{{\"provider\":{{\"openai\":{{\"options\":{{\"baseURL\":\"{SECRET}\"}}}}}}}}");
    file(folder, "opencode.json", &own);
    file(folder, ".env", &format!("OPENAI_API_BASE={SECRET}\n"));
    let home = folder.to_str().unwrap();
    for (name, wanted) in [
        ("codex", "it is logged in with ChatGPT"),
        ("opencode", "opencode.json` has a baseURL for opencode's provider `openai`"),
        ("aider", "/.env` has the address of a provider"),
    ] {
        let program = program(folder, name, "echo ran");
        let variables = [("HOME", home), ("CODEX_HOME", home)];
        let said = said_by(wrap(folder, &variables).args(["--", &program]));
        assert!(said.stdout.is_empty(), "{name} ran all the same");
        assert!(!said.stderr.contains(SECRET), "{}", said.stderr);
        said.status(2).says(wanted);
    }
}
