//! Beginnings as providers send them besides the usual one: with whole blocks in them, twice, with
//! numbers left out. They pass as they are, and what they hold is counted and limited all the same.

#![expect(clippy::unwrap_used, reason = "in a test, a failed step is a failed test")]

use crate::common::reading;

use softland_core::Role;
use softland_core::policy::Policy;
use softland_session::wire::Api;
use softland_session::{Context, Done, Exchange, Output, Step};

/// What a client gets of a stream, and what became of it; `None` where more is asked upstream.
fn relayed(api: Api, limit: u64, body: &str, stream: &str, piece: usize) -> (String, Option<Done>) {
    let policy = Policy { tool_calls_limit: Some(limit), ..Policy::default() };
    let mut context = Context::new(Role::Gateway, policy, None, "any");
    context.api = api;
    let mut out = Output::default();
    let mut exchange = Exchange::from_request(body.as_bytes().to_vec(), context, &mut out).unwrap();
    assert!(matches!(exchange.next_step().unwrap(), Step::Send(_)));
    for bytes in stream.as_bytes().chunks(piece) {
        exchange.push_bytes(bytes, &mut out).unwrap();
    }
    exchange.finish_response(&mut out).unwrap();
    let done = exchange.is_done().then(|| match exchange.next_step().unwrap() {
        Step::Done(done) => *done,
        Step::Send(_) => unreachable!("it is done"),
    });
    (String::from_utf8(out.bytes).unwrap(), done)
}

const ASKED: &str = r#"{"model":"claude-sonnet-4-5","max_tokens":100,"stream":true,"tools":[{"name":"roll","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"go"}]}"#;

/// A message whose beginning holds these blocks.
fn head_with(blocks: &str) -> String {
    format!(
        "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"id\":\"msg_1\",\
         \"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-sonnet-4-5\",\
         \"content\":[{blocks}],\"stop_reason\":\"tool_use\",\"stop_sequence\":null,\
         \"usage\":{{\"input_tokens\":3,\"output_tokens\":5}}}}}}\n\n\
         event: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
    )
}

fn call(n: u32) -> String {
    format!(
        "{{\"type\":\"tool_use\",\"id\":\"toolu_{n}\",\"name\":\"roll\",\"input\":{{\"n\":{n}}},\
         \"caller\":{{\"type\":\"code_execution_20250825\",\"tool_id\":\"srvtoolu_1\"}}}}"
    )
}

/// The continuation of a programmatic call is a beginning that holds the next one (recorded).
#[test]
fn calls_in_a_beginning_pass_once() {
    for blocks in [call(1), [call(1), call(2)].join(",")] {
        let stream = head_with(&blocks);
        for piece in [1, 9, 4096] {
            let (got, done) = relayed(Api::Anthropic, 9, ASKED, &stream, piece);
            assert_eq!(got, stream);
            let done = done.unwrap();
            assert_eq!(done.calls.len(), blocks.matches("tool_use").count());
            assert!(done.ended.is_none());
        }
    }
}

/// What the limit does not leave is taken out of the beginning.
#[test]
fn calls_in_a_beginning_are_limited() {
    let stream = head_with(&[call(1), call(2), call(3)].join(","));
    for piece in [1, 9, 4096] {
        let (got, done) = relayed(Api::Anthropic, 2, ASKED, &stream, piece);
        let read = reading::read(got.as_bytes(), true);
        assert!(read.whole, "{got}");
        assert_eq!(read.stop, "tool_use");
        let ids: Vec<&str> = read.calls.iter().map(|(id, ..)| id.as_str()).collect();
        assert_eq!(ids, ["toolu_1", "toolu_2"], "{got}");
        assert_eq!(read.content[0]["caller"]["type"], "code_execution_20250825", "{got}");
        assert!(done.unwrap().ended.is_none());
    }
}

/// Text in a beginning is an answer.
#[test]
fn a_text_in_a_beginning_passes() {
    let stream = head_with(r#"{"type":"text","text":"Here."}"#).replace("tool_use", "end_turn");
    let (got, done) = relayed(Api::Anthropic, 2, ASKED, &stream, 7);
    assert_eq!(got, stream);
    assert_eq!(done.unwrap().answer.as_deref(), Some("Here."));
}

/// A chunk may hold the end of the thinking and the beginning of the text, and members of a
/// vendor's own beside them.
#[test]
fn a_chunk_of_several_parts_stays_whole() {
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"gen-1\",\"provider\":\"Google\",\"model\":\"m\",\"created\":1,\
             \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish},\
             \"native_finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let details = r#"[{"type":"reasoning.text","text":"Hm","index":0}]"#;
    let deltas = [
        format!(r#"{{"role":"assistant","content":"","reasoning_details":{details}}}"#),
        format!(r#"{{"content":"2 ","reasoning":"Hm","reasoning_details":{details}}}"#),
        r#"{"content":"+ 2","reasoning":null,"reasoning_details":[]}"#.to_owned(),
        r#"{"content":" = 4","reasoning_content":""}"#.to_owned(),
    ];
    let mut stream: String = deltas.iter().map(|delta| chunk(delta, "null")).collect();
    stream.push_str(&chunk("{}", "\"stop\""));
    stream.push_str("data: [DONE]\n\n");
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}]}"#;
    for piece in [1, 9, 4096] {
        let (got, done) = relayed(Api::Chat, 2, body, &stream, piece);
        assert_eq!(got, stream);
        assert_eq!(done.unwrap().answer.as_deref(), Some("2 + 2 = 4"));
    }
    // The first text of all may be in a chunk that thinks.
    let stream = stream.split_once("\n\n").unwrap().1;
    let (got, _) = relayed(Api::Chat, 2, body, stream, 9);
    assert_eq!(got, stream);
}
