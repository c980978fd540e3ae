//! Requests that the client does not see, and what becomes of them when the upstream fails; ends
//! that a clock or a client brings; and what the ledger says of all that, in each protocol.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use crate::support;

use std::path::Path;
use std::time::Duration;

use crate::support::client::{APIS, Client, all};
use crate::support::reading::{End, read};
use crate::support::script::{
    Form, INPUT, OUTPUT, Reply, Scripted, beginning, calls, nothing, prices, says, whole,
};
use crate::support::sim::{governed, text};
use crate::support::{Running, response};
use serde_json::{Value, json};
use softland_gateway::Settings;
use softland_ledger::{Query, Reader, Run, Step};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::core::{Outcome, Reason};
use softland_session::wire::Api;

/// Nano-dollars of so many requests that were answered whole.
fn cost(api: Api, requests: u64) -> u64 {
    let [input, output] = prices(api);
    requests * (INPUT * input + OUTPUT * output)
}

/// An event that is cut, and the protocol's error.
fn raws(api: Api) -> [&'static str; 2] {
    match api {
        Api::Anthropic => [
            "event: message_start\ndata: {\"hidden\":\n\n",
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\
             \"message\":\"hidden\"}}\n\n",
        ],
        Api::Chat => [
            "data: {\"id\":\"hidden\",\n\n",
            "data: {\"error\":{\"message\":\"hidden\",\"type\":\"server_error\",\"code\":null}}\n\n",
        ],
        Api::Responses => [
            "event: response.created\ndata: {\"hidden\":\n\n",
            "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\
             \"code\":\"server_error\",\"message\":\"hidden\",\"param\":null}\n\n",
        ],
    }
}

fn faults(api: Api) -> Vec<Reply> {
    let [half, error] = raws(api);
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
        Reply::Raw(half),
        Reply::Raw(error),
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
fn after_a_call(api: Api, stream: bool) -> Client {
    let mut client = Client::on(api, stream).told_usage();
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
    assert!(response.is_natural(), "{what}: {}", response.stop);
    assert!(response.text().contains("softland's"), "{what}: {}", message.text());
    assert!(!message.text().contains("hidden"), "{what}: {}", message.text());
}

#[tokio::test]
async fn a_nudge_that_fails_is_never_seen() {
    for (api, stream) in all() {
        for fault in faults(api) {
            let what = format!("{fault:?}, stream: {stream}, {api:?}");
            let upstream = Scripted::plays(vec![nothing(), fault]).await;
            let gateway = Running::with(impatient(&upstream.url(), &[])).await;
            lands_locally(&after_a_call(api, stream), &gateway, &what).await;
            assert_eq!(upstream.provider.count(), 2, "{what}");
        }
    }
}

#[tokio::test]
async fn a_tools_refusal_that_fails_is_never_seen() {
    for (api, stream) in all() {
        for fault in faults(api) {
            let what = format!("{fault:?}, stream: {stream}, {api:?}");
            let upstream = Scripted::plays(vec![calls(1), fault]).await;
            let keys = [("tool_limits", text("read_file=1"))];
            let gateway = Running::with(impatient(&upstream.url(), &keys)).await;
            lands_locally(&after_a_call(api, stream), &gateway, &what).await;
            assert_eq!(upstream.provider.count(), 2, "{what}");
        }
    }
}

#[tokio::test]
async fn rungs_that_fail_are_never_seen() {
    for (api, stream) in all() {
        for fault in faults(api) {
            for before in [vec![calls(1)], vec![calls(1), calls(2)]] {
                let what = format!("{fault:?} behind {}, stream: {stream}", before.len());
                let replies = [before, vec![fault.clone()]].concat();
                let upstream = Scripted::plays(replies).await;
                let keys = [("tool_calls_limit", Key::Int(1))];
                let gateway = Running::with(impatient(&upstream.url(), &keys)).await;
                lands_locally(&after_a_call(api, stream), &gateway, &what).await;
                // ask, refuse, none.
                assert_eq!(upstream.provider.count(), 3, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn behind_a_rung_that_fails_stands_the_next() {
    for (api, stream) in all() {
        for fault in faults(api) {
            let what = format!("{fault:?}, stream: {stream}, {api:?}");
            let upstream = Scripted::plays(vec![calls(1), fault, says("the answer")]).await;
            let keys = [("tool_calls_limit", Key::Int(1))];
            let gateway = Running::with(impatient(&upstream.url(), &keys)).await;
            let message = after_a_call(api, stream).post(&gateway).await;
            let response = read(&message);
            assert_eq!((message.status(), &response.end), (200, &End::Whole), "{what}");
            assert_eq!(response.text(), "the answer", "{what}");
            assert!(!message.text().contains("hidden"), "{what}");
            let none = if api == Api::Anthropic { json!({"type": "none"}) } else { json!("none") };
            assert_eq!(upstream.asked(2)["tool_choice"], none, "{what}");
        }
    }
}

#[tokio::test]
async fn a_stream_says_what_was_done_to_it() {
    for api in APIS {
        let upstream = Scripted::plays(vec![nothing(), says("the answer")]).await;
        let gateway = Running::with(governed(&upstream.url(), &[])).await;
        let message = after_a_call(api, true).post(&gateway).await;
        let end = r#"softland {"outcome":"answered","reason":"final","cost_usd":"#;
        let comments = read(&message).comments;
        assert_eq!(comments[0], "softland nudge");
        assert!(comments.len() == 2 && comments[1].starts_with(end), "{comments:?}");
        assert_eq!(message.header("x-softland-interventions"), None);
        let upstream = Scripted::plays(vec![calls(1)]).await;
        let keys = [("tool_calls_limit", Key::Int(1))];
        let gateway = Running::with(governed(&upstream.url(), &keys)).await;
        let message = after_a_call(api, true).post(&gateway).await;
        let comments = read(&message).comments;
        assert_eq!(comments.iter().filter(|c| *c == "softland refuse").count(), 1, "{comments:?}");
        assert_eq!(comments.iter().filter(|c| *c == "softland none").count(), 1, "{comments:?}");
        assert_eq!(comments.iter().filter(|c| *c == "softland local_answer").count(), 1);
        assert_eq!(message.header("x-softland-interventions"), Some("ask"));
    }
}

/// A stream for which nothing was sent says how its run ended, as any other does.
#[tokio::test]
async fn a_stream_of_softlands_own_says_how_its_run_ended() {
    for api in APIS {
        let upstream = Scripted::plays(vec![]).await;
        let keys = [("cost_limit_usd", text("0.000001"))];
        let gateway = Running::with(governed(&upstream.url(), &keys)).await;
        let message = after_a_call(api, true).post(&gateway).await;
        let (told, end) = (read(&message).comments, message.text());
        let stopped = r#"softland {"outcome":"stopped","reason":"cost","limit":"#;
        let [.., comment] = &told[..] else { panic!("{end}") };
        assert!(comment.starts_with(stopped), "{told:?}");
        assert!(end.find(comment).expect("it") < end.rfind("data: ").expect("an end"), "{end}");
    }
}

/// A run's end is told: in headers of a whole response, and in a stream before its last event.
#[tokio::test]
async fn k18_the_end_of_a_run_is_told() {
    for (api, stream) in all() {
        let at = |limit| [("tool_calls_limit", Key::Int(limit))];
        let upstream = Scripted::plays(vec![says("the answer")]).await;
        let gateway = Running::with(governed(&upstream.url(), &at(1))).await;
        let message = after_a_call(api, stream).post(&gateway).await;
        let spent = message.header("x-softland-cost-usd").map(str::to_owned);
        let comments = read(&message).comments;
        let facts = if stream {
            assert_eq!((message.header("x-softland-outcome"), spent), (None, None));
            let (comment, end) = (comments.last().expect("a comment"), message.text());
            let (at, last) = (end.find(comment).expect("it"), end.rfind("data: ").expect("an end"));
            assert!(at < last, "{end}");
            serde_json::from_str(comment.strip_prefix("softland ").expect("a name")).expect("JSON")
        } else {
            let told = |name: &str| message.header(&format!("x-softland-{name}"));
            let cost: f64 = spent.expect("a price").parse().expect("a number");
            json!({"outcome": told("outcome"), "reason": told("reason"), "limit": told("limit"),
                "cost_usd": cost})
        };
        let mut wanted = json!({"outcome": "landed", "reason": "tool_calls",
            "limit": "tool_calls_limit 1"});
        wanted["cost_usd"] = facts["cost_usd"].clone();
        assert!(facts["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0), "{facts}");
        assert_eq!(facts, wanted);
        // The cost is that of the run, not of its last request.
        let upstream = Scripted::plays(vec![calls(1), says("the answer")]).await;
        let gateway = Running::with(governed(&upstream.url(), &at(9))).await;
        let (_, message, _) = Client::on(api, stream).told_usage().run(&gateway).await;
        let told = match stream {
            true => {
                let comments = read(&message).comments;
                let said = comments.last().expect("a comment");
                let facts: Value = serde_json::from_str(&said["softland ".len()..]).expect("JSON");
                facts["cost_usd"].as_f64()
            }
            false => message.header("x-softland-cost-usd").and_then(|cost| cost.parse().ok()),
        };
        let whole = cost(api, 2) as f64 / 1e9;
        assert!(told.is_some_and(|told| (told - whole).abs() < 1e-9), "{told:?}, not {whole}");
        // A run that goes on has no end, and where nothing limits it nothing is told.
        for (reply, limit) in [(calls(1), Some(5)), (says("so"), None)] {
            let upstream = Scripted::plays(vec![reply]).await;
            let keys = limit.map(at).into_iter().flatten().collect::<Vec<_>>();
            let gateway = Running::with(governed(&upstream.url(), &keys)).await;
            let message = after_a_call(api, stream).post(&gateway).await;
            let ended = limit.is_none() && !stream;
            assert_eq!(message.header("x-softland-outcome").is_some(), ended);
            assert!(read(&message).comments.is_empty(), "{}", message.text());
        }
        // The operator may do without comments.
        let upstream = Scripted::plays(vec![nothing(), says("the answer")]).await;
        let mut settings = governed(&upstream.url(), &at(1));
        settings.no_comments = true;
        let gateway = Running::with(settings).await;
        let message = after_a_call(api, stream).post(&gateway).await;
        assert!(read(&message).comments.is_empty(), "{}", message.text());
    }
}

#[tokio::test]
async fn an_error_to_the_clients_own_request_is_the_upstreams() {
    let body = "{\"type\":\"error\" , \"error\":{\"type\":\"odd\",\"message\":\"its own\"}}";
    for status in ["429 Too Many", "500 No", "529 Overloaded", "400 Bad", "401 Who", "413 Large"] {
        for (api, stream) in all() {
            let fault = Reply::Error(status, vec!["retry-after: 17", "request-id: r"], body);
            let upstream = Scripted::plays(vec![fault, says("fine")]).await;
            let gateway = Running::with(governed(&upstream.url(), &[])).await;
            let client = Client::on(api, stream).told_usage();
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

/// Of Chat Completions, which has no error event, the client's connection breaks if the provider's
/// stream has no end, however its connection was closed: the client would have tried it again. Bytes
/// that are no stream have an error in any protocol.
#[tokio::test]
async fn a_stream_that_breaks_ends_in_the_protocols_error_or_breaks() {
    for api in APIS {
        let broken = [Reply::Cut(""), Reply::Cut("half of"), Reply::Hangs("half of")];
        let ended = [Reply::Raw(""), Reply::Ends(""), Reply::Ends("half of"), Reply::Raw("{}")];
        for reply in broken.into_iter().chain(ended) {
            let upstream = Scripted::plays(vec![reply.clone()]).await;
            let gateway = Running::with(impatient(&upstream.url(), &[])).await;
            let message = Client::on(api, true).post_to_a_break(&gateway).await;
            let response = read(&message);
            let breaks = api == Api::Chat && !matches!(reply, Reply::Raw("{}"));
            assert_eq!(message.is_cut, breaks, "{api:?}, {reply:?}: {}", message.text());
            match breaks {
                true => assert_eq!(response.end, End::Cut, "{reply:?}: {}", message.text()),
                false => {
                    assert!(matches!(response.end, End::Error(_)), "{reply:?}: {}", message.text())
                }
            }
            if let Reply::Cut(said) | Reply::Ends(said) | Reply::Hangs(said) = reply {
                assert!(message.text().contains(said), "{api:?}, {reply:?}: {}", message.text());
            }
        }
    }
}

#[tokio::test]
async fn a_response_in_another_form_than_asked_for_passes_as_it_is() {
    for api in APIS {
        let blocks = [json!({"type": "text", "text": "hello"})];
        for asked in [true, false] {
            let said = whole(Form::new(api, !asked), &blocks, "end_turn");
            let said: &'static str = Box::leak(said.into_boxed_str());
            let upstream = support::Provider::says(said).await;
            let gateway = Running::with(governed(&upstream.url(), &[])).await;
            let message = Client::on(api, asked).post(&gateway).await;
            assert_eq!(message.status(), 200);
            assert!(said.ends_with(message.text()), "{}", message.text());
        }
        let packed = response(
            "200 OK",
            &["content-type: application/json", "content-encoding: gzip"],
            "zip",
        );
        let upstream = support::Provider::says(packed).await;
        let gateway = Running::with(governed(&upstream.url(), &[])).await;
        let message = Client::on(api, false).post(&gateway).await;
        assert_eq!((message.text(), message.header("content-encoding")), ("zip", Some("gzip")));
    }
}

#[tokio::test]
async fn time_lands_a_run_in_the_middle_of_a_stream_and_before() {
    for (api, stream) in all() {
        for reply in [Reply::Hangs("half of"), Reply::Hangs(""), Reply::Silent] {
            let what = format!("{reply:?}, stream: {stream}, {api:?}");
            let upstream = Scripted::plays(vec![reply, says("the answer")]).await;
            let keys = [("time_limit", text("600ms")), ("reserve_time", text("300ms"))];
            let gateway = Running::with(governed(&upstream.url(), &keys)).await;
            let message = after_a_call(api, stream).post(&gateway).await;
            let response = read(&message);
            assert_eq!((message.status(), &response.end), (200, &End::Whole), "{what}");
            assert!(response.text().ends_with("the answer"), "{what}: {}", message.text());
            upstream.until_left(1).await;
        }
        // With nothing that comes in what was held back: softland's own.
        let upstream = Scripted::plays(vec![Reply::Silent]).await;
        let keys = [("time_limit", text("400ms")), ("reserve_time", text("200ms"))];
        let gateway = Running::with(governed(&upstream.url(), &keys)).await;
        lands_locally(&after_a_call(api, stream), &gateway, "silent for ever").await;
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
        settings.ledger = Some(path.clone().into());
        Self { _folder: folder, path }
    }
}

fn ledger(path: &Path) -> Vec<(Run, Vec<Step>)> {
    let reader = Reader::open(path).unwrap();
    let runs = reader.list_runs(&Query::default()).unwrap();
    let steps = |run: &Run| reader.read_steps(&run.run).unwrap();
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
    for (api, stream) in all() {
        let upstream = Scripted::plays(vec![calls(1), calls(2), calls(3), says("all")]).await;
        let mut settings = governed(&upstream.url(), &[("tool_calls_limit", Key::Int(2))]);
        let kept = Kept::new(&mut settings);
        let mut gateway = Running::with(settings).await;
        let mut client = Client::on(api, stream).told_usage();
        let (turns, ..) = client.run(&gateway).await;
        gateway.stopped().await;
        let runs = ledger(&kept.path);
        let [(run, steps)] = runs.as_slice() else { panic!("{runs:?}") };
        let end = run.end.as_ref().unwrap();
        assert_eq!((end.outcome, &end.reason), (Outcome::Landed, &Reason::ToolCalls));
        assert_eq!((run.turns, run.tool_calls, run.requests), (u64::from(turns), Some(2), 4));
        assert_eq!(run.unpriced, 0);
        assert_eq!((run.usage.input, run.usage.output), (4 * INPUT, 4 * OUTPUT));
        assert_eq!(run.cost.map(|cost| cost.0), Some(cost(api, 4)));
        let done = interventions(steps);
        let words: Vec<&str> = done.iter().map(|(word, _)| word.as_str()).collect();
        assert_eq!(words, ["countdown", "ask", "refuse"]);
        assert_eq!(done[1].1["reason"], "tool_calls", "{done:?}");
    }
}

#[tokio::test]
async fn hidden_requests_that_fail_are_in_the_ledger_too() {
    for api in APIS {
        let fault = Reply::Error("529 Overloaded", vec![], "{}");
        let upstream = Scripted::plays(vec![nothing(), fault]).await;
        let mut settings = governed(&upstream.url(), &[]);
        let kept = Kept::new(&mut settings);
        let mut gateway = Running::with(settings).await;
        lands_locally(&after_a_call(api, true), &gateway, "a nudge").await;
        gateway.stopped().await;
        let runs = ledger(&kept.path);
        let [(run, _)] = runs.as_slice() else { panic!("{runs:?}") };
        assert_eq!((run.requests, run.unpriced, run.local), (2, 0, true));
        let end = run.end.as_ref().unwrap();
        assert_eq!((end.outcome, &end.reason), (Outcome::Stopped, &Reason::Provider));
        assert_eq!(run.cost.map(|cost| cost.0), Some(cost(api, 1)));
    }
}

/// The moments at which the client may leave, and the amounts spent then.
#[tokio::test]
async fn a_client_that_goes_cancels_its_request_and_is_written_down() {
    for api in APIS {
        let half = "half of what it wants to say";
        // Two behind one another: the second is softland's own.
        let places: [(bool, Vec<Reply>, bool); 6] = [
            (true, vec![Reply::Silent], false),
            (false, vec![Reply::Silent], false),
            (true, vec![Reply::Hangs("")], true),
            (true, vec![Reply::Hangs(half)], true),
            (true, vec![nothing(), Reply::Silent], true),
            (true, vec![nothing(), Reply::Hangs(half)], true),
        ];
        for (stream, replies, reads) in places {
            // Anthropic says with the head what the input was, the others at the end.
            let counted = reads && (api == Api::Anthropic || replies.len() == 2);
            let what = format!("{replies:?}, stream: {stream}, {api:?}");
            let upstream = Scripted::plays(replies).await;
            let mut settings = governed(&upstream.url(), &[]);
            let kept = Kept::new(&mut settings);
            let mut gateway = Running::with(settings).await;
            let client = after_a_call(api, stream);
            let mut wire = gateway.client().await;
            wire.send(client.request(&gateway)).await;
            if reads {
                wire.until(beginning(api)).await;
            }
            upstream.stands.notified().await;
            drop(wire);
            upstream.until_left(1).await;
            gateway.stopped().await;
            let runs = ledger(&kept.path);
            let [(run, _)] = runs.as_slice() else { panic!("{what}: {runs:?}") };
            let end = run.end.as_ref().expect("it has ended");
            assert_eq!((end.outcome, &end.reason), (Outcome::Cancelled, &Reason::User), "{what}");
            // Counted, or estimated.
            assert!(run.usage.input > 0, "{what}");
            let cost = run.cost.expect("a price").0;
            assert!(cost >= if counted { INPUT * prices(api)[0] } else { 1 }, "{what}: {cost}");
            assert_eq!(run.unpriced, 0, "{what}");
        }
    }
}

#[tokio::test]
async fn who_comes_back_goes_on_under_another_name() {
    for (api, stream) in all() {
        let upstream = Scripted::plays(vec![Reply::Silent, calls(1), says("all")]).await;
        let mut settings = governed(&upstream.url(), &[("tool_calls_limit", Key::Int(9))]);
        let kept = Kept::new(&mut settings);
        let mut gateway = Running::with(settings).await;
        let mut client = Client::on(api, stream).told_usage().with("x-softland-session: s");
        let mut wire = gateway.client().await;
        wire.send(client.request(&gateway)).await;
        upstream.stands.notified().await;
        drop(wire);
        upstream.until_left(1).await;
        gateway.until_cancelled(1).await;
        client.run(&gateway).await;
        gateway.stopped().await;
        let runs = ledger(&kept.path);
        let [(first, _), (second, _)] = runs.as_slice() else { panic!("{runs:?}") };
        assert_eq!(first.end.as_ref().map(|end| end.outcome), Some(Outcome::Cancelled));
        assert_eq!(second.end.as_ref().map(|end| end.outcome), Some(Outcome::Answered));
        assert_eq!(second.continues.as_ref(), Some(&first.run), "stream: {stream}, {api:?}");
        assert_eq!(second.tool_calls, Some(1));
    }
}

/// A stream with what no provider sends: comments, an event that nobody knows, a blank text.
fn odd(api: Api) -> &'static str {
    match api {
        Api::Anthropic => {
            ": hello\n\nevent: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\
        \"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"x\",\"usage\":{\"input_tokens\":1,\
        \"output_tokens\":1}}}\n\nevent: odd\ndata: {\"type\": \"odd\"}\n\nevent: content_block_start\n\
        data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
        event: content_block_delta\ndata:{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\
        \"text_delta\",\"text\":\"  \"}}\r\n\r\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\
        \"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\
        \"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n\
        : behind\n\n"
        }
        Api::Chat => {
            ": hello\n\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\
             \"model\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\
             \"content\":\"\"},\"finish_reason\":null}]}\n\nevent: odd\ndata: {\"type\": \"odd\"}\n\n\
             data:{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\
             \"model\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"  \"},\
             \"finish_reason\":null}]}\r\n\r\n\
             data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\
             \"model\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
             data: [DONE]\n\n: behind\n\n"
        }
        Api::Responses => {
            ": hello\n\nevent: response.created\ndata: {\"type\":\"response.created\",\
             \"response\":{\"id\":\"r\",\"object\":\"response\",\"status\":\"in_progress\",\
             \"model\":\"x\",\"output\":[]},\"sequence_number\":0}\n\n\
             event: odd\ndata: {\"type\": \"odd\"}\n\nevent: response.output_item.added\n\
             data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":\
             {\"type\":\"message\",\"id\":\"m\",\"role\":\"assistant\",\"content\":[]},\
             \"sequence_number\":1}\n\nevent: response.output_text.delta\n\
             data:{\"type\":\"response.output_text.delta\",\"output_index\":0,\"item_id\":\"m\",\
             \"content_index\":0,\"delta\":\"  \",\"sequence_number\":2}\r\n\r\n\
             event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\
             \"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"m\",\
             \"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"  \",\
             \"annotations\":[]}]},\"sequence_number\":3}\n\nevent: response.completed\n\
             data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\
             \"object\":\"response\",\"status\":\"completed\",\"model\":\"x\",\"output\":[{\
             \"type\":\"message\",\"id\":\"m\",\"role\":\"assistant\",\"content\":[{\
             \"type\":\"output_text\",\"text\":\"  \",\"annotations\":[]}]}],\"usage\":null},\
             \"sequence_number\":4}\n\n: behind\n\n"
        }
    }
}

#[tokio::test]
async fn whoever_only_observes_leaves_every_byte_as_it_is() {
    for api in APIS {
        let odd = odd(api);
        let half: &str = &odd[..odd.len() / 2];
        let half: &'static str = Box::leak(half.to_owned().into_boxed_str());
        let cases = [odd, half, "garbage\n\n", "", ": only a comment\n\n"];
        for raw in cases {
            let upstream = Scripted::plays(vec![Reply::Raw(raw)]).await;
            let keys = [("mode", text("observe")), ("tool_calls_limit", Key::Int(0))];
            let gateway = Running::with(governed(&upstream.url(), &keys)).await;
            let client = after_a_call(api, true);
            let message = client.post(&gateway).await;
            assert_eq!(message.text(), raw);
            assert_eq!(upstream.asked(0), client.body);
        }
        // And governed, the same is at least of the protocol.
        let upstream = Scripted::plays(vec![Reply::Raw(odd), says("the answer")]).await;
        let gateway = Running::with(governed(&upstream.url(), &[])).await;
        let message = after_a_call(api, true).post(&gateway).await;
        assert!(message.text().contains("\"odd\""), "{}", message.text());
    }
}
