//! The booking of upstream requests: the lease of each is lowered while its response comes, and
//! settled once with what it cost.

use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;
use softland_session::wire::Tokens;

use super::RequestAccount;
use crate::money;
use crate::money::accounts::Lease;

/// Returns the amount of a response with this cost.
fn amount_of(money: NanoUsd, tokens: &Tokens) -> Amount {
    Amount { money, tokens: tokens.input_total().saturating_add(tokens.output) }
}

impl RequestAccount {
    /// Notes that the upstream request is sent from now on.
    pub(in crate::turn) fn mark_sent(&self) {
        if let Some(lease) = &self.lease {
            lease.mark_sent();
        }
    }

    /// Notes the billed input that the head of the response states. From here on only the output is
    /// uncertain, so the reservation shrinks. Returns true once that is done.
    pub(in crate::turn) fn note_billed_input(&mut self, tokens: Tokens) -> bool {
        if tokens.input_total() == 0 {
            return false;
        }
        if let (Some(cost), Some(lease)) = (self.billed_cost(&tokens), &mut self.lease) {
            lease.set_received_cost(amount_of(cost, &tokens));
        }
        let worst = Tokens { output: self.newest.output, ..tokens };
        if let (true, Some(cost), Some(lease)) =
            (self.newest.states_input, self.billed_cost(&worst), &mut self.lease)
        {
            lease.lower_to(amount_of(cost, &worst));
        }
        true
    }

    /// Books the usage of the upstream request, which has ended. Returns its cost.
    pub(in crate::turn) fn add_usage(&mut self, tokens: Tokens) -> Option<NanoUsd> {
        self.newest.tokens = Some(tokens);
        self.settle_usage()
    }

    /// Releases the reservation of a request that did not get through, and so is not billed.
    pub(in crate::turn) fn release_unbilled(&mut self) {
        self.newest.tokens = None;
        if let Some(lease) = self.lease.take() {
            lease.settle_cost(NanoUsd::ZERO);
        }
    }

    /// Books a request that was sent, and given up or cut off before a usage report came. The
    /// provider has read it and bills that, and the `output` tokens of which some text came. Any
    /// further output is unknown. The tokens are estimated, the cost is an upper bound. Returns
    /// both.
    pub(in crate::turn) fn book_unanswered(&mut self, output: u64) -> (Tokens, Option<NanoUsd>) {
        let output = output.min(self.newest.output);
        let tokens = self.count_estimate(output);
        let Some(price) = self.highest_price(self.newest.bound.input) else {
            return (tokens, None);
        };
        let cost = self.newest.input + NanoUsd::from_tokens(output, price.output);
        self.cost += cost;
        if let Some(lease) = self.lease.take() {
            lease.settle_cost(amount_of(cost, &tokens));
        }
        (tokens, Some(cost))
    }

    /// Returns the worst case of the newest upstream request before any response: an estimate of
    /// its input, and the amount reserved for it.
    pub(in crate::turn) fn worst_case(&self) -> (Tokens, Option<NanoUsd>) {
        let input = money::input_estimate(self.known, self.newest.size);
        let tokens = Tokens { input, ..Tokens::default() };
        (tokens, self.lease.as_ref().map(Lease::reserved_amount))
    }

    /// Counts estimated tokens for a request whose response does not report them. Returns them.
    pub(in crate::turn) fn count_estimate(&mut self, output: u64) -> Tokens {
        let input = money::input_estimate(self.known, self.newest.size);
        let tokens = Tokens { input, output, ..Tokens::default() };
        self.used = self.used.saturating_add(tokens);
        tokens
    }

    /// Books the whole reservation of a request whose response cannot be read. Returns the amount.
    pub(in crate::turn) fn book_reserved(&mut self) -> Option<NanoUsd> {
        let lease = self.lease.take()?;
        let cost = lease.reserved_amount();
        let whole = lease.grant().amount;
        self.cost += cost;
        lease.settle_cost(whole);
        Some(cost)
    }

    /// Books the usage of the newest upstream request, if any. Returns its cost.
    pub(in crate::turn) fn settle_usage(&mut self) -> Option<NanoUsd> {
        let tokens = self.newest.tokens.take()?;
        let cost = self.billed_cost(&tokens);
        self.used = self.used.saturating_add(tokens);
        self.cost += cost.unwrap_or(NanoUsd::ZERO);
        if let Some(lease) = self.lease.take() {
            lease.settle_cost(amount_of(cost.unwrap_or(NanoUsd::ZERO), &tokens));
        }
        cost
    }
}
