//! What was said as lines that a person reads: the pieces of a text, or of a call, are one line.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// One step of a run. Its time is unknown where a run is replayed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ShownStep {
    pub(super) at: Option<u64>,
    pub(super) turn: u64,
    pub(super) event: String,
    pub(super) fields: Map<String, Value>,
    /// True if the step came after the run's end.
    pub(super) late: bool,
}

impl ShownStep {
    fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str()
    }

    /// Appends to the text of a field.
    fn append(&mut self, name: &str, more: &str) {
        match self.fields.get_mut(name) {
            Some(Value::String(text)) => text.push_str(more),
            _ => drop(self.fields.insert(name.to_owned(), more.into())),
        }
    }

    fn is_block(&self, event: &str, turn: u64) -> bool {
        self.event == event && self.turn == turn
    }
}

/// Returns the steps with one step for each text (`text`, `thinking`) and each call (`call`). A
/// call that is run is not told twice, and a result has the name of its call.
pub(super) fn join_blocks(steps: Vec<ShownStep>) -> Vec<ShownStep> {
    let mut joined: Vec<ShownStep> = Vec::new();
    // The names of the calls, by id.
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for mut step in steps {
        match &*step.event {
            "block_stop" => continue,
            "text_start" | "thinking_start" => {
                let word = step.event.trim_end_matches("_start").to_owned();
                step.event = word;
                step.append("text", "");
            }
            "text_delta" | "thinking_delta" => {
                let word = step.event.trim_end_matches("_delta").to_owned();
                let said = step.text("text").unwrap_or_default().to_owned();
                match joined.last_mut().filter(|last| last.is_block(&word, step.turn)) {
                    Some(last) => {
                        last.append("text", &said);
                        continue;
                    }
                    None => step.event = word,
                }
            }
            "tool_start" => {
                "call".clone_into(&mut step.event);
                step.append("input", "");
            }
            "tool_input_delta" => {
                let piece = step.text("partial_json").unwrap_or_default().to_owned();
                if let Some(call) = find_call(&mut joined, &step) {
                    call.append("input", &piece);
                    continue;
                }
                "call".clone_into(&mut step.event);
                step.fields.remove("partial_json");
                step.append("input", &piece);
            }
            "tool_execute" => {
                if let Some(call) = find_call(&mut joined, &step) {
                    if let Some(input) = step.fields.get("input") {
                        call.fields.insert("input".to_owned(), input.to_string().into());
                    }
                    continue;
                }
            }
            "tool_result" if step.text("name").is_none() => {
                let name = step.text("id").and_then(|id| names.get(id)).cloned();
                if let Some(name) = name {
                    step.fields.insert("name".to_owned(), name.into());
                }
            }
            _ => {}
        }
        if let (Some(id), Some(name)) = (step.text("id"), step.text("name")) {
            names.insert(id.to_owned(), name.to_owned());
        }
        joined.push(step);
    }
    // A text in which nothing was said is no line.
    joined.retain(|step| {
        !matches!(&*step.event, "text" | "thinking")
            || step.text("text").is_some_and(|text| !text.trim().is_empty())
    });
    joined
}

/// Returns the call of this turn that a step is about.
fn find_call<'j>(joined: &'j mut [ShownStep], of: &ShownStep) -> Option<&'j mut ShownStep> {
    let id = of.text("id")?;
    let own = |step: &&mut ShownStep| step.is_block("call", of.turn) && step.text("id") == Some(id);
    joined.iter_mut().rev().find(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step(turn: u64, event: &str, fields: Value) -> ShownStep {
        let Value::Object(fields) = fields else { panic!("no object") };
        ShownStep { at: None, turn, event: event.to_owned(), fields, late: false }
    }

    fn joined(steps: Vec<ShownStep>) -> Vec<String> {
        let line = |step: ShownStep| {
            let of = |name: &str| step.text(name).map(str::to_owned).unwrap_or_default();
            let words = [of("name"), of("text"), of("input"), of("content")];
            let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
            format!("{} {} {}", step.turn, step.event, words.join(" "))
        };
        join_blocks(steps).into_iter().map(line).collect()
    }

    #[test]
    fn c85_what_was_said_is_one_line_each() {
        let told = joined(vec![
            step(0, "question", json!({"text": "What?"})),
            step(1, "thinking_start", json!({})),
            step(1, "thinking_delta", json!({"text": "Hm"})),
            step(1, "block_stop", json!({"index": 0})),
            step(1, "text_start", json!({})),
            step(1, "text_delta", json!({"text": "I "})),
            step(1, "text_delta", json!({"text": "look."})),
            step(1, "block_stop", json!({"index": 1})),
            step(1, "tool_start", json!({"id": "a", "name": "grep"})),
            step(1, "tool_start", json!({"id": "b", "name": "read"})),
            step(1, "tool_input_delta", json!({"id": "a", "partial_json": "{\"x\""})),
            step(1, "tool_input_delta", json!({"id": "b", "partial_json": "{}"})),
            step(1, "tool_input_delta", json!({"id": "a", "partial_json": ":1}"})),
            step(1, "tool_result", json!({"id": "a", "content": "one"})),
            step(2, "text_start", json!({})),
            step(2, "block_stop", json!({"index": 0})),
            step(2, "text_delta", json!({"text": "Done."})),
        ]);
        assert_eq!(
            told,
            [
                "0 question What?",
                "1 thinking Hm",
                "1 text I look.",
                "1 call grep {\"x\":1}",
                "1 call read {}",
                "1 tool_result grep one",
                "2 text Done.",
            ]
        );
    }

    #[test]
    fn c85_a_call_that_is_run_is_told_once() {
        let told = joined(vec![
            step(1, "tool_start", json!({"id": "a", "name": "grep"})),
            step(1, "tool_input_delta", json!({"id": "a", "partial_json": "{ \"x\": 1 }"})),
            step(1, "usage", json!({})),
            step(1, "tool_execute", json!({"id": "a", "name": "grep", "input": {"x": 1}})),
            step(1, "tool_result", json!({"id": "a", "name": "grep", "content": "one"})),
            // An id that is used again, and a call that was not seen before.
            step(2, "tool_execute", json!({"id": "a", "name": "read", "input": {}})),
            step(2, "tool_input_delta", json!({"id": "c", "partial_json": "{}"})),
        ]);
        assert_eq!(
            told,
            [
                "1 call grep {\"x\":1}",
                "1 usage ",
                "1 tool_result grep one",
                "2 tool_execute read",
                "2 call {}",
            ]
        );
    }
}
