//! The constraints that the provider puts on a model's turn: tool choice, one call at a time,
//! output limits, stop sequences, thinking on or off.

use crate::history::Choice;
use crate::turn::{Part, Stop, Turn};

/// Estimates the tokens of this many bytes: a quarter, rounded up.
pub(crate) fn estimate_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}

/// The constraints on one response.
#[derive(Debug)]
pub(crate) struct ResponseBounds<'a> {
    pub(crate) choice: Choice<'a>,
    pub(crate) parallel: bool,
    /// The tools that may be called, if not all.
    pub(crate) allowed: Option<Vec<&'a str>>,
    pub(crate) thinking: ThinkingPresence,
    /// The output limit, in tokens.
    pub(crate) max_tokens: u64,
    /// The tokens that the context window leaves for output.
    pub(crate) room: u64,
    pub(crate) stops: Vec<&'a str>,
}

/// The presence of thinking in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingPresence {
    /// Never.
    Off,
    /// The model decides.
    On,
    /// A response with calls begins with thinking.
    Opens,
}

/// The output tokens of a turn apart from its content; an empty turn has these.
pub(crate) const BASE_OUTPUT: u64 = 2;

/// A turn within the constraints.
#[derive(Debug)]
pub(crate) struct AllowedTurn {
    pub(crate) parts: Vec<Part>,
    pub(crate) stop: Stop,
    /// True if the last part is cut in the middle.
    pub(crate) cut: bool,
    /// The output limit, in tokens.
    most: u64,
}

/// Applies the constraints to a turn.
pub(crate) fn apply_bounds(bounds: &ResponseBounds<'_>, turn: &Turn) -> AllowedTurn {
    let mut parts = turn.parts.clone();
    apply_thinking(bounds.thinking, &mut parts);
    if !turn.lawless {
        apply_tool_choice(bounds, &mut parts);
    }
    let natural = if parts.iter().any(Part::is_call) { Stop::ToolUse } else { Stop::EndTurn };
    let mut stop = match turn.stop.clone() {
        Some(Stop::ToolUse) if !turn.lawless => natural,
        Some(stop) => stop,
        None => natural,
    };
    if let Some(sequence) = apply_stop_sequences(&bounds.stops, &mut parts) {
        stop = Stop::StopSequence(sequence);
    }
    let mut cut = stop == Stop::MaxTokens && !parts.is_empty();
    if limit_tokens(&mut parts, bounds.max_tokens) {
        (stop, cut) = (Stop::MaxTokens, true);
    }
    if limit_tokens(&mut parts, bounds.room) {
        (stop, cut) = (Stop::ContextWindow, true);
    }
    AllowedTurn { parts, stop, cut, most: bounds.max_tokens }
}

impl AllowedTurn {
    /// Estimates the output tokens: all, and those of thinking. Neither exceeds the output limit.
    pub(crate) fn output_tokens(&self) -> (u64, u64) {
        let thinking = |p: &&Part| matches!(p, Part::Thinking(_) | Part::RedactedThinking);
        let thought: u64 = self.parts.iter().filter(thinking).map(part_tokens).sum();
        let all = BASE_OUTPUT + self.parts.iter().map(part_tokens).sum::<u64>();
        (all.min(self.most), thought.min(self.most))
    }
}

fn part_tokens(part: &Part) -> u64 {
    match part {
        Part::Text(text) | Part::Thinking(text) => estimate_tokens(text.len()),
        Part::RedactedThinking => 16,
        Part::Tool { name, input, .. } | Part::ServerTool { name, input } => {
            estimate_tokens(name.len() + input.len())
        }
        Part::ServerResult { .. } => 0,
    }
}

fn apply_thinking(law: ThinkingPresence, parts: &mut Vec<Part>) {
    let thinks = |p: &Part| matches!(p, Part::Thinking(_) | Part::RedactedThinking);
    if law == ThinkingPresence::Off {
        parts.retain(|p| !thinks(p));
        return;
    }
    let calls = parts.iter().any(Part::is_call);
    if law == ThinkingPresence::Opens && calls && !parts.first().is_some_and(thinks) {
        parts.insert(0, Part::Thinking("Let me look.".to_owned()));
    }
}

fn apply_tool_choice(bounds: &ResponseBounds<'_>, parts: &mut Vec<Part>) {
    let allowed = |name: &str| bounds.allowed.as_ref().is_none_or(|names| names.contains(&name));
    let mut calls = 0;
    parts.retain(|part| match part {
        Part::Tool { name, .. } => {
            let named = match bounds.choice {
                Choice::None => false,
                Choice::Tool(forced) => name == forced,
                Choice::Auto | Choice::Any => allowed(name),
            };
            calls += usize::from(named);
            named && (bounds.parallel || calls == 1)
        }
        // A forced call comes first: no text precedes it.
        Part::Text(_) => !bounds.choice.is_forced(),
        _ => true,
    });
}

/// Cuts the text at the first stop sequence, and drops all that follows. Returns the sequence.
fn apply_stop_sequences(sequences: &[&str], parts: &mut Vec<Part>) -> Option<String> {
    for i in 0..parts.len() {
        let Some(Part::Text(text)) = parts.get_mut(i) else { continue };
        let first = sequences
            .iter()
            .filter_map(|s| text.find(s).map(|at| (at, *s)))
            .min_by_key(|(at, _)| *at);
        if let Some((at, sequence)) = first {
            text.truncate(at);
            let keep = if at == 0 { i } else { i + 1 };
            parts.truncate(keep);
            return Some(sequence.to_owned());
        }
    }
    None
}

/// Cuts the parts to `tokens`. Returns true if anything was cut.
fn limit_tokens(parts: &mut Vec<Part>, tokens: u64) -> bool {
    let mut left = tokens;
    for i in 0..parts.len() {
        let Some(part) = parts.get_mut(i) else { break };
        let need = part_tokens(part);
        if need <= left {
            left -= need;
            continue;
        }
        let bytes = usize::try_from(left * 4).unwrap_or(usize::MAX);
        let keep = match part {
            Part::Text(text) | Part::Thinking(text) => truncate_text(text, bytes),
            Part::Tool { name, input, .. } | Part::ServerTool { name, input } => {
                bytes > name.len() && truncate_text(input, bytes - name.len())
            }
            Part::RedactedThinking | Part::ServerResult { .. } => false,
        };
        parts.truncate(if keep { i + 1 } else { i });
        return true;
    }
    false
}

/// Cuts a text at a character boundary. Returns true if more than white space is left.
fn truncate_text(text: &mut String, bytes: usize) -> bool {
    let mut at = bytes.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    text.truncate(at);
    !text.trim().is_empty()
}
