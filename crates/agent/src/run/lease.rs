//! Leases for requests: the worst case of a request is leased before it is sent, from the run's
//! account and all accounts above it.

use bytes::Bytes;
use softland_session::Exchange;
use softland_session::core::{Because, Phase};

use super::ActiveRun;
use super::budget::RequestLease;

/// The fewest output tokens that make an answer.
const LEAST_ANSWER: u64 = 16;

impl ActiveRun<'_> {
    /// Waits while other runs of the tree hold what the next turn needs, so that this run does not
    /// land for want of money that will come back. `bytes` is the size of the turn's request.
    pub(super) async fn wait_for_budget(&self, bytes: usize) {
        if !self.meter.budget.is_limited() {
            return;
        }
        let (estimate, policy) = (self.meter.estimate_request(bytes), &self.setup.policy);
        let least = policy.reserve_tokens.min(self.max_tokens());
        let ask = estimate.build_ask(self.max_tokens(), least);
        let reserve = estimate.answer_reserve(policy, self.meter.budget.lowest_caps().tokens);
        tokio::select! {
            () = self.meter.budget.wait_for_lease(&ask, reserve) => {}
            () = self.cancel.cancelled() => {}
            () = super::drive::wait_until(self.exploring_deadline()) => {}
        }
    }

    /// Leases the worst case of a request of an exchange and lowers its output limit to what is
    /// left. Waits for what other runs will give back.
    ///
    /// # Errors
    /// Returns the limit of which too little is left.
    pub(super) async fn lease_request(
        &self,
        exchange: &Exchange,
        body: &Bytes,
    ) -> Result<(RequestLease, Bytes), Because> {
        let (budget, policy) = (&self.meter.budget, &self.setup.policy);
        let estimate = self.meter.estimate_request(body.len());
        let most = if budget.is_limited() { self.asked_output(exchange) } else { 0 };
        let exploring = exchange.rung().is_none() && *exchange.run().phase() == Phase::Open;
        let reserve = estimate.answer_reserve(policy, budget.lowest_caps().tokens);
        let least = if exploring { policy.reserve_tokens / 2 } else { LEAST_ANSWER };
        // The rules have decided that the turn is worth its cost. The lease only holds the money.
        let ask = estimate.build_ask(most, least.min(most / 2));
        if let Some(granted) = self.journal.granted_output(self.turn, self.nth) {
            let output = granted.min(most);
            let held = budget.restore_lease(&ask, output, exploring.then_some(reserve));
            let body = if output < most { with_output(exchange, output) } else { body.clone() };
            return Ok((held, body));
        }
        loop {
            let now = budget.now();
            let leased = match exploring {
                true => budget.lease_exploration(&ask, reserve, now),
                false => budget.lease_answer(&ask, now),
            };
            match leased {
                Ok(held) if held.output < most => {
                    let body = with_output(exchange, held.output);
                    return Ok((held, body));
                }
                Ok(held) => return Ok((held, body.clone())),
                Err(short) if short.busy && exploring => budget.wait_for_lease(&ask, reserve).await,
                Err(short) if short.busy => budget.wait_for_answer(&ask).await,
                Err(short) => return Err(short.standing.to_because()),
            }
        }
    }

    /// Returns the output limit of an exchange's newest request.
    fn asked_output(&self, exchange: &Exchange) -> u64 {
        exchange.sent_output_limit().unwrap_or_else(|| self.max_tokens())
    }
}

/// Returns the body of an exchange's newest request with another output limit.
fn with_output(exchange: &Exchange, output: u64) -> Bytes {
    exchange.body_with_output_limit(output.max(1))
}
