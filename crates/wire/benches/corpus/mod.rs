//! The fixed corpora of the benchmarks: made here, from a seed, in the shape of real traffic.

#![allow(dead_code, clippy::allow_attributes, reason = "each benchmark uses its part")]

use std::fmt::Write;

/// A small generator, so that the corpus is the same everywhere.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % below
    }

    fn words(&mut self, count: usize) -> String {
        const WORDS: &[&str] = &[
            "the",
            "harbour",
            "notes",
            "of",
            "June",
            "list",
            "three",
            "arrivals,",
            "and",
            "no",
            "departure.\n",
            "\"quoted\"",
            "fn main() {",
            "}",
            "Größe",
            "é",
            "東京",
            "a",
            "search",
        ];
        (0..count).map(|_| WORDS[self.next(WORDS.len())]).collect::<Vec<_>>().join(" ")
    }
}

fn string(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// About 1 MB of response streams: thinking, text, a call with its input, pings, padding.
pub(crate) fn stream() -> String {
    let mut seeded = Seeded(42);
    let mut out = String::new();
    while out.len() < 1_000_000 {
        response(&mut out, &mut seeded);
    }
    out
}

fn response(out: &mut String, seeded: &mut Seeded) {
    event(
        out,
        seeded,
        "message_start",
        r#"{"type":"message_start","message":{"model":"claude-sonnet-4-5","id":"msg_0123456789abcdef","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":671,"cache_creation_input_tokens":0,"cache_read_input_tokens":5231,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":8,"service_tier":"standard"}}}"#,
    );
    let kinds = [
        (r#"{"type":"thinking","thinking":"","signature":""}"#, "thinking_delta", "thinking", 60),
        (r#"{"type":"text","text":""}"#, "text_delta", "text", 120),
        (
            r#"{"type":"tool_use","id":"toolu_0123456789","name":"grep","input":{}}"#,
            "input_json_delta",
            "partial_json",
            40,
        ),
    ];
    for (index, (block, delta, field, count)) in kinds.iter().enumerate() {
        event(
            out,
            seeded,
            "content_block_start",
            &format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#),
        );
        event(out, seeded, "ping", r#"{"type": "ping"}"#);
        for _ in 0..*count {
            let words = 2 + seeded.next(8);
            let text = string(&seeded.words(words));
            event(
                out,
                seeded,
                "content_block_delta",
                &format!(
                    r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{delta}","{field}":{text}}}}}"#
                ),
            );
        }
        event(
            out,
            seeded,
            "content_block_stop",
            &format!(r#"{{"type":"content_block_stop","index":{index}}}"#),
        );
    }
    event(
        out,
        seeded,
        "message_delta",
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":671,"cache_creation_input_tokens":0,"cache_read_input_tokens":5231,"output_tokens":300}}"#,
    );
    event(out, seeded, "message_stop", r#"{"type":"message_stop"}"#);
}

fn event(out: &mut String, seeded: &mut Seeded, name: &str, data: &str) {
    let (body, last) = data.split_at(data.len() - 1);
    let padding = " ".repeat(seeded.next(14));
    write!(out, "event: {name}\ndata: {body}{padding}{last}\n\n").unwrap();
}

/// A request of `turns` turns, two messages each, with results of about 2.3 KB.
pub(crate) fn history(turns: usize) -> Vec<u8> {
    let mut seeded = Seeded(7);
    let mut out = String::from(
        r#"{"model":"claude-sonnet-4-5","max_tokens":8192,"stream":true,"system":"You search notes.","tools":[{"name":"grep","description":"Search.","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"What changed in June?"}"#,
    );
    for turn in 0..turns {
        let said = string(&seeded.words(12));
        let found = string(&seeded.words(330));
        write!(out, r#",{{"role":"assistant","content":[{{"type":"text","text":{said}}},{{"type":"tool_use","id":"toolu_{turn:06}","name":"grep","input":{{"pattern":"June","path":"notes/{turn}"}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_{turn:06}","content":{found}}}]}}"#).unwrap();
    }
    out.push_str("]}");
    out.into_bytes()
}
