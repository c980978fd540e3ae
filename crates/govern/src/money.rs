//! The cost of requests: the most that a request can cost, what it has cost, and the reservation of
//! its worst case before it is sent.
//!
//! This module sends nothing and changes no request: it says which output limit to send. Prices
//! come from [`crate::settings::Prices`], accounts from [`Accounts`](accounts::Accounts). The
//! session decides whether a run lands for another reason.

pub mod accounts;
mod reserve;
#[cfg(test)]
mod tests;
pub mod window;

use softland_session::core::NanoUsd;

pub(crate) use reserve::{Reservation, WorstCase, reserve_now, reserve_worst_case};
pub(crate) use softland_session::bound::{
    InputSize, KnownAncestor, UsageBound, cache_writes, context_window, input_bound,
    input_estimate, output_bound,
};

/// Returns the number of tokens at that price (in pico-dollars a token) that an amount pays for.
pub(crate) fn tokens_for(amount: NanoUsd, pico: u64) -> u64 {
    let tokens = (u128::from(amount.0) * 1000).checked_div(u128::from(pico));
    tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(u64::MAX)
}
