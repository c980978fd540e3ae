//! What a sub-agent has of its parent: money, tokens and time count in the parent's limits too
//! (`governing.md` §5). Money is leased from accounts; what is here needs none.

use softland_session::core::policy::Policy;
use softland_session::core::{Above, Millis, NanoUsd, Pinned};

use super::scope::Place;
use crate::store::{Counted, RunState};

/// The run that a sub-agent works for, with its record.
fn parent(place: &Place) -> Option<(&RunState, &Pinned)> {
    let (_, kept) = place.parent.as_ref()?;
    let newest = kept.newest?;
    Some((kept.runs.get(&newest)?, kept.pins.get(&newest)?))
}

/// What a sub-agent takes over when it begins. Without a limit of money it has its parent's, and
/// shares its account. Time passes for both alike: it has at most what its parent has left, less
/// what that one holds back for its own answer.
pub(super) fn inherit(policy: &mut Policy, place: &Place, now: u64) {
    if policy.cost_limit_usd.is_none() {
        policy.cost_limit_usd = parent_limit(place);
    }
    let Some((state, pinned)) = parent(place).filter(|(_, pinned)| !pinned.policy.observes())
    else {
        return;
    };
    if let Some(limit) = pinned.policy.time_limit {
        let held = pinned.policy.reserve_time.0.min(limit.0 / 2);
        let left = Millis(limit.0.saturating_sub(held).saturating_sub(state.active_at(now)));
        policy.time_limit = Some(policy.time_limit.map_or(left, |own| own.min(left)));
    }
}

/// The limit of money of a sub-agent's parent.
pub(super) fn parent_limit(place: &Place) -> Option<NanoUsd> {
    parent(place)?.1.policy.cost_limit_usd
}

/// The tokens of a sub-agent's parent: what that one and all of its sub-agents have used, and what
/// it holds back for its answer.
pub(super) fn tokens(place: &Place) -> Option<Above<u64>> {
    let (state, pinned) = parent(place)?;
    let policy = &pinned.policy;
    let limit = policy.tokens_limit.filter(|_| !policy.observes())?;
    let context = state.known.map_or(0, |Counted { tokens, .. }| tokens);
    let held = context.saturating_add(policy.reserve_tokens.min(limit / 8));
    Some(Above { used: state.tokens.saturating_add(held), limit })
}
