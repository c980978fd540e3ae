//! Rules for single messages: roles, fields, contents.

use crate::chat::request::{Message, Speaker};
use crate::json::Json;
use crate::models::open::OpenModel;
use crate::openai::{
    OpenAiRefusal, OpenAiResult, check_known, empty_array, ensure, missing_parameter, wrong_type,
};

const FIELDS: &[&str] =
    &["role", "content", "name", "refusal", "audio", "annotations", "tool_calls", "tool_call_id"];

/// Reads and checks all messages of a body.
pub(super) fn read_messages<'a>(
    body: &'a Json,
    model: &OpenModel,
) -> OpenAiResult<Vec<Message<'a>>> {
    let Some(list) = body.get("messages") else {
        return Err(missing_parameter("messages".to_owned()));
    };
    ensure(!list.items().is_empty(), || empty_array("messages"))?;
    list.items().iter().enumerate().map(|(at, json)| read_message(json, at, model)).collect()
}

fn read_message<'a>(json: &'a Json, at: usize, model: &OpenModel) -> OpenAiResult<Message<'a>> {
    ensure(json.is_map(), || wrong_type(&format!("messages[{at}]"), "an object", json))?;
    let Some(role) = json.str_at("role") else {
        return Err(missing_parameter(format!("messages[{at}].role")));
    };
    let speaker = match role {
        "system" | "developer" => Speaker::System,
        "user" => Speaker::User,
        "assistant" => Speaker::Assistant,
        "tool" => Speaker::Tool,
        _ => {
            let message = format!(
                "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', \
                 'function', 'tool', and 'developer'."
            );
            let param = format!("messages[{at}].role");
            return Err(OpenAiRefusal::bad_request(message)
                .with_code("invalid_value")
                .with_param(param));
        }
    };
    if model.knows_fields() {
        check_known(json, &format!("messages[{at}]"), FIELDS)?;
    }
    let message = Message::from_json(json, speaker, at);
    check_calls(&message)?;
    check_content(&message, model)?;
    if speaker == Speaker::Tool && json.str_at("tool_call_id").is_none() {
        return Err(missing_parameter(format!("messages[{at}].tool_call_id")));
    }
    Ok(message)
}

fn check_calls(message: &Message<'_>) -> OpenAiResult {
    let at = message.at;
    let Some(list) = message.json.get("tool_calls").filter(|c| **c != Json::Null) else {
        return Ok(());
    };
    ensure(message.speaker == Speaker::Assistant, || {
        let text = "'tool_calls' is only allowed in messages with role 'assistant'.";
        OpenAiRefusal::bad_request(text).with_param(message.path("tool_calls"))
    })?;
    ensure(!list.items().is_empty(), || empty_array(&format!("messages[{at}].tool_calls")))?;
    for (i, call) in list.items().iter().enumerate() {
        let path = format!("messages[{at}].tool_calls[{i}]");
        for key in ["id", "type"] {
            ensure(call.str_at(key).is_some(), || missing_parameter(format!("{path}.{key}")))?;
        }
        let (kind, text) = match call.str_at("type") {
            Some("custom") => ("custom", "input"),
            _ => ("function", "arguments"),
        };
        for key in ["name", text] {
            let there = call.get(kind).and_then(|f| f.str_at(key)).is_some();
            ensure(there, || missing_parameter(format!("{path}.{kind}.{key}")))?;
        }
    }
    Ok(())
}

fn check_content(message: &Message<'_>, model: &OpenModel) -> OpenAiResult {
    let content = message.json.get("content").filter(|c| **c != Json::Null);
    let excused = message.speaker == Speaker::Assistant
        && (!message.calls.is_empty() || message.json.str_at("refusal").is_some());
    let path = message.path("content");
    match content {
        None if excused => Ok(()),
        None => {
            let text = "Invalid value for 'content': expected a string, got null.";
            Err(OpenAiRefusal::bad_request(text).with_param(path))
        }
        Some(Json::Str(text)) => check_blank(text, excused, model),
        Some(Json::List(parts)) if parts.is_empty() && !excused => Err(empty_array(&path)),
        Some(Json::List(parts)) => {
            parts.iter().try_for_each(|p| check_part(p, message.speaker, &path, excused, model))
        }
        Some(other) => Err(wrong_type(&path, "one of a string or array of objects", other)),
    }
}

fn check_part(
    part: &Json,
    speaker: Speaker,
    path: &str,
    excused: bool,
    model: &OpenModel,
) -> OpenAiResult {
    let kind = part.str_at("type").unwrap_or("");
    let known = match speaker {
        Speaker::User => {
            matches!(kind, "text" | "image_url" | "input_audio" | "file" | "video_url")
        }
        Speaker::Assistant => matches!(kind, "text" | "refusal"),
        Speaker::System | Speaker::Tool => kind == "text",
    };
    ensure(known, || {
        let text = format!("Invalid value: '{kind}' is not a content part allowed here.");
        OpenAiRefusal::bad_request(text).with_code("invalid_value").with_param(path)
    })?;
    if kind != "text" {
        return Ok(());
    }
    match part.str_at("text") {
        Some(text) => check_blank(text, excused, model),
        None => Err(missing_parameter(format!("{path}.text"))),
    }
}

/// Refuses blank text for a Claude, on every host. An empty text beside calls is no text.
fn check_blank(text: &str, excused: bool, model: &OpenModel) -> OpenAiResult {
    let fine = !model.claude || !text.trim().is_empty() || (excused && text.is_empty());
    ensure(fine, || {
        OpenAiRefusal::from_upstream(
            "messages: text content blocks must contain non-whitespace text",
        )
    })
}
