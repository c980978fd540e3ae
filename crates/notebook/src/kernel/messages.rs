//! Translates a kernel's messages into events and outputs.

use serde_json::{Map, Value, json};

use super::{KernelEvent, signed::JupyterMessage};

/// Returns the event that an `iopub` message reports of a run.
pub(super) fn event_from_message(message: &JupyterMessage, run: u64) -> Option<KernelEvent> {
    let content = &message.content;
    let text = |name: &str| content.get(name).and_then(Value::as_str).unwrap_or_default();
    match message.kind() {
        "stream" => {
            let name = if text("name") == "stderr" { "stderr" } else { "stdout" };
            Some(KernelEvent::Text(run, name.to_owned(), text("text").to_owned()))
        }
        "display_data" => Some(KernelEvent::Output(
            run,
            rich_output("display_data", content),
            display_name(content),
        )),
        "execute_result" => {
            let mut output = rich_output("execute_result", content);
            output["execution_count"] = read_count(content).into();
            Some(KernelEvent::Output(run, output, display_name(content)))
        }
        "update_display_data" => {
            let place = |name| object_member(content, name);
            let (data, metadata) = (place("data"), place("metadata"));
            Some(KernelEvent::Update(run, display_name(content)?, data, metadata))
        }
        "error" => Some(KernelEvent::Output(run, error_from_content(content), None)),
        "clear_output" => {
            let waits = content.get("wait").and_then(Value::as_bool).unwrap_or(false);
            Some(KernelEvent::Clear(run, waits))
        }
        "execute_input" => Some(KernelEvent::Begun(run, read_count(content))),
        _ => None,
    }
}

/// Returns the error of a reply that is not `ok`.
pub(super) fn reply_error(reply: &Value) -> Value {
    let status = reply.get("status").and_then(Value::as_str).unwrap_or("error");
    if reply.get("ename").is_some() {
        return error_from_content(reply);
    }
    error_output(status, "the kernel says no more", &[])
}

fn error_from_content(content: &Value) -> Value {
    let text = |name: &str| content.get(name).and_then(Value::as_str).unwrap_or_default();
    let lines = content.get("traceback").and_then(Value::as_array);
    let lines: Vec<&str> = lines.into_iter().flatten().filter_map(Value::as_str).collect();
    error_output(text("ename"), text("evalue"), &lines)
}

/// Returns an output that reports an error.
pub(crate) fn error_output(name: &str, value: &str, traceback: &[&str]) -> Value {
    json!({ "output_type": "error", "ename": name, "evalue": value, "traceback": traceback })
}

/// Returns the pages that a reply asks to show (`len?` in Python).
pub(super) fn page_outputs(reply: &Value) -> Vec<Value> {
    let payload = reply.get("payload").and_then(Value::as_array);
    let pages = payload.into_iter().flatten().filter(|page| page["source"] == "page");
    pages.map(|page| rich_output("display_data", page)).collect()
}

pub(super) fn read_count(content: &Value) -> Option<u64> {
    content.get("execution_count").and_then(Value::as_u64)
}

fn rich_output(kind: &str, content: &Value) -> Value {
    json!({
        "output_type": kind,
        "data": object_member(content, "data"),
        "metadata": object_member(content, "metadata"),
    })
}

fn object_member(content: &Value, name: &str) -> Value {
    let found = content.get(name).filter(|value| value.is_object());
    found.cloned().unwrap_or_else(|| Map::new().into())
}

/// Returns the name under which an output may be replaced.
fn display_name(content: &Value) -> Option<String> {
    content.get("transient")?.get("display_id")?.as_str().map(str::to_owned)
}
