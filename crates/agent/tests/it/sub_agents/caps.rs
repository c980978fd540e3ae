//! The number of sub-agents that run under a cap: a larger cap never lets fewer of them run, and a
//! refusal says how much is spent and how much is held.

use proptest::prelude::*;
use softland_agent::core::NanoUsd;
use softland_agent::core::policy::OnLoop;
use softland_agent::{Agent, SubAgent, SubAgents};

use super::{checked, handed_back, of, playing};
use crate::common::run;

/// A tree of agents that want no more than a few requests each, under caps that grow.
#[derive(Clone, Debug)]
struct Case {
    /// True for a cap on tokens, false for a cap on money.
    tokens: bool,
    /// The caps, ascending, in tokens, or in units of 10 micro-dollars.
    caps: Vec<u64>,
    reserve_tokens: u64,
    max_tokens: u64,
    /// The number of members that are called side by side, and how often the group is called in
    /// turn.
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
        // The first sub-agent may use more of a larger cap and leave less for the others. If each
        // runs after the one before it, all of them answer at once.
        let at_once = self.in_order || self.rounds > 1;
        let scenario = if at_once { "delegate" } else { "sweeper" };
        let member = |n: usize| {
            let mut agent = self.dressed(playing(&format!("member{n}"), scenario).0);
            agent.policy.tool_calls_limit = Some(2);
            of(agent)
        };
        let members: Vec<SubAgent> = (0..self.members).map(member).collect();
        let mut parent = self.dressed(playing("parent", &format!("delegate:{}", self.rounds)).0);
        parent.sub_agents = SubAgents::new(members, 1).ok();
        parent.policy.result_chars_limit = self.in_order.then_some(1_000_000);
        match self.tokens {
            true => parent.policy.tokens_limit = Some(cap),
            false => parent.policy.cost_limit_usd = Some(NanoUsd(cap * 10_000)),
        }
        parent
    }

    /// Returns the number of sub-agents that handed something back.
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

/// Two sub-agents side by side. At the middle caps both were once refused.
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

/// Calls of one turn that run in order. Larger caps once let fewer of them run, because each call
/// held back as much as all of them together should.
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
