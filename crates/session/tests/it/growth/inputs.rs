//! Requests and responses of any length, in three protocols.

use softland_session::wire::Api;

/// A request whose history begins with one question; `history` is what follows, each message or
/// item behind a comma, and `more` are further members.
pub(super) fn request(api: Api, streams: bool, history: &str, more: &str) -> Vec<u8> {
    let (model, list) = match api {
        Api::Anthropic => ("claude-sonnet-4-5\",\"max_tokens\":1000,\"x\":\"", "messages"),
        Api::Chat => ("gpt-4.1", "messages"),
        Api::Responses => ("gpt-4.1", "input"),
    };
    let tools = if more.contains("\"tools\":") { String::new() } else { tools(api, 1) };
    format!(
        r#"{{"model":"{model}","stream":{streams}{tools}{more},"{list}":[{{"role":"user","content":"What is where?"}}{history}]}}"#
    )
    .into_bytes()
}

/// So many tools, as members behind others.
pub(super) fn tools(api: Api, n: usize) -> String {
    let schema = r#"{"type":"object","properties":{}}"#;
    let one = |at: usize| match api {
        Api::Anthropic => format!(r#"{{"name":"tool_{at}","input_schema":{schema}}}"#),
        Api::Chat => {
            format!(
                r#"{{"type":"function","function":{{"name":"tool_{at}","parameters":{schema}}}}}"#
            )
        }
        Api::Responses => {
            format!(r#"{{"type":"function","name":"tool_{at}","parameters":{schema}}}"#)
        }
    };
    format!(r#","tools":[{}]"#, (0..n).map(one).collect::<Vec<_>>().join(","))
}

/// A turn of calls by their numbers.
pub(super) fn calls(api: Api, numbers: impl Iterator<Item = usize>) -> String {
    let one = |n: usize| match api {
        Api::Anthropic => {
            format!(r#"{{"type":"tool_use","id":"call_{n}","name":"tool_0","input":{{"n":{n}}}}}"#)
        }
        Api::Chat => format!(
            r#"{{"id":"call_{n}","type":"function","function":{{"name":"tool_0","arguments":"{{\"n\":{n}}}"}}}}"#
        ),
        Api::Responses => format!(
            r#"{{"type":"function_call","call_id":"call_{n}","name":"tool_0","arguments":"{{\"n\":{n}}}"}}"#
        ),
    };
    let calls = numbers.map(one).collect::<Vec<_>>().join(",");
    match api {
        Api::Anthropic => format!(r#",{{"role":"assistant","content":[{calls}]}}"#),
        Api::Chat => format!(r#",{{"role":"assistant","content":null,"tool_calls":[{calls}]}}"#),
        Api::Responses => format!(",{calls}"),
    }
}

/// Their results. In Anthropic's protocol they hold no part yet, so that each line is a new one.
pub(super) fn results(api: Api, numbers: impl Iterator<Item = usize>) -> String {
    let one = |n: usize| match api {
        Api::Anthropic => {
            format!(r#"{{"type":"tool_result","tool_use_id":"call_{n}","content":[]}}"#)
        }
        Api::Chat => format!(r#"{{"role":"tool","tool_call_id":"call_{n}","content":"{n} is"}}"#),
        Api::Responses => {
            format!(r#"{{"type":"function_call_output","call_id":"call_{n}","output":"{n} is"}}"#)
        }
    };
    let results = numbers.map(one).collect::<Vec<_>>().join(",");
    match api {
        Api::Anthropic => format!(r#",{{"role":"user","content":[{results}]}}"#),
        Api::Chat | Api::Responses => format!(",{results}"),
    }
}

/// A message of one text.
pub(super) fn said(role: &str, text: &str) -> String {
    format!(r#",{{"role":"{role}","content":"{text}"}}"#)
}

/// A streamed response of these blocks.
pub(super) fn stream(api: Api, blocks: &[Block]) -> Vec<u8> {
    let mut out = String::from(match api {
        Api::Anthropic => {
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-sonnet-4-5\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n"
        }
        Api::Chat => {
            "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4.1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n"
        }
        Api::Responses => {
            "data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":1,\"status\":\"in_progress\",\"model\":\"gpt-4.1\",\"output\":[]}}\n\n"
        }
    });
    let mut at = At { block: 0, call: 0, sequence: 1 };
    for block in blocks {
        block.stream(api, &mut at, &mut out);
    }
    let calls = at.call > 0;
    out.push_str(&match api {
        Api::Anthropic => {
            let stop = if calls { "tool_use" } else { "end_turn" };
            format!(
                "event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{stop}\"}},\"usage\":{{\"output_tokens\":5}}}}\n\nevent: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
            )
        }
        Api::Chat => {
            let finish = if calls { "tool_calls" } else { "stop" };
            format!(
                "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4.1\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{finish}\"}}]}}\n\ndata: [DONE]\n\n"
            )
        }
        Api::Responses => format!(
            "data: {{\"type\":\"response.completed\",\"sequence_number\":{},\"response\":{{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":1,\"status\":\"completed\",\"model\":\"gpt-4.1\",\"output\":[]}}}}\n\n",
            at.sequence
        ),
    });
    out.into_bytes()
}

/// A block of a response.
#[derive(Clone, Debug)]
pub(super) enum Block {
    /// A text, in pieces.
    Text(Vec<String>),
    /// Thinking, in one piece.
    Thinking(String),
    /// A call, under this id.
    Call(String),
}

/// Where a streamed response stands.
struct At {
    block: usize,
    call: usize,
    sequence: usize,
}

impl Block {
    fn stream(&self, api: Api, at: &mut At, out: &mut String) {
        match api {
            Api::Anthropic => self.anthropic(at.block, out),
            Api::Chat => self.chat(at.call, out),
            Api::Responses => self.responses(at, out),
        }
        at.block += 1;
        at.call += usize::from(matches!(self, Self::Call(_)));
    }

    fn anthropic(&self, at: usize, out: &mut String) {
        let (begins, deltas): (String, Vec<String>) = match self {
            Self::Text(pieces) => (
                r#"{"type":"text","text":""}"#.to_owned(),
                pieces
                    .iter()
                    .map(|text| format!(r#"{{"type":"text_delta","text":"{text}"}}"#))
                    .collect(),
            ),
            Self::Thinking(text) => (
                r#"{"type":"thinking","thinking":"","signature":""}"#.to_owned(),
                vec![
                    format!(r#"{{"type":"thinking_delta","thinking":"{text}"}}"#),
                    r#"{"type":"signature_delta","signature":"c2ln"}"#.to_owned(),
                ],
            ),
            Self::Call(id) => (
                format!(r#"{{"type":"tool_use","id":"{id}","name":"tool_0","input":{{}}}}"#),
                vec![r#"{"type":"input_json_delta","partial_json":"{}"}"#.to_owned()],
            ),
        };
        out.push_str(&format!("event: content_block_start\ndata: {{\"type\":\"content_block_start\",\"index\":{at},\"content_block\":{begins}}}\n\n"));
        for delta in deltas {
            out.push_str(&format!("event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":{at},\"delta\":{delta}}}\n\n"));
        }
        out.push_str(&format!("event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":{at}}}\n\n"));
    }

    fn chat(&self, call: usize, out: &mut String) {
        let deltas: Vec<String> = match self {
            Self::Text(pieces) => {
                pieces.iter().map(|text| format!(r#"{{"content":"{text}"}}"#)).collect()
            }
            Self::Thinking(text) => vec![format!(r#"{{"reasoning_content":"{text}"}}"#)],
            Self::Call(id) => vec![format!(
                r#"{{"tool_calls":[{{"index":{call},"id":"{id}","type":"function","function":{{"name":"tool_0","arguments":"{{}}"}}}}]}}"#
            )],
        };
        for delta in deltas {
            out.push_str(&format!("data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4.1\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"));
        }
    }

    fn responses(&self, at: &mut At, out: &mut String) {
        let block = at.block;
        let mut event = |kind: &str, rest: &str| {
            let sequence = at.sequence;
            out.push_str(&format!("data: {{\"type\":\"response.{kind}\",\"sequence_number\":{sequence},\"output_index\":{block}{rest}}}\n\n"));
            at.sequence += 1;
        };
        let item = |done: bool| match self {
            Self::Text(pieces) => {
                let text = if done { pieces.concat() } else { String::new() };
                let content =
                    format!(r#"[{{"type":"output_text","text":"{text}","annotations":[]}}]"#);
                format!(
                    r#"{{"id":"msg_{block}","type":"message","role":"assistant","status":"completed","content":{content}}}"#
                )
            }
            Self::Thinking(text) => format!(
                r#"{{"id":"rs_{block}","type":"reasoning","summary":[{{"type":"summary_text","text":"{text}"}}]}}"#
            ),
            Self::Call(id) => format!(
                r#"{{"id":"fc_{block}","type":"function_call","status":"completed","call_id":"{id}","name":"tool_0","arguments":"{}"}}"#,
                if done { "{}" } else { "" }
            ),
        };
        event("output_item.added", &format!(r#","item":{}"#, item(false)));
        match self {
            Self::Text(pieces) => {
                for text in pieces {
                    event(
                        "output_text.delta",
                        &format!(r#","item_id":"msg_{block}","content_index":0,"delta":"{text}""#),
                    );
                }
            }
            Self::Call(_) => event(
                "function_call_arguments.delta",
                &format!(r#","item_id":"fc_{block}","delta":"{{}}""#),
            ),
            Self::Thinking(_) => {}
        }
        event("output_item.done", &format!(r#","item":{}"#, item(true)));
    }
}

/// The same response, whole, of calls alone.
pub(super) fn whole(api: Api, n: usize) -> Vec<u8> {
    let turn = calls(api, 0..n);
    let turn = turn.strip_prefix(',').unwrap_or_default();
    match api {
        Api::Anthropic => {
            let content = turn.split_once(r#""content":"#).map_or("[]}", |(_, content)| content);
            format!(r#"{{"id":"msg_1","type":"message","model":"claude-sonnet-4-5","stop_reason":"tool_use","usage":{{"input_tokens":9,"output_tokens":9}},"role":"assistant","content":{content}"#)
        }
        Api::Chat => format!(
            r#"{{"id":"c","object":"chat.completion","created":1,"model":"gpt-4.1","choices":[{{"index":0,"message":{turn},"finish_reason":"tool_calls"}}]}}"#
        ),
        Api::Responses => format!(
            r#"{{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"gpt-4.1","output":[{turn}]}}"#
        ),
    }
    .into_bytes()
}
