//! Human messages behind a gateway: nudges, other speakers, flattened histories and moved notes
//! continue the run that a person began; a person's next question begins another one.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::{Value, json};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

use crate::support::client::{APIS, Client};
use crate::support::reading::{Response, read};
use crate::support::script::{Form, whole};
use crate::support::sim::governed;
use crate::support::{Provider, Running};

/// The turns of a model, by the number of their calls; 0 is an answer.
type Turns = Vec<usize>;

/// A model that plays these turns, and then answers for ever. It calls whatever it is told, unless
/// it may not.
async fn model(turns: Turns) -> Provider {
    let (turn, id) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    Provider::does(move |asked, wire| {
        let calls = turns.get(turn.fetch_add(1, Ordering::SeqCst)).copied().unwrap_or(0);
        let id = Arc::clone(&id);
        async move {
            let forbidden = asked.text().contains("\"tool_choice\":");
            let calls = if forbidden { 0 } else { calls };
            let blocks: Vec<Value> = (0..calls)
                .map(|_| {
                    let id = format!("call_{:012}", id.fetch_add(1, Ordering::SeqCst));
                    json!({"type": "tool_use", "id": id, "name": "read_file",
                        "input": {"path": id}})
                })
                .collect();
            let text = json!({"type": "text", "text": "I have looked at all of the notes."});
            let (blocks, stop) =
                if calls == 0 { (vec![text], "end_turn") } else { (blocks, "tool_use") };
            wire.lock().await.send(whole(Form::of(&asked), &blocks, stop)).await;
            true
        }
    })
    .await
}

/// The form in which a client writes its history.
#[derive(Clone, Copy, Debug, Default)]
struct Manner {
    /// Calls and results as text, as smolagents does.
    flat: bool,
    /// A note of the moment in the newest message, as goose does.
    note: bool,
}

/// A client with a clock.
struct Wild {
    client: Client,
    manner: Manner,
    time: Arc<AtomicU64>,
    /// Calls run for the person's newest message.
    calls: usize,
    requests: u64,
    /// The runs that its requests were told to be of.
    runs: Vec<String>,
    /// The phase of the newest message's first request.
    phase: String,
}

impl Wild {
    fn new(api: Api, manner: Manner, time: &Arc<AtomicU64>) -> Self {
        let client = Client::on(api, true);
        let (time, runs, phase) = (Arc::clone(time), Vec::new(), String::new());
        Self { client, manner, time, calls: 0, requests: 0, runs, phase }
    }

    fn says(&mut self, text: &str, name: Option<&str>, after: u64) {
        self.time.fetch_add(after, Ordering::SeqCst);
        let mut message = json!({"role": "user", "content": text});
        if let Some(name) = name.filter(|_| self.client.api == Api::Chat) {
            message["name"] = name.into();
        }
        self.client.messages().push(message);
    }

    /// Sends requests until the model answers: the last response.
    async fn run(&mut self, gateway: &Running) -> Response {
        self.phase.clear();
        loop {
            let mut sent = self.client.clone();
            if self.manner.note {
                self.requests += 1;
                let note = format!("<info-msg>\nIt is 10:{:02}\n</info-msg>", self.requests % 60);
                let last = sent.messages().last_mut().expect("a question");
                match last.get("content").and_then(Value::as_str) {
                    Some(text) if last["role"] == "user" => {
                        last["content"] = format!("{text}\n{note}").into();
                    }
                    _ => sent.says(&note),
                }
            }
            let message = sent.post(gateway).await;
            assert_eq!(message.status(), 200, "{}", message.text());
            self.runs.push(message.header("x-softland-run").expect("a run").to_owned());
            if self.phase.is_empty() {
                self.phase = message.header("x-softland-phase").expect("a phase").to_owned();
            }
            let response = read(&message);
            self.calls += response.calls().len();
            if self.manner.flat && !response.calls().is_empty() {
                self.flatten(&response);
            } else if !self.client.takes_response(&response) {
                return response;
            }
        }
    }

    fn flatten(&mut self, response: &Response) {
        let calls = response.calls();
        let one = |(id, name, input): &(String, String, Value)| {
            let path = input["path"].as_str().unwrap_or_default();
            format!(
                "{{'id': '{id}', 'type': 'function', 'function': {{'name': '{name}', \
                 'arguments': {{'path': '{path}', 'again': True, 'note': \"it's {path}\"}}}}}}"
            )
        };
        let list: Vec<_> = calls.iter().map(one).collect();
        let text = format!("Calling tools:\n[{}]", list.join(", "));
        let messages = self.client.messages();
        messages.push(json!({"role": "assistant", "content": text}));
        let results: Vec<_> = calls.iter().map(|(id, ..)| format!("notes of {id}")).collect();
        let results = format!("Observation:\n{}", results.join("\n"));
        messages.push(json!({"role": "user", "content": results}));
    }
}

async fn gateway(upstream: &Provider, keys: &[(&str, Key)], time: &Arc<AtomicU64>) -> Running {
    let time = Arc::clone(time);
    let clock = Arc::new(move || time.load(Ordering::SeqCst));
    Running::with_clock(governed(&upstream.url(), keys), clock).await
}

fn clock() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(1_790_000_000_000))
}

const AT_ONCE: u64 = 50;
const LATER: u64 = 5_000;

/// smolagents (F1): the history shows calls as text only. They count, are counted down and land.
#[tokio::test]
async fn c15_flattened_calls_count_and_land() {
    for (api, flat) in APIS.into_iter().flat_map(|api| [(api, true), (api, false)]) {
        let upstream = model(vec![1, 1, 2, 1, 1, 1]).await;
        let time = clock();
        let gateway = gateway(&upstream, &[("tool_calls_limit", Key::Int(4))], &time).await;
        let mut wild = Wild::new(api, Manner { flat, note: false }, &time);
        wild.run(&gateway).await;
        assert_eq!(wild.calls, 4, "{api:?}, flat: {flat}");
        let last = upstream.asked.lock().unwrap().last().unwrap().text().to_owned();
        assert!(last.contains("1 tool call remaining") || last.contains("2 tool calls remaining"));
        assert!(last.contains("Tool call limit reached (4 of 4)"), "{last}");
        wild.runs.dedup();
        assert_eq!(wild.runs.len(), 1, "{api:?}, flat: {flat}: {:?}", wild.runs);
    }
}

/// goose (F2): its note is elsewhere in every request. There is one run, and its tokens add up.
#[tokio::test]
async fn c13_a_note_that_moves_leaves_one_run() {
    for api in APIS {
        let upstream = model(vec![1; 40]).await;
        let time = clock();
        let gateway = gateway(&upstream, &[("tokens_limit", Key::Int(30_000))], &time).await;
        let mut wild = Wild::new(api, Manner { flat: false, note: true }, &time);
        wild.run(&gateway).await;
        wild.runs.dedup();
        assert_eq!(wild.runs.len(), 1, "{api:?}: {:?}", wild.runs);
        assert!((5..30).contains(&wild.calls), "{api:?}: {} calls", wild.calls);
    }
}

/// AutoGen (F13): the other speaker's words come under a name.
#[tokio::test]
async fn c10_a_group_of_speakers_has_one_count() {
    let upstream = model(vec![1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0]).await;
    let time = clock();
    let gateway = gateway(&upstream, &[("tool_calls_limit", Key::Int(4))], &time).await;
    let mut wild = Wild::new(Api::Chat, Manner::default(), &time);
    wild.client.messages()[0]["name"] = "user".into();
    for round in 0..10 {
        wild.run(&gateway).await;
        wild.says(&format!("Round {round}: look at the other part, too."), Some("critic"), LATER);
    }
    assert_eq!(wild.calls, 4);
    assert_eq!(wild.phase, "landing");
    wild.says("And what is in the letters?", Some("user"), LATER);
    wild.run(&gateway).await;
    assert_eq!(wild.phase, "silent", "the person's next question has a count of its own");
}

#[tokio::test]
async fn c11_ten_different_questions_without_a_pause_are_ten_runs() {
    let upstream = model([2, 0].repeat(10)).await;
    let time = clock();
    let gateway = gateway(&upstream, &[("tool_calls_limit", Key::Int(4))], &time).await;
    let mut wild = Wild::new(Api::Anthropic, Manner::default(), &time);
    for part in ["plan", "map", "tools", "crew", "food", "route", "tents", "costs", "risks"] {
        wild.run(&gateway).await;
        wild.says(&format!("What do the notes say of the {part}?"), None, 0);
    }
    wild.run(&gateway).await;
    wild.runs.dedup();
    assert_eq!((wild.runs.len(), wild.calls), (10, 20));
}

/// Behind a landing: one message at once is a program's, whoever waits goes on.
#[tokio::test]
async fn c12_a_chat_that_has_landed_can_go_on() {
    for (pause, phase) in [(AT_ONCE, "landing"), (LATER, "silent")] {
        let upstream = model(vec![2]).await;
        let time = clock();
        let gateway = gateway(&upstream, &[("tool_calls_limit", Key::Int(2))], &time).await;
        let mut wild = Wild::new(Api::Anthropic, Manner::default(), &time);
        wild.run(&gateway).await;
        assert_eq!(wild.calls, 2);
        wild.says("What of the letters?", None, pause);
        wild.run(&gateway).await;
        assert_eq!(wild.phase, phase, "after {pause} ms");
        wild.says("And of the maps?", None, AT_ONCE);
        wild.run(&gateway).await;
        assert_eq!(wild.phase, "silent", "a second, different one");
    }
}

/// A decision that depended on time is repeated long after: the run has no second count in the
/// history.
#[tokio::test]
async fn c11_a_decision_of_the_clock_is_repeated() {
    let upstream = model(vec![2, 0, 0, 0]).await;
    let time = clock();
    let gateway = gateway(&upstream, &[("tool_calls_limit", Key::Int(2))], &time).await;
    let mut wild = Wild::new(Api::Anthropic, Manner::default(), &time);
    wild.run(&gateway).await;
    wild.says("You have written nothing.", None, AT_ONCE);
    wild.run(&gateway).await;
    assert_eq!(wild.phase, "landing");
    time.fetch_add(3_600_000, Ordering::SeqCst);
    let again = wild.client.clone();
    wild.client.messages().pop();
    wild.run(&gateway).await;
    assert_eq!(wild.phase, "landing", "the same request, an hour later");
    wild.client = again;
    wild.says("You have written nothing.", None, LATER);
    wild.run(&gateway).await;
    assert_eq!(wild.phase, "silent", "the same words after a while are a person's");
}

/// The message that a client sends behind an answer.
#[derive(Clone, Debug)]
enum Behind {
    /// A known client's nudge, at any time, with a number of its own.
    Nudge(usize, u32),
    /// Another speaker, where the API has names.
    Speaker(u32),
    /// Words of no known client, at once, with a number of their own.
    Again(u32),
    /// A person's next question, after a while.
    Question(u32),
}

const NUDGES: &[&str] = &[
    "[ERROR] You did not use a tool in your previous response! Please retry with a tool use.",
    "<system>No tool call detected in last message. Did you mean to finish?</system>",
    "The connection dropped mid-response. Resume directly — no recap.",
    "[structured-output-enforce] You MUST call the StructuredOutput tool. Call this tool now.",
    "Please continue working on the task on whatever approach you think is suitable.",
    "Stop hook feedback:\n- a test fails",
];

fn behind() -> impl Strategy<Value = Behind> {
    prop_oneof![
        4 => (0..NUDGES.len(), 0..99_u32).prop_map(|(which, n)| Behind::Nudge(which, n)),
        2 => (0..99_u32).prop_map(Behind::Speaker),
        4 => (0..99_u32).prop_map(Behind::Again),
        1 => (0..99_u32).prop_map(Behind::Question),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The calls run for one message of a person's never exceed its limit, whatever the client says
    /// in between and however it writes its history. Words of no known client may be a person's
    /// when they are said for the first time: they count as a message of their own then.
    #[test]
    fn c15_no_client_passes_the_limit(
        turns in proptest::collection::vec(0..3_usize, 1..40),
        said in proptest::collection::vec(behind(), 1..14),
        api in 0..3_usize,
        flat: bool,
        note: bool,
        limit in 1..5_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (upstream, time) = (model(turns).await, clock());
            let keys = [("tool_calls_limit", Key::Int(limit as i128))];
            let gateway = gateway(&upstream, &keys, &time).await;
            let mut wild = Wild::new(APIS[api], Manner { flat, note }, &time);
            let mut again = false;
            for behind in said.into_iter().map(Some).chain([None]) {
                let before = wild.calls;
                wild.run(&gateway).await;
                prop_assert!(wild.calls <= limit, "{} calls, {before} before", wild.calls);
                match behind {
                    Some(Behind::Nudge(which, n)) => {
                        wild.says(&format!("{} ({n})", NUDGES[which]), None, u64::from(n) * 100);
                    }
                    Some(Behind::Speaker(n)) if wild.client.api == Api::Chat => {
                        let text = format!("I, too, have looked at {n} of them.");
                        wild.says(&text, Some("critic"), u64::from(n) * 100);
                    }
                    Some(Behind::Again(n) | Behind::Speaker(n)) => {
                        let text = format!("You have done {n} steps, and nothing was written.");
                        wild.says(&text, None, AT_ONCE);
                        if !again {
                            (again, wild.calls) = (true, 0);
                        }
                    }
                    Some(Behind::Question(n)) => {
                        wild.says(&format!("What is in letter {n}?"), None, LATER);
                        (again, wild.calls) = (false, 0);
                    }
                    None => {}
                }
            }
            Ok(())
        })?;
    }
}
