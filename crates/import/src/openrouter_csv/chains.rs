//! Chains of rows: rows of the same key, app and model in which no prompt is smaller than the one
//! before.
//!
//! A row continues the chain whose newest prompt is the largest that fits. If several conversations
//! run at once, that rule alone would give a context that is asked again and again to neighbours
//! that grow past it. So a chain that ends in a trivial answer is kept for more trivial answers to
//! the same number of tokens, as long as such rows follow. Among growing conversations, equality is
//! the strongest sign there is. Rows wait in a small window, so that the rows that follow are
//! known.

use std::collections::{BTreeMap, HashMap, VecDeque};

use softland_session::wire::Tokens;

use super::entry::Entry;
use crate::draft::TurnDraft;
use crate::step::{ActivityRow, ConversationId, ConversationStart};
use crate::step_output::StepOutput;

/// Rows that wait.
const WINDOW: usize = 4096;
/// Chains that are searched for a better match than the largest that fits.
const LOOKED_AT: usize = 64;

#[derive(Default)]
pub(super) struct Chains {
    by_name: HashMap<(String, String, String), usize>,
    groups: Vec<Group>,
    window: VecDeque<Entry>,
    /// Trivial rows in the window, by group and prompt.
    coming: HashMap<(usize, u64), usize>,
}

/// The chains of one key, app and model.
#[derive(Default)]
struct Group {
    model: Option<String>,
    /// Open chains by their newest prompts.
    open: BTreeMap<u64, Vec<Chain>>,
    /// Chains that are kept for rows of the same prompt.
    kept: HashMap<u64, Chain>,
}

#[derive(Clone, Copy)]
struct Chain {
    talk: ConversationId,
    /// True if its newest row is trivial.
    trivial: bool,
    /// True if the chain was kept, and its newest row ends that.
    was_kept: bool,
}

impl Chains {
    /// Returns the group of a key, an app and a model.
    pub(super) fn group_index(&mut self, key: &str, app: &str, model: &str) -> usize {
        let next = self.groups.len();
        let names = (key.to_owned(), app.to_owned(), model.to_owned());
        let group = *self.by_name.entry(names).or_insert(next);
        if group == next {
            let model = (!model.is_empty()).then(|| model.to_owned());
            self.groups.push(Group { model, ..Group::default() });
        }
        group
    }

    /// Takes the next row, oldest first.
    pub(super) fn take_row(&mut self, out: &mut StepOutput<'_>, row: Entry) {
        if row.may_be_stale() {
            *self.coming.entry((row.group, row.prompt)).or_default() += 1;
        }
        self.window.push_back(row);
        if self.window.len() > WINDOW {
            self.place_row(out);
        }
    }

    /// Places the rows that still wait.
    pub(super) fn place_waiting_rows(&mut self, out: &mut StepOutput<'_>) {
        while !self.window.is_empty() {
            self.place_row(out);
        }
    }

    /// Puts the oldest row that waits into its chain.
    fn place_row(&mut self, out: &mut StepOutput<'_>) {
        let Some(row) = self.window.pop_front() else { return };
        let same = (row.group, row.prompt);
        let trivial = row.may_be_stale();
        if trivial && let Some(count) = self.coming.get_mut(&same) {
            *count -= 1;
            if *count == 0 {
                self.coming.remove(&same);
            }
        }
        let more = self.coming.contains_key(&same);
        let Some(group) = self.groups.get_mut(row.group) else { return };
        let suits = trivial || row.is_unknown();
        let kept = if suits { group.kept.remove(&row.prompt) } else { None };
        let was_kept = kept.is_some();
        let found = kept.or_else(|| group.take_chain(row.prompt, trivial, more));
        let begin = ConversationStart {
            inferred: true,
            line: Some(row.line),
            ..ConversationStart::default()
        };
        let talk = found.map_or_else(|| out.begin_conversation(&begin), |chain| chain.talk);
        let chain = Chain { talk, trivial, was_kept };
        if more && suits && (trivial || was_kept) {
            group.kept.insert(row.prompt, chain);
        } else {
            group.open.entry(row.prompt).or_default().push(chain);
        }
        make_draft(&row, group.model.clone()).emit_turn(out, talk);
    }
}

impl Group {
    /// Takes the chain whose newest prompt is the largest that fits. A trivial row does not
    /// continue a chain in which another context was asked in vain, if there is any other chain:
    /// neither would be read right.
    fn take_chain(&mut self, prompt: u64, trivial: bool, more: bool) -> Option<Chain> {
        let unlike =
            |last: u64, chain: &Chain| last != prompt && (chain.was_kept || more && chain.trivial);
        let fits = self.open.range(..=prompt).rev().take(LOOKED_AT);
        let places = fits.flat_map(|(last, chains)| {
            chains.iter().enumerate().rev().map(|(at, chain)| (*last, at, chain))
        });
        let mut places = places.take(LOOKED_AT).peekable();
        let largest = places.peek().copied();
        let better =
            if trivial { places.find(|(last, _, chain)| !unlike(*last, chain)) } else { None };
        let (last, at, _) = better.or(largest)?;
        let chains = self.open.get_mut(&last)?;
        let chain = (at < chains.len()).then(|| chains.remove(at))?;
        if chains.is_empty() {
            self.open.remove(&last);
        }
        Some(chain)
    }
}

/// Returns a row as a turn.
fn make_draft(row: &Entry, model: Option<String>) -> TurnDraft {
    let tokens = Tokens {
        input: row.prompt.saturating_sub(row.cached),
        output: row.completion,
        cache_read: row.cached.min(row.prompt),
        ..Tokens::default()
    };
    let trivial = row.is_trivial();
    TurnDraft {
        stop: Some(row.stop),
        model,
        tokens: Some(tokens),
        cost: row.cost,
        time: row.time,
        line: Some(row.line),
        row: Some(ActivityRow {
            prompt: row.prompt,
            trivial,
            calls: row.calls,
            cancelled: row.cancelled,
        }),
        ..TurnDraft::default()
    }
}
