use super::*;

fn scan(body: &str) -> RequestBody<'_> {
    RequestBody::from_body(body.as_bytes()).unwrap()
}

fn item(json: &str) -> ItemKind<'static> {
    let body = format!(r#"{{"model":"m","input":[{json}]}}"#).leak();
    scan(body).items()[0].kind.clone()
}

#[test]
fn settings_are_found_wherever_they_stand() {
    let body = r#"{"input":"hi","model":"m","stream":true,"background":true,"store":false,
        "max_output_tokens":7,"max_tool_calls":2,"instructions":"be brief",
        "parallel_tool_calls":false,"reasoning":{"effort":"low","summary":null},
        "include":["x","reasoning.encrypted_content"],"previous_response_id":"resp_1",
        "conversation":{"id":"conv_1"},"metadata":{},"user":"u","prompt_cache_key":"k",
        "text":{"format":{"type":"json_schema"}}}"#;
    let r = scan(body);
    assert!(r.stream && r.background && r.store == Some(false));
    assert_eq!((r.max_output_tokens.unwrap().value, r.max_tool_calls.unwrap().value), (7, 2));
    assert_eq!(r.instructions.unwrap().slice_of(body), r#""be brief""#);
    assert!(!r.parallel_tool_calls.unwrap().value);
    assert_eq!(r.reasoning.unwrap().effort.unwrap(), "low");
    assert!(r.include.unwrap().encrypted_reasoning);
    let (previous, span) = r.previous_response_id.unwrap();
    assert_eq!(
        (previous, span.slice_of(body)),
        (Str::from_plain("resp_1").unwrap(), r#""resp_1""#)
    );
    assert_eq!(r.conversation.unwrap().id.unwrap(), "conv_1");
    assert_eq!(
        (r.user.unwrap(), r.prompt_cache_key.unwrap()),
        (Str::from_plain("u").unwrap(), Str::from_plain("k").unwrap())
    );
    assert_eq!(r.text_format.unwrap(), "json_schema");
    assert_eq!(r.find_member("metadata").unwrap().slice_of(body), "{}");
    assert!(matches!(r.input, Input::Text(text, _) if text == "hi"));
    assert!(r.items().is_empty() && r.find_member("tools").is_none());
}

#[test]
fn null_is_absent() {
    let body = r#"{"model":"m","input":null,"tools":null,"tool_choice":null,"reasoning":null,
        "include":null,"instructions":null,"max_output_tokens":null,"previous_response_id":null,
        "conversation":null,"parallel_tool_calls":null,"text":null,"store":null}"#;
    let r = scan(body);
    assert!(matches!(r.input, Input::Absent(Some(span)) if span.slice_of(body) == "null"));
    assert!(r.tools.is_none() && r.tool_choice.is_none() && r.reasoning.is_none());
    assert!(r.include.is_none() && r.instructions.is_none() && r.max_output_tokens.is_none());
    assert!(r.previous_response_id.is_none() && r.conversation.is_none() && r.store.is_none());
    assert!(r.parallel_tool_calls.is_none() && r.text_format.is_none());
    assert_eq!(r.members.len(), 13);
}

#[test]
fn the_last_of_equal_keys_wins() {
    let body = r#"{"model":"a","input":"x","input":[],"model":"b","stream":true,"stream":0}"#;
    let r = scan(body);
    assert!(r.model == "b" && !r.stream);
    assert!(matches!(&r.input, Input::Items(items) if items.list.is_empty()));
    assert_eq!(r.find_member("input").unwrap().slice_of(body), "[]");
}

#[test]
fn tool_choices_are_told_apart() {
    let kind = |json: &str| {
        let body = format!(r#"{{"model":"m","tool_choice":{json}}}"#).leak();
        let choice = scan(body).tool_choice.unwrap();
        assert_eq!(choice.span.slice_of(body), json);
        choice.kind
    };
    let name = |text| Str::from_plain(text).unwrap();
    for (json, expected) in [
        (r#""none""#, RequestToolChoiceKind::None),
        (r#""auto""#, RequestToolChoiceKind::Auto),
        (r#""required""#, RequestToolChoiceKind::Required),
        (r#"{"type":"function","name":"f"}"#, RequestToolChoiceKind::Function(name("f"))),
        (r#"{"name":"c","type":"custom"}"#, RequestToolChoiceKind::Custom(name("c"))),
        (
            r#"{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}"#,
            RequestToolChoiceKind::AllowedTools { mode: name("auto") },
        ),
        (r#"{"type":"mcp","server_label":"s"}"#, RequestToolChoiceKind::Mcp),
        (r#"{"type":"web_search"}"#, RequestToolChoiceKind::Hosted(name("web_search"))),
        (r#""x""#, RequestToolChoiceKind::Other),
        ("3", RequestToolChoiceKind::Other),
        ("{}", RequestToolChoiceKind::Other),
    ] {
        assert_eq!(kind(json), expected, "{json}");
    }
}

#[test]
fn namespaces_hold_tools() {
    let r = scan(
        r#"{"model":"m","tools":[{"type":"function","name":"f","tools":[{"name":"no"}]},
            {"tools":[{"type":"function","name":"close"},7],"name":"agents","type":"namespace"},
            {"type":"web_search"},"x"]}"#,
    );
    let tools = r.tools.unwrap().list;
    let names: Vec<_> = tools.iter().map(|t| (t.name.raw(), t.tools.len())).collect();
    assert_eq!(names, [("f", 0), ("agents", 1), ("", 0)]);
    assert_eq!(tools[1].tools[0].name, "close");
}

#[test]
fn items_are_told_apart() {
    use ItemKind as K;
    assert!(matches!(
        item(r#"{"content":"hi","role":"user"}"#),
        K::Message { role: RequestRole::User, content: RequestContent::Text(..), phase: None }
    ));
    assert!(matches!(
        item(r#"{"type":"message","role":"assistant","phase":"commentary","content":[]}"#),
        K::Message {
            role: RequestRole::Assistant,
            content: RequestContent::Parts { .. },
            phase: Some(_)
        }
    ));
    assert!(matches!(item(r#"{"type":"message"}"#), K::Message { role: RequestRole::Other, .. }));
    assert!(matches!(
        item(r#"{"type":"reasoning","encrypted_content":"x"}"#),
        K::Reasoning { encrypted: Some(_) }
    ));
    assert!(matches!(
        item(r#"{"type":"reasoning","encrypted_content":null}"#),
        K::Reasoning { encrypted: None }
    ));
    assert_eq!(item(r#"{"type":"item_reference","id":"rs_1"}"#), K::ItemReference);
    assert_eq!(item(r#"{"id":"rs_1","type":null}"#), K::ItemReference);
    assert_eq!(item(r#"{"type":"configuration_update"}"#), K::ConfigurationUpdate);
    assert_eq!(item(r#"{"type":"compaction"}"#), K::Compaction);
    assert!(matches!(item(r#"{"type":"web_search_call"}"#), K::ToolCall { .. }));
    assert!(matches!(item(r#"{"type":"program"}"#), K::Other { .. }));
    assert!(matches!(item("{}"), K::Other { .. }));
}

#[test]
fn calls_and_their_outputs_are_read() {
    let call = r#"{"type":"custom_tool_call","call_id":"c","name":"n","input":"a\n","arguments":"no","namespace":"s"}"#;
    let ItemKind::CustomToolCall(call) = item(call) else { panic!() };
    assert!(call.arguments == "a\n" && call.call_id == "c" && call.namespace.unwrap() == "s");
    let output = r#"{"output":[{"type":"input_text","text":"a"},{"type":"input_image"},1],"type":"custom_tool_call_output","call_id":"c"}"#;
    let ItemKind::CustomToolCallOutput(output) = item(output) else { panic!() };
    let RequestContent::Parts { parts, .. } = output.content else { panic!() };
    let texts: Vec<_> = parts.iter().map(|p| p.text.is_some()).collect();
    assert_eq!((output.call_id.raw(), texts), ("c", vec![true, false, false]));
    let shot = r#"{"type":"computer_call_output","output":{"type":"computer_screenshot"}}"#;
    let ItemKind::ToolOutput { output, .. } = item(shot) else { panic!() };
    assert!(matches!(output.content, RequestContent::Other(_)));
    let shell = r#"{"type":"shell_call","call_id":"s"}"#;
    assert!(matches!(item(shell), ItemKind::ToolCall { call_id, .. } if call_id == "s"));
}

#[test]
fn what_is_no_request_is_named() {
    let error = |body: &str| RequestBody::from_body(body.as_bytes()).unwrap_err().to_string();
    assert_eq!(error(r#"{"input":"x"}"#), "the request has no `model`");
    assert_eq!(
        error(r#"{"model":"m","input":3}"#),
        "`input` at byte 21 of the request must be a string or a list of items"
    );
    assert_eq!(
        error(r#"{"model":"m","input":["x"]}"#),
        "`input[]` at byte 22 of the request must be an object"
    );
    assert!(error("{").starts_with("the request body is invalid JSON"));
    assert!(error(r#"{"model":"m"} x"#).contains("expected the end"));
}
