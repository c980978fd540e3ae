//! A client by its manner: what it does with its history between one turn and the next.

use serde_json::{Value, json};
use softland_session::wire::Api;

use super::model::{Ids, SUMMARISE, Time};
use crate::support::Running;
use crate::support::client::Client;
use crate::support::reading::{End, Response, read};
use crate::support::script::items;

/// The ways in which a client changes its history.
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
    pub(crate) shortens: Shortens,
    /// A note of the time stands in the newest message, and in no other.
    pub(crate) reminds: bool,
    /// It says this once more whenever it got an answer, so often.
    pub(crate) nudges: u64,
    /// Every so many turns are asked for once more before their calls are run.
    pub(crate) regenerates: u64,
    pub(crate) serves: Serves,
}

/// The way in which it keeps its history short.
#[derive(Clone, Debug)]
pub(crate) enum Shortens {
    Never,
    /// Every so many rounds it asks for a summary, which then stands behind this opening, before so
    /// many of the newest rounds.
    Compacts {
        every: usize,
        tail: usize,
        opening: &'static str,
        question: bool,
        /// The summary stands in the result of a call that the client itself has written.
        brought: bool,
        written: Written,
    },
    /// It keeps its question and so many of the newest rounds.
    Slides {
        rounds: usize,
    },
}

/// The form in which it writes a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    AsItCame,
    Joined,
    Quoted,
    Json,
}

impl Written {
    fn write(self, summary: &str) -> String {
        let words: Vec<&str> = summary.split_whitespace().collect();
        match self {
            Self::AsItCame => summary.to_owned(),
            Self::Joined => words.join(" "),
            Self::Quoted => words.chunks(6).map(|line| format!("> {}\n", line.join(" "))).collect(),
            Self::Json => json!({ "summary": summary }).to_string(),
        }
    }
}

/// The place where the history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serves {
    /// With the client.
    Client,
    /// With the client, calls and results written into texts.
    Texts,
    /// The same in a form that nobody knows.
    Words,
    /// With the provider, by `previous_response_id`.
    Previous,
    /// With the provider, by `conversation`.
    Conversation,
}

/// Openings of summaries: of clients, and of none.
const OPENINGS: [&str; 6] = [
    "This session is being continued from a previous conversation that ran out of context.\n",
    "Another language model started to solve this problem and produced a summary:\n",
    "The conversation history before this point was compacted into the following summary:\n",
    "Context summary:\n\n<summary>\n",
    "Here is where the work stands.\n\n",
    "",
];

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
            0 if api == Api::Responses => Serves::Previous,
            1 if api == Api::Responses => Serves::Conversation,
            2 if api != Api::Responses => Serves::Texts,
            3 => Serves::Words,
            _ => Serves::Client,
        };
        let tail = dice.roll(4) as usize;
        let shortens = match dice.roll(4) {
            _ if serves != Serves::Client => Shortens::Never,
            0 => Shortens::Never,
            1 => Shortens::Slides { rounds: 4 + tail },
            _ => Shortens::Compacts {
                every: 2 + dice.roll(4) as usize,
                tail,
                opening: dice.pick(&OPENINGS),
                question: dice.roll(2) == 0,
                brought: dice.roll(3) == 0,
                written: dice.pick(&[
                    Written::AsItCame,
                    Written::Joined,
                    Written::Quoted,
                    Written::Json,
                ]),
            },
        };
        let header = dice.roll(2) == 0 && !matches!(serves, Serves::Texts | Serves::Words);
        Self {
            api,
            streams: dice.roll(2) == 0,
            limit: 3 + dice.roll(10),
            // Where rounds move to another place, a call that has its name from its place is not
            // found again.
            ids: match shortens {
                Shortens::Slides { .. } | Shortens::Compacts { tail: 1.., .. } => Ids::Own,
                Shortens::Never | Shortens::Compacts { .. } => dice.pick(&[Ids::Own, Ids::Places]),
            },
            batch: 1 + dice.roll(3),
            header: header.then(|| dice.pick(&HEADERS).to_owned()),
            reminds: dice.roll(3) == 0 && serves == Serves::Client,
            // Behind an answer a window may show no call at all.
            nudges: match shortens {
                Shortens::Slides { .. } => 0,
                _ => [0, 0, 1, 3][dice.roll(4) as usize],
            },
            regenerates: [0, 0, 0, 3][dice.roll(4) as usize],
            shortens,
            serves,
        }
    }
}

/// A client at work.
pub(crate) struct Session<'m> {
    manner: &'m Manner,
    client: Client,
    /// The messages before the rounds: the question, or a summary.
    head: Vec<Value>,
    /// Each turn with what answers it.
    rounds: Vec<Vec<Value>>,
    /// Rounds since the history was shortened.
    since: usize,
    /// The entries that the provider does not have yet, and the id under which it keeps the others.
    new: Vec<Value>,
    previous: Option<String>,
    requests: u64,
    /// The run of each request and its calls, as it was told.
    trail: String,
}

/// The message of a client that got an answer and wants another one.
const NUDGE: &str =
    "You have not finished the work. Go on with it and use the tools that you have.";

impl<'m> Session<'m> {
    pub(crate) fn new(manner: &'m Manner, question: &str) -> Self {
        let mut client = Client::on(manner.api, manner.streams);
        if let Some(header) = &manner.header {
            client = client.with(header);
        }
        match manner.serves {
            Serves::Previous => client.body["store"] = true.into(),
            Serves::Conversation => {
                client.body["store"] = true.into();
                client.body["conversation"] = "conv_5f0c7c1e".into();
            }
            Serves::Client | Serves::Texts | Serves::Words => {}
        }
        let asked = json!({"role": "user", "content": question});
        Self {
            manner,
            client,
            head: vec![asked.clone()],
            rounds: Vec::new(),
            since: 0,
            new: vec![asked],
            previous: None,
            requests: 0,
            trail: String::new(),
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

    /// Puts the opening of every conversation of its application before the history.
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
        let (mut ran, mut nudges) = (0, self.manner.nudges);
        for turn in 1..=self.manner.limit * 6 + 12 {
            self.shorten(gateway).await;
            let mut reply = self.turn(gateway).await;
            if self.manner.regenerates > 0 && turn % self.manner.regenerates == 0 {
                reply = self.turn(gateway).await;
            }
            time.passes(200);
            ran += reply.calls().len() as u64;
            let limit = self.manner.limit;
            assert!(ran <= limit, "{ran} calls of {limit} in turn {turn}: {}", self.trail);
            self.take(&reply);
            if !reply.calls().is_empty() {
                continue;
            }
            if nudges == 0 {
                return ran;
            }
            nudges -= 1;
            self.says(NUDGE);
        }
        panic!("it never ends: {ran} calls of {}", self.manner.limit);
    }

    /// One request of its own history, and what came back.
    async fn turn(&mut self, gateway: &Running) -> Response {
        let history = match self.manner.serves {
            Serves::Client | Serves::Texts | Serves::Words => self.history(),
            Serves::Previous | Serves::Conversation => self.new.clone(),
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
        for name in ["x-softland-run", "x-softland-phase", "x-softland-tool-calls"] {
            self.trail += message.header(name).unwrap_or("-");
            self.trail += " ";
        }
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
        match self.manner.serves {
            Serves::Texts => return self.take_texts(reply),
            Serves::Words => return self.take_words(reply),
            Serves::Client | Serves::Previous | Serves::Conversation => {}
        }
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
        self.since += 1;
    }

    /// The same where calls and results are texts, as smolagents writes them.
    fn take_texts(&mut self, reply: &Response) {
        let calls: Vec<String> = reply
            .calls()
            .iter()
            .map(|(id, name, input)| {
                format!(
                    "{{'id': '{id}', 'type': 'function', 'function': {{'name': '{name}', \
                     'arguments': {}}}}}",
                    input.to_string().replace('"', "'")
                )
            })
            .collect();
        let text = |role: &str, text: String| {
            let kind = json!([{"type": "text", "text": text}]);
            json!({"role": role, "content": kind})
        };
        let mut took = Vec::new();
        if calls.is_empty() {
            took.push(text("assistant", reply.text()));
        } else {
            let calls = format!("Calling tools:\n[{}]", calls.join(", "));
            took.push(text("assistant", calls));
            for (_, _, input) in reply.calls() {
                took.push(text("user", format!("Observation:\n{}", result(&input.to_string()))));
            }
        }
        self.rounds.push(took);
        self.since += 1;
    }

    /// The same in words of the client's own.
    fn take_words(&mut self, reply: &Response) {
        let called = reply.calls();
        let said: Vec<String> = called
            .iter()
            .map(|(_, name, input)| format!("Now {name} is asked for {}.", input["path"]))
            .collect();
        let said = if said.is_empty() { reply.text() } else { said.join("\n") };
        let mut took = items(self.manner.api, &[json!({"type": "text", "text": said})]);
        if !called.is_empty() {
            let came = called.iter().map(|(_, _, input)| result(&input.to_string()));
            let came = came.collect::<Vec<_>>().join("\n");
            took.push(json!({"role": "user", "content": format!("What came of it: {came}")}));
        }
        self.rounds.push(took);
        self.since += 1;
    }

    async fn shorten(&mut self, gateway: &Running) {
        match self.manner.shortens {
            Shortens::Never => {}
            Shortens::Slides { rounds } => {
                let from = self.rounds.len().saturating_sub(rounds);
                self.rounds.drain(..from);
            }
            Shortens::Compacts { every, tail, opening, question, brought, written } => {
                // What was asked is not taken out of sight.
                let asked = self.rounds.last().is_some_and(|last| last.len() == 1);
                if self.since < every || asked {
                    return;
                }
                self.since = 0;
                let summary = self.summary(gateway).await;
                let from = self.rounds.len().saturating_sub(tail);
                self.rounds.drain(..from);
                self.head.truncate(usize::from(question));
                let text = format!("{opening}{}", written.write(&summary));
                if brought {
                    self.bring(&text);
                } else {
                    self.head.push(json!({"role": "user", "content": text}));
                }
            }
        }
    }

    /// Puts a text into the history as the result of a call that the client itself has written.
    fn bring(&mut self, text: &str) {
        if self.head.is_empty() {
            self.head.push(json!({"role": "user", "content": "Go on with the work."}));
        }
        let api = self.manner.api;
        let call = json!({"type": "tool_use", "id": "recall", "name": "recall", "input": {}});
        self.head.extend(items(api, &[call]));
        self.head.push(match api {
            Api::Anthropic => json!({"role": "user", "content": [{"type": "tool_result",
                "tool_use_id": "recall", "content": text}]}),
            Api::Chat => json!({"role": "tool", "tool_call_id": "recall", "content": text}),
            Api::Responses => json!({"type": "function_call_output", "call_id": "recall",
                "output": text}),
        });
    }

    /// Asks for a summary, without tools.
    async fn summary(&mut self, gateway: &Running) -> String {
        let mut history = self.history();
        history.push(json!({"role": "user", "content": SUMMARISE}));
        let tools = self.client.body.as_object_mut().unwrap().remove("tools");
        let reply = self.post(gateway, history).await;
        self.client.body["tools"] = tools.unwrap();
        assert!(reply.calls().is_empty(), "a summary is a text");
        reply.text()
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

/// Returns a tool's result, long enough to be recognized.
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
