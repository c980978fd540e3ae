//! A program that keeps its own HTTP client and loop, and lets `session` govern each request and
//! response. `post` is where the HTTP client stands; here it asks the simulator.

#![expect(clippy::print_stdout, reason = "an example prints")]

use serde_json::{Value, json};
use softland_session::core::Role;
use softland_session::core::policy::Policy;
use softland_session::{Context, Exchange, Kept, KnownFacts, Output, Step};
use softland_sim::{Config, Request, Scenario, Sim};

const MODEL: &str = "claude-sonnet-5-5";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = Sim::new(Config::new(Scenario::from_name("stubborn")?));
    let policy = Policy { tool_calls_limit: Some(4), ..Policy::default() };
    let context = Context::new(Role::Gateway, policy, None, MODEL);
    let mut messages = vec![json!({"role": "user", "content": "How many lamps are there?"})];
    let mut saved = serde_json::to_string(&Kept::default())?;
    loop {
        let mut kept: Kept = serde_json::from_str(&saved)?;
        let facts = KnownFacts::default();
        let mut out = Output::default();
        let body = request(&messages);
        let mut exchange = Exchange::begin(body, &kept, &facts, context.clone(), &mut out)?;
        let done = loop {
            match exchange.next_step()? {
                Step::Send(body) => exchange.push_whole(&post(&provider, &body), &mut out)?,
                Step::Done(done) => break done,
            }
        };
        kept.merge(&done);
        saved = serde_json::to_string(&kept)?;
        // What the client sees: one valid response, whatever it took to get it.
        let response: Value = serde_json::from_slice(&out.bytes)?;
        messages.push(json!({"role": "assistant", "content": response["content"]}));
        if let Some(ended) = done.ended {
            println!("{}: {}", ended.outcome.word(), done.answer.unwrap_or_default());
            assert_eq!(ended.outcome.word(), "landed");
            return Ok(());
        }
        let results: Vec<Value> = done.calls.iter().map(|call| run(&call.id)).collect();
        messages.push(json!({"role": "user", "content": results}));
    }
}

fn request(messages: &[Value]) -> Vec<u8> {
    let tool =
        json!({"name": "stock", "description": "counts", "input_schema": {"type": "object"}});
    let body = json!({"model": MODEL, "max_tokens": 1000, "tools": [tool], "messages": messages});
    body.to_string().into_bytes()
}

fn run(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "12 pieces"})
}

fn post(provider: &Sim, body: &[u8]) -> Vec<u8> {
    let headers = [("x-api-key", "any"), ("anthropic-version", "2023-06-01")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let request = Request { method: "POST", path: "/v1/messages", headers: &headers, body };
    provider.respond(0, &request).collect_bytes().0
}
