//! What holds for each row of the table of limits: a row that is forgotten somewhere fails here.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString as _;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::*;
use crate::because::Reason;
use crate::digest::Digest;
use crate::event::{Call, FinishedTurn, LineRoom, Stop, ToolResult, VisibleText};
use crate::pinned::PinnedRecord;
use crate::policy::{KEYS, KeySection, Limit, Measure, PolicyKey, PolicyValue, list_limits};
use crate::run::Role;
use crate::used::RunUsage;

/// The tool that the tests call. It writes, and has a limit of its own.
const TOOL: &str = "write_file";

/// Returns a thousand of everything that a type counts: dollars, seconds, and whatever is added to
/// the type later.
fn thousand_of_all<T: Default + Serialize + DeserializeOwned>() -> T {
    fn replace(value: &mut Value) {
        match value {
            Value::Number(number) => *number = 1000.into(),
            Value::String(time) if time == "0s" => *time = "1000s".to_string(),
            Value::Object(members) => members.values_mut().for_each(replace),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(T::default()).unwrap();
    replace(&mut value);
    serde_json::from_value(value).unwrap()
}

fn thousand_used() -> RunUsage {
    let by_tool = BTreeMap::from([(TOOL.to_string(), 1000)]);
    let refused_tool = Some((TOOL.to_string(), 1000));
    RunUsage { by_tool, refused_tool, ..thousand_of_all() }
}

/// Returns a run whose policy has one limit: a count, dollars or seconds.
fn run_under(key: &PolicyKey, limit: &Limit, value: u64) -> Run {
    let mut policy = Policy::default();
    let value = match limit.measure {
        Measure::Time { .. } => format!("{value}s"),
        Measure::PerTool => format!("{TOOL}={value}"),
        Measure::Plain { .. }
        | Measure::Shown { .. }
        | Measure::Reported { .. }
        | Measure::Money { .. }
        | Measure::Detector { .. } => value.to_string(),
    };
    policy.set_key(key.name, &PolicyValue::Text(value)).unwrap();
    Run::begin_unplaced(PinnedRecord::new(policy), Role::Gateway, None)
}

fn usage_limits() -> impl Iterator<Item = (&'static PolicyKey, &'static Limit)> {
    KEYS.iter().filter_map(|key| Some((key, key.limit.as_ref().filter(|l| l.bounds_usage())?)))
}

#[test]
fn every_reason_has_one_row_or_is_no_limit() {
    let none = ["final", "truncated", "refusal", "provider", "user", "journal", "setup", "budget"];
    for reason in Reason::ALL {
        let rows: Vec<&Limit> = list_limits().filter(|limit| limit.reason == *reason).collect();
        let wanted = usize::from(!none.contains(&&*reason.to_string()));
        assert_eq!(rows.len(), wanted, "rows of `{reason}` in KEYS");
        assert_eq!(reason.limit().is_some(), wanted == 1, "{reason}");
    }
}

#[test]
fn every_row_is_in_its_section_with_all_its_words() {
    for key in KEYS {
        let limit = key.limit.as_ref();
        let listed = key.section == KeySection::Limits;
        assert_eq!(limit.is_some_and(Limit::bounds_usage), listed, "{}", key.name);
        let Some(limit) = limit else { continue };
        assert_eq!(limit.reason.policy_key(), Some(key.name));
        assert!(limit.name.starts_with(|c: char| c.is_ascii_lowercase()), "{}", key.name);
        assert!(limit.sentence.ends_with('.') && limit.sentence.contains('{'), "{}", key.name);
        assert_eq!(limit.unit[0].is_empty(), limit.unit[1].is_empty(), "{}", key.name);
    }
}

#[test]
fn every_limit_of_usage_is_known_by_its_value_and_its_rest() {
    for (key, limit) in usage_limits() {
        let run = run_under(key, limit, 5000);
        let reason = match limit.reason {
            Reason::Tool(_) => Reason::Tool(TOOL.to_string()),
            ref reason => reason.clone(),
        };
        let policy = run.policy();
        assert_eq!(reason.limit().map(|own| own.name), Some(limit.name));
        let value = policy.limit_value(&reason).unwrap().to_string();
        assert!(["5000", "$5000.00", "1h23m20s"].contains(&&*value), "{}: {value}", key.name);
        assert!(policy.limits_money() != policy.limits_work(), "{}", key.name);
        let rest = thousand_used().remaining_limits(policy, &thousand_of_all());
        let (name, left) = rest.iter().next().unwrap();
        assert!(rest.len() == 1 && name.starts_with(key.name), "{}: {rest:?}", key.name);
        assert!(["4000", "$4000.00"].contains(&&*left.to_string()), "{name}: {left}");
    }
}

#[test]
fn every_limit_of_usage_lands_a_run_and_only_that_one() {
    for (key, limit) in usage_limits() {
        let mut run = run_under(key, limit, 500);
        run.used = thousand_used();
        let because = run.find_limit(Some(&thousand_of_all()));
        let word = because.map(|because| because.reason.to_string()).unwrap_or_default();
        assert!(word.starts_with(&limit.reason.to_string()), "{}: {word:?}", key.name);
        let mut without =
            Run::begin_unplaced(PinnedRecord::new(Policy::default()), Role::Gateway, None);
        without.used = thousand_used();
        assert_eq!(without.find_limit(Some(&thousand_of_all())), None);
    }
}

#[test]
fn every_limit_of_usage_warns_once() {
    for (key, limit) in usage_limits() {
        // The countdown is the warning of these two.
        if matches!(limit.reason, Reason::ToolCalls | Reason::Tool(_)) {
            continue;
        }
        let mut run = run_under(key, limit, 1050);
        run.used = thousand_used();
        let facts = thousand_of_all();
        let warned: Vec<_> =
            run.take_warnings(Some(&facts)).into_iter().map(|b| b.reason).collect();
        assert_eq!(warned, core::slice::from_ref(&limit.reason), "{}", key.name);
        assert_eq!(run.take_warnings(Some(&facts)), [], "{}", key.name);
    }
}

#[test]
fn every_limit_that_a_transcript_shows_is_counted() {
    let mut run = Run::begin_unplaced(PinnedRecord::new(Policy::default()), Role::Gateway, None);
    let input = r#"{"path":"a.md","content":"words"}"#;
    let calls = alloc::vec![Call { id: "1", name: TOOL, input, server: false }];
    run.add_turn(&FinishedTurn {
        text: VisibleText::from_text(""),
        calls,
        cut_call: false,
        hidden: false,
        gives: false,
        stop: Stop::Natural,
        output_tokens: None,
    });
    run.add_results(
        &[ToolResult {
            id: "1".into(),
            digest: Digest::from_bytes(b"written"),
            chars: 7,
            failed: false,
            sent_back: false,
            unfinished: false,
            cleared: false,
            lined: false,
            remarked: false,
            room: LineRoom::Text,
        }],
        None,
    );
    for limit in list_limits() {
        let counted = match limit.measure {
            Measure::Plain { used, .. } | Measure::Shown { used, .. } => used(run.used()) > 0,
            Measure::PerTool => run.used().by_tool.get(TOOL) == Some(&1),
            Measure::Reported { .. }
            | Measure::Money { .. }
            | Measure::Time { .. }
            | Measure::Detector { .. } => true,
        };
        assert!(counted, "{} counts nothing of a round", limit.reason);
    }
}

/// Usage that a compacted history no longer shows is carried, whatever it is of.
#[test]
fn all_usage_but_the_rounds_is_carried() {
    let mut carried = RunUsage::default();
    carried.add_usage(&thousand_used());
    let hidden = thousand_used().usage_not_shown(&RunUsage::default());
    for usage in [carried, hidden] {
        assert_eq!(usage, RunUsage { rounds: 0, ..thousand_used() });
    }
    assert!(thousand_used().usage_not_shown(&thousand_used()).is_empty());
}
