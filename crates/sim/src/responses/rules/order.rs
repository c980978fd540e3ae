//! The order of items: calls have their output before the model continues, outputs have their call.

use crate::json::Json;
use crate::openai::{OpenAiRefusal, OpenAiResult, ensure};
use crate::responses::request::ItemKind;
use std::collections::BTreeSet;

pub(super) fn check_order(items: &[Json]) -> OpenAiResult {
    let mut open: Vec<&str> = Vec::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut answered: BTreeSet<&str> = BTreeSet::new();
    let mut ids: BTreeSet<&str> = BTreeSet::new();
    let mut speaking = false;
    for item in items {
        let kind = ItemKind::from_item(item);
        if let Some(id) = item.str_at("id").filter(|id| !id.is_empty()) {
            ensure(ids.insert(id), || {
                let text = format!(
                    "Duplicate item found with id {id}. Remove duplicate items from your input and \
                     try again."
                );
                OpenAiRefusal::bad_request(text).with_param("input")
            })?;
        }
        // The model continues: its earlier calls must have been answered.
        if kind.is_model() && !speaking {
            none_open(&open)?;
        }
        speaking = kind.is_model() || (speaking && kind == ItemKind::Made);
        let id = item.str_at("call_id").unwrap_or("");
        if kind == ItemKind::Call {
            open.push(id);
            known.insert(id);
            // Some backends reuse an id in a later round.
            answered.remove(id);
        } else if kind == ItemKind::Output {
            ensure(known.contains(id) && answered.insert(id), || orphan_output(id))?;
            open.retain(|call| *call != id);
        }
    }
    none_open(&open)
}

fn none_open(open: &[&str]) -> OpenAiResult {
    ensure(open.is_empty(), || {
        let id = open.first().copied().unwrap_or("");
        OpenAiRefusal::bad_request(format!("No tool output found for function call {id}."))
            .with_param("input")
    })
}

fn orphan_output(id: &str) -> OpenAiRefusal {
    let text = format!("No tool call found for function call output with call_id {id}.");
    OpenAiRefusal::bad_request(text).with_param("input")
}
