//! Cases from seeds, and what the drivers make of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use softland_agent::ToolOutput;
use softland_agent::http::Api;
use softland_session::wire;

use super::case::{Ask, Case};
use super::hostile::{self, Dice};
use crate::common::Counting;

/// Returns the model's name for the agent, and for the simulator the model whose rules apply.
pub(crate) fn names(api: Api, case: &Case) -> (String, String) {
    if api == Api::Anthropic {
        return (format!("anthropic/{}", case.model), case.rules().to_owned());
    }
    let listed = case.rules().split_once('/').map(|(_, id)| id.to_owned());
    let agents =
        if case.rules_of.is_some() { format!("mine/{}", case.model) } else { case.model.clone() };
    (agents, listed.unwrap())
}

pub(crate) fn generate(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let turns = hostile::script(&mut dice);
    let (model, rules_of) = hostile::model(&mut dice);
    let manner = hostile::manner(&mut dice, 0);
    // A further question, under another policy, in the same conversation.
    let asks = ["What is it?", "And what then?"]
        .map(|text| Ask::Say(text.to_owned(), Box::new(hostile::policy(&mut dice))));
    let (about, meets) = (String::new(), Vec::new());
    let api = wire::Api::Anthropic;
    Case { about, meets, api, model, rules_of, manner, asks: asks.into(), turns }
}

/// The protocol of a case, as agents call it.
pub(crate) fn api_of(case: &Case) -> Api {
    match case.api {
        wire::Api::Anthropic => Api::Anthropic,
        wire::Api::Chat => Api::OpenAiChat,
        wire::Api::Responses => Api::OpenAiResponses,
    }
}

pub(crate) fn counted(
    tool: &'static str,
    calls: &Arc<AtomicU64>,
    ran: &Arc<AtomicU64>,
) -> Counting {
    let ran = Arc::clone(ran);
    let answer = Box::new(move |_, input: &Value| {
        let n = ran.fetch_add(1, Ordering::Relaxed);
        if tool == "custom" && n % 7 == 3 {
            panic!("a tool that panics");
        }
        let (content, is_error) = hostile::tool_result(tool, &input.to_string(), n);
        ToolOutput { content, is_error }
    });
    Counting { name: tool, calls: Arc::clone(calls), answer }
}
