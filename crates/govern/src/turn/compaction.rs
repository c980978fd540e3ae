//! Requests that compact a history at the provider: it becomes content that only the provider can
//! read, and stands in the client's next request in the history's place (`docs/governing.md` §7).
//!
//! Such a request is metered. Its body and its response pass unchanged.

use http::{Response, StatusCode};

use super::account::LeaseOutcome;
use crate::body::Body;
use crate::errors::{self, Refusal};
use crate::target::Target;

/// Checks that the whole worst case of a compaction has its money. Its output cannot be limited,
/// and no answer of softland's can stand for what it brings.
///
/// # Errors
/// Returns the response for a request that a limit has no room for.
pub(super) fn check_money(
    target: &Target,
    limit: &str,
    leased: &LeaseOutcome,
) -> Result<(), Box<Response<Body>>> {
    let why = match leased {
        LeaseOutcome::Granted(None) | LeaseOutcome::Lost(_) => return Ok(()),
        LeaseOutcome::Granted(Some(tokens)) => {
            format!("there is money for {tokens} tokens of output only")
        }
        LeaseOutcome::Short(short) => short.to_string(),
    };
    tracing::warn!(id = %target.id, why, "a limit of money or tokens has no room for a compaction");
    let message = format!(
        "softland: {limit} has no room for a compaction, whose output cannot be limited: {why}"
    );
    let refusal = Refusal::new(StatusCode::BAD_REQUEST, target.protocol, message);
    Err(Box::new(errors::without_retry(refusal.to_response())))
}
