//! Sleeps in tests. A test waits for an event, polls until a deadline, or runs on the paused clock.

use super::*;

/// The sleeps that are neither a poll nor on a clock that the test pauses: the file, the number of
/// them, and their reason.
const SLEEPS: &[(&str, usize, &str)] = &[
    ("crates/agent/tests/it/common/mod.rs", 1, "a simulated response comes as late as it says"),
    ("crates/agent/tests/it/durable/hostile_run.rs", 1, "a tool on the paused clock"),
    ("crates/agent/tests/it/durable/steps.rs", 1, "a tool on the paused clock"),
    ("crates/agent/tests/it/journal/errand.rs", 1, "a model that takes its time"),
    ("crates/agent/tests/it/sub_agents.rs", 1, "requests that take different times interleave"),
    ("crates/cli/tests/it/resume.rs", 1, "a run is killed at an odd moment"),
    ("crates/gateway/tests/it/faults.rs", 1, "a client that uploads slowly"),
    ("crates/gateway/tests/it/kept.rs", 2, "the clock is paused within the test"),
    ("crates/gateway/tests/it/money.rs", 2, "a provider that takes its time"),
    (
        "crates/gateway/tests/it/request_limits.rs",
        1,
        "a client that is silent between two requests",
    ),
    ("crates/govern/src/money/accounts/tests.rs", 3, "helpers of tests on the paused clock"),
    ("crates/govern/src/money/tests/crowd.rs", 2, "helpers of tests on the paused clock"),
    ("crates/govern/tests/it/support.rs", 2, "heads and streams on the paused clock"),
    (
        "crates/ledger/tests/it/crash.rs",
        2,
        "a process that writes steadily; one killed at odd moments",
    ),
    ("crates/restate/tests/it/agents.rs", 2, "a model and a tool that take their time"),
    ("tests/engine/polling.py", 2, "a time is measured in which nothing happens"),
    ("tests/engine/stack.py", 1, "a model that takes its time"),
    ("tests/fleet/capacity.py", 2, "counters of a time in which nobody asks; the last notes come"),
    ("tests/fleet/world.py", 2, "a provider that takes its time"),
    ("tests/mcp/tour.cjs", 1, "the stream of an answer opens, and no one outside can see it"),
    ("tests/notebook/odd.cjs", 1, "a connection that is lost after a while"),
    ("tests/pages/heavy.cjs", 1, "the browser tells of long tasks behind the frame"),
    ("tests/pages/nginx.cjs", 1, "the process ends although a child lingers"),
    ("tests/pages/watch.cjs", 1, "a server that answers slowly"),
];

#[test]
fn no_test_sleeps_to_wait() {
    let mut wrong = Vec::new();
    let mut paths: Vec<_> =
        files(&root().join("crates"), "rs").into_iter().filter(|path| has_tests(path)).collect();
    for kind in ["cjs", "py"] {
        paths.extend(files(&root().join("tests"), kind));
    }
    for path in paths {
        let found = lone_sleeps(&read(&path));
        let name = shown(&path);
        let allowed = SLEEPS.iter().find(|(file, ..)| *file == name).map_or(0, |row| row.1);
        if found.len() != allowed {
            wrong.push(format!("{name}: {allowed} are listed, these are there: {found:?}"));
        }
    }
    nothing("sleeps in tests; wait for an event, or poll until a deadline", &wrong);
}

#[test]
fn listed_sleeps_are_of_files_that_exist() {
    let gone = SLEEPS.iter().filter(|(file, ..)| !root().join(file).exists());
    nothing("files without sleeps", &gone.map(|row| row.0.to_owned()).collect::<Vec<_>>());
}

/// Tests, and sources that end in tests.
fn has_tests(path: &Path) -> bool {
    is_test(path) || read(path).contains("\nmod tests {\n")
}

/// The lines of sleeps that no loop repeats and no paused clock shortens.
fn lone_sleeps(text: &str) -> Vec<usize> {
    let lines: Vec<_> = text.lines().collect();
    let first = lines.iter().position(|line| *line == "mod tests {").unwrap_or(0);
    let sleeps = (first..lines.len()).filter(|n| {
        let line = lines[*n].trim_start();
        let waits = ["sleep(", "setTimeout(", "waitForTimeout("].iter().any(|call| {
            let Some((before, _)) = line.split_once(call) else { return false };
            let quoted = before.matches('"').count() % 2 == 1;
            !quoted && !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
        });
        // A timer that fails the test is a deadline.
        waits && !line.starts_with("//") && !line.contains("reject(")
    });
    sleeps.filter(|n| !is_repeated(&lines, *n)).map(|n| n + 1).collect()
}

/// Walks outwards from a line to its function: true if a loop is on the way, or if the function is
/// a test on the paused clock.
fn is_repeated(lines: &[&str], at: usize) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut depth = indent(lines[at]) + 1;
    for (n, line) in lines[..=at].iter().enumerate().rev() {
        let code = line.trim_start();
        // The brace behind a long head is no head.
        if code.is_empty() || code == "{" || indent(line) >= depth {
            continue;
        }
        depth = indent(line);
        if ["loop {", "while ", "for (const began"].iter().any(|head| code.contains(head)) {
            return true;
        }
        if code.starts_with("async fn ") || code.starts_with("fn ") {
            return lines[..n].last().is_some_and(|line| line.contains("start_paused = true"));
        }
    }
    false
}

#[test]
fn lone_sleeps_are_found() {
    let poll =
        "fn a() {\n    while b() {\n        c();\n        sleep(d);\n    }\n    sleep(e);\n}\n";
    assert_eq!(lone_sleeps(poll), [6]);
    let paused = "#[tokio::test(start_paused = true)]\nasync fn a() {\n    sleep(b).await;\n}\n";
    assert!(lone_sleeps(paused).is_empty());
    assert_eq!(lone_sleeps("x();\nawait new Promise((done) => setTimeout(done, 5));\n"), [2]);
    assert!(
        lone_sleeps("fn a() {\n    // No sleep(b).\n    let c = \"sleep(1)\";\n}\n").is_empty()
    );
}
