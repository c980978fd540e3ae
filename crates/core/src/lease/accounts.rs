//! The accounts of a tree and the leases on them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::headroom::{CapUnit, CapUsage, Shortage};
use super::{AccountTerms, Amount, Caps, LeaseRequest};
use crate::money::NanoUsd;
use crate::time::Millis;

/// The id of an account; valid only in its own tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(u64);

/// The id of a lease; valid only in its own tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(u64);

/// The accounts of a session and the leases on them.
#[derive(Clone, Debug)]
pub struct Leases {
    accounts: BTreeMap<AccountId, Account>,
    leases: BTreeMap<LeaseId, Lease>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    parent: Option<AccountId>,
    terms: AccountTerms,
    /// The amount that was spent here and below, including closed accounts.
    spent: Amount,
    /// The time at which the account has to end.
    until: Option<Millis>,
    /// The time at which the account has to begin its answer.
    exploring_until: Option<Millis>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    account: AccountId,
    amount: Amount,
    /// The part of the amount that was taken from the account's reserve.
    of_reserve: Amount,
}

impl Leases {
    /// The session's account, above all others. It is never closed.
    pub const SESSION: AccountId = AccountId(0);

    /// Creates a session that has spent the amount `spent` before.
    #[must_use]
    pub fn new(caps: Caps, spent: Amount) -> Self {
        let terms = AccountTerms { caps, ..AccountTerms::default() };
        let session =
            Account { parent: None, terms, spent, until: caps.time, exploring_until: caps.time };
        let accounts = BTreeMap::from([(Self::SESSION, session)]);
        Self { accounts, leases: BTreeMap::new(), next: 1 }
    }

    /// Opens an account below `parent`. It ends at the latest when its parent has to begin its own
    /// answer.
    ///
    /// # Errors
    /// Returns an error if the reserve does not fit, or `parent` has no time left or is closed;
    /// then nothing has changed.
    pub fn open_account(
        &mut self,
        parent: AccountId,
        terms: AccountTerms,
        now: Millis,
    ) -> Result<AccountId, Shortage> {
        let above = self.find_account_with_time(parent, now, true)?;
        let held = terms.reserve;
        let account = self.insert_account(parent, above.exploring_until, terms, now);
        if let Err(short) = self.hold_reserve(account, held) {
            self.accounts.remove(&account);
            return Err(short);
        }
        self.next += 1;
        Ok(account)
    }

    /// Opens an account again that was opened at the time `then`, whatever is available now. This
    /// restores the runs of a tree while not all of their state is known yet.
    pub fn reopen_account(
        &mut self,
        parent: AccountId,
        terms: AccountTerms,
        then: Millis,
    ) -> AccountId {
        let above = self.accounts.get(&parent).and_then(|above| above.exploring_until);
        let account = self.insert_account(parent, above, terms, then);
        self.next += 1;
        self.set_reserve(account, terms.reserve);
        account
    }

    /// Inserts an account that holds nothing back yet.
    fn insert_account(
        &mut self,
        parent: AccountId,
        above: Option<Millis>,
        terms: AccountTerms,
        now: Millis,
    ) -> AccountId {
        let own = terms.caps.time.map(|time| Millis(now.0.saturating_add(time.0)));
        let until = [own, above].into_iter().flatten().min();
        let exploring_until = until.map(|until| {
            let has = until.0.saturating_sub(now.0);
            Millis(until.0 - terms.reserve_time.0.min(has / 2))
        });
        let account = AccountId(self.next);
        let terms = AccountTerms { reserve: Amount::default(), ..terms };
        let spent = Amount::default();
        let opened = Account { parent: Some(parent), terms, spent, until, exploring_until };
        self.accounts.insert(account, opened);
        account
    }

    /// Sets the amount that the account holds back for its answer, in place of the one before.
    ///
    /// # Errors
    /// Returns an error if the amount does not fit; then the account holds back the same amount as
    /// before.
    pub fn hold_reserve(&mut self, account: AccountId, reserve: Amount) -> Result<(), Shortage> {
        self.available_output(account, &LeaseRequest::default(), reserve)?;
        self.set_reserve(account, reserve);
        Ok(())
    }

    /// Sets an amount that the account held back once, whatever is available now.
    pub fn restore_reserve(&mut self, account: AccountId, reserve: Amount) {
        self.set_reserve(account, reserve);
    }

    /// Takes a lease again that was granted with `output` tokens of output, whatever is available
    /// now. With a `reserve`, the lease is one of [`Self::lease_for_exploring`]; without it, one of
    /// [`Self::lease_for_answer`].
    pub fn restore_lease(
        &mut self,
        account: AccountId,
        ask: &LeaseRequest,
        output: u64,
        reserve: Option<Amount>,
    ) -> LeaseId {
        let amount = ask.amount_with_output(output);
        if let Some(reserve) = reserve {
            self.set_reserve(account, reserve);
            return self.insert_lease(account, amount, Amount::default());
        }
        self.insert_answer_lease(account, amount)
    }

    /// Takes a lease for a request that is not the answer yet, and holds back `reserve` for the
    /// answer after it. Returns the lease and its output in tokens, which depends on the available
    /// amount.
    ///
    /// # Errors
    /// Returns an error if there is not enough for both, or no time; then nothing has changed.
    pub fn lease_for_exploring(
        &mut self,
        account: AccountId,
        ask: &LeaseRequest,
        reserve: Amount,
        now: Millis,
    ) -> Result<(LeaseId, u64), Shortage> {
        self.find_account_with_time(account, now, true)?;
        let output = self.available_output(account, ask, reserve)?;
        self.set_reserve(account, reserve);
        Ok((self.insert_lease(account, ask.amount_with_output(output), Amount::default()), output))
    }

    /// Takes a lease for the answer: from the account's reserve, and from the free amount beside
    /// it.
    ///
    /// # Errors
    /// Returns an error if both together are not enough, or the time is over; then nothing has
    /// changed.
    pub fn lease_for_answer(
        &mut self,
        account: AccountId,
        ask: &LeaseRequest,
        now: Millis,
    ) -> Result<(LeaseId, u64), Shortage> {
        self.find_account_with_time(account, now, false)?;
        let output = self.available_output(account, ask, Amount::default())?;
        Ok((self.insert_answer_lease(account, ask.amount_with_output(output)), output))
    }

    fn insert_answer_lease(&mut self, account: AccountId, amount: Amount) -> LeaseId {
        let reserve = self.reserve_of(account);
        let of_reserve = amount.min(reserve);
        self.set_reserve(account, reserve.saturating_sub(of_reserve));
        self.insert_lease(account, amount, of_reserve)
    }

    /// Ends a lease. The cost of the request is spent. The rest is available to all runs again, or
    /// goes back to the reserve if it came from there.
    pub fn settle_lease(&mut self, lease: LeaseId, actual: Amount) {
        let Some(Lease { account, amount, of_reserve }) = self.leases.remove(&lease) else {
            return;
        };
        let back = amount.saturating_sub(actual).min(of_reserve);
        self.set_reserve(account, self.reserve_of(account).saturating_add(back));
        let path: Vec<AccountId> = self.accounts_up_to_session(account).collect();
        for id in path {
            if let Some(account) = self.accounts.get_mut(&id) {
                account.spent = account.spent.saturating_add(actual);
            }
        }
    }

    /// Closes an account and all accounts below it: its reserve is available to all runs again. A
    /// lease that is still open there is spent whole, since the cost of its request is unknown.
    pub fn close_account(&mut self, account: AccountId) {
        if account == Self::SESSION {
            return;
        }
        let below = |id: &AccountId| self.is_within(*id, account);
        let open: Vec<(LeaseId, Amount)> = self
            .leases
            .iter()
            .filter(|(_, lease)| below(&lease.account))
            .map(|(id, lease)| (*id, lease.amount))
            .collect();
        let closed: Vec<AccountId> = self.accounts.keys().copied().filter(below).collect();
        for (lease, amount) in open {
            self.settle_lease(lease, amount);
        }
        for id in closed {
            self.accounts.remove(&id);
        }
    }

    /// Returns the amount that was spent in an account and below it, including closed accounts.
    #[must_use]
    pub fn spent(&self, account: AccountId) -> Amount {
        self.accounts.get(&account).map_or_else(Amount::default, |account| account.spent)
    }

    /// Returns the amount that an account holds back for its answer.
    #[must_use]
    pub fn reserve_of(&self, account: AccountId) -> Amount {
        self.accounts.get(&account).map_or_else(Amount::default, |account| account.terms.reserve)
    }

    /// Returns the time at which an account has to end; `None` without a limit.
    #[must_use]
    pub fn ends_at(&self, account: AccountId) -> Option<Millis> {
        self.accounts.get(&account)?.until
    }

    /// Returns the time at which an account has to begin its answer; `None` without a limit.
    #[must_use]
    pub fn exploring_until(&self, account: AccountId) -> Option<Millis> {
        self.accounts.get(&account)?.exploring_until
    }

    /// Returns true if the account is open.
    #[must_use]
    pub fn is_open(&self, account: AccountId) -> bool {
        self.accounts.contains_key(&account)
    }

    /// Returns an account that is open and has time left, to explore or at all.
    fn find_account_with_time(
        &self,
        id: AccountId,
        now: Millis,
        exploring: bool,
    ) -> Result<Account, Shortage> {
        let over = |until: Millis| Shortage {
            standing: CapUsage {
                account: id,
                what: CapUnit::Time,
                cap: until.0,
                spent: now.0,
                reserved: 0,
                leased: 0,
            },
            busy: false,
        };
        let Some(account) = self.accounts.get(&id) else { return Err(over(now)) };
        let until = if exploring { account.exploring_until } else { account.until };
        match until.filter(|until| *until <= now) {
            Some(until) => Err(over(until)),
            None => Ok(*account),
        }
    }

    fn insert_lease(&mut self, account: AccountId, amount: Amount, of_reserve: Amount) -> LeaseId {
        let id = LeaseId(self.next);
        self.next += 1;
        self.leases.insert(id, Lease { account, amount, of_reserve });
        id
    }

    fn set_reserve(&mut self, account: AccountId, reserve: Amount) {
        if let Some(account) = self.accounts.get_mut(&account) {
            account.terms.reserve = reserve;
        }
    }

    /// Returns an account and the accounts above it, up to the session's.
    pub(super) fn accounts_up_to_session(
        &self,
        account: AccountId,
    ) -> impl Iterator<Item = AccountId> + '_ {
        let open = Some(account).filter(|id| self.accounts.contains_key(id));
        core::iter::successors(open, |id| self.accounts.get(id).and_then(|account| account.parent))
    }

    pub(super) fn is_within(&self, account: AccountId, above: AccountId) -> bool {
        self.accounts_up_to_session(account).any(|id| id == above)
    }

    pub(super) fn caps_of(&self, account: AccountId) -> Caps {
        self.accounts.get(&account).map_or_else(Caps::default, |account| account.terms.caps)
    }

    pub(super) fn reserves(&self) -> impl Iterator<Item = (AccountId, Amount)> + '_ {
        self.accounts.iter().map(|(id, account)| (*id, account.terms.reserve))
    }

    pub(super) fn leased(&self) -> impl Iterator<Item = (AccountId, Amount)> + '_ {
        self.leases.values().map(|lease| (lease.account, lease.amount))
    }
}

impl Default for Leases {
    fn default() -> Self {
        Self::new(Caps::default(), Amount { money: NanoUsd::ZERO, tokens: 0 })
    }
}
