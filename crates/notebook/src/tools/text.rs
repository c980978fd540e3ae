//! Formats cells and outputs as text for a model: bounded, without colours, pictures named.

use std::fmt::Write as _;

use serde_json::Value;

use crate::cut;
use crate::types::{Cell, CellType, KernelState, KernelStatus};

/// Types of text, the plainest first.
const TEXTS: [&str; 5] =
    ["text/plain", "text/markdown", "text/latex", "application/json", "application/javascript"];

/// Describes the kernel's state.
pub(super) fn describe_kernel(kernel: &KernelState) -> String {
    let state = match kernel.state {
        KernelStatus::None => "is not started yet (the first run does)",
        KernelStatus::Starting => "is starting",
        KernelStatus::Idle => "is idle",
        KernelStatus::Busy => "is busy",
        KernelStatus::Silent => "does not answer",
        KernelStatus::Dead => "is dead",
        KernelStatus::Stopped => "is stopped",
    };
    let why = kernel.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    let name = if kernel.name.is_empty() { "python3" } else { &kernel.name };
    format!("the kernel {name} {state}{why}")
}

/// Describes a cell, with limits in bytes for its source and its outputs.
pub(super) fn describe_cell(place: usize, cell: &Cell, source: usize, given: usize) -> String {
    let mut told = format!("cell {place}: id `{}`, {}", cell.id, cell.kind.as_str());
    if cell.running {
        told.push_str(", running");
    } else if let Some(count) = cell.execution_count {
        let _ = write!(told, ", ran as [{count}]");
    } else if cell.kind == CellType::Code {
        told.push_str(", not run");
    }
    told.push('\n');
    told.push_str(&quote_source(&cell.source, source));
    if !cell.outputs.is_empty() {
        let _ = write!(told, "\n{} outputs:\n", cell.outputs.len());
        told.push_str(&describe_outputs(&cell.outputs, given));
    }
    told
}

/// Quotes a source, each line behind a bar.
pub(super) fn quote_source(source: &str, most: usize) -> String {
    if source.is_empty() {
        return "| (empty)".to_owned();
    }
    let source = cut::cut_middle(source, most);
    source.lines().map(|line| format!("| {line}")).collect::<Vec<_>>().join("\n")
}

/// Formats outputs as text.
pub(super) fn describe_outputs(outputs: &[Value], most: usize) -> String {
    if outputs.is_empty() {
        return "(no output)".to_owned();
    }
    let texts: Vec<String> = outputs.iter().map(describe_output).collect();
    cut::cut_middle(texts.join("\n").trim_end(), most)
}

fn describe_output(output: &Value) -> String {
    let text = |name: &str| output.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("output_type") {
        "stream" => {
            let said = without_escapes(text("text"));
            let said = said.trim_end_matches('\n');
            if text("name") == "stderr" { format!("(stderr) {said}") } else { said.to_owned() }
        }
        "error" => {
            let lines = output.get("traceback").and_then(Value::as_array);
            let lines: Vec<&str> = lines.into_iter().flatten().filter_map(Value::as_str).collect();
            let trace = without_escapes(&lines.join("\n"));
            let error = format!("{}: {}", text("ename"), without_escapes(text("evalue")));
            if trace.contains(&error) { trace } else { format!("{trace}\n{error}") }
        }
        _ => describe_rich(output),
    }
}

/// Formats a rich output: its plainest text, and the names of its other representations.
fn describe_rich(output: &Value) -> String {
    let Some(data) = output.get("data").and_then(Value::as_object) else {
        return "[an output of an unknown kind]".to_owned();
    };
    let string = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let plainest = TEXTS.into_iter().find(|kind| data.contains_key(*kind));
    let mut told = match (plainest, data.get("text/html")) {
        (Some(kind), _) => without_escapes(&data.get(kind).map(string).unwrap_or_default()),
        (None, Some(html)) => format!("(HTML, as text) {}", without_tags(&string(html))),
        (None, None) => String::new(),
    };
    for (kind, value) in data {
        let shown = Some(kind.as_str()) == plainest || (kind == "text/html" && plainest.is_none());
        if kind.starts_with("image/") {
            let length = string(value).len();
            let bytes = if kind == "image/svg+xml" { length } else { length / 4 * 3 };
            let _ = write!(told, "{}[{kind}, {}]", separator_after(&told), format_size(bytes));
        } else if !shown {
            let _ = write!(told, "{}[also {kind}]", separator_after(&told));
        }
    }
    told
}

const fn separator_after(told: &str) -> &'static str {
    if told.is_empty() { "" } else { " " }
}

fn format_size(bytes: usize) -> String {
    if bytes < 1000 { format!("{bytes} bytes") } else { format!("{} kB", bytes.div_ceil(1000)) }
}

/// Removes terminal escape sequences and control characters.
pub(super) fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            if !c.is_control() || matches!(c, '\n' | '\t') {
                out.push(c);
            }
            continue;
        }
        match chars.next() {
            Some('[') => {
                // Up to the final letter of the sequence.
                while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            Some(']') => {
                // Up to the bell, or an escape and its backslash.
                while let Some(c) = chars.next() {
                    if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    out
}

/// Extracts the text of HTML, roughly: for a model to read, never for a browser.
fn without_tags(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some((text, behind)) = rest.split_once('<') {
        out.push_str(text);
        let lower: String = behind.chars().take(7).collect::<String>().to_ascii_lowercase();
        let hidden = ["script", "style"].into_iter().find(|name| lower.starts_with(name));
        let end = hidden.map(|name| format!("</{name}"));
        let behind = match &end {
            Some(end) => {
                behind.to_ascii_lowercase().find(end.as_str()).and_then(|at| behind.get(at..))
            }
            None => Some(behind),
        };
        rest = behind.and_then(|behind| behind.split_once('>')).map_or("", |(_, rest)| rest);
        out.push(' ');
    }
    out.push_str(rest);
    let text = out.replace("&nbsp;", " ").replace("&lt;", "<").replace("&gt;", ">");
    let text = text.replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&");
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}
