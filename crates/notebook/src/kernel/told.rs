//! Translates a kernel's messages into events and outputs.

use serde_json::{Map, Value, json};

use super::{Event, signed::Message};

/// Returns the event that an `iopub` message reports of a run.
pub(super) fn told(message: &Message, run: u64) -> Option<Event> {
    let content = &message.content;
    let text = |name: &str| content.get(name).and_then(Value::as_str).unwrap_or_default();
    match message.kind() {
        "stream" => {
            let name = if text("name") == "stderr" { "stderr" } else { "stdout" };
            Some(Event::Text(run, name.to_owned(), text("text").to_owned()))
        }
        "display_data" => {
            Some(Event::Output(run, rich("display_data", content), shown_as(content)))
        }
        "execute_result" => {
            let mut output = rich("execute_result", content);
            output["execution_count"] = count(content).into();
            Some(Event::Output(run, output, shown_as(content)))
        }
        "update_display_data" => {
            let place = |name| object(content, name);
            Some(Event::Update(shown_as(content)?, place("data"), place("metadata")))
        }
        "error" => Some(Event::Output(run, raised(content), None)),
        "clear_output" => {
            let waits = content.get("wait").and_then(Value::as_bool).unwrap_or(false);
            Some(Event::Clear(run, waits))
        }
        "execute_input" => Some(Event::Begun(run, count(content))),
        _ => None,
    }
}

/// Returns the error of a reply that is not `ok`.
pub(super) fn failed(reply: &Value) -> Value {
    let status = reply.get("status").and_then(Value::as_str).unwrap_or("error");
    if reply.get("ename").is_some() {
        return raised(reply);
    }
    error(status, "the kernel says no more", &[])
}

fn raised(content: &Value) -> Value {
    let text = |name: &str| content.get(name).and_then(Value::as_str).unwrap_or_default();
    let lines = content.get("traceback").and_then(Value::as_array);
    let lines: Vec<&str> = lines.into_iter().flatten().filter_map(Value::as_str).collect();
    error(text("ename"), text("evalue"), &lines)
}

/// Returns an output that reports an error.
pub(crate) fn error(name: &str, value: &str, traceback: &[&str]) -> Value {
    json!({ "output_type": "error", "ename": name, "evalue": value, "traceback": traceback })
}

/// Returns the pages that a reply asks to show (`len?` in Python).
pub(super) fn pages(reply: &Value) -> Vec<Value> {
    let payload = reply.get("payload").and_then(Value::as_array);
    let pages = payload.into_iter().flatten().filter(|page| page["source"] == "page");
    pages.map(|page| rich("display_data", page)).collect()
}

pub(super) fn count(content: &Value) -> Option<u64> {
    content.get("execution_count").and_then(Value::as_u64)
}

fn rich(kind: &str, content: &Value) -> Value {
    json!({
        "output_type": kind,
        "data": object(content, "data"),
        "metadata": object(content, "metadata"),
    })
}

fn object(content: &Value, name: &str) -> Value {
    let found = content.get(name).filter(|value| value.is_object());
    found.cloned().unwrap_or_else(|| Map::new().into())
}

/// Returns the name under which an output may be replaced.
fn shown_as(content: &Value) -> Option<String> {
    content.get("transient")?.get("display_id")?.as_str().map(str::to_owned)
}
