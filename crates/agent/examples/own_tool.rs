//! An agent with one tool of its own, and a limit at which it lands. It runs on a script; with
//! `Agent::from_env("anthropic/claude-sonnet-5-5")` nothing else changes.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use serde_json::{Value, json};
use softland_agent::testing::{ScriptedModel, ScriptedReply};
use softland_agent::{Agent, Tool, ToolContext, ToolDef, ToolOutput, ToolSet};

/// Knows the stock of a shop.
struct Stock;

#[async_trait::async_trait]
impl Tool for Stock {
    fn def(&self) -> ToolDef {
        let schema = json!({"type": "object", "properties": {"article": {"type": "string"}}});
        ToolDef::new("stock", "How many pieces of an article are there", schema).read_only()
    }

    async fn call(&self, input: Value, _: &ToolContext) -> ToolOutput {
        ToolOutput::ok(format!("{}: 12 pieces", input["article"].as_str().unwrap_or("all")))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new([
        ScriptedReply::from_call("stock", json!({"article": "lamps"}))
            .with_call("stock", json!({"article": "bulbs"})),
        ScriptedReply::from_text("There are 12 lamps and 12 bulbs."),
    ]);
    let mut agent = Agent::new("shop", "test/script", Arc::new(model));
    agent.tools = ToolSet::new().with_tool(Stock)?;
    agent.policy.tool_calls_limit = Some(2);
    let report = agent.run("How many lamps and bulbs are there?", &mut |_| {}).await?;
    println!("{}: {}", report.ended.outcome.word(), report.answer.unwrap_or_default());
    assert_eq!((report.ended.outcome.word(), report.tool_calls), ("landed", 2));
    Ok(())
}
