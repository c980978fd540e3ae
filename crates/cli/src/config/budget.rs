//! The budgets of accounts (`[[budget]]`).

use std::sync::Arc;

use softland_agent::core::NanoUsd;
use softland_agent::core::policy::PolicyValue;
use softland_gateway::govern::is_account_part;
use softland_gateway::{BudgetRule, BudgetWindow, OnExhausted, WindowLength};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::entry::Entry;
use super::{Config, ConfigReader, to_policy_value};

/// One `[[budget]]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BudgetConfig {
    pub(super) rule: Arc<BudgetRule>,
    /// The place of the table in the file.
    place: String,
}

const KNOWN: [&str; 6] =
    ["account", "limit_usd", "limit_tokens", "window", "notify_at", "on_exhausted"];

const ACCOUNT: &str = "an account such as \"acme/search\", or \"acme/search/*\" for each of its \
     children, in quotes";
const MONEY: &str = "an amount of dollars above zero and up to 9000000, such as 50 or 0.5";
const TOKENS: &str = "a whole number of tokens above zero";
const WINDOW: &str = "\"day\", \"week\", \"month\", or a length such as \"5h\" or \"90m\"";
const EXHAUSTED: &str = "\"land\" or \"refuse\"";
const SHARES: &str = "a list of shares above 0 and up to 1, such as [0.5, 0.8, 0.95]";
const ZONE: &str = "the name of a time zone such as \"Europe/Berlin\" or \"UTC\", in quotes";

/// The largest limit of money. All programs that keep sums up to it keep them exactly.
const MOST: NanoUsd = NanoUsd(9_000_000_000_000_000);

impl Config {
    /// Warns of each budget that no key spends from.
    pub(super) fn warn_idle_budgets(&self) -> impl Iterator<Item = String> + '_ {
        let accounts = || self.gateway.keys.iter().filter_map(|key| key.account.as_deref());
        let is_idle = move |budget: &&BudgetConfig| {
            !accounts().any(|account| budget.rule.find_path(account).is_some())
        };
        // Keys of a shared store may have any account.
        let budgets = if self.names_store() { &[][..] } else { &*self.gateway.budgets };
        budgets.iter().filter(is_idle).map(|budget| {
            let (place, pattern) = (&budget.place, budget.rule.pattern());
            format!("{place}: no [[key]] has an account for which {pattern} is a budget")
        })
    }
}

impl ConfigReader<'_> {
    /// Reads the top-level key `timezone`.
    pub(super) fn read_timezone(&mut self, entry: &Entry<'_, '_>) {
        let name = entry.value.as_str().map(str::trim);
        let known = name.filter(|name| BudgetWindow::new(WindowLength::Day, name).is_ok());
        match known {
            Some(name) => self.timezone = name.to_owned(),
            None => self.note_wrong_value(entry, ZONE),
        }
    }

    /// Reads the budgets. The time zone has been read before them.
    pub(super) fn read_budgets(&mut self, value: &Spanned<DeValue<'_>>) {
        for (at, table) in self.read_rows("budget", value) {
            let Some(rule) = self.read_budget(at, table) else { continue };
            let same = |known: &&BudgetConfig| {
                known.rule.pattern() == rule.pattern() && known.rule.window == rule.window
            };
            if let Some(known) = self.config.gateway.budgets.iter().find(same) {
                let message = format!(
                    "{:?} has a budget for this window in {}, too",
                    rule.pattern(),
                    known.place
                );
                self.note_problem(at, "budget.account", &message);
            }
            let place = self.format_place(at, "budget");
            self.config.gateway.budgets.push(BudgetConfig { rule: Arc::new(rule), place });
        }
    }

    fn read_budget(&mut self, at: usize, table: &DeTable<'_>) -> Option<BudgetRule> {
        let (mut account, mut length) = (None, None);
        let (mut limit, mut tokens_limit) = (None, None);
        let (mut notify_at, mut on_exhausted) = (Vec::new(), OnExhausted::Land);
        let before = self.problems.len();
        let whole = DeValue::Table(table.clone());
        for entry in self.read_entries("budget", &whole, &KNOWN) {
            match entry.name {
                "account" => account = self.read_budget_account(&entry),
                "limit_usd" => limit = self.read_budget_money(&entry),
                "limit_tokens" => tokens_limit = self.read_budget_tokens(&entry),
                "window" => {
                    length = entry.value.as_str().and_then(WindowLength::parse);
                    if length.is_none() {
                        self.note_wrong_value(&entry, WINDOW);
                    }
                }
                "notify_at" => notify_at = self.read_shares(&entry),
                _ => match entry.value.as_str() {
                    Some("land") => on_exhausted = OnExhausted::Land,
                    Some("refuse") => on_exhausted = OnExhausted::Refuse,
                    _ => self.note_wrong_value(&entry, EXHAUSTED),
                },
            }
        }
        for (key, allowed) in [("account", ACCOUNT), ("window", WINDOW)] {
            if !table.contains_key(key) {
                let message = format!("is required: {allowed}");
                self.note_problem(at, &format!("budget.{key}"), &message);
            }
        }
        if !table.contains_key("limit_usd") && !table.contains_key("limit_tokens") {
            self.note_problem(at, "budget", "needs limit_usd or limit_tokens, or both");
        }
        if self.problems.len() > before {
            return None;
        }
        let (account, each_child) = account?;
        let window = BudgetWindow::new(length?, &self.timezone).ok()?;
        Some(BudgetRule {
            account,
            each_child,
            limit,
            tokens_limit,
            window,
            notify_at,
            on_exhausted,
        })
    }

    /// Reads an account, and whether the budget is one for each of its children.
    fn read_budget_account(&mut self, entry: &Entry<'_, '_>) -> Option<(String, bool)> {
        let read = entry.value.as_str().and_then(|text| {
            let (path, each_child) = match text.strip_suffix('*') {
                Some("") => return Some((String::new(), true)),
                Some(parent) => (parent.strip_suffix('/')?, true),
                None => (text, false),
            };
            path.split('/').all(is_account_part).then(|| (path.to_owned(), each_child))
        });
        if read.is_none() {
            self.note_wrong_value(entry, ACCOUNT);
        }
        read
    }

    fn read_budget_money(&mut self, entry: &Entry<'_, '_>) -> Option<NanoUsd> {
        let amount = match to_policy_value(entry.value) {
            PolicyValue::Int(number) => number.to_string().parse::<NanoUsd>().ok(),
            PolicyValue::Float(number) => NanoUsd::from_dollars(number),
            _ => None,
        };
        let amount = amount.filter(|amount| (NanoUsd(1)..=MOST).contains(amount));
        if amount.is_none() {
            self.note_wrong_value(entry, MONEY);
        }
        amount
    }

    /// Reads the shares at which the operator is told, in order.
    fn read_shares(&mut self, entry: &Entry<'_, '_>) -> Vec<f64> {
        let share = |value: &Spanned<DeValue<'_>>| {
            let share = match to_policy_value(value.get_ref()) {
                PolicyValue::Int(1) => 1.0,
                PolicyValue::Float(number) => number,
                _ => return None,
            };
            Some(share).filter(|share| *share > 0.0 && *share <= 1.0)
        };
        let Some(listed) = entry.value.as_array() else {
            self.note_wrong_value(entry, SHARES);
            return Vec::new();
        };
        if let Some(wrong) = listed.iter().find(|value| share(value).is_none()) {
            let wrong = to_policy_value(wrong.get_ref());
            let message = format!("must be {SHARES}, got {wrong} in the list");
            self.note_problem(entry.at, &entry.place, &message);
        }
        let mut shares: Vec<f64> = listed.iter().filter_map(share).collect();
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        shares
    }

    fn read_budget_tokens(&mut self, entry: &Entry<'_, '_>) -> Option<u64> {
        let tokens = match to_policy_value(entry.value) {
            PolicyValue::Int(number) => u64::try_from(number).ok().filter(|tokens| *tokens > 0),
            _ => None,
        };
        if tokens.is_none() {
            self.note_wrong_value(entry, TOKENS);
        }
        tokens
    }
}
