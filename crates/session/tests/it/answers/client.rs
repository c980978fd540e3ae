//! A client of any of the three APIs that takes its answers by a tool's call: its requests, and the
//! responses that it is given.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use softland_core::policy::Policy;
use softland_core::{Role, RunEnding};
use softland_session::wire::Api;
use softland_session::{Context, Exchange, Intervention, Output, Step};

/// What a client sends in each of its requests.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) client: &'static str,
    pub(crate) api: Api,
    /// `auto`, `any`, or the name of the tool that is forced.
    pub(crate) choice: &'static str,
    pub(crate) tools: &'static [&'static str],
    /// The tool whose call is the answer.
    pub(crate) answer: &'static str,
}

/// A turn of the model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) text: &'static str,
    /// Tools and their arguments.
    pub(crate) calls: Vec<(String, Value)>,
    /// Cut by the output limit in the middle of its last call.
    pub(crate) cut: bool,
}

/// A client with its history.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) shape: Shape,
    pub(crate) policy: Policy,
    pub(crate) streams: bool,
    pub(crate) history: Vec<Value>,
    ids: u64,
}

/// What a client got for a request.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) text: String,
    /// Ids, tools and arguments.
    pub(crate) calls: Vec<(String, String, String)>,
    pub(crate) ended: Option<RunEnding>,
    pub(crate) answer: Option<String>,
    pub(crate) local: bool,
    /// Calls of the run before this turn.
    pub(crate) used: u64,
    /// What was said beside the interventions.
    pub(crate) told: Vec<String>,
}

pub(crate) const OBJECT: &str = r#"{"steps":4,"summary":"It is twelve."}"#;

pub(crate) fn object() -> Value {
    serde_json::from_str(OBJECT).unwrap()
}

impl Turn {
    pub(crate) fn says(text: &'static str) -> Self {
        Self { text, ..Self::default() }
    }

    pub(crate) fn calls(tool: &str, input: Value) -> Self {
        Self { calls: vec![(tool.to_owned(), input)], ..Self::default() }
    }
}

fn next_id() -> u64 {
    static IDS: AtomicU64 = AtomicU64::new(100_000_000_000);
    IDS.fetch_add(1, Ordering::Relaxed)
}

impl Client {
    pub(crate) fn new(shape: &Shape, policy: Policy, streams: bool) -> Self {
        let history = vec![json!({"role": "user", "content": "How many are there?"})];
        Self { shape: shape.clone(), policy, streams, history, ids: 0 }
    }

    /// A person says something.
    pub(crate) fn says(&mut self, text: &str) {
        self.history.push(json!({"role": "user", "content": text}));
    }

    /// A turn of one call, and its result.
    pub(crate) fn round(&mut self, tool: &str, result: &str) {
        self.ids += 1;
        let id = format!("call_{:012}", next_id());
        let input = json!({"n": self.ids});
        self.takes(&[(id.clone(), tool.to_owned(), input.to_string())]);
        self.gives(&id, result);
    }

    /// A turn goes into the history.
    pub(crate) fn takes(&mut self, calls: &[(String, String, String)]) {
        let input = |input: &str| serde_json::from_str::<Value>(input).unwrap();
        match self.shape.api {
            Api::Anthropic => {
                let blocks = calls.iter().map(|(id, name, arguments)| {
                    json!({"type": "tool_use", "id": id, "name": name, "input": input(arguments)})
                });
                let content: Vec<_> = blocks.collect();
                self.history.push(json!({"role": "assistant", "content": content}));
            }
            Api::Chat => {
                let calls = calls.iter().map(|(id, name, arguments)| {
                    let function = json!({"name": name, "arguments": arguments});
                    json!({"id": id, "type": "function", "function": function})
                });
                let calls: Vec<_> = calls.collect();
                let turn = json!({"role": "assistant", "content": null, "tool_calls": calls});
                self.history.push(turn);
            }
            Api::Responses => self.history.extend(calls.iter().map(|(id, name, arguments)| {
                json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
            })),
        }
    }

    /// The result of a call.
    pub(crate) fn gives(&mut self, id: &str, text: &str) {
        self.history.push(match self.shape.api {
            Api::Anthropic => {
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": text});
                json!({"role": "user", "content": [result]})
            }
            Api::Chat => json!({"role": "tool", "tool_call_id": id, "content": text}),
            Api::Responses => {
                json!({"type": "function_call_output", "call_id": id, "output": text})
            }
        });
    }

    fn body(&self) -> Value {
        let (api, name) = (self.shape.api, |name: &str| {
            let schema = json!({"type": "object"});
            match self.shape.api {
                Api::Anthropic => json!({"name": name, "input_schema": schema}),
                Api::Chat => {
                    let function = json!({"name": name, "parameters": schema});
                    json!({"type": "function", "function": function})
                }
                Api::Responses => json!({"type": "function", "name": name, "parameters": schema}),
            }
        });
        let tools: Vec<_> = self.shape.tools.iter().map(|tool| name(tool)).collect();
        let mut body = json!({"model": model(api), "stream": self.streams, "tools": tools});
        body[if api == Api::Responses { "input" } else { "messages" }] =
            Value::Array(self.history.clone());
        if api == Api::Anthropic {
            body["max_tokens"] = json!(1000);
        }
        match (self.shape.choice, api) {
            ("auto", _) => {}
            ("any", Api::Anthropic) => body["tool_choice"] = json!({"type": "any"}),
            ("any", _) => body["tool_choice"] = json!("required"),
            (tool, Api::Anthropic) => {
                body["tool_choice"] = json!({"type": "tool", "name": tool});
            }
            (tool, Api::Chat) => {
                body["tool_choice"] = json!({"type": "function", "function": {"name": tool}});
            }
            (tool, Api::Responses) => {
                body["tool_choice"] = json!({"type": "function", "name": tool});
            }
        }
        body
    }

    /// Sends a request, which the model answers by these turns; the last one stands for all that
    /// are asked for beyond them.
    pub(crate) fn asks(&self, turns: &[Turn]) -> Got {
        self.asks_in_pieces(turns, usize::MAX)
    }

    /// The same with streams that come in pieces of so many bytes.
    pub(crate) fn asks_in_pieces(&self, turns: &[Turn], piece: usize) -> Got {
        let api = self.shape.api;
        let mut context = Context::new(Role::Gateway, self.policy.clone(), None, model(api));
        context.api = api;
        let (mut out, mut requests) = (Output::default(), 0);
        let body = self.body().to_string().into_bytes();
        let mut exchange = Exchange::from_request(body, context, &mut out).unwrap();
        let used = exchange.run().used().calls;
        let done = loop {
            match exchange.next_step().unwrap() {
                Step::Send(_) => {}
                Step::Done(done) => break done,
            }
            let turn = turns.get(requests).or_else(|| turns.last()).unwrap();
            requests += 1;
            assert!(requests < 20, "{}: no end", self.shape.client);
            let response = super::responses::response(api, turn, self.streams);
            if !self.streams {
                exchange.push_whole(response.as_bytes(), &mut out).unwrap();
                continue;
            }
            for bytes in response.as_bytes().chunks(piece.min(response.len())) {
                exchange.push_bytes(bytes, &mut out).unwrap();
            }
            exchange.finish_response(&mut out).unwrap();
        };
        let bytes = String::from_utf8(out.bytes.clone()).unwrap();
        let (text, calls) = super::responses::read(api, &bytes, self.streams);
        let told = out.events.iter().filter_map(|event| match event {
            softland_session::Event::Intervention { intervention, text, .. }
                if *intervention == Intervention::Refuse =>
            {
                text.clone()
            }
            _ => None,
        });
        let told = told.collect();
        let (ended, answer, local) = (done.ended, done.answer, done.local);
        Got { text, calls, ended, answer, local, used, told }
    }
}

pub(crate) fn model(api: Api) -> &'static str {
    match api {
        Api::Anthropic => "claude-sonnet-4-5",
        Api::Chat | Api::Responses => "gpt-4.1",
    }
}
