//! An agent with one tool of its own, and a limit at which it lands. It runs on the simulator;
//! with a transport to a provider (`softland_agent::http`) nothing else changes.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use serde_json::{Value, json};
use softland_agent::{Agent, Tool, ToolContext, ToolDef, ToolOutput, ToolSet};

#[path = "support/simulated.rs"]
mod simulated;

/// Knows the stock of a shop.
struct Stock;

#[async_trait::async_trait]
impl Tool for Stock {
    fn def(&self) -> ToolDef {
        ToolDef {
            name: "stock".into(),
            description: "How many pieces of an article are there".into(),
            input_schema: json!({"type": "object", "properties": {"article": {"type": "string"}}}),
            reads: true,
            repeatable: true,
        }
    }

    async fn call(&self, input: Value, _: &ToolContext) -> ToolOutput {
        ToolOutput::ok(format!("{}: 12 pieces", input["article"].as_str().unwrap_or("all")))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut agent = Agent::new("shop", "sim/looper", Arc::new(simulated::Simulated::default()));
    agent.tools = ToolSet::new().with_tool(Stock)?;
    agent.policy.tool_calls_limit = Some(4);
    let report = agent.run("How many lamps are there?", &mut |_| {}).await?;
    println!("{}: {}", report.ended.outcome.word(), report.answer.unwrap_or_default());
    assert_eq!((report.ended.outcome.word(), report.tool_calls), ("landed", 4));
    Ok(())
}
