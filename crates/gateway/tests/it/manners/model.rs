//! A model that calls tools as long as it is let, and summarises when it is asked to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use softland_gateway::Clock;
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

use crate::support::script::{Form, whole};
use crate::support::sim::governed;
use crate::support::{Message, Provider, Running};

/// The client's request for a summary.
pub(crate) const SUMMARISE: &str = "Summarise what was done so far, for whoever goes on with it.";

/// The form of the names of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    /// Each by a name of its own.
    Own,
    /// By their place in the turn: the same ones in every turn.
    Places,
}

/// The behaviour of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Temper {
    pub(crate) ids: Ids,
    /// Calls of a turn at most.
    pub(crate) most: u64,
    /// Calls for one question, where it answers by itself.
    pub(crate) answers_after: Option<u64>,
}

/// The model behind a socket.
pub(crate) struct Model {
    provider: Provider,
}

/// A clock that the test sets.
#[derive(Clone)]
pub(crate) struct Time(Arc<AtomicU64>);

impl Time {
    pub(crate) fn passes(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }

    fn clock(&self) -> Clock {
        let time = Arc::clone(&self.0);
        Arc::new(move || time.load(Ordering::SeqCst))
    }
}

impl Model {
    pub(crate) async fn new(temper: Temper) -> Self {
        let asked = Arc::new(AtomicU64::new(1));
        let provider = Provider::does(move |message, wire| {
            let n = asked.fetch_add(1, Ordering::SeqCst);
            let said = say(&temper, n, &message);
            async move {
                wire.lock().await.send(said).await;
                true
            }
        });
        Self { provider: provider.await }
    }

    /// A gateway before it, with this limit of calls, and its clock.
    pub(crate) async fn governed(&self, limit: u64) -> (Running, Time) {
        let time = Time(Arc::new(AtomicU64::new(1_790_000_000_000)));
        let limit = Key::Int(limit.into());
        let settings = governed(&self.provider.url(), &[("tool_calls_limit", limit)]);
        (Running::with_clock(settings, time.clock()).await, time)
    }
}

/// The response to the request of this number. Its id is its own.
fn say(temper: &Temper, n: u64, message: &Message) -> String {
    let form = Form::of(message);
    let body: Value = serde_json::from_slice(&message.body).unwrap();
    let history = body[if form.api == Api::Responses { "input" } else { "messages" }].clone();
    let history = history.as_array().cloned().unwrap_or_default();
    let blocks = blocks(temper, n, &body, &history);
    let calls = blocks.iter().any(|block| block["type"] == "tool_use");
    let said = whole(form, &blocks, if calls { "tool_use" } else { "end_turn" });
    said.replace("resp_script", &format!("resp_{n:06}"))
        .replace("msg_script", &format!("msg_{:06}", n % 1_000_000))
        .replace("fc_script", &format!("fc_{:06}", n % 1_000_000))
}

fn blocks(temper: &Temper, n: u64, body: &Value, history: &[Value]) -> Vec<Value> {
    let newest = history.last().map(Value::to_string).unwrap_or_default();
    if newest.contains(SUMMARISE) {
        return vec![json!({"type": "text", "text": summary(n)})];
    }
    let choice = &body["tool_choice"];
    let none = choice == "none" || choice["type"] == "none";
    let tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    let done = temper.answers_after.is_some_and(|most| called(history) >= most);
    if none || !tools || done || newest.contains("Answer now with what you have") {
        let text = format!(
            "All that was found, as far as it goes, is note {n}. It says what was to be expected of \
             it, at a length that makes it easy to be known again: that the work is done in part, \
             that nothing stands against it, and that whoever goes on may begin with note {n}."
        );
        return vec![json!({"type": "text", "text": text})];
    }
    (0..1 + n % temper.most)
        .map(|place| {
            let id = match temper.ids {
                Ids::Own => format!("toolu_{:010}", n * 100 + place),
                Ids::Places => format!("call_{place}"),
            };
            let path = format!("notes/{n}-{place}.md");
            json!({"type": "tool_use", "id": id, "name": "read_file", "input": {"path": path}})
        })
        .collect()
}

/// The calls behind the newest question of a history.
fn called(history: &[Value]) -> u64 {
    let asks = |message: &&Value| {
        message["role"] == "user" && !message.to_string().contains("tool_result")
    };
    let behind = history.iter().rev().take_while(|message| !asks(message));
    behind.map(|message| message.to_string().matches("read_file").count() as u64).sum()
}

fn summary(n: u64) -> String {
    (0..4)
        .map(|part| {
            format!(
                "Part {part} of summary {n}: the notes were looked at one after the other, and what \
                 they say of matter {} was written down for whoever goes on with the work.",
                n * 10 + part
            )
        })
        .collect::<Vec<_>>()
        .join("\n\n")
}
