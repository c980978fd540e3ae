//! The output of `-v`: the tokens and context of a response, and odd turns. Also signals, which are
//! always shown.

use softland_agent::core::Evidence;

use super::super::text::{format_count, group_digits};
use super::RunView;

/// The limits of a trivial turn, as the gateway's detector has them: fewer visible characters and
/// at most this many output tokens, without a call.
const TRIVIAL: (usize, u64) = (10, 5);

/// The counts of one turn.
#[derive(Debug, Default)]
pub(super) struct TurnCounts {
    characters: usize,
    pub(super) calls: usize,
    /// The output tokens of the newest response.
    output: Option<u64>,
}

impl TurnCounts {
    pub(super) fn count_text(&mut self, text: &str) {
        self.characters += text.chars().filter(|c| !c.is_whitespace()).count();
    }
}

impl RunView {
    /// Handles the end of a response. The tokens are uncached input, read from the cache, written
    /// to the cache, and output.
    pub(super) fn show_usage(&mut self, [input, read, write, output]: [u64; 4], id: Option<&str>) {
        self.heard.output = Some(output);
        if self.show.verbose == 0 {
            return;
        }
        let context = [input, read, write, output].into_iter().fold(0, u64::saturating_add);
        let id = id.filter(|_| self.show.verbose > 1);
        let id = id.map(|id| format!(" · request {id}")).unwrap_or_default();
        self.show_intervention(&format!(
            "usage: {} in, {} from cache, {} to cache, {} out · context {} tokens{id}",
            group_digits(input),
            group_digits(read),
            group_digits(write),
            group_digits(output),
            group_digits(context)
        ));
    }

    /// Handles the end of a turn. A response may be shown after its usage, so an empty turn can
    /// only be recognized here.
    pub(super) fn end_turn(&mut self) {
        let TurnCounts { characters, calls, output } = std::mem::take(&mut self.heard);
        let Some(output) = output.filter(|_| self.show.verbose > 0 && calls == 0) else { return };
        let text = match characters {
            0 => "no text".to_owned(),
            some if some < TRIVIAL.0 && output <= TRIVIAL.1 => {
                format_count(some as u64, "character")
            }
            _ => return,
        };
        let out = format_count(output, "token");
        self.show_intervention(&format!(
            "odd turn {}: {text} and no tool call, {out} out",
            self.turn
        ));
    }

    /// Shows a signal with the call or the text; with `-v`, with all of its evidence.
    pub(super) fn show_signal(&mut self, signal: &str, evidence: &Evidence) {
        let turns: Vec<String> = evidence.turns.iter().map(u64::to_string).collect();
        let Evidence { call, result, text, .. } = evidence;
        let result = &result.as_ref().map(ToString::to_string);
        let seen: Vec<String> = if self.show.verbose == 0 {
            call.iter().chain(text).take(1).cloned().collect()
        } else {
            let named = [("call", call), ("result", result), ("text", text)];
            let seen = named.into_iter().filter_map(|(name, seen)| Some((name, seen.as_ref()?)));
            seen.map(|(name, seen)| format!("{name} {seen}")).collect()
        };
        let about =
            if seen.is_empty() { String::new() } else { format!(": {}", seen.join(" · ")) };
        self.show_intervention(&format!("signal {signal} [turns {}]{about}", turns.join(", ")));
    }
}
