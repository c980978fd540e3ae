//! Leases against a simple model: arbitrary trees, interleavings and crashes. Nothing is
//! overspent, no reserve is touched by others, unspent amounts come back, and no request that would
//! fit is refused.

mod model;

use model::{Model, Move, Outcome, WHAT};
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use softland_core::lease::{
    AccountId, AccountTerms, Amount, Caps, LeaseId, LeaseRequest, Leases, Shortage,
};
use softland_core::{Millis, NanoUsd, Reason};

prop_state_machine! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn trees_keep_their_caps_and_reserves(sequential 1..60 => Tree);
}

/// The leases under test, with the ids that stand for the model's numbers.
struct Tree {
    leases: Leases,
    accounts: Vec<AccountId>,
    taken: Vec<LeaseId>,
}

impl StateMachineTest for Tree {
    type SystemUnderTest = Self;
    type Reference = Model;

    fn init_test(model: &<Model as ReferenceStateMachine>::State) -> Self {
        let leases = Leases::new(model.nodes[0].caps, Amount::default());
        Self { leases, accounts: vec![Leases::SESSION], taken: Vec::new() }
    }

    fn apply(mut tree: Self, model: &Model, step: Move) -> Self {
        let outcome = tree.carry_out(model, &step);
        assert_eq!(outcome, model.last, "{step:?}");
        tree
    }

    fn check_invariants(tree: &Self, model: &Model) {
        for (n, node) in model.nodes.iter().enumerate() {
            let account = tree.accounts[n];
            assert_eq!(tree.leases.is_open(account), node.open, "{n}");
            if !node.open {
                continue;
            }
            assert_eq!(tree.leases.spent(account), model.spent(n), "spent of {n}");
            assert_eq!(tree.leases.reserve_of(account), node.reserve, "reserve of {n}");
            assert_eq!(tree.leases.ends_at(account), model.until(n), "time of {n}");
            for what in WHAT {
                let Some(cap) = what(&node.caps_as_amounts()) else { continue };
                let held = model
                    .spent(n)
                    .saturating_add(model.leased(n))
                    .saturating_add(model.reserved(n));
                let held = what(&held.into());
                assert!(held <= Some(cap), "account {n} may come to {held:?} of {cap}");
            }
        }
        tree.every_reserve_can_be_had(model);
    }

    /// Once all accounts are closed, everything that was not spent is available again.
    fn teardown(mut tree: Self, model: Model) {
        let top = tree.accounts.iter().skip(1).filter(|id| tree.leases.is_open(**id)).copied();
        for account in top.collect::<Vec<_>>() {
            tree.leases.close_account(account);
        }
        for lease in std::mem::take(&mut tree.taken) {
            tree.leases.settle_lease(lease, Amount::default());
        }
        let (caps, spent) = (model.nodes[0].caps, tree.leases.spent(Leases::SESSION));
        let all = Amount {
            money: caps.money.map_or(NanoUsd::ZERO, |cap| cap.saturating_sub(spent.money)),
            tokens: caps.tokens.map_or(0, |cap| cap - spent.tokens),
        };
        let now = Millis(0);
        let had = tree.leases.lease_for_exploring(
            Leases::SESSION,
            &LeaseRequest::from_amount(all),
            Amount::default(),
            now,
        );
        assert!(had.is_ok(), "{had:?} of {all:?}");
    }
}

impl Tree {
    fn carry_out(&mut self, model: &Model, step: &Move) -> Outcome {
        let (now, leases) = (model.now, &mut self.leases);
        match step {
            Move::Open { parent, terms } => {
                let opened = leases.open_account(self.accounts[*parent], *terms, now);
                opened.map_or_else(refused, |account| {
                    self.accounts.push(account);
                    Outcome::Done
                })
            }
            Move::Hold { node, reserve } => leases
                .hold_reserve(self.accounts[*node], *reserve)
                .map_or_else(refused, |()| Outcome::Done),
            Move::Explore { node, ask, reserve } => {
                let had = leases.lease_for_exploring(self.accounts[*node], ask, *reserve, now);
                self.taken(had)
            }
            Move::Answer { node, ask } => {
                let had = leases.lease_for_answer(self.accounts[*node], ask, now);
                self.taken(had)
            }
            Move::Settle { lease, actual } => {
                leases.settle_lease(self.taken[*lease], *actual);
                Outcome::Done
            }
            Move::Close { node } => {
                leases.close_account(self.accounts[*node]);
                Outcome::Done
            }
            Move::Advance { .. } => Outcome::Done,
        }
    }

    fn taken(&mut self, had: Result<(LeaseId, u64), Shortage>) -> Outcome {
        had.map_or_else(refused, |(lease, output)| {
            self.taken.push(lease);
            Outcome::Output(output)
        })
    }

    /// Every open account can have its answer from its reserve, all of them at once.
    fn every_reserve_can_be_had(&self, model: &Model) {
        let mut leases = self.leases.clone();
        for (n, node) in model.nodes.iter().enumerate().filter(|(_, node)| node.open) {
            if model.until(n).is_some_and(|until| until <= model.now) {
                continue;
            }
            let had = leases.lease_for_answer(
                self.accounts[n],
                &LeaseRequest::from_amount(node.reserve),
                model.now,
            );
            assert!(had.is_ok(), "the reserve of {n}: {had:?}");
        }
    }
}

fn refused(short: Shortage) -> Outcome {
    Outcome::Refused { busy: short.busy }
}

fn money(nano: u64) -> Amount {
    Amount { money: NanoUsd(nano), ..Amount::default() }
}

fn capped(nano: u64) -> Caps {
    Caps { money: Some(NanoUsd(nano)), ..Caps::default() }
}

/// A tree of runs that all go on until they have to land, with every request at its worst case. The
/// rest is less than the reserve and one request, so a cap of twenty requests is used to nine
/// tenths.
#[test]
fn a_cap_of_twenty_requests_is_used_to_nine_tenths() {
    for (children, request) in [(0, 7), (1, 7), (4, 50), (16, 3)] {
        let mut leases = Leases::new(capped(20 * request), Amount::default());
        let now = Millis(0);
        let terms = AccountTerms { reserve: money(request), ..AccountTerms::default() };
        let parent = leases.open_account(Leases::SESSION, terms, now).unwrap();
        let open: Vec<_> =
            (0..children).map_while(|_| leases.open_account(parent, terms, now).ok()).collect();
        assert_eq!(open.len(), children);
        let ask = LeaseRequest::from_amount(money(request));
        let end = |account, leases: &mut Leases| {
            while let Ok((lease, _)) =
                leases.lease_for_exploring(account, &ask, money(request), now)
            {
                leases.settle_lease(lease, money(request));
            }
            let (lease, _) =
                leases.lease_for_answer(account, &ask, now).expect("its reserve is there");
            leases.settle_lease(lease, money(request));
            leases.close_account(account);
        };
        open.into_iter().for_each(|child| end(child, &mut leases));
        end(parent, &mut leases);
        let spent = leases.spent(Leases::SESSION).money.0;
        assert!(spent * 10 >= 20 * request * 9 && spent <= 20 * request, "{children}: {spent}");
    }
}

#[test]
fn what_costs_more_than_its_lease_is_booked_all_the_same() {
    let mut leases = Leases::new(capped(100), Amount::default());
    let run = leases.open_account(Leases::SESSION, AccountTerms::default(), Millis(0)).unwrap();
    let ask = LeaseRequest::from_amount(money(60));
    let (lease, _) = leases.lease_for_exploring(run, &ask, Amount::default(), Millis(0)).unwrap();
    leases.settle_lease(lease, money(130));
    assert_eq!(leases.spent(Leases::SESSION), money(130));
    let short = leases.lease_for_exploring(
        run,
        &LeaseRequest::from_amount(money(1)),
        Amount::default(),
        Millis(0),
    );
    let because = short.unwrap_err().standing.to_because();
    assert_eq!(because.to_string(), "session_cost: $0.00000013 of $0.0000001");
}

#[test]
fn a_child_ends_before_its_parent_begins_with_its_answer() {
    let caps = Caps { time: Some(Millis(1000)), ..Caps::default() };
    let terms = AccountTerms { caps, reserve_time: Millis(100), ..AccountTerms::default() };
    let mut leases = Leases::default();
    let parent = leases.open_account(Leases::SESSION, terms, Millis(0)).unwrap();
    let child = leases.open_account(parent, terms, Millis(500)).unwrap();
    assert_eq!(leases.exploring_until(parent), Some(Millis(900)));
    assert_eq!(leases.ends_at(child), Some(Millis(900)));
    assert_eq!(leases.exploring_until(child), Some(Millis(800)));
    let late = leases
        .lease_for_exploring(child, &LeaseRequest::default(), Amount::default(), Millis(800))
        .unwrap_err();
    assert_eq!(late.standing.to_because().reason, Reason::Time);
    assert!(leases.lease_for_answer(child, &LeaseRequest::default(), Millis(899)).is_ok());
    assert!(leases.open_account(parent, terms, Millis(900)).is_err());
}
