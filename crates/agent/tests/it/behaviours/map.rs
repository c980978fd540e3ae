//! `docs/behaviours.md` is true: its tests and its mutations exist, and no number is missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Number, tests and mutation of each row.
fn rows(page: &str) -> Vec<(String, Vec<String>, String)> {
    let cells =
        |line: &str| -> Vec<String> { line.split('|').map(|c| c.trim().to_owned()).collect() };
    let rows = page.lines().map(cells).filter(|cells| cells.len() == 6 && is_number(&cells[1]));
    let tests =
        |cell: &str| cell.split("<br>").map(|test| test.trim_matches('`').to_owned()).collect();
    rows.map(|cells| (cells[1].clone(), tests(&cells[3]), cells[4].clone())).collect()
}

fn is_number(cell: &str) -> bool {
    is_cause(cell) || is_behaviour(cell) || is_first_step(cell)
}

/// A behaviour's number: `b20a`.
fn is_behaviour(cell: &str) -> bool {
    let digits = cell.strip_prefix('b').map(|rest| rest.trim_end_matches('a'));
    digits.is_some_and(|digits| digits.parse::<u8>().is_ok())
}

/// The number of a fault's cause, or of what holds for keys and accounts, under an engine, or within
/// a program: `c07`, `k03`, `e11`, `p02`.
fn is_cause(cell: &str) -> bool {
    cell.strip_prefix(['c', 'e', 'k', 'p']).is_some_and(|digits| digits.parse::<u8>().is_ok())
}

/// The number of something that a new user relies on: `d03`.
fn is_first_step(cell: &str) -> bool {
    cell.strip_prefix('d').is_some_and(|digits| digits.parse::<u8>().is_ok())
}

fn expected() -> BTreeSet<String> {
    let numbers = (1..=74).map(|n| format!("b{n:02}"));
    numbers.chain(["b20a".to_owned()]).collect()
}

#[test]
fn every_behaviour_is_listed_once() {
    let rows = rows(&read("docs/behaviours.md"));
    let listed: Vec<_> = rows.iter().map(|(number, ..)| number.clone()).collect();
    let once: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!(once.len(), listed.len(), "a number twice in {listed:?}");
    let behaviours: BTreeSet<_> = once.into_iter().filter(|number| is_behaviour(number)).collect();
    assert_eq!(behaviours, expected());
}

#[test]
fn every_test_that_is_named_exists() {
    for (number, tests, _) in rows(&read("docs/behaviours.md")) {
        for test in &tests {
            let (path, name) = test.split_once("::").unwrap_or_else(|| panic!("{number}: {test}"));
            let source = read(path);
            if path.ends_with(".py") {
                assert!(
                    source.contains(&format!("\ndef {name}(")),
                    "{number}: no {name} in {path}"
                );
                continue;
            }
            let at = source.find(&format!("fn {name}("));
            let before = &source[..at.unwrap_or_else(|| panic!("{number}: no {name} in {path}"))];
            let mut above = before.trim_end().lines().rev().map(str::trim);
            let last = above.find(|line| !line.starts_with("///") && !line.starts_with("#[ignore"));
            let is_test = last.is_some_and(|line| line.contains("test") || line.ends_with("async"));
            assert!(is_test || source.contains("proptest! {"), "{number}: {name} is no test");
        }
        // The test that the mutation is tried on is named after its behaviour.
        let first = tests[0].rsplit("::").next().unwrap_or_default();
        let named_after_it = first.starts_with(&format!("{number}_"));
        assert!(!is_behaviour(&number) || named_after_it, "{number}: {first}");
    }
}

#[test]
fn every_mutation_is_named_once_and_has_one_place() {
    let mut named = BTreeSet::new();
    for (number, _, mutation) in rows(&read("docs/behaviours.md")) {
        let file = mutation.split("../mutants/").nth(1).and_then(|rest| rest.split(')').next());
        let file = file.unwrap_or_else(|| panic!("{number}: no mutation in {mutation}"));
        assert!(file.starts_with(&format!("{number}-")), "{number}: {file}");
        let patch = read(&format!("mutants/{file}"));
        let of = |sign: &str| patch.lines().filter(|l| l.starts_with(sign)).count();
        assert_eq!((of("--- a/crates/"), of("+++ b/crates/")), (1, 1), "{file}");
        applies(file, &patch);
        assert!(named.insert(file.to_owned()), "{file} twice");
    }
    let there: BTreeSet<_> = fs::read_dir(root().join("mutants"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(there, named, "patches that no row names");
}

/// Checks that the lines that a patch removes, with their context, stand in its file.
fn applies(file: &str, patch: &str) {
    let path = patch.lines().find_map(|line| line.strip_prefix("--- a/")).unwrap_or_default();
    let source = read(path);
    let hunks = patch.split("\n@@ ").skip(1);
    for hunk in hunks {
        let before: String = hunk
            .lines()
            .skip(1)
            .filter(|line| !line.starts_with('+'))
            .map(|line| line.get(1..).unwrap_or_default().to_owned() + "\n")
            .collect();
        assert!(source.contains(&before), "{file} no longer fits {path}: make it anew");
    }
}
