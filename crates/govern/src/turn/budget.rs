//! The budgets of a request's key, while the request runs.

use http::{Response, StatusCode};
use softland_session::core::policy::Policy;
use softland_session::core::{Because, Quantity, Reason};

use super::account::RequestAccount;
use super::open::RequestSetup;
use crate::body::Body;
use crate::budget::{AccountBudget, ExhaustedBudget, OnExhausted};
use crate::errors::Refusal;
use crate::money::accounts::Shortfall;
use crate::money::window::account_of_window;

impl RequestAccount {
    /// Returns the budget that is short.
    fn find_short_budget(&self, short: &Shortfall) -> Option<&AccountBudget> {
        let account = account_of_window(&short.account);
        self.budgets().iter().find(|budget| *budget.account == *account)
    }

    /// Returns the cause for not sending a request, if it is a budget's.
    pub(super) fn budget_cause(&self, short: &Shortfall) -> Option<Because> {
        let rule = &self.find_short_budget(short)?.rule;
        let Some(tokens) = short.tokens else {
            let (used, limit) = (short.spent, rule.limit.unwrap_or(short.limit));
            let because =
                Because::new(Reason::Budget, Quantity::Money(used), Quantity::Money(limit));
            return Some(Because { needed: Some(short.least), ..because });
        };
        let limit = rule.tokens_limit.unwrap_or(tokens.limit);
        Some(Because::from_counts(Reason::Budget, tokens.spent, limit))
    }

    /// Describes the budget that is short.
    pub(super) fn exhausted_budget(&self, short: &Shortfall) -> Option<ExhaustedBudget> {
        let budget = self.find_short_budget(short)?;
        Some(ExhaustedBudget::from_budget(budget, short.window.map(|span| span.end)))
    }
}

impl RequestSetup {
    /// Returns the response for a request that its budget refuses; `None` if its run lands.
    pub(super) fn refuse_over_budget(
        &self,
        budget: Option<&ExhaustedBudget>,
        policy: &Policy,
    ) -> Option<Response<Body>> {
        let refuses = |budget: &&ExhaustedBudget| budget.on_exhausted == OnExhausted::Refuse;
        let budget = budget.filter(refuses).filter(|_| !policy.is_observing())?;
        let message = format!("softland: {budget}");
        let refusal = Refusal::new(StatusCode::PAYMENT_REQUIRED, self.target.protocol, message);
        Some(refusal.to_response())
    }
}
