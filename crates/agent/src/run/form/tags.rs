//! Tools for a model without tool calling: the system prompt describes the tools, the model writes
//! calls as text, and results come back as the next user message.

use serde_json::{Map, Value, json};
use softland_session::results_text;
use softland_session::wire::tags::{Shape, Tags};

use super::{AnsweredCall, ApiFormat, RequestParts, plain_text};
use crate::tool::ToolDef;

/// The tag that holds a call.
pub(in crate::run) const TAG: &str = "use_tool";

/// The description of tools for the model, before their list.
const ABOUT: &str = r#"# Tools

You can call tools. To call one, write a block of this form, on lines of its own and outside of any code fence:

<use_tool>
{"name": "TOOL", "input": {"ARGUMENT": "VALUE"}}
</use_tool>

Between the tags stands one JSON object and nothing else. You may write several blocks, one behind the other, where no call needs the result of another. End your message with the last block: the tools run then, and the next message holds their results in the same order, each as <tool_result name="TOOL">. Never write a result yourself. The result of a call that failed is an object with an "error". Once you need no further tool, answer without a block.

These are the tools, each with the JSON schema of its input:
"#;

/// Returns the reader for responses of such a model. Text behind its calls is dropped, because the
/// model does not know their results yet. The result is never `None`: the tag is a valid name.
pub(in crate::run) fn tag_shape() -> Option<Shape> {
    let tags = Tags::new([TAG]).ok()?;
    Some(Shape { suppress_tail: true, ..Shape::watch_only(tags) })
}

/// Returns the system prompt with a description of the tools.
pub(in crate::run) fn system_with_tools(system: &str, tools: &[ToolDef]) -> String {
    if tools.is_empty() {
        return system.to_owned();
    }
    let mut prompt = system.to_owned();
    if !prompt.is_empty() {
        prompt.push_str("\n\n");
    }
    prompt.push_str(ABOUT);
    for ToolDef { name, description, input_schema, .. } in tools {
        let tool = json!({"name": name, "description": description, "input_schema": input_schema});
        prompt.push('\n');
        prompt.push_str(&tool.to_string());
    }
    prompt
}

/// Converts the arguments of a call to the types of the tool's schema. If each argument is an
/// element of text, numbers and booleans arrive as text.
pub(in crate::run) fn typed_arguments(tool: Option<&ToolDef>, input: &str) -> Option<String> {
    let properties = tool?.input_schema.get("properties")?.as_object()?;
    let mut arguments: Map<String, Value> = serde_json::from_str(input).ok()?;
    let mut changed = false;
    for (name, value) in &mut arguments {
        let kind =
            properties.get(name).and_then(|schema| schema.get("type")).and_then(Value::as_str);
        let text = value.as_str().map(str::trim);
        let read = match (kind, text) {
            (Some("integer" | "number" | "boolean"), Some(text)) => {
                serde_json::from_str(text).ok().filter(|read: &Value| {
                    if kind == Some("boolean") { read.is_boolean() } else { read.is_number() }
                })
            }
            _ => None,
        };
        if let Some(read) = read {
            *value = read;
            changed = true;
        }
    }
    changed.then(|| Value::Object(arguments).to_string())
}

/// The messages of an API, with calls and results as text.
pub(super) struct TaggedFormat(pub(super) &'static dyn ApiFormat);

impl ApiFormat for TaggedFormat {
    fn error_message(&self, status: u16, body: &[u8]) -> String {
        self.0.error_message(status, body)
    }

    fn request_head(&self, asks: &RequestParts<'_>) -> Value {
        self.0.request_head(asks)
    }

    fn messages_member(&self) -> &'static str {
        self.0.messages_member()
    }

    fn system_message(&self, system: &str) -> Option<Value> {
        self.0.system_message(system)
    }

    fn user_messages(&self, texts: &[String]) -> Vec<Value> {
        self.0.user_messages(texts)
    }

    /// Returns the text as the detectors read it again: the sign of failure is in it.
    fn result_text(&self, answered: &AnsweredCall) -> String {
        let text = plain_text(answered);
        let whole = results_text([(answered.name.as_str(), text.as_str())]);
        match whole.split_once(">\n").and_then(|(_, rest)| rest.rsplit_once("\n</")) {
            Some((inside, _)) => inside.trim_ascii().to_owned(),
            None => text,
        }
    }

    fn result_messages(&self, results: &[AnsweredCall], said: &[String]) -> Vec<Value> {
        let told: Vec<_> = results.iter().map(|answered| self.result_text(answered)).collect();
        let named = results.iter().zip(&told);
        let named = named.map(|(answered, text)| (answered.name.as_str(), text.as_str()));
        let mut texts = vec![results_text(named)];
        texts.extend_from_slice(said);
        self.0.user_messages(&texts)
    }

    fn model_message(&self, text: &str) -> Value {
        self.0.model_message(text)
    }

    fn drop_signed(&self, message: &mut Value) -> bool {
        self.0.drop_signed(message)
    }
}
