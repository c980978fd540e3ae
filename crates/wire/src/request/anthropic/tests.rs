use super::*;
use crate::request::{
    Block, BlockKind, Content, ResultContent, Role, ThinkingMode, ToolChoiceKind,
};

const MESSAGES: &str = r#""messages":[{"role":"user","content":"hi"}]"#;

fn scan(body: &str) -> Request<'_> {
    scan_body(body.as_bytes()).unwrap()
}

#[test]
fn members_are_found_wherever_they_stand() {
    let body = format!(
        r#"{{{MESSAGES}, "stream":true, "max_tokens" : 64 ,"system":[{{"type":"text","text":"s"}}],"model":"claude-x","metadata":{{"user_id":"u\n1"}},"cache_control":{{"type":"ephemeral"}},"thinking":{{"budget_tokens":1024,"type":"enabled"}},"tool_choice":{{"disable_parallel_tool_use":true,"name":"grep","type":"tool"}},"tools":[{{"name":"grep","cache_control":{{}}}},{{"type":"web_search_20250305","name":"web_search"}}],"unknown":{{"model":"no"}}}}"#
    );
    let request = scan(&body);
    assert_eq!((request.model, request.stream), (Str::from_plain("claude-x").unwrap(), true));
    let max_tokens = request.max_tokens.unwrap();
    assert_eq!((max_tokens.value, max_tokens.span.slice_of(&body)), (64, "64"));
    assert_eq!(max_tokens.member.slice_of(&body), r#""max_tokens" : 64"#);
    assert_eq!(request.system.unwrap().slice_of(&body), r#"[{"type":"text","text":"s"}]"#);
    assert_eq!(request.user_id.unwrap(), "u\n1");
    assert!(request.cache_control);
    assert_eq!(request.thinking.mode, ThinkingMode::Enabled { budget: 1024 });
    let choice = request.tool_choice.unwrap();
    assert_eq!(choice.kind, ToolChoiceKind::Tool(Str::from_plain("grep").unwrap()));
    assert!(choice.disable_parallel);
    assert!(choice.member.slice_of(&body).starts_with(r#""tool_choice":{"disable"#));
    let tools = request.tools.unwrap().list;
    assert_eq!((tools[0].name, tools[0].kind), (Str::from_plain("grep").unwrap(), None));
    assert!(tools[0].cache_control && !tools[1].cache_control);
    assert_eq!(tools[1].kind.unwrap(), "web_search_20250305");
    assert_eq!(request.span.slice_of(&body), body);
}

#[test]
fn absent_and_null_are_alike() {
    for rest in [
        "",
        r#","stream":null,"max_tokens":null,"system":null,"tools":null,"tool_choice":null,"thinking":null,"cache_control":null,"metadata":null"#,
    ] {
        let body = format!(r#"{{"model":"m",{MESSAGES}{rest}}}"#);
        let r = scan(&body);
        assert!(!r.stream && !r.cache_control);
        assert!(r.max_tokens.is_none() && r.system.is_none() && r.tools.is_none());
        assert!(r.tool_choice.is_none() && r.user_id.is_none());
        assert_eq!(r.thinking, Thinking { mode: ThinkingMode::Absent, span: None });
    }
}

#[test]
fn the_last_of_two_members_wins() {
    let body = format!(r#"{{"model":"a","max_tokens":1,"model":"b","max_tokens":2,{MESSAGES}}}"#);
    let request = scan(&body);
    assert_eq!(
        (request.model, request.max_tokens.unwrap().value),
        (Str::from_plain("b").unwrap(), 2)
    );
}

#[test]
fn choices_and_thinking_have_their_kinds() {
    for (json, kind) in [
        ("auto", ToolChoiceKind::Auto),
        ("any", ToolChoiceKind::Any),
        ("none", ToolChoiceKind::None),
        ("new", ToolChoiceKind::Other(Str::from_plain("new").unwrap())),
    ] {
        let body = format!(r#"{{"model":"m",{MESSAGES},"tool_choice":{{"type":"{json}"}}}}"#);
        let choice = scan(&body).tool_choice.unwrap();
        assert_eq!((choice.kind, choice.disable_parallel), (kind, false));
    }
    for (json, mode) in [
        (r#"{"type":"disabled"}"#, ThinkingMode::Disabled),
        (r#"{"type":"adaptive","display":"omitted"}"#, ThinkingMode::Adaptive),
        (r#"{"type":"enabled"}"#, ThinkingMode::Enabled { budget: 0 }),
        (r#"{"type":"new"}"#, ThinkingMode::Other),
        ("true", ThinkingMode::Other),
    ] {
        let body = format!(r#"{{"model":"m",{MESSAGES},"thinking":{json}}}"#);
        let request = scan(&body);
        assert_eq!(request.thinking.mode, mode);
        assert_eq!(request.thinking.span.unwrap().slice_of(&body), json);
    }
}

#[test]
fn blocks_are_read_in_any_order_of_keys() {
    let body = r#"{"model":"m","messages":[
        {"content":[{"text":"a","type":"text","cache_control":{"type":"ephemeral"}},
                    {"input":{"b":1},"name":"n","id":"t1","type":"tool_use"},
                    {"id":"s1","name":"w","input":{},"type":"server_tool_use"},
                    {"type":"thinking","thinking":"x","signature":"y"},
                    {"type":"redacted_thinking","data":"z"},
                    {"type":"web_search_tool_result","content":[{"type":"text","text":"no"}]}],
         "role":"assistant"},
        {"role":"user","content":[
            {"content":"done","tool_use_id":"t1","type":"tool_result","is_error":true},
            {"type":"tool_result","tool_use_id":"t2"},
            {"type":"tool_result","tool_use_id":"t3","content":[{"type":"text","text":"p"},{"type":"image","text":"no"},7]}]},
        {"role":"system","content":"note"},
        {"role":"new","content":[]}]}"#;
    let request = scan(body);
    let list = &request.messages.list;
    let roles: Vec<Role> = list.iter().map(|m| m.role).collect();
    assert_eq!(roles, [Role::Assistant, Role::User, Role::System, Role::Other]);
    let kinds = |n: usize| match &list[n].content {
        Content::Blocks { blocks, .. } => blocks,
        Content::Text(..) => panic!("text"),
    };
    let first = kinds(0);
    assert!(first[0].cache_control && !first[1].cache_control);
    let BlockKind::Text { text, span } = first[0].kind else { panic!() };
    assert_eq!((text.raw(), span.slice_of(body)), ("a", "\"a\""));
    let BlockKind::ToolUse { id, name, input, server: false, .. } = first[1].kind else { panic!() };
    assert_eq!((id.raw(), name.raw(), &*input.text_in(body)), ("t1", "n", r#"{"b":1}"#));
    assert!(matches!(first[2].kind, BlockKind::ToolUse { server: true, .. }));
    assert_eq!(first[3].kind, BlockKind::Thinking);
    assert_eq!(first[4].kind, BlockKind::RedactedThinking);
    assert!(matches!(first[5].kind, BlockKind::Other { kind } if kind == "web_search_tool_result"));
    results(kinds(1), body);
    assert!(matches!(&list[2].content, Content::Text(text, _) if *text == "note"));
}

fn results(blocks: &[Block<'_>], body: &str) {
    let result = |n: usize| match &blocks[n].kind {
        BlockKind::ToolResult(result) => result,
        other => panic!("{other:?}"),
    };
    assert!(result(0).is_error && !result(1).is_error);
    assert!(matches!(result(0).content, ResultContent::Text(text, _) if text == "done"));
    assert_eq!(result(1).content, ResultContent::Absent(None));
    let ResultContent::Parts { parts, .. } = &result(2).content else { panic!() };
    assert_eq!(parts[0].text.unwrap().1.slice_of(body), "\"p\"");
    assert_eq!((parts[1].text, parts[2].text, parts[2].span.slice_of(body)), (None, None, "7"));
}

#[test]
fn errors_name_the_member() {
    for (body, said) in [
        (r#"{"messages":[]}"#, "the request has no `model`"),
        (r#"{"model":"m"}"#, "the request has no `messages`"),
        (r#"{"model":"m","messages":{}}"#, "`messages` at byte 24 of the request must be a list"),
        (r#"{"model":"m","messages":[1]}"#, "`messages[]` at byte 25 of the request must be an"),
        (r#"{"model":"m","messages":[{"content":"x"}]}"#, "the request has no `messages[].role`"),
        (
            r#"{"model":"m","messages":[{"role":"user"}]}"#,
            "the request has no `messages[].content`",
        ),
        (
            r#"{"model":"m","messages":[{"role":"user","content":5}]}"#,
            "`messages[].content` at byte 50 of the request must be a string or a list of blocks",
        ),
        ("[]", "the request body is invalid JSON: expected an object at byte 0"),
        (r#"{"model":"m","messages":[]} x"#, "the request body is invalid JSON: expected the end"),
    ] {
        let error = scan_body(body.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(said), "{body}: {error}");
    }
    let utf8 = scan_body(b"{\"model\":\"\xff\"}").unwrap_err().to_string();
    assert_eq!(utf8, "the request body is invalid JSON: not UTF-8 at byte 10");
}
