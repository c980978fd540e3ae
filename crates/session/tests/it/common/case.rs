//! A case of the adversaries as data: which model, what it says turn by turn, who asks it what
//! under which policies, and what the client is like. A driver needs nothing else, so that a case
//! that failed once stays the same however the generator changes.
//!
//! As JSON, with everything left out that is as usual:
//!
//! ```json
//! {"about": "what went wrong", "meets": ["rung ask"],
//!  "api": "chat or responses, where it is not Anthropic's", "model": "claude-opus-5", "rules_of": "the listed id an unlisted model has the rules of",
//!  "client": {"plan": 7, "thinking": true, "whole": true, "answer_tool": true, "cache": true, "shape": 1,
//!             "piece_bytes": 7, "vain": {"2": 1}, "lost": [4], "unbound": true, "restyles": true,
//!             "reorders": true, "forgets": true, "notes": true, "emptied": 3, "expires": {"1": 5},
//!             "moves": {"2": "rewind", "3": "compact", "5": "clear"}},
//!  "asks": [{"say": "What is it?", "policy": {"turns_limit": 2}}, {"remind": "go on"},
//!           {"say": "Or this?", "fork": 1}],
//!  "turns": [{"parts": [{"thinking": "hm"}, {"redacted": true}, {"text": "so"},
//!                       {"call": "grep", "id": "twice", "input": "{\"a\":1}"},
//!                       {"server_call": "web_search", "input": "{}"},
//!                       {"server_result": "web_search_tool_result", "content": "[]"}],
//!             "stop": "max_tokens", "lawless": true, "first_delay_ms": 10, "delta_delay_ms": 1,
//!             "status": 529, "retry_after": 1, "error_after": 3, "cut_after": 3}]}
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use softland_session::core::policy::Policy;
use softland_session::wire::Api;
use softland_sim::{Fault, Part, Stop, Turn};

/// One case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    /// What once went wrong in it.
    pub(crate) about: String,
    /// What a driver must note of it, or it is no longer the case that it was.
    pub(crate) meets: Vec<String>,
    /// The protocol that client and provider speak.
    pub(crate) api: Api,
    /// The model's id.
    pub(crate) model: String,
    /// The listed model whose rules it has, where no table lists it.
    pub(crate) rules_of: Option<String>,
    pub(crate) manner: Manner,
    pub(crate) asks: Vec<Ask>,
    pub(crate) turns: Vec<Turn>,
}

/// What the client is like. The loop knows `thinking` and `piece_bytes` alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Manner {
    /// What it does beside asking is drawn from this number, where a driver does so.
    pub(crate) plan: u64,
    /// It asks for visible thinking where the model has it.
    pub(crate) thinking: bool,
    /// It takes whole responses instead of streams.
    pub(crate) whole: bool,
    /// It declares the tool `respond`.
    pub(crate) answer_tool: bool,
    /// It marks its requests for the cache.
    pub(crate) cache: bool,
    /// How it writes results: as a string, as a part, as two.
    pub(crate) shape: u64,
    /// Streams come in pieces of that many bytes.
    pub(crate) piece_bytes: Option<usize>,
    /// Request by number: how often the store says that its context was answered in vain.
    pub(crate) vain: BTreeMap<u64, u64>,
    /// Numbers of the requests whose response is lost on the way, so that they are sent again.
    pub(crate) lost: BTreeSet<u64>,
    /// Its account is an old one: thinking is not bound to its prefix.
    pub(crate) unbound: bool,
    /// It writes a text now as a string, now as a list, and moves a cache mark to the newest block.
    pub(crate) restyles: bool,
    /// It puts the calls of a turn behind its texts.
    pub(crate) reorders: bool,
    /// At every new question it drops the thinking so far, and clears the results.
    pub(crate) forgets: bool,
    /// It puts messages of the system's between, where the model takes them.
    pub(crate) notes: bool,
    /// In a second run of the case the store is emptied before this request.
    pub(crate) emptied: Option<u64>,
    /// Request by number: after so many pieces of its response the run's time is over.
    pub(crate) expires: BTreeMap<u64, u64>,
    /// What it does to its history before a request.
    pub(crate) moves: BTreeMap<u64, Move>,
}

/// What a client does to its history in the middle of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// It goes back to an earlier round.
    Rewind,
    /// It puts a summary in the place of everything.
    Compact,
    /// It puts a marker in the place of every result but the newest.
    Clear,
}

const APIS: [(&str, Api); 2] = [("chat", Api::Chat), ("responses", Api::Responses)];

const MOVES: [(&str, Move); 3] =
    [("rewind", Move::Rewind), ("compact", Move::Compact), ("clear", Move::Clear)];

/// How a run begins, or goes on after an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ask {
    /// Somebody asks, under a policy.
    Say(String, Box<Policy>),
    /// The harness speaks; no human does.
    Remind(String),
    /// Somebody goes back by so many questions and asks another one there.
    Fork(u64, String, Box<Policy>),
}

impl Case {
    /// The listed model whose rules hold.
    pub(crate) fn rules(&self) -> &str {
        self.rules_of.as_deref().unwrap_or(&self.model)
    }

    /// The same case with ids as a provider gives them: a gateway passes ids on as they are, and a
    /// client with two calls of one id in its history is refused whatever a gateway does.
    pub(crate) fn with_own_ids(mut self) -> Self {
        for part in self.turns.iter_mut().flat_map(|turn| &mut turn.parts) {
            if let Part::Tool { id, .. } = part {
                *id = None;
            }
        }
        self
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut case = Map::new();
        put(&mut case, "about", json!(self.about), self.about.is_empty());
        put(&mut case, "meets", json!(self.meets), self.meets.is_empty());
        let api = APIS.iter().find(|(_, api)| *api == self.api).map(|(name, _)| *name);
        put(&mut case, "api", json!(api), api.is_none());
        case.insert("model".to_owned(), json!(self.model));
        put(&mut case, "rules_of", json!(self.rules_of), self.rules_of.is_none());
        put(&mut case, "client", self.manner.to_json(), self.manner == Manner::default());
        case.insert("asks".to_owned(), self.asks.iter().map(Ask::to_json).collect());
        case.insert("turns".to_owned(), self.turns.iter().map(turn_to_json).collect());
        Value::Object(case)
    }

    /// The same, a line for each question and each turn.
    pub(crate) fn to_text(&self) -> String {
        let Value::Object(case) = self.to_json() else { return String::new() };
        let lines = |list: &Value| {
            let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
            items.iter().map(|item| format!("\n    {item}")).collect::<Vec<_>>().join(",")
        };
        let fields = case.iter().map(|(key, value)| match key.as_str() {
            "asks" | "turns" => format!("  \"{key}\": [{}\n  ]", lines(value)),
            _ => format!("  \"{key}\": {value}"),
        });
        format!("{{\n{}\n}}\n", fields.collect::<Vec<_>>().join(",\n"))
    }

    /// Reads a case.
    ///
    /// # Errors
    /// Says what is not as it should be.
    pub(crate) fn from_json(value: &Value) -> Result<Self, String> {
        let mut case = Fields::of(value)?;
        let read = Self {
            about: case.text("about")?.unwrap_or_default(),
            meets: case
                .list("meets", |item| item.as_str().map(str::to_owned).ok_or_else(|| not(item)))?,
            api: case.text("api")?.map_or(Ok(Api::Anthropic), |name| api_named(&name))?,
            model: case.text("model")?.ok_or("a case has a `model`")?,
            rules_of: case.text("rules_of")?,
            manner: Manner::from_json(&case.take("client").unwrap_or_else(|| json!({})))?,
            asks: case.list("asks", Ask::from_json)?,
            turns: case.list("turns", turn_from_json)?,
        };
        match read.asks.first() {
            Some(Ask::Say(..)) => case.done(read),
            _ => Err("a case begins with somebody who asks".to_owned()),
        }
    }
}

impl Manner {
    fn to_json(&self) -> Value {
        let mut manner = Map::new();
        put(&mut manner, "plan", json!(self.plan), self.plan == 0);
        let flags = [
            ("thinking", self.thinking),
            ("whole", self.whole),
            ("answer_tool", self.answer_tool),
            ("cache", self.cache),
            ("unbound", self.unbound),
            ("restyles", self.restyles),
            ("reorders", self.reorders),
            ("forgets", self.forgets),
            ("notes", self.notes),
        ];
        for (key, set) in flags {
            put(&mut manner, key, json!(set), !set);
        }
        put(&mut manner, "shape", json!(self.shape), self.shape == 0);
        put(&mut manner, "piece_bytes", json!(self.piece_bytes), self.piece_bytes.is_none());
        let vain = self.vain.iter().map(|(at, times)| (at.to_string(), json!(times)));
        put(&mut manner, "vain", Value::Object(vain.collect()), self.vain.is_empty());
        put(&mut manner, "lost", json!(self.lost), self.lost.is_empty());
        put(&mut manner, "emptied", json!(self.emptied), self.emptied.is_none());
        let expires = self.expires.iter().map(|(at, after)| (at.to_string(), json!(after)));
        put(&mut manner, "expires", Value::Object(expires.collect()), self.expires.is_empty());
        let name = |wanted: Move| MOVES.iter().find(|(_, m)| *m == wanted).map(|(name, _)| *name);
        let moves = self.moves.iter().map(|(at, made)| (at.to_string(), json!(name(*made))));
        put(&mut manner, "moves", Value::Object(moves.collect()), self.moves.is_empty());
        Value::Object(manner)
    }

    fn from_json(value: &Value) -> Result<Self, String> {
        let mut manner = Fields::of(value)?;
        let made = |value: &Value| {
            let known = MOVES.iter().find(|(name, _)| value == name);
            known.map(|(_, made)| *made).ok_or_else(|| not(value))
        };
        let read = Self {
            plan: manner.number("plan")?.unwrap_or(0),
            thinking: manner.flag("thinking")?,
            whole: manner.flag("whole")?,
            answer_tool: manner.flag("answer_tool")?,
            cache: manner.flag("cache")?,
            shape: manner.number("shape")?.unwrap_or(0),
            piece_bytes: manner.number("piece_bytes")?.map(|n| n.max(1) as usize),
            vain: manner.by_request("vain", number)?,
            lost: manner.list("lost", number)?.into_iter().collect(),
            unbound: manner.flag("unbound")?,
            restyles: manner.flag("restyles")?,
            reorders: manner.flag("reorders")?,
            forgets: manner.flag("forgets")?,
            notes: manner.flag("notes")?,
            emptied: manner.number("emptied")?,
            expires: manner.by_request("expires", number)?,
            moves: manner.by_request("moves", made)?,
        };
        manner.done(read)
    }
}

impl Ask {
    fn to_json(&self) -> Value {
        let (text, policy, fork) = match self {
            Self::Remind(text) => return json!({"remind": text}),
            Self::Say(text, policy) => (text, policy, None),
            Self::Fork(back, text, policy) => (text, policy, Some(back)),
        };
        let fields = |policy: &Policy| match serde_json::to_value(policy) {
            Ok(Value::Object(fields)) => fields,
            other => panic!("a policy is an object: {other:?}"),
        };
        let usual = fields(&Policy::default());
        let mut set = fields(policy);
        set.retain(|key, value| usual.get(key) != Some(value));
        let mut ask = json!({"say": text, "policy": set});
        if let Some(back) = fork {
            ask["fork"] = json!(back);
        }
        ask
    }

    fn from_json(value: &Value) -> Result<Self, String> {
        let mut ask = Fields::of(value)?;
        if let Some(text) = ask.text("remind")? {
            return ask.done(Self::Remind(text));
        }
        let text = ask.text("say")?.ok_or("an ask has `say` or `remind`")?;
        let policy = ask.take("policy").unwrap_or_else(|| json!({}));
        let policy = serde_json::from_value(policy).map_err(|e| format!("`policy`: {e}"))?;
        match ask.number("fork")? {
            Some(back) => ask.done(Self::Fork(back, text, Box::new(policy))),
            None => ask.done(Self::Say(text, Box::new(policy))),
        }
    }
}

/// Stops by name, but for the one that has a text of its own.
const STOPS: [(&str, Stop); 6] = [
    ("end_turn", Stop::EndTurn),
    ("tool_use", Stop::ToolUse),
    ("max_tokens", Stop::MaxTokens),
    ("pause_turn", Stop::PauseTurn),
    ("refusal", Stop::Refusal),
    ("model_context_window_exceeded", Stop::ContextWindow),
];

fn turn_to_json(turn: &Turn) -> Value {
    let mut fields = Map::new();
    let parts: Value = turn.parts.iter().map(part_to_json).collect();
    put(&mut fields, "parts", parts, turn.parts.is_empty());
    if let Some(Stop::StopSequence(sequence)) = &turn.stop {
        fields.insert("stop_sequence".to_owned(), json!(sequence));
    } else if let Some((name, _)) = STOPS.iter().find(|(_, stop)| Some(stop) == turn.stop.as_ref())
    {
        fields.insert("stop".to_owned(), json!(name));
    }
    match &turn.fault {
        None => {}
        Some(Fault::Http { status, retry_after }) => {
            fields.insert("status".to_owned(), json!(status));
            put(&mut fields, "retry_after", json!(retry_after), retry_after.is_none());
        }
        Some(Fault::ErrorEvent { after }) => {
            fields.insert("error_after".to_owned(), json!(after));
        }
        Some(Fault::Cut { after }) => {
            fields.insert("cut_after".to_owned(), json!(after));
        }
    }
    put(&mut fields, "first_delay_ms", json!(turn.first_delay_ms), turn.first_delay_ms == 0);
    put(&mut fields, "delta_delay_ms", json!(turn.delta_delay_ms), turn.delta_delay_ms == 0);
    put(&mut fields, "lawless", json!(true), !turn.lawless);
    Value::Object(fields)
}

fn turn_from_json(value: &Value) -> Result<Turn, String> {
    let mut turn = Fields::of(value)?;
    let stop = match (turn.text("stop")?, turn.text("stop_sequence")?) {
        (None, None) => None,
        (None, Some(sequence)) => Some(Stop::StopSequence(sequence)),
        (Some(name), _) => {
            let known = STOPS.iter().find(|(known, _)| *known == name);
            Some(known.ok_or_else(|| format!("no stop `{name}`"))?.1.clone())
        }
    };
    let retry_after = turn.number("retry_after")?;
    let status = turn.number("status")?;
    let (error, cut) = (turn.number("error_after")?, turn.number("cut_after")?);
    let fault = match (status, error, cut) {
        (Some(status), ..) => Some(Fault::Http { status: status as u16, retry_after }),
        (_, Some(after), _) => Some(Fault::ErrorEvent { after: after as usize }),
        (.., Some(after)) => Some(Fault::Cut { after: after as usize }),
        _ => None,
    };
    let read = Turn {
        parts: turn.list("parts", part_from_json)?,
        stop,
        fault,
        first_delay_ms: turn.number("first_delay_ms")?.unwrap_or(0),
        delta_delay_ms: turn.number("delta_delay_ms")?.unwrap_or(0),
        lawless: turn.flag("lawless")?,
    };
    turn.done(read)
}

fn part_to_json(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({"text": text}),
        Part::Thinking(text) => json!({"thinking": text}),
        Part::RedactedThinking => json!({"redacted": true}),
        Part::Tool { id: None, name, input } => json!({"call": name, "input": input}),
        Part::Tool { id, name, input } => json!({"call": name, "id": id, "input": input}),
        Part::ServerTool { name, input } => json!({"server_call": name, "input": input}),
        Part::ServerResult { kind, content } => json!({"server_result": kind, "content": content}),
    }
}

fn part_from_json(value: &Value) -> Result<Part, String> {
    let mut part = Fields::of(value)?;
    let input = part.text("input")?.unwrap_or_else(|| "{}".to_owned());
    let read = if let Some(text) = part.text("text")? {
        Part::Text(text)
    } else if let Some(text) = part.text("thinking")? {
        Part::Thinking(text)
    } else if part.flag("redacted")? {
        Part::RedactedThinking
    } else if let Some(name) = part.text("call")? {
        Part::Tool { id: part.text("id")?, name, input }
    } else if let Some(name) = part.text("server_call")? {
        Part::ServerTool { name, input }
    } else if let Some(kind) = part.text("server_result")? {
        let content = part.text("content")?.unwrap_or_else(|| "[]".to_owned());
        Part::ServerResult { kind, content }
    } else {
        return Err(not(value));
    };
    part.done(read)
}

fn api_named(name: &str) -> Result<Api, String> {
    let known = APIS.iter().find(|(known, _)| *known == name);
    known.map(|(_, api)| *api).ok_or_else(|| format!("no api `{name}`"))
}

fn put(fields: &mut Map<String, Value>, key: &str, value: Value, usual: bool) {
    if !usual {
        fields.insert(key.to_owned(), value);
    }
}

fn not(value: &Value) -> String {
    format!("not to be read as what stands there: {value}")
}

fn number(value: &Value) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| not(value))
}

/// The members of an object that nobody has asked for yet.
struct Fields(Map<String, Value>);

impl Fields {
    fn of(value: &Value) -> Result<Self, String> {
        value.as_object().cloned().map(Self).ok_or_else(|| not(value))
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key)
    }

    fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        let text = |value: Value| value.as_str().map(str::to_owned).ok_or_else(|| not(&value));
        self.take(key).map(text).transpose()
    }

    fn number(&mut self, key: &str) -> Result<Option<u64>, String> {
        self.take(key).map(|value| number(&value)).transpose()
    }

    fn flag(&mut self, key: &str) -> Result<bool, String> {
        self.take(key).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| not(&value)))
    }

    fn list<T>(
        &mut self,
        key: &str,
        item: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let list = self.take(key).unwrap_or_else(|| json!([]));
        list.as_array().ok_or_else(|| not(&list))?.iter().map(item).collect()
    }

    /// An object of values by the number of a request.
    fn by_request<T>(
        &mut self,
        key: &str,
        item: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<BTreeMap<u64, T>, String> {
        let Some(given) = self.take(key) else { return Ok(BTreeMap::new()) };
        let entry = |(at, value): (String, Value)| {
            Ok((at.parse().map_err(|_| not(&given))?, item(&value)?))
        };
        Self::of(&given)?.0.into_iter().map(entry).collect()
    }

    /// What was read, if nothing is left over.
    fn done<T>(self, read: T) -> Result<T, String> {
        match self.0.keys().next() {
            None => Ok(read),
            Some(key) => Err(format!("unknown key `{key}`")),
        }
    }
}
