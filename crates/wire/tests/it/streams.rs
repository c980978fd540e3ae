//! Streams of this repository's own, in every line end, cut everywhere: what holds of the
//! recordings holds without them.

use crate::support;

use crate::support::{assembled, assert_same_everywhere, check_message, read_events};
use proptest::prelude::*;

/// Events as the API sends them: keys in two orders, padding, pings, comments, and what is known
/// to be broken.
const STREAM: &str = r#"event: message_start
data: {"type":"message_start","message":{"model":"claude-x","id":"msg_own_1","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":3,"cache_read_input_tokens":40,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":2},"output_tokens":1}}        }

event: content_block_start
data: {"content_block":{"signature":"","thinking":"","type":"thinking"},"index":0,"type":"content_block_start"}

event: ping
data: {"type": "ping"}

: keep-alive

event: content_block_delta
data: {"delta":{"thinking":"Größe? 東京\n","type":"thinking_delta"},"index":0,"type":"content_block_delta"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln+/=="}      }

event: content_block_stop
data: {"type":"content_block_stop","index":0           }

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Let me \"look\" \ud83d\ude00"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"type":"x","n":[1,{"a":"}"}]}}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

id: 7
event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://example.org"}]}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: content_block_start
data: {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_1","name":"grep","input":{},"caller":{"type":"direct"}}}

event: content_block_delta
data: {"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"pattern\": \"\\u00e9\\n"}}

event: content_block_delta
data: {"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"\", \"limit\": 3}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":4}

event: content_block_start
data: {"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"toolu_2","name":"read","input":{"path":"a"}}}

event: content_block_stop
data: {"type":"content_block_stop","index":5}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null,"stop_details":null},"usage":{"input_tokens":11,"cache_read_input_tokens":0,"output_tokens":77,"iterations":[{"type":"compaction","input_tokens":5,"output_tokens":6,"cache_read_input_tokens":40},{"type":"message","input_tokens":11,"output_tokens":77}]}}

event: message_stop
data: {"type":"message_stop"     }

"#;

#[test]
fn the_stream_decodes_alike_however_it_is_cut() {
    for line_end in ["\n", "\r\n", "\r"] {
        let stream = STREAM.replace('\n', line_end);
        assert_same_everywhere(&format!("{line_end:?}"), stream.as_bytes());
        assert_same_everywhere("with a mark", format!("\u{feff}{stream}").as_bytes());
    }
}

#[test]
fn the_stream_says_what_its_json_says() {
    let expected = read_events(STREAM);
    for line_end in ["\n", "\r\n", "\r"] {
        let finished = assembled(STREAM.replace('\n', line_end).as_bytes());
        check_message("own stream", &finished.message, &expected);
        assert_eq!((finished.restarts, finished.strays), (0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Many cuts at once.
    #[test]
    fn any_chunking_gives_the_same_frames(
        sizes in prop::collection::vec(1_usize..400, 1..40),
        line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
    ) {
        let stream = STREAM.replace('\n', line_end);
        let mut chunks = Vec::new();
        let mut rest = stream.as_bytes();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, after) = rest.split_at((*size).min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        prop_assert_eq!(support::frames(&chunks), support::frames(&[stream.as_bytes()]));
    }
}
