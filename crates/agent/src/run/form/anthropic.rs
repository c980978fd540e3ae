//! Anthropic Messages.

use serde_json::{Value, json};
use softland_session::core::lines;
use softland_session::wire::anthropic::ApiError;

use super::{AnsweredCall, ApiFormat, CallStatus, RequestParts};

pub(super) struct Anthropic;

impl ApiFormat for Anthropic {
    fn error_message(&self, status: u16, body: &[u8]) -> String {
        ApiError::from_response(status, body).to_string()
    }

    fn request_head(&self, asks: &RequestParts<'_>) -> Value {
        let mut head = json!({
            "model": asks.model.request_name,
            "max_tokens": asks.max_tokens,
            "stream": true,
        });
        let marks = asks.model.provider.as_deref() == Some("anthropic");
        if marks {
            // The mark moves with the end of the request, so the bytes of the messages do not
            // change.
            head["cache_control"] = json!({"type": "ephemeral"});
        }
        if !asks.system.is_empty() {
            let mut block = text_block(asks.system);
            if marks {
                block["cache_control"] = json!({"type": "ephemeral"});
            }
            head["system"] = json!([block]);
        }
        if !asks.tools.is_empty() {
            let tool = |tool: &crate::tool::ToolDef| {
                json!({
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.input_schema,
                })
            };
            head["tools"] = asks.tools.iter().map(tool).collect();
        }
        if asks.thinking {
            head["thinking"] = json!({"type": "adaptive", "display": "summarized"});
        }
        head
    }

    fn user_messages(&self, texts: &[String]) -> Vec<Value> {
        let blocks: Vec<Value> = texts.iter().map(|said| text_block(said)).collect();
        vec![json!({"role": "user", "content": blocks})]
    }

    /// Returns the text alone: the failure has a member of its own.
    fn result_text(&self, answered: &AnsweredCall) -> String {
        answered.text.clone()
    }

    fn result_messages(&self, results: &[AnsweredCall], said: &[String]) -> Vec<Value> {
        let results = results.iter().map(|AnsweredCall { id, text, how, .. }| {
            let mut result = json!({"type": "tool_result", "tool_use_id": id, "content": text});
            if *how != CallStatus::Succeeded {
                result["is_error"] = Value::Bool(true);
            }
            result
        });
        let blocks: Vec<Value> = results.chain(said.iter().map(|said| text_block(said))).collect();
        vec![json!({"role": "user", "content": blocks})]
    }

    fn model_message(&self, text: &str) -> Value {
        json!({"role": "assistant", "content": text})
    }

    fn drop_signed(&self, message: &mut Value) -> bool {
        let Some(blocks) = message["content"].as_array_mut() else { return false };
        let before = blocks.len();
        blocks.retain(|block| block["type"] != "thinking" && block["type"] != "redacted_thinking");
        let dropped = blocks.len() != before;
        if dropped && blocks.is_empty() {
            blocks.push(text_block(lines::NO_ANSWER));
        }
        dropped
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
