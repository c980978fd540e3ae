//! Budgets: what the accounts of keys may spend in windows of time.

use std::fmt;
use std::sync::Arc;

use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;

use crate::money::accounts::{
    AccountsUnavailable, Claim, ReservationAmounts, ReservationError, RunReserve, WaitLimits,
    WindowClaim,
};
use crate::money::window::{BudgetWindow, budget_account};
use crate::services::Services;
use crate::shared::{LEASE_MS, ReserveQuery};

/// What happens to a request for which a budget has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExhausted {
    /// Open runs land, and a new run gets one final message.
    #[default]
    Land,
    /// The request is refused with an error.
    Refuse,
}

/// `[[budget]]`: a limit on what an account spends in each window.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetRule {
    /// The account; of a rule for its children, their parent, which is empty for all accounts at
    /// the top.
    pub account: String,
    /// True if each direct child of the account has its own budget.
    pub each_child: bool,
    /// The money of a window.
    pub limit: Option<NanoUsd>,
    /// The tokens of a window, input (cached or not) and output.
    pub tokens_limit: Option<u64>,
    /// The window.
    pub window: BudgetWindow,
    /// The shares of the limits at which the operator is told, above 0 and up to 1.
    pub notify_at: Vec<f64>,
    /// What happens when it is used up.
    pub on_exhausted: OnExhausted,
}

impl BudgetRule {
    /// Returns the part of an account's path for which this rule gives a budget.
    #[must_use]
    pub fn find_path<'a>(&self, account: &'a str) -> Option<&'a str> {
        if !self.each_child {
            let rest = account.strip_prefix(&*self.account)?;
            return (rest.is_empty() || rest.starts_with('/'))
                .then_some(&account[..self.account.len()]);
        }
        let rest = match &*self.account {
            "" => account,
            parent => account.strip_prefix(parent)?.strip_prefix('/')?,
        };
        let child = rest.split('/').next().filter(|child| !child.is_empty())?;
        Some(&account[..account.len() - rest.len() + child.len()])
    }

    /// Returns the name of the rule: its account, as the configuration writes it.
    #[must_use]
    pub fn pattern(&self) -> String {
        match (self.each_child, &*self.account) {
            (false, account) => account.to_owned(),
            (true, "") => "*".to_owned(),
            (true, parent) => format!("{parent}/*"),
        }
    }

    /// Returns the limits in words: `$50.00 a day`.
    #[must_use]
    pub fn describe_limit(&self) -> String {
        let money = self.limit.map(|limit| limit.to_string());
        let tokens = self.tokens_limit.map(|limit| format!("{limit} tokens"));
        let limits: Vec<String> = money.into_iter().chain(tokens).collect();
        let limits = limits.join(" and ");
        match self.window.length() {
            length @ crate::money::window::WindowLength::Rolling(_) => {
                format!("{limits} in {length}")
            }
            length => format!("{limits} a {length}"),
        }
    }
}

/// The budget of one account.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountBudget {
    /// The account's path.
    pub path: Arc<str>,
    /// The name of its account in the shared state, without a window.
    pub account: Arc<str>,
    /// Its rule.
    pub rule: Arc<BudgetRule>,
}

impl AccountBudget {
    /// Creates the budget that a rule gives to an account; `None` if it gives none.
    #[must_use]
    pub fn from_rule(rule: &Arc<BudgetRule>, account: &str) -> Option<Self> {
        let path = rule.find_path(account)?;
        // A rule for the children of an account and one for a child itself are two budgets.
        let account = match rule.each_child {
            true => budget_account(&rule.window, &format!("*/{path}")),
            false => budget_account(&rule.window, path),
        };
        Some(Self { path: path.into(), account, rule: Arc::clone(rule) })
    }

    /// Returns the claim of a request at this time, in milliseconds since 1970. `holds` is what its
    /// run holds back, if it explores. A budget that refuses lands no run, so nothing is kept back
    /// of its window.
    #[must_use]
    pub fn claim_at(&self, at: u64, holds: Option<RunReserve>) -> Claim {
        let holds = holds.filter(|_| self.rule.on_exhausted == OnExhausted::Land);
        Claim {
            account: Arc::clone(&self.account),
            limit: self.rule.limit,
            tokens_limit: self.rule.tokens_limit,
            window: Some(WindowClaim { bounds: self.rule.window.bounds_at(at), holds }),
        }
    }
}

impl Services {
    /// Books on a budget what its account had spent at a time, in milliseconds since 1970, before
    /// the shared state began. A window that begins with its first reservation begins then.
    ///
    /// # Errors
    /// Returns an error if the state cannot be reached, or does not know the window at that time.
    pub async fn book_earlier_spend(
        &self,
        budget: &AccountBudget,
        at: u64,
        spent: Amount,
    ) -> Result<(), AccountsUnavailable> {
        let wanted = ReserveQuery {
            id: self.names.next_reservation(),
            at,
            lease: LEASE_MS,
            claims: vec![budget.claim_at(at, None).without_limits()],
            ask: ReservationAmounts::from_exact(NanoUsd::ZERO),
            patience: WaitLimits::NONE,
            spent_before: NanoUsd::ZERO,
            opens: None,
        };
        let granted = self.state.reserve(wanted).await?.grant;
        let unavailable =
            |error: ReservationError| AccountsUnavailable { because: error.to_string() };
        self.state.settle_lease(&granted.map_err(unavailable)?, spent);
        Ok(())
    }
}

/// Returns the budgets of an account: those of its path and of every prefix.
#[must_use]
pub fn find_budgets(rules: &[Arc<BudgetRule>], account: &str) -> Vec<AccountBudget> {
    rules.iter().filter_map(|rule| AccountBudget::from_rule(rule, account)).collect()
}

/// A budget that has no room for a request, in words for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExhaustedBudget {
    /// The account.
    pub path: Arc<str>,
    /// Its limit, as [`BudgetRule::describe_limit`] says it.
    pub limit: String,
    /// The end of the window, in the zone of the budget; `None` for a window that has not begun.
    pub resets: Option<String>,
    /// What happens to the request.
    pub on_exhausted: OnExhausted,
}

impl ExhaustedBudget {
    /// Describes a budget in the window that ends then, in milliseconds since 1970.
    #[must_use]
    pub fn from_budget(budget: &AccountBudget, ends: Option<u64>) -> Self {
        Self {
            path: Arc::clone(&budget.path),
            limit: budget.rule.describe_limit(),
            resets: ends.map(|end| budget.rule.window.format_time(end)),
            on_exhausted: budget.rule.on_exhausted,
        }
    }
}

impl ExhaustedBudget {
    /// Returns the description as a sentence.
    #[must_use]
    pub fn to_sentence(&self) -> String {
        let text = self.to_string();
        format!("T{}.", text.get(1..).unwrap_or_default())
    }
}

impl fmt::Display for ExhaustedBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, limit, resets, .. } = self;
        write!(f, "the budget of {path} ({limit}) has no room for a further request")?;
        match resets {
            Some(resets) => write!(f, "; its window ends at {resets}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::window::WindowLength;

    fn rule(pattern: &str) -> BudgetRule {
        let (account, each_child) = match pattern.strip_suffix('*') {
            Some(parent) => (parent.trim_end_matches('/'), true),
            None => (pattern, false),
        };
        BudgetRule {
            account: account.to_owned(),
            each_child,
            limit: Some(NanoUsd(50_000_000_000)),
            tokens_limit: None,
            window: BudgetWindow::new(WindowLength::Day, "UTC").unwrap(),
            notify_at: Vec::new(),
            on_exhausted: OnExhausted::Land,
        }
    }

    /// A rule concerns an account and all below it, or each child with all below that, by whole
    /// parts of the path.
    #[test]
    fn rules_give_budgets_to_whole_parts_of_paths() {
        for (pattern, account, path) in [
            ("acme", "acme", Some("acme")),
            ("acme", "acme/search/ana", Some("acme")),
            ("acme", "acmes", None),
            ("acme", "x/acme", None),
            ("acme/search", "acme", None),
            ("acme/*", "acme", None),
            ("acme/*", "acme/search", Some("acme/search")),
            ("acme/*", "acme/search/ana", Some("acme/search")),
            ("acme/*", "acmes/search", None),
            ("*", "acme/search/ana", Some("acme")),
            ("*", "acme", Some("acme")),
        ] {
            assert_eq!(rule(pattern).find_path(account), path, "{pattern} for {account}");
            assert_eq!(rule(pattern).pattern(), pattern);
        }
    }

    /// A rule for an account and one for the children of its parent do not share an account.
    #[test]
    fn two_rules_for_one_path_are_two_budgets() {
        let rules = ["acme/*", "acme/a", "acme"].map(|pattern| Arc::new(rule(pattern)));
        let budgets = find_budgets(&rules, "acme/a/b");
        let accounts: Vec<&str> = budgets.iter().map(|budget| &*budget.account).collect();
        assert_eq!(
            accounts,
            ["budget:day:UTC:*/acme/a", "budget:day:UTC:acme/a", "budget:day:UTC:acme"]
        );
        assert_eq!([&*budgets[0].path, &*budgets[1].path], ["acme/a", "acme/a"]);
    }

    #[test]
    fn what_is_used_up_is_named() {
        let budget = AccountBudget::from_rule(&Arc::new(rule("acme/*")), "acme/a/b").unwrap();
        let said = ExhaustedBudget::from_budget(&budget, Some(1_793_750_400_000)).to_string();
        assert_eq!(
            said,
            "the budget of acme/a ($50.00 a day) has no room for a further request; its window ends \
             at 2026-11-04T00:00:00+00:00"
        );
    }
}
