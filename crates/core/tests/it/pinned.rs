//! Pinned records and policies survive their written form: a decision stays as it was made.

use softland_core::policy::{KEYS, Policy, PolicyValue};
use softland_core::{
    Because, Digest, FactDecision, Facts, Millis, NanoUsd, PinnedRecord, Quantity, Reason, RunUsage,
};

#[test]
fn a_record_survives_its_written_form() {
    let mut policy = Policy::built_in("coding").unwrap();
    for (key, value) in [
        ("cost_limit_usd", "0.123456789"),
        ("time_limit", "1h30m"),
        ("tool_limits", "grep=5,mcp__a__b=0"),
        ("loop_keys", "Bash=command+cwd,wait=polls"),
        ("warn_at", "0.333333"),
        ("answer_tool", "respond"),
    ] {
        policy.set_key(key, &PolicyValue::Text(value.to_owned())).unwrap();
    }
    let mut record = PinnedRecord::new(policy);
    let money = |nano| Quantity::Money(NanoUsd(nano));
    for because in [
        Because::from_counts(Reason::Tokens, 9, 10),
        Because::from_counts(Reason::Tool("grep".to_owned()), 5, 5),
        Because::new(Reason::Cost, money(1), money(5_000_000_000)),
        Because::new(Reason::Time, Quantity::Time(Millis(61_001)), Quantity::Time(Millis(0))),
    ] {
        record.decided.push(FactDecision { round: 3, lands: true, because });
    }
    let written = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<PinnedRecord>(&written).unwrap(), record, "{written}");
    let key = Digest::from_bytes(b"the messages so far");
    let written = serde_json::to_string(&key).unwrap();
    assert_eq!(serde_json::from_str::<Digest>(&written).unwrap(), key);
}

#[test]
fn a_policy_is_written_with_the_listed_keys() {
    let written = serde_json::to_value(Policy::default()).unwrap();
    let members: Vec<&str> = written.as_object().unwrap().keys().map(String::as_str).collect();
    for key in KEYS {
        assert!(members.contains(&key.name), "{}", key.name);
    }
    assert_eq!(members.len(), KEYS.len());
}

/// Records of earlier releases name at most one answer tool.
#[test]
fn a_record_of_an_earlier_release_is_read() {
    for (written, names) in
        [(r#""respond""#, &["respond"][..]), ("null", &[]), (r#"["a","b"]"#, &["a", "b"])]
    {
        let policy = format!(r#"{{"answer_tool":{written}}}"#);
        let policy: Policy = serde_json::from_str(&policy).unwrap();
        assert_eq!(policy.answer_tool, names);
    }
}

/// A count or a fact that a release adds is absent from what earlier releases wrote.
#[test]
fn usage_and_facts_are_read_without_newer_members() {
    assert_eq!(serde_json::from_str::<RunUsage>("{}").unwrap(), RunUsage::default());
    assert_eq!(serde_json::from_str::<Facts>("{}").unwrap(), Facts::default());
}

/// Records of earlier releases name the version of a wording that was the only one.
#[test]
fn a_record_with_the_version_of_its_wording_is_read() {
    let record = PinnedRecord::new(Policy::default());
    let mut written = serde_json::to_value(&record).unwrap();
    written.as_object_mut().unwrap().insert("version".to_owned(), "1".into());
    assert_eq!(serde_json::from_value::<PinnedRecord>(written).unwrap(), record);
}
