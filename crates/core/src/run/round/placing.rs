//! The place of the lines of a round: a result that the model reads as text.

use alloc::vec::Vec;

use super::ResultLine;
use crate::addition::{Addition, AdditionKind, LinePlace};
use crate::event::{LineRoom, ToolResult};
use crate::run::{Phase, Run};

impl Run {
    /// Returns the additions for the lines that are due at these results, by the index of their
    /// result. A line that finds no room in its result stands in the next one with room, else in
    /// the last one before it, else in a result of a later message. The note of a landing does not
    /// wait for one: it stands in the refusals of the calls that follow.
    pub(super) fn place_lines(
        &mut self,
        results: &[ToolResult<'_>],
        due: Vec<(usize, ResultLine)>,
    ) -> Vec<Addition> {
        let mut additions: Vec<Addition> = Vec::new();
        let mut due = due.into_iter().peekable();
        for (index, result) in results.iter().enumerate() {
            let own = due.next_if(|(at, _)| *at == index).map(|(_, line)| line);
            let line = self.choose_line(own);
            if result.room == LineRoom::Text {
                additions.extend(line.map(|line| at_result(index, line)));
            } else {
                self.held = line;
            }
        }
        let Some(held) = self.held.take() else { return additions };
        let last = results.iter().rposition(|result| result.room == LineRoom::Text);
        let there = |index| {
            additions.iter().position(|addition| addition.place == LinePlace::Result(index))
        };
        match last.map(|index| (index, there(index))) {
            Some((index, None)) => additions.push(at_result(index, held)),
            Some((index, Some(at))) if additions.get(at).is_some_and(|a| a.kind < held.0) => {
                additions.splice(at..=at, [at_result(index, held)]);
            }
            _ if held.0 == AdditionKind::Ask => self.land_without_line(),
            _ => self.held = Some(held),
        }
        additions
    }

    /// Returns the more important one of the line that waits for room and a result's own. A warning
    /// that is left out comes later.
    fn choose_line(&mut self, own: Option<ResultLine>) -> Option<ResultLine> {
        let Some(held) = self.held.take() else { return own };
        let Some(own) = own else { return Some(held) };
        let (line, other) = if own.0 >= held.0 { (own, held) } else { (held, own) };
        if let (AdditionKind::Warn, Some(because)) = (other.0, other.1) {
            self.displaced.insert(0, because);
        }
        Some(line)
    }

    /// Goes on landing although no result of this message has room for the note.
    fn land_without_line(&mut self) {
        if let Phase::Landing { because, .. } = &self.phase {
            self.phase = Phase::Waiting { because: because.clone() };
        }
    }
}

fn at_result(index: usize, (kind, because, text): ResultLine) -> Addition {
    Addition { place: LinePlace::Result(index), kind, because, text }
}
