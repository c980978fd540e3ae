//! `softland run --mcp` against small servers of the tests' own, through the real binary.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::mcp::{PATIENCE, Place, results};
use crate::support::{SECRET, file, kill, notes, said_by, softland};

#[test]
fn tools_of_a_server_are_called_and_it_is_ended_cleanly() {
    let place = Place::new();
    let results = place.calls(
        ",\"env\":{\"GIVEN\":\"${NOT_SET:-this}\"}",
        &[
            ("mcp__my__echo", "{\"message\":\"hello\"}"),
            ("mcp__my__fails", "{}"),
            ("mcp__my__image", "{}"),
            ("mcp__my__changes", "{}"),
        ],
    );
    assert_eq!(results[0], (true, "you said hello".to_owned()));
    assert_eq!(results[1], (false, "it went wrong".to_owned()));
    assert_eq!(
        results[2].1,
        "[an image, image/png, 5 bytes, cannot be shown]\n[resource x://y]\nbeans"
    );
    assert_eq!(results[3], (true, "changed".to_owned()));
    // Its input was closed, and it came to its end by itself.
    assert_eq!(place.read("end"), "ended\n");
    let env = place.read("env");
    assert!(env.contains("GIVEN=this") && env.contains("PATH="), "{env}");
    assert!(!env.contains(SECRET) && !env.contains("XDG_STATE_HOME"), "{env}");
    // The list has changed, but was not requested again.
    assert_eq!(place.read("heard").matches("tools/list").count(), 1);
}

#[test]
fn a_server_that_dies_in_a_call_is_an_error_of_that_call_and_of_those_after_it() {
    let place = Place::new();
    // The second leaves a child that holds its output open.
    for dies in ["mcp__my__dies", "mcp__my__leaves"] {
        let calls = [(dies, "{}"), ("mcp__my__echo", "{\"message\":\"x\"}")];
        let results = place.calls("", &calls);
        assert_eq!(results.len(), 2);
        for (ok, text) in results {
            assert!(!ok);
            assert!(text.contains("server `my` has ended"), "{text}");
            assert!(text.contains("out of luck"), "its last words: {text}");
        }
    }
}

#[test]
fn a_server_whose_launcher_has_ended_serves() {
    let place = Place::new();
    let sim = place.model(&[("mcp__my__echo", "{\"message\":\"x\"}")]);
    let servers = place.servers("launches", "");
    let said = place.run(&place.agent("mcp__my__echo"), &servers, &sim, &[]).status(0);
    assert_eq!(results(&said), [(true, "you said x".to_owned())]);
    place.wait_for_the_end();
}

#[test]
fn a_call_ends_in_time_and_the_server_is_told() {
    let place = Place::new();
    let results = place.calls(",\"timeout\":200", &[("mcp__my__hangs", "{}")]);
    assert!(!results[0].0);
    assert!(results[0].1.contains("did not answer within 0.2 s"), "{}", results[0].1);
    assert!(place.read("heard").contains("notifications/cancelled"), "{}", place.read("heard"));
}

#[test]
fn long_results_keep_head_and_tail_and_words_between_messages_are_passed_over() {
    let place = Place::new();
    let results = place.calls("", &[("mcp__my__flood", "{}")]);
    let (ok, text) = &results[0];
    assert!(*ok && text.starts_with("BEGIN") && text.ends_with("END"), "{}", text.len());
    assert!(text.len() <= 64 * 1024 && text.contains("characters left out"), "{}", text.len());
}

#[test]
fn what_is_wrong_at_the_start_names_file_and_server() {
    for (behaves, wanted) in [
        (
            "dies-at-start",
            "ended before it was initialised (exit status: 7); its last words: a word",
        ),
        ("refuses", "initialize: error -32603: not today"),
        ("old", "1999-01-01"),
        ("huge", "it sent a message of more than 16 MiB"),
        ("malformed", "tools/list: the answer is not a list of tools"),
        ("no-object", "tool `t`: its inputSchema must have \"type\": \"object\""),
    ] {
        let place = Place::new();
        let sim = place.model(&[]);
        let servers = place.servers(behaves, "");
        let said = place.run(&place.agent("mcp__my__echo"), &servers, &sim, &[]).status(2);
        assert!(said.stderr.contains(wanted), "{behaves}: {}", said.stderr);
        assert!(said.stderr.contains("mcp.json: server `my`: "), "{behaves}: {}", said.stderr);
        place.wait_for_the_end();
    }
}

#[test]
fn names_are_checked_before_the_model_is_asked() {
    let place = Place::new();
    let sim = place.model(&[]);
    let servers = place.servers("well", "");
    for (tools, wanted) in [
        ("mcp__other__x", "a.md:4: tools: "),
        ("mcp__other__x", "has no server `other`; it has my"),
        ("mcp__my__ecko", "did you mean `mcp__my__echo`?"),
    ] {
        place.run(&place.agent(tools), &servers, &sim, &[]).status(2).says(wanted);
    }
    let none = place.run(&place.agent("read_file"), &servers, &sim, &[]).status(0);
    none.says("no agent file names a tool");
    let without =
        said_by(softland().args(["run", &place.agent("mcp__my"), "x", "--model", "sim/reader"]));
    without.status(2).says("--mcp FILE names servers");
    let text = "{\"mcpServers\":{\n\"a\":{\"command\":\"x\"},\n\"a\":{\"command\":\"y\"}}}";
    let twice = file(place.path(), "twice.json", text);
    let said = place.run(&place.agent("mcp__a"), &twice, &sim, &[]);
    said.status(2).says("twice.json:3: `a` is there twice");
}

#[test]
fn ctrl_c_while_servers_start_ends_them() {
    let place = Place::new();
    let (agent, servers) = (place.agent("mcp__my"), place.servers("mute", ""));
    let mut child = softland()
        .env("PATH", std::env::var("PATH").unwrap())
        .args(["run", &agent, "go", "--model", "sim/reader", "--mcp", &servers])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !place.read("heard").contains("initialize") {
        assert!(began.elapsed() < PATIENCE, "the server is not asked");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    place.wait_for_the_end();
}

#[test]
fn a_server_busy_in_a_call_ends_with_a_softland_that_is_killed() {
    let place = Place::new();
    let (agent, servers) = (place.agent("mcp__my"), place.servers("well", ""));
    let sim = place.model(&[("mcp__my__busy", "{}")]);
    let mut child = softland()
        .env("ANTHROPIC_API_KEY", SECRET)
        .env("PATH", std::env::var("PATH").unwrap())
        .args(["run", &agent, "go", "--mcp", &servers, "--root"])
        .arg(notes())
        .args(["--model", "anthropic/claude-sonnet-5-5", "--base-url", &sim.url()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !place.read("heard").contains("\"name\":\"busy\"") {
        assert!(began.elapsed() < PATIENCE, "the server is not called");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(child.id(), "KILL");
    child.wait().unwrap();
    place.wait_for_the_end();
}

/// However early the run ends, the server is told first that the call is cancelled.
#[test]
fn ctrl_c_in_a_call_is_told_to_the_server() {
    let place = Place::new();
    let (agent, servers) = (place.agent("mcp__my"), place.servers("well", ""));
    let sim = place.model(&[("mcp__my__hangs", "{}")]);
    for _ in 0..6 {
        let _ = std::fs::remove_file(place.path().join("heard"));
        let mut child = softland()
            .env("ANTHROPIC_API_KEY", SECRET)
            .env("PATH", std::env::var("PATH").unwrap())
            .args(["run", &agent, "go", "--mcp", &servers, "--root"])
            .arg(notes())
            .args(["--model", "anthropic/claude-sonnet-5-5", "--base-url", &sim.url()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while !place.read("heard").contains("\"name\":\"hangs\"") {
            assert!(began.elapsed() < PATIENCE, "the server is not called");
            std::thread::sleep(Duration::from_millis(2));
        }
        kill(child.id(), "INT");
        assert_eq!(child.wait().unwrap().code(), Some(130));
        place.wait_for_the_end();
        assert!(place.read("heard").contains("notifications/cancelled"), "{}", place.read("heard"));
    }
}
