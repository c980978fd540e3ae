//! Reserves the worst case of a request: the whole of it, later less, at last nothing.

use std::time::Duration;

use softland_session::core::NanoUsd;
use tokio::time::sleep;

use super::tokens_for;
use crate::money::accounts::{
    Accounts, Claim, Lease, ReservationAmounts, ReservationError, Shortfall, TokenScale, WaitLimits,
};

/// The time for which a request waits for others without a keepalive.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
/// The time for which a stream waits in all; after [`SILENCE`] it is kept alive.
pub(super) const STREAMS_WAIT: Duration = Duration::from_secs(30);

/// Output tokens that are enough for a turn while other requests wait for the same money. Of 2,970
/// turns of a coding agent with a large thinking model (SWE-bench, Gemini 3 Pro, 2025-11), 99 % had
/// at most 2,481 and two had more than this. A smaller value cuts more turns, a larger one allows
/// fewer requests at once.
const ENOUGH_OUTPUT: u64 = 8_192;

/// The worst case of a request, for which money is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorstCase {
    /// The highest amount that its input can be billed.
    pub(crate) input: NanoUsd,
    /// The most output tokens that it can get as it is.
    pub(crate) output: u64,
    /// The price of an output token, in pico-dollars.
    pub(crate) output_pico: u64,
    /// The output limit is never put below this: the thinking budget and `reserve_tokens`.
    pub(crate) floor: u64,
    /// The most input tokens, if tokens are counted.
    pub(crate) input_tokens: Option<u64>,
    /// True if the client reads a stream, which can be kept alive.
    pub(crate) stream: bool,
}

/// The result of a reservation.
#[derive(Debug)]
pub(crate) enum Reservation {
    /// The request may be sent.
    Granted {
        /// The lease that holds its money.
        lease: Lease,
        /// The output limit to send, if it is not the request's own; lowered, or added.
        output_limit: Option<u64>,
    },
    /// The money is spent: the run is to land, or ends.
    Land(Shortfall),
    /// Other requests hold what is left, and did not give it back in time. The client gets its
    /// protocol's error, and may retry.
    Busy(Shortfall),
    /// The amount spent is unknown: [`ReservationError::Away`] or [`ReservationError::Full`].
    Lost(ReservationError),
}

/// Reserves money for a request on all of `claims`.
///
/// The request waits for the whole worst case for as long as [`SILENCE`]. After that, a lower
/// output limit is accepted, as long as it is enough for a turn. Streams wait up to
/// [`STREAMS_WAIT`] for that, and `end_silence` is called once when their silence ends, so that
/// keepalives can begin. At the end, any limit from `floor` on is accepted. A request never waits
/// for money that no settling of others could free: then the limit is lowered at once, and if less
/// than `floor` is left, the result is [`Reservation::Land`], also at once.
pub(crate) async fn reserve_worst_case(
    accounts: &dyn Accounts,
    claims: Vec<Claim>,
    want: WorstCase,
    end_silence: impl FnOnce() + Send,
) -> Reservation {
    let in_all = if want.stream { STREAMS_WAIT } else { SILENCE };
    let patience = WaitLimits { for_most: SILENCE, in_all };
    let waiting = accounts.reserve_money(claims, want.reservation_amounts(), patience);
    tokio::pin!(waiting);
    let result = tokio::select! {
        // A reservation that succeeds as the silence ends is not announced first.
        biased;
        result = &mut waiting => result,
        () = sleep(SILENCE), if want.stream => {
            end_silence();
            waiting.await
        }
    };
    want.reservation_from(result)
}

/// Reserves without waiting and ahead of waiting requests, for a request within a running turn (a
/// rung, a nudge): what fits now, from `floor` on.
pub(crate) async fn reserve_now(
    accounts: &dyn Accounts,
    claims: Vec<Claim>,
    want: WorstCase,
) -> Reservation {
    want.reservation_from(
        accounts.reserve_money(claims, want.reservation_amounts(), WaitLimits::NONE).await,
    )
}

impl WorstCase {
    fn reservation_from(&self, result: Result<Lease, ReservationError>) -> Reservation {
        match result {
            Ok(lease) => {
                let output_limit = self.output_limit(lease.reserved_amount());
                Reservation::Granted { lease, output_limit }
            }
            Err(ReservationError::Spent(short)) => Reservation::Land(short),
            Err(ReservationError::Busy(short)) => Reservation::Busy(short),
            Err(lost @ (ReservationError::Away(_) | ReservationError::Full { .. })) => {
                Reservation::Lost(lost)
            }
        }
    }

    fn reservation_amounts(&self) -> ReservationAmounts {
        let with = |output: u64| self.input + NanoUsd::from_tokens(output, self.output_pico);
        let floor = self.floor.min(self.output);
        let enough = ENOUGH_OUTPUT.max(floor).min(self.output);
        let amounts = ReservationAmounts::new(with(self.output), with(enough), with(floor));
        let Self { input: input_cost, output, output_pico, .. } = *self;
        match self.input_tokens {
            Some(input) => {
                amounts.with_tokens(TokenScale { input, input_cost, output, output_pico })
            }
            None => amounts,
        }
    }

    /// Returns the output limit that an amount allows; `None` if it allows all output.
    fn output_limit(&self, amount: NanoUsd) -> Option<u64> {
        let output = tokens_for(amount.saturating_sub(self.input), self.output_pico);
        (output < self.output).then_some(output)
    }
}
