//! The simple model: lists of opened accounts and taken leases, sums made anew each time, and the
//! largest output found by trying.

use proptest::prelude::*;
use proptest::strategy::Union;
use proptest_state_machine::ReferenceStateMachine;
use softland_core::lease::{AccountTerms, Amount, Caps, LeaseRequest};
use softland_core::{Millis, NanoUsd};

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) nodes: Vec<Node>,
    leases: Vec<Lease>,
    pub(crate) now: Millis,
    /// The outcome of the last step.
    pub(crate) last: Outcome,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    parent: Option<usize>,
    pub(crate) caps: Caps,
    pub(crate) reserve: Amount,
    reserve_time: Millis,
    opened: Millis,
    pub(crate) open: bool,
    /// Spent by this account alone.
    spent: Amount,
}

#[derive(Clone, Debug)]
struct Lease {
    node: usize,
    amount: Amount,
    of_reserve: Amount,
    open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Output(u64),
    Refused { busy: bool },
}

#[derive(Clone, Debug)]
pub(crate) enum Move {
    Open { parent: usize, terms: AccountTerms },
    Hold { node: usize, reserve: Amount },
    Explore { node: usize, ask: LeaseRequest, reserve: Amount },
    Answer { node: usize, ask: LeaseRequest },
    Settle { lease: usize, actual: Amount },
    Close { node: usize },
    Advance { by: u64 },
}

/// The caps or the amounts of each kind.
pub(crate) type Each = [Option<u64>; 2];

/// The kinds of caps.
pub(crate) const WHAT: [fn(&Amounts) -> Option<u64>; 2] = [|a| a.0[0], |a| a.0[1]];

pub(crate) struct Amounts(Each);

impl From<Amount> for Amounts {
    fn from(amount: Amount) -> Self {
        Self([Some(amount.money.0), Some(amount.tokens)])
    }
}

impl Node {
    pub(crate) fn caps_as_amounts(&self) -> Amounts {
        Amounts([self.caps.money.map(|money| money.0), self.caps.tokens])
    }
}

impl Model {
    fn within(&self, node: usize, above: usize) -> bool {
        node == above || self.nodes[node].parent.is_some_and(|parent| self.within(parent, above))
    }

    pub(crate) fn spent(&self, above: usize) -> Amount {
        let below = (0..self.nodes.len()).filter(|node| self.within(*node, above));
        below.fold(Amount::default(), |sum, node| sum.saturating_add(self.nodes[node].spent))
    }

    pub(crate) fn leased(&self, above: usize) -> Amount {
        let below = self.leases.iter().filter(|lease| lease.open && self.within(lease.node, above));
        below.fold(Amount::default(), |sum, lease| sum.saturating_add(lease.amount))
    }

    pub(crate) fn reserved(&self, above: usize) -> Amount {
        let below = (0..self.nodes.len()).filter(|n| self.nodes[*n].open && self.within(*n, above));
        below.fold(Amount::default(), |sum, node| sum.saturating_add(self.nodes[node].reserve))
    }

    pub(crate) fn until(&self, node: usize) -> Option<Millis> {
        let Node { parent, caps, opened, .. } = &self.nodes[node];
        let own = caps.time.map(|time| Millis(opened.0 + time.0));
        let above = parent.and_then(|parent| self.exploring_until(parent));
        own.into_iter().chain(above).min()
    }

    fn exploring_until(&self, node: usize) -> Option<Millis> {
        let until = self.until(node)?;
        let has = until.0 - self.nodes[node].opened.0;
        Some(Millis(until.0 - self.nodes[node].reserve_time.0.min(has / 2)))
    }

    /// Returns true if all caps hold after `amount` is taken, with this reserve of the node itself.
    fn holds(&self, node: usize, amount: Amount, reserve: Amount, with_leases: bool) -> bool {
        let mut path = vec![node];
        while let Some(parent) = self.nodes[path[path.len() - 1]].parent {
            path.push(parent);
        }
        path.into_iter().all(|above| {
            let others = self.reserved(above).saturating_sub(self.nodes[node].reserve);
            let leased = if with_leases { self.leased(above) } else { Amount::default() };
            let held = self
                .spent(above)
                .saturating_add(others)
                .saturating_add(leased)
                .saturating_add(reserve)
                .saturating_add(amount);
            let (held, caps) = (Amounts::from(held), self.nodes[above].caps_as_amounts());
            WHAT.iter().all(|what| {
                what(&caps).is_none_or(|cap| what(&held).is_some_and(|held| held <= cap))
            })
        })
    }

    fn best(
        &self,
        node: usize,
        ask: &LeaseRequest,
        reserve: Amount,
        with_leases: bool,
    ) -> Option<u64> {
        let fits = |o: &u64| self.holds(node, ask.amount_with_output(*o), reserve, with_leases);
        (0..=ask.most).rev().find(fits)
    }

    fn fit(&self, node: usize, ask: &LeaseRequest, reserve: Amount) -> Outcome {
        let soon = self.best(node, ask, reserve, false).filter(|output| *output >= ask.least);
        let Some(soon) = soon else { return Outcome::Refused { busy: false } };
        match self.best(node, ask, reserve, true).filter(|output| *output >= ask.least) {
            Some(now) if now >= ask.enough || now == soon || soon < ask.enough => {
                Outcome::Output(now)
            }
            _ => Outcome::Refused { busy: true },
        }
    }

    fn is_late(&self, node: usize, exploring: bool) -> bool {
        let until = if exploring { self.exploring_until(node) } else { self.until(node) };
        !self.nodes[node].open || until.is_some_and(|until| until <= self.now)
    }

    fn take(&mut self, node: usize, amount: Amount, of_reserve: Amount) {
        self.leases.push(Lease { node, amount, of_reserve, open: true });
    }

    fn settle(&mut self, lease: usize, actual: Amount) {
        let Lease { node, amount, of_reserve, open } = self.leases[lease].clone();
        if open {
            self.leases[lease].open = false;
            let node = &mut self.nodes[node];
            node.spent = node.spent.saturating_add(actual);
            node.reserve =
                node.reserve.saturating_add(amount.saturating_sub(actual).min(of_reserve));
        }
    }

    fn close(&mut self, above: usize) {
        if above == 0 {
            return;
        }
        for lease in 0..self.leases.len() {
            if self.within(self.leases[lease].node, above) {
                self.settle(lease, self.leases[lease].amount);
            }
        }
        for node in 0..self.nodes.len() {
            if self.within(node, above) {
                self.nodes[node].open = false;
            }
        }
    }

    fn carry_out(&mut self, step: &Move) -> Outcome {
        match step {
            Move::Open { parent, terms } => self.open(*parent, terms),
            Move::Hold { node, reserve } => {
                let outcome = self.fit(*node, &LeaseRequest::default(), *reserve);
                if !matches!(outcome, Outcome::Output(_)) {
                    return outcome;
                }
                self.nodes[*node].reserve = *reserve;
                Outcome::Done
            }
            Move::Explore { node, .. } if self.is_late(*node, true) => late(),
            Move::Explore { node, ask, reserve } => {
                let outcome = self.fit(*node, ask, *reserve);
                if let Outcome::Output(output) = outcome {
                    self.nodes[*node].reserve = *reserve;
                    self.take(*node, ask.amount_with_output(output), Amount::default());
                }
                outcome
            }
            Move::Answer { node, .. } if self.is_late(*node, false) => late(),
            Move::Answer { node, ask } => {
                let outcome = self.fit(*node, ask, Amount::default());
                if let Outcome::Output(output) = outcome {
                    let (amount, reserve) =
                        (ask.amount_with_output(output), self.nodes[*node].reserve);
                    self.nodes[*node].reserve = reserve.saturating_sub(amount);
                    self.take(*node, amount, amount.min(reserve));
                }
                outcome
            }
            Move::Settle { lease, actual } => {
                self.settle(*lease, *actual);
                Outcome::Done
            }
            Move::Close { node } => {
                self.close(*node);
                Outcome::Done
            }
            Move::Advance { by } => {
                self.now = Millis(self.now.0 + by);
                Outcome::Done
            }
        }
    }

    fn open(&mut self, parent: usize, terms: &AccountTerms) -> Outcome {
        if self.is_late(parent, true) {
            return late();
        }
        let &AccountTerms { caps, reserve, reserve_time } = terms;
        let (opened, spent) = (self.now, Amount::default());
        let parent = Some(parent);
        let held = Amount::default();
        self.nodes.push(Node {
            parent,
            caps,
            reserve: held,
            reserve_time,
            opened,
            open: true,
            spent,
        });
        let node = self.nodes.len() - 1;
        let outcome = self.fit(node, &LeaseRequest::default(), reserve);
        if !matches!(outcome, Outcome::Output(_)) {
            self.nodes.pop();
            return outcome;
        }
        self.nodes[node].reserve = reserve;
        Outcome::Done
    }

    fn is_settled_within(&self, lease: usize, actual: Amount) -> bool {
        let lease = &self.leases[lease];
        lease.open && actual.saturating_sub(lease.amount) == Amount::default()
    }
}

fn late() -> Outcome {
    Outcome::Refused { busy: false }
}

impl ReferenceStateMachine for Model {
    type State = Self;
    type Transition = Move;

    fn init_state() -> BoxedStrategy<Self> {
        let session = |caps| Node {
            parent: None,
            caps,
            reserve: Amount::default(),
            reserve_time: Millis(0),
            opened: Millis(0),
            open: true,
            spent: Amount::default(),
        };
        // The host keeps the session's own time.
        caps(60..400)
            .prop_map(move |caps| Self {
                nodes: vec![session(Caps { time: None, ..caps })],
                leases: Vec::new(),
                now: Millis(0),
                last: Outcome::Done,
            })
            .boxed()
    }

    fn transitions(model: &Self) -> BoxedStrategy<Move> {
        let nodes = 0..model.nodes.len();
        let open: Vec<usize> = nodes.filter(|node| model.nodes[*node].open).collect();
        let node = || prop::sample::select(open.clone());
        let mut moves = vec![
            (3, (node(), terms()).prop_map(|(parent, terms)| Move::Open { parent, terms }).boxed()),
            (
                1,
                (node(), amount(20))
                    .prop_map(|(node, reserve)| Move::Hold { node, reserve })
                    .boxed(),
            ),
            (
                6,
                (node(), ask(), amount(15))
                    .prop_map(|(node, ask, reserve)| Move::Explore { node, ask, reserve })
                    .boxed(),
            ),
            (3, (node(), ask()).prop_map(|(node, ask)| Move::Answer { node, ask }).boxed()),
            (1, (1..60_u64).prop_map(|by| Move::Advance { by }).boxed()),
        ];
        let below: Vec<usize> = open.iter().copied().filter(|node| *node > 0).collect();
        if !below.is_empty() {
            let below = prop::sample::select(below);
            moves.push((1, below.prop_map(|node| Move::Close { node }).boxed()));
        }
        let taken: Vec<(usize, Amount)> = model
            .leases
            .iter()
            .enumerate()
            .filter(|(_, lease)| lease.open)
            .map(|(n, lease)| (n, lease.amount))
            .collect();
        if !taken.is_empty() {
            let lease = prop::sample::select(taken);
            let part = (lease, 0..=100_u64).prop_map(|((lease, amount), percent)| {
                let of = |whole: u64| whole * percent / 100;
                (lease, Amount { money: NanoUsd(of(amount.money.0)), tokens: of(amount.tokens) })
            });
            moves
                .push((6, part.prop_map(|(lease, actual)| Move::Settle { lease, actual }).boxed()));
        }
        Union::new_weighted(moves).boxed()
    }

    fn apply(mut model: Self, step: &Move) -> Self {
        model.last = model.carry_out(step);
        model
    }

    /// Returns true if the step still makes sense in a sequence that was shrunk.
    fn preconditions(model: &Self, step: &Move) -> bool {
        let open = |node: &usize| model.nodes.get(*node).is_some_and(|node| node.open);
        match step {
            Move::Open { parent: node, .. }
            | Move::Hold { node, .. }
            | Move::Explore { node, .. }
            | Move::Answer { node, .. }
            | Move::Close { node } => open(node),
            Move::Settle { lease, actual } => {
                *lease < model.leases.len() && model.is_settled_within(*lease, *actual)
            }
            Move::Advance { .. } => true,
        }
    }
}

fn amount(most: u64) -> impl Strategy<Value = Amount> {
    (0..=most, 0..=most).prop_map(|(nano, tokens)| Amount { money: NanoUsd(nano), tokens })
}

fn caps(range: std::ops::Range<u64>) -> impl Strategy<Value = Caps> {
    let cap = || prop::option::weighted(0.7, range.clone());
    (cap(), cap(), prop::option::weighted(0.3, 1..300_u64)).prop_map(|(money, tokens, time)| Caps {
        money: money.map(NanoUsd),
        tokens,
        time: time.map(Millis),
    })
}

fn terms() -> impl Strategy<Value = AccountTerms> {
    (caps(5..200), amount(20), 0..40_u64).prop_map(|(caps, reserve, reserve_time)| AccountTerms {
        caps,
        reserve,
        reserve_time: Millis(reserve_time),
    })
}

fn ask() -> impl Strategy<Value = LeaseRequest> {
    (amount(15), 0..3000_u64, 0..30_u64, 0..30_u64, 0..10_u64).prop_map(
        |(base, output_pico, most, enough, least)| {
            let most = most.max(least);
            LeaseRequest { base, output_pico, most, enough: enough.clamp(least, most), least }
        },
    )
}
