//! The steps of a run as lines with their time, turn, event and reason.

use serde_json::{Map, Value};
use softland_agent::core::{Because, NanoUsd, RunEnding};
use softland_ledger::{Run, Step};
use unicode_width::UnicodeWidthStr as _;

use super::blocks::{ShownStep, join_blocks};
use crate::render::{format_count, group_digits, harmless_line};

/// The most characters that are shown of a step's text.
const SAID: usize = 400;

/// Renders a line for each step, text and call, cut to `width` if there is one.
pub(super) fn render_steps(run: &Run, steps: &[Step], width: Option<usize>) -> String {
    let steps = steps.iter().map(ledger_step).collect();
    let rows: Vec<[String; 4]> =
        join_blocks(steps).iter().map(|step| step_row(run.started, step)).collect();
    let mut widths = ["TIME", "TURN", "WHAT"].map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let head = ["TIME", "TURN", "WHAT", "WHY"].map(str::to_owned);
    std::iter::once(&head).chain(&rows).map(|row| format_row(row, widths, width)).collect()
}

/// Renders the steps of a replayed run, whose times are unknown.
pub(super) fn render_replayed(steps: Vec<ShownStep>, width: Option<usize>) -> String {
    let mut text = String::new();
    for step in join_blocks(steps) {
        let [_, turn, what, why] = step_row(0, &step);
        let row = format!("{turn:>4}  {what:<16}  {why}");
        text += &harmless_line(row.trim_end(), width);
        text.push('\n');
    }
    text
}

fn ledger_step(step: &Step) -> ShownStep {
    let fields = serde_json::from_str(&step.fields);
    let fields = fields.unwrap_or_else(|_| {
        Map::from_iter([("fields".to_owned(), Value::from(step.fields.as_str()))])
    });
    let (turn, event) = (step.turn, step.event.clone());
    ShownStep { at: Some(step.at), turn, event, fields, late: step.late }
}

fn format_row(
    [time, turn, what, why]: &[String; 4],
    widths: [usize; 3],
    width: Option<usize>,
) -> String {
    let pad = |cell: &str, to: usize| " ".repeat(to.saturating_sub(cell.width()));
    let [times, turns, whats] = widths;
    let text = format!(
        "{}{time}  {}{turn}  {what}{}  {why}",
        pad(time, times),
        pad(turn, turns),
        pad(what, whats)
    );
    harmless_line(text.trim_end(), width) + "\n"
}

fn step_row(started: u64, step: &ShownStep) -> [String; 4] {
    let (what, mut why) = describe_event(&step.event, &step.fields);
    if step.late {
        why = format!("(after the end) {why}");
    }
    let time = step.at.map(|at| format!("+{}", format_span(at.saturating_sub(started))));
    let turn = if step.turn == 0 { "-".to_owned() } else { step.turn.to_string() };
    let cells = [time.unwrap_or_default(), turn, what, why];
    cells.map(|cell| harmless_line(&cell, None))
}

/// Describes an event: its kind, and its details.
fn describe_event(event: &str, fields: &Map<String, Value>) -> (String, String) {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    match event {
        "usage" => ("request".to_owned(), describe_request(fields)),
        "intervention" => {
            let would = fields.get("observed") == Some(&Value::Bool(true));
            let what = if would { "would " } else { "" };
            (format!("{what}{}", text("intervention")), describe_intervention(fields))
        }
        "turn_start" => {
            let limit = fields.get("turns_limit").and_then(Value::as_u64);
            ("turn_start".to_owned(), limit.map(|limit| format!("of {limit}")).unwrap_or_default())
        }
        "signal" => (format!("signal {}", text("signal")), describe_evidence(fields)),
        "cache_loss" => (format!("lost {}", text("cause")), describe_loss(fields)),
        "run_start" => {
            let about = ["agent", "model", "policy", "mode", "name", "continues"];
            let about = about.iter().filter(|name| !text(name).is_empty());
            let about: Vec<_> = about.map(|name| format!("{name} {}", text(name))).collect();
            ("run_start".to_owned(), about.join(" · "))
        }
        "text" | "thinking" | "question" => (event.to_owned(), shorten_text(text("text"))),
        "call" => (format!("→ {}", text("name")), shorten_text(text("input"))),
        "tool_execute" => {
            let input = fields.get("input").map(ToString::to_string).unwrap_or_default();
            (format!("→ {}", text("name")), shorten_text(&input))
        }
        "tool_result" => {
            let failed = fields.get("ok") == Some(&Value::Bool(false));
            let how = if failed { "failed " } else { "" };
            (format!("← {}", text("name")), format!("{how}{}", shorten_text(text("content"))))
        }
        "child" => (format!("child {}", text("agent")), text("child_run").to_owned()),
        "done" | "error" => (event.to_owned(), describe_end(fields)),
        _ if fields.is_empty() => (event.to_owned(), String::new()),
        _ => (event.to_owned(), shorten_text(&Value::Object(fields.clone()).to_string())),
    }
}

/// Describes a request: its rung, its status and its usage.
fn describe_request(fields: &Map<String, Value>) -> String {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let number = |name: &str| fields.get(name).and_then(Value::as_u64);
    let tokens = |name: &str| group_digits(number(name).unwrap_or(0));
    let mut parts = Vec::new();
    parts.extend(text("rung").map(|rung| format!("rung {rung}")));
    match number("status") {
        Some(200) => {}
        Some(status) => parts.push(format!("status {status}")),
        None => parts.push("no response".to_owned()),
    }
    parts.push(format!(
        "{} in, {} from cache, {} to cache, {} out",
        tokens("input"),
        tokens("cache_read"),
        tokens("cache_write"),
        tokens("output")
    ));
    let cost = fields.get("cost_usd").and_then(Value::as_f64).and_then(NanoUsd::from_dollars);
    parts.push(cost.map_or_else(|| "cost unknown".to_owned(), |cost| cost.to_string()));
    parts.extend(number("ms").map(format_span));
    parts.extend(text("remark").map(str::to_owned));
    parts.join(" · ")
}

/// Describes an intervention: the rule, its numbers, and the text for the model.
fn describe_intervention(fields: &Map<String, Value>) -> String {
    let because = fields.get("because").filter(|because| !because.is_null());
    let because = because.map(|because| {
        let parsed = serde_json::from_value::<Because>(because.clone());
        parsed.map_or_else(|_| because.to_string(), |because| because.to_string())
    });
    let text =
        fields.get("text").and_then(Value::as_str).map(|text| format!("“{}”", shorten_text(text)));
    because.into_iter().chain(text).collect::<Vec<_>>().join(" · ")
}

/// Describes tokens that had been in the provider's cache and were written or sent again.
fn describe_loss(fields: &Map<String, Value>) -> String {
    let number = |name: &str| fields.get(name).and_then(Value::as_u64);
    let tokens = format_count(number("tokens").unwrap_or(0), "cached token");
    let mut parts = vec![format!("{tokens} sent again")];
    let lost = fields.get("lost_usd").and_then(Value::as_f64).and_then(NanoUsd::from_dollars);
    parts.extend(lost.map(|lost| format!("{lost} more than to read them")));
    parts.extend(match fields.get("cause").and_then(Value::as_str) {
        Some("model") => Some("the model was switched".to_owned()),
        Some("compaction") => Some("the context was compacted".to_owned()),
        Some("idle") => {
            let pause = number("pause_ms").map(format_span).unwrap_or_default();
            Some(format!("{pause} of pause, longer than the cache lives"))
        }
        Some("edited") => Some("something earlier in the request had changed".to_owned()),
        _ => None,
    });
    parts.join(" · ")
}

/// Describes the evidence of a signal: its turns, and the call, the result or the text.
fn describe_evidence(fields: &Map<String, Value>) -> String {
    let Some(evidence) = fields.get("evidence").and_then(Value::as_object) else {
        return String::new();
    };
    let turns = evidence.get("turns").and_then(Value::as_array);
    let turns = turns.map(|turns| turns.iter().map(ToString::to_string).collect::<Vec<_>>());
    let mut parts = Vec::new();
    parts.extend(turns.map(|turns| format!("turns {}", turns.join(", "))));
    for name in ["call", "result", "text"] {
        let seen = evidence.get(name).filter(|seen| !seen.is_null());
        parts.extend(seen.map(|seen| match seen.as_str() {
            Some(seen) => format!("{name} {}", shorten_text(seen)),
            None => format!("{name} {}", shorten_text(&seen.to_string())),
        }));
    }
    parts.join(" · ")
}

/// Describes the end of a run, and the amount that is left of each limit.
fn describe_end(fields: &Map<String, Value>) -> String {
    let Ok(ended) = serde_json::from_value::<RunEnding>(Value::Object(fields.clone())) else {
        return shorten_text(&Value::Object(fields.clone()).to_string());
    };
    let mut parts = vec![format!("{}: {}", ended.outcome.word(), ended.reason)];
    if let (Some(limit), Some(value)) = (&ended.limit, &ended.value) {
        parts.push(format!("{limit} {value}"));
    }
    parts.extend(ended.rung.map(|rung| format!("rung {}", rung.word())));
    let left = ended.remaining.iter().map(|(limit, left)| format!("{left} of {limit} left"));
    parts.extend(left);
    let answer = fields.get("answer").and_then(Value::as_str);
    parts.extend(answer.map(|answer| format!("“{}”", shorten_text(answer))));
    parts.join(" · ")
}

/// Shortens a text for a list.
fn shorten_text(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(SAID) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Formats a duration: `812 ms`, `4.2 s`, `12 min`.
pub(super) fn format_span(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..120_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        _ if millis < 7_200_000 => format!("{} min", millis / 60_000),
        _ => format!("{} h", millis / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described_as(event: &str, fields: &str, wanted: &str) {
        let fields = serde_json::from_str(fields).unwrap();
        let (what, why) = describe_event(event, &fields);
        assert_eq!(format!("{what} | {why}"), wanted);
    }

    #[test]
    fn every_decision_says_why() {
        for (event, fields, wanted) in [
            (
                "intervention",
                r#"{"intervention":"ask","because":{"reason":"tool_calls","used":30,"limit":30},"text":"Answer now."}"#,
                "ask | tool_calls: 30 of 30 · “Answer now.”",
            ),
            (
                "intervention",
                r#"{"intervention":"warn","because":{"reason":"cost","used":4.5,"limit":5.0}}"#,
                "warn | cost: $4.50 of $5.00",
            ),
            (
                "intervention",
                r#"{"intervention":"stop","because":{"reason":"time","used":"9m","limit":"10m"}}"#,
                "stop | time: 9m of 10m",
            ),
            ("intervention", r#"{"intervention":"nudge","because":null}"#, "nudge | "),
            (
                "intervention",
                r#"{"intervention":"ask","because":null,"observed":true,"text":"Answer."}"#,
                "would ask | “Answer.”",
            ),
            (
                "signal",
                r#"{"signal":"repeat","evidence":{"turns":[3,4,5],"call":"grep {\"a\":1}"}}"#,
                "signal repeat | turns 3, 4, 5 · call grep {\"a\":1}",
            ),
            (
                "usage",
                r#"{"input":10,"output":20,"cache_read":3000,"cache_write":0,"cost_usd":0.0015,"rung":"none","status":200,"ms":812}"#,
                "request | rung none · 10 in, 3,000 from cache, 0 to cache, 20 out · $0.0015 · 812 ms",
            ),
            (
                "usage",
                r#"{"input":0,"output":0,"cache_read":0,"cache_write":0,"cost_usd":null,"status":529,"ms":4200,"remark":"unmetered"}"#,
                "request | status 529 · 0 in, 0 from cache, 0 to cache, 0 out · cost unknown · 4.2 s · unmetered",
            ),
            (
                "done",
                r#"{"outcome":"landed","reason":"tool_calls","rung":"ask","limit":"tool_calls_limit","value":30,"remaining":{"turns_limit":3}}"#,
                "done | landed: tool_calls · tool_calls_limit 30 · rung ask · 3 of turns_limit left",
            ),
            ("tool_result", r#"{"name":"grep","ok":false,"content":"no"}"#, "← grep | failed no"),
            ("turn_start", r#"{"turns_limit":9}"#, "turn_start | of 9"),
            ("turn_start", "{}", "turn_start | "),
            ("child", r#"{"child_run":"run-2","agent":"a"}"#, "child a | run-2"),
            ("block_stop", r#"{"index":1}"#, r#"block_stop | {"index":1}"#),
        ] {
            described_as(event, fields, wanted);
        }
    }

    #[test]
    fn spans_are_rounded_down() {
        for (millis, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1999, "1.9 s"),
            (119_999, "119.9 s"),
            (120_000, "2 min"),
            (7_200_000, "2 h"),
        ] {
            assert_eq!(format_span(millis), text);
        }
    }
}
