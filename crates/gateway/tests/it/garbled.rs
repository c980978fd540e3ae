//! Streams with an event that no client can read: they have broken there. What came before stays
//! valid, what cannot be read is not handed on.

#![expect(clippy::expect_used, reason = "in test helpers to panic is to fail the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::client::{APIS, Client};
use crate::support::reading::{End, read};
use crate::support::script::{Form, whole};
use crate::support::sim::{governed, text};
use crate::support::{Message, Provider, Running, response};
use serde_json::json;
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

/// The way in which an event is garbled.
#[derive(Clone, Copy, Debug)]
enum Fault {
    NoJson,
    NoUtf8,
}

/// A stream that says `good words`, an event that is garbled, and its end.
fn garbled(api: Api, fault: Fault) -> Vec<u8> {
    let said = |text: &str| json!({"type": "text", "text": text});
    let blocks = [said("good words"), said("bad ~ words")];
    let stream = whole(Form::new(api, true), &blocks, "end_turn");
    let at = stream.find('~').expect("the second text");
    let mut bytes = stream.clone().into_bytes();
    match fault {
        Fault::NoUtf8 => bytes[at] = 0xff,
        Fault::NoJson => {
            let data = stream[..at].rfind("data: {").expect("an event");
            bytes[data + "data: ".len()] = b'<';
        }
    }
    bytes
}

/// Gives that to the first request, and an answer to every other.
async fn upstream(api: Api, fault: Fault) -> Provider {
    let asked = Arc::new(AtomicUsize::new(0));
    Provider::does(move |_, wire| {
        let asked = Arc::clone(&asked);
        async move {
            let answer = json!({"type": "text", "text": "the answer"});
            let reply = match asked.fetch_add(1, Ordering::SeqCst) {
                0 => garbled(api, fault),
                _ => whole(Form::new(api, true), &[answer], "end_turn").into_bytes(),
            };
            wire.lock().await.send(reply).await;
            true
        }
    })
    .await
}

/// Returns the response to a client whose history has one call.
async fn asked(api: Api, fault: Fault, keys: &[(&str, Key)]) -> (Message, usize) {
    let upstream = upstream(api, fault).await;
    let gateway = Running::with(governed(&upstream.url(), keys)).await;
    let mut client = Client::on(api, true).told_usage();
    client.takes(&[json!({"type": "tool_use", "id": "toolu_before0001", "name": "read_file",
        "input": {"path": "a"}})]);
    (client.post(&gateway).await, upstream.count())
}

fn all() -> impl Iterator<Item = (Api, Fault)> {
    APIS.into_iter().flat_map(|api| [Fault::NoJson, Fault::NoUtf8].map(|fault| (api, fault)))
}

#[tokio::test]
async fn a_garbled_event_ends_the_stream_with_the_protocols_error() {
    for (api, fault) in all() {
        let (message, requests) = asked(api, fault, &[]).await;
        let what = format!("{api:?}, {fault:?}: {}", String::from_utf8_lossy(&message.body));
        let response = read(&message);
        assert!(message.body.windows(10).any(|at| at == b"good words"), "{what}");
        let End::Error(why) = response.end else { panic!("{what}") };
        let quoted = json!(why).to_string();
        assert!(!what.replace(&quoted, "").contains("bad"), "{what}");
        // An error in no protocol's form keeps its words.
        let quoted = why.contains("no JSON: <") && why.contains("bad ~ words");
        assert_eq!(quoted, matches!(fault, Fault::NoJson), "{what}");
        assert_eq!(requests, 1);
    }
}

#[tokio::test]
async fn at_a_limit_the_next_rung_answers_behind_it() {
    for (api, fault) in all() {
        let (message, requests) = asked(api, fault, &[("tool_calls_limit", Key::Int(1))]).await;
        let what = format!("{api:?}, {fault:?}: {}", String::from_utf8_lossy(&message.body));
        assert!(!message.body.windows(3).any(|at| at == b"bad"), "{what}");
        let response = read(&message);
        let text = response.text();
        assert!(text.starts_with("good words") && text.ends_with("the answer"), "{what}");
        assert_eq!((response.end, requests), (End::Whole, 2), "{what}");
    }
}

#[tokio::test]
async fn who_only_observes_hands_it_on() {
    for (api, fault) in all() {
        let (message, _) = asked(api, fault, &[("mode", text("observe"))]).await;
        let sent = garbled(api, fault);
        assert!(sent.ends_with(&message.body) && !message.body.is_empty(), "{api:?}, {fault:?}");
    }
}

/// An event that no client of the protocol reads is the provider's own, JSON or not.
#[tokio::test]
async fn signs_of_life_and_foreign_events_pass() {
    let aside = ": a comment\n\nevent: ping\ndata: pong\n\nevent: odd\ndata: <odd>\n\n";
    for api in APIS {
        let blocks = [json!({"type": "text", "text": "good words"})];
        let stream = whole(Form::new(api, true), &blocks, "end_turn");
        let body = stream.split_once("\r\n\r\n").expect("a head").1;
        // Of Chat Completions it is there already.
        let done = if api == Api::Chat { "" } else { "data: [DONE]\n\n" };
        let body = format!("{aside}{body}{aside}{done}");
        let upstream =
            Provider::says(response("200 OK", &["content-type: text/event-stream"], &body)).await;
        let gateway = Running::with(governed(&upstream.url(), &[])).await;
        let message = Client::on(api, true).told_usage().post(&gateway).await;
        assert_eq!(message.text(), body, "{api:?}");
    }
}
