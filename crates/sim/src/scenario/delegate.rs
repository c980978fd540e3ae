//! A model that delegates its work to other agents, by the tool that calls them.

use super::{Parameter, RequestView};
use crate::json::Json;
use crate::turn::{Part, Turn};

/// Calls every available agent at once, repeats this as often as the parameter says, and then
/// answers with each agent's result.
pub(super) fn play_delegate(view: &RequestView<'_>, parameter: Option<Parameter>) -> Turn {
    let rounds = match parameter {
        Some(Parameter::Number(rounds)) => rounds,
        Some(Parameter::Always) => u64::MAX,
        _ => 1,
    };
    let round = view.rounds.len() as u64;
    let tool =
        view.tools.iter().find(|tool| tool.has_property("name") && tool.has_property("prompt"));
    let (Some(tool), false) = (tool, view.must_answer() || round >= rounds) else {
        return view.answer_with(report_answers(view));
    };
    let agents = tool.properties.iter().find(|(key, _)| key == "name");
    let agents = agents.and_then(|(_, schema)| schema.get("enum")).map(Json::items);
    let calls = agents.unwrap_or_default().iter().map(|agent| {
        let prompt = match round {
            0 => view.question.clone(),
            round => format!("{} (part {})", view.question, round + 1),
        };
        let input = Json::Map(vec![
            ("name".to_owned(), agent.clone()),
            ("prompt".to_owned(), prompt.as_str().into()),
        ]);
        Part::tool_call(tool.name, input.to_text())
    });
    Turn::from_parts([Part::text("I will ask the others.")].into_iter().chain(calls).collect())
}

/// Returns a report with one line per call.
fn report_answers(view: &RequestView<'_>) -> String {
    let mut text = format!("I asked {} times.", view.calls().count());
    for call in view.calls() {
        let name = call.input.str_at("name").unwrap_or("somebody");
        let first = call.result.lines().next().unwrap_or_default();
        let last = call.result.lines().last().filter(|last| *last != first);
        let how = if call.failed { " failed" } else { "" };
        text.push_str(&format!("\n- {name}{how}: {first}"));
        text.extend(last.filter(|last| last.starts_with('[')).map(|last| format!(" {last}")));
    }
    text
}
