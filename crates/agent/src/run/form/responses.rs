//! OpenAI Responses. Nothing is stored at the provider: every request carries the whole history,
//! and reasoning comes back encrypted in it.

use serde_json::{Value, json};
use softland_session::wire::responses::ApiError;

use super::{AnsweredCall, ApiFormat, RequestParts};

/// The least output limit that the API accepts.
const LEAST_OUTPUT: u64 = 16;

pub(super) struct Responses;

impl ApiFormat for Responses {
    fn error_message(&self, status: u16, body: &[u8]) -> String {
        ApiError::from_response(status, body).to_string()
    }

    fn request_head(&self, asks: &RequestParts<'_>) -> Value {
        let mut head = json!({
            "model": asks.model.request_name,
            "max_output_tokens": asks.max_tokens.max(LEAST_OUTPUT),
            "stream": true,
            "store": false,
        });
        if !asks.system.is_empty() {
            head["instructions"] = asks.system.into();
        }
        if !asks.tools.is_empty() {
            let tool = |tool: &crate::tool::ToolDef| {
                json!({
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                    // Unlike in Chat Completions, the default is true here.
                    "strict": false,
                })
            };
            head["tools"] = asks.tools.iter().map(tool).collect();
        }
        if asks.thinking {
            head["reasoning"] = json!({"summary": "auto"});
        }
        head
    }

    fn messages_member(&self) -> &'static str {
        "input"
    }

    fn user_messages(&self, texts: &[String]) -> Vec<Value> {
        let message = |text: &String| json!({"type": "message", "role": "user", "content": text});
        texts.iter().map(message).collect()
    }

    fn result_messages(&self, results: &[AnsweredCall], said: &[String]) -> Vec<Value> {
        let results = results.iter().map(|answered| {
            let output = self.result_text(answered);
            json!({"type": "function_call_output", "call_id": answered.id, "output": output})
        });
        results.chain(self.user_messages(said)).collect()
    }

    fn model_message(&self, text: &str) -> Value {
        json!({"type": "message", "role": "assistant", "content": text})
    }

    /// Drops nothing: sealed items are bound to no prefix, and the items behind them need them.
    fn drop_signed(&self, _: &mut Value) -> bool {
        false
    }
}
