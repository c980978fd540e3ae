//! The amount that an account can take, under all caps from its own up to the session's.

use super::accounts::{AccountId, Leases};
use super::{Amount, LeaseRequest};
use crate::because::{Because, Quantity, Reason};
use crate::money::NanoUsd;
use crate::time::Millis;

/// The unit of a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CapUnit {
    /// Money.
    Money,
    /// Tokens.
    Tokens,
    /// Time.
    Time,
}

/// The amounts in an account against one of its caps, in nano-dollars, tokens or
/// milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapUsage {
    /// The account whose spending counts.
    pub account: AccountId,
    /// The unit of the cap.
    pub what: CapUnit,
    /// The cap.
    pub cap: u64,
    /// Spent for good.
    pub spent: u64,
    /// Held back for the answers of others.
    pub reserved: u64,
    /// Leased by requests under way.
    pub leased: u64,
}

impl CapUsage {
    /// Returns the amount that is certainly gone: spent, or held back by others.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.spent.saturating_add(self.reserved)
    }

    /// Returns the rest if every request under way costs nothing.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.cap.saturating_sub(self.committed())
    }

    /// Returns the rest now.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.left().saturating_sub(self.leased)
    }

    /// Returns the numbers as the reason of a decision.
    #[must_use]
    pub fn to_because(&self) -> Because {
        let (used, cap) = (self.committed(), self.cap);
        let money = |nano| Quantity::Money(NanoUsd(nano));
        let (reason, used, limit) = match self.what {
            CapUnit::Money if self.account == Leases::SESSION => {
                (Reason::SessionCost, money(used), money(cap))
            }
            CapUnit::Money => (Reason::Cost, money(used), money(cap)),
            CapUnit::Tokens => (Reason::Tokens, Quantity::Count(used), Quantity::Count(cap)),
            CapUnit::Time => {
                (Reason::Time, Quantity::Time(Millis(used)), Quantity::Time(Millis(cap)))
            }
        };
        Because::new(reason, used, limit)
    }
}

/// The reason why there is no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The cap with the least left.
    pub standing: CapUsage,
    /// True if the amount would suffice if requests under way cost less than their leases. Then it
    /// is worth waiting for them, since each of them ends.
    pub busy: bool,
}

impl Leases {
    /// Returns the amounts against every cap that counts for `account`: its own caps and those
    /// above it. `account`'s own reserve does not count as reserved. Caps on time are left out.
    pub fn cap_usages(&self, account: AccountId) -> impl Iterator<Item = CapUsage> + '_ {
        self.limiting_caps(account).map(move |(on, what, cap)| {
            let of = |amount: Amount| amount_in_unit(what, amount);
            let below = move |id: AccountId| self.is_within(id, on);
            let others = self.reserves().filter(move |(id, _)| *id != account && below(*id));
            let leased = self.leased().filter(move |(id, _)| below(*id));
            let sum = |amounts: &mut dyn Iterator<Item = (AccountId, Amount)>| {
                amounts.fold(0_u64, |sum, (_, amount)| sum.saturating_add(of(amount)))
            };
            CapUsage {
                account: on,
                what,
                cap,
                spent: of(self.spent(on)),
                reserved: sum(&mut { others }),
                leased: sum(&mut { leased }),
            }
        })
    }

    /// Returns every cap that counts for an account, each with the account whose spending counts.
    fn limiting_caps(
        &self,
        account: AccountId,
    ) -> impl Iterator<Item = (AccountId, CapUnit, u64)> + '_ {
        self.accounts_up_to_session(account).flat_map(|id| {
            let caps = self.caps_of(id);
            let set = [
                (id, CapUnit::Money, caps.money.map(|money| money.0)),
                (id, CapUnit::Tokens, caps.tokens),
            ];
            set.into_iter().filter_map(|(id, what, cap)| Some((id, what, cap?)))
        })
    }

    /// Returns the output, in tokens, that [`Self::lease_for_exploring`] would give, without regard
    /// to time.
    ///
    /// # Errors
    /// Returns an error if there is not enough for both, as there.
    pub fn available_output(
        &self,
        account: AccountId,
        ask: &LeaseRequest,
        reserve: Amount,
    ) -> Result<u64, Shortage> {
        let base = ask.base.saturating_add(reserve);
        let (mut now, mut soon) = (ask.most, ask.most);
        let mut tightest: Option<(Option<u64>, CapUsage)> = None;
        let mut fits = (true, true);
        for standing in self.cap_usages(account) {
            let needs = amount_in_unit(standing.what, base);
            let room = |left: u64| {
                left.checked_sub(needs).map(|rest| max_output(standing.what, rest, ask))
            };
            let (free, left) = (room(standing.free()), room(standing.left()));
            fits = (fits.0 && free.is_some(), fits.1 && left.is_some());
            now = now.min(free.unwrap_or(0));
            soon = soon.min(left.unwrap_or(0));
            if tightest.is_none_or(|(least, _)| left < least) {
                tightest = Some((left, standing));
            }
        }
        let Some((_, standing)) = tightest else { return Ok(ask.most) };
        let (least, enough) = (ask.least.min(ask.most), ask.enough.min(ask.most));
        // Waiting for other requests to end is worthwhile only if it brings more output.
        let will_do = if soon >= enough { enough } else { least };
        let waits = fits.1 && soon >= least;
        if fits.0 && now >= least && (now >= will_do || now == soon) {
            return Ok(now);
        }
        Err(Shortage { standing, busy: waits })
    }
}

/// Returns the part of an amount in the unit of a cap.
pub(super) fn amount_in_unit(what: CapUnit, amount: Amount) -> u64 {
    match what {
        CapUnit::Money => amount.money.0,
        CapUnit::Tokens => amount.tokens,
        CapUnit::Time => 0,
    }
}

/// Returns the most output, in tokens, for which the rest of a cap is enough.
fn max_output(what: CapUnit, rest: u64, ask: &LeaseRequest) -> u64 {
    match what {
        CapUnit::Money => {
            let pico = u128::from(rest) * 1000;
            pico.checked_div(u128::from(ask.output_pico))
                .map_or(u64::MAX, |tokens| u64::try_from(tokens).unwrap_or(u64::MAX))
        }
        CapUnit::Tokens => rest,
        CapUnit::Time => u64::MAX,
    }
}
