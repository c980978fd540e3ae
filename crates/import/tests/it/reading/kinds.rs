//! A small recording of every kind, and what is read of it.

use super::common::{one, put, told, turns};

fn claude(id: &str, uuid: &str, content: &str, output: u64) -> String {
    format!(
        r#"{{"type":"assistant","uuid":"{uuid}","sessionId":"s1","timestamp":"2026-01-02T03:04:05.678Z","message":{{"id":"{id}","role":"assistant","model":"claude-opus-4-5","content":[{content}],"stop_reason":null,"usage":{{"input_tokens":3,"cache_creation_input_tokens":7,"cache_read_input_tokens":11,"output_tokens":{output}}}}}}}"#
    ) + "\n"
}

fn person(uuid: &str, content: &str, more: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{uuid}","sessionId":"s1"{more},"message":{{"role":"user","content":{content}}}}}"#
    ) + "\n"
}

const CALL: &str = r#"{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}"#;
const OTHER: &str = r#"{"type":"tool_use","id":"t2","name":"Read","input":{"path":"a"}}"#;

fn result(id: &str) -> String {
    format!(r#"[{{"type":"tool_result","tool_use_id":"{id}","content":"fine"}}]"#)
}

#[test]
fn lines_of_one_message_of_claude_code_are_one_turn_with_results_between_them() {
    let text = [
        r#"{"type":"summary","summary":"x","leafUuid":"l"}"#.to_owned() + "\n",
        person("u1", r#""do it""#, ""),
        claude("m1", "a1", r#"{"type":"thinking","thinking":"hm"}"#, 1),
        claude("m1", "a2", CALL, 9),
        person("u2", &result("t1"), ""),
        claude("m1", "a3", OTHER, 2),
        person("u3", &result("t2"), ""),
        person("u4", r#""a note""#, r#","isMeta":true"#),
        person("u5", r#""<command-name>/clear</command-name>""#, ""),
        claude("m2", "a4", r#"{"type":"text","text":"done"}"#, 4),
        claude("m3", "a5", r#"{"type":"text","text":"no"}"#, 4)
            .replace("claude-opus-4-5", "<synthetic>"),
    ]
    .concat();
    let (kind, steps, unreadable) = one(text);
    assert_eq!(kind, Some("claude-code"));
    let expected = [
        "0 begin s1",
        r#"0 user "do it""#,
        r#"0 turn t1:Bash{"command":"ls"} t2:Read{"path":"a"} chars=0 tokens=3/9/11/7"#,
        "0 user t1:ok t2:ok",
        "0 user machine",
        "0 user machine",
        "0 turn chars=4 tokens=3/4/11/7",
        "0 end",
    ];
    assert_eq!(steps, expected);
    assert_eq!(unreadable, [""; 0]);
}

#[test]
fn items_of_the_responses_api_between_two_results_are_one_turn() {
    let items = [
        r#"{"role":"user","content":"look"}"#,
        r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}]}"#,
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Let me."}]}"#,
        r#"{"type":"function_call","call_id":"c1","name":"ls","arguments":"{\"path\":\"a\"}"}"#,
        r#"{"type":"function_call","call_id":"c2","name":"ls","arguments":"{}"}"#,
        r#"{"type":"function_call_output","call_id":"c1","output":"fine"}"#,
        r#"{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"fine"}]}"#,
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}"#,
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"thanks"}]}"#,
    ];
    let steps = [
        r#"0 user "look""#,
        r#"0 turn c1:ls{"path":"a"} c2:ls{} chars=7"#,
        "0 user c1:ok c2:ok",
        "0 turn chars=5",
        r#"0 user "thanks""#,
        "0 end",
    ];
    for text in [format!("[{}]", items.join(",")), items.join("\n")] {
        let (kind, told, unreadable) = one(text);
        assert_eq!((kind, unreadable), (Some("messages"), Vec::new()));
        assert_eq!(told[1..], steps, "{told:?}");
    }
    // A list may begin with any of them.
    let (kind, told, _) = one(format!("[{}]", items[1..].join(",")));
    assert_eq!((kind, turns(&told)), (Some("messages"), 2));
}

#[test]
fn what_a_fork_repeats_is_counted_once_and_agents_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let begun = [
        person("u1", r#""do it""#, ""),
        claude("m1", "a1", CALL, 9),
        person("u2", &result("t1"), ""),
    ]
    .concat();
    let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
    put(folder.path(), "p/0.jsonl", &begun);
    put(folder.path(), "p/1.jsonl", begun.clone() + &claude("m2", "a2", &text("one"), 2));
    put(folder.path(), "p/2.jsonl", begun + &claude("m3", "a3", &text("two"), 2));
    // An agent's own file, and the same within the lines of its parent.
    let agent = claude("m9", "a9", &text("agent"), 3).replace(
        r#""type":"assistant","uuid""#,
        r#""type":"assistant","isSidechain":true,"agentId":"ag","uuid""#,
    );
    put(folder.path(), "p/3/subagents/agent-ag.jsonl", &agent);
    let inner = claude("m9", "a9", &text("agent"), 3);
    let other = claude("m8", "a8", &text("other"), 3);
    let progress = |inner: &str, agent: &str| {
        format!(
            r#"{{"type":"progress","sessionId":"s1","uuid":"p","data":{{"type":"agent_progress","agentId":"{agent}","message":{}}}}}"#,
            inner.trim_end()
        ) + "\n"
    };
    put(folder.path(), "p/3.jsonl", progress(&inner, "ag") + &progress(&other, "else"));
    let read = told(&[folder.path().to_owned()]);
    let steps: Vec<Vec<String>> =
        read.sources.into_iter().map(|source| source.sink.unwrap().0).collect();
    let counts: Vec<_> = steps.iter().map(|steps| turns(steps)).collect();
    assert_eq!(counts, [0, 2, 1, 1, 1], "resumed, 1, 2, agent-ag, 3: {steps:?}");
    assert!(steps[3].contains(&"0 begin s1 agent=ag".to_owned()), "{steps:?}");
    // The turn that counts in the agent's own file is only what the next one would go on from.
    assert!(steps[4].contains(&"1 begin s1 agent=else".to_owned()), "{steps:?}");
}

#[test]
fn a_turn_of_codex_is_a_count_with_a_new_total() {
    let count = |total: u64| {
        format!(
            r#"{{"type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{{"total_tokens":{total}}},"last_token_usage":{{"input_tokens":100,"cached_input_tokens":40,"output_tokens":5}}}}}}}}"#
        )
    };
    let text = [
        r#"{"type":"session_meta","payload":{"id":"c1"}}"#.to_owned(),
        r#"{"type":"turn_context","payload":{"model":"gpt-5.5"}}"#.to_owned(),
        r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]}}"#.to_owned(),
        r#"{"type":"event_msg","payload":{"type":"user_message","message":"go"}}"#.to_owned(),
        r#"{"type":"response_item","payload":{"type":"web_search_call"}}"#.to_owned(),
        r#"{"type":"response_item","payload":{"type":"function_call","call_id":"1","name":"exec_command","arguments":"{\"cmd\":\"ls\"}"}}"#.to_owned(),
        r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"1","output":"Process exited with code 1\n"}}"#.to_owned(),
        count(1),
        count(1),
        r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}}"#.to_owned(),
        count(2),
    ]
    .join("\n");
    let (kind, steps, _) = one(text);
    assert_eq!(kind, Some("codex"));
    let expected = [
        "0 begin c1",
        r#"0 user "go""#,
        r#"0 turn 1:exec_command{"cmd":"ls"} chars=0 tokens=60/5/40/0"#,
        "0 user 1:failed",
        "0 turn chars=4 tokens=60/5/40/0",
        "0 end",
    ];
    assert_eq!(steps, expected);
}

const OPENAI: &str = r#"{"id":"r1","model":"m","messages":[
    {"role":"system","content":"s"},{"role":"user","content":"go"},
    {"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}],"usage":{"prompt_tokens":10,"completion_tokens":2,"cost":0.5}},
    {"role":"tool","tool_call_id":"a","content":"one"},{"role":"tool","tool_call_id":"b","content":"two","is_error":true},
    {"role":"assistant","content":"done","usage":{"input_tokens":9,"output_tokens":3,"input_tokens_details":{"cached_tokens":4}},"stop_reason":"stop"}]}"#;

#[test]
fn message_arrays_are_read_in_every_form() {
    let expected = [
        "0 begin r1",
        r#"0 user "go""#,
        r#"0 turn a:f{"x":1} b:f{} chars=0 tokens=10/2/0/0 $0.50"#,
        "0 user a:ok b:failed",
        "0 turn chars=4 tokens=5/3/4/0",
        "0 end",
    ];
    let (kind, steps, _) = one(OPENAI);
    assert_eq!((kind, steps), (Some("messages"), expected.map(str::to_owned).to_vec()));
    // One object a line, twice.
    let line = OPENAI.replace('\n', "");
    let (_, steps, unreadable) = one(format!("{line}\n{line}\n"));
    assert_eq!((turns(&steps), unreadable.len()), (4, 0), "{steps:?}");
    // An array alone, and a message a line: no id.
    let array = OPENAI.split_once("messages\":").unwrap().1.strip_suffix('}').unwrap();
    let (_, steps, _) = one(array);
    assert_eq!(steps[0], "0 begin -");
    assert_eq!(steps[1..], expected[1..]);
    let lines = r#"{"role":"user","content":"go"}
{"role":"assistant","content":"hi","function_call":{"name":"f","arguments":"{}"}}
{"role":"function","name":"f","content":"r"}
{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"q","name":"g","input":{}}]}
{"role":"user","content":[{"type":"tool_result","tool_use_id":"q","content":[{"type":"text","text":"r"}],"is_error":true}]}
"#;
    let (kind, steps, _) = one(lines);
    let expected = [
        "0 begin -",
        r#"0 user "go""#,
        "0 turn function-1:f{} chars=2",
        "0 user function-1:ok",
        "0 turn q:g{} chars=1",
        "0 user q:failed",
        "0 end",
    ];
    assert_eq!((kind, steps), (Some("messages"), expected.map(str::to_owned).to_vec()));
}

#[test]
fn ids_may_be_numbers() {
    let text = r#"{"id":7,"messages":[{"role":"user","content":"go"},
{"role":"assistant","content":[{"type":"tool_use","id":1,"name":"f","input":{}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":1,"content":"r"}]},
{"role":"assistant","id":2,"content":"","tool_calls":[{"id":3,"function":{"name":"g","arguments":"{}"}}]},
{"role":"tool","tool_call_id":3,"content":"r"}]}"#;
    let (_, steps, unreadable) = one(text);
    let expected = [
        "0 begin 7",
        r#"0 user "go""#,
        "0 turn 1:f{} chars=0",
        "0 user 1:ok",
        "0 turn 3:g{} chars=0",
        "0 user 3:ok",
        "0 end",
    ];
    assert_eq!((steps, unreadable), (expected.map(str::to_owned).to_vec(), Vec::new()));
}

#[test]
fn documents_of_other_programs_are_read() {
    let gemini = r#"{"sessionId":"g","projectHash":"h","messages":[{"type":"user","content":"go"},
        {"type":"gemini","content":"","model":"gemini-2.5-flash","tokens":{"input":10,"output":1,"cached":4,"thoughts":2,"tool":0},
         "toolCalls":[{"id":"w","name":"write_file","args":{"p":1},"status":"success","result":[{"functionResponse":{"response":{"output":"ok"}}}]}]},
        {"type":"info","content":"x"}]}"#;
    let (kind, steps, _) = one(gemini);
    assert_eq!(kind, Some("gemini-cli"));
    assert_eq!(steps[2], r#"0 turn w:write_file{"p":1} chars=0 tokens=6/3/4/0"#);
    let mini = r#"{"info":{"exit_status":"x"},"messages":[{"role":"system","content":"s"},{"role":"user","content":"task"},
        {"role":"assistant","content":"t\n```bash\nls -R\n```","extra":{"response":{"model":"g","usage":{"prompt_tokens":5,"completion_tokens":1,"cost":0.25}}}},
        {"role":"user","content":"<returncode>1</returncode>"},
        {"role":"assistant","content":"none"},{"role":"user","content":"give one command"}],"instance_id":"i1"}"#;
    let (kind, steps, _) = one(mini);
    let expected = [
        "0 begin i1",
        r#"0 user "task""#,
        r#"0 turn call_3:bash{"command":"ls -R"} chars=19 tokens=5/1/0/0 $0.25"#,
        "0 user call_3:failed",
        "0 turn chars=4",
        "0 user machine",
        "0 end",
    ];
    assert_eq!((kind, steps), (Some("mini-swe"), expected.map(str::to_owned).to_vec()));
    let swe = r#"{"environment":"e","trajectory":[{"action":"ls\n","observation":"a","response":"r"},{"action":"","observation":"","response":"end"}],"history":[]}"#;
    let (kind, steps, _) = one(swe);
    assert_eq!((kind, turns(&steps)), (Some("swe-agent"), 2));
    assert_eq!(steps[2], r#"0 turn call_1:bash{"command":"ls"} chars=1"#);
    let copilot = r#"{"type":"session.start","data":{"sessionId":"k","selectedModel":"m"},"id":"1"}
{"type":"user.message","data":{"content":"go"},"id":"2"}
{"type":"assistant.message","data":{"messageId":"m","content":"","toolRequests":[{"toolCallId":"c","name":"bash","arguments":{"command":"ls"}}],"outputTokens":7},"id":"3"}
{"type":"tool.execution_complete","data":{"toolCallId":"c","success":false,"error":{"message":"no"}},"id":"4"}
"#;
    let (kind, steps, _) = one(copilot);
    assert_eq!(kind, Some("copilot-cli"));
    assert_eq!(
        steps[2..4],
        [r#"0 turn c:bash{"command":"ls"} chars=0 tokens=0/7/0/0"#, "0 user c:failed"]
    );
}

#[test]
fn c94_a_chat_of_gemini_cli_is_read_line_by_line_and_each_message_once() {
    let call = r#""toolCalls":[{"id":"w","name":"write_file","args":{"p":1},"status":"success","result":[{"functionResponse":{"response":{"output":"ok"}}}]}]"#;
    let tokens = r#""model":"gemini-2.5-flash","tokens":{"input":10,"output":1,"cached":4,"thoughts":2,"tool":0}"#;
    let first = format!(r#"{{"id":"m2","type":"gemini","content":"",{tokens}}}"#);
    let again = format!(r#"{{"id":"m2","type":"gemini","content":"",{tokens},{call}}}"#);
    let person = |id: &str, text: &str| {
        format!(r#"{{"id":"{id}","type":"user","content":[{{"text":"{text}"}}]}}"#)
    };
    let said = |id: &str| format!(r#"{{"id":"{id}","type":"gemini","content":"done",{tokens}}}"#);
    let head = r#"{"sessionId":"g","projectHash":"h","startTime":"2026-01-06T15:00:00.000Z","kind":"main"}"#;
    let lines = [
        head.to_owned(),
        person("m1", "go"),
        first.clone(),
        r#"{"$set":{"lastUpdated":"2026-01-06T15:00:01.000Z"}}"#.to_owned(),
        again.clone(),
        said("m3"),
        person("m4", "more"),
        said("m5"),
        r#"{"$rewindTo":"m4"}"#.to_owned(),
        // A checkpoint repeats what came before, and may bring something new.
        format!(
            r#"{{"$set":{{"messages":[{},{again},{},{}]}}}}"#,
            person("m1", "go"),
            said("m3"),
            person("m6", "other")
        ),
        said("m7"),
    ];
    let (kind, steps, _) = one(lines.join("\n"));
    let turn = "0 turn chars=4 tokens=6/3/4/0";
    let expected = [
        "0 begin g",
        r#"0 user "go""#,
        r#"0 turn w:write_file{"p":1} chars=0 tokens=6/3/4/0"#,
        "0 user w:ok",
        turn,
        // What the user took back was paid.
        r#"0 user "more""#,
        turn,
        r#"0 user "other""#,
        turn,
        "0 end",
    ];
    assert_eq!((kind, steps), (Some("gemini-cli"), expected.map(str::to_owned).to_vec()));
    // A document of an older version may hold a message twice, too.
    let document = format!(
        r#"{{"sessionId":"g","projectHash":"h","messages":[{},{first},{again},{}]}}"#,
        person("m1", "go"),
        said("m3")
    );
    let (_, steps, _) = one(&document);
    assert_eq!(steps[..5], expected[..5].iter().map(|step| (*step).to_owned()).collect::<Vec<_>>());
}

#[test]
fn the_tables_of_opencode_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "s", r#"[{"id":"s2","project_id":"p","parent_id":"s1","directory":"d"}]"#);
    put(
        folder.path(),
        "m",
        r#"[
{"id":"m1","session_id":"s1","time_created":1,"data":"{\"role\":\"user\"}"},
{"id":"m2","session_id":"s1","time_created":2,"data":"{\"role\":\"assistant\",\"modelID\":\"x\",\"cost\":0.5,\"tokens\":{\"input\":4,\"output\":2,\"reasoning\":1,\"cache\":{\"read\":3,\"write\":0}}}"},
{"id":"m3","session_id":"s2","time_created":3,"data":"{\"role\":\"assistant\",\"agent\":\"explore\"}"}]"#,
    );
    let parts = put(
        folder.path(),
        "p",
        r#"[
{"id":"1","message_id":"m1","session_id":"s1","data":"{\"type\":\"text\",\"text\":\"go\"}"},
{"id":"2","message_id":"m2","session_id":"s1","data":"{\"type\":\"tool\",\"tool\":\"glob\",\"callID\":\"c\",\"state\":{\"status\":\"error\",\"input\":{\"p\":1},\"error\":\"no\"}}"},
{"id":"3","message_id":"m3","session_id":"s2","data":"{\"type\":\"text\",\"text\":\"found\"}"},
{"id":"4","message_id":"none","session_id":"s2","data":"{\"type\":\"text\",\"text\":\"lost\"}"}]"#,
    );
    let read = told(&[folder.path().to_owned()]);
    let expected = [
        "0 begin s1",
        "1 begin s1 agent=explore",
        r#"0 user "go""#,
        r#"0 turn c:glob{"p":1} chars=0 tokens=4/3/3/0 $0.50"#,
        "0 user c:failed",
        "0 end",
        "1 user machine",
        "1 turn chars=5",
        "1 end",
    ];
    let source = read.sources.iter().find(|source| source.path == parts).unwrap();
    assert_eq!(source.sink.as_ref().unwrap().0, expected);
    assert_eq!(read.unreadable.len(), 1, "{:?}", read.unreadable);
}

#[test]
fn event_lines_of_several_runs_are_told_apart_and_a_log_without_contents_is_no_silence() {
    let log = r#"{"v":1,"seq":1,"ts":"2026-01-01T00:00:00.000Z","run":"r1","turn":0,"event":"run_start","agent":null,"model":"m","session":"s"}
{"v":1,"seq":1,"ts":"2026-01-01T00:00:00.000Z","run":"r2","turn":0,"event":"run_start","agent":"w","model":"m"}
{"v":1,"seq":2,"ts":"2026-01-01T00:00:00.000Z","run":"r1","turn":1,"event":"usage","input":5,"output":1,"cache_read":0,"cache_write":0,"cost_usd":0.25}
{"v":1,"seq":2,"ts":"2026-01-01T00:00:00.000Z","run":"r2","turn":1,"event":"tool_start","id":"c","name":"shell"}
{"v":1,"seq":3,"ts":"2026-01-01T00:00:00.000Z","run":"r2","turn":1,"event":"tool_execute","id":"c","name":"shell","input":{"command":"ls"}}
{"v":1,"seq":3,"ts":"2026-01-01T00:00:00.000Z","run":"r1","turn":1,"event":"usage","input":6,"output":1,"cache_read":0,"cache_write":0,"cost_usd":0.25}
{"v":1,"seq":4,"ts":"2026-01-01T00:00:00.000Z","run":"r2","turn":1,"event":"tool_result","id":"c","name":"shell","ok":false,"content":"no"}
{"v":1,"seq":4,"ts":"2026-01-01T00:00:00.000Z","run":"r1","turn":2,"event":"usage","input":7,"output":1,"cache_read":0,"cache_write":0,"cost_usd":null}
{"v":1,"seq":5,"ts":"2026-01-01T00:00:00.000Z","run":"r1","turn":2,"event":"done","outcome":"answered"}
{"v":1,"seq":5,"ts":"2026-01-01T00:00:00.000Z","run":"r2","turn":1,"event":"done","outcome":"landed"}
"#;
    let (kind, steps, _) = one(log);
    assert_eq!(kind, Some("softland"));
    let of = |talk: &str| -> Vec<String> {
        steps.iter().filter(|step| step.starts_with(talk)).cloned().collect()
    };
    let first = [
        "0 begin s run=r1",
        "0 user machine",
        "0 turn chars=0 tokens=11/2/0/0 $0.50",
        "0 turn chars=0 tokens=7/1/0/0",
        "0 ended answered/",
        "0 end",
    ];
    assert_eq!(of("0"), first);
    let second = [
        "1 begin r2 run=r2 agent=w",
        "1 user machine",
        r#"1 turn c:shell{"command":"ls"} chars=0"#,
        "1 user c:failed",
        "1 ended landed/",
        "1 end",
    ];
    assert_eq!(of("1"), second);
}

#[test]
fn a_known_file_without_a_turn_says_so() {
    let codex = r#"{"timestamp":"2025-09-20T10:00:00.000Z","type":"session_meta","payload":{"id":"a"}}
{"timestamp":"2025-09-20T10:00:00.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}}
"#;
    let (kind, _, unreadable) = one(codex);
    assert_eq!(kind, Some("codex"));
    assert_eq!(unreadable, ["read as codex, and no turn of a model was found"]);
    for (text, kind) in [
        (r#"{"messages":[{"role":"user","content":"go"}]}"#, "messages"),
        ("[]", "messages"),
        (
            r#"{"schema_version":"ATIF-v1.6","session_id":"a","agent":{"name":"a"},"steps":[]}"#,
            "atif",
        ),
        (
            r#"{"version":2,"status":"cancelled","eval":{"task":"t","model":"m"},"samples":[]}"#,
            "inspect",
        ),
        (
            r#"{"type":"session","version":3,"id":"a","timestamp":"2025-11-20T10:00:00.000Z","cwd":"/p"}"#,
            "openclaw",
        ),
    ] {
        let (found, _, unreadable) = one(text);
        assert_eq!(found, Some(kind), "{text}: {unreadable:?}");
        assert_eq!(unreadable, [format!("read as {kind}, and no turn of a model was found")]);
    }
}

#[test]
fn c145_a_file_of_claude_code_without_a_turn_is_listed_behind_what_could_not_be_read() {
    let no_turn = "read as claude-code, and no turn of a model was found";
    let asked = person("u1", r#""do it""#, "");
    let synthetic = asked.clone()
        + &claude("m1", "a1", r#"{"type":"text","text":"no"}"#, 4)
            .replace("claude-opus-4-5", "<synthetic>");
    for text in [r#"{"type":"summary","summary":"x","leafUuid":"l"}"#, &asked, &synthetic] {
        let (kind, _, unreadable) = one(text);
        assert_eq!(kind, Some("claude-code"), "{text}");
        assert_eq!(unreadable, [no_turn], "{text}");
    }
    // One turn is enough, also if it counts in another file.
    let session = asked + &claude("m2", "a2", r#"{"type":"text","text":"done"}"#, 4);
    assert_eq!(one(&session).2, Vec::<String>::new());
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("0.jsonl", r#"{"type":"summary","summary":"x","leafUuid":"l"}"#),
        ("1.jsonl", session.as_str()),
        ("2.jsonl", session.as_str()),
        ("3.jsonl", "nothing of ours"),
    ];
    let read = told(&files.map(|(name, text)| put(folder.path(), name, text)));
    let listed = read.unreadable.iter().map(|one| {
        let file = one.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (file, one.reason.as_str())
    });
    let wanted =
        [("3.jsonl".to_owned(), "not a known kind of recording"), ("0.jsonl".to_owned(), no_turn)];
    assert_eq!(listed.collect::<Vec<_>>(), wanted);
}
