//! The fuzz body for agent files, driven by random files and by almost valid ones.

use proptest::prelude::*;

#[path = "fuzz_bodies/agent_file.rs"]
mod body;

/// Pieces of front matter, right and wrong, that random bytes would hardly hit.
const PIECES: &[&str] = &[
    "name: a",
    "description: b: c # d",
    "tools: Read, grep(x, y), ,",
    "tools: [grep, 1, ~]",
    "tool_limits: {grep: 5, 'x': -1}",
    "tool_calls_limit: \"30\"",
    "tokens_limit: 99999999999999999999999",
    "cost_limit_usd: .nan",
    "time_limit: 1h",
    "countdown: off",
    "loop_keys: {x: [a, b]}",
    "model: sonnet",
    "model: &x a/b",
    "hooks: *x",
    "? [a]\n: b",
    "<<: {a: b}",
    "\tname: a",
    "- a",
    "'",
    "|\n  text",
    "!!binary x",
    "...",
    "%YAML 1.2",
    "\u{feff}",
    "\r",
    "---",
    "é: ü",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        body::run(&data);
        body::run(&[b"---\n", &data[..]].concat());
    }

    #[test]
    fn nearly_right_files(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..8),
        noise in ".{0,6}",
        at in any::<proptest::sample::Index>(),
    ) {
        let mut text = format!("---\nname: n\ndescription: d\n{}\n---\nBody\n", pieces.join("\n"));
        let boundary = text.floor_char_boundary(at.index(text.len()));
        body::run(text.as_bytes());
        text.insert_str(boundary, &noise);
        body::run(text.as_bytes());
        body::run(&text.as_bytes()[..boundary]);
    }
}
