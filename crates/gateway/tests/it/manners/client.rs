//! A client by its manner: what it does with its history between one turn and the next.

use serde_json::{Value, json};
use softland_session::wire::Api;

use super::model::{Ids, Time};
use crate::support::Running;
use crate::support::client::Client;
use crate::support::reading::{End, Response, read};

/// What a client does with its history.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    pub(crate) api: Api,
    pub(crate) streams: bool,
    pub(crate) limit: u64,
    pub(crate) ids: Ids,
    /// Calls of a turn at most.
    pub(crate) batch: u64,
    /// The header that names its session, if it sends one.
    pub(crate) header: Option<String>,
    /// A note of the time stands in the newest message, and in no other.
    pub(crate) reminds: bool,
    /// Every so many turns are asked for once more before their calls are run.
    pub(crate) regenerates: u64,
    pub(crate) serves: Serves,
}

/// Where the history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serves {
    /// With the client.
    Client,
    /// With the provider, by `previous_response_id`.
    Previous,
}

const HEADERS: [&str; 8] = [
    "x-softland-session: work",
    "x-softland-run: work",
    "x-claude-code-session-id: 5f0c7c1e-work",
    "x-session-id: ses_work",
    "session-id: 0199-work",
    "agent-session-id: 20261126_1",
    "x-litellm-session-id: work",
    "x-affinity: work",
];

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize].clone()
    }
}

impl Manner {
    /// The manner of this seed.
    pub(crate) fn drawn(seed: u64) -> Self {
        let mut dice = Dice((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..4 {
            dice.roll(2);
        }
        let api = dice.pick(&[Api::Anthropic, Api::Chat, Api::Responses]);
        let serves = match dice.roll(6) {
            0 | 1 if api == Api::Responses => Serves::Previous,
            _ => Serves::Client,
        };
        let header = dice.roll(2) == 0;
        Self {
            api,
            streams: dice.roll(2) == 0,
            limit: 3 + dice.roll(10),
            ids: dice.pick(&[Ids::Own, Ids::Places]),
            batch: 1 + dice.roll(3),
            header: header.then(|| dice.pick(&HEADERS).to_owned()),
            reminds: dice.roll(3) == 0 && serves == Serves::Client,
            regenerates: [0, 0, 0, 3][dice.roll(4) as usize],
            serves,
        }
    }
}

/// A client at work.
pub(crate) struct Session<'m> {
    manner: &'m Manner,
    client: Client,
    /// What stands before the rounds: the question, or a summary.
    head: Vec<Value>,
    /// Each turn with what answers it.
    rounds: Vec<Vec<Value>>,
    /// What the provider does not have yet, and the id that it keeps the rest under.
    new: Vec<Value>,
    previous: Option<String>,
    requests: u64,
}

impl<'m> Session<'m> {
    pub(crate) fn new(manner: &'m Manner, question: &str) -> Self {
        let mut client = Client::on(manner.api, manner.streams);
        if let Some(header) = &manner.header {
            client = client.with(header);
        }
        if manner.serves == Serves::Previous {
            client.body["store"] = true.into();
        }
        let asked = json!({"role": "user", "content": question});
        Self {
            manner,
            client,
            head: vec![asked.clone()],
            rounds: Vec::new(),
            new: vec![asked],
            previous: None,
            requests: 0,
        }
    }

    /// A human asks something else.
    pub(crate) fn asks(&mut self, text: &str) {
        self.says(text);
    }

    fn says(&mut self, text: &str) {
        let message = json!({"role": "user", "content": text});
        self.new.push(message.clone());
        self.rounds.push(vec![message]);
    }

    /// One turn, its calls run: how many there were.
    pub(crate) async fn step(&mut self, gateway: &Running, time: &Time) -> u64 {
        let reply = self.turn(gateway).await;
        time.passes(200);
        self.take(&reply);
        reply.calls().len() as u64
    }

    /// All that the model has said in it.
    pub(crate) fn said(&self) -> String {
        let said = self.rounds.iter().flatten().filter(|message| message["role"] == "assistant");
        said.map(|message| text_of(&message["content"])).collect::<Vec<_>>().join("\n")
    }

    /// Goes back to where so many of its rounds had been.
    pub(crate) fn rewinds(&mut self, rounds: usize) {
        self.rounds.truncate(rounds);
    }

    /// What every conversation of its application begins with.
    pub(crate) fn begins_with(&mut self, examples: Vec<Value>) {
        self.head.splice(0..0, examples);
    }

    /// A member of its requests.
    pub(crate) fn sets(&mut self, key: &str, value: Value) {
        self.client.body[key] = value;
    }

    /// One more header.
    pub(crate) fn sends(&mut self, header: &str) {
        self.client.headers.push(header.to_owned());
    }

    /// Goes on until it has the answer that it takes for one; how many calls were run.
    pub(crate) async fn lands(&mut self, gateway: &Running, time: &Time) -> u64 {
        let mut ran = 0;
        for turn in 1..=self.manner.limit * 6 + 12 {
            let mut reply = self.turn(gateway).await;
            if self.manner.regenerates > 0 && turn % self.manner.regenerates == 0 {
                reply = self.turn(gateway).await;
            }
            time.passes(200);
            ran += reply.calls().len() as u64;
            let limit = self.manner.limit;
            assert!(ran <= limit, "{ran} calls of {limit} in turn {turn}: {}", reply.text());
            self.take(&reply);
            if reply.calls().is_empty() {
                return ran;
            }
        }
        panic!("it never ends: {ran} calls of {}", self.manner.limit);
    }

    /// One request of its own history, and what came back.
    async fn turn(&mut self, gateway: &Running) -> Response {
        let history = match self.manner.serves {
            Serves::Client => self.history(),
            Serves::Previous => self.new.clone(),
        };
        if let Some(previous) = &self.previous {
            self.client.body["previous_response_id"] = previous.clone().into();
        }
        let reply = self.post(gateway, history).await;
        self.requests += 1;
        reply
    }

    async fn post(&mut self, gateway: &Running, mut history: Vec<Value>) -> Response {
        if self.manner.reminds {
            self.remind(&mut history);
        }
        *self.client.messages() = history;
        let message = self.client.post(gateway).await;
        assert_eq!(message.status(), 200, "{}", message.text());
        let reply = read(&message);
        assert_eq!(reply.end, End::Whole, "{}", message.text());
        reply
    }

    /// The time, in the newest message.
    fn remind(&self, history: &mut [Value]) {
        let note = format!("<info-msg>It is now 2026-11-26 10:{:02}:00</info-msg>", self.requests);
        let Some(newest) = history.last_mut() else { return };
        match (&newest["content"], self.manner.api) {
            (Value::String(text), _) if newest["role"] == "user" => {
                newest["content"] = format!("{text}\n{note}").into();
            }
            (Value::Array(_), Api::Anthropic) => {
                let blocks = newest["content"].as_array_mut().unwrap();
                blocks.push(json!({"type": "text", "text": note}));
            }
            _ => {}
        }
    }

    fn history(&self) -> Vec<Value> {
        self.head.iter().chain(self.rounds.iter().flatten()).cloned().collect()
    }

    /// Takes a turn and runs its calls.
    fn take(&mut self, reply: &Response) {
        let before = self.client.messages().len();
        self.client.takes_response(reply);
        let took: Vec<Value> = self.client.messages().split_off(before);
        let took: Vec<Value> = took.into_iter().map(lengthened).collect();
        let answers = |item: &&Value| item["type"] == "function_call_output";
        self.new = took.iter().filter(answers).cloned().collect();
        if self.manner.serves == Serves::Previous {
            self.previous = Some(reply.id.clone());
        }
        self.rounds.push(took);
    }
}

/// The text of a message's content.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        content => {
            let blocks = content.as_array().into_iter().flatten();
            blocks.filter_map(|block| block["text"].as_str()).collect()
        }
    }
}

/// What a tool says: long enough to be known again.
fn result(of: &str) -> String {
    format!("What stands in {of} is told here at some length, so that it can be known again. ")
        .repeat(3)
}

/// A message, its results at some length.
fn lengthened(mut message: Value) -> Value {
    let long = |value: &mut Value| {
        let text = value.as_str().unwrap_or_default().to_owned();
        *value = result(&text).into();
    };
    if message["role"] == "tool" {
        long(&mut message["content"]);
    } else if message["type"] == "function_call_output" {
        long(&mut message["output"]);
    } else if message["role"] == "user" {
        let blocks = message["content"].as_array_mut().into_iter().flatten();
        blocks.for_each(|block| long(&mut block["content"]));
    }
    message
}
