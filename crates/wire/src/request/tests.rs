use super::*;
use crate::Splice;
use serde_json::{Value, json};

/// Returns each message's role and its blocks: a letter and their text.
fn outline(request: &Request<'_>) -> Vec<(Role, Vec<String>)> {
    let block = |block: &Block<'_>| match &block.kind {
        BlockKind::Text { text, .. } => format!("t {}", text.unescape()),
        BlockKind::Thinking | BlockKind::RedactedThinking => "k".to_owned(),
        BlockKind::ToolUse { id, name, input, server, .. } => {
            let side = if *server { "s" } else { "c" };
            format!("{side} {} {} {}", id.unescape(), name.unescape(), input.text_in(request.text))
        }
        BlockKind::ToolResult(result) => {
            let text = match &result.content {
                ResultContent::Text(text, _) => text.unescape().into_owned(),
                ResultContent::Parts { parts, .. } => {
                    parts.iter().filter_map(|p| p.text).map(|(t, _)| t.unescape()).collect()
                }
                ResultContent::Absent(_) => "absent".to_owned(),
                ResultContent::Opaque(_) => "opaque".to_owned(),
            };
            format!("r {} {text}", result.tool_use_id.unescape())
        }
        BlockKind::Other { kind } => format!("o {}", kind.unescape()),
    };
    let message = |message: &Message<'_>| match &message.content {
        Content::Text(text, _) => (message.role, vec![format!("t {}", text.unescape())]),
        Content::Blocks { blocks, .. } => (message.role, blocks.iter().map(block).collect()),
    };
    request.messages.list.iter().map(message).collect()
}

fn expect(of: &[(Role, &[&str])]) -> Vec<(Role, Vec<String>)> {
    of.iter()
        .map(|(role, blocks)| (*role, blocks.iter().map(|&b| b.to_owned()).collect()))
        .collect()
}

fn chat() -> Value {
    let call = |id: &str| {
        json!({"id": id, "type": "function",
        "function": {"name": "grep", "arguments": "{\"a\":1}"}})
    };
    json!({
        "model": "gpt-5.2", "stream": true, "max_completion_tokens": 900, "tool_choice": "required",
        "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function": {"name": "grep", "parameters": {}}}],
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "what"}, {"type": "image_url", "image_url": {"url": "x"}}]},
            {"role": "assistant", "content": "looking", "reasoning_content": "hm", "tool_calls": [call("c1"), call("c2")]},
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}]},
            {"role": "assistant", "content": null, "tool_calls": [call("c3")]},
            {"role": "tool", "tool_call_id": "c3", "content": "three"},
            {"role": "user", "content": "and?"}
        ]
    })
}

#[test]
fn a_chat_is_seen_turn_by_turn() {
    let body = chat().to_string();
    let request = Request::from_body(Api::Chat, body.as_bytes()).unwrap();
    let args = r#"{"a":1}"#;
    let calls = [1, 2, 3].map(|n| format!("c c{n} grep {args}"));
    assert_eq!(
        outline(&request),
        expect(&[
            (Role::System, &["t be brief"]),
            (Role::User, &["t what", "o image_url"]),
            (Role::Assistant, &["k", "t looking", &calls[0], &calls[1]]),
            (Role::User, &["r c1 one", "r c2 two"]),
            (Role::Assistant, &[&calls[2]]),
            (Role::User, &["r c3 three"]),
            (Role::User, &["t and?"]),
        ])
    );
    assert!(request.stream && request.stream_options.unwrap().include_usage.unwrap().value);
    assert_eq!(request.max_tokens.map(|max| max.value), Some(900));
    assert_eq!(request.limit_member, "max_completion_tokens");
    assert_eq!(request.tool_choice.unwrap().kind, ToolChoiceKind::Any);
    assert_eq!(request.tools.unwrap().list.len(), 1);
}

fn responses() -> Value {
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "grep", "arguments": "{\"a\":1}"});
    let output = |id: &str, output: Value| json!({"type": "function_call_output", "call_id": id, "output": output});
    json!({
        "model": "gpt-5.2", "instructions": "be brief", "max_output_tokens": 900,
        "previous_response_id": "resp_1", "reasoning": {"effort": "low"},
        "tool_choice": {"type": "function", "name": "grep"},
        "tools": [{"type": "function", "name": "grep", "parameters": {}}, {"type": "web_search"}],
        "input": [
            {"role": "developer", "content": "terse"},
            {"role": "user", "content": [{"type": "input_text", "text": "what"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "looking"}]},
            call("c1"), call("c2"),
            output("c1", json!("one")), output("c2", json!([{"type": "input_text", "text": "two"}])),
            {"type": "custom_tool_call", "call_id": "c3", "name": "sh", "input": "ls"},
            {"type": "custom_tool_call_output", "call_id": "c3", "output": "three"},
            {"role": "user", "content": "and?"}
        ]
    })
}

#[test]
fn items_are_seen_turn_by_turn() {
    let body = responses().to_string();
    let request = Request::from_body(Api::Responses, body.as_bytes()).unwrap();
    let args = r#"{"a":1}"#;
    let calls = [1, 2].map(|n| format!("c c{n} grep {args}"));
    assert_eq!(
        outline(&request),
        expect(&[
            (Role::System, &["t terse"]),
            (Role::User, &["t what"]),
            (Role::Assistant, &["k", "t looking", &calls[0], &calls[1]]),
            (Role::User, &["r c1 one", "r c2 two"]),
            (Role::Assistant, &["c c3 sh ls"]),
            (Role::User, &["r c3 three"]),
            (Role::User, &["t and?"]),
        ])
    );
    assert_eq!(request.max_tokens.map(|max| max.value), Some(900));
    assert_eq!(request.limit_member, "max_output_tokens");
    assert_eq!(request.previous.unwrap().0.unescape(), "resp_1");
    assert_eq!(request.thinking.mode, ThinkingMode::Enabled { budget: 0 });
    assert!(
        matches!(request.tool_choice.unwrap().kind, ToolChoiceKind::Tool(name) if name.eq_str("grep"))
    );
}

#[test]
fn an_input_that_is_a_text_is_one_message() {
    let body = r#"{"model":"gpt-5.2","input":"what"}"#;
    let request = Request::from_body(Api::Responses, body.as_bytes()).unwrap();
    assert!(request.messages.string);
    assert_eq!(outline(&request), expect(&[(Role::User, &["t what"])]));
}

/// Lines, messages and members go where the protocol expects them, and nowhere else.
#[test]
fn edits_by_the_view_are_the_protocols() {
    for (api, body, history) in
        [(Api::Chat, chat(), "messages"), (Api::Responses, responses(), "input")]
    {
        let text = body.to_string();
        let request = Request::from_body(api, text.as_bytes()).unwrap();
        let mut splice = Splice::new();
        let mut lines = 0;
        for message in &request.messages.list {
            let Content::Blocks { blocks, .. } = &message.content else { continue };
            for block in blocks.iter().filter(|b| matches!(b.kind, BlockKind::ToolResult(_))) {
                assert!(splice.append_to_result(api, block, "LINE"));
                lines += 1;
            }
        }
        splice.append_to_message(api, request.messages.list.last().unwrap(), "MORE");
        splice.append_messages(&request, &[r#"{"new":1}"#]);
        splice.set_tool_choice(&request, r#""none""#);
        splice.set_max_tokens(&request, 77);
        let edited: Value =
            serde_json::from_slice(&splice.apply(text.as_bytes()).unwrap()).unwrap();
        let mut expected = body.clone();
        expected["tool_choice"] = json!("none");
        let limit = if api == Api::Chat { "max_completion_tokens" } else { "max_output_tokens" };
        expected[limit] = json!(77);
        let list = expected[history].as_array_mut().unwrap();
        for item in list.iter_mut() {
            let results = ["function_call_output", "custom_tool_call_output"];
            let member = match () {
                () if item["role"] == "tool" => "content",
                () if results.iter().any(|kind| item["type"] == *kind) => "output",
                () => continue,
            };
            let target = match &mut item[member] {
                Value::Array(parts) => &mut parts[0]["text"],
                text => text,
            };
            *target = format!("{}\n\nLINE", target.as_str().unwrap()).into();
        }
        list.last_mut().unwrap()["content"] = json!("and?\n\nMORE");
        list.push(json!({"new": 1}));
        assert_eq!(edited, expected, "{api:?}");
        assert_eq!(lines, 3);
    }
}

#[test]
fn what_is_no_request_is_refused() {
    for api in [Api::Chat, Api::Responses] {
        for body in ["", "[]", "{", r#"{"model":1}"#, r#"{"input":[],"messages":[]}"#] {
            assert!(Request::from_body(api, body.as_bytes()).is_err(), "{api:?} {body}");
        }
    }
    assert!(Request::from_body(Api::Chat, br#"{"model":"m","messages":"x"}"#).is_err());
}

/// Codex 0.169 declares its tools in the input: the first item contains them (recorded shape).
#[test]
fn tools_that_the_input_declares_are_tools() {
    let body = r#"{"model":"gpt-6.1-sol","tool_choice":"auto","input":[
        {"type":"additional_tools","role":"developer","tools":[
            {"type":"namespace","name":"functions","tools":[
                {"type":"custom","name":"exec"},{"type":"function","name":"wait"}]},
            {"type":"web_search"}]},
        {"role":"user","content":"hi"}]}"#;
    let request = Request::from_body(Api::Responses, body.as_bytes()).unwrap();
    let tools = request.tools.unwrap();
    let list = tools.list.iter().map(|t| (t.name.unescape(), t.kind.map(|kind| kind.unescape())));
    let list: Vec<_> = list.collect();
    let own = |name: &'static str| (name.into(), None);
    assert_eq!(
        list,
        [own("exec"), own("wait"), own("functions"), ("".into(), Some("web_search".into()))]
    );
    let roles: Vec<_> = request.messages.list.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User]);
}

#[test]
fn what_nobody_can_follow_stands_apart() {
    let body = |member: &str, message: &str| {
        format!(r#"{{"model":"m"{member},"messages":[{{"role":"user","content":"a"}}{message}]}}"#)
    };
    let called =
        r#",{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}"#;
    let answered = r#",{"role":"function","name":"f","content":"found"}"#;
    for (member, message, apart) in [
        ("", "", None),
        (r#","n":1"#, "", None),
        (r#","n":2"#, "", Some("n")),
        (r#","n":null"#, "", None),
        (r#","n":"2""#, "", Some("n")),
        (r#","n":1.5"#, "", Some("n")),
        (r#","tools":[],"functions":null"#, r#",{"role":"assistant","function_call":null}"#, None),
        (r#","functions":[{"name":"f"}]"#, "", Some("functions")),
        ("", called, Some("functions")),
        ("", answered, Some("functions")),
    ] {
        let body = body(member, message);
        let request = Request::from_body(Api::Chat, body.as_bytes()).unwrap();
        assert_eq!(request.apart, apart, "{body}");
    }
}

/// Only Chat Completions names the speaker within a group.
#[test]
fn a_speaker_is_named() {
    let messages = json!([
        {"role": "user", "name": "user", "content": "write"},
        {"role": "user", "name": "critic", "content": [{"type": "text", "text": "better"}]},
        {"role": "user", "content": "so"}
    ]);
    let body = json!({"model": "m", "messages": messages}).to_string();
    let request = Request::from_body(Api::Chat, body.as_bytes()).unwrap();
    let names = request.messages.list.iter().map(|m| m.name.map(|name| name.unescape()));
    let names: Vec<_> = names.map(|name| name.map(std::borrow::Cow::into_owned)).collect();
    assert_eq!(names, [Some("user".to_owned()), Some("critic".to_owned()), None]);
}
