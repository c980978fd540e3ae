//! Requests that the client does not see, and what becomes of them when the upstream fails; ends
//! that a clock or a client brings; and what the ledger says of all that.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

mod support;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use softland_gateway::Settings;
use softland_ledger::{Query, Reader, Run, Step};
use softland_session::core::policy::Value as Key;
use softland_session::core::{Outcome, Reason};
use support::client::Client;
use support::reading::{End, read};
use support::script::{INPUT, OUTPUT, Reply, Scripted, calls, nothing, says, whole};
use support::sim::{governed, text};
use support::{Running, response};

/// Dollars of so many tokens of claude-sonnet-4-5.
const INPUT_NANO: u64 = 3_000;
const OUTPUT_NANO: u64 = 15_000;

fn faults() -> Vec<Reply> {
    let body = "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"hidden\"}}";
    vec![
        Reply::Error("500 Internal Server Error", vec![], body),
        Reply::Error("429 Too Many Requests", vec!["retry-after: 7"], body),
        Reply::Error("529 Overloaded", vec![], body),
        Reply::Error("400 Bad Request", vec![], body),
        Reply::Error("302 Found", vec!["location: http://127.0.0.1:1/hidden"], ""),
        Reply::Cut(""),
        Reply::Cut("hidden"),
        Reply::Hangs(""),
        Reply::Hangs("hidden"),
        Reply::Silent,
        Reply::Raw("hidden garbage"),
        Reply::Raw(""),
        Reply::Raw("event: message_start\ndata: {\"hidden\":\n\n"),
        Reply::Raw(
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\
             \"message\":\"hidden\"}}\n\n",
        ),
        Reply::Reset,
    ]
}

fn impatient(url: &str, keys: &[(&str, Key)]) -> Settings {
    let mut settings = governed(url, keys);
    settings.limits.idle = Duration::from_millis(150);
    settings.limits.first_byte = Duration::from_millis(150);
    settings
}

/// A client whose history has one call, made.
fn after_a_call(stream: bool) -> Client {
    let mut client = Client::new(stream);
    client.takes(&[json!({"type": "tool_use", "id": "toolu_before0001", "name": "read_file",
        "input": {"path": "a"}})]);
    client
}

/// The client gets an answer that is valid and softland's, and nothing of what went wrong.
async fn lands_locally(client: &Client, gateway: &Running, what: &str) {
    let message = client.post(gateway).await;
    assert_eq!(message.status(), 200, "{what}: {}", message.text());
    let response = read(&message);
    assert_eq!(response.end, End::Whole, "{what}: {}", message.text());
    assert_eq!(response.stop, "end_turn", "{what}");
    assert!(response.text().contains("softland's"), "{what}: {}", message.text());
    assert!(!message.text().contains("hidden"), "{what}: {}", message.text());
}

#[tokio::test]
async fn a_nudge_that_fails_is_never_seen() {
    for stream in [true, false] {
        for fault in faults() {
            let what = format!("{fault:?}, stream: {stream}");
            let upstream = Scripted::plays(vec![nothing(), fault]).await;
            let gateway = Running::with(impatient(&upstream.url(), &[])).await;
            lands_locally(&after_a_call(stream), &gateway, &what).await;
            assert_eq!(upstream.provider.count(), 2, "{what}");
        }
    }
}

#[tokio::test]
async fn a_tools_refusal_that_fails_is_never_seen() {
    for stream in [true, false] {
        for fault in faults() {
            let what = format!("{fault:?}, stream: {stream}");
            let upstream = Scripted::plays(vec![calls(1), fault]).await;
            let keys = [("tool_limits", text("read_file=1"))];
            let gateway = Running::with(impatient(&upstream.url(), &keys)).await;
            lands_locally(&after_a_call(stream), &gateway, &what).await;
            assert_eq!(upstream.provider.count(), 2, "{what}");
        }
    }
}

#[tokio::test]
async fn rungs_that_fail_are_never_seen() {
    for stream in [true, false] {
        for fault in faults() {
            for before in [vec![calls(1)], vec![calls(1), calls(2)]] {
                let what = format!("{fault:?} behind {}, stream: {stream}", before.len());
                let replies = [before, vec![fault.clone()]].concat();
                let upstream = Scripted::plays(replies).await;
                let keys = [("tool_calls_limit", Key::Int(1))];
                let gateway = Running::with(impatient(&upstream.url(), &keys)).await;
                lands_locally(&after_a_call(stream), &gateway, &what).await;
                // ask, refuse, none.
                assert_eq!(upstream.provider.count(), 3, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn behind_a_rung_that_fails_stands_the_next() {
    for stream in [true, false] {
        for fault in faults() {
            let what = format!("{fault:?}, stream: {stream}");
            let upstream = Scripted::plays(vec![calls(1), fault, says("the answer")]).await;
            let keys = [("tool_calls_limit", Key::Int(1))];
            let gateway = Running::with(impatient(&upstream.url(), &keys)).await;
            let message = after_a_call(stream).post(&gateway).await;
            let response = read(&message);
            assert_eq!((message.status(), &response.end), (200, &End::Whole), "{what}");
            assert_eq!(response.text(), "the answer", "{what}");
            assert!(!message.text().contains("hidden"), "{what}");
            assert_eq!(upstream.asked(2)["tool_choice"]["type"], "none", "{what}");
        }
    }
}

#[tokio::test]
async fn a_stream_says_what_was_done_to_it() {
    let upstream = Scripted::plays(vec![nothing(), says("the answer")]).await;
    let gateway = Running::with(governed(&upstream.url(), &[])).await;
    let message = after_a_call(true).post(&gateway).await;
    assert_eq!(read(&message).comments, ["softland nudge"]);
    assert_eq!(message.header("x-softland-interventions"), None);
    let upstream = Scripted::plays(vec![calls(1)]).await;
    let keys = [("tool_calls_limit", Key::Int(1))];
    let gateway = Running::with(governed(&upstream.url(), &keys)).await;
    let message = after_a_call(true).post(&gateway).await;
    let comments = read(&message).comments;
    assert_eq!(comments.iter().filter(|c| *c == "softland refuse").count(), 1, "{comments:?}");
    assert_eq!(comments.iter().filter(|c| *c == "softland none").count(), 1, "{comments:?}");
    assert_eq!(comments.iter().filter(|c| *c == "softland local_answer").count(), 1);
    assert_eq!(message.header("x-softland-interventions"), Some("ask"));
}

#[tokio::test]
async fn an_error_to_the_clients_own_request_is_the_upstreams() {
    let body = "{\"type\":\"error\" , \"error\":{\"type\":\"odd\",\"message\":\"its own\"}}";
    for status in ["429 Too Many", "500 No", "529 Overloaded", "400 Bad", "401 Who", "413 Large"] {
        for stream in [true, false] {
            let fault = Reply::Error(status, vec!["retry-after: 17", "request-id: r"], body);
            let upstream = Scripted::plays(vec![fault, says("fine")]).await;
            let gateway = Running::with(governed(&upstream.url(), &[])).await;
            let client = Client::new(stream);
            let message = client.post(&gateway).await;
            assert_eq!(message.status().to_string(), status.split_once(' ').unwrap().0);
            assert_eq!(message.text(), body);
            assert_eq!(message.header("retry-after"), Some("17"));
            assert_eq!(message.header("request-id"), Some("r"));
            assert_eq!(gateway.handle.summary().spend.0, 0, "what failed costs nothing");
            let again = read(&client.post(&gateway).await);
            assert_eq!(again.text(), "fine");
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_ends_in_the_protocols_error() {
    for reply in [Reply::Cut(""), Reply::Cut("half of"), Reply::Hangs("half of"), Reply::Raw("")] {
        let upstream = Scripted::plays(vec![reply.clone()]).await;
        let gateway = Running::with(impatient(&upstream.url(), &[])).await;
        let message = Client::new(true).post(&gateway).await;
        let response = read(&message);
        assert!(matches!(response.end, End::Error(_)), "{reply:?}: {}", message.text());
    }
}

#[tokio::test]
async fn a_response_in_another_form_than_asked_for_passes_as_it_is() {
    let blocks = [json!({"type": "text", "text": "hello"})];
    for asked in [true, false] {
        let said = whole(&blocks, "end_turn", !asked);
        let said: &'static str = Box::leak(said.into_boxed_str());
        let upstream = support::Provider::says(said).await;
        let gateway = Running::with(governed(&upstream.url(), &[])).await;
        let message = Client::new(asked).post(&gateway).await;
        assert_eq!(message.status(), 200);
        assert!(said.ends_with(message.text()), "{}", message.text());
    }
    let packed =
        response("200 OK", &["content-type: application/json", "content-encoding: gzip"], "zip");
    let upstream = support::Provider::says(packed).await;
    let gateway = Running::with(governed(&upstream.url(), &[])).await;
    let message = Client::new(false).post(&gateway).await;
    assert_eq!((message.text(), message.header("content-encoding")), ("zip", Some("gzip")));
}

#[tokio::test]
async fn time_lands_a_run_in_the_middle_of_a_stream_and_before() {
    for stream in [true, false] {
        for reply in [Reply::Hangs("half of"), Reply::Hangs(""), Reply::Silent] {
            let what = format!("{reply:?}, stream: {stream}");
            let upstream = Scripted::plays(vec![reply, says("the answer")]).await;
            let keys = [("time_limit", text("600ms")), ("reserve_time", text("300ms"))];
            let gateway = Running::with(governed(&upstream.url(), &keys)).await;
            let message = after_a_call(stream).post(&gateway).await;
            let response = read(&message);
            assert_eq!((message.status(), &response.end), (200, &End::Whole), "{what}");
            assert!(response.text().ends_with("the answer"), "{what}: {}", message.text());
            upstream.until_left(1).await;
        }
        // With nothing that comes in what was held back: softland's own.
        let upstream = Scripted::plays(vec![Reply::Silent]).await;
        let keys = [("time_limit", text("400ms")), ("reserve_time", text("200ms"))];
        let gateway = Running::with(governed(&upstream.url(), &keys)).await;
        lands_locally(&after_a_call(stream), &gateway, "silent for ever").await;
    }
}

struct Kept {
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
}

impl Kept {
    fn new(settings: &mut Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        settings.ledger = Some(path.clone());
        Self { _folder: folder, path }
    }
}

fn ledger(path: &Path) -> Vec<(Run, Vec<Step>)> {
    let reader = Reader::open(path).unwrap();
    let runs = reader.runs(&Query::default()).unwrap();
    let steps = |run: &Run| reader.steps(&run.run).unwrap();
    let mut runs: Vec<_> = runs.into_iter().map(|run| (steps(&run), run)).collect();
    runs.reverse();
    for (steps, run) in &runs {
        let names: Vec<&str> = steps.iter().map(|step| step.event.as_str()).collect();
        assert_eq!(names.first(), Some(&"run_start"), "{names:?}");
        let ends = names.iter().filter(|name| matches!(**name, "done" | "error")).count();
        assert_eq!(ends, usize::from(run.ended.is_some()), "{names:?}");
        if ends == 1 {
            assert!(matches!(names.last(), Some(&"done" | &"error")), "{names:?}");
        }
        let numbers: Vec<u64> = steps.iter().map(|step| step.seq).collect();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    }
    runs.into_iter().map(|(steps, run)| (run, steps)).collect()
}

fn interventions(steps: &[Step]) -> Vec<(String, Value)> {
    let done = steps.iter().filter(|step| step.event == "intervention");
    let fields = done.map(|step| serde_json::from_str::<Value>(&step.fields).unwrap());
    let word = |fields: &Value| fields["intervention"].as_str().unwrap().to_owned();
    fields.map(|fields| (word(&fields), fields["because"].clone())).collect()
}

#[tokio::test]
async fn the_ledger_tells_what_was_done_and_why() {
    for stream in [true, false] {
        let upstream = Scripted::plays(vec![calls(1), calls(2), calls(3), says("all")]).await;
        let mut settings = governed(&upstream.url(), &[("tool_calls_limit", Key::Int(2))]);
        let kept = Kept::new(&mut settings);
        let mut gateway = Running::with(settings).await;
        let mut client = Client::new(stream);
        let (turns, ..) = client.run(&gateway).await;
        gateway.stopped().await;
        let runs = ledger(&kept.path);
        let [(run, steps)] = runs.as_slice() else { panic!("{runs:?}") };
        let end = run.end.as_ref().unwrap();
        assert_eq!((end.outcome, &end.reason), (Outcome::Landed, &Reason::ToolCalls));
        assert_eq!((run.turns, run.tool_calls, run.requests), (u64::from(turns), Some(2), 4));
        assert_eq!(run.unpriced, 0);
        assert_eq!((run.usage.input, run.usage.output), (4 * INPUT, 4 * OUTPUT));
        let cost = 4 * (INPUT * INPUT_NANO + OUTPUT * OUTPUT_NANO);
        assert_eq!(run.cost.map(|cost| cost.0), Some(cost));
        let done = interventions(steps);
        let words: Vec<&str> = done.iter().map(|(word, _)| word.as_str()).collect();
        assert_eq!(words, ["countdown", "ask", "refuse"]);
        assert_eq!(done[1].1["reason"], "tool_calls", "{done:?}");
    }
}

#[tokio::test]
async fn hidden_requests_that_fail_are_in_the_ledger_too() {
    let fault = Reply::Error("529 Overloaded", vec![], "{}");
    let upstream = Scripted::plays(vec![nothing(), fault]).await;
    let mut settings = governed(&upstream.url(), &[]);
    let kept = Kept::new(&mut settings);
    let mut gateway = Running::with(settings).await;
    lands_locally(&after_a_call(true), &gateway, "a nudge").await;
    gateway.stopped().await;
    let runs = ledger(&kept.path);
    let [(run, _)] = runs.as_slice() else { panic!("{runs:?}") };
    assert_eq!((run.requests, run.unpriced, run.local), (2, 0, true));
    let end = run.end.as_ref().unwrap();
    assert_eq!((end.outcome, &end.reason), (Outcome::Stopped, &Reason::Provider));
    assert_eq!(run.cost.map(|cost| cost.0), Some(INPUT * INPUT_NANO + OUTPUT * OUTPUT_NANO));
}

/// Where the client may be when it goes, and what has been spent then.
#[tokio::test]
async fn a_client_that_goes_cancels_its_request_and_is_written_down() {
    let half = "half of what it wants to say";
    // Two behind one another: the second is softland's own.
    let places: [(bool, Vec<Reply>, bool, bool); 6] = [
        (true, vec![Reply::Silent], false, false),
        (false, vec![Reply::Silent], false, false),
        (true, vec![Reply::Hangs("")], true, true),
        (true, vec![Reply::Hangs(half)], true, true),
        (true, vec![nothing(), Reply::Silent], true, true),
        (true, vec![nothing(), Reply::Hangs(half)], true, true),
    ];
    for (stream, replies, reads, counted) in places {
        let what = format!("{replies:?}, stream: {stream}");
        let upstream = Scripted::plays(replies).await;
        let mut settings = governed(&upstream.url(), &[]);
        let kept = Kept::new(&mut settings);
        let mut gateway = Running::with(settings).await;
        let client = after_a_call(stream);
        let mut wire = gateway.client().await;
        wire.send(client.request(&gateway)).await;
        if reads {
            wire.until("message_start").await;
        }
        upstream.stands.notified().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(wire);
        upstream.until_left(1).await;
        gateway.stopped().await;
        let runs = ledger(&kept.path);
        let [(run, _)] = runs.as_slice() else { panic!("{what}: {runs:?}") };
        let end = run.end.as_ref().expect("it has ended");
        assert_eq!((end.outcome, &end.reason), (Outcome::Cancelled, &Reason::User), "{what}");
        assert_eq!(run.usage.input > 0, counted, "{what}");
        let cost = run.cost.expect("a price").0;
        assert!(cost >= if counted { INPUT * INPUT_NANO } else { 1 }, "{what}: {cost}");
        assert_eq!(run.unpriced, 0, "{what}");
    }
}

#[tokio::test]
async fn who_comes_back_goes_on_under_another_name() {
    for stream in [true, false] {
        let upstream = Scripted::plays(vec![Reply::Silent, calls(1), says("all")]).await;
        let mut settings = governed(&upstream.url(), &[("tool_calls_limit", Key::Int(9))]);
        let kept = Kept::new(&mut settings);
        let mut gateway = Running::with(settings).await;
        let mut client = Client::new(stream).with("x-softland-session: s");
        let mut wire = gateway.client().await;
        wire.send(client.request(&gateway)).await;
        upstream.stands.notified().await;
        drop(wire);
        upstream.until_left(1).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        client.run(&gateway).await;
        gateway.stopped().await;
        let runs = ledger(&kept.path);
        let [(first, _), (second, _)] = runs.as_slice() else { panic!("{runs:?}") };
        assert_eq!(first.end.as_ref().map(|end| end.outcome), Some(Outcome::Cancelled));
        assert_eq!(second.end.as_ref().map(|end| end.outcome), Some(Outcome::Answered));
        assert_eq!(second.continues.as_ref(), Some(&first.run), "stream: {stream}");
        assert_eq!(second.tool_calls, Some(1));
    }
}

#[tokio::test]
async fn whoever_only_observes_leaves_every_byte_as_it_is() {
    let odd = ": hello\n\nevent: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\
        \"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"x\",\"usage\":{\"input_tokens\":1,\
        \"output_tokens\":1}}}\n\nevent: odd\ndata: {\"type\": \"odd\"}\n\nevent: content_block_start\n\
        data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
        event: content_block_delta\ndata:{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\
        \"text_delta\",\"text\":\"  \"}}\r\n\r\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\
        \"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\
        \"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n\
        : behind\n\n";
    let half: &str = &odd[..odd.len() / 2];
    let half: &'static str = Box::leak(half.to_owned().into_boxed_str());
    let cases = [odd, half, "garbage\n\n", "", ": only a comment\n\n"];
    for raw in cases {
        let upstream = Scripted::plays(vec![Reply::Raw(raw)]).await;
        let keys = [("mode", text("observe")), ("tool_calls_limit", Key::Int(0))];
        let gateway = Running::with(governed(&upstream.url(), &keys)).await;
        let client = after_a_call(true);
        let message = client.post(&gateway).await;
        assert_eq!(message.text(), raw);
        assert_eq!(upstream.asked(0), client.body);
    }
    // And governed, the same is at least of the protocol.
    let upstream = Scripted::plays(vec![Reply::Raw(odd), says("the answer")]).await;
    let gateway = Running::with(governed(&upstream.url(), &[])).await;
    let message = after_a_call(true).post(&gateway).await;
    assert!(message.text().contains("event: odd"), "{}", message.text());
}
