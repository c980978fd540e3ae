//! Upstreams that break, and clients that leave.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use softland_session::core::NanoUsd;
use softland_session::core::policy::Policy;

use crate::support::{End, Host, Reply, SILENCE, begun, question, read_balance, read_stream};

fn streaming() -> Value {
    let mut body = question();
    body["stream"] = json!(true);
    body
}

fn limited() -> Policy {
    Policy { cost_limit_usd: Some(NanoUsd(5_000_000_000)), ..Policy::default() }
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_an_error_of_the_protocol() {
    let host = Host::new(limited(), vec![Reply::Fails("upstream anthropic cannot be reached")]);
    let (status, answer) = host.ask(&question()).await;
    assert_eq!((status, &answer["error"]["type"]), (502, &json!("api_error")), "{answer}");
    assert_eq!(answer["error"]["message"], "upstream anthropic cannot be reached");
}

#[tokio::test]
async fn a_stream_that_breaks_ends_in_an_error_event() {
    let host = Host::new(limited(), vec![Reply::Stream(begun(), End::Breaks)]);
    let (text, _) = read_stream(host.send(&streaming(), &[]).await).await;
    assert!(text.contains("All is "), "{text}");
    assert!(text.contains("event: error"), "{text}");
    assert!(text.contains("upstream anthropic broke off: reset"), "{text}");
    assert!(host.remarks().contains("the response broke off"), "{}", host.remarks());
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_request_and_is_booked() {
    let host = Host::new(limited(), vec![Reply::Stream(begun(), End::Hangs)]);
    let response = host.send(&streaming(), &[("x-softland-run", "r")]).await;
    let mut body = response.into_body();
    let first = body.frame().await.expect("a piece").expect("no error");
    assert!(first.into_data().expect("data").starts_with(b"event: message_start"));
    drop(body);
    host.services.tasks.close();
    tokio::time::timeout(Duration::from_secs(20), host.services.tasks.wait())
        .await
        .expect("the stream ends");
    assert_eq!(host.script.dropped.load(Ordering::SeqCst), 1, "the upstream is let go");
    let balance = read_balance(&*host.services.state, "run:given:r").await;
    assert_eq!(balance.reserved, NanoUsd::ZERO, "nothing stays reserved");
    assert!(balance.spent > NanoUsd::ZERO, "what came is paid");
    assert!(host.remarks().contains("the client left"), "{}", host.remarks());
}

/// An error that comes under status 200 was booked as the most that its request could cost.
#[tokio::test]
async fn c99_an_error_in_place_of_a_response_costs_what_was_received() {
    const ERROR: &str = "event: error\ndata: {\"type\": \"error\", \"error\": \
                         {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}}\n\n";
    let told = json!({"error": {"message": "Overloaded", "code": 529}});
    let replies = [
        (streaming(), Reply::Stream(ERROR.to_owned(), End::Ends)),
        (question(), Reply::Whole(told.clone())),
        (question(), Reply::Whole(json!({"type": "error", "error": "Overloaded"}))),
    ];
    for (mut body, reply) in replies {
        body["max_tokens"] = json!(64_000);
        let host = Host::new(limited(), vec![reply]);
        let (text, _) = read_stream(host.send(&body, &[("x-softland-run", "r")]).await).await;
        assert!(text.contains("Overloaded"), "{text}");
        host.services.tasks.close();
        host.services.tasks.wait().await;
        let balance = read_balance(&*host.services.state, "run:given:r").await;
        assert_eq!(balance.reserved, NanoUsd::ZERO, "{text}");
        // A hundredth of a dollar pays for a short question; 64,000 tokens cost a dollar.
        assert!(balance.spent < NanoUsd(10_000_000), "{text}: {:?}", balance.spent);
    }
}

/// The words of a refusal, and of an error in another form, are in the records.
#[tokio::test]
async fn c152_the_words_of_an_error_are_recorded() {
    let odd = r#"{"success":false,"errors":[{"code":7009,"message":"the context is full"}]}"#;
    let told =
        r#"{"type":"error","error":{"type":"not_found_error","message":"the context is full"}}"#;
    let sse = "text/event-stream; charset=utf-8";
    for (streams, status, kind, reply) in [
        (true, 404, Some("application/json"), told.to_owned()),
        (false, 400, Some("application/json"), odd.to_owned()),
        (false, 502, None, "<html><body>the context is full</body></html>".to_owned()),
        (true, 429, Some("text/event-stream"), odd.to_owned()),
        (true, 200, Some(sse), format!("data: {odd}\n\n")),
        (true, 200, Some(sse), format!("event: error\ndata: {told}\n\n")),
        (true, 200, Some("application/json"), odd.to_owned()),
        (false, 200, Some("application/json"), odd.to_owned()),
    ] {
        let mut body = question();
        (body["stream"], body["max_tokens"]) = (json!(streams), json!(64_000));
        let reply_body = reply.clone();
        let host = Host::new(limited(), vec![Reply::Typed(status, kind, reply)]);
        let (text, _) = read_stream(host.send(&body, &[("x-softland-run", "r")]).await).await;
        assert!(text.contains(reply_body.trim_end()), "{status} {reply_body}: {text}");
        host.services.tasks.close();
        host.services.tasks.wait().await;
        assert!(host.remarks().contains("the context is full"), "{reply_body}: {}", host.remarks());
        let balance = read_balance(&*host.services.state, "run:given:r").await;
        assert!(balance.spent < NanoUsd(10_000_000), "{reply_body}: {:?}", balance.spent);
    }
}

/// A stream whose type says something else passed ungoverned, and was booked as the most that it
/// could cost.
#[tokio::test]
async fn c153_a_stream_is_governed_whatever_its_type_says() {
    let whole = [
        begun(),
        "event: content_block_stop\ndata: {\"type\": \"content_block_stop\", \"index\": 0}\n\n\
         event: message_delta\ndata: {\"type\": \"message_delta\", \"delta\": {\"stop_reason\": \
         \"end_turn\"}, \"usage\": {\"output_tokens\": 3}}\n\n\
         event: message_stop\ndata: {\"type\": \"message_stop\"}\n\n"
            .to_owned(),
    ]
    .concat();
    let mut body = streaming();
    body["max_tokens"] = json!(64_000);
    for kind in [
        Some("text/event-stream"),
        Some("TEXT/Event-Stream;charset=UTF-8"),
        Some("application/octet-stream"),
        Some("application/json"),
        Some("text/plain"),
        None,
    ] {
        for sent in [whole.clone(), format!("\n: hello\n\n{whole}")] {
            let host = Host::new(limited(), vec![Reply::Typed(200, kind, sent.clone())]);
            let answer = host.send(&body, &[("x-softland-run", "r")]).await;
            let (text, _) = read_stream(answer).await;
            assert!(text.starts_with(&sent[..40]) && text.contains("message_stop"), "{text}");
            host.services.tasks.close();
            host.services.tasks.wait().await;
            assert_eq!(host.remarks(), "", "{kind:?}");
            let balance = read_balance(&*host.services.state, "run:given:r").await;
            assert!(balance.spent < NanoUsd(10_000_000), "{kind:?}: {:?}", balance.spent);
        }
    }
    // What is no stream passes as it is.
    let sent = json!({"id": "m", "type": "message", "role": "assistant", "content": [
        {"type": "text", "text": "All is well."}]});
    let host = Host::new(limited(), vec![Reply::Whole(sent.clone())]);
    let (text, _) = read_stream(host.send(&body, &[]).await).await;
    assert_eq!(text, sent.to_string());
    assert!(host.remarks().contains("cannot be read"), "{}", host.remarks());
}

/// A stream that goes on with this, a third of the longest silence between two, as often as told.
async fn goes_on_with(event: &'static str, times: u32) -> (String, Duration) {
    let end = End::Repeats(event, times, SILENCE / 3);
    let host = Host::new(limited(), vec![Reply::Stream(begun(), end)]);
    let began = tokio::time::Instant::now();
    let (text, _) = read_stream(host.send(&streaming(), &[]).await).await;
    (text, began.elapsed())
}

const SILENT: &str = "upstream anthropic sent nothing but signs of life for 600s";

#[tokio::test(start_paused = true)]
async fn c82_a_stream_that_only_gives_signs_of_life_ends() {
    let signs =
        ["event: ping\ndata: {\"type\": \"ping\"}\n\n", ": alive\n\n", "\n", "event: ping\n\n"];
    for sign in signs {
        let (text, after) = goes_on_with(sign, 1_000).await;
        assert!(text.contains("event: error") && text.contains(SILENT), "{sign:?}: {text}");
        assert_eq!(after.as_secs(), SILENCE.as_secs(), "{sign:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn c82_a_slow_stream_does_not_end() {
    let delta = "event: content_block_delta\ndata: {\"type\": \"content_block_delta\", \"index\": 0, \
                 \"delta\": {\"type\": \"text_delta\", \"text\": \"well \"}}\n\n";
    for event in [delta, "event: of_tomorrow\ndata: {\"type\": \"of_tomorrow\"}\n\n"] {
        let (text, after) = goes_on_with(event, 30).await;
        assert!(!text.contains(SILENT), "{event}: {text}");
        assert_eq!(after.as_secs(), SILENCE.as_secs() * 10, "{event}");
    }
}

/// What a client gets for a question without tools, and one with tools, and when.
async fn answers_to(streams: bool, reply: Reply) -> Vec<(String, u64)> {
    let mut answers = Vec::new();
    for tools in [json!([]), json!([{"name": "grep", "input_schema": {"type": "object"}}])] {
        let mut body = question();
        (body["stream"], body["tools"]) = (json!(streams), tools);
        let host = Host::new(limited(), vec![reply.clone()]);
        let began = tokio::time::Instant::now();
        let (text, _) = read_stream(host.send(&body, &[]).await).await;
        answers.push((text, began.elapsed().as_secs()));
    }
    answers
}

/// A body of JSON for which nothing but blanks came, or whose head had come late, never ended.
#[tokio::test(start_paused = true)]
async fn c151_silence_counts_from_the_request_on() {
    let (third, half) = (SILENCE / 3, SILENCE / 2);
    let ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
    let blanks = |begun| Reply::Slow(begun, End::Repeats("\r\n ", 1_000, third));
    let pings = || Reply::Stream(String::new(), End::Repeats(ping, 1_000, third));
    let late = |reply| Reply::Late(half, Box::new(reply));
    for (streams, reply) in [
        (false, blanks("")),
        (false, late(blanks(" "))),
        (false, Reply::Slow("", End::Hangs)),
        (true, pings()),
        (true, late(pings())),
        (true, late(Reply::Stream(String::new(), End::Hangs))),
    ] {
        for (text, after) in answers_to(streams, reply.clone()).await {
            assert!(text.contains(SILENT), "{reply:?}: {text}");
            assert_eq!(after, SILENCE.as_secs(), "{reply:?}");
        }
    }
    // What was said ends the silence.
    for (text, after) in answers_to(false, late(blanks("{\"id\":"))).await {
        assert!(text.contains(SILENT), "{text}");
        assert_eq!(after, (half + SILENCE).as_secs());
    }
    for (text, after) in answers_to(false, Reply::Slow("{", End::Repeats("1", 9, half))).await {
        assert!(!text.contains(SILENT), "{text}");
        assert_eq!(after, (half * 9).as_secs());
    }
}
