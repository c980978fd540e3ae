//! What a request can cost at most, what it has cost, and how its worst case is reserved before
//! it is sent.
//!
//! It sends nothing and changes no request: it says which output limit to send. Prices come from
//! [`crate::settings::Prices`], accounts from [`Accounts`]; whether a run lands for another
//! reason is for the session to say.

mod reserve;
#[cfg(test)]
mod tests;

use softland_session::core::NanoUsd;

pub(crate) use reserve::{Reserved, Want, reserve, reserve_now};
pub(crate) use softland_session::bound::{
    Bound, Known, Size, input_bound, input_estimate, output_bound, window, writes,
};

/// So many tokens at that price fit into an amount.
pub(crate) fn tokens_for(amount: NanoUsd, pico: u64) -> u64 {
    let tokens = (u128::from(amount.0) * 1000).checked_div(u128::from(pico));
    tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(u64::MAX)
}
