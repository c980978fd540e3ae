//! The windows of budgets as they are now, for the pages' API and for notices to the operator.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde::Serialize;
use softland_govern::budget::{AccountBudget, OnExhausted};
use softland_govern::money::accounts::{AccountsUnavailable, WindowState};
use softland_govern::money::window::WindowLength;
use softland_session::core::NanoUsd;

use super::list_budgets;
use crate::state::GatewayState;

/// A budget and its window.
pub(crate) struct BudgetState {
    budget: AccountBudget,
    window: WindowState,
}

/// A budget as the pages' API shows it.
#[derive(Debug, Serialize)]
pub(crate) struct BudgetRow {
    account: Arc<str>,
    /// The `account` of the configuration's table.
    rule: String,
    window: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    on_exhausted: &'static str,
    begins: Option<String>,
    ends: Option<String>,
    limit_usd: Option<NanoUsd>,
    spent_usd: NanoUsd,
    reserved_usd: NanoUsd,
    left_usd: Option<NanoUsd>,
    limit_tokens: Option<u64>,
    spent_tokens: u64,
    reserved_tokens: u64,
    left_tokens: Option<u64>,
    notify_at: Vec<f64>,
    /// The largest share of `notify_at` that is spent.
    reached: Option<f64>,
}

/// Reads the windows of all budgets from which a key can spend, and tells the operator of those
/// that have reached a share.
///
/// # Errors
/// Returns an error if the shared state cannot be reached.
pub(crate) async fn read_windows(
    gate: &GatewayState,
) -> Result<Vec<BudgetState>, AccountsUnavailable> {
    let budgets = list_budgets(&gate.live_config().settings, &gate.stored_keys);
    if budgets.is_empty() {
        return Ok(Vec::new());
    }
    let now = gate.now();
    let claims = budgets.iter().map(|budget| budget.claim_at(now, None)).collect();
    let windows = gate.services.state.read_windows(claims, now).await?;
    let states: Vec<BudgetState> = budgets
        .into_iter()
        .zip(windows)
        .filter_map(|(budget, window)| Some(BudgetState { budget, window: window? }))
        .collect();
    gate.watch.metrics.budget_notices.note_windows(&states);
    Ok(states)
}

impl BudgetState {
    /// Returns the share of its limits that is spent, the larger one.
    fn spent_share(&self) -> f64 {
        let share = |spent: u64, limit: Option<u64>| {
            limit.map_or(0.0, |limit| spent as f64 / limit.max(1) as f64)
        };
        let (rule, balance) = (&self.budget.rule, &self.window.balance);
        let money = share(balance.spent.0, rule.limit.map(|limit| limit.0));
        money.max(share(balance.tokens_spent, rule.tokens_limit))
    }

    /// Returns the largest share of `notify_at` that is spent.
    fn reached_share(&self) -> Option<f64> {
        let spent = self.spent_share();
        self.budget.rule.notify_at.iter().copied().filter(|share| *share <= spent).reduce(f64::max)
    }

    /// Returns what the API shows.
    pub(crate) fn to_row(&self) -> BudgetRow {
        let (rule, balance) = (&self.budget.rule, &self.window.balance);
        let is_rolling = matches!(rule.window.length(), WindowLength::Rolling(_));
        // Such a window begins with its first request.
        let has_begun = !(is_rolling && self.window.is_unused);
        let time = |at: u64| has_begun.then(|| rule.window.format_time(at));
        let reserved = balance.spent + balance.reserved;
        let tokens = balance.tokens_spent.saturating_add(balance.tokens_reserved);
        BudgetRow {
            account: Arc::clone(&self.budget.path),
            rule: rule.pattern(),
            window: rule.window.length().to_string(),
            timezone: (!is_rolling).then(|| rule.window.zone_name().to_owned()),
            on_exhausted: match rule.on_exhausted {
                OnExhausted::Land => "land",
                OnExhausted::Refuse => "refuse",
            },
            begins: time(self.window.span.start),
            ends: time(self.window.span.end),
            limit_usd: rule.limit,
            spent_usd: balance.spent,
            reserved_usd: balance.reserved,
            left_usd: rule.limit.map(|limit| limit.saturating_sub(reserved)),
            limit_tokens: rule.tokens_limit,
            spent_tokens: balance.tokens_spent,
            reserved_tokens: balance.tokens_reserved,
            left_tokens: rule.tokens_limit.map(|limit| limit.saturating_sub(tokens)),
            notify_at: rule.notify_at.clone(),
            reached: self.reached_share(),
        }
    }
}

/// The shares of windows of which the operator was told, each once.
#[derive(Debug, Default)]
pub(crate) struct BudgetNotices {
    /// The counters, for the registry.
    pub(crate) family: Family<NoticeLabels, Counter>,
    /// The newest window of each budget, by its account.
    known: Mutex<BTreeMap<Arc<str>, NotedWindow>>,
}

/// The labels of a notice. All come from the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct NoticeLabels {
    account: String,
    window: String,
    share: String,
}

#[derive(Clone, Copy, Debug)]
struct NotedWindow {
    /// The beginning of the window.
    start: u64,
    /// The share that is told.
    share: f64,
}

impl BudgetNotices {
    /// Logs and counts the shares that windows have reached since they were last seen.
    fn note_windows(&self, states: &[BudgetState]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut noted = BTreeMap::new();
        for state in states {
            let (account, start) = (&state.budget.account, state.window.span.start);
            let before = known.get(account).filter(|noted| noted.start == start);
            let before = before.map_or(0.0, |noted| noted.share);
            let reached = state.reached_share().unwrap_or(0.0);
            if reached > before {
                self.tell_share(state, before, reached);
            }
            noted.insert(Arc::clone(account), NotedWindow { start, share: reached.max(before) });
        }
        // Of budgets that a reload has taken away nothing is kept.
        *known = noted;
    }

    fn tell_share(&self, state: &BudgetState, before: f64, reached: f64) {
        let BudgetState { budget, window } = state;
        let rule = &budget.rule;
        for share in rule.notify_at.iter().filter(|share| **share > before && **share <= reached) {
            let (account, window) = (budget.path.to_string(), rule.window.length().to_string());
            let labels = NoticeLabels { account, window, share: share.to_string() };
            self.family.get_or_create(&labels).inc();
        }
        tracing::warn!(
            "the budget of {} ({}) is spent to {:.0} %; its window ends at {}",
            budget.path,
            rule.describe_limit(),
            state.spent_share() * 100.0,
            rule.window.format_time(window.span.end)
        );
    }
}
