//! The bodies of the fuzz targets, run over generated input: `fuzz/` runs the same with libFuzzer.

use proptest::prelude::*;
use softland_wire::Api;

use crate::fuzz_bodies::{anthropic_stream, request_splice, sse};
use crate::support::bytes::{mixed, spoiled};
use crate::support::cases;

const STREAM: &[&str] = &[
    "event: message_start\n",
    "data: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n",
    "data: {\"type\":\"message_start\",\"message\":{\"content\":[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{\"a\":1}}],\"stop_reason\":\"tool_use\"}}\n\n",
    "data: {\"index\":0,\"content_block\":{\"text\":\"\",\"type\":\"text\"},\"type\":\"content_block_start\"}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{},\"caller\":{\"type\":\"direct\"}}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":3,\"content_block\":{\"type\":\"compaction\",\"content\":null}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\\ud83d\\ude00 \\n\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"citations_delta\",\"citation\":{\"a\":[1]}}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"1}\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"sig\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":\"compaction_delta\",\"content\":\"sum\"}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "data: {\"type\":\"content_block_stop\",\ndata: \"index\":1}\n\n",
    "event: ping\ndata: {}\n\n",
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5,\"iterations\":[{\"type\":\"message\"}]}}\n\n",
    "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    ": comment\r\n\r\n",
    "data: \r\r",
    "\u{feff}",
    "data: {\"index\":\"x\"}\n\n",
    // Found by libFuzzer: an invalid index must not become a valid one.
    "data: {\"type\":\"content_block_stop\",\"index\":99999999999}\n\n",
];

const REQUEST: &[&str] = &[
    "{\"role\":\"user\",\"content\":\"hi\"}",
    "{\"content\":[],\"role\":\"user\"}",
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"found\\n\"}]}",
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":[{\"type\":\"text\",\"text\":\"\"},{\"type\":\"image\"}]},{\"type\":\"tool_result\",\"content\":[]}]}",
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\"},{\"content\":null,\"type\":\"tool_result\"},{\"type\":\"text\",\"text\":\" \",\"cache_control\":{}}]}",
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{}},{\"type\":\"new\",\"content\":{}}]}",
    "{\"role\":\"system\",\"content\":\"\"}",
];

const TAIL: &[&str] = &[
    "",
    ",\"max_tokens\":9",
    ",\"max_tokens\":null",
    ",\"tool_choice\":{\"type\":\"any\"}",
    ",\"tool_choice\":\"x\"",
    ",\"tools\":[{\"name\":\"n\"},1]",
    ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1}",
    ",\"max_tokens\":1,\"max_tokens\":2",
    ",\"metadata\":{\"user_id\":\"u\"} ",
    ",\"messages\":[]",
];

fn request() -> impl Strategy<Value = Vec<u8>> {
    (mixed(REQUEST, ","), mixed(TAIL, "")).prop_map(|(messages, tail)| {
        let head = b"{\"model\":\"m\",\"messages\":[".as_slice();
        [head, &messages, b"]", &tail, b"}"].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(4000)))]

    #[test]
    fn any_bytes_are_framed(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        sse::run(&bytes);
    }

    #[test]
    fn any_lines_are_framed(
        choice in any::<u8>(),
        lines in prop::collection::vec(prop::sample::select(vec![
            "data: x", "data", "event: e", ": c", "\r", "\n", "\r\n", "\n\n", "\u{feff}", "é",
        ]), 0..20),
    ) {
        sse::run(&[&[choice], lines.concat().as_bytes()].concat());
    }

    #[test]
    fn any_stream_is_folded(stream in spoiled(mixed(STREAM, ""))) {
        anthropic_stream::run(&stream);
    }

    #[test]
    fn any_request_is_spliced(body in spoiled(request())) {
        request_splice::run(Api::Anthropic, &body);
    }
}
