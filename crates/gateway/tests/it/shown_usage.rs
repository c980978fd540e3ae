//! The usage that clients read of an answer that is softland's: the context size as the newest
//! request had it, the output that they got, and the requests behind it among the iterations.

#![expect(clippy::panic, reason = "in test helpers to panic is to fail the test")]

use crate::support::Running;
use crate::support::client::{Client, all};
use crate::support::reading::read;
use crate::support::script::{INPUT, OUTPUT, Reply, Scripted, calls, nothing};
use crate::support::sim::governed;
use serde_json::{Value, json};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

/// Input and output as this protocol calls them.
fn told(api: Api, usage: &Value) -> [u64; 2] {
    let names = match api {
        Api::Chat => ["prompt_tokens", "completion_tokens"],
        Api::Anthropic | Api::Responses => ["input_tokens", "output_tokens"],
    };
    names.map(|name| usage[name].as_u64().unwrap_or_else(|| panic!("{name}: {usage}")))
}

/// Input and output of each request behind an answer of Anthropic's protocol.
fn iterations(usage: &Value) -> Vec<[u64; 2]> {
    let list = usage["iterations"].as_array().map_or(&[][..], Vec::as_slice);
    list.iter().map(|one| told(Api::Anthropic, one)).collect()
}

/// Returns the answer at a limit of calls, for a client whose history has one call.
async fn answered(api: Api, stream: bool, limit: i128, replies: Vec<Reply>) -> Value {
    let upstream = Scripted::plays(replies).await;
    let keys = [("tool_calls_limit", Key::Int(limit))];
    let gateway = Running::with(governed(&upstream.url(), &keys)).await;
    let mut client = Client::on(api, stream).told_usage();
    client.takes(&[json!({"type": "tool_use", "id": "toolu_before0001", "name": "read_file",
        "input": {"path": "a"}})]);
    let response = read(&client.post(&gateway).await);
    assert!(response.text().contains("softland's"), "{api:?}: {}", response.text());
    response.usage
}

#[tokio::test]
async fn a_local_answer_behind_answers_that_were_hidden_tells_of_the_last() {
    for (api, stream) in all() {
        for (limit, replies) in [(1, vec![calls(1)]), (9, vec![nothing()])] {
            let usage = answered(api, stream, limit, replies).await;
            let what = format!("{api:?}, stream: {stream}, limit {limit}: {usage}");
            assert_eq!(told(api, &usage), [INPUT, 0], "{what}");
            if api == Api::Anthropic {
                assert_eq!(iterations(&usage), [[INPUT, OUTPUT]; 3], "{what}");
            }
        }
    }
}

#[tokio::test]
async fn a_local_answer_behind_streams_that_were_cut_tells_of_what_they_said() {
    for (words, output) in [("", 1), ("What stands in the notes", 6)] {
        let replies = vec![Reply::Cut(words)];
        let usage = answered(Api::Anthropic, true, 1, replies).await;
        assert_eq!(told(Api::Anthropic, &usage), [INPUT, output], "{usage}");
        assert_eq!(iterations(&usage), [[INPUT, output]; 2], "{usage}");
    }
    // Behind an answer, on protocols whose streams say nothing of their input before their end.
    for (api, stream) in all() {
        let usage = answered(api, stream, 1, vec![calls(1), Reply::Cut("")]).await;
        assert_eq!(told(api, &usage)[0], INPUT, "{api:?}, stream: {stream}: {usage}");
    }
}
