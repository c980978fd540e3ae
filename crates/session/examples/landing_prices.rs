//! What it costs to land a run of 100,000 tokens, by rung and by model, beside what other programs
//! do at a limit: dropping the tools, and forcing a tool. Everything is simulated: each line is a
//! run against the in-process simulator, whose tokens are estimates and whose prices are listed
//! ones. Prints a Markdown table.
//!
//! The run is a scripted one, 25 calls of a tool with long results, with cache marks as the agent
//! sends them: one behind the system prompt, one that moves with the end of the request.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use serde_json::{Value, json};
use softland_session::core::policy::{Landing, Policy};
use softland_session::core::{PinnedRecords, Role, Rung};
use softland_session::{Context, Done, Exchange, Output, Step};
use softland_sim::{Config, Part, Request, Scenario, Sim, Turn, Usage, find_model};

/// Models that differ in what landing costs them, with what is particular about each.
pub(crate) const MODELS: [(&str, &str); 5] = [
    ("claude-sonnet-4-5", "cache read 0.1×; may be forced"),
    ("claude-opus-5", "cache read 0.1×; may be forced; mid-conversation system messages"),
    ("claude-sonnet-5-5", "cache read 0.05×; never forced"),
    ("claude-opus-5-5", "cache read 0.05×; never forced; thinking bound to the prefix"),
    ("claude-fable-5-1", "cache read 0.025×; never forced; thinking bound to the prefix"),
];

/// Tool calls of the run, and its limit.
const CALLS: usize = 25;
/// Milliseconds between two requests: the cache's five minutes never pass.
const PAUSE_MS: u64 = 5_000;

/// A way to end the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The note in the last result, and the model answers.
    Ask,
    /// It calls a tool all the same, is refused, and answers.
    Refuse,
    /// `tool_choice: none` at once, as the simulator bills it: the messages' cache is lost.
    None,
    /// The same if the messages' cache is kept: not run, computed from `Ask`.
    NoneKept,
    /// The answer tool is forced, where the API takes that.
    Respond,
    /// softland answers.
    Local,
    /// Others: the last request goes out without tools.
    DropTools,
    /// Others: the last request forces a tool.
    ForceTool,
}

impl Way {
    /// In the table's order.
    pub(crate) const ALL: [Self; 8] = [
        Self::Ask,
        Self::Refuse,
        Self::None,
        Self::NoneKept,
        Self::Respond,
        Self::Local,
        Self::DropTools,
        Self::ForceTool,
    ];

    /// What the table calls it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Ask => "`ask`",
            Self::Refuse => "`ask`, `refuse`",
            Self::None => "`none`, as documented (cache lost)",
            Self::NoneKept => "`none`, as measured by others (cache kept; computed)",
            Self::Respond => "`respond`",
            Self::Local => "`local_answer`",
            Self::DropTools => "*elsewhere: drop the tools*",
            Self::ForceTool => "*elsewhere: force the tool*",
        }
    }

    fn policy(self) -> Policy {
        let landing = match self {
            Self::Ask | Self::Refuse => Landing::Auto,
            Self::None | Self::NoneKept => Landing::None,
            Self::Respond => Landing::Respond,
            Self::Local => Landing::Stop,
            Self::DropTools | Self::ForceTool => return Policy::default(),
        };
        let answer_tool =
            (self == Self::Respond).then(|| "respond".to_owned()).into_iter().collect();
        Policy { tool_calls_limit: Some(CALLS as u64), landing, answer_tool, ..Policy::default() }
    }
}

/// What one way cost one model.
#[derive(Clone, Debug)]
pub(crate) struct Price {
    /// The model's id.
    pub(crate) model: &'static str,
    /// The way.
    pub(crate) way: Way,
    /// Requests that were billed for landing.
    pub(crate) requests: u64,
    /// Their tokens.
    pub(crate) usage: Usage,
    /// Their simulated price, in nano-dollars.
    pub(crate) cost_nano: u64,
    /// Rules that refused a request, with the API's words.
    pub(crate) refused: Vec<String>,
    /// The rung that landed it, where softland did.
    pub(crate) rung: Option<Rung>,
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage { input, cache_read, cache_write_5m, cache_write_1h, output, .. } = self.usage;
        let written = cache_write_5m + cache_write_1h;
        let remark = match (self.refused.first(), self.way, self.rung) {
            (Some(refusal), ..) => format!("400: {}", opening(refusal)),
            (None, Way::Respond, Some(Rung::None)) => "not forced here: `none` instead".to_owned(),
            _ => String::new(),
        };
        let cost = self.cost_nano as f64 / 1e9;
        write!(
            f,
            "| {} | {} | {} | {cache_read} | {written} | {input} | {output} | ${cost:.4} | {remark} |",
            self.model,
            self.way.label(),
            self.requests,
        )
    }
}

/// The first two sentences: what was wrong.
fn opening(refusal: &str) -> String {
    let sentences: Vec<_> = refusal.trim_end_matches('.').split(". ").take(2).collect();
    sentences.join(". ")
}

/// Prints the table.
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "| model | way to land | requests | read from cache | written to cache | uncached input \
         | output | simulated cost | |\n|---|---|--:|--:|--:|--:|--:|--:|---|"
    );
    for (model, _) in MODELS {
        for price in prices(model)? {
            println!("{price}");
        }
    }
    Ok(())
}

/// Every way for one model, in the table's order.
pub(crate) fn prices(model: &'static str) -> Result<Vec<Price>, Box<dyn Error>> {
    let mut prices: Vec<Price> = Vec::new();
    for way in Way::ALL {
        let price = match (way, prices.as_slice()) {
            (Way::NoneKept, [ask, _, none, ..]) => kept(ask, none),
            _ => landed(model, way)?,
        };
        prices.push(price);
    }
    Ok(prices)
}

/// `none`, if it keeps the cache: the input is then billed as that of `ask`, which is the same.
fn kept(ask: &Price, none: &Price) -> Price {
    let usage = Usage { output: none.usage.output, ..ask.usage };
    let cost_nano = find_model(none.model).map_or(0, |model| usage.cost_nano(model));
    Price { way: Way::NoneKept, usage, cost_nano, ..none.clone() }
}

fn landed(model: &'static str, way: Way) -> Result<Price, Box<dyn Error>> {
    let mut run = Run::new(model, way);
    for call in 0..CALLS {
        let done = run.turn()?;
        run.answer(&done, call);
    }
    let before = run.sim.stats();
    let rung = match way {
        Way::DropTools => run.elsewhere(|body| drop(body.remove("tools"))),
        Way::ForceTool => run.elsewhere(|body| {
            body.insert("tool_choice".to_owned(), json!({"type": "tool", "name": "respond"}));
        }),
        _ => run.turn()?.ended.ok_or("the run did not end")?.rung,
    };
    let stats = run.sim.stats();
    let mut usage = Usage::default();
    for charge in stats.charges.iter().skip(before.charges.len()) {
        usage.input += charge.usage.input;
        usage.cache_read += charge.usage.cache_read;
        usage.cache_write_5m += charge.usage.cache_write_5m;
        usage.cache_write_1h += charge.usage.cache_write_1h;
        usage.output += charge.usage.output;
        usage.thinking += charge.usage.thinking;
    }
    Ok(Price {
        model,
        way,
        requests: stats.responses - before.responses,
        usage,
        cost_nano: stats.cost_nano - before.cost_nano,
        refused: stats.refusals.iter().map(|refusal| refusal.message.clone()).collect(),
        rung,
    })
}

/// A run under way, its history kept as an engine keeps it.
struct Run {
    sim: Sim,
    model: &'static str,
    policy: Policy,
    messages: Vec<Vec<u8>>,
    records: PinnedRecords,
    now: u64,
}

impl Run {
    fn new(model: &'static str, way: Way) -> Self {
        let turns = script(way);
        let question = json!({"role": "user", "content": "What do these notes have in common?"});
        Self {
            sim: Sim::new(Config::new(Scenario::Scripted(turns))),
            model,
            policy: way.policy(),
            messages: vec![question.to_string().into_bytes()],
            records: BTreeMap::new(),
            now: 0,
        }
    }

    /// One client request through the session.
    fn turn(&mut self) -> Result<Done, Box<dyn Error>> {
        let mut context = Context::new(Role::Engine, self.policy.clone(), None, self.model);
        context.records = std::mem::take(&mut self.records);
        let mut out = Output::default();
        let mut exchange = Exchange::from_request(self.body(), context, &mut out)?;
        loop {
            match exchange.next_step()? {
                Step::Send(body) => {
                    let response = self.post(&body);
                    exchange.push_whole(&response, &mut out)?;
                }
                Step::Done(mut done) => {
                    self.messages.append(&mut done.messages);
                    self.records = std::mem::take(&mut done.records);
                    return Ok(*done);
                }
            }
        }
    }

    /// The result of the turn's call: a note of about 15,600 characters.
    fn answer(&mut self, done: &Done, call: usize) {
        let note =
            format!("Note {call}: the lamp by the harbour was lit, and nobody saw by whom.\n");
        let results: Vec<Value> = done
            .calls
            .iter()
            .map(|pending| {
                let content = note.repeat(15_600 / note.len());
                json!({"type": "tool_result", "tool_use_id": pending.id, "content": content})
            })
            .collect();
        self.messages.push(json!({"role": "user", "content": results}).to_string().into_bytes());
    }

    /// The last request without softland: as it would be, but for one change.
    fn elsewhere(
        &mut self,
        change: impl FnOnce(&mut serde_json::Map<String, Value>),
    ) -> Option<Rung> {
        let mut body: serde_json::Map<String, Value> =
            serde_json::from_slice(&self.body()).unwrap_or_default();
        change(&mut body);
        self.post(Value::Object(body).to_string().as_bytes());
        None
    }

    fn body(&self) -> Vec<u8> {
        let mark = json!({"type": "ephemeral"});
        let tool = |name: &str, argument: &str| {
            json!({"name": name, "description": "as its name says", "input_schema":
                {"type": "object", "properties": {argument: {"type": "string"}}}})
        };
        let system = "You answer questions about a folder of notes. ".repeat(80);
        let head = json!({
            "model": self.model,
            "max_tokens": 16_000,
            "cache_control": mark,
            "system": [{"type": "text", "text": system, "cache_control": mark}],
            "tools": [tool("read_file", "path"), tool("respond", "answer")],
        });
        let mut body = head.to_string().into_bytes();
        body.pop();
        body.extend_from_slice(br#","messages":["#);
        body.extend_from_slice(&self.messages.join(b",".as_slice()));
        body.extend_from_slice(b"]}");
        body
    }

    fn post(&mut self, body: &[u8]) -> Vec<u8> {
        self.now += PAUSE_MS;
        let headers = [("x-api-key", "any"), ("anthropic-version", "2023-06-01")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let request = Request { method: "POST", path: "/v1/messages", headers: &headers, body };
        self.sim.respond(self.now, &request).collect_bytes().0
    }
}

/// The model: calls up to the limit, one more where it is to be refused, then an answer of about
/// 250 tokens, as text or in the answer tool, whichever the request allows.
fn script(way: Way) -> Vec<Turn> {
    let call = |n: usize| {
        let thought = Part::Thinking(format!("Note {n} may say more."));
        let read = Part::tool_call("read_file", format!(r#"{{"path":"notes/{n}.md"}}"#));
        Turn { parts: vec![thought, read], ..Turn::default() }
    };
    let calls = if way == Way::Refuse { CALLS + 1 } else { CALLS };
    let mut turns: Vec<Turn> = (0..calls).map(call).collect();
    let answer = "The lamp was lit every night; no note says by whom. ".repeat(20);
    let mut last = vec![Part::text(answer.clone())];
    if matches!(way, Way::Respond | Way::ForceTool) {
        last.push(Part::tool_call("respond", json!({ "answer": answer }).to_string()));
    }
    turns.push(Turn { parts: last, ..Turn::default() });
    turns
}
