//! OpenAI Chat Completions and its dialects.

use serde_json::{Value, json};
use softland_session::wire::Api;
use softland_session::wire::chat::ApiError;
use softland_session::wire::request::Request;

use super::{AnsweredCall, ApiFormat, RequestParts};

pub(super) struct Chat;

impl ApiFormat for Chat {
    fn error_message(&self, status: u16, body: &[u8]) -> String {
        ApiError::from_response(status, body).to_string()
    }

    fn request_head(&self, asks: &RequestParts<'_>) -> Value {
        let mut head = json!({"model": asks.model.request_name, "stream": true});
        head[limit_member(&asks.model.name)] = asks.max_tokens.into();
        // Mistral refuses the member with 422 `extra_forbidden` and reports usage without it
        // (github.com/TabbyML/tabby/pull/4082, openai/openai-agents-python issue 442).
        if asks.model.provider.as_deref() != Some("mistral") {
            head["stream_options"] = json!({"include_usage": true});
        }
        if !asks.tools.is_empty() {
            let tool = |tool: &crate::tool::ToolDef| {
                json!({
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.input_schema,
                    },
                })
            };
            head["tools"] = asks.tools.iter().map(tool).collect();
        }
        head
    }

    fn system_message(&self, system: &str) -> Option<Value> {
        (!system.is_empty()).then(|| json!({"role": "system", "content": system}))
    }

    fn user_messages(&self, texts: &[String]) -> Vec<Value> {
        texts.iter().map(|text| json!({"role": "user", "content": text})).collect()
    }

    fn result_messages(&self, results: &[AnsweredCall], said: &[String]) -> Vec<Value> {
        let results = results.iter().map(|answered| {
            let content = self.result_text(answered);
            json!({"role": "tool", "tool_call_id": answered.id, "content": content})
        });
        results.chain(self.user_messages(said)).collect()
    }

    fn model_message(&self, text: &str) -> Value {
        json!({"role": "assistant", "content": text})
    }

    /// Leaves `reasoning_content` alone: it is not signed, and DeepSeek wants it back.
    fn drop_signed(&self, message: &mut Value) -> bool {
        let members = message.as_object_mut();
        members.is_some_and(|members| members.remove("reasoning_details").is_some())
    }
}

/// Returns the member that limits the output, as the view of requests knows it by the model's name.
fn limit_member(model: &str) -> &'static str {
    let body = json!({"model": model, "messages": []}).to_string();
    Request::from_body(Api::Chat, body.as_bytes())
        .map_or("max_tokens", |request| request.limit_member)
}
