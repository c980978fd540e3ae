//! Reserving the worst case of a request: all of it, later less, at last nothing.

use std::time::Duration;

use softland_session::core::NanoUsd;
use tokio::time::sleep;

use super::tokens_for;
use crate::accounts::{Accounts, Ask, Claim, Lease, Patience, Refusal, Short};

/// How long a request waits for others without a sign of life.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
/// How long a stream waits in all: behind [`SILENCE`] it is kept alive.
pub(super) const STREAMS_WAIT: Duration = Duration::from_secs(30);

/// Output tokens that are enough for a turn while others wait for the same money. Of 2,970 turns
/// of a coding agent with a large thinking model (SWE-bench, Gemini 3 Pro, 2025-11) 99 % had at
/// most 2,481 and two had more than this. Smaller means more turns cut, larger fewer at a time.
const ENOUGH_OUTPUT: u64 = 8_192;

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    /// The dearest that its input can be billed.
    pub(crate) input: NanoUsd,
    /// The most output tokens it can get as it is.
    pub(crate) output: u64,
    /// The price of an output token, in pico-dollars.
    pub(crate) output_pico: u64,
    /// The output limit is never put below this: the thinking budget and `reserve_tokens`.
    pub(crate) floor: u64,
    /// Whether the client reads a stream, which can be kept alive.
    pub(crate) stream: bool,
}

/// What has become of a reservation.
#[derive(Debug)]
pub(crate) enum Reserved {
    /// It may be sent.
    Granted {
        /// What holds its money.
        lease: Lease,
        /// The output limit to send, where it is not the request's own; lowered, or added.
        output_limit: Option<u64>,
    },
    /// The money is spent: the run is to land, or ends.
    Land(Short),
    /// Others hold what is left, and did not give it back in time. The client is told so by its
    /// protocol's error, and may come again.
    Busy(Short),
    /// There is no saying what is spent: [`Refusal::Away`] or [`Refusal::Full`].
    Lost(Refusal),
}

/// Reserves for a request on all of `claims`.
///
/// The whole worst case is waited for [`SILENCE`] long. Then a lower output limit will do, as
/// long as it is enough for a turn; streams wait up to [`STREAMS_WAIT`] for that, and `loud` is
/// called once when their silence ends, so that keepalives can begin. At the end any limit from
/// `floor` on is taken. What no settling of others could bring is not waited for: then the limit
/// is lowered at once, and with nothing left but what is below `floor` the answer is
/// [`Reserved::Land`], at once too.
pub(crate) async fn reserve(
    accounts: &dyn Accounts,
    claims: Vec<Claim>,
    want: Want,
    loud: impl FnOnce() + Send,
) -> Reserved {
    let in_all = if want.stream { STREAMS_WAIT } else { SILENCE };
    let patience = Patience { for_most: SILENCE, in_all };
    let waiting = accounts.reserve(claims, want.ask(), patience);
    tokio::pin!(waiting);
    let result = tokio::select! {
        // What is served as the silence ends is not announced first.
        biased;
        result = &mut waiting => result,
        () = sleep(SILENCE), if want.stream => {
            loud();
            waiting.await
        }
    };
    want.reserved(result)
}

/// The same without waiting and past those who wait, for a request within one that is under way
/// (a rung, a nudge): what fits now, from `floor` on.
pub(crate) async fn reserve_now(
    accounts: &dyn Accounts,
    claims: Vec<Claim>,
    want: Want,
) -> Reserved {
    want.reserved(accounts.reserve(claims, want.ask(), Patience::NONE).await)
}

impl Want {
    fn reserved(&self, result: Result<Lease, Refusal>) -> Reserved {
        match result {
            Ok(lease) => {
                let output_limit = self.limit(lease.reserved());
                Reserved::Granted { lease, output_limit }
            }
            Err(Refusal::Spent(short)) => Reserved::Land(short),
            Err(Refusal::Busy(short)) => Reserved::Busy(short),
            Err(lost @ (Refusal::Away(_) | Refusal::Full { .. })) => Reserved::Lost(lost),
        }
    }

    fn ask(&self) -> Ask {
        let with = |output: u64| self.input + NanoUsd::of_tokens(output, self.output_pico);
        let floor = self.floor.min(self.output);
        let enough = ENOUGH_OUTPUT.max(floor).min(self.output);
        Ask::new(with(self.output), with(enough), with(floor))
    }

    /// The output limit that an amount allows, unless it allows all.
    fn limit(&self, amount: NanoUsd) -> Option<u64> {
        let output = tokens_for(amount.less(self.input), self.output_pico);
        (output < self.output).then_some(output)
    }
}
