//! Included by tests: whatever is asked and stored, a state answers what the state in memory answers.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use softland_govern::recall::RecallQuery;
use softland_govern::shared::Closing;
use softland_govern::store::{Namesake, RunState, StoreChanges};
use softland_govern::{LocalState, SharedState};
use softland_session::SeenResult;
use softland_session::core::policy::Policy;
use softland_session::core::{Digest, NanoUsd, PinnedRecord};

/// A sequence of numbers that looks random and is always the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn is_one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    /// One of a few digests of a kind, so that they meet.
    fn digest(&mut self, kind: &str, most: u64) -> Digest {
        Digest::from_bytes(format!("{kind}{}", self.roll(most)).as_bytes())
    }

    fn digests(&mut self, kind: &str, most: u64) -> Vec<Digest> {
        (0..self.roll(4)).map(|_| self.digest(kind, most)).collect()
    }

    fn state(&mut self) -> RunState {
        RunState {
            id: format!("run {}", self.roll(6)).into(),
            key: self.digest("key", 6),
            tokens: self.roll(1000),
            cost: NanoUsd(self.roll(1 << 55)),
            last: self.roll(100),
            ..RunState::default()
        }
    }

    fn face(&mut self, scope: &str) -> Namesake {
        Namesake {
            scope: scope.into(),
            root: format!("scope {}", self.roll(3)).into(),
            tools: self.digest("tools", 2),
            system: self.digest("system", 2),
            opening: self.digest("here", 6),
            asked: self.is_one_in(2).then(|| self.digest("asked", 3)),
            answered: !self.is_one_in(3),
            last: self.roll(100),
        }
    }

    fn pin(&mut self) -> (Digest, Box<PinnedRecord>) {
        let looked = self.is_one_in(2).then(|| self.roll(4));
        let pin = PinnedRecord {
            looked,
            compactions: self.roll(2),
            went_on: self.digests("went", 5).into_iter().collect(),
            behind_landing: None,
            ..PinnedRecord::new(Policy::default())
        };
        (self.digest("key", 6), Box::new(pin))
    }

    fn changes(&mut self, scope: &str) -> StoreChanges {
        let seen = |n| SeenResult {
            digest: Digest::EMPTY,
            chars: n,
            failed: false,
            sent_back: false,
            unfinished: false,
        };
        let run = (!self.is_one_in(4)).then(|| (self.digest("run", 4), self.state()));
        StoreChanges {
            pins: (0..self.roll(3)).map(|_| self.pin()).collect(),
            results: (0..self.roll(3))
                .map(|_| (self.digest("place", 9), seen(self.roll(50))))
                .collect(),
            run,
            child_tokens: self.is_one_in(4).then(|| (self.digest("run", 4), self.roll(50))),
            asked: self.digests("asked", 5),
            named: self.is_one_in(2).then(|| (self.digests("name", 3), self.face(scope))),
            clues: self.digests("clue", 12),
            past_clues: self
                .is_one_in(3)
                .then(|| (self.digest("run", 4), self.state().into(), self.digests("clue", 12))),
            untaken: self.is_one_in(4).then(|| self.digest("here", 6)),
            ..StoreChanges::default()
        }
    }

    fn query(&mut self, fork: &str) -> RecallQuery {
        let here = self.digest("here", 6);
        RecallQuery {
            here,
            question: here,
            now: 50,
            metered: self.is_one_in(8),
            fork: fork.into(),
            parents: self.digests("name", 3),
            turns: self.digests("clue", 12),
            calls: self.digests("clue", 12).into_iter().map(|clue| (clue, 1)).collect(),
            unshown: self.digests("clue", 40),
            sealed: self.digests("clue", 40),
            summaries: self.digests("clue", 40),
            told: self.digests("clue", 40),
            passages: self.digests("clue", 40),
            heads: (0..12).map(|n| Digest::from_bytes(format!("clue{n}").as_bytes())).collect(),
            name: self.digest("name", 3),
            is_named: self.is_one_in(2),
            is_client: self.is_one_in(2),
            is_run: self.is_one_in(2),
            shared: self.digests("name", 3),
            tools: self.digest("tools", 2),
            system: self.digest("system", 2),
            opens_in_summary: self.is_one_in(3),
            ends_in_summary: self.is_one_in(6),
            openings: self.digests("here", 6),
            asked: (0..self.roll(3)).map(|n| (n as usize, self.digest("asked", 3))).collect(),
            ..RecallQuery::default()
        }
    }
}

/// Compares the states that `make` gives, each empty, with states in memory.
pub(crate) async fn check_alike<S: SharedState>(make: impl Fn() -> S) {
    for seed in 1..=6 {
        let (state, memory) = (make(), LocalState::default());
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let mut found = 0;
        for step in 0..80 {
            if dice.is_one_in(2) {
                let scope = format!("scope {}", dice.roll(5));
                let changes = dice.changes(&scope);
                for state in [&state as &dyn SharedState, &memory] {
                    let (scope, changes) = (scope.as_str().into(), changes.clone());
                    let closing = Closing { scope, changes, ..Closing::default() };
                    state.close(closing).await.expect("it answers");
                }
            } else {
                let query = dice.query(&format!("fork {step}"));
                let expected = memory.recall(query.clone()).await.expect("it answers");
                let got = state.recall(query.clone()).await.expect("it answers");
                assert_eq!(got, expected, "seed {seed}, step {step}: {query:?}");
                found += usize::from(got.found.is_some());
            }
        }
        assert!(found > 5, "seed {seed} finds something: {found}");
    }
}
