//! The view of a run and of its sub-agents' runs, which proceed side by side. Each run is indented
//! under its caller's, and a line names the agent when the output switches to another run.
//!
//! A sub-agent's answer is shown as the result of the call that started it, not at the end of its
//! run.

use std::collections::BTreeMap;

use softland_agent::{Event, EventKind};

use super::pieces::{OutputStream, Piece, Style};
use super::summary::render_summary;
use super::text::cut_line;
use super::view::{CallLocator, RunView, ViewOptions};

/// The columns by which a sub-agent's run is indented.
const INDENT: usize = 4;
/// The most levels of indentation; deeper runs are indented as the last of these.
const LEVELS: usize = 6;

/// The view of a tree of runs.
pub(crate) struct RunTreeView {
    show: ViewOptions,
    /// True if each sub-agent's run is shown as one line.
    folded: bool,
    width: usize,
    /// The view of the run at the top.
    first: RunView,
    children: BTreeMap<String, ChildView>,
    /// The sub-agent's run whose output was shown last; `None` for the run at the top.
    speaking: Option<String>,
}

/// The view of a sub-agent's run.
struct ChildView {
    view: RunView,
    /// The agent's name, and the run's number among its caller's sub-agents.
    label: String,
    level: usize,
    /// The time of the event that began it.
    began: String,
}

impl RunTreeView {
    /// Creates a view of `width` columns.
    pub(crate) fn new(
        show: ViewOptions,
        folded: bool,
        width: usize,
        kept: Option<CallLocator>,
    ) -> Self {
        let mut first = RunView::new(show, width);
        first.set_locator(kept);
        Self { show, folded, width, first, children: BTreeMap::new(), speaking: None }
    }

    /// Sets the width of the terminal.
    pub(crate) fn resize(&mut self, width: usize) {
        self.width = width;
        self.first.resize(width);
        for child in self.children.values_mut() {
            child.view.resize(width.saturating_sub(child.level * INDENT));
        }
    }

    /// Returns the output for one event.
    pub(crate) fn render_event(&mut self, event: &Event) -> Vec<Piece> {
        if let EventKind::Child { child_run, agent, id } = &event.kind {
            self.add_child(event, child_run, (agent, id));
        }
        if !self.children.contains_key(&event.run) {
            let pieces = self.first.render_event(event);
            if !pieces.is_empty() {
                self.speaking = None;
            }
            return pieces;
        }
        self.render_child_event(event)
    }

    /// Adds the run of a sub-agent, which a call began.
    fn add_child(&mut self, began: &Event, run: &str, (agent, call): (&str, &str)) {
        let above = self.children.get(&began.run);
        let level = above.map_or(1, |caller| (caller.level + 1).min(LEVELS));
        let kept = above.map_or(&self.first, |caller| &caller.view).locator_within(call);
        // Unfinished lines of several runs could not be shown side by side, and the answer belongs
        // to the caller.
        let show = ViewOptions {
            stream_text: false,
            markdown: false,
            thinking: false,
            nested: true,
            ..self.show
        };
        let mut view = RunView::new(show, self.width.saturating_sub(level * INDENT));
        view.set_locator(kept);
        let which = run.rsplit('.').next().unwrap_or_default();
        let label = format!("{agent} #{which}");
        let began = began.ts.clone();
        self.children.insert(run.to_owned(), ChildView { view, label, level, began });
    }

    fn render_child_event(&mut self, event: &Event) -> Vec<Piece> {
        let Some(child) = self.children.get_mut(&event.run) else { return Vec::new() };
        let (level, width) = (child.level, self.width.saturating_sub(child.level * INDENT));
        let mut pieces = child.view.render_event(event);
        pieces.retain(|piece| piece.to == OutputStream::Notes && !self.folded);
        let label = child.label.clone();
        if let EventKind::Done { report } | EventKind::Error { report, .. } = &event.kind {
            // Simulated cost is marked once, at the end of the whole run.
            let ended =
                render_summary(report, event.time_since(&child.began), false, usize::MAX / 2);
            let ended: String = ended.into_iter().map(|piece| piece.text).collect();
            let ended = format!("{label}: {}", ended.trim_end().replace('\n', " · "));
            let style = if report.ended.outcome.is_done() { Style::Dim } else { Style::Bad };
            pieces.push(Piece::note(style, cut_line(&ended, width)));
            pieces.push(Piece::note(Style::Plain, "\n"));
            self.children.remove(&event.run);
        }
        if pieces.is_empty() {
            return pieces;
        }
        let mut shown = Vec::new();
        if self.speaking.as_ref() != Some(&event.run) && !self.folded {
            shown.push(Piece::note(Style::Bold, cut_line(&format!("[{label}]"), width)));
            shown.push(Piece::note(Style::Plain, "\n"));
        }
        self.speaking = Some(event.run.clone());
        shown.extend(pieces);
        indent_lines(shown, level * INDENT)
    }
}

/// Indents complete lines by a number of columns.
fn indent_lines(pieces: Vec<Piece>, columns: usize) -> Vec<Piece> {
    let margin = " ".repeat(columns);
    let mut shown = Vec::with_capacity(pieces.len() * 2);
    let mut begins = true;
    for Piece { to, style, text } in pieces {
        for part in text.split_inclusive('\n') {
            if begins && part != "\n" {
                shown.push(Piece::note(Style::Plain, margin.clone()));
            }
            begins = part.ends_with('\n');
            shown.push(Piece { to, style, text: part.to_owned() });
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e21_the_time_of_a_run_is_that_between_its_events() {
        let show = ViewOptions {
            stream_text: false,
            markdown: false,
            thinking: false,
            verbose: 0,
            nested: false,
        };
        let mut view = RunTreeView::new(show, true, 200, None);
        let mut shown = |line: &str| -> String {
            let pieces = view.render_event(&serde_json::from_str(line).unwrap());
            pieces.into_iter().map(|piece| piece.text).collect()
        };
        shown(
            r#"{"v":1,"seq":4,"ts":"2026-11-29T10:00:00.250Z","run":"r","turn":1,
                "event":"child","child_run":"r.1","agent":"scout","id":"toolu_1"}"#,
        );
        let ended = shown(
            r#"{"v":1,"seq":9,"ts":"2026-11-29T10:01:30.750Z","run":"r.1","turn":2,"event":"done",
                "outcome":"answered","reason":"final","answer":"yes","answered_by":"model","turns":2,
                "tool_calls":1,"cost_usd":0.01,
                "usage":{"input":1,"output":1,"cache_read":0,"cache_write":0}}"#,
        );
        assert!(ended.trim_end().ends_with("· 90.5 s"), "{ended}");
    }
}
