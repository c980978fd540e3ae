//! A round of tool calls: every call is answered once, whatever happens to it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use softland_agent::core::Millis;
use softland_agent::core::policy::{Batch, Landing, Policy};
use softland_agent::{
    Conversation, Event, EventKind, Inbox, Tool, ToolContext, ToolDef, ToolOutput,
};
use softland_sim::{Part, Turn};
use tokio::sync::{Barrier, watch};
use tokio_util::sync::CancellationToken;

use crate::behaviours::canned::{self, Canned, Reply};
use crate::behaviours::support::{
    Case, agent_on, all_answered, ask, batch, call, executed, grep, ids, last_line, messages_of,
    play, results_of,
};

/// A tool that never comes back, however long it is given.
struct Hangs {
    timeout: Duration,
    /// The number of its calls that were dropped.
    ended: Arc<AtomicU64>,
}

struct OnDrop(Arc<AtomicU64>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Tool for Hangs {
    fn def(&self) -> ToolDef {
        let input_schema = json!({"type": "object", "properties": {}});
        ToolDef {
            name: "hangs".into(),
            description: "hangs".into(),
            input_schema,
            reads: true,
            repeatable: true,
        }
    }

    async fn call(&self, _: Value, _: &ToolContext) -> ToolOutput {
        let _ended = OnDrop(Arc::clone(&self.ended));
        std::future::pending().await
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }
}

/// A task that was ended is let go of at the runtime's next turns.
async fn let_go(ended: &AtomicU64) -> bool {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    ended.load(Ordering::SeqCst) == 1
}

fn hangs(seconds: u64) -> Hangs {
    Hangs { timeout: Duration::from_secs(seconds), ended: Arc::default() }
}

#[tokio::test(start_paused = true)]
async fn b18_a_tool_over_its_time_is_an_error_and_the_loop_goes_on() {
    let turns = vec![
        Turn::from_parts(vec![Part::tool_call("hangs", "{}"), call(0)]),
        grep(1),
        Turn::from_text("Twelve."),
    ];
    let (mut agent, transport, ran) = Case::new(Policy::default(), turns).agent();
    agent.tools.add_tool(Arc::new(hangs(5))).unwrap();
    let (report, _) = crate::common::run(&agent, "What is it?").await;
    let results = results_of(&transport.requests()[1]["messages"][2]);
    assert_eq!(results, ["hangs timed out after 5 s; ask for less at once", "finding 0"]);
    assert_eq!(transport.requests()[1]["messages"][2]["content"][0]["is_error"], true);
    assert_eq!((report.answer.as_deref(), ran.load(Ordering::Relaxed)), (Some("Twelve."), 2));
}

#[tokio::test(start_paused = true)]
async fn b18_the_runs_time_ends_tools_and_streams_and_the_run_lands() {
    let policy = || {
        let (time_limit, reserve_time) = (Some(Millis::from_secs(100)), Millis::from_secs(30));
        Policy { time_limit, reserve_time, ..Policy::default() }
    };
    // A tool that would take an hour.
    let began = tokio::time::Instant::now();
    let turns = vec![
        Turn::from_parts(vec![Part::tool_call("hangs", "{}"), call(0)]),
        Turn::from_text("Twelve."),
    ];
    let (mut agent, transport, _) = Case::new(policy(), turns).agent();
    let tool = hangs(3600);
    let ended = Arc::clone(&tool.ended);
    agent.tools.add_tool(Arc::new(tool)).unwrap();
    let (report, _) = crate::common::run(&agent, "What is it?").await;
    assert!(began.elapsed() <= Duration::from_secs(100), "{:?}", began.elapsed());
    let results = results_of(&transport.requests()[1]["messages"][2]);
    assert!(results[0].starts_with("hangs"), "{results:?}");
    assert!(last_line(&results[1]).starts_with("Time limit reached ("), "{results:?}");
    assert_eq!(report.ended.reason.to_string(), "time");
    assert_eq!(
        (report.ended.outcome.word(), report.answer.as_deref()),
        ("landed", Some("Twelve."))
    );
    assert!(let_go(&ended).await, "the tool runs on");
    // A stream that stops in its middle: given up, and asked for the answer in what is left.
    let began = tokio::time::Instant::now();
    let half = canned::stream(&canned::events(&[canned::text("I am")], "end_turn")[..3]);
    let transport = Canned::new([
        canned::reply(&[canned::tool("t", "grep", &["{}"])], "tool_use"),
        Reply::Hangs(half),
        canned::reply(&[canned::text("Twelve.")], "end_turn"),
    ]);
    let (mut agent, _) = agent_on(transport.clone());
    agent.policy = policy();
    let (report, _) = crate::common::run(&agent, "What is it?").await;
    assert_eq!(began.elapsed().as_secs(), 70);
    let last = transport.requests().pop().unwrap();
    assert_eq!(last["tool_choice"]["type"], "none");
    assert!(
        last["messages"].to_string().contains("Time limit reached (1m10s of 1m40s). Answer now"),
        "{last}"
    );
    assert_eq!(
        (report.ended.outcome.word(), report.answer.as_deref()),
        ("landed", Some("Twelve."))
    );
}

#[tokio::test]
async fn b21_all_calls_run_and_one_message_holds_their_results_in_order() {
    /// A tool whose calls of one turn must run at once: each waits until all of its turn have
    /// begun, and then for the call behind it, so that they end in reverse.
    struct Slow {
        begun: [Barrier; 3],
        ended: watch::Sender<u64>,
    }
    #[async_trait]
    impl Tool for Slow {
        fn def(&self) -> ToolDef {
            let input_schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
            ToolDef {
                name: "slow".into(),
                description: "slow".into(),
                input_schema,
                reads: true,
                repeatable: true,
            }
        }
        async fn call(&self, input: Value, _: &ToolContext) -> ToolOutput {
            let n = input["n"].as_u64().unwrap();
            let turn = TURNS.iter().position(|turn| turn.contains(&n)).unwrap();
            let together = async {
                self.begun[turn].wait().await;
                if n + 1 < TURNS[turn].end {
                    self.ended.subscribe().wait_for(|ended| *ended == n + 1).await.unwrap();
                }
            };
            // One by one they would wait for ever.
            let waited = tokio::time::timeout(Duration::from_secs(30), together).await;
            waited.unwrap();
            self.ended.send_replace(n);
            ToolOutput::ok(format!("slow {n}"))
        }
    }
    const TURNS: [Range<u64>; 3] = [0..4, 4..6, 6..7];
    let slow = |n: u64| Part::tool_call("slow", format!(r#"{{"n":{n}}}"#));
    let turns = vec![
        Turn::from_parts((0..4).map(slow).collect()),
        Turn::from_parts(vec![Part::text("Two more."), slow(4), slow(5)]),
        Turn::from_parts(vec![slow(6)]),
        Turn::from_text("Twelve."),
    ];
    let (mut agent, transport, _) = Case::new(Policy::default(), turns).agent();
    let begun = TURNS.map(|turn| Barrier::new((turn.end - turn.start) as usize));
    let slow = Slow { begun, ended: watch::Sender::new(u64::MAX) };
    agent.tools.add_tool(Arc::new(slow)).unwrap();
    let (report, events) = crate::common::run(&agent, "What is it?").await;
    let requests = transport.requests();
    for (request, wanted) in [(1, 0..4), (2, 4..6), (3, 6..7)] {
        let messages = requests[request]["messages"].as_array().unwrap();
        let wanted: Vec<_> = wanted.map(|n| format!("slow {n}")).collect();
        assert_eq!(results_of(messages.last().unwrap()), wanted);
        assert_eq!(messages.len(), 1 + 2 * request);
        all_answered(messages);
    }
    assert_eq!(executed(&events).len(), 7);
    assert_eq!((report.turns, report.answer.as_deref()), (4, Some("Twelve.")));
}

#[tokio::test]
async fn b23_every_id_has_exactly_one_result_whatever_happens() {
    let part = |name: &str, input: &str| Part::tool_call(name, input);
    let mut turns = vec![
        Turn::from_parts(vec![
            call(0),
            part("fails", "{}"),
            part("panics", "{}"),
            part("hangs", "{}"),
        ]),
        Turn::from_parts(vec![
            part("unknown", "{}"),
            part("grep", r#"{"a":"#),
            part("grep", "[]"),
            call(1),
        ]),
        batch(10..19),
    ];
    turns.push(Turn { lawless: true, ..grep(5) });
    turns.push(Turn::from_text("Twelve."));
    for how in [Batch::First, Batch::All, Batch::None] {
        let policy = Policy { tool_calls_limit: Some(10), batch: how, ..Policy::default() };
        let (mut agent, transport, _) = Case::new(policy, turns.clone()).agent();
        for (name, panics) in [("fails", false), ("panics", true)] {
            let answer = Box::new(move |_, _: &Value| match panics {
                true => panic!("a tool that panics, as it should"),
                false => ToolOutput::error("no"),
            });
            let tool = crate::common::Counting { name, calls: Arc::default(), answer };
            agent.tools.add_tool(Arc::new(tool)).unwrap();
        }
        let timeout = Duration::from_millis(20);
        agent.tools.add_tool(Arc::new(Hangs { timeout, ended: Arc::default() })).unwrap();
        let mut conversation = Conversation::new();
        let (report, _) = ask(&agent, &mut conversation, "What is it?").await;
        assert!(report.ended.outcome.is_done());
        let messages = messages_of(&conversation);
        let results: usize = messages.iter().map(|m| results_of(m).len()).sum();
        assert_eq!(results, 18, "{how:?}");
        all_answered(&messages);
        for request in transport.requests() {
            all_answered(request["messages"].as_array().unwrap());
        }
        assert_eq!(transport.sim.refused_requests(), 0, "{:?}", transport.sim.stats().refusals);
    }
}

#[tokio::test]
async fn b24_an_unknown_tool_is_named_with_those_there_are_and_counts() {
    let policy = Policy { tool_calls_limit: Some(4), ..Policy::default() };
    let ran =
        play(policy, vec![Turn::from_call("gerp", "{}"), grep(0), Turn::from_text("Twelve.")])
            .await;
    assert_eq!(ran.results(1), ["unknown tool `gerp`; the tools are: grep, read_file"]);
    assert_eq!(ran.requests[1]["messages"][2]["content"][0]["is_error"], true);
    // The second call is the second of four.
    assert_eq!(ran.lines(2), ["2 tool calls remaining"]);
    assert_eq!((ran.report.tool_calls, ran.executed, ran.answer()), (2, 1, "Twelve."));
}

#[tokio::test]
async fn b25_a_call_without_an_id_gets_one_and_it_is_the_same_everywhere() {
    let nameless = |n: u64| canned::tool("", "grep", &[&format!(r#"{{"pattern":"{n}"}}"#)]);
    let transport = Canned::new([
        canned::reply(&[nameless(0), nameless(1)], "tool_use"),
        canned::reply(&[nameless(2)], "tool_use"),
        canned::reply(&[canned::text("So.")], "end_turn"),
    ]);
    let (agent, _) = agent_on(transport.clone());
    let (_, events) = crate::common::run(&agent, "What?").await;
    let last = transport.requests().pop().unwrap();
    let messages = last["messages"].as_array().unwrap();
    all_answered(messages);
    let mut all: Vec<_> = messages.iter().flat_map(|m| ids(m, "tool_use", "id")).collect();
    let told: Vec<_> = executed(&events).into_iter().map(|(id, _)| id).collect();
    assert_eq!(all, told, "another id in the events");
    let shown = events.iter().filter_map(|event| match &event.kind {
        EventKind::ToolStart { id, .. } => Some(id.clone()),
        _ => None,
    });
    assert_eq!(shown.collect::<Vec<_>>(), told);
    all.sort();
    all.dedup();
    assert!(all.len() == 3 && all.iter().all(|id| !id.is_empty()), "{all:?}");
}

#[tokio::test]
async fn b26_arguments_that_are_no_json_are_an_error_and_the_tool_is_not_run() {
    for input in [r#"{"pattern": "x"#, "nonsense", "[1]", "null", r#"{"a":1} {}"#] {
        let ran = play(
            Policy::default(),
            vec![Turn::from_call("grep", input), grep(0), Turn::from_text("So.")],
        )
        .await;
        let result = &ran.results(1)[0];
        assert!(result.starts_with("grep was not run: its arguments"), "{input}: {result}");
        assert_eq!(ran.requests[1]["messages"][2]["content"][0]["is_error"], true);
        assert_eq!((ran.executed, ran.answer()), (1, "So."), "{input}");
        let errors =
            ran.events.iter().filter(|e| matches!(e.kind, EventKind::ToolResult { ok: false, .. }));
        assert_eq!(errors.count(), 1);
        ran.nothing_refused();
    }
}

#[tokio::test]
async fn b27_what_is_said_in_mid_round_comes_after_the_results() {
    let turns = vec![batch(0..2), Turn::from_text("As you say: July.")];
    let (report, transport) = said_in_the_first_round(Policy::default(), turns).await;
    let second = &transport.requests()[1]["messages"];
    all_answered(second.as_array().unwrap());
    let results = results_of(&transport.requests()[1]["messages"][2]);
    assert_eq!((results.len(), results[0].as_str()), (2, "found"));
    // Not as a text of its own, which would end the turn without a word.
    assert_eq!(second[2]["content"].as_array().unwrap().len(), 2);
    assert_eq!(
        results[1],
        "found\n\nThe user said while this ran:\nOnly July, please.\n(This is all that the user said.)"
    );
    assert_eq!(transport.requests().len(), 2, "no nudge is needed");
    assert_eq!(report.answer.as_deref(), Some("As you say: July."));
}

#[tokio::test]
async fn b27_what_is_said_in_mid_round_ends_every_loop_of_that_round() {
    let turns = [batch(0..2), batch(0..2), batch(0..2), Turn::from_text("July.")];
    let (report, transport) = said_in_the_first_round(Policy::default(), turns.to_vec()).await;
    assert_eq!(report.answer.as_deref(), Some("July."));
    let whole = transport.requests().pop().unwrap().to_string();
    assert!(!whole.contains("The same call"), "twice since then: {whole}");
    // Without a word in between, it is a loop.
    let turns = [batch(0..2), batch(0..2), batch(0..2), batch(0..2), Turn::from_text("July.")];
    let (_, transport) = said_in_the_first_round(Policy::default(), turns.to_vec()).await;
    let whole = transport.requests().pop().unwrap().to_string();
    assert!(whole.contains("The same call"), "three times since then: {whole}");
}

#[tokio::test]
async fn b27_what_is_said_in_the_last_round_is_heard_by_the_landing() {
    let policy = Policy { tool_calls_limit: Some(2), ..Policy::default() };
    let turns = vec![batch(0..2), Turn::from_text("As you say: July.")];
    let (report, transport) = said_in_the_first_round(policy, turns).await;
    let ended = (report.ended.outcome.word(), report.ended.reason.to_string());
    assert_eq!(ended, ("landed", "tool_calls".into()));
    assert_eq!(report.answered_by, Some(softland_agent::AnsweredBy::Model));
    assert_eq!(report.answer.as_deref(), Some("As you say: July."));
    let results = results_of(&transport.requests()[1]["messages"][2]);
    assert!(results[1].contains("Only July, please.\n"), "{results:?}");
    assert_eq!(transport.requests().len(), 2, "one request lands it");
}

#[tokio::test]
async fn what_is_said_beside_the_answer_is_not_lost() {
    let policy = Policy { landing: Landing::Respond, ..Policy::default() };
    let answer = || Turn::from_call("respond", r#"{"answer":"Twelve."}"#);
    let (agent, transport, _) = Case::new(policy, vec![answer(), answer()]).agent();
    let mut conversation = Conversation::new();
    let (inbox, cancel) = (conversation.inbox(), CancellationToken::new());
    let mut hear = |event: &Event| {
        if matches!(event.kind, EventKind::ToolStart { .. }) {
            inbox.send_text("Only July, please.");
        }
    };
    agent.run_in_conversation(&mut conversation, "What is it?", &mut hear, &cancel).await.unwrap();
    assert!(!conversation.inbox().is_empty(), "it opens the next run");
    ask(&agent, &mut conversation, "").await;
    let last = transport.requests().pop().unwrap();
    let question = last["messages"].as_array().unwrap().last().unwrap().clone();
    assert!(question.to_string().contains("Only July, please."), "{question}");
}

/// A run in whose first round a person sends a message.
async fn said_in_the_first_round(
    policy: Policy,
    turns: Vec<Turn>,
) -> (softland_agent::Report, Arc<crate::common::SimTransport>) {
    let (mut agent, transport, _) = Case::new(policy, turns).agent();
    let mut conversation = Conversation::new();
    let inbox: Inbox = conversation.inbox();
    agent.tools = softland_agent::ToolSet::new();
    let answer = Box::new(move |n, _: &Value| {
        if n == 0 {
            inbox.send_text("Only July, please.");
        }
        ToolOutput::ok("found")
    });
    let tool = crate::common::Counting { name: "grep", calls: Arc::default(), answer };
    agent.tools.add_tool(Arc::new(tool)).unwrap();
    let (report, _) = ask(&agent, &mut conversation, "What is it?").await;
    let whole = transport.requests().pop().unwrap().to_string();
    assert_eq!(whole.matches("Only July, please.").count(), 1);
    assert_eq!(transport.sim.refused_requests(), 0);
    (report, transport)
}

#[tokio::test(start_paused = true)]
async fn b28_abort_ends_tools_answers_calls_and_a_later_question_works() {
    let turns = vec![
        Turn::from_parts(vec![call(0), Part::tool_call("hangs", "{}"), call(1)]),
        Turn::from_text("Twelve."),
    ];
    let (mut agent, transport, _) = Case::new(Policy::default(), turns).agent();
    let tool = hangs(3600);
    let ended = Arc::clone(&tool.ended);
    agent.tools.add_tool(Arc::new(tool)).unwrap();
    let mut conversation = Conversation::new();
    let cancel = CancellationToken::new();
    let mut events = Vec::new();
    let begun = Arc::new(tokio::sync::Notify::new());
    let mut sink = |event: &Event| {
        events.push(event.clone());
        // The results of the two others come in only behind it: it is running.
        if matches!(&event.kind, EventKind::ToolExecute { name, .. } if name == "hangs") {
            begun.notify_one();
        }
    };
    let (report, ()) = tokio::join!(
        agent.run_in_conversation(&mut conversation, "What is it?", &mut sink, &cancel),
        async {
            begun.notified().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            cancel.cancel();
        }
    );
    let report = report.unwrap();
    assert_eq!(
        (report.ended.outcome.word(), report.ended.reason.to_string()),
        ("cancelled", "user".into())
    );
    assert!(report.answer.is_none());
    crate::behaviours::support::one_end(&events);
    assert!(let_go(&ended).await, "the tool runs on");
    let messages = messages_of(&conversation);
    all_answered(&messages);
    assert_eq!(results_of(&messages[2]), ["finding 0", "hangs: cancelled", "finding 1"]);
    let (report, _) = ask(&agent, &mut conversation, "And now?").await;
    assert_eq!(report.answer.as_deref(), Some("Twelve."));
    all_answered(transport.requests()[1]["messages"].as_array().unwrap());
    assert_eq!(transport.sim.refused_requests(), 0, "{:?}", transport.sim.stats().refusals);
}
