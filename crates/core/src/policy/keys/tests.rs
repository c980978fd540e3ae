use super::*;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use serde_json::Value;

fn text(value: &str) -> PolicyValue {
    PolicyValue::Text(value.to_owned())
}

#[test]
fn whole_numbers_may_be_quoted_and_nothing_else_passes() {
    let mut policy = Policy::default();
    for value in [PolicyValue::Int(30), text("30")] {
        policy.set_key("tool_calls_limit", &value).unwrap();
        assert_eq!(policy.tool_calls_limit, Some(30));
    }
    policy.set_key("tool_calls_limit", &PolicyValue::Int(0)).unwrap();
    assert_eq!(policy.tool_calls_limit, Some(0));
    for bad in [
        PolicyValue::Int(-1),
        PolicyValue::Float(1.5),
        PolicyValue::Bool(true),
        text("many"),
        text("-1"),
        text(""),
    ] {
        let error = policy.set_key("tool_calls_limit", &bad).unwrap_err();
        assert!(error.to_string().contains("`tool_calls_limit` must be a whole number"));
        assert_eq!(policy.tool_calls_limit, Some(0), "{bad:?}");
    }
}

/// Returns the members of a policy's written form.
fn members(policy: &Policy) -> BTreeMap<String, Value> {
    serde_json::from_value(serde_json::to_value(policy).unwrap()).unwrap()
}

/// Returns values that a key accepts, at least one of which is not its default.
fn accepted_values(form: ValueForm) -> Vec<String> {
    let values = match form {
        ValueForm::Count => "7",
        ValueForm::Money | ValueForm::Share => "0.25",
        ValueForm::Time => "10m",
        ValueForm::Names => "Out",
        ValueForm::ToolLimits => "grep=5",
        ValueForm::LoopKeys => "wait=polls",
        ValueForm::Word(words) => {
            return words.replace(" or ", ", ").split(", ").map(str::to_owned).collect();
        }
    };
    vec![values.to_owned()]
}

#[test]
fn every_key_is_read_into_the_field_of_its_name() {
    let default = members(&Policy::default());
    let names: BTreeSet<&str> = KEYS.iter().map(|key| key.name).collect();
    assert!(default.keys().map(|name| &**name).eq(names.iter().copied()), "{names:?}");
    assert_eq!(names.len(), KEYS.len());
    for key in KEYS {
        let mut changes = 0;
        for value in accepted_values(key.form) {
            let mut policy = Policy::default();
            policy.set_key(key.name, &text(&value)).unwrap();
            let set = members(&policy);
            let changed: Vec<&String> =
                default.keys().filter(|name| set.get(*name) != default.get(*name)).collect();
            assert!(changed.iter().all(|name| **name == key.name), "{}: {changed:?}", key.name);
            changes += changed.len();
            policy.set_key(key.name, &PolicyValue::Null).unwrap();
            let empty = [Value::Null, Value::Array(vec![]), Value::Object(Default::default())];
            let clears = empty.contains(&default[key.name]);
            assert_eq!(members(&policy), if clears { &default } else { &set }.clone(), "{value}");
        }
        assert!(changes > 0, "no value changes `{}`", key.name);
    }
}

#[test]
fn answer_tools_are_one_name_or_a_list() {
    let mut policy = Policy::default();
    let list = |names: &[&str]| PolicyValue::List(names.iter().map(|name| text(name)).collect());
    for (value, names) in [
        (text("Out"), &["Out"][..]),
        (text(" Out , submit,Out"), &["Out", "submit"]),
        (list(&["Out", "submit"]), &["Out", "submit"]),
        (PolicyValue::Null, &[]),
    ] {
        policy.set_key("answer_tool", &value).unwrap();
        assert_eq!(policy.answer_tool, names, "{value:?}");
    }
    for bad in [text(""), text("Out,"), list(&[]), list(&[""]), PolicyValue::Int(3)] {
        let error = policy.set_key("answer_tool", &bad).unwrap_err().to_string();
        assert!(error.starts_with("`answer_tool` must be a tool's name, or a list"), "{error}");
    }
    let list = PolicyValue::List(vec![text("Out"), PolicyValue::Int(3)]);
    assert!(policy.set_key("answer_tool", &list).is_err());
}

#[test]
fn members_name_the_tool_in_errors() {
    let mut policy = Policy::default();
    policy.set_key("tool_limits", &text("grep=5, glob=2")).unwrap();
    assert_eq!(policy.tool_limits.get("glob"), Some(&2));
    let error = policy.set_key("tool_limits", &text("grep=x")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`tool_limits.grep` must be a whole number, 0 or more; found \"x\""
    );
    let negative = PolicyValue::Map(vec![("grep".to_owned(), PolicyValue::Int(-2))]);
    let error = policy.set_key("tool_limits", &negative).unwrap_err();
    assert_eq!(error.to_string(), "`tool_limits.grep` must be a whole number, 0 or more; found -2");
    let error = policy.set_key("loop_keys", &text("grep=sometimes")).unwrap_err();
    assert!(error.to_string().starts_with("`loop_keys.grep` must be a list of"), "{error}");
}

#[test]
fn nothing_is_a_value_of_every_key() {
    let (mut specialist, coding) = (Policy::default(), Policy::built_in("coding").unwrap());
    let mut cleared = Policy { repeat_limit: 5, ..coding.clone() };
    for key in KEYS {
        specialist.set_key(key.name, &PolicyValue::Null).unwrap();
        cleared.set_key(key.name, &PolicyValue::Null).unwrap();
    }
    assert_eq!(specialist, Policy::default());
    assert_eq!(cleared, Policy { repeat_limit: 5, tool_calls_limit: None, ..coding });
}

#[test]
fn unknown_keys_get_the_nearest_name() {
    let mut policy = Policy::default();
    let error = policy.set_key("tool_call_limit", &PolicyValue::Int(1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown key `tool_call_limit`; did you mean `tool_calls_limit`?"
    );
    let error = policy.set_key("colour", &PolicyValue::Int(1)).unwrap_err();
    assert_eq!(error.to_string(), "unknown key `colour`");
}
