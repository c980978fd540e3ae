//! What accounts have spent, for budgets that begin again with a process.

use rusqlite::params;
use softland_core::NanoUsd;

use super::{ReadError, Reader};

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
    /// Returns an error if the file cannot be read.
    pub fn sum_account(&self, account: &str, since: u64) -> Result<AccountSpend, ReadError> {
        let mut spend = AccountSpend { since, ..AccountSpend::default() };
        self.visit_account(account, since, |row| spend = spend.add_row(row))?;
        Ok(spend)
    }

    /// Returns what is spent in the span of time in which an account is at `now`, where each span
    /// begins with the first request after the one before, and ends `length` milliseconds later.
    /// `None` if no span goes on. The first span is looked for from `since` on.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn sum_account_span(
        &self,
        account: &str,
        since: u64,
        length: u64,
        now: u64,
    ) -> Result<Option<AccountSpend>, ReadError> {
        let mut open: Option<AccountSpend> = None;
        let goes_on = |spend: &AccountSpend, at: u64| at < spend.since.saturating_add(length);
        self.visit_account(account, since, |row| {
            let known = open.filter(|spend| goes_on(spend, row.0));
            let begun = || AccountSpend { since: row.0, ..AccountSpend::default() };
            open = Some(known.unwrap_or_else(begun).add_row(row));
        })?;
        Ok(open.filter(|spend| goes_on(spend, now)))
    }

    /// Visits the requests of an account and those below it that arrived at `since` or later, in
    /// order of arrival.
    fn visit_account(
        &self,
        account: &str,
        since: u64,
        mut visit: impl FnMut(SpendRow),
    ) -> Result<(), ReadError> {
        // The accounts below `a` lie between `a/` and `a0`, the next sign.
        let of = |table: &str, tokens: &str| {
            let row = format!("SELECT at, cost, {tokens} FROM {table} WHERE at >= ?2");
            format!(
                "{row} AND account = ?1 UNION ALL \
                 {row} AND account > ?1 || '/' AND account < ?1 || '0'"
            )
        };
        let ended = of("requests", "input + output + cache_read + cache_write");
        let open = of("open_requests", "input + output");
        let sql = format!("{ended} UNION ALL {open} ORDER BY at");
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        let mut read = || {
            let mut rows = self.connection.prepare_cached(&sql)?;
            let mut rows = rows.query(params![account, since])?;
            while let Some(row) = rows.next()? {
                let cost = row.get::<_, Option<i64>>(1)?.unwrap_or(0);
                visit((count(row.get(0)?), NanoUsd(count(cost)), count(row.get(2)?)));
            }
            Ok(())
        };
        read().map_err(|error| self.read_error(error))
    }
}
