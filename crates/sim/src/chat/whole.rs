//! Chat responses that are not streamed.

use super::answer::{Answer, AnswerPart, OutputCall, ShownReasoning, usage_json};
use crate::json::{Json, json_object};
use crate::models::open::Dialect;

/// Writes the body.
pub(super) fn write_body(answer: &Answer) -> Vec<u8> {
    let dialect = answer.model.dialect;
    let mut choice = vec![
        ("index".to_owned(), 0.into()),
        ("message".to_owned(), Json::Map(message_entries(answer))),
        ("logprobs".to_owned(), Json::Null),
        ("finish_reason".to_owned(), answer.finish.into()),
    ];
    if dialect == Dialect::OpenRouter {
        choice.push(("native_finish_reason".to_owned(), answer.native.into()));
    }
    let mut body = vec![("id".to_owned(), answer.id.as_str().into())];
    if dialect == Dialect::OpenRouter {
        body.push(("provider".to_owned(), "Simulated".into()));
    }
    body.push(("object".to_owned(), "chat.completion".into()));
    body.push(("created".to_owned(), answer.created.into()));
    body.push(("model".to_owned(), answer.name.as_str().into()));
    body.push(("choices".to_owned(), Json::List(vec![Json::Map(choice)])));
    body.push(("usage".to_owned(), usage_json(answer)));
    if answer.model.knows_fields() {
        body.push(("service_tier".to_owned(), "default".into()));
        body.push(("system_fingerprint".to_owned(), "fp_sim".into()));
    }
    Json::Map(body).to_text().into_bytes()
}

fn message_entries(answer: &Answer) -> Vec<(String, Json)> {
    let mut content = None;
    let (mut refusal, mut reasoning): (Option<String>, Option<String>) = (None, None);
    let (mut details, mut calls) = (Vec::new(), Vec::new());
    for piece in &answer.pieces {
        match piece {
            AnswerPart::Text(text) => content.get_or_insert_with(String::new).push_str(text),
            AnswerPart::Refusal(text) => refusal.get_or_insert_with(String::new).push_str(text),
            AnswerPart::Thought(thought) => {
                if !thought.encrypted {
                    reasoning.get_or_insert_with(String::new).push_str(&thought.text);
                }
                details.push(detail_json(thought));
            }
            AnswerPart::Call(call) => calls.push(whole_call(call, false)),
        }
    }
    let bare = calls.is_empty() && refusal.is_none();
    let text = |t: Option<String>| t.map_or(Json::Null, Json::from);
    let content = if bare && answer.finish != "content_filter" {
        content.unwrap_or_default().into()
    } else {
        text(content)
    };
    let mut message =
        vec![("role".to_owned(), "assistant".into()), ("content".to_owned(), content)];
    if answer.model.has_refusals() {
        message.push(("refusal".to_owned(), text(refusal)));
    }
    if let Some(key) = reasoning_key(answer.model.dialect).filter(|_| !details.is_empty()) {
        message.push((key.to_owned(), text(reasoning)));
        if answer.model.dialect == Dialect::OpenRouter {
            message.push(("reasoning_details".to_owned(), Json::List(details)));
        }
    }
    if !calls.is_empty() {
        message.push(("tool_calls".to_owned(), Json::List(calls)));
    }
    message
}

/// Returns the vendor's key for shown reasoning.
pub(super) fn reasoning_key(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::OpenAi | Dialect::Azure | Dialect::AnthropicCompat => None,
        Dialect::DeepSeek | Dialect::Zai | Dialect::Xai => Some("reasoning_content"),
        Dialect::OpenRouter | Dialect::Groq => Some("reasoning"),
    }
}

/// Writes a call in one piece. Streams number it.
pub(super) fn whole_call(call: &OutputCall, numbered: bool) -> Json {
    let function = json_object([
        ("name", call.name.as_str().into()),
        ("arguments", call.arguments.as_str().into()),
    ]);
    let mut json = vec![
        ("id".to_owned(), call.id.as_str().into()),
        ("type".to_owned(), "function".into()),
        ("function".to_owned(), function),
    ];
    if numbered {
        json.insert(0, ("index".to_owned(), (call.index as u64).into()));
    }
    Json::Map(json)
}

/// Writes one whole entry of OpenRouter's `reasoning_details`.
fn detail_json(thought: &ShownReasoning) -> Json {
    let mut detail = detail_head(thought);
    if thought.encrypted {
        detail.push(("data".to_owned(), token_json(thought)));
    } else {
        detail.push(("text".to_owned(), thought.text.as_str().into()));
        if thought.token.is_some() {
            detail.push(("signature".to_owned(), token_json(thought)));
        }
    }
    Json::Map(detail)
}

/// Returns the type, format, index and id of an entry.
pub(super) fn detail_head(thought: &ShownReasoning) -> Vec<(String, Json)> {
    let (kind, format) = match (thought.encrypted, &thought.token) {
        (true, _) => ("reasoning.encrypted", "openai-responses-v1".into()),
        (false, Some(_)) => ("reasoning.text", "anthropic-claude-v1".into()),
        (false, None) => ("reasoning.text", Json::Null),
    };
    let mut head = vec![
        ("type".to_owned(), kind.into()),
        ("format".to_owned(), format),
        ("index".to_owned(), (thought.index as u64).into()),
    ];
    if thought.encrypted {
        head.push(("id".to_owned(), format!("rs_{}", thought.index).into()));
    }
    head
}

pub(super) fn token_json(thought: &ShownReasoning) -> Json {
    thought.token.as_deref().map_or(Json::Null, Json::from)
}
