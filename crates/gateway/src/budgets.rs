//! The budgets of the accounts of keys: which there are, and what they had spent before this
//! process began.

pub(crate) mod windows;

use std::collections::BTreeSet;
use std::sync::Arc;

use softland_govern::budget::AccountBudget;
use softland_govern::money::window::WindowLength;
use softland_ledger::{AccountSpend, ReadError, Reader};
use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;

use crate::settings::Settings;
use crate::state::GatewayState;
use crate::stored_keys::StoredKeyRing;

/// The number of windows, of those that begin with a first request, among which the one that goes
/// on is looked for.
const WINDOWS_BACK: u64 = 100;

/// Returns the budgets from which a key can spend, in the order of their rules.
pub(crate) fn list_budgets(settings: &Settings, stored: &StoredKeyRing) -> Vec<AccountBudget> {
    let mut accounts = stored.accounts();
    accounts.extend(settings.keys.iter().filter_map(|key| key.key.account.clone()));
    let mut seen = BTreeSet::new();
    let mut budgets = Vec::new();
    for rule in &settings.budgets {
        let own = accounts.iter().filter_map(|account| AccountBudget::from_rule(rule, account));
        budgets.extend(own.filter(|budget| seen.insert(Arc::clone(&budget.account))));
    }
    budgets
}

/// Books on the budgets what the ledger says of their windows, if their state is in the memory of
/// this process and so begins with nothing. What cannot be read is logged, and not booked.
pub(crate) async fn book_recorded_spend(gate: &GatewayState) {
    let live = gate.live_config();
    let settings = &live.settings;
    let (None, Some(place)) = (&settings.shared, settings.ledger.clone()) else { return };
    let (budgets, now) = (list_budgets(settings, &gate.stored_keys), gate.now());
    if budgets.is_empty() || settings.ledger_read_only {
        return;
    }
    let reading = tokio::task::spawn_blocking(move || {
        let reader = Reader::open(&place).map_err(|error| error.to_string())?;
        let spend = |budget: AccountBudget| {
            let spent = read_spend(&reader, &budget, now).map_err(|error| error.to_string())?;
            Ok((budget, spent))
        };
        budgets.into_iter().map(spend).collect::<Result<Vec<_>, String>>()
    });
    let spent = match reading.await.map_err(|error| error.to_string()).flatten() {
        Ok(spent) => spent,
        Err(error) => {
            tracing::error!(%error, "budgets begin with nothing spent: the ledger cannot be read");
            return;
        }
    };
    for (budget, spent) in spent {
        let Some(AccountSpend { since, cost, tokens }) = spent else { continue };
        let amount = Amount { money: cost, tokens };
        if let Err(error) = gate.services.book_earlier_spend(&budget, since, amount).await {
            tracing::error!(account = &*budget.path, %error, "a budget begins with nothing spent");
        }
    }
}

/// Reads what the window of a budget has spent; `None` if it has not begun.
fn read_spend(
    reader: &Reader,
    budget: &AccountBudget,
    now: u64,
) -> Result<Option<AccountSpend>, ReadError> {
    let window = &budget.rule.window;
    if let WindowLength::Rolling(length) = window.length() {
        let since = now.saturating_sub(length.saturating_mul(WINDOWS_BACK));
        return reader.sum_account_span(&budget.path, since, length, now);
    }
    let spent = reader.sum_account(&budget.path, window.span_at(now).start)?;
    let is_unused = spent.cost == NanoUsd::ZERO && spent.tokens == 0;
    Ok(Some(AccountSpend { since: now, ..spent }).filter(|_| !is_unused))
}
