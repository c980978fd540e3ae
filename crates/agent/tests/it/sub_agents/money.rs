//! Money in a tree of runs, under all caps and prices: it is never overspent, and it is used if it
//! suffices for more than a few requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use softland_agent::core::NanoUsd;
use softland_agent::core::models::{self, Price};
use softland_agent::core::policy::OnLoop;
use softland_agent::{Agent, Event, Report, SubAgent, SubAgents};

use super::{checked, of, playing, spent};
use crate::common::{SimTransport, run};

/// A tree of agents that go on until they are told to answer, under a cap.
#[derive(Clone, Debug)]
struct Case {
    /// Pico-dollars for an input and an output token.
    prices: (u64, u64),
    reserve_tokens: u64,
    /// The cap, in requests at their worst as the tree begins.
    requests: u64,
    /// True for the session's cap, false for the first run's.
    session: bool,
    /// The number of members that explore, and whether one member calls them in turn.
    members: usize,
    nested: bool,
    /// A cap for each member, in percent of the whole.
    own: Option<u64>,
    /// Output tokens of a request.
    max_tokens: u64,
}

/// Responses of the simulator have few tokens, so a cap of many worst-case requests takes very many
/// of them. Where input is expensive, caps allow only a few.
fn case() -> impl Strategy<Value = Case> {
    let dear_output =
        (Just(2_000), 1000..8000_u64, prop::sample::select(vec![64, 128]), 12..60_u64);
    let dear_input = (Just(2_000_000), 2..6_u64, prop::sample::select(vec![64, 1024]), 1..8_u64);
    let priced = prop_oneof![3 => dear_output, 1 => dear_input];
    let own = prop::option::weighted(0.3, 5..80_u64);
    let max_tokens = prop::sample::select(vec![1000, 16_000]);
    (priced, any::<bool>(), 1..5_usize, any::<bool>(), own, max_tokens).prop_map(
        |((input, times, reserve_tokens, requests), session, members, nested, own, max_tokens)| {
            let prices = (input, input * times);
            Case { prices, reserve_tokens, requests, session, members, nested, own, max_tokens }
        },
    )
}

impl Case {
    fn price(&self) -> Price {
        let (input, output) = self.prices;
        let (cache_read, cache_write_5m) = (input / 10, input + input / 4);
        Price { input, output, cache_read, cache_write_5m, ..models::all_models()[0].price }
    }

    /// Returns the worst-case cost of a request of `bytes` bytes, with the least useful output.
    fn worst(&self, bytes: u64) -> u64 {
        let input = bytes * self.price().highest_input(false);
        (input + self.reserve_tokens * self.prices.1).div_ceil(1000)
    }

    fn cap(&self) -> u64 {
        self.requests * self.worst(3000)
    }

    fn dressed(&self, mut agent: Agent) -> Agent {
        agent.options.price = Some(self.price());
        agent.options.max_tokens = Some(self.max_tokens);
        agent.policy.reserve_tokens = self.reserve_tokens;
        agent.policy.on_loop = OnLoop::Observe;
        agent
    }

    fn tree(&self) -> (Agent, Vec<Arc<SimTransport>>) {
        let mut transports = Vec::new();
        let mut member = |name: String, scenario: &str| {
            let (agent, transport) = playing(&name, scenario);
            transports.push(transport);
            let mut agent = self.dressed(agent);
            agent.policy.cost_limit_usd =
                self.own.map(|percent| NanoUsd(self.cap() * percent / 100));
            of(agent)
        };
        let mut members: Vec<SubAgent> =
            (0..self.members).map(|n| member(format!("sweeper{n}"), "sweeper")).collect();
        if self.nested {
            let nest = member("nest".to_owned(), "delegate:2");
            members.push(SubAgent { delegates: true, ..nest });
        }
        let (parent, transport) = playing("parent", "delegate:always");
        transports.push(transport);
        let mut parent = self.dressed(parent);
        parent.sub_agents = SubAgents::new(members, 2).ok();
        let cap = Some(NanoUsd(self.cap()));
        match self.session {
            true => parent.policy.session_cost_limit_usd = cap,
            false => parent.policy.cost_limit_usd = cap,
        }
        (parent, transports)
    }

    fn run(&self) -> (Report, Vec<Event>, u64) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (parent, transports) = self.tree();
        let (report, events) = runtime.block_on(run(&parent, "Look everywhere."));
        let bodies = transports.iter().map(|transport| {
            let bodies = transport.bodies.lock().unwrap();
            bodies.iter().map(Vec::len).max().unwrap_or(0)
        });
        (report, events, bodies.max().unwrap_or(0) as u64)
    }
}

#[test]
fn a_tree_never_overspends_and_uses_what_it_may() {
    let (enough, parallel) = (AtomicU64::new(0), AtomicU64::new(0));
    let config = ProptestConfig { cases: 16, failure_persistence: None, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let ran = runner.run(&case(), |case| {
        let (report, events, longest) = case.run();
        let ended = checked(&events);
        let (spent, cap) = (spent(&events), case.cap());
        prop_assert!(spent <= cap, "{spent} of {cap} spent");
        prop_assert!(report.answer.is_some(), "{:?}", report.ended);
        parallel.fetch_add(u64::from(ended.len() > 3), Ordering::Relaxed);
        if cap >= 20 * case.worst(longest) {
            enough.fetch_add(1, Ordering::Relaxed);
            prop_assert!(spent * 10 >= cap * 9, "{spent} of {cap} used");
        }
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
    let (enough, parallel) = (enough.into_inner(), parallel.into_inner());
    assert!(enough >= 2 && parallel >= 2, "{enough} caps were large enough, {parallel} trees wide");
}
