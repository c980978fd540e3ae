//! `softland completions` and `softland man`.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::process::Command;

use crate::support::{file, said, said_by, softland};

/// The commands, as `--help` lists them.
fn commands() -> Vec<String> {
    let help = said(&["--help"]).status(0).stdout;
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    list.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn every_shell_gets_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = said(&["completions", shell]).status(0);
        assert!(script.stderr.is_empty(), "{shell}: {}", script.stderr);
        for command in commands() {
            assert!(script.stdout.contains(&command), "{shell} does not know {command}");
        }
        assert!(script.stdout.contains("tool-calls-limit"), "{shell}");
    }
    said(&["completions", "tcsh"]).status(2).says("bash");
    said(&["completions"]).status(2).says("<SHELL>");
}

#[test]
fn bash_completes_commands_and_flags() {
    let folder = tempfile::tempdir().unwrap();
    let script = said(&["completions", "bash"]).status(0).stdout;
    let script = file(folder.path(), "softland.bash", &script);
    let completed = |words: &str, at: usize| {
        let line = format!(
            "source {script} && COMP_WORDS=({words}) COMP_CWORD={at} && \
             _softland softland \"${{COMP_WORDS[{at}]}}\" \"${{COMP_WORDS[{}]}}\" && \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            at - 1
        );
        Command::new("bash").args(["--norc", "-c", &line]).output()
    };
    let Ok(first) = completed("softland ''", 1) else {
        println!("skipped: there is no bash here");
        return;
    };
    let shown = |output: std::process::Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let first = shown(first);
    for command in commands() {
        assert!(first.lines().any(|line| line == command), "{command} of\n{first}");
    }
    let flags = shown(completed("softland run --tool-c", 2).unwrap());
    assert_eq!(flags.lines().collect::<Vec<_>>(), ["--tool-calls-limit"]);
}

#[test]
fn there_is_a_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man/man1");
    said_by(softland().args(["man", "--out"]).arg(&out)).status(0).says("pages written to");
    let page = |name: &str| std::fs::read_to_string(out.join(format!("{name}.1"))).unwrap();
    assert_eq!(page("softland"), said(&["man"]).status(0).stdout);
    for command in commands() {
        let whole = page(&format!("softland-{command}"));
        assert_eq!(whole, said(&["man", &command]).status(0).stdout);
        assert!(whole.contains(&format!(".TH softland-{command} 1  \"softland ")), "{whole}");
        assert!(whole.contains("/blob/main/docs/"), "no page of the documentation: {whole}");
        assert!(
            whole.contains("\n.SH SYNOPSIS\n") && whole.contains(&format!("softland {command}"))
        );
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), commands().len() + 1);
    let run = page("softland-run").replace('\\', "");
    for flag in ["--tool-calls-limit", "--resume", "--show-thinking", "--verbose"] {
        assert!(run.contains(flag), "no {flag}");
    }
    said(&["man", "nothing"]).status(2).says("no command `nothing`");
    let taken = file(folder.path(), "taken", "");
    said(&["man", "--out", &taken]).status(2).says("--out: ");
}
