//! `trivial`: a few tokens of text, no call, and the same run goes on without a human message.
//! Judged at the run's next request; counted, never nudged.

use crate::event::{FinishedTurn, Stop};

const CHARS: u64 = 10;
const TOKENS: u64 = 5;

/// Returns true if the turn would be trivial if the run went on by itself.
#[must_use]
pub fn looks_trivial(turn: &FinishedTurn<'_>) -> bool {
    let natural = matches!(turn.stop, Stop::Natural | Stop::Unknown);
    let few = (1..CHARS).contains(&turn.text.visible) && !turn.text.placeholder;
    natural && few && turn.calls.is_empty() && turn.output_tokens.is_none_or(|n| n <= TOKENS)
}
