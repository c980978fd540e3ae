//! What the two adversaries share: the loop over seeds and what it must have met, the shrinking of
//! a case that fails, and the replay of cases that failed once.
//!
//! `SOFTLAND_CASES` sets the number of cases; `SOFTLAND_SEED` runs one of them and tells it step by
//! step, as `SOFTLAND_TELL` does for a kept case.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use serde_json::Value;

use super::case::Case;

/// Cases where nobody says how many.
const CASES: u64 = 1000;
/// Fewer cases say nothing about a share of 1 %.
const ENOUGH: u64 = 500;
/// Failures that are shrunk and shown.
const SHOWN: usize = 3;
/// Times that a case is run again to find a smaller one.
const TRIES: usize = 3000;

/// What a driver met in a case: `rung ask`, `outcome landed`.
pub(crate) type Met = BTreeSet<String>;

/// A generator of cases, and what drives and checks one: it panics where something does not hold.
pub(crate) struct Adversary {
    pub(crate) generate: fn(u64) -> Case,
    pub(crate) drive: fn(&Case) -> Met,
    /// What at least 1 % of the cases meet.
    pub(crate) must_meet: &'static [&'static [&'static str]],
}

/// Whether one case is run alone and is to be told.
pub(crate) fn tells() -> bool {
    std::env::var_os("SOFTLAND_SEED").is_some() || std::env::var_os("SOFTLAND_TELL").is_some()
}

impl Adversary {
    /// Runs the cases of all seeds.
    pub(crate) fn run(&self) {
        self.run_of(CASES);
    }

    /// The same, with another number of cases where nobody says how many.
    pub(crate) fn run_of(&self, usual: u64) {
        let only: Option<u64> = std::env::var("SOFTLAND_SEED").ok().and_then(|n| n.parse().ok());
        let cases = std::env::var("SOFTLAND_CASES").ok().and_then(|n| n.parse().ok());
        let cases: u64 = cases.unwrap_or(usual);
        let mut met: BTreeMap<String, u64> = BTreeMap::new();
        let mut failed = Vec::new();
        for seed in only.map_or(0..cases, |only| only..only + 1) {
            let case = (self.generate)(seed);
            let same = Case::from_json(&case.to_json());
            assert_eq!(same.as_ref(), Ok(&case), "what is written is what is read");
            match self.outcome(&case) {
                Ok(seen) => seen.into_iter().for_each(|what| *met.entry(what).or_insert(0) += 1),
                Err(text) => failed.push((seed, case, text)),
            }
        }
        println!("met, of {cases} cases: {met:#?}");
        for failed in failed.iter().take(SHOWN) {
            println!("{}", self.report(failed));
        }
        assert!(failed.is_empty(), "{} of {cases} cases failed, as told above", failed.len());
        if only.is_none() && cases >= ENOUGH {
            for what in self.must_meet.iter().copied().flatten() {
                let times = met.get(*what).copied().unwrap_or(0);
                assert!(times * 100 >= cases, "{what} met in {times} of {cases} cases only");
            }
        }
    }

    /// What was met, or the text of the check that failed.
    fn outcome(&self, case: &Case) -> Result<Met, String> {
        quietly(|| (self.drive)(case)).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            text.unwrap_or_default()
        })
    }

    fn report(&self, (seed, case, text): &(u64, Case, String)) -> String {
        let (case, text) = self.shrunk(case, text);
        let kept = case.to_text();
        format!("seed {seed}: {text}\nto be kept under tests/regressions, shrunk:\n{kept}")
    }

    /// A case, as small as is soon found, that fails in the same way.
    fn shrunk(&self, case: &Case, text: &str) -> (Case, String) {
        let (mut best, mut said) = (case.clone(), text.to_owned());
        let mut tries = 0;
        loop {
            let (mut all, mut at, before) = (smaller(&best.to_json()), 0, best.clone());
            while let Some(json) = all.get(at).filter(|_| tries < TRIES) {
                tries += 1;
                let case = Case::from_json(json).ok().filter(|case| *case != best);
                match case.and_then(|case| Some((self.outcome(&case).err()?, case))) {
                    Some((text, case)) if kind(&text) == kind(&said) => {
                        all = smaller(&case.to_json());
                        (best, said) = (case, text);
                    }
                    _ => at += 1,
                }
            }
            if best == before {
                return (best, said);
            }
        }
    }

    /// Replays a case that failed once. It must still meet what it says it meets.
    pub(crate) fn replay(&self, text: &str) {
        let json: Value = serde_json::from_str(text).unwrap();
        let case = Case::from_json(&json).unwrap_or_else(|wrong| panic!("the case: {wrong}"));
        assert!(!case.about.is_empty() && !case.meets.is_empty(), "a case says what it is about");
        let met = (self.drive)(&case);
        for what in &case.meets {
            assert!(met.contains(what), "{}: does not meet `{what}`, but {met:?}", case.about);
        }
    }
}

/// Every JSON that lacks one member or item of this one, at any depth; the larger ones first.
fn smaller(value: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    match value {
        Value::Array(items) => {
            for n in (0..items.len()).rev() {
                let mut without = items.clone();
                without.remove(n);
                all.push(Value::Array(without));
            }
            for (n, item) in items.iter().enumerate() {
                all.extend(smaller(item).into_iter().map(|item| {
                    let mut with = items.clone();
                    with[n] = item;
                    Value::Array(with)
                }));
            }
        }
        Value::Object(fields) => {
            for key in fields.keys() {
                let mut without = fields.clone();
                without.remove(key);
                all.push(Value::Object(without));
            }
            for (key, item) in fields {
                all.extend(smaller(item).into_iter().map(|item| {
                    let mut with = fields.clone();
                    with.insert(key.clone(), item);
                    Value::Object(with)
                }));
            }
        }
        _ => {}
    }
    all
}

/// What a failure is known by: the beginning of its text, without its numbers.
fn kind(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).take(200).collect()
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Catches a panic without a word: tools that panic are part of the cases, and a check that fails
/// is reported by its text.
fn quietly<T>(run: impl FnOnce() -> T) -> std::thread::Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() || tells() {
                usual(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let caught = panic::catch_unwind(AssertUnwindSafe(run));
    QUIET.set(before);
    caught
}

/// Every kept case is a test, and every file is one.
macro_rules! regressions {
    ($adversary:expr, $($name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                $adversary.replay(include_str!(concat!(
                    env!("CARGO_MANIFEST_DIR"), "/tests/regressions/", stringify!($name), ".json"
                )));
            }
        )+

        #[test]
        fn every_case_that_is_kept_is_a_test() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/regressions");
            let mut files: Vec<String> = std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            files.sort();
            let mut tests = vec![$(concat!(stringify!($name), ".json")),+];
            tests.sort_unstable();
            assert_eq!(files, tests);
        }
    };
}
pub(crate) use regressions;
