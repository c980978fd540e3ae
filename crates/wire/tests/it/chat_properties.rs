//! Properties of the Chat Completions codec over generated input.

#![expect(clippy::unwrap_used, reason = "in a test, a failed step is a failed test")]

use proptest::prelude::*;
use serde_json::{Value, json};
use softland_wire::chat::{
    Assembler, Call, CallKind, Event, Finish, Finished, StreamEnd,
    respond::{self, Head},
};
use softland_wire::{Api, sse::Decoder};

use crate::fuzz_bodies::{chat_stream, request_splice};
use crate::support::bytes::{mixed, spoiled};
use crate::support::cases;

const STREAM: &[&str] = &[
    "data: {\"id\":\"c\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"choices\":[],\"id\":\"\",\"prompt_filter_results\":[]}\n\n",
    "data: {\"id\":\"d\",\"choices\":[{\"delta\":{\"content\":\"\\ud83d\\ude00 \\n\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\",\"text\":\"h\"}]},{\"type\":\"text\",\"text\":\"t\"},{\"x\":1}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"refusal\":\"no\",\"annotations\":[1]},\"index\":1}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"\",\"reasoning\":\"r\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"a\",\"index\":0},{\"index\":0}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":null,\"signature\":\"s\",\"index\":0},{\"data\":\"d\"},{\"summary\":\"u\"}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"a\\\":\"}},{\"index\":1}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"1}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"b\",\"function\":{\"name\":\"g\",\"arguments\":{\"x\":1}}},{\"id\":\"b\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"},\"extra_content\":{}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"custom\":{\"name\":\"c\",\"input\":\"\\\"\"},\"index\":1,\"id\":\"\"},{\"function\":{\"name\":\"c\"}},{}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"function_call\":{\"name\":\"old\",\"arguments\":\"{\"}}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\",\"native_finish_reason\":\"x\"}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":null},\"finish_reason\":\"tool_calls\",\"usage\":{\"prompt_tokens\":1}}]}\n\n",
    "data: {\"id\":\"c\",\ndata: \"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,\"total_tokens\":9,\"cost\":1e-7,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n",
    "data: {\"x_groq\":{\"usage\":{\"prompt_tokens\":2}},\"choices\":[{}]}\n\n",
    "event: error\ndata: {\"error\":{\"message\":\"m\",\"code\":\"tool_use_failed\",\"status_code\":400}}\n\n",
    "data: {\"error\":{\"code\":502,\"message\":\"m\",\"metadata\":{\"raw\":\"r\"}},\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n",
    "data: [DONE]\n\n",
    ": OPENROUTER PROCESSING\n\n",
    "\u{feff}",
    "data: \r\r",
];

const MESSAGES: &[&str] = &[
    r#"{"role":"user","content":"hi"}"#,
    r#"{"content":[],"role":"user","name":"n"}"#,
    r#"{"role":"system","content":[{"type":"text","text":"t","cache_control":{}}]}"#,
    r#"{"role":"user","content":[{"type":"text","text":""},{"type":"image_url"},4]}"#,
    r#"{"role":"assistant","content":null,"reasoning_content":"x","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}"#,
    r#"{"reasoning":"r" , "reasoning_details":[{}],"role":"assistant"}"#,
    r#"{"role":"assistant","function_call":{"name":"f"},"content":"","reasoning_content":""}"#,
    r#"{"role":"tool","tool_call_id":"a","content":"r\n"}"#,
    r#"{"role":"tool","content":[{"type":"text","text":"\\"},{"type":"file"}],"cache_control":{}}"#,
    r#"{"role":"tool","content":null}"#,
    r#"{"role":"function","name":"f"}"#,
    r#"{"role":"other","content":""}"#,
];

const TAIL: &[&str] = &[
    "",
    r#","max_tokens":9"#,
    r#","max_completion_tokens":9"#,
    r#","max_tokens":null"#,
    r#","max_tokens":1,"max_tokens":2"#,
    r#","tool_choice":"auto""#,
    r#","tool_choice":{"type":"function","function":{"name":"f"}}"#,
    r#","tool_choice":null"#,
    r#","tools":[{"type":"function","function":{"name":"f"}},1]"#,
    r#","stream_options":{}"#,
    r#","stream_options":{"include_usage":false,"x":1}"#,
    r#","stream_options":{"include_usage":null}"#,
    r#","stream_options":null"#,
    r#","reasoning":{"effort":"high"},"thinking":{"type":"disabled"}"#,
    r#","parallel_tool_calls":false,"n":2,"user":"u" "#,
    r#","messages":[]"#,
];

fn request() -> impl Strategy<Value = Vec<u8>> {
    (mixed(MESSAGES, ","), mixed(TAIL, "")).prop_map(|(messages, tail)| {
        let head = br#"{"model":"m","messages":["#.as_slice();
        [head, &messages, b"]", &tail, b"}"].concat()
    })
}

/// Whole responses: the chunks of a stream with `message` for `delta`.
fn response() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(STREAM).prop_map(|frame| {
        let data = frame.rsplit("data: ").next().unwrap_or(frame);
        data.trim().replace("\"delta\"", "\"message\"").into_bytes()
    })
}

fn folded(stream: &[u8]) -> Finished {
    let mut decoder = Decoder::new(1 << 20);
    decoder.push(stream);
    decoder.finish();
    let mut assembler = Assembler::new(1 << 20);
    while let Some(frame) = decoder.next() {
        let frame = frame.unwrap();
        assembler.push(&Event::from_data(frame.event, &frame.data).unwrap()).unwrap();
    }
    assembler.finish()
}

/// The way in which a vendor numbers and names the pieces of its calls.
#[derive(Clone, Copy, Debug)]
struct Dialect {
    first_index: Option<u32>,
    /// Every call under the first index.
    one_index: bool,
    /// Id and name on every piece.
    repeats: bool,
    /// All in one piece.
    whole: bool,
}

fn dialect() -> impl Strategy<Value = Dialect> {
    (prop::option::of(0..3_u32), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(first_index, one_index, repeats, whole)| Dialect {
            first_index,
            one_index,
            repeats,
            whole,
        },
    )
}

/// The stream in which a vendor of the dialect sends the calls, one after the other.
fn calls_stream(calls: &[(String, Value)], dialect: Dialect, cuts: &[usize]) -> String {
    let mut out = String::new();
    for (at, (name, input)) in calls.iter().enumerate() {
        let text = input.to_string();
        let mut rest = text.as_str();
        let mut first = true;
        while first || !rest.is_empty() {
            let size = if dialect.whole { rest.len() } else { cuts[rest.len() % cuts.len()] };
            let (piece, after) = rest.split_at(rest.floor_char_boundary(size).min(rest.len()));
            rest = after;
            let mut call = json!({"function": {"arguments": piece}});
            if let Some(index) = dialect.first_index {
                call["index"] = json!(index as usize + if dialect.one_index { 0 } else { at });
            }
            if first || dialect.repeats {
                call["id"] = json!(format!("call_{at}"));
                call["function"]["name"] = json!(name);
            }
            first = false;
            let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
            out.push_str(&format!("data: {chunk}\n\n"));
        }
    }
    out + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(3000)))]

    #[test]
    fn any_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        chat_stream::run(&bytes);
        request_splice::run(Api::Chat, &bytes);
    }

    #[test]
    fn any_stream_is_folded(stream in spoiled(mixed(STREAM, ""))) {
        chat_stream::run(&stream);
    }

    #[test]
    fn any_response_is_read(body in spoiled(response())) {
        chat_stream::run(&body);
    }

    #[test]
    fn any_request_is_edited(body in spoiled(request())) {
        request_splice::run(Api::Chat, &body);
    }

    /// Calls are kept apart in every dialect.
    #[test]
    fn calls_are_told_apart_in_every_dialect(
        calls in prop::collection::vec(("[a-c]", prop::collection::btree_map("[a-z}{\"\u{e9}]{0,3}", "[a-z}{\" \u{1F600}]{0,8}", 0..3)), 0..4),
        dialect in dialect(),
        cuts in prop::collection::vec(4..9_usize, 1..4),
    ) {
        let calls: Vec<(String, Value)> =
            calls.into_iter().map(|(name, input)| (name, json!(input))).collect();
        let stream = calls_stream(&calls, dialect, &cuts);
        let finished = folded(stream.as_bytes());
        prop_assert_eq!(finished.strays, 0);
        prop_assert_eq!(finished.message.calls.len(), calls.len(), "{}", stream);
        for (at, (call, (name, input))) in finished.message.calls.iter().zip(&calls).enumerate() {
            prop_assert!(call.complete);
            prop_assert_eq!(&call.id, &format!("call_{at}"));
            prop_assert_eq!(&call.name, name);
            prop_assert_eq!(&call.arguments, &input.to_string());
        }
    }

    /// A stream that softland writes reads as it was written, for any text in any pieces.
    #[test]
    fn what_is_written_is_read(
        texts in prop::collection::vec(any::<String>(), 0..5),
        refusal in any::<String>(),
        reasoning in any::<String>(),
        calls in prop::collection::vec((any::<String>(), any::<String>(), any::<bool>()), 0..3),
        id in ".{1,5}",
    ) {
        let head = Head { id: &id, created: 3, model: "m" };
        let mut out = Vec::new();
        respond::write_role(&mut out, head);
        for text in &texts {
            respond::write_text(&mut out, head, text);
        }
        respond::write_refusal(&mut out, head, &refusal);
        respond::write_reasoning(&mut out, head, "reasoning", &reasoning);
        for (at, (name, arguments, custom)) in (0_u32..).zip(&calls) {
            let kind = if *custom { CallKind::Custom } else { CallKind::Function };
            let call = Call {
                id: format!("c{at}"),
                name: name.clone(),
                arguments: arguments.clone(),
                kind,
                ..Call::default()
            };
            respond::write_call(&mut out, head, at, &call);
        }
        respond::write_finish(&mut out, head, &Finish::Stop);
        respond::write_done(&mut out);
        let Finished { message, end, strays, .. } = folded(&out);
        prop_assert_eq!((end, strays, &message.id), (StreamEnd::Stop, 0, &id));
        prop_assert_eq!(message.text, texts.concat());
        prop_assert_eq!(message.refusal.unwrap_or_default(), refusal);
        prop_assert_eq!(message.reasoning, reasoning);
        prop_assert_eq!(message.calls.len(), calls.len());
        for (call, (name, arguments, custom)) in message.calls.iter().zip(&calls) {
            prop_assert_eq!(&call.name, name);
            let blank = !custom && arguments.trim().is_empty();
            prop_assert_eq!(&call.arguments, if blank { "{}" } else { arguments });
        }
    }
}
