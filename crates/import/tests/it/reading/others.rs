//! Kinds of other programs: a small recording of each, written for this test, and what is read of it.

use super::common::{one, put, told};

#[test]
fn sessions_of_pi_and_openclaw_are_told_apart_by_their_tree() {
    let lines = |tree: &str| {
        [
            r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-05-01T10:00:00Z","cwd":"/w"}"#.to_owned(),
            format!(r#"{{"type":"message","id":"a"{tree},"timestamp":"2026-05-01T10:00:01Z","message":{{"role":"user","content":[{{"type":"text","text":"look"}}]}}}}"#),
            format!(r#"{{"type":"message","id":"b"{tree},"timestamp":"2026-05-01T10:00:02Z","message":{{"role":"assistant","content":[{{"type":"text","text":"Yes."}},{{"type":"toolCall","id":"c1","name":"bash","arguments":{{"command":"ls"}}}}],"model":"claude-sonnet-4-5","usage":{{"input":3,"output":40,"cacheRead":11,"cacheWrite":7,"cost":{{"total":0.25}}}},"stopReason":"toolUse"}}}}"#),
            format!(r#"{{"type":"message","id":"c"{tree},"message":{{"role":"toolResult","toolCallId":"c1","content":[{{"type":"text","text":"no"}}],"isError":true}}}}"#),
            // A request that was given up before anything came.
            format!(r#"{{"type":"message","id":"d"{tree},"message":{{"role":"assistant","content":[],"usage":{{"input":0,"output":0}},"stopReason":"aborted"}}}}"#),
            format!(r#"{{"type":"message","id":"e"{tree},"message":{{"role":"assistant","content":[{{"type":"text","text":"Done."}}],"stopReason":"stop"}}}}"#),
        ]
        .join("\n")
    };
    let steps = [
        "0 begin s1",
        r#"0 user "look""#,
        r#"0 turn c1:bash{"command":"ls"} chars=4 tokens=3/40/11/7 $0.25"#,
        "0 user c1:failed",
        "0 turn chars=5",
        "0 end",
    ];
    for (tree, kind) in [(r#","parentId":"z""#, "pi"), ("", "openclaw")] {
        let (known, told, unreadable) = one(lines(tree));
        assert_eq!((known, unreadable), (Some(kind), Vec::new()));
        assert_eq!(told, steps);
    }
}

#[test]
fn a_trajectory_in_atif_has_the_turns_that_asked_a_model() {
    let text = r#"{"schema_version":"ATIF-v1.8","session_id":"s1","agent":{"name":"a","version":"1","model_name":"gpt-5"},
"steps":[
 {"step_id":1,"source":"user","message":"before","is_copied_context":true},
 {"step_id":2,"source":"user","message":"look"},
 {"step_id":3,"source":"agent","message":"","tool_calls":[{"tool_call_id":"c1","function_name":"sh","arguments":{"cmd":"ls"}}],
  "observation":{"results":[{"source_call_id":"c1","content":"a b"}]},
  "metrics":{"prompt_tokens":120,"completion_tokens":18,"cached_tokens":100,"cost_usd":0.5}},
 {"step_id":4,"source":"agent","message":"","llm_call_count":0,"observation":{"results":[{"content":"a script's"}]}},
 {"step_id":5,"source":"agent","message":[{"type":"text","text":"Two."}],"metrics":{"prompt_tokens":9,"completion_tokens":8}}],
"subagent_trajectories":[{"trajectory_id":"sub","agent":{"model_name":"gpt-5"},"steps":[
 {"step_id":1,"source":"user","message":"go"},{"step_id":2,"source":"agent","message":"seen","metrics":{"prompt_tokens":5,"completion_tokens":1}}]}]}"#;
    let (kind, steps, unreadable) = one(text);
    assert_eq!((kind, unreadable), (Some("atif"), Vec::new()));
    let expected = [
        "0 begin s1",
        r#"0 user "look""#,
        r#"0 turn c1:sh{"cmd":"ls"} chars=0 tokens=20/18/100/0 $0.50"#,
        "0 user c1:ok",
        "0 user machine",
        "0 turn chars=4 tokens=9/8/0/0",
        "1 begin s1 agent=sub",
        r#"1 user "go""#,
        "1 turn chars=4 tokens=5/1/0/0",
        "1 end",
        "0 end",
    ];
    assert_eq!(steps, expected);
}

#[test]
fn spans_of_models_are_turns_and_spans_of_tools_their_results() {
    let span = |id: &str, start: u64, attributes: &[(&str, &str)]| {
        let attributes: Vec<String> = attributes
            .iter()
            .map(|(key, value)| format!(r#"{{"key":"{key}","value":{value}}}"#))
            .collect();
        format!(
            r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"t","spanId":"{id}","startTimeUnixNano":"{start}","attributes":[{}]}}]}}]}}]}}"#,
            attributes.join(",")
        )
    };
    let text = |text: &str| format!(r#"{{"stringValue":{}}}"#, serde_json::Value::from(text));
    let (chat, tool) = (text("chat"), text("execute_tool"));
    let asked = text(r#"[{"role":"user","parts":[{"type":"text","content":"look"}]}]"#);
    let answer = text(
        r#"[{"role":"assistant","parts":[{"type":"text","content":"Two."}],"finish_reason":"stop"}]"#,
    );
    let (call, name) = (text("c1"), text("sh"));
    // Spans are exported as they end, the tool's before the model's behind it.
    let lines = [
        span(
            "1",
            1_000_000_000,
            &[
                ("gen_ai.operation.name", &chat),
                ("gen_ai.request.model", &text("gpt-5")),
                ("gen_ai.input.messages", &asked),
                ("gen_ai.usage.input_tokens", r#"{"intValue":"120"}"#),
                ("gen_ai.usage.output_tokens", r#"{"intValue":"18"}"#),
                ("gen_ai.usage.cache_read.input_tokens", r#"{"intValue":"100"}"#),
            ],
        ),
        span(
            "3",
            3_000_000_000,
            &[
                ("gen_ai.operation.name", &chat),
                ("gen_ai.output.messages", &answer),
                ("gen_ai.input.messages", &asked),
                ("gen_ai.usage.cost", r#"{"doubleValue":0.5}"#),
            ],
        ),
        span(
            "2",
            2_000_000_000,
            &[
                ("gen_ai.operation.name", &tool),
                ("gen_ai.tool.call.id", &call),
                ("gen_ai.tool.name", &name),
                ("gen_ai.tool.call.result", &text("a b")),
            ],
        ),
        span("9", 9, &[("http.method", &text("GET"))]),
    ];
    let (kind, steps, unreadable) = one(lines.join("\n"));
    assert_eq!((kind, unreadable), (Some("otlp-json"), Vec::new()));
    let expected = [
        "0 begin t",
        r#"0 user "look""#,
        "0 turn c1:sh{} chars=0 tokens=20/18/100/0",
        "0 user c1:ok",
        "0 turn chars=4 $0.50",
        "0 end",
    ];
    assert_eq!(steps, expected);
    let (kind, _, unreadable) = one(&lines[3]);
    assert_eq!(kind, Some("otlp-json"));
    assert_eq!(unreadable, ["no span in it has attributes `gen_ai.*`"]);
}

const SAMPLE: &str = r#"{"id":7,"epoch":1,"messages":[
 {"id":"m1","role":"user","content":"look"},
 {"id":"m2","role":"assistant","content":"","tool_calls":[{"id":"c1","function":"bash","arguments":{"cmd":"ls"},"type":"function"}]},
 {"id":"m3","role":"tool","tool_call_id":"c1","content":"no","error":{"type":"timeout","message":"late"}},
 {"id":"m4","role":"assistant","content":"Two."}],
 "events":[
 {"event":"model","model":"openai/gpt-4o","output":{"choices":[{"message":{"id":"m2"}}],"usage":{"input_tokens":10,"output_tokens":2,"total_tokens":12}}},
 {"event":"model","model":"openai/gpt-4o","output":{"choices":[{"message":{"id":"m4"}}],"usage":{"input_tokens":30,"output_tokens":3,"total_tokens":33,"input_tokens_cache_read":20}}},
 {"event":"model","model":"openai/gpt-4o","output":{"choices":[{"message":{"id":"grade"}}],"usage":{"input_tokens":50,"output_tokens":1,"total_tokens":51}}}]}"#;

const SAMPLE_STEPS: [&str; 9] = [
    "0 begin eval/7/1",
    r#"0 user "look""#,
    r#"0 turn c1:bash{"cmd":"ls"} chars=0 tokens=10/2/0/0"#,
    "0 user c1:failed",
    "0 turn chars=4 tokens=10/3/20/0",
    "0 end",
    "1 begin eval/7/1 agent=beside",
    "1 turn chars=0 tokens=50/1/0/0",
    "1 end",
];

#[test]
fn samples_of_inspect_are_conversations_and_a_grader_stands_beside() {
    let head = r#""version":2,"status":"success","eval":{"task":"eval","model":"openai/gpt-4o"}"#;
    let (kind, mut steps, unreadable) = one(format!("{{{head},\"samples\":[{SAMPLE}]}}"));
    assert_eq!((kind, unreadable), (Some("inspect"), Vec::new()));
    steps.retain(|step| step != "1 user machine");
    assert_eq!(steps, SAMPLE_STEPS);
    // The same as an archive, with files stored and deflated.
    for deflated in [false, true] {
        let files =
            [("header.json", format!("{{{head}}}")), ("samples/7_epoch_1.json", SAMPLE.to_owned())];
        let (kind, mut steps, unreadable) = one(archive(&files, deflated));
        assert_eq!((kind, unreadable), (Some("inspect"), Vec::new()));
        steps.retain(|step| step != "1 user machine");
        assert_eq!(steps, SAMPLE_STEPS);
    }
    let (kind, _, unreadable) = one(archive(&[("a.txt", "b".to_owned())], false));
    assert_eq!((kind, unreadable), (None, vec!["a zip archive of another program".to_owned()]));
    let whole = archive(&[("header.json", format!("{{{head}}}"))], false);
    let (_, _, unreadable) = one(&whole[..whole.len() / 2]);
    assert_eq!(unreadable, ["damaged or cut: no directory"]);
}

/// Makes a zip archive.
fn archive(files: &[(&str, String)], deflated: bool) -> Vec<u8> {
    use std::io::Write as _;
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let packed = if deflated {
            let mut to =
                flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
            to.write_all(content.as_bytes()).unwrap();
            to.finish().unwrap()
        } else {
            content.clone().into_bytes()
        };
        let sizes = [0, packed.len() as u32, content.len() as u32].map(u32::to_le_bytes).concat();
        let names = [name.len() as u16, 0].map(u16::to_le_bytes).concat();
        let common = [20, 0, if deflated { 8 } else { 0 }, 0, 0].map(u16::to_le_bytes).concat();
        let at = (bytes.len() as u32).to_le_bytes();
        directory.extend([b"PK\x01\x02\x14\0".as_slice(), &common, &sizes, &names].concat());
        directory.extend([[0; 10].as_slice(), &at, name.as_bytes()].concat());
        bytes.extend([b"PK\x03\x04".as_slice(), &common, &sizes, &names, name.as_bytes()].concat());
        bytes.extend(packed);
    }
    let count = (files.len() as u16).to_le_bytes();
    let ends = [directory.len() as u32, bytes.len() as u32].map(u32::to_le_bytes).concat();
    bytes.extend(directory);
    bytes.extend([b"PK\x05\x06\0\0\0\0".as_slice(), &count, &count, &ends, &[0, 0]].concat());
    bytes
}

#[test]
fn a_task_of_cline_counts_once_whatever_stands_in_its_folder() {
    let shown = r#"[
 {"ts":1,"type":"say","say":"text","text":"look"},
 {"ts":2,"type":"say","say":"api_req_started","text":"{\"tokensIn\":3,\"tokensOut\":18,\"cacheWrites\":7,\"cacheReads\":100,\"cost\":0.5}"},
 {"ts":3,"type":"ask","ask":"tool","text":"{\"tool\":\"readFile\",\"path\":\"a\"}","partial":true},
 {"ts":4,"type":"ask","ask":"tool","text":"{\"tool\":\"readFile\",\"path\":\"a\",\"content\":\"b\"}","partial":false},
 {"ts":5,"type":"say","say":"api_req_started","text":"{\"request\":\"x\"}"},
 {"ts":6,"type":"say","say":"api_req_retried"},
 {"ts":7,"type":"say","say":"api_req_started","text":"{\"tokensIn\":9,\"tokensOut\":2,\"cacheWrites\":0,\"cacheReads\":5}"},
 {"ts":8,"type":"say","say":"completion_result","text":"Done."}]"#;
    let history = r#"[{"role":"user","content":"look","ts":1},{"role":"assistant","content":"Done.","ts":2}]"#;
    let item = r#"{"id":"1","task":"look","tokensIn":12,"tokensOut":20,"totalCost":0.5}"#;
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "1/ui_messages.json", shown);
    put(folder.path(), "1/api_conversation_history.json", history);
    put(folder.path(), "1/history_item.json", item);
    put(folder.path(), "2/api_conversation_history.json", history);
    let read = told(&[folder.path().to_owned()]);
    assert!(read.unreadable.is_empty(), "{:?}", read.unreadable);
    let kinds: Vec<_> = read.sources.iter().map(|source| source.kind.map(|k| k.name())).collect();
    assert_eq!(kinds, [Some("cline"); 4]);
    let steps: Vec<_> =
        read.sources.into_iter().filter_map(|source| source.sink).map(|told| told.0).collect();
    let expected = [
        "0 begin -",
        r#"0 user "look""#,
        r#"0 turn call-1:readFile{"path":"a"} chars=0 tokens=3/18/100/7 $0.50"#,
        "0 user call-1:ok",
        "0 turn chars=5 tokens=9/2/5/0",
        "0 end",
    ];
    let alone = ["0 begin -", r#"0 user "look""#, "0 turn chars=5", "0 end"];
    assert_eq!(steps, [expected.to_vec(), alone.to_vec()]);
}

#[test]
fn sessions_of_goose_take_usage_from_its_ledger_or_its_sums() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let base = rusqlite::Connection::open(&path).unwrap();
    base.execute_batch(
        r#"CREATE TABLE sessions (id TEXT, working_dir TEXT, model_config_json TEXT, parent_session_id TEXT,
             accumulated_total_tokens INTEGER, accumulated_input_tokens INTEGER,
             accumulated_output_tokens INTEGER, accumulated_cost REAL);
           CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
             created_timestamp INTEGER);
           CREATE TABLE usage_ledger (id INTEGER PRIMARY KEY, session_id TEXT, created_timestamp INTEGER,
             model TEXT, input_tokens INTEGER, output_tokens INTEGER, total_tokens INTEGER,
             cache_read_tokens INTEGER, cache_write_tokens INTEGER, cost REAL, is_compaction INTEGER);
           INSERT INTO sessions VALUES ('a', '/w', '{"model_name":"gpt-5"}', NULL, 900, 800, 100, 2.0);
           INSERT INTO sessions VALUES ('b', '/w', NULL, 'a', 900, 800, 100, 2.0);
           INSERT INTO messages (session_id, role, content_json, created_timestamp) VALUES
             ('a', 'user', '[{"type":"text","text":"look"}]', 1),
             ('a', 'assistant', '[{"type":"toolRequest","id":"c1","toolCall":{"status":"success","value":{"name":"sh","arguments":{"cmd":"ls"}}}}]', 2),
             ('a', 'user', '[{"type":"toolResponse","id":"c1","toolResult":{"status":"error","error":"no"}}]', 3),
             ('a', 'assistant', '[{"type":"text","text":"Two."}]', 4),
             ('b', 'user', '[{"type":"text","text":"go"}]', 1),
             ('b', 'assistant', '[{"type":"text","text":"Seen."}]', 2);
           INSERT INTO usage_ledger (session_id, created_timestamp, model, input_tokens, output_tokens,
             total_tokens, cache_read_tokens, cost, is_compaction) VALUES
             ('a', 2, 'gpt-5', 120, 18, 138, 100, 0.5, 0),
             ('a', 3, 'gpt-5', 300, 30, 330, 0, 0.25, 1),
             ('a', 4, 'gpt-5', 9, 8, 17, NULL, NULL, 0);"#,
    )
    .unwrap();
    drop(base);
    let read = told(&[path]);
    assert!(read.unreadable.is_empty(), "{:?}", read.unreadable);
    let source = read.sources.into_iter().next().unwrap();
    assert_eq!(source.kind.map(|kind| kind.name()), Some("goose"));
    let expected = [
        "0 begin a",
        r#"0 user "look""#,
        r#"0 turn c1:sh{"cmd":"ls"} chars=0 tokens=20/18/100/0 $0.50"#,
        "0 user c1:failed",
        "0 turn chars=4 tokens=9/8/0/0",
        "0 end",
        "1 begin a agent=compaction",
        "1 user machine",
        "1 turn chars=0 tokens=300/30/0/0 $0.25",
        "1 end",
        "2 begin a agent=b",
        r#"2 user "go""#,
        "2 turn chars=5 tokens=800/100/0/0 $2.00",
        "2 end",
    ];
    assert_eq!(source.sink.unwrap().0, expected);
}

#[test]
fn sessions_of_qwen_code_are_none_of_claude_code() {
    let line = |kind: &str, parts: &str, more: &str| {
        format!(
            r#"{{"uuid":"u","sessionId":"s1","timestamp":"2026-05-01T10:00:00Z","type":"{kind}","cwd":"/w"{more},"message":{{"role":"x","parts":[{parts}]}}}}"#
        )
    };
    let usage = r#","model":"qwen3","usageMetadata":{"promptTokenCount":120,"candidatesTokenCount":18,"cachedContentTokenCount":100,"thoughtsTokenCount":6,"totalTokenCount":138}"#;
    let text = [
        line("user", r#"{"text":"look"}"#, ""),
        line("assistant", r#"{"text":"hm","thought":true},{"functionCall":{"id":"c1","name":"sh","args":{"cmd":"ls"}}}"#, usage),
        line("tool_result", r#"{"functionResponse":{"id":"c1","name":"sh","response":{"error":"no"}}}"#, ""),
        line("assistant", r#"{"text":"Two."}"#, ""),
    ]
    .join("\n");
    let (kind, steps, unreadable) = one(text);
    assert_eq!((kind, unreadable), (Some("qwen-code"), Vec::new()));
    let expected = [
        "0 begin s1",
        r#"0 user "look""#,
        r#"0 turn c1:sh{"cmd":"ls"} chars=0 tokens=20/18/100/0"#,
        "0 user c1:failed",
        "0 turn chars=4",
        "0 end",
    ];
    assert_eq!(steps, expected);
}

#[test]
fn actions_of_one_response_of_openhands_are_one_turn() {
    let metadata = |call: &str, response: &str, usage: &str| {
        format!(
            r#""tool_call_metadata":{{"tool_call_id":"{call}","function_name":"sh","model_response":{{"id":"{response}"{usage}}}}}"#
        )
    };
    let used = r#","usage":{"prompt_tokens":120,"completion_tokens":18,"prompt_tokens_details":{"cached_tokens":100}}"#;
    let text = [
        r#"{"id":0,"timestamp":"2026-05-01T10:00:00","source":"user","action":"message","args":{"content":"look"}}"#.to_owned(),
        format!(r#"{{"id":1,"timestamp":"2026-05-01T10:00:01","source":"agent","action":"run","args":{{"cmd":"ls"}},{},"llm_metrics":{{"accumulated_cost":0.5}}}}"#, metadata("c1", "r1", used)),
        format!(r#"{{"id":2,"timestamp":"2026-05-01T10:00:02","source":"agent","observation":"run","content":"a",{}}}"#, metadata("c1", "r1", "")),
        format!(r#"{{"id":3,"timestamp":"2026-05-01T10:00:03","source":"agent","action":"run","args":{{"cmd":"id"}},{},"llm_metrics":{{"accumulated_cost":0.5}}}}"#, metadata("c2", "r1", used)),
        r#"{"id":4,"timestamp":"2026-05-01T10:00:04","source":"agent","action":"finish","args":{"final_thought":"Two."},"llm_metrics":{"accumulated_cost":0.75,"accumulated_token_usage":{"prompt_tokens":9,"completion_tokens":8}}}"#.to_owned(),
    ];
    let (kind, steps, unreadable) = one(format!("[{}]", text.join(",\n")));
    assert_eq!((kind, unreadable), (Some("openhands"), Vec::new()));
    let expected = [
        "0 begin -",
        r#"0 user "look""#,
        r#"0 turn c1:sh{"cmd":"ls"} c2:sh{"cmd":"id"} chars=0 tokens=20/18/100/0 $0.50"#,
        "0 user c1:ok",
        "0 turn chars=4 tokens=9/8/0/0 $0.25",
        "0 end",
    ];
    assert_eq!(steps, expected);
}

#[test]
fn events_of_openhands_are_joined_with_the_sums_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let state = r#"{"id":"s1","execution_status":"finished","agent":{"llm":{"model":"gpt-5","usage_id":"agent"}},"stats":{"usage_to_metrics":{
        "agent":{"accumulated_cost":0.5,"accumulated_token_usage":{"prompt_tokens":120,"completion_tokens":18,"cache_read_tokens":100}},
        "condenser":{"accumulated_cost":0.25,"accumulated_token_usage":{"prompt_tokens":50,"completion_tokens":5}}}}}"#;
    put(folder.path(), "x/base_state.json", state);
    for (n, event) in [
        r#"{"id":"e0","source":"user","kind":"MessageEvent","llm_message":{"role":"user","content":[{"type":"text","text":"look"}]},"timestamp":"2026-05-01T10:00:00"}"#,
        r#"{"id":"e1","source":"agent","kind":"ActionEvent","thought":[],"tool_call":{"id":"c1","name":"sh","arguments":"{\"cmd\":\"ls\"}"},"llm_response_id":"r1","timestamp":"2026-05-01T10:00:01"}"#,
        r#"{"id":"e2","source":"environment","kind":"ObservationEvent","tool_call_id":"c1","observation":{"content":[{"type":"text","text":"a"}],"is_error":false},"timestamp":"2026-05-01T10:00:02"}"#,
        r#"{"id":"e3","source":"agent","kind":"MessageEvent","llm_message":{"role":"assistant","content":[{"type":"text","text":"One."}]},"llm_response_id":"r2","timestamp":"2026-05-01T10:00:03"}"#,
    ]
    .iter()
    .enumerate()
    {
        put(folder.path(), &format!("x/events/event-0000{n}.json"), event);
    }
    let read = told(&[folder.path().to_owned()]);
    assert!(read.unreadable.is_empty(), "{:?}", read.unreadable);
    let steps: Vec<_> =
        read.sources.into_iter().filter_map(|source| source.sink).flat_map(|told| told.0).collect();
    let expected = [
        "0 begin s1",
        r#"0 user "look""#,
        r#"0 turn c1:sh{"cmd":"ls"} chars=0"#,
        "0 user c1:ok",
        "0 turn chars=4 tokens=20/18/100/0 $0.50",
        "0 end",
        "1 begin s1 agent=condenser",
        "1 user machine",
        "1 turn chars=0 tokens=50/5/0/0 $0.25",
        "1 end",
    ];
    assert_eq!(steps, expected);
}

#[test]
fn rows_of_litellm_that_failed_are_no_turns() {
    let row = |id: &str, start: u64, status: &str, more: &str| {
        format!(
            r#"{{"request_id":"{id}","call_type":"acompletion","spend":0.5,"prompt_tokens":120,"completion_tokens":3,"startTime":"2026-05-01T10:00:0{start}Z","model":"gpt-5","session_id":"s1","status":"{status}"{more}}}"#
        )
    };
    let usage = r#","metadata":{"usage_object":{"prompt_tokens":120,"completion_tokens":18,"prompt_tokens_details":{"cached_tokens":100}}}"#;
    let rows = [
        row("r3", 3, "success", r#","cache_hit":"True""#).replace("0.5", "0.0"),
        row("r1", 1, "success", usage),
        row("r2", 2, "success", ""),
        row("r0", 0, "failure", ""),
    ];
    let expected = [
        "0 begin s1",
        "0 user machine",
        "0 turn chars=0 tokens=20/18/100/0 $0.50",
        "0 turn chars=0 tokens=120/3/0/0 $0.50 trivial",
        "0 turn chars=0 $0.00",
        "0 end",
    ];
    for text in [format!("[{}]", rows.join(",")), rows.join("\n")] {
        let (kind, steps, unreadable) = one(text);
        assert_eq!((kind, unreadable), (Some("litellm"), Vec::new()));
        assert_eq!(steps, expected);
    }
}
