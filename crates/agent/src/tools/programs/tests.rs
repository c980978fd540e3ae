use super::*;

#[test]
fn output_is_kept_at_both_ends_in_bounded_room() {
    for total in [0, 1, HEAD - 1, HEAD, HEAD + TAIL, HEAD + TAIL + 1, 1_000_000] {
        let all: Vec<u8> = (0..total).map(|n| b'a' + u8::try_from(n % 23).unwrap()).collect();
        for piece in [1, 777, 16 * 1024, 400_000] {
            let mut kept = BoundedOutput::default();
            for bytes in all.chunks(piece) {
                kept.push_bytes(bytes);
                assert!(kept.head.len() <= HEAD && kept.tail.len() <= TAIL);
            }
            let text = kept.to_text();
            let all = std::str::from_utf8(&all).unwrap();
            if total <= HEAD + TAIL {
                assert_eq!(text, all);
                continue;
            }
            let marker =
                format!("\n[… {} bytes left out; print less to see them]\n", total - HEAD - TAIL);
            assert_eq!(text, [&all[..HEAD], &marker, &all[total - TAIL..]].concat());
        }
    }
}

/// A supervisor of the test: a script that gets the program spec.
async fn under(script: &str, time: Duration) -> ToolOutput {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("supervisor");
    std::fs::write(&path, script).unwrap();
    let variables = [("PATH", std::env::var("PATH").unwrap()), ("A_TOKEN", "x".to_owned())];
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let programs = ProgramRunner::new("/bin/sh", path.to_str().unwrap(), variables, &[]);
    let order = ProgramSpec {
        run: RunLine::Program(vec!["a\nb".to_owned()]),
        input: Some("{}".to_owned()),
    };
    programs.run_program(folder.path(), &order, time).await
}

#[tokio::test]
async fn results_say_how_a_program_ended() {
    const LONG: Duration = Duration::from_secs(20);
    for (script, wanted) in [
        (
            "read -r o; printf '%s\\n' \"$o\"",
            ToolOutput::ok("{\"program\":[\"a\\nb\"],\"input\":\"{}\"}\n"),
        ),
        (
            "read o; echo out; echo err >&2; echo \"${A_TOKEN-none}\"",
            ToolOutput::ok("out\nerr\nnone\n"),
        ),
        ("read o", ToolOutput::ok("(no output)")),
        ("read o; printf no; exit 3", ToolOutput::error("no\nExit code 3")),
        ("read o; exit 1", ToolOutput::error("Exit code 1")),
        (
            "read o; kill -9 $$",
            ToolOutput::error(
                "it is not known how the command ended (its supervisor was killed); what it started may still run",
            ),
        ),
    ] {
        assert_eq!(under(script, LONG).await, wanted, "{script}");
    }
    let flood = under("read o; yes | head -c 3000000; echo end", LONG).await;
    assert!(!flood.is_error && flood.content.len() < 60_000);
    assert!(flood.content.starts_with("y\ny\n") && flood.content.ends_with("y\nend\n"));
    let none = ProgramRunner::new("/no/such/file", "x", [], &[]);
    let order = ProgramSpec { run: RunLine::Program(vec![]), input: None };
    let none = none.run_program(Path::new("/"), &order, LONG).await;
    assert!(none.is_error && none.content.starts_with("the command cannot be run: "), "{none:?}");
}

/// The end of the supervisor's input ends the program. Output until then is shown.
#[tokio::test]
async fn a_program_that_takes_too_long_is_ended() {
    let began = std::time::Instant::now();
    let late = under("read o; echo begun; cat; exit 137", Duration::from_millis(300)).await;
    let wanted = "begun\n[timed out after 0 s: it was ended, with all that it had started]";
    assert_eq!(late, ToolOutput::error(wanted));
    assert!(began.elapsed() < Duration::from_secs(15));
}

/// A program may stop its supervisor, which then sees no end of its input.
#[cfg(unix)]
#[tokio::test]
async fn c90_a_supervisor_that_was_stopped_goes_on_to_end_its_program() {
    let script = "read o; echo begun; kill -STOP $$; kill -STOP $$; cat; exit 137";
    let began = std::time::Instant::now();
    let late = under(script, Duration::from_millis(300)).await;
    assert_eq!(
        late,
        ToolOutput::error(
            "begun\n[timed out after 0 s: it was ended, with all that it had started]"
        )
    );
    // After that the supervisor would have been given up.
    assert!(began.elapsed() < GRACE);
}

#[test]
fn credentials_are_known_by_name_and_by_value() {
    for (name, value) in [
        ("ANTHROPIC_API_KEY", "x"),
        ("AWS_ACCESS_KEY_ID", "x"),
        ("GITHUB_TOKEN", "x"),
        ("npm_config__authToken", "x"),
        ("CLIENT_SECRET_FILE", "x"),
        ("PGPASSWORD", "x"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/x"),
        ("SSH_AUTH_SOCK", "/x"),
        ("SMTP_PASS", "x"),
        ("GH_PAT", "x"),
        ("SENTRY_DSN", "x"),
        ("DATABASE_URL", "postgres://me:hunter2@db/x"),
        ("HTTPS_PROXY", "http://me:hunter2@proxy:3128"),
        ("PIP_INDEX_URL", "https://token@host/simple"),
    ] {
        assert!(is_credential(name, value), "{name}");
    }
    for (name, value) in [
        ("PATH", "/bin"),
        ("HOME", "/me"),
        ("PWD", "/me"),
        ("KEYBOARD", "de"),
        ("COLORTERM", "truecolor"),
        ("HTTPS_PROXY", "http://proxy:3128"),
        ("DOCS", "https://host/a@b mail me@host"),
        ("COMPASS", "north"),
    ] {
        assert!(!is_credential(name, value), "{name}");
    }
}

#[test]
fn an_environment_is_cleaned_of_copies_and_of_what_is_named() {
    let variables = [
        ("PATH", "/bin"),
        ("MY_API_KEY", "sk-12345678"),
        ("COPY", "sk-12345678"),
        ("ODD", "from the config"),
        ("FLAG_KEY", "1"),
        ("DEBUG", "1"),
    ];
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let cleaned = environment::without_credentials(variables, &["ODD".to_owned()]);
    let wanted = [("PATH", "/bin"), ("DEBUG", "1")];
    assert_eq!(cleaned, wanted.map(|(name, value)| (name.into(), value.into())));
}
