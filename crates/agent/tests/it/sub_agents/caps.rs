//! How many sub-agents a cap lets run: never fewer of them where it is larger, and a refusal says
//! what is spent and what is held.

use proptest::prelude::*;
use softland_agent::core::NanoUsd;
use softland_agent::core::policy::OnLoop;
use softland_agent::{Agent, Crew, Member};

use super::{checked, handed_back, of, playing};
use crate::common::run;

/// A tree of agents that want no more than a few requests each, under caps that grow.
#[derive(Clone, Debug)]
struct Case {
    /// Whether the cap is on tokens, else on money.
    tokens: bool,
    /// The caps, ascending, in tokens, or in units of 10 micro-dollars.
    caps: Vec<u64>,
    reserve_tokens: u64,
    max_tokens: u64,
    /// Members, called side by side, and how often all of them one after another.
    members: usize,
    rounds: u64,
    /// Calls run one by one.
    in_order: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let caps = prop::collection::btree_set(500..60_000_u64, 6..10);
    let reserve = prop::sample::select(vec![64, 1024, 4096]);
    let most = prop::sample::select(vec![1000, 16_000]);
    (any::<bool>(), caps, reserve, most, 1..6_usize, 1..4_u64, any::<bool>()).prop_map(
        |(tokens, caps, reserve_tokens, max_tokens, members, rounds, in_order)| {
            let caps = caps.into_iter().collect();
            Case { tokens, caps, reserve_tokens, max_tokens, members, rounds, in_order }
        },
    )
}

impl Case {
    fn dressed(&self, mut agent: Agent) -> Agent {
        agent.options.max_tokens = Some(self.max_tokens);
        agent.policy.reserve_tokens = self.reserve_tokens;
        agent.policy.on_loop = OnLoop::Observe;
        agent
    }

    fn tree(&self, cap: u64) -> Agent {
        // Whoever comes first may use more of a larger cap, and leaves less: where one comes after
        // the other, all of them answer at once.
        let at_once = self.in_order || self.rounds > 1;
        let scenario = if at_once { "delegate" } else { "sweeper" };
        let member = |n: usize| {
            let mut agent = self.dressed(playing(&format!("member{n}"), scenario).0);
            agent.policy.tool_calls_limit = Some(2);
            of(agent)
        };
        let members: Vec<Member> = (0..self.members).map(member).collect();
        let mut parent = self.dressed(playing("parent", &format!("delegate:{}", self.rounds)).0);
        parent.crew = Crew::new(members, 1).ok();
        parent.policy.result_chars_limit = self.in_order.then_some(1_000_000);
        match self.tokens {
            true => parent.policy.tokens_limit = Some(cap),
            false => parent.policy.cost_limit_usd = Some(NanoUsd(cap * 10_000)),
        }
        parent
    }

    /// How many sub-agents handed something back.
    fn ran(&self, cap: u64) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (_, events) = runtime.block_on(run(&self.tree(cap), "Look everywhere."));
        checked(&events);
        handed_back(&events).iter().filter(|(ok, _)| *ok).count()
    }
}

#[test]
fn a_larger_cap_never_lets_fewer_of_them_run() {
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let ran = runner.run(&case(), |case| {
        let ran: Vec<usize> = case.caps.iter().map(|cap| case.ran(*cap)).collect();
        prop_assert!(ran.is_sorted(), "{ran:?} ran under {:?}", case.caps);
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
}

/// Two side by side, at the caps of which the middle ones once refused both.
#[test]
fn two_side_by_side_run_under_every_cap_that_is_enough_for_their_answers() {
    for tokens in [true, false] {
        for cap in [9_000, 11_000, 12_000, 13_000, 14_000, 16_000, 20_000, 40_000] {
            let (rounds, in_order, caps) = (1, false, Vec::new());
            let (reserve_tokens, max_tokens, members) = (4096, 16_000, 2);
            let case = Case { tokens, caps, reserve_tokens, max_tokens, members, rounds, in_order };
            let cap = if tokens { cap } else { cap + 5_000 };
            assert_eq!(case.ran(cap), 2, "{cap}");
        }
    }
}

/// Calls of one turn that run in order, at the caps of which larger ones once let fewer run: each
/// of them held back as much as all of them should together.
#[test]
fn calls_one_after_another_share_what_is_held_back() {
    let (tokens, rounds, in_order, caps) = (true, 3, true, Vec::new());
    let (reserve_tokens, max_tokens, members) = (1024, 1000, 5);
    let case = Case { tokens, caps, reserve_tokens, max_tokens, members, rounds, in_order };
    let ran: Vec<usize> = (3_000..9_000).step_by(100).map(|cap| case.ran(cap)).collect();
    assert!(ran.is_sorted(), "{ran:?}");
    assert_eq!(ran.last(), Some(&15), "all of three turns");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_tells_what_is_used_and_what_is_held() {
    let (rounds, in_order, caps) = (1, false, Vec::new());
    let (reserve_tokens, max_tokens, members) = (64, 1000, 5);
    let case = Case { tokens: true, caps, reserve_tokens, max_tokens, members, rounds, in_order };
    let (_, events) = run(&case.tree(800), "Look everywhere.").await;
    let back = handed_back(&events);
    let (_, refused) = back.iter().find(|(ok, _)| !ok).unwrap();
    assert!(refused.contains("too little is left for its answer ("), "{refused}");
    assert!(refused.contains(" of 800 tokens used, "), "{refused}");
    assert!(refused.contains(" held back for answers and requests of others)"), "{refused}");
}
