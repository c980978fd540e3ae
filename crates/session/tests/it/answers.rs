//! Clients that take their answers by a tool's call, each as it sends its requests: at a limit the
//! object comes through, and a tool that only has such a name is held to the limit.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a failed step is a failed test")]

mod client;
mod responses;

use self::client::{Client, Got, OBJECT, Shape, Turn, object};
use proptest::prelude::*;
use serde_json::{Value, json};
use softland_core::policy::Policy;
use softland_core::{Outcome, Reason};
use softland_session::wire::Api::{self, Anthropic, Chat, Responses};

const fn shape(
    client: &'static str,
    api: Api,
    choice: &'static str,
    tools: &'static [&'static str],
    answer: &'static str,
) -> Shape {
    Shape { client, api, choice, tools, answer }
}

/// Clients with tools that work beside the one for the answer, as their newest versions send them.
const AGENTS: &[Shape] = &[
    shape("Claude Code", Anthropic, "auto", &["Bash", "StructuredOutput"], "StructuredOutput"),
    shape("Qwen Code", Chat, "auto", &["shell", "structured_output"], "structured_output"),
    shape("OpenHands", Chat, "auto", &["terminal", "finish"], "finish"),
    shape("OpenHands", Anthropic, "auto", &["terminal", "finish"], "finish"),
    shape("OpenHands", Responses, "auto", &["terminal", "finish"], "finish"),
    shape("pydantic-ai", Anthropic, "any", &["shell", "final_result"], "final_result"),
    shape("pydantic-ai", Chat, "any", &["shell", "final_result"], "final_result"),
    shape("smolagents", Chat, "any", &["bash", "final_answer"], "final_answer"),
    shape("Roo Code", Chat, "any", &["read_file", "attempt_completion"], "attempt_completion"),
    shape("Google ADK", Chat, "auto", &["search", "set_model_response"], "set_model_response"),
];

/// Clients that have no other tool, and force it.
const EXTRACTORS: &[Shape] = &[
    shape("instructor", Anthropic, "Out", &["Out"], "Out"),
    shape("instructor", Chat, "Out", &["Out"], "Out"),
    shape("instructor", Responses, "Out", &["Out"], "Out"),
    shape("Strands", Anthropic, "any", &["Out"], "Out"),
    shape("Strands", Chat, "any", &["Out"], "Out"),
];

/// Clients whose tool for the answer has a name of the user's.
const NAMED: &[Shape] = &[
    shape("LangChain ToolStrategy", Anthropic, "any", &["shell", "Out"], "Out"),
    shape("LangChain ToolStrategy", Chat, "any", &["shell", "Out"], "Out"),
    shape("LangChain ToolStrategy", Responses, "any", &["shell", "Out"], "Out"),
    shape("Strands", Anthropic, "auto", &["bash", "Out"], "Out"),
    shape("Strands", Chat, "auto", &["bash", "Out"], "Out"),
];

fn limited(limit: u64) -> Policy {
    Policy { tool_calls_limit: Some(limit), ..Policy::default() }
}

/// With `answer_tool`, of which the first is no tool of the client's.
fn naming(limit: u64, tool: &str) -> Policy {
    Policy { answer_tool: vec!["other".to_owned(), tool.to_owned()], ..limited(limit) }
}

/// A client behind so many calls.
fn worked(shape: &Shape, policy: &Policy, streams: bool, rounds: u64) -> Client {
    let mut client = Client::new(shape, policy.clone(), streams);
    for n in 0..rounds {
        client.round(shape.tools[0], &format!("line {n}"));
    }
    client
}

fn assert_object(got: &Got, shape: &Shape) {
    let [(_, tool, input)] = &*got.calls else { panic!("{shape:?}: {got:?}") };
    assert_eq!(tool, shape.answer, "{shape:?}");
    assert_eq!(serde_json::from_str::<Value>(input).unwrap(), object(), "{shape:?}");
    assert_eq!(got.answer.as_deref(), Some(OBJECT), "{shape:?}");
    assert!(!got.local, "{shape:?}");
}

fn outcome(got: &Got) -> Option<(Outcome, Reason)> {
    got.ended.as_ref().map(|ended| (ended.outcome, ended.reason.clone()))
}

#[test]
fn c30_an_object_comes_through_at_a_limit() {
    let policies = |shape: &Shape| [limited(4), naming(4, shape.answer)];
    let known = AGENTS.iter().flat_map(|shape| policies(shape).map(|policy| (shape, policy)));
    let named = NAMED.iter().map(|shape| (shape, naming(4, shape.answer)));
    for ((shape, policy), streams) in
        known.chain(named).flat_map(|on| [true, false].map(|s| (on.clone(), s)))
    {
        let client = worked(shape, &policy, streams, 4);
        // At once; behind a call that is refused; and beside one, or beside words.
        let answers = Turn::calls(shape.answer, object());
        let works = Turn::calls(shape.tools[0], json!({"n": 9}));
        let both =
            Turn { calls: [works.calls.clone(), answers.calls.clone()].concat(), ..works.clone() };
        let says = Turn { text: "Here it is.", ..answers.clone() };
        for turns in [&[answers.clone()][..], &[works.clone(), answers.clone()], &[both], &[says]] {
            let got = client.asks(turns);
            assert_object(&got, shape);
            assert_eq!(outcome(&got), Some((Outcome::Landed, Reason::ToolCalls)), "{shape:?}");
            assert_eq!(got.used, 4, "{shape:?}");
        }
    }
}

#[test]
fn c30_the_only_tool_that_is_forced_is_for_the_answer() {
    for (shape, streams) in EXTRACTORS.iter().flat_map(|shape| [(shape, true), (shape, false)]) {
        for limit in [0, 1, 9] {
            let client = Client::new(shape, limited(limit), streams);
            let got = client.asks(&[Turn::calls("Out", object())]);
            assert_object(&got, shape);
            let outcome = got.ended.unwrap().outcome;
            let landed = if limit == 0 { Outcome::Landed } else { Outcome::Answered };
            assert_eq!(outcome, landed, "{shape:?} {limit}");
        }
    }
}

/// Without a limit in sight such a call ends the run as well.
#[test]
fn c31_a_run_that_ends_by_a_call_has_answered() {
    for (shape, streams) in AGENTS.iter().flat_map(|shape| [(shape, true), (shape, false)]) {
        let client = worked(shape, &limited(9), streams, 2);
        let got = client.asks(&[Turn::calls(shape.answer, object())]);
        assert_object(&got, shape);
        assert_eq!(outcome(&got), Some((Outcome::Answered, Reason::Final)), "{shape:?}");
    }
}

/// Objects that the client sends back for their form do not count, and the next one comes through.
#[test]
fn c30_an_object_may_be_sent_back() {
    let wrong = [
        ("Claude Code", "Output does not match required schema: root: must have steps"),
        ("pydantic-ai", "1 validation error:\n```json\n[]\n```\n\nFix the errors and try again."),
        ("LangChain ToolStrategy", "Error: Failed to parse it.\n Please fix your mistakes."),
    ];
    for (name, text) in wrong {
        for shape in AGENTS.iter().chain(NAMED).filter(|shape| shape.client == name) {
            let policy = if name.starts_with("Lang") { naming(4, "Out") } else { limited(4) };
            let mut client = worked(shape, &policy, true, 4);
            for _ in 0..2 {
                let got = client.asks(&[Turn::calls(shape.answer, json!({"summary": 3}))]);
                assert_eq!((got.used, got.calls.len()), (4, 1), "{shape:?}");
                client.takes(&got.calls);
                client.gives(&got.calls[0].0, text);
            }
            let got = client.asks(&[Turn::calls(shape.answer, object())]);
            assert_object(&got, shape);
            assert_eq!(got.used, 4, "{shape:?}");
        }
    }
    for shape in EXTRACTORS.iter().filter(|shape| shape.client == "instructor") {
        let mut client = Client::new(shape, limited(0), false);
        let got = client.asks(&[Turn::calls("Out", json!({}))]);
        client.takes(&got.calls);
        client.gives(
            &got.calls[0].0,
            "Validation Error found:\n1 error\nRecall the function correctly, fix the errors",
        );
        let got = client.asks(&[Turn::calls("Out", object())]);
        assert_object(&got, shape);
        assert_eq!(got.used, 0, "{shape:?}");
    }
}

/// A tool that works under such a name is held to the limit: it counts once its result is there,
/// and is let through at most once before that is known.
#[test]
fn c32_a_tool_that_works_is_held_to_the_limit() {
    let tools = &["shell", "submit"];
    for (api, choice) in
        [Anthropic, Chat, Responses].into_iter().flat_map(|api| [(api, "auto"), (api, "any")])
    {
        let shape = shape("a shop", api, choice, tools, "submit");
        let mut client = Client::new(&shape, limited(4), true);
        let mut ran = 0;
        for n in 0..12 {
            let got =
                client.asks(&[Turn::calls("submit", json!({"order": n})), Turn::says("Done.")]);
            if got.calls.is_empty() {
                break;
            }
            ran += 1;
            client.takes(&got.calls);
            client.gives(&got.calls[0].0, "order accepted");
        }
        assert_eq!(ran, 4, "{shape:?}");
        // First called behind the ask, it may be for the answer.
        let mut client = worked(&shape, &limited(4), true, 4);
        let submit = Turn::calls("submit", json!({"order": 1}));
        let got = client.asks(std::slice::from_ref(&submit));
        assert_eq!(got.calls.len(), 1, "{shape:?}");
        client.takes(&got.calls);
        client.gives(&got.calls[0].0, "order accepted");
        let got = client.asks(&[submit, Turn::says("Done.")]);
        assert_eq!((got.used, got.calls.len()), (5, 0), "{shape:?}");
    }
}

/// An agent with one tool that is forced in every request goes on with its results.
#[test]
fn c32_an_only_tool_that_works_is_held_to_the_limit() {
    for (api, choice) in
        [Anthropic, Chat, Responses].into_iter().flat_map(|api| [(api, "any"), (api, "shell")])
    {
        let shape = shape("a loop", api, choice, &["shell"], "shell");
        let mut client = Client::new(&shape, limited(4), true);
        let mut ran = 0;
        while ran < 12 {
            let got = client.asks(&[Turn::calls("shell", json!({"n": ran}))]);
            if got.calls.is_empty() {
                assert!(got.local, "{shape:?}: {got:?}");
                break;
            }
            ran += 1;
            client.takes(&got.calls);
            client.gives(&got.calls[0].0, &format!("line {ran}"));
        }
        assert_eq!(ran, 4, "{shape:?}");
    }
}

/// mini-swe-agent takes words for a mistake, and submits by a shell command: that one is let
/// through, as long as it ends the run.
#[test]
fn c34_a_command_that_ends_the_run_is_let_through() {
    let shape = shape("mini-swe-agent", Chat, "auto", &["bash"], "bash");
    let submits = json!({"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"});
    for streams in [true, false] {
        let mut client = worked(&shape, &limited(4), streams, 4);
        let got = client.asks(&[Turn::calls("bash", submits.clone())]);
        assert_eq!((got.calls.len(), got.used), (1, 4), "{got:?}");
        assert_eq!(outcome(&got), Some((Outcome::Landed, Reason::ToolCalls)));
        // Another client goes on behind it: there it is a command like any other.
        client.takes(&got.calls);
        client.gives(&got.calls[0].0, "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT");
        let got = client.asks(&[Turn::calls("bash", submits.clone()), Turn::says("Done.")]);
        assert_eq!((got.calls.len(), got.used), (0, 5), "{got:?}");
        let client = worked(&shape, &limited(4), streams, 4);
        for other in ["ls; echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "echo COMPLETE", "ls"] {
            let turn = Turn::calls("bash", json!({"command": other}));
            assert!(client.asks(&[turn, Turn::says("Done.")]).calls.is_empty(), "{other}");
        }
    }
}

/// A server's tool of that name is one of many, and a forced one of several begins the work.
#[test]
fn c32_other_tools_are_no_answers() {
    let rows = [
        shape("a game", Anthropic, "auto", &["shell", "mcp__game__submit"], "mcp__game__submit"),
        shape("a search", Chat, "search", &["search", "read"], "search"),
        shape("a client", Chat, "auto", &["shell", "finish_task_report"], "finish_task_report"),
    ];
    for shape in rows {
        let client = worked(&shape, &limited(4), true, 4);
        let got = client.asks(&[Turn::calls(shape.answer, object()), Turn::says("Done.")]);
        assert!(got.calls.is_empty(), "{got:?}");
        let client = worked(&shape, &limited(9), true, 4);
        assert!(client.asks(&[Turn::calls(shape.answer, object())]).ended.is_none());
    }
}

/// Behind an answer the next question begins a run, and the answer stays one.
#[test]
fn c31_the_next_question_is_a_run_of_its_own() {
    for shape in AGENTS {
        let mut client = worked(shape, &limited(4), true, 4);
        let got = client.asks(&[Turn::calls(shape.answer, object())]);
        client.takes(&got.calls);
        client.gives(&got.calls[0].0, "Response set successfully.");
        client.says("And how many were there before?");
        let got = client.asks(&[Turn::calls(shape.tools[0], json!({"n": 1}))]);
        assert_eq!((got.used, got.calls.len()), (0, 1), "{shape:?}: {got:?}");
    }
}

/// Where a run lands in vain although the model called a tool that the client declares, the way
/// out is named.
#[test]
fn c33_a_landing_in_vain_names_the_key() {
    for shape in NAMED {
        let client = worked(shape, &limited(4), true, 4);
        let got = client.asks(&[Turn::calls("Out", object()), Turn::says("It is twelve.")]);
        assert!(got.calls.is_empty() && got.ended.is_some(), "{got:?}");
        let hint = r#"answer_tool = "Out""#;
        assert!(got.told.iter().any(|told| told.contains(hint)), "{shape:?}: {:?}", got.told);
        // A tool that has worked in this run is not wanted for an answer.
        let got = client.asks(&[Turn::calls(shape.tools[0], json!({})), Turn::says("Twelve.")]);
        assert!(got.told.iter().all(|told| !told.contains("answer_tool")), "{:?}", got.told);
    }
}

/// Turns of every kind, in any order.
fn turns(shape: &Shape) -> impl Strategy<Value = Vec<Turn>> + use<> {
    let (answer, works) = (shape.answer.to_owned(), shape.tools[0].to_owned());
    let turn = (0..7u8).prop_map(move |kind| {
        let answers = Turn::calls(&answer, object());
        let works = Turn::calls(&works, json!({"n": 9, "text": "some more words"}));
        match kind {
            0 => Turn::says("It is twelve."),
            1 => answers,
            2 => Turn { cut: true, ..answers },
            3 => works,
            4 => Turn { calls: [works.calls, answers.calls].concat(), ..Turn::default() },
            5 => Turn { text: "Here", cut: true, ..answers },
            _ => Turn::default(),
        }
    });
    prop::collection::vec(turn, 1..5)
}

fn cases() -> impl Strategy<Value = (Shape, Vec<Turn>, bool, usize, bool)> {
    let all: Vec<_> = AGENTS.iter().chain(NAMED).cloned().collect();
    let shapes = prop::sample::select(all);
    let cut = prop_oneof![1..40usize, Just(usize::MAX)];
    (shapes, any::<bool>(), cut, any::<bool>()).prop_flat_map(|(shape, streams, piece, named)| {
        let turns = turns(&shape);
        (Just(shape), turns, Just(streams), Just(piece), Just(named))
    })
}

proptest! {
    /// Whatever the model does at a limit, the client gets the object or words, never half an
    /// object and never another call.
    #[test]
    fn c30_a_landing_is_the_object_or_words(
        (shape, turns, streams, piece, named) in cases(),
    ) {
        let policy = if named { naming(4, shape.answer) } else { limited(4) };
        let client = worked(&shape, &policy, streams, 4);
        let got = client.asks_in_pieces(&turns, piece);
        prop_assert!(got.ended.is_some(), "{got:?}");
        for (_, tool, input) in &got.calls {
            prop_assert_eq!(tool, shape.answer);
            prop_assert_eq!(serde_json::from_str::<Value>(input).ok(), Some(object()));
        }
        prop_assert!(got.calls.len() <= 1);
        prop_assert!(!got.calls.is_empty() || !got.text.trim().is_empty(), "{got:?}");
    }
}
