//! What single steps promise: sizes, cancellation, refusals, and results that come side by side.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use softland_agent::core::{Millis, Outcome, Reason};
use softland_agent::durable::{
    DurableRun, EngineError, PreparedRun, RESULT_LIMIT, RunEnd, RunSource, run_with_engine,
};
use softland_agent::testing::{ScriptedModel, ScriptedReply};
use softland_agent::{
    Agent, Event, EventKind, Report, SubAgent, SubAgents, Tool, ToolContext, ToolDef, ToolOutput,
};
use softland_sim::{Part, Turn};
use tokio_util::sync::CancellationToken;

use crate::common::{SimTransport, agent};
use crate::durable::mock::{Attempt, MockEngine, When, durable};

fn answered() -> RunEnd {
    RunEnd::Ended { outcome: Outcome::Answered, reason: Reason::Final }
}

fn cancelled() -> RunEnd {
    RunEnd::Ended { outcome: Outcome::Cancelled, reason: Reason::User }
}

/// A tool that is not repeatable. It waits for `secs` seconds, and returns `bytes` bytes.
struct Once {
    ran: Arc<AtomicU64>,
}

#[async_trait]
impl Tool for Once {
    fn def(&self) -> ToolDef {
        ToolDef {
            name: "once".to_owned(),
            description: "does as it is told".to_owned(),
            input_schema: json!({"type": "object", "properties": {}}),
            reads: false,
            repeatable: false,
        }
    }

    async fn call(&self, input: Value, _: &ToolContext) -> ToolOutput {
        self.ran.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(input["secs"].as_u64().unwrap_or(0))).await;
        let bytes = input["bytes"].as_u64().unwrap_or(4);
        ToolOutput::ok("line\n".repeat(usize::try_from(bytes / 5 + 1).unwrap()))
    }

    fn output_cap(&self) -> Option<usize> {
        Some(usize::MAX)
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(100_000))
    }
}

fn once(inputs: &[Value]) -> (Agent, Arc<AtomicU64>) {
    let calls = inputs.iter().map(|input| Part::tool_call("once", input.to_string())).collect();
    let transport =
        SimTransport::scripted(vec![Turn::from_parts(calls), Turn::from_text("It is done.")]);
    let mut under_test = agent(&transport, "anthropic/claude-sonnet-5-5");
    let ran = Arc::<AtomicU64>::default();
    under_test.tools.add_tool(Arc::new(Once { ran: Arc::clone(&ran) })).unwrap();
    (under_test, ran)
}

fn ended(events: &[Event]) -> Report {
    match &events.last().unwrap().kind {
        EventKind::Done { report } | EventKind::Error { report, .. } => report.as_ref().clone(),
        other => panic!("no end: {other:?}"),
    }
}

fn results(events: &[Event]) -> Vec<(bool, String)> {
    let result = |event: &Event| match &event.kind {
        EventKind::ToolResult { ok, content, .. } => Some((*ok, content.clone())),
        _ => None,
    };
    events.iter().filter_map(result).collect()
}

#[tokio::test(start_paused = true)]
async fn e04_a_large_result_is_kept_in_small_steps_and_one_too_large_is_a_named_error() {
    let (large, too_large) = (20 << 20, 40 << 20);
    let (agent, ran) = once(&[json!({"bytes": large}), json!({"bytes": too_large})]);
    let engine = MockEngine::default();
    let (end, _) = engine.run(&durable(agent, "Go.")).await;
    assert!(matches!(end, RunEnd::Ended { .. }), "{end:?}");
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    let results = results(&engine.events());
    assert!(results[0].0 && results[0].1.len() >= large, "{}", results[0].1.len());
    assert!(!results[1].0, "40 MB are an error");
    assert!(results[1].1.contains("result too large"), "{}", results[1].1);
    assert!(results[1].1.contains(&RESULT_LIMIT.to_string()), "{}", results[1].1);
    assert!(engine.sizes().iter().all(|bytes| *bytes < 9 << 20), "{:?}", engine.sizes());
}

#[tokio::test(start_paused = true)]
async fn e04_a_result_of_which_only_a_part_was_kept_counts_as_lost() {
    let (agent, ran) = once(&[json!({"bytes": 20 << 20})]);
    let engine = MockEngine::with_crashes([(4, When::Recorded)]);
    let (end, attempts) = engine.run(&durable(agent, "Go.")).await;
    assert_eq!((end, attempts, ran.load(Ordering::SeqCst)), (answered(), 2, 1));
    let results = results(&engine.events());
    assert!(results[0].1.contains("interrupted"), "{}", results[0].1);
}

#[tokio::test(start_paused = true)]
async fn e05_a_result_is_kept_as_soon_as_it_is_there() {
    let (agent, ran) = once(&[json!({"secs": 0}), json!({"secs": 1000})]);
    let whole = MockEngine::default();
    whole.run(&durable(agent, "Go.")).await;
    assert!(results(&whole.events()).iter().all(|(ok, _)| *ok));
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    // The process dies while the second call runs.
    let (agent, ran) = once(&[json!({"secs": 0}), json!({"secs": 1000})]);
    let second = whole.step_with(r#""kind":"result""#) + 1;
    let engine = MockEngine::with_crashes([(second, When::During(1))]);
    engine.run(&durable(agent, "Go.")).await;
    let results = results(&engine.events());
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    assert!(results[0].0, "the first result was there: {results:?}");
    assert!(results[1].1.contains("interrupted"), "the second call was running: {results:?}");
}

#[tokio::test(start_paused = true)]
async fn e06_cancelling_reaches_a_step_that_is_being_made_and_the_whole_tree() {
    let (worker, ran) = once(&[json!({"secs": 5000})]);
    let worker = SubAgent {
        agent: Agent { name: "worker".to_owned(), ..worker },
        description: "works".to_owned(),
        inherits: false,
        delegates: false,
        depth_limit: None,
    };
    let lead = ScriptedModel::new([ScriptedReply::from_call(
        "agent",
        json!({"name": "worker", "prompt": "Work."}),
    )]);
    let mut lead = Agent::new("lead", "test/script", Arc::new(lead));
    lead.sub_agents = Some(SubAgents::new(vec![worker], 1).unwrap());
    let run = durable(lead, "Go.");
    let (engine, cancel) = (MockEngine::default(), run.cancel.clone());
    let stop = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(ran.load(Ordering::SeqCst), 1, "the tool is at work");
        cancel.cancel();
    };
    let began = tokio::time::Instant::now();
    let ((end, _), ()) = tokio::join!(engine.run(&run), stop);
    assert_eq!(end, cancelled());
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
    let events = engine.events();
    assert_eq!(ended(&events).ended.outcome, Outcome::Cancelled);
    let terminal: Vec<&str> =
        events.iter().filter(|e| e.kind.is_terminal()).map(|e| e.run.as_str()).collect();
    assert_eq!(terminal, ["run-1.1", "run-1"], "each run of the tree has one end");
    assert_eq!(ended(&events).resume, None, "nobody can resume it by hand");
}

/// A tool that goes on, whoever cancels it, until it is let go.
struct Stubborn {
    is_at_work: Arc<AtomicBool>,
    let_go: Arc<AtomicBool>,
}

#[async_trait]
impl Tool for Stubborn {
    fn def(&self) -> ToolDef {
        ToolDef {
            name: "stubborn".to_owned(),
            description: "goes on".to_owned(),
            input_schema: json!({"type": "object", "properties": {}}),
            reads: false,
            repeatable: false,
        }
    }

    async fn call(&self, _: Value, _: &ToolContext) -> ToolOutput {
        let (is_at_work, let_go) = (Arc::clone(&self.is_at_work), Arc::clone(&self.let_go));
        let work = move || {
            is_at_work.store(true, Ordering::SeqCst);
            while !let_go.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        tokio::task::spawn_blocking(work).await.unwrap();
        ToolOutput::ok("it is done")
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(3600))
    }
}

#[tokio::test]
async fn e06_a_cancelled_run_does_not_wait_for_a_tool_that_goes_on() {
    let (is_at_work, let_go) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let model = ScriptedModel::new([ScriptedReply::from_call("stubborn", json!({}))]);
    let mut agent = Agent::new("lead", "test/script", Arc::new(model));
    let tool = Stubborn { is_at_work: Arc::clone(&is_at_work), let_go: Arc::clone(&let_go) };
    agent.tools.add_tool(Arc::new(tool)).unwrap();
    let (run, engine) = (durable(agent, "Go."), MockEngine::default());
    let cancel = async {
        while !is_at_work.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        run.cancel.cancel();
    };
    let ends = async { tokio::join!(engine.run(&run), cancel) };
    let ended_in_time = tokio::time::timeout(Duration::from_secs(30), ends).await;
    let_go.store(true, Ordering::SeqCst);
    assert_eq!(ended_in_time.map(|((end, _), ())| end), Ok(cancelled()));
    assert_eq!(ended(&engine.events()).ended.outcome, Outcome::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn e07_a_deadline_reaches_a_step_that_is_being_made() {
    let (mut agent, ran) = once(&[json!({"secs": 5000})]);
    agent.policy.time_limit = Some(Millis::from_secs(300));
    let engine = MockEngine::default();
    let began = tokio::time::Instant::now();
    engine.run(&durable(agent, "Go.")).await;
    assert!(began.elapsed() <= Duration::from_secs(300), "{:?}", began.elapsed());
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(ended(&engine.events()).ended.outcome, Outcome::Landed);
}

#[tokio::test(start_paused = true)]
async fn e08_a_long_step_is_one_step() {
    let (agent, ran) = once(&[json!({"secs": 900})]);
    let engine = MockEngine::default();
    let (_, attempts) = engine.run(&durable(agent, "Go.")).await;
    assert_eq!((attempts, ran.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(ended(&engine.events()).ended.outcome, Outcome::Answered);
}

/// A source that has no agent.
struct Nothing;

#[async_trait]
impl RunSource for Nothing {
    async fn prepare_run(&self) -> Result<PreparedRun, String> {
        Err("there is no agent `ghost`".to_owned())
    }
}

#[tokio::test(start_paused = true)]
async fn e09_a_run_that_cannot_begin_is_refused_and_one_that_has_begun_waits() {
    let nothing = || DurableRun {
        run: "run-1".to_owned(),
        source: Arc::new(Nothing),
        cancel: CancellationToken::new(),
        leave: CancellationToken::new(),
    };
    let engine = MockEngine::default();
    let end = run_with_engine(&engine, nothing()).await;
    assert_eq!(end, Ok(RunEnd::Refused("there is no agent `ghost`".to_owned())));
    assert_eq!(run_with_engine(&engine, nothing()).await, end, "and it stays refused");
    let [told] = &engine.events()[..] else { panic!("{:?}", engine.events()) };
    let EventKind::Error { message, report } = &told.kind else { panic!("{told:?}") };
    assert_eq!((told.run.as_str(), told.seq), ("run-1", 0));
    assert_eq!((report.ended.outcome, &report.ended.reason), (Outcome::Failed, &Reason::Setup));
    assert_eq!(message, "there is no agent `ghost`");
    // Another process had begun the run.
    let (agent, _) = once(&[json!({})]);
    let engine = MockEngine::with_crashes([(2, When::Recorded)]);
    let run = durable(agent, "Go.");
    assert_eq!(
        run_with_engine(&engine, run.clone()).await,
        Err(EngineError::Engine(Attempt::Crashed))
    );
    let here = run_with_engine(&engine, nothing()).await;
    assert!(matches!(here, Err(EngineError::Engine(Attempt::Failed(_)))), "{here:?}");
    assert_eq!(engine.run(&run).await.0, answered(), "a process that has the agent goes on");
}

#[tokio::test(start_paused = true)]
async fn e10_a_request_that_was_under_way_is_booked_whole_and_so_is_its_repetition() {
    let cost = async |crashes: Vec<(u64, When)>| {
        let (agent, _) = once(&[json!({})]);
        let engine = MockEngine::with_crashes(crashes);
        engine.run(&durable(agent, "Go.")).await;
        let lost = engine.texts().concat().matches(r#""kind":"request""#).count();
        (ended(&engine.events()).cost_usd.unwrap(), lost)
    };
    let (whole, requests) = cost(vec![]).await;
    let (once, once_more) = cost(vec![(1, When::During(1))]).await;
    let (twice, twice_more) = cost(vec![(1, When::During(1)), (2, When::During(1))]).await;
    assert_eq!((once_more, twice_more), (requests + 1, requests + 2));
    // The worst case of a request is its whole output.
    let output = 16_000.0 * 10.0 / 1e6;
    assert!(once - whole >= output, "{whole} {once}");
    assert!(twice - once >= output, "{once} {twice}");
}

#[tokio::test(start_paused = true)]
async fn e12_a_process_that_leaves_ends_what_is_under_way_and_begins_nothing() {
    let turn = |secs: u64| {
        Turn::from_parts(vec![Part::tool_call("once", json!({"secs": secs}).to_string())])
    };
    let run = async |leaves_after: Option<u64>| {
        let script = vec![turn(100), turn(200), Turn::from_text("It is done.")];
        let transport = SimTransport::scripted(script);
        let mut under_test = agent(&transport, "anthropic/claude-sonnet-5-5");
        let ran = Arc::<AtomicU64>::default();
        under_test.tools.add_tool(Arc::new(Once { ran: Arc::clone(&ran) })).unwrap();
        let engine = MockEngine::default();
        let mut attempts = 1;
        if let Some(secs) = leaves_after {
            let first = durable(under_test.clone(), "Go.");
            let leave = async {
                tokio::time::sleep(Duration::from_secs(secs)).await;
                first.leave.cancel();
            };
            let began = tokio::time::Instant::now();
            let (left, ()) = tokio::join!(run_with_engine(&engine, first.clone()), leave);
            assert!(matches!(left, Err(EngineError::Engine(Attempt::Failed(_)))), "{left:?}");
            assert!(began.elapsed() >= Duration::from_secs(100), "the call came to its end");
            assert!(began.elapsed() < Duration::from_secs(101), "and the next one did not begin");
            let again = run_with_engine(&engine, first).await;
            assert!(matches!(again, Err(EngineError::Engine(Attempt::Failed(_)))), "{again:?}");
            attempts += 1;
        }
        let (end, more) = engine.run(&durable(under_test, "Go.")).await;
        assert_eq!((end, more), (answered(), 1));
        let events = engine.events();
        let all_went_well = results(&events).iter().all(|(ok, _)| *ok);
        assert!(all_went_well, "nothing was interrupted: {:?}", results(&events));
        assert_eq!(ran.load(Ordering::SeqCst), 2, "each call was run once");
        (ended(&events).cost_usd.unwrap(), transport.requests().len(), attempts)
    };
    let (whole, requests, _) = run(None).await;
    assert_eq!(run(Some(60)).await, (whole, requests, 2), "no request was booked twice");
}
