//! The cost of an exchange: its upstream requests, and the tokens of their responses.

use softland_wire::Tokens;

/// The cost of an exchange so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ExchangeBill {
    /// The tokens of all responses that became a turn.
    spent: Tokens,
    /// The tokens that other responses reported before they broke off.
    abandoned: Tokens,
    /// The tokens of the newest response that reported what its request held.
    newest: Tokens,
    /// The tokens of each upstream response, or those that it reported before it broke off.
    billed: Vec<Tokens>,
    /// Output tokens of what the client was shown.
    shown_output: u64,
    /// Requests sent upstream.
    requests: u64,
}

impl ExchangeBill {
    /// Counts a request that is sent.
    pub(super) fn count_request(&mut self) {
        self.requests += 1;
    }

    /// Takes back the newest request, which was not sent.
    pub(super) fn take_back_request(&mut self) {
        self.requests = self.requests.saturating_sub(1);
    }

    /// Counts a response that has ended: what it reports, and what it is billed for.
    pub(super) fn count_response(&mut self, reported: Tokens, billed: Tokens) {
        self.spent = self.spent.saturating_add(billed);
        self.billed.push(billed);
        self.newest = reported;
    }

    /// Counts the tokens that a response reported before it broke off. `shown` is true if the
    /// client was shown it as it came.
    pub(super) fn count_broken_off(&mut self, so_far: Tokens, shown: bool) {
        if so_far.is_unreported() {
            return;
        }
        if so_far.input_total() > 0 {
            self.newest = so_far;
        }
        self.abandoned = self.abandoned.saturating_add(so_far);
        self.billed.push(so_far);
        if shown {
            self.count_shown(so_far.output);
        }
    }

    /// Counts output that the client was shown.
    pub(super) fn count_shown(&mut self, output: u64) {
        self.shown_output = self.shown_output.saturating_add(output);
    }

    /// True if a request was sent.
    pub(super) fn has_requests(&self) -> bool {
        self.requests > 0
    }

    /// Returns the tokens of all responses that became a turn.
    pub(super) fn spent(&self) -> Tokens {
        self.spent
    }

    /// Returns the tokens that responses reported before they broke off.
    pub(super) fn abandoned(&self) -> Tokens {
        self.abandoned
    }

    /// Returns the tokens of each upstream response, in order.
    pub(super) fn billed(&self) -> &[Tokens] {
        &self.billed
    }

    /// Returns the output tokens of what the client was shown.
    pub(super) fn shown_output(&self) -> u64 {
        self.shown_output
    }

    /// Returns the usage to report with an answer of softland's: what the newest request held, and
    /// the output that the client has.
    pub(super) fn local_usage(&self) -> Tokens {
        Tokens { output: self.shown_output, ..self.newest }
    }
}
