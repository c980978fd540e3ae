//! Calls with arguments that are nested deep: whatever passes in a response can be read in the next
//! request.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::client::{Client, all};
use crate::support::script::{Form, whole};
use crate::support::sim::{governed, text};
use crate::support::{Message, Provider, Running, response};
use serde_json::{Value, json};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

/// The text that stands for deep arguments until it is sent: no reader of the tests accepts them.
const DEEP: &str = r#"{"x":"DEEP"}"#;
const LIMIT: u32 = 4;

/// Arguments of so many levels, `kinds` telling objects from lists in turn.
fn arguments(levels: usize, kinds: u64) -> String {
    let object = |at: usize| at == 0 || kinds >> (at % 64) & 1 == 1;
    let open: String = (0..levels).map(|at| if object(at) { "{\"a\":" } else { "[" }).collect();
    let close = (0..levels).rev().map(|at| if object(at) { "}" } else { "]" });
    open + "1" + &close.collect::<String>()
}

/// A text with these arguments in the place of [`DEEP`], also within strings.
fn filled(text: &str, arguments: &str) -> String {
    let escaped = |text: &str| text.replace('"', "\\\"");
    text.replace(DEEP, arguments).replace(&escaped(DEEP), &escaped(arguments))
}

fn call(n: u32) -> Value {
    json!({"type": "tool_use", "id": id(n), "name": "read_file", "input": {"x": "DEEP"}})
}

fn id(n: u32) -> String {
    format!("toolu_script{n:04}")
}

/// A provider that calls with these arguments whatever it is asked.
async fn calls(api: Api, stream: bool, arguments: Arc<str>) -> Provider {
    let next = Arc::new(AtomicU32::new(1));
    Provider::does(move |_, wire| {
        let (n, arguments) = (next.fetch_add(1, Ordering::SeqCst), Arc::clone(&arguments));
        async move {
            let said = whole(Form::new(api, stream), &[call(n)], "tool_use");
            let (_, body) = said.split_once("\r\n\r\n").unwrap();
            let kind = if stream { "text/event-stream" } else { "application/json" };
            let kind = format!("content-type: {kind}");
            let said = response("200 OK", &[&kind], &filled(body, &arguments));
            wire.lock().await.send(said).await;
            true
        }
    })
    .await
}

/// The calls that a client gets, and its last response.
async fn run(client: &mut Client, gateway: &Running, arguments: &str) -> (u32, Message) {
    let mut given = 0;
    loop {
        let body = filled(&client.body.to_string(), arguments);
        let message = gateway.ask(client.request_of(gateway, &body)).await;
        assert_eq!(message.status(), 200, "{}", message.text());
        let called = (1..40).find(|n| message.text().contains(&id(*n)));
        let Some(n) = called.filter(|_| given < 10) else { return (given, message) };
        // Beside its arguments it stands in what its tool says.
        client.takes(&[call(n)]);
        given += 1;
        let counted = message.header("x-softland-tool-calls").unwrap_or("not at all");
        assert_eq!(counted, format!("{}/{LIMIT}", given - 1));
    }
}

#[tokio::test]
async fn c20_a_limit_holds_however_deep_arguments_are_nested() {
    for (api, stream) in all() {
        for (levels, kinds) in [
            (1, u64::MAX),
            (60, 0x5555_5555_5555_5555),
            (100, 0x1234_5678_9abc_def0),
            (101, u64::MAX),
            (120, 0),
            (124, u64::MAX),
            (126, u64::MAX),
            (127, 0x0f0f_0f0f_0f0f_0f0f),
            (128, u64::MAX),
            (129, 0),
            (500, 0x00ff_00ff_00ff_00ff),
            (2000, u64::MAX),
        ] {
            let name = format!("{api:?}, stream: {stream}, {levels} levels of {kinds:x}");
            let arguments = arguments(levels, kinds);
            let provider = calls(api, stream, arguments.as_str().into()).await;
            let mut keys =
                vec![("tool_calls_limit", Key::Int(LIMIT.into())), ("repeat_limit", Key::Int(50))];
            // The limits of money read the same requests.
            if levels % 2 == 0 {
                keys.push(("cost_limit_usd", text("50.00")));
            }
            let gateway = Running::with(governed(&provider.url(), &keys)).await;
            let (given, last) = run(&mut Client::on(api, stream), &gateway, &arguments).await;
            assert_eq!(given, LIMIT, "{name}: {}", last.text());
            assert_eq!(last.header("x-softland-phase"), Some("landing"), "{name}");
            assert!(last.text().contains("softland"), "{name}: {}", last.text());
        }
    }
}
