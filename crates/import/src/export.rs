//! Runs as trajectories in ATIF (version 1.6), one document for each run. Recordings are read without
//! keeping what was said: a person's messages, the calls and the figures are there, the model's texts
//! and the contents of results are not.

use std::fmt::Write as _;

use softland_session::core::{NanoUsd, UserMessage};
use softland_session::wire::Tokens;
use softland_session::wire::json::{Cursor, write_str};

use crate::report::RunReport;
use crate::report::spending::format_time;
use crate::step::{MACHINE, TurnStep};

/// The version of the schema that is written.
const VERSION: &str = "ATIF-v1.6";

/// One run, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunTrajectory {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    User { time: Option<u64>, text: String },
    Turn(Box<Turn>),
}

/// A turn of the model, with the results of its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Turn {
    time: Option<u64>,
    model: Option<String>,
    tokens: Option<Tokens>,
    cost: Option<NanoUsd>,
    /// Characters that the model wrote.
    chars: u64,
    calls: Vec<MadeCall>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MadeCall {
    id: String,
    name: String,
    input: String,
    /// Characters of the result, and true if the call failed.
    result: Option<(u64, bool)>,
}

impl RunTrajectory {
    /// Takes a message of a person or a tool.
    pub(crate) fn take_message(&mut self, user: &UserMessage<'_>, time: Option<u64>) {
        let newest = self.steps.iter_mut().rev().find_map(|step| match step {
            Step::Turn(turn) => Some(turn),
            Step::User { .. } => None,
        });
        if let Some(turn) = newest {
            for result in &user.results {
                let call = turn.calls.iter_mut().find(|call| *call.id == *result.id);
                if let Some(call) = call {
                    call.result = Some((result.chars, result.failed));
                }
            }
        }
        let said = user.texts.iter().map(|text| text.text()).filter(|text| *text != MACHINE);
        let texts: Vec<&str> = said.collect();
        if !texts.is_empty() {
            self.steps.push(Step::User { time, text: texts.join("\n") });
        }
    }

    /// Takes a turn, with its cost as it is counted.
    pub(crate) fn take_turn(&mut self, turn: &TurnStep<'_>, cost: Option<NanoUsd>) {
        let calls = turn.finished.calls.iter().map(|call| MadeCall {
            id: call.id.to_owned(),
            name: call.name.to_owned(),
            input: call.input.to_owned(),
            result: None,
        });
        self.steps.push(Step::Turn(Box::new(Turn {
            time: turn.time,
            model: turn.model.map(str::to_owned),
            tokens: turn.usage.recorded.then_some(turn.usage.tokens),
            cost,
            chars: turn.usage.chars,
            calls: calls.collect(),
        })));
    }
}

impl RunReport {
    /// Returns the run as a document in ATIF, if the replay has kept its steps for that.
    #[must_use]
    pub fn to_atif(&self) -> Option<String> {
        let trajectory = self.beside.trajectory.as_ref()?;
        let mut text = String::from("{");
        push_member(&mut text, "schema_version", VERSION);
        push_member(&mut text, "session_id", &self.run);
        let models = &self.spending.models;
        let model = models.iter().find_map(|(model, _)| model.as_deref());
        text += "\"agent\":{";
        push_member(&mut text, "name", self.agent.as_deref().unwrap_or("recorded"));
        if let Some(model) = model {
            push_member(&mut text, "model_name", model);
        }
        text += "\"version\":\"unknown\"},\"steps\":[";
        for (at, step) in trajectory.steps.iter().enumerate() {
            text += if at == 0 { "{" } else { ",{" };
            push_format(&mut text, format_args!("\"step_id\":{},", at + 1));
            match step {
                Step::User { time, text: said } => push_user(&mut text, *time, said),
                Step::Turn(turn) => push_turn(&mut text, turn),
            }
            text.push('}');
        }
        text += "],\"final_metrics\":";
        let usage = &self.usage;
        let all = usage.recorded_tokens() - usage.output;
        push_format(
            &mut text,
            format_args!(
                "{{\"total_prompt_tokens\":{all},\"total_completion_tokens\":{},\
                 \"total_cached_tokens\":{},",
                usage.output, usage.cache_read
            ),
        );
        if let Some(cost) = self.cost_usd {
            push_format(&mut text, format_args!("\"total_cost_usd\":{},", dollars(cost)));
        }
        push_format(&mut text, format_args!("\"total_steps\":{}}}}}\n", trajectory.steps.len()));
        Some(text)
    }
}

fn push_user(text: &mut String, time: Option<u64>, said: &str) {
    push_time(text, time);
    push_member(text, "source", "user");
    text.push_str("\"message\":");
    push_str(text, said);
}

fn push_turn(text: &mut String, turn: &Turn) {
    push_time(text, turn.time);
    push_member(text, "source", "agent");
    if let Some(model) = &turn.model {
        push_member(text, "model_name", model);
    }
    if !turn.calls.is_empty() {
        push_calls(text, &turn.calls);
    }
    if turn.tokens.is_some() || turn.cost.is_some() {
        push_metrics(text, turn);
    }
    push_format(text, format_args!("\"message\":\"\",\"extra\":{{\"characters\":{}}}", turn.chars));
}

fn push_calls(text: &mut String, calls: &[MadeCall]) {
    *text += "\"tool_calls\":[";
    for (at, call) in calls.iter().enumerate() {
        *text += if at == 0 { "{" } else { ",{" };
        push_member(text, "tool_call_id", &call.id);
        push_member(text, "function_name", &call.name);
        *text += "\"arguments\":";
        match is_object(&call.input) {
            true => *text += &call.input,
            false => {
                *text += "{\"input\":";
                push_str(text, &call.input);
                text.push('}');
            }
        }
        text.push('}');
    }
    *text += "],";
    let answered: Vec<_> = calls.iter().filter_map(|call| Some((call, call.result?))).collect();
    if answered.is_empty() {
        return;
    }
    *text += "\"observation\":{\"results\":[";
    for (at, (call, (chars, failed))) in answered.iter().enumerate() {
        *text += if at == 0 { "{" } else { ",{" };
        push_member(text, "source_call_id", &call.id);
        let failed = if *failed { ", failed" } else { "" };
        *text += "\"content\":";
        push_str(text, &format!("[{chars} characters{failed}]"));
        text.push('}');
    }
    *text += "]},";
}

fn push_metrics(text: &mut String, turn: &Turn) {
    *text += "\"metrics\":{";
    let mut members = Vec::new();
    if let Some(tokens) = &turn.tokens {
        members.push(format!("\"prompt_tokens\":{}", tokens.input_total()));
        members.push(format!("\"completion_tokens\":{}", tokens.output));
        members.push(format!("\"cached_tokens\":{}", tokens.cache_read));
        let written = tokens.cache_write_5m.saturating_add(tokens.cache_write_1h);
        if written > 0 {
            members.push(format!("\"extra\":{{\"cache_creation_input_tokens\":{written}}}"));
        }
    }
    members.extend(turn.cost.map(|cost| format!("\"cost_usd\":{}", dollars(cost))));
    *text += &members.join(",");
    *text += "},";
}

fn push_time(text: &mut String, time: Option<u64>) {
    if let Some(time) = time {
        push_member(text, "timestamp", &format_time(time));
    }
}

fn push_member(text: &mut String, name: &str, value: &str) {
    push_str(text, name);
    text.push(':');
    push_str(text, value);
    text.push(',');
}

fn push_str(text: &mut String, value: &str) {
    let mut quoted = Vec::with_capacity(value.len() + 2);
    write_str(&mut quoted, value);
    *text += &String::from_utf8_lossy(&quoted);
}

/// Appends formatted text. Writing into a string cannot fail.
fn push_format(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(arguments);
}

fn is_object(input: &str) -> bool {
    let mut cursor = Cursor::new(input);
    input.trim_start().starts_with('{')
        && cursor.skip_value().is_ok()
        && cursor.expect_end().is_ok()
}

fn dollars(amount: NanoUsd) -> String {
    format!("{}.{:09}", amount.0 / 1_000_000_000, amount.0 % 1_000_000_000)
}
