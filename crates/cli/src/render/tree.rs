//! The picture of a run and of the sub-agents' runs within it, which go on side by side: each is
//! indented under its caller's, and a line says whose part follows where that changes.
//!
//! A sub-agent's answer is not shown at its end but as the result of the call that asked for it.

use std::collections::BTreeMap;
use std::time::Instant;

use softland_agent::{Event, EventKind};

use super::pieces::{Piece, Style, To};
use super::summary::summary;
use super::text::line;
use super::view::{Kept, Show, View};

/// Columns by which a sub-agent's run is indented.
const INDENT: usize = 4;
/// Levels that are indented; what is deeper stands where these do.
const LEVELS: usize = 6;

/// The picture of a tree of runs.
pub(crate) struct Tree {
    show: Show,
    /// A sub-agent's run is one line.
    folded: bool,
    width: usize,
    /// The run that was asked for.
    first: View,
    children: BTreeMap<String, Child>,
    /// Whose part was shown last, where it was a child's.
    speaking: Option<String>,
}

/// A sub-agent's run.
struct Child {
    view: View,
    /// Its name, and which of its caller's children it is.
    label: String,
    level: usize,
    began: Instant,
}

impl Tree {
    /// A picture of `width` columns.
    pub(crate) fn new(show: Show, folded: bool, width: usize, kept: Option<Kept>) -> Self {
        let mut first = View::new(show, width);
        first.keep(kept);
        Self { show, folded, width, first, children: BTreeMap::new(), speaking: None }
    }

    /// The terminal has another width now.
    pub(crate) fn resize(&mut self, width: usize) {
        self.width = width;
        self.first.resize(width);
        for child in self.children.values_mut() {
            child.view.resize(width.saturating_sub(child.level * INDENT));
        }
    }

    /// What to print for one event.
    pub(crate) fn event(&mut self, event: &Event) -> Vec<Piece> {
        if let EventKind::Child { child_run, agent, id } = &event.kind {
            self.begin(&event.run, child_run, (agent, id));
        }
        if !self.children.contains_key(&event.run) {
            let pieces = self.first.event(event);
            if !pieces.is_empty() {
                self.speaking = None;
            }
            return pieces;
        }
        self.child_event(event)
    }

    /// A call of `caller` began the run of an agent.
    fn begin(&mut self, caller: &str, run: &str, (agent, call): (&str, &str)) {
        let above = self.children.get(caller);
        let level = above.map_or(1, |caller| (caller.level + 1).min(LEVELS));
        let kept = above.map_or(&self.first, |caller| &caller.view).kept_within(call);
        // Lines that are not ended could not stand beside others', and the answer is the caller's.
        let show = Show {
            stream_text: false,
            markdown: false,
            thinking: false,
            nested: true,
            ..self.show
        };
        let mut view = View::new(show, self.width.saturating_sub(level * INDENT));
        view.keep(kept);
        let which = run.rsplit('.').next().unwrap_or_default();
        let label = format!("{agent} #{which}");
        self.children.insert(run.to_owned(), Child { view, label, level, began: Instant::now() });
    }

    fn child_event(&mut self, event: &Event) -> Vec<Piece> {
        let Some(child) = self.children.get_mut(&event.run) else { return Vec::new() };
        let (level, width) = (child.level, self.width.saturating_sub(child.level * INDENT));
        let mut pieces = child.view.event(event);
        pieces.retain(|piece| piece.to == To::Notes && !self.folded);
        let label = child.label.clone();
        if let EventKind::Done { report } | EventKind::Error { report, .. } = &event.kind {
            // What it cost was said to be simulated or not where the whole run ends.
            let ended = summary(report, child.began.elapsed(), false, usize::MAX / 2);
            let ended: String = ended.into_iter().map(|piece| piece.text).collect();
            let ended = format!("{label}: {}", ended.trim_end().replace('\n', " · "));
            let style = if report.ended.outcome.is_done() { Style::Dim } else { Style::Bad };
            pieces.push(Piece::note(style, line(&ended, width)));
            pieces.push(Piece::note(Style::Plain, "\n"));
            self.children.remove(&event.run);
        }
        if pieces.is_empty() {
            return pieces;
        }
        let mut shown = Vec::new();
        if self.speaking.as_ref() != Some(&event.run) && !self.folded {
            shown.push(Piece::note(Style::Bold, line(&format!("[{label}]"), width)));
            shown.push(Piece::note(Style::Plain, "\n"));
        }
        self.speaking = Some(event.run.clone());
        shown.extend(pieces);
        indented(shown, level * INDENT)
    }
}

/// Whole lines, each with so many columns before it.
fn indented(pieces: Vec<Piece>, columns: usize) -> Vec<Piece> {
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
