//! Recognizes files of programs whose objects are unlike those of any other kind.

use super::{Form, ObjectPreview, Place, Task};
use crate::Kind;

/// Recognizes lines whose kind several of them tell together.
pub(super) fn recognize_lines(objects: &[ObjectPreview]) -> Option<Form> {
    let first = objects.first()?;
    let is = |seen: &ObjectPreview, kind: &str| seen.short_string("type").as_deref() == Some(kind);
    if !is(first, "session") || !first.has_all_keys(&["id", "timestamp", "cwd"]) {
        return None;
    }
    // Pi's entries form a tree; before that it named the model at the session. OpenClaw's do not.
    let tree = objects.iter().any(|seen| seen.has_key("parentId"));
    let own = tree || first.has_key("modelId") || !first.has_key("version");
    Some(Form::Pi(if own { Kind::Pi } else { Kind::OpenClaw }))
}

pub(super) fn recognize_object(seen: &ObjectPreview) -> Option<Form> {
    let begins =
        |key: &str, with: &str| seen.short_string(key).is_some_and(|text| text.starts_with(with));
    if begins("schema_version", "ATIF-") {
        return Some(Form::Atif);
    }
    if seen.has_key("resourceSpans") {
        return Some(Form::Otlp);
    }
    if seen.has_key("sessionId") && seen.value_holds("message", "\"parts\"") {
        return Some(Form::QwenCode);
    }
    // What precedes the samples of a log is shorter than what is looked at.
    if seen.has_all_keys(&["version", "eval"]) && (seen.has_key("status") || seen.has_key("plan")) {
        return Some(Form::Inspect);
    }
    if seen.has_all_keys(&["request_id", "call_type", "spend"]) {
        return Some(Form::LiteLlm);
    }
    if seen.has_all_keys(&["task", "tokensIn", "tokensOut", "totalCost"]) {
        return Some(Form::Cline(Task::Item));
    }
    let event = ["MessageEvent", "ActionEvent", "ObservationEvent", "AgentErrorEvent"];
    let kind = seen.short_string("kind").unwrap_or_default();
    if event.contains(&kind.as_str()) || (kind.ends_with("Event") && seen.has_key("timestamp")) {
        return Some(Form::OpenHands(Place::Event));
    }
    seen.has_all_keys(&["execution_status", "agent", "stats"])
        .then_some(Form::OpenHands(Place::State))
}

pub(super) fn recognize_array(objects: &[ObjectPreview]) -> Option<Form> {
    let first = objects.first()?;
    if first.has_all_keys(&["request_id", "call_type", "spend"]) {
        return Some(Form::LiteLlm);
    }
    if first.has_all_keys(&["ts", "type"]) && (first.has_key("say") || first.has_key("ask")) {
        return Some(Form::Cline(Task::Shown));
    }
    if first.has_all_keys(&["role", "content", "ts"]) {
        return Some(Form::Cline(Task::History));
    }
    let acts = |seen: &ObjectPreview| seen.has_key("action") || seen.has_key("observation");
    (first.has_all_keys(&["id", "timestamp", "source"]) && acts(first))
        .then_some(Form::OpenHands(Place::Trajectory))
}
