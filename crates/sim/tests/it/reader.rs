//! The reader against a folder, with tools that answer as ordinary tools do: it finds the lines,
//! quotes file and line, stops by itself, and stops when told.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use crate::support;

use crate::support::{Run, body, drive, sim};
use serde_json::{Value, json};
use softland_sim::DEFAULT_MODEL;
use std::fmt::Write as _;

const FILES: &[(&str, &str)] = &[
    ("README.md", "# Notes\n\nLoose thoughts, one file per subject.\n"),
    (
        "ops/deploy.md",
        "# Deploying\n\nWe deploy on Tuesdays, never on Fridays.\nA rollback takes ten minutes.\nLunch.\n",
    ),
    (
        "ops/incidents.md",
        "2026-03-02: the deploy broke search.\n2026-04-11: rollback worked, deploy again at noon.\n",
    ),
    ("ops/people.md", "Ana watches the deploy.\n"),
    ("garden/beans.md", "Plant in May.\n"),
];

/// Runs one call of a tool over [`FILES`].
fn folder(name: &str, input: &Value) -> String {
    let arg = |key: &str| input[key].as_str().unwrap_or("").trim_start_matches("./").to_owned();
    match name {
        "list_dir" => {
            let path = arg("path");
            let prefix =
                if path == "." || path.is_empty() { String::new() } else { format!("{path}/") };
            let mut names: Vec<String> = FILES
                .iter()
                .filter_map(|(file, text)| file.strip_prefix(&prefix).map(|rest| (rest, text)))
                .map(|(rest, text)| match rest.split_once('/') {
                    Some((folder, _)) => format!("{folder}/"),
                    None => format!("{rest} ({} bytes)", text.len()),
                })
                .collect();
            names.dedup();
            names.join("\n")
        }
        "grep" => {
            let pattern = arg("pattern").trim_start_matches("(?i)").to_lowercase();
            let mut out = String::new();
            for (file, text) in FILES {
                for (i, line) in text.lines().enumerate() {
                    if pattern.split('|').any(|p| line.to_lowercase().contains(p)) {
                        writeln!(out, "{file}:{}:{line}", i + 1).unwrap();
                    }
                }
            }
            if out.is_empty() { "(no line matches)".to_owned() } else { out }
        }
        "read_file" => {
            let path = arg("path");
            let Some((_, text)) = FILES.iter().find(|(file, _)| *file == path) else {
                return format!("no such file: {path}");
            };
            let first = input["offset"].as_u64().unwrap_or(1) as usize;
            let lines = text.lines().enumerate().skip(first - 1);
            lines.fold(String::new(), |out, (i, line)| format!("{out}{:>6}→{line}\n", i + 1))
        }
        other => format!("unknown tool {other}"),
    }
}

fn read(question: &str, changes: Value, limit: usize) -> Run {
    let mut request = body(DEFAULT_MODEL, json!([{"role": "user", "content": question}]));
    for (key, value) in changes.as_object().unwrap() {
        request[key] = value.clone();
    }
    let mut n = 0;
    drive(&sim("reader"), request, 20, |name, input| {
        n += 1;
        let line = match limit.saturating_sub(n) {
            0 => format!(
                "Tool call limit reached ({n} of {limit}). Answer now with what you have; further tool calls will not be run."
            ),
            1 => "1 tool call remaining".to_owned(),
            left => format!("{left} tool calls remaining"),
        };
        format!("{}\n{line}", folder(name, input).trim_end()).into()
    })
}

const QUESTION: &str = "What do my notes say about deploying and rollbacks?";

#[test]
fn it_finds_reads_and_quotes() {
    let run = read(QUESTION, json!({}), 100);
    let text = run.text();
    for quote in [
        "ops/incidents.md:2: “2026-04-11: rollback worked, deploy again at noon.”",
        "ops/deploy.md:3: “We deploy on Tuesdays, never on Fridays.”",
        "ops/deploy.md:4: “A rollback takes ten minutes.”",
    ] {
        assert!(text.contains(quote), "{text}");
    }
    assert!(!text.contains("Lunch") && !text.contains("remaining"), "{text}");
    assert!((5..=9).contains(&run.calls.len()), "{} calls: {:?}", run.calls.len(), run.calls);
    assert!(run.requests >= 4, "several rounds: {}", run.requests);
    let used: std::collections::BTreeSet<&str> =
        run.calls.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(used.len(), 3, "all of its tools: {used:?}");
    let distinct: std::collections::BTreeSet<String> =
        run.calls.iter().map(|(n, i)| format!("{n}{i}")).collect();
    assert_eq!(distinct.len(), run.calls.len(), "no call twice");
}

#[test]
fn it_answers_from_what_it_has_when_told() {
    for limit in 1..6 {
        let run = read(QUESTION, json!({}), limit);
        assert!((limit..=limit + 1).contains(&run.calls.len()), "{limit}: {:?}", run.calls);
        assert!(run.text().contains("told to answer"), "{}", run.text());
        if limit > 1 {
            assert!(run.text().contains("ops/deploy.md:3"), "{limit}: {}", run.text());
        }
    }
}

#[test]
fn it_answers_without_tools_and_one_call_at_a_time() {
    let none = read(QUESTION, json!({"tool_choice": {"type": "none"}}), 9);
    assert!(none.calls.is_empty() && !none.text().is_empty());
    let bare = read(QUESTION, json!({"tools": []}), 9);
    assert!(bare.calls.is_empty() && !bare.text().is_empty());
    let single = json!({"type": "auto", "disable_parallel_tool_use": true});
    let run = read(QUESTION, json!({"tool_choice": single}), 100);
    assert_eq!(run.requests, run.calls.len() + 1);
    assert!(run.text().contains("ops/deploy.md:3"));
}

#[test]
fn it_says_so_when_there_is_nothing() {
    let run = read("Who wrote about volcanoes?", json!({}), 100);
    assert!(run.text().contains("I found no line about"), "{}", run.text());
    assert!(run.text().contains("garden/"), "it names what there is: {}", run.text());
    assert!(run.calls.len() <= 9, "{:?}", run.calls);
    let distinct: std::collections::BTreeSet<String> =
        run.calls.iter().map(|(n, i)| format!("{n}{i}")).collect();
    assert_eq!(distinct.len(), run.calls.len(), "no call twice: {:?}", run.calls);
}

#[test]
fn a_warning_ends_the_search() {
    let request = body(DEFAULT_MODEL, json!([{"role": "user", "content": QUESTION}]));
    let run = drive(&sim("reader"), request, 20, |name, input| {
        format!("{}\nAbout 10% of the cost limit remains. Finish your research and prepare the final answer.", folder(name, input)).into()
    });
    assert_eq!((run.requests, run.calls.len()), (2, 2));
    assert!(run.text().contains("ops/deploy.md:3"));
}

#[test]
fn tools_of_other_names_serve_as_well() {
    let request = json!({"model": DEFAULT_MODEL, "max_tokens": 4096,
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [support::tool("LS", &["path"]), support::tool("Grep", &["pattern"]), support::tool("Read", &["file_path"])]});
    let run = drive(&sim("reader"), request, 20, |name, input| {
        let name = match name {
            "LS" => "list_dir",
            "Grep" => "grep",
            _ => "read_file",
        };
        let input = json!({"path": input["path"].as_str().or_else(|| input["file_path"].as_str()), "pattern": input["pattern"]});
        folder(name, &input).into()
    });
    assert!(run.text().contains("ops/deploy.md:3"), "{}", run.text());
    assert!(run.calls.iter().any(|(name, _)| name == "Read"));
}
