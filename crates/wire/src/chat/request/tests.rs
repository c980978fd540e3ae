//! Requests, tested member by member.

use super::*;

fn scan(body: &str) -> RequestBody<'_> {
    RequestBody::from_body(body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {body}"))
}

fn with(members: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{members}}}"#)
}

#[test]
fn top_level_members_are_found_with_their_spans() {
    let body = with(
        r#","stream":true,"stream_options":{"a":1,"include_usage":false},"max_tokens":3,"max_completion_tokens":2,"user":"u","metadata":{"k":"v"},"prompt_cache_key":"p","store":true,"n":2,"response_format":{"type":"json_schema"},"parallel_tool_calls":false,"functions":[{}]"#,
    );
    let request = scan(&body);
    let of = |span: Span| span.slice_of(&body);
    assert!(request.stream);
    let options = request.stream_options.unwrap();
    assert_eq!(of(options.span), r#"{"a":1,"include_usage":false}"#);
    assert_eq!(of(options.include_usage.unwrap().span), "false");
    assert!(!request.includes_usage());
    assert_eq!(of(request.max_tokens.unwrap().member), r#""max_tokens":3"#);
    assert_eq!(of(request.max_completion_tokens.unwrap().span), "2");
    assert_eq!(request.output_limit(), Some(2));
    assert_eq!(request.user.unwrap(), "u");
    assert_eq!(of(request.metadata.unwrap()), r#"{"k":"v"}"#);
    assert_eq!(request.prompt_cache_key.unwrap(), "p");
    assert_eq!((request.store, request.n), (Some(true), Some(2)));
    assert_eq!(request.response_format.unwrap().kind, "json_schema");
    let parallel = request.parallel_tool_calls.unwrap();
    assert_eq!((parallel.value, of(parallel.span)), (false, "false"));
    assert_eq!(of(request.functions.unwrap()), "[{}]");
}

#[test]
fn members_of_another_shape_are_as_if_absent() {
    let body = with(
        r#","stream":null,"stream_options":null,"max_tokens":"3","tools":{},"tool_choice":null,"user":1,"metadata":null,"n":null,"response_format":null,"parallel_tool_calls":0,"functions":null,"reasoning":null,"thinking":null"#,
    );
    let request = scan(&body);
    assert!(!request.stream && request.stream_options.is_none() && request.max_tokens.is_none());
    assert!(request.tools.is_none() && request.tool_choice.is_none() && request.user.is_none());
    assert!(request.metadata.is_none() && request.n.is_none() && request.functions.is_none());
    assert!(request.response_format.is_none() && request.parallel_tool_calls.is_none());
    assert_eq!(request.thinking.requested_thinking(), RequestedThinking::Default);
    assert_eq!(request.output_limit(), None);
}

#[test]
fn tools_are_named_whoever_runs_them() {
    let body = with(
        r#","tools":[{"type":"function","function":{"name":"f"}},{"type":"custom","custom":{"name":"c"}},{"function":{"name":"g"},"cache_control":{"type":"ephemeral"}},{"type":"web_search"},{"type":"function","name":"flat"},7]"#,
    );
    let tools = scan(&body).tools.unwrap();
    let seen: Vec<(String, bool)> =
        tools.list.iter().map(|tool| (tool.name.to_string(), tool.cache_control)).collect();
    let plain = |name: &str| (name.to_owned(), false);
    let cached = ("g".to_owned(), true);
    assert_eq!(seen, [plain("f"), plain("c"), cached, plain(""), plain("flat")]);
    assert_eq!(tools.list[1].kind, ToolKind::Custom);
    assert!(matches!(tools.list[3].kind, ToolKind::Other(kind) if kind == "web_search"));
}

#[test]
fn every_tool_choice_is_told_apart() {
    let check = |json: &str, forced: bool, expect: fn(RequestToolChoiceKind<'_>) -> bool| {
        let body = with(&format!(r#","tool_choice":{json}"#));
        let choice = scan(&body).tool_choice.unwrap();
        assert!(expect(choice.kind), "{json}: {:?}", choice.kind);
        assert_eq!(choice.kind.is_forced(), forced, "{json}");
        assert_eq!(choice.span.slice_of(&body), json);
        assert_eq!(choice.member.slice_of(&body), format!(r#""tool_choice":{json}"#));
    };
    check(r#""none""#, false, |c| c == RequestToolChoiceKind::None);
    check(r#""auto""#, false, |c| c == RequestToolChoiceKind::Auto);
    check(r#""required""#, true, |c| c == RequestToolChoiceKind::Required);
    check(r#""any""#, true, |c| c == RequestToolChoiceKind::Required);
    check(
        r#""later""#,
        false,
        |c| matches!(c, RequestToolChoiceKind::Other(name) if name == "later"),
    );
    check(
        r#"{"type":"function","function":{"name":"f"}}"#,
        true,
        |c| matches!(c, RequestToolChoiceKind::Function(name) if name == "f"),
    );
    check(
        r#"{"custom":{"name":"c"},"type":"custom"}"#,
        true,
        |c| matches!(c, RequestToolChoiceKind::Custom(name) if name == "c"),
    );
    check(
        r#"{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}}"#,
        true,
        |c| c == RequestToolChoiceKind::AllowedTools { required: true },
    );
    check(r#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}"#, false, |c| {
        c == RequestToolChoiceKind::AllowedTools { required: false }
    });
}

#[test]
fn thinking_is_seen_in_every_dialect() {
    let asked = |members: &str| scan(&with(members)).thinking.requested_thinking();
    assert_eq!(asked(""), RequestedThinking::Default);
    for on in [
        r#","reasoning_effort":"low""#,
        r#","reasoning":{"effort":"high"}"#,
        r#","reasoning":{"max_tokens":1024}"#,
        r#","reasoning":{"enabled":true}"#,
        r#","reasoning":{}"#,
        r#","thinking":{"type":"enabled","budget_tokens":2000}"#,
        r#","thinking":{"type":"adaptive"}"#,
        r#","enable_thinking":true"#,
        r#","chat_template_kwargs":{"enable_thinking":true}"#,
    ] {
        assert_eq!(asked(on), RequestedThinking::On, "{on}");
    }
    for off in [
        r#","reasoning_effort":"none""#,
        r#","reasoning":{"enabled":false,"effort":"high"}"#,
        r#","reasoning":{"effort":"none"}"#,
        r#","reasoning":{"max_tokens":0}"#,
        r#","thinking":{"type":"disabled"}"#,
        r#","enable_thinking":false"#,
        r#","chat_template_kwargs":{"thinking":false}"#,
    ] {
        assert_eq!(asked(off), RequestedThinking::Off, "{off}");
    }
    let body = with(r#","thinking":{"type":"enabled","budget_tokens":2000}"#);
    let thinking = scan(&body).thinking;
    assert_eq!(thinking.budget, Some(2000));
    assert!(thinking.thinking.unwrap().slice_of(&body).starts_with(r#"{"type":"enabled""#));
}

const HISTORY: &str = r#"{"model":"m","messages":[
 {"role":"developer","content":"d"},
 {"role":"user","name":"ann","content":[{"type":"text","text":"t\n","cache_control":{"type":"ephemeral"}},{"type":"image_url","image_url":{"url":"u"}},{"type":"file"},{"type":"input_audio"},{"type":"thinking"},3,{"type":"text"}],"cache_control":null},
 {"content":null,"role":"assistant","refusal":"no","reasoning_content":"","reasoning":null,"reasoning_details":[{"a":1}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"custom","custom":{"name":"g","input":"x"}},null]},
 {"role":"tool","tool_call_id":"c1","content":"r","cache_control":{"type":"ephemeral"}},
 {"role":"assistant","function_call":{"name":"h","arguments":"{}"}},
 {"role":"function","name":"h","content":"r"},
 {"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},
 {"role":"critic","content":[]}]}"#;

#[test]
fn messages_are_read_whatever_their_shape() {
    let request = scan(HISTORY);
    let list = &request.messages.list;
    let roles: Vec<RequestRole> = list.iter().map(|message| message.role).collect();
    use RequestRole::{Assistant, Developer, Function, Other, Tool, User};
    assert_eq!(roles, [Developer, User, Assistant, Tool, Assistant, Function, Assistant, Other]);
    let RequestContent::Parts { span, parts } = &list[1].content else { panic!("{:?}", list[1]) };
    assert!(
        span.slice_of(HISTORY).starts_with("[{")
            && list[1].span.slice_of(HISTORY).starts_with("{\"role")
    );
    assert!(matches!(parts[0].kind, PartKind::Text(text, _) if text == "t\n"));
    let kinds = [PartKind::Image, PartKind::File, PartKind::Audio];
    assert!(parts[1..4].iter().map(|part| part.kind).eq(kinds));
    assert!(matches!(parts[4].kind, PartKind::Other(kind) if kind == "thinking"));
    assert!(matches!(parts[5].kind, PartKind::Other(kind) if kind.is_empty()));
    assert!(matches!(parts[6].kind, PartKind::Other(kind) if kind == "text"));
    assert_eq!((list[1].cache_marks, list[3].cache_marks), (1, 1));
    assert_eq!(list[1].name.unwrap(), "ann");
    assert!(
        matches!(list[2].content, RequestContent::Null(span) if span.slice_of(HISTORY) == "null")
    );
    assert_eq!(list[2].refusal.unwrap(), "no");
    assert_eq!(list[2].reasoning_content.unwrap().value.slice_of(HISTORY), "\"\"");
    assert!(list[2].reasoning.is_none());
    let details = list[2].reasoning_details.unwrap();
    assert_eq!(details.member.slice_of(HISTORY), r#""reasoning_details":[{"a":1}]"#);
    assert_eq!(list[3].tool_call_id.unwrap(), "c1");
    assert_eq!(list[4].content, RequestContent::Absent);
    assert!(matches!(list[6].content, RequestContent::Parts { ref parts, .. }
        if matches!(parts[0].kind, PartKind::Refusal(text) if text == "no")));
}

#[test]
fn calls_are_read_whatever_their_kind() {
    let request = scan(HISTORY);
    let list = &request.messages.list;
    let seen = |message: &RequestMessage<'_>| -> Vec<(String, String, String, ToolCallKind)> {
        let calls = message.tool_calls.iter();
        calls
            .map(|c| (c.id.to_string(), c.name.to_string(), c.arguments.to_string(), c.kind))
            .collect()
    };
    let call = |id: &str, name: &str, arguments: &str, kind| {
        (id.to_owned(), name.to_owned(), arguments.to_owned(), kind)
    };
    let expected = [
        call("c1", "f", "{\"a\":1}", ToolCallKind::Function),
        call("c2", "g", "x", ToolCallKind::Custom),
    ];
    assert_eq!(seen(&list[2]), expected);
    assert_eq!(seen(&list[4]), [call("", "h", "{}", ToolCallKind::Legacy)]);
}

#[test]
fn what_is_no_request_is_named() {
    let check = |body: &str, expect: &str| {
        let error = RequestBody::from_body(body.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expect, "{body}");
    };
    check("{", "the request body is invalid JSON: expected a string at byte 1");
    check(r#"{"messages":[]}"#, "the request has no `model`");
    check(r#"{"model":"m"}"#, "the request has no `messages`");
    check(
        r#"{"model":"m","messages":{}}"#,
        "`messages` at byte 24 of the request must be a list of messages",
    );
    check(
        r#"{"model":"m","messages":[1]}"#,
        "`messages[]` at byte 25 of the request must be an object",
    );
    check(r#"{"model":"m","messages":[{}]}"#, "the request has no `messages[].role`");
    check(
        r#"{"model":"m","messages":[{"role":"user","content":3}]}"#,
        "`messages[].content` at byte 50 of the request must be a string, null or a list of parts",
    );
}
