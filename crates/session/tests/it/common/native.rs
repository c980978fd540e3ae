//! What differs between the three protocols for a client with a history of its own: how a request
//! is written, and how calls and results are told in it. Messages are told apart by their shape.

use serde_json::{Value, json};
use softland_core::models::{Capability, find_capability};
use softland_wire::Api;

use super::case::Case;
use super::hostile::TOOLS;

/// The provider, where one is named, and the model as it is asked for.
pub(crate) fn names(case: &Case) -> (Option<&str>, &str) {
    match case.api {
        Api::Anthropic => (None, &case.model),
        Api::Chat | Api::Responses => match case.model.split_once('/') {
            Some((provider, model)) => (Some(provider), model),
            None => (None, &case.model),
        },
    }
}

/// The same of the model whose rules hold.
pub(crate) fn rules(case: &Case) -> (Option<&str>, &str) {
    match (case.api, case.rules().split_once('/')) {
        (Api::Chat | Api::Responses, Some((provider, model))) => (Some(provider), model),
        _ => (None, case.rules()),
    }
}

/// What the simulator calls the unlisted model, if it is one.
pub(crate) fn aliases(case: &Case) -> Vec<(String, String)> {
    let (_, listed) = rules(case);
    case.rules_of.iter().map(|_| (case.model.clone(), listed.to_owned())).collect()
}

/// What the client knows of its model, whoever else does.
pub(crate) fn known(case: &Case) -> Capability {
    let (provider, model) = rules(case);
    find_capability(provider, model)
}

/// The member that the history stands in.
pub(crate) fn member(api: Api) -> &'static str {
    if api == Api::Responses { "input" } else { "messages" }
}

pub(crate) fn path(api: Api) -> &'static str {
    match api {
        Api::Anthropic => "/v1/messages",
        Api::Chat => "/v1/chat/completions",
        Api::Responses => "/v1/responses",
    }
}

pub(crate) fn headers(api: Api) -> Vec<(String, String)> {
    let headers: &[(&str, &str)] = match api {
        Api::Anthropic => &[("x-api-key", "any"), ("anthropic-version", "2023-06-01")],
        Api::Chat | Api::Responses => &[("authorization", "Bearer any")],
    };
    headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A request without its history.
pub(crate) fn head(case: &Case) -> Value {
    let manner = &case.manner;
    let mut names: Vec<&str> = TOOLS.to_vec();
    if manner.answer_tool {
        names.push("hand_in");
    }
    let tools: Value = names.iter().map(|name| tool(case.api, name)).collect();
    let (_, model) = self::names(case);
    let mut head = json!({"model": model, "tools": tools, "stream": !manner.whole});
    let thinks = manner.thinking && known(case).thinking_adaptive;
    match case.api {
        Api::Anthropic => {
            head["max_tokens"] = json!(8000);
            if thinks {
                head["thinking"] = json!({"type": "adaptive", "display": "summarized"});
            }
            if manner.cache {
                head["cache_control"] = json!({"type": "ephemeral"});
            }
        }
        Api::Chat => {
            let (_, id) = rules(case);
            let openai = ["gpt-", "o1", "o3", "o4"].iter().any(|prefix| id.starts_with(prefix));
            let limit = if openai { "max_completion_tokens" } else { "max_tokens" };
            head[limit] = json!(8000);
            if manner.cache && !manner.whole {
                head["stream_options"] = json!({"include_usage": true});
            }
        }
        Api::Responses => {
            head["max_output_tokens"] = json!(8000);
            head["store"] = json!(false);
            if thinks {
                head["reasoning"] = json!({"summary": "auto"});
            }
        }
    }
    head
}

fn tool(api: Api, name: &str) -> Value {
    let schema = json!({"type": "object"});
    match api {
        Api::Anthropic => json!({"name": name, "input_schema": schema}),
        Api::Chat => json!({"type": "function", "function": {"name": name, "parameters": schema}}),
        Api::Responses => json!({"type": "function", "name": name, "parameters": schema}),
    }
}

/// The answers to a round of calls: each one's id, its texts, and whether it failed.
pub(crate) fn results(api: Api, answers: Vec<(String, Value, bool)>) -> Vec<Value> {
    // Where there is no other sign of failure, the text is an error.
    let told = |(id, content, failed): (String, Value, bool)| match failed && api != Api::Anthropic
    {
        true => (id, json!(json!({"error": text_of(&content)}).to_string()), failed),
        false => (id, content, failed),
    };
    let one = |(id, content, failed): (String, Value, bool)| match api {
        Api::Anthropic => {
            json!({"type": "tool_result", "tool_use_id": id, "is_error": failed, "content": content})
        }
        Api::Chat => json!({"role": "tool", "tool_call_id": id, "content": content}),
        Api::Responses => json!({"type": "function_call_output", "call_id": id, "output": content}),
    };
    let list: Vec<Value> = answers.into_iter().map(told).map(one).collect();
    if api == Api::Anthropic { vec![json!({"role": "user", "content": list})] } else { list }
}

/// A part of a text that the client says.
pub(crate) fn part(api: Api, text: &str) -> Value {
    let kind = if api == Api::Responses { "input_text" } else { "text" };
    json!({"type": kind, "text": text})
}

/// Id and name of each call of a message.
pub(crate) fn calls(message: &Value) -> Vec<(&str, &str)> {
    let text = |value: &'_ Value| -> bool { value.is_string() };
    if message["type"] == "function_call" {
        return vec![(str_of(&message["call_id"]), str_of(&message["name"]))];
    }
    let blocks = message["content"].as_array().into_iter().flatten();
    let blocks = blocks
        .filter(|block| block["type"] == "tool_use" && text(&block["id"]))
        .map(|block| (str_of(&block["id"]), str_of(&block["name"])));
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    blocks.chain(calls.map(|c| (str_of(&c["id"]), str_of(&c["function"]["name"])))).collect()
}

/// Of each result of a message the id of its call, and what the tool said.
pub(crate) fn results_of(message: &Value) -> Vec<(&str, &Value)> {
    if message["type"] == "function_call_output" {
        return vec![(str_of(&message["call_id"]), &message["output"])];
    }
    if message["role"] == "tool" {
        return vec![(str_of(&message["tool_call_id"]), &message["content"])];
    }
    let blocks = message["content"].as_array().into_iter().flatten();
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|block| (str_of(&block["tool_use_id"]), &block["content"])).collect()
}

/// The same, to be changed.
pub(crate) fn results_mut(message: &mut Value) -> Vec<&mut Value> {
    if message["type"] == "function_call_output" {
        return vec![&mut message["output"]];
    }
    if message["role"] == "tool" {
        return vec![&mut message["content"]];
    }
    let blocks = message["content"].as_array_mut().into_iter().flatten();
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|block| &mut block["content"]).collect()
}

/// Whether it is a message of results alone.
pub(crate) fn is_results(message: &Value) -> bool {
    !results_of(message).is_empty()
}

/// Whether the model says it.
pub(crate) fn is_models(message: &Value) -> bool {
    let item = matches!(message["type"].as_str(), Some("function_call" | "reasoning"));
    message["role"] == "assistant" || item
}

/// All of a text, in one piece or in several.
pub(crate) fn text_of(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    let parts: String = parts.filter_map(|part| part["text"].as_str()).collect();
    content.as_str().map_or(parts, str::to_owned)
}

fn str_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
