//! What accounts have spent, for budgets that begin again with a process.

use softland_core::NanoUsd;

use super::{ReadError, Reader};
use crate::columns::Columns as _;
use crate::sql::{Conditions, TableNames};

/// What an account and those below it have spent from a moment on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountSpend {
    /// The moment, in milliseconds since 1970.
    pub since: u64,
    /// The sum of the known costs. Requests that have not ended count with the most that they can
    /// cost.
    pub cost: NanoUsd,
    /// The tokens, input (cached or not) and output.
    pub tokens: u64,
}

/// One request of an account: its time, its cost and its tokens.
type SpendRow = (u64, NanoUsd, u64);

impl AccountSpend {
    fn add_row(self, (_, cost, tokens): SpendRow) -> Self {
        let Self { since, cost: sum, tokens: counted } = self;
        Self { since, cost: sum + cost, tokens: counted.saturating_add(tokens) }
    }
}

impl Reader {
    /// Returns what an account and those below it have spent on requests that arrived at `since` or
    /// later.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read.
    pub fn sum_account(&self, account: &str, since: u64) -> Result<AccountSpend, ReadError> {
        let mut asked = self.conditions();
        let rows = self.select_account(account, since, &mut asked);
        let dialect = self.dialect();
        let (cost, tokens) = (dialect.sum_of("cost"), dialect.sum_of("tokens"));
        let sql = format!("SELECT {cost}, {tokens} FROM ({rows}) AS spent");
        let sums = self.list(&sql, &asked, |row| Ok((NanoUsd(row.count(0)?), row.count(1)?)))?;
        let (cost, tokens) = sums.first().copied().unwrap_or_default();
        Ok(AccountSpend { since, cost, tokens })
    }

    /// Returns what is spent in the span of time in which an account is at `now`, where each span
    /// begins with the first request after the one before, and ends `length` milliseconds later.
    /// `None` if no span goes on. The first span is looked for from `since` on.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read.
    pub fn sum_account_span(
        &self,
        account: &str,
        since: u64,
        length: u64,
        now: u64,
    ) -> Result<Option<AccountSpend>, ReadError> {
        let mut open: Option<AccountSpend> = None;
        let goes_on = |spend: &AccountSpend, at: u64| at < spend.since.saturating_add(length);
        let mut asked = self.conditions();
        let rows = self.select_account(account, since, &mut asked);
        self.visit(&format!("{rows} ORDER BY at"), &asked, |row| {
            let row = (row.count(0)?, NanoUsd(row.count(1)?), row.count(2)?);
            let known = open.filter(|spend| goes_on(spend, row.0));
            let begun = || AccountSpend { since: row.0, ..AccountSpend::default() };
            open = Some(known.unwrap_or_else(begun).add_row(row));
            Ok(())
        })?;
        Ok(open.filter(|spend| goes_on(spend, now)))
    }

    /// Returns the SQL for the requests of an account and those below it that arrived at `since` or
    /// later: their time, cost and tokens.
    fn select_account(&self, account: &str, since: u64, asked: &mut Conditions) -> String {
        let TableNames { requests, open_requests, .. } = self.dialect().tables();
        let (account, since) = (asked.bind_text(account), asked.bind_int(since));
        // The accounts below `a` lie between `a/` and `a0`, the next sign.
        let of = |table: &str, tokens: &str| {
            let row =
                format!("SELECT at, cost, {tokens} AS tokens FROM {table} WHERE at >= {since}");
            format!(
                "{row} AND account = {account} UNION ALL \
                 {row} AND account > {account} || '/' AND account < {account} || '0'"
            )
        };
        let ended = of(requests, "input + output + cache_read + cache_write");
        let open = of(open_requests, "input + output");
        format!("{ended} UNION ALL {open}")
    }
}
