//! The view of one run's events in block order: text, calls, results, and softland's interventions.
//!
//! The view is pure: it takes events and returns pieces. Its state is the open line and the open
//! block.

use std::fmt::Write as _;

use softland_agent::core::Outcome;
use softland_agent::core::policy::Policy;
use softland_agent::{Event, EventKind, Report};
use unicode_width::UnicodeWidthStr as _;

use super::markdown::Markdown;
use super::pieces::{OutputStream, Piece, Style};
use super::text::{MIN_WIDTH, cut_line, flow_items, format_count, make_harmless, wrap_words};

mod fold;
#[cfg(test)]
mod tests;
mod verbose;

pub(crate) use fold::CallLocator;

/// The most characters of a call's input that are kept for its line.
const INPUT_KEPT: usize = 4096;

/// The columns of the margin before an intervention.
const MARGIN: usize = 4;

/// The width below which reasons are left out, in columns.
const NARROW: usize = 50;

/// The options of a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ViewOptions {
    /// True if text streams to standard output, which is a terminal. Otherwise only the answer is
    /// written there, at the end.
    pub(crate) stream_text: bool,
    /// True if text is rendered as Markdown.
    pub(crate) markdown: bool,
    /// True if the model's thinking is shown.
    pub(crate) thinking: bool,
    /// The verbosity. 1: phases, usage, odd turns, longer results; 2: complete inputs and results.
    pub(crate) verbose: u8,
    /// True for a sub-agent's run, which is indented.
    pub(crate) nested: bool,
}

/// The block that is being received.
#[derive(Debug, Default)]
enum OpenBlock {
    #[default]
    Nothing,
    Text,
    Thinking,
    Call {
        name: String,
        input: String,
        /// True if the input was cut off.
        cut: bool,
    },
}

/// The view of one run.
#[derive(Debug, Default)]
pub(crate) struct RunView {
    show: ViewOptions,
    width: usize,
    open: OpenBlock,
    markdown: Markdown,
    /// True if a part of the open text block was shown.
    begun: bool,
    /// The stream with an unfinished line.
    unfinished: Option<OutputStream>,
    /// The arguments with which `softland show` finds the run's calls, if the run is kept.
    kept: Option<CallLocator>,
    turn: u64,
    /// The ids of the calls of this turn, each with true if it is answered.
    calls: Vec<(String, bool)>,
    /// The counts of this turn.
    heard: verbose::TurnCounts,
    /// The text of this turn.
    said: String,
    /// The number of bytes at the end of the text that are not shown yet.
    held: usize,
    pieces: Vec<Piece>,
}

impl RunView {
    /// Creates a view of `width` columns.
    pub(crate) fn new(show: ViewOptions, width: usize) -> Self {
        let mut view = Self { show, ..Self::default() };
        view.resize(width);
        view
    }

    /// Sets the width of the terminal.
    pub(crate) fn resize(&mut self, width: usize) {
        self.width = width.max(MIN_WIDTH);
        self.markdown.resize(width);
    }

    /// Returns the output for one event.
    pub(crate) fn render_event(&mut self, event: &Event) -> Vec<Piece> {
        match &event.kind {
            EventKind::RunStart { agent, model, policy } => self.begin_run(agent, model, policy),
            EventKind::TurnStart { turns_limit, tool_calls, tool_calls_limit, phase } => {
                self.begin_turn(event.turn, *turns_limit, (*tool_calls, *tool_calls_limit), phase);
            }
            EventKind::TextStart => {
                self.begin_block(OpenBlock::Text);
                self.begun = false;
            }
            EventKind::TextDelta { text } => self.push_text(text),
            EventKind::ThinkingStart => self.begin_thinking(),
            EventKind::ThinkingDelta { text } => self.push_thinking(text),
            EventKind::ToolStart { id, name } => self.begin_call(id, name),
            EventKind::ToolInputDelta { partial_json, .. } => self.push_call_input(partial_json),
            EventKind::BlockStop { .. } => self.begin_block(OpenBlock::Nothing),
            EventKind::ToolExecute { .. } => {}
            EventKind::ToolResult { id, name, ok, content, ms } => {
                self.show_result((id, name), *ok, content, *ms);
            }
            EventKind::Signal { signal, evidence } => self.show_signal(signal, evidence),
            EventKind::Intervention { intervention, because, text, observed } => {
                let would = if *observed { "would " } else { "" };
                let mut what = format!("{would}{intervention}");
                // A narrow line has room for the text only.
                if let Some(because) = because.as_ref().filter(|_| self.width >= NARROW) {
                    // Writing into a string cannot fail.
                    let _ = write!(what, " [{because}]");
                }
                if let Some(text) = text {
                    let _ = write!(what, " {}", text.trim());
                }
                self.show_intervention(&what);
            }
            EventKind::Usage { input, output, cache_read, cache_write, request_id, .. } => {
                self.show_usage(
                    [*input, *cache_read, *cache_write, *output],
                    request_id.as_deref(),
                );
            }
            // The call shows this already, and the view of the sub-agent's run follows.
            EventKind::Child { .. } => {}
            EventKind::Done { report } => self.end_run(report),
            EventKind::Error { message, report } => self.show_failure(message, report),
            // A later kind of event, which this view has no form for.
            _ => {}
        }
        std::mem::take(&mut self.pieces)
    }

    fn begin_run(&mut self, agent: &str, model: &str, policy: &Policy) {
        let mut head = vec![agent.to_owned(), model.to_owned()];
        head.extend(changed_keys(policy).into_iter().map(|(key, value)| format!("{key} {value}")));
        self.show_head(Style::Bold, &head);
    }

    fn begin_turn(
        &mut self,
        turn: u64,
        turns_limit: Option<u64>,
        calls: (u64, Option<u64>),
        phase: &str,
    ) {
        self.begin_block(OpenBlock::Nothing);
        self.show_held();
        self.end_turn();
        self.said.clear();
        self.calls.clear();
        self.turn = turn;
        let mut head = vec![match turns_limit {
            Some(limit) => format!("turn {turn} of {limit}"),
            None => format!("turn {turn}"),
        }];
        if phase != "silent" || self.show.verbose > 0 {
            head.push(phase.to_owned());
        }
        match calls {
            (calls, Some(limit)) => head.push(format!("{calls} of {limit} tool calls")),
            (0, None) => {}
            (calls, None) => head.push(format_count(calls, "tool call")),
        }
        self.show_head(Style::Dim, &head);
    }

    /// Ends the open block and begins another.
    fn begin_block(&mut self, next: OpenBlock) {
        if self.show.markdown {
            let rest = self.markdown.finish_text();
            self.pieces.extend(rest);
        }
        if let OpenBlock::Call { name, input, cut } = std::mem::replace(&mut self.open, next) {
            self.end_line();
            let mark = if cut { " (cut off)" } else { "" };
            let call = cut_line(&format!("→ {name}{mark}"), self.width);
            let room = self.width.saturating_sub(call.width() + 1);
            let input = match input.trim() {
                "" if !cut => "{}",
                input => input,
            };
            self.pieces.push(Piece::note(Style::Call, call));
            if self.show.verbose > 1 && input.width() > room {
                self.pieces.push(Piece::note(Style::Plain, "\n"));
                return self.show_whole(Style::Dim, input);
            }
            let input = if room < 2 || input.is_empty() {
                String::new()
            } else {
                format!(" {}", cut_line(input, room))
            };
            self.pieces.push(Piece::note(Style::Dim, input));
            self.pieces.push(Piece::note(Style::Plain, "\n"));
        } else if self.unfinished == Some(OutputStream::Notes) {
            self.end_line();
        }
    }

    fn push_text(&mut self, text: &str) {
        self.heard.count_text(text);
        self.said.push_str(text);
        if !self.show.stream_text {
            self.held += text.len();
            return;
        }
        if self.unfinished == Some(OutputStream::Notes) {
            self.end_line();
        }
        let shown = make_harmless(text);
        if self.show.markdown {
            let finished = self.markdown.push(&shown);
            return self.pieces.extend(finished);
        }
        // Blank lines before the first word of a block would only move it down.
        let shown = if self.begun { shown.as_str() } else { shown.trim_start_matches('\n') };
        if !shown.is_empty() {
            self.begun = true;
            self.unfinished = if shown.ends_with('\n') { None } else { Some(OutputStream::Answer) };
            self.pieces.push(Piece::answer(shown));
        }
    }

    fn begin_thinking(&mut self) {
        self.begin_block(OpenBlock::Thinking);
        if self.show.thinking {
            self.end_line();
            self.pieces.push(Piece::note(Style::Dim, "thinking: "));
            self.unfinished = Some(OutputStream::Notes);
        }
    }

    fn push_thinking(&mut self, text: &str) {
        if self.show.thinking && !text.is_empty() {
            let shown = make_harmless(text);
            self.unfinished = if shown.ends_with('\n') { None } else { Some(OutputStream::Notes) };
            self.pieces.push(Piece::note(Style::Dim, shown));
        }
    }

    fn begin_call(&mut self, id: &str, name: &str) {
        self.begin_block(OpenBlock::Call {
            name: name.to_owned(),
            input: String::new(),
            cut: false,
        });
        // Text before a call is not the answer, so it is shown here.
        self.show_held();
        self.calls.push((id.to_owned(), false));
        self.heard.calls += 1;
    }

    fn push_call_input(&mut self, partial: &str) {
        let kept = if self.show.verbose > 1 { usize::MAX } else { INPUT_KEPT };
        if let OpenBlock::Call { input, .. } = &mut self.open
            && input.len() < kept
        {
            input.extend(partial.chars().take(kept));
        }
    }

    fn show_intervention(&mut self, what: &str) {
        if self.show.verbose == 0 {
            return self.push_note(Style::Dim, &format!("  » {what}"));
        }
        for (at, text) in wrap_words(what, self.width.saturating_sub(MARGIN)).iter().enumerate() {
            let mark = if at == 0 { "  » " } else { "    " };
            self.push_note(Style::Dim, &format!("{mark}{text}"));
        }
    }

    fn end_run(&mut self, report: &Report) {
        self.begin_block(OpenBlock::Nothing);
        self.end_turn();
        let answer = report.answer.as_deref().unwrap_or_default();
        if !self.show.stream_text {
            self.held = 0;
            self.show_answer(answer.to_owned());
        } else if !self.said.trim_end().ends_with(answer.trim()) {
            self.end_line();
            match self.show.markdown {
                true => self.push_text(answer),
                false => self.show_answer(make_harmless(answer)),
            }
            self.begin_block(OpenBlock::Nothing);
        }
        self.end_line();
    }

    fn show_answer(&mut self, mut answer: String) {
        if !answer.ends_with('\n') {
            answer.push('\n');
        }
        self.pieces.push(Piece::answer(answer));
    }

    fn show_failure(&mut self, message: &str, report: &Report) {
        if let OpenBlock::Call { cut, .. } = &mut self.open {
            *cut = true;
        }
        self.begin_block(OpenBlock::Nothing);
        self.show_held();
        if !self.said.trim().is_empty() {
            self.push_note(Style::Bad, "the text above is partial, not an answer");
        }
        self.end_line();
        if report.ended.outcome == Outcome::Cancelled {
            return;
        }
        let message = format!("error: {}", make_harmless(message).replace('\n', " "));
        self.push_uncut(Style::Bad, &message);
    }

    /// Shows the text that was held back because it could have been the answer.
    fn show_held(&mut self) {
        let at = self.said.len().saturating_sub(std::mem::take(&mut self.held));
        let held = make_harmless(self.said.get(at..).unwrap_or_default());
        if held.trim().is_empty() {
            return;
        }
        for line in held.trim().lines() {
            self.push_uncut(Style::Plain, line);
        }
    }

    /// Adds a line that is not cut. A terminal wraps a long line itself, but not beside a margin.
    fn push_uncut(&mut self, style: Style, text: &str) {
        let breaks = self.show.nested && !text.trim().is_empty();
        let lines = if breaks { wrap_words(text, self.width) } else { vec![text.to_owned()] };
        self.pieces.extend(lines.into_iter().map(|text| Piece::note(style, text + "\n")));
    }

    fn show_head(&mut self, style: Style, items: &[String]) {
        for text in flow_items(items, self.width) {
            self.push_note(style, &text);
        }
    }

    fn push_note(&mut self, style: Style, text: &str) {
        self.begin_block(OpenBlock::Nothing);
        self.end_line();
        let text = cut_line(text, self.width);
        self.pieces.push(Piece::note(style, text));
        self.pieces.push(Piece::note(Style::Plain, "\n"));
    }

    fn end_line(&mut self) {
        if let Some(to) = self.unfinished.take() {
            self.pieces.push(Piece { to, style: Style::Plain, text: "\n".to_owned() });
        }
    }
}

/// The most members of a key's table that are shown one by one.
const MOST_MEMBERS: usize = 3;

/// Returns the keys of a policy that differ from the default, with their values.
fn changed_keys(policy: &Policy) -> Vec<(String, String)> {
    let json = |policy: &Policy| serde_json::to_value(policy).unwrap_or_default();
    let default = json(&Policy::default());
    let serde_json::Value::Object(keys) = json(policy) else { return Vec::new() };
    let set = keys.into_iter().filter(|(key, value)| default.get(key) != Some(value));
    set.filter_map(|(key, value)| {
        let shown = match value {
            serde_json::Value::String(text) => text,
            serde_json::Value::Object(tools) => format_table(&key, tools)?,
            value => value.to_string(),
        };
        Some((key, shown))
    })
    .collect()
}

/// Formats a table of tools: `grep=5, read_file=reads`. What the servers of MCP say of their own
/// tools is nobody's setting and left out.
fn format_table(key: &str, tools: serde_json::Map<String, serde_json::Value>) -> Option<String> {
    let told = |name: &str| key == "loop_keys" && name.starts_with("mcp__");
    let tools: Vec<_> = tools.into_iter().filter(|(name, _)| !told(name)).collect();
    // A table with an entry for each of many tools would be too long for a line.
    if tools.len() > MOST_MEMBERS {
        return Some(format!("for {}", format_count(tools.len() as u64, "tool")));
    }
    let entry = |(name, value): (String, serde_json::Value)| match value {
        serde_json::Value::String(text) => format!("{name}={text}"),
        value => format!("{name}={value}"),
    };
    let entries: Vec<String> = tools.into_iter().map(entry).collect();
    (!entries.is_empty()).then(|| entries.join(", "))
}
