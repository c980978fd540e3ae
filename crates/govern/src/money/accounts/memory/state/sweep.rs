//! Which accounts are forgotten, and when.

use std::time::Duration;

use tokio::time::Instant;

use super::AccountsState;

/// With more accounts than this, idle ones are looked for.
const MANY: usize = 100_000;
/// Accounts beyond this many are refused.
pub(in super::super) const MOST: usize = 1_000_000;
/// The time without a change after which an account is idle.
const IDLE: Duration = Duration::from_secs(48 * 3600);
/// The shortest interval between two sweeps: a sweep of many accounts takes milliseconds.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(60);

/// The number of accounts of unnamed conversations at which idle ones are dropped, and the number
/// that is kept then.
pub(super) const UNNAMED: [usize; 2] = [10_000, 8_192];

impl AccountsState {
    /// Forgets idle accounts if there are many.
    pub(super) fn sweep_idle(&mut self, now: Instant) {
        if self.unnamed[0] >= self.unnamed[1] {
            self.forget_unnamed();
        }
        let recent = |at: Instant, within| now.saturating_duration_since(at) <= within;
        if self.accounts.len() < MANY || self.swept.is_some_and(|at| recent(at, BETWEEN_SWEEPS)) {
            return;
        }
        self.swept = Some(now);
        let waiting = &self.waiting;
        self.accounts.retain(|name, account| {
            account.leases > 0 || waiting.contains_key(name) || recent(account.touched, IDLE)
        });
        self.count_unnamed();
    }

    /// Keeps only the newest accounts of unnamed conversations, and those in use.
    fn forget_unnamed(&mut self) {
        let [_, stay] = UNNAMED;
        let unnamed = self.accounts.values().filter(|account| account.unnamed);
        let mut touched: Vec<Instant> = unnamed.map(|account| account.touched).collect();
        if let Some(old) = touched.len().checked_sub(stay) {
            let (_, limit, _) = touched.select_nth_unstable(old);
            let limit = *limit;
            let waiting = &self.waiting;
            self.accounts.retain(|name, account| {
                let used = account.leases > 0 || waiting.contains_key(name);
                used || account.touched >= limit || !account.unnamed
            });
        }
        self.count_unnamed();
    }

    fn count_unnamed(&mut self) {
        let unnamed = self.accounts.values().filter(|account| account.unnamed).count();
        // If most are in use, they are not counted again for each new one.
        let [most, stay] = UNNAMED;
        self.unnamed = [unnamed, unnamed + most - stay];
    }
}
