//! Empty turns: their definition, the reaction to them, and what never becomes of them.

use serde_json::{Value, json};
use softland_agent::core::policy::Policy;
use softland_agent::{AnsweredBy, Conversation, ToolOutput};
use softland_session::core::models::find_capability;
use softland_session::core::{Facts, Role};
use softland_session::{Context, Exchange, Output, Step};
use softland_sim::{Part, Turn};

use crate::behaviours::canned::{self, Block, Canned};
use crate::behaviours::support::{
    Case, MODEL, agent_on, all_answered, ask, grep, messages_of, play,
};
use crate::common::{interventions, signals};

/// Every way of saying nothing.
fn ways() -> Vec<Vec<Block>> {
    let bare = || (json!({"type": "text", "text": ""}), vec![]);
    let first_empty = || {
        let deltas = ["", " ", "\n"].map(|text| json!({"type": "text_delta", "text": text}));
        (json!({"type": "text", "text": ""}), deltas.to_vec())
    };
    vec![
        vec![],
        vec![bare()],
        vec![canned::text("")],
        vec![canned::text(" \n\t")],
        vec![canned::text("\u{200b}\u{feff}")],
        vec![first_empty()],
        vec![canned::text(" "), canned::text("\n")],
        vec![canned::thinking("hm", "c2ln")],
        vec![canned::thinking("hm", "c2ln"), canned::text(" ")],
        vec![canned::text("[no answer]")],
    ]
}

#[tokio::test]
async fn b32_an_empty_turn_advances_the_context_however_it_is_empty() {
    let look = || canned::reply(&[canned::tool("t", "grep", &["{}"])], "tool_use");
    for way in ways() {
        for streams in [true, false] {
            let empty = || match streams {
                true => canned::reply(&way, "end_turn"),
                false => canned::whole(&way.iter().map(whole).collect::<Vec<_>>(), "end_turn"),
            };
            let transport = Canned::new([look(), empty(), empty(), empty()]);
            let (agent, _) = agent_on(transport.clone());
            let (report, events) = crate::common::run(&agent, "What?").await;
            let bodies = transport.bodies.lock().unwrap().clone();
            assert_eq!(bodies.len(), 4, "{way:?}");
            assert!(bodies.windows(2).all(|two| two[0] != two[1]), "{way:?}: an unchanged retry");
            assert_eq!(signals(&events), ["empty"; 3], "{way:?}");
            let placeholder = transport.requests()[2]["messages"][3]["content"].clone();
            let text = placeholder.as_array().unwrap().last().unwrap()["text"].clone();
            assert_eq!(text, "[no answer]", "{way:?}");
            for body in &bodies {
                for blank in [r#""text":"""#, r#""text":" "#, r#""text":"\n"#, "\u{200b}"] {
                    assert!(!body.contains(blank), "{way:?}: blank text stored: {body}");
                }
            }
            assert_eq!(report.ended.reason.to_string(), "empty");
        }
    }
}

fn whole((start, deltas): &Block) -> Value {
    let mut block = start.clone();
    for delta in deltas {
        for key in ["text", "thinking", "signature"] {
            if let Some(piece) = delta[key].as_str() {
                block[key] = (block[key].as_str().unwrap().to_owned() + piece).into();
            }
        }
    }
    block
}

#[tokio::test]
async fn b33_the_remedy_is_the_nudge_and_never_text_after_results() {
    // The simulator answers text after results with another empty turn.
    for (model, system) in [
        (MODEL, false),
        ("anthropic/claude-opus-4-6", false),
        ("anthropic/claude-opus-5-5", true),
        ("anthropic/claude-opus-4-8", true),
    ] {
        let turns = vec![
            grep(0),
            Turn::default(),
            Turn::from_text(" "),
            grep(1),
            Turn::from_text("Twelve."),
        ];
        let mut case = Case::new(Policy::default(), turns);
        case.model = model;
        let ran = case.run().await;
        assert_eq!(ran.answer(), "Twelve.", "{model}");
        assert_eq!(interventions(&ran.events), ["nudge", "nudge"]);
        let nudged = ran.requests[2]["messages"].as_array().unwrap();
        let wanted = match system {
            true => vec![json!({"role": "system", "content": "Please continue."})],
            false => vec![
                json!({"role": "assistant", "content": [{"type": "text", "text": "[no answer]"}]}),
                json!({"role": "user", "content": "Please continue."}),
            ],
        };
        assert_eq!(nudged[3..], wanted, "{model}");
        for request in &ran.requests {
            for message in request["messages"].as_array().unwrap() {
                let blocks = message["content"].as_array().cloned().unwrap_or_default();
                let result = blocks.iter().any(|block| block["type"] == "tool_result");
                assert!(!(result && blocks.iter().any(|block| block["type"] == "text")));
            }
        }
        ran.nothing_refused();
    }
}

/// If a turn must open with thinking and there is none, the vendor's bare message appears once.
#[test]
fn b33_the_bare_message_comes_once_and_then_softland_answers() {
    let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 4000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": [{"name": "grep", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "What?"}]});
    let context = Context {
        api: Default::default(),
        role: Role::Engine,
        policy: Policy { empty_limit: 5, ..Policy::default() }.into(),
        records: Default::default(),
        facts: Facts::default(),
        capability: find_capability(Some("anthropic"), "claude-sonnet-4-5"),
        output_maximum: None,
        window: None,
        shape: None,
        chain: None,
        asked_at: 0,
    };
    let mut out = Output::default();
    let mut exchange =
        Exchange::from_request(body.to_string().into_bytes(), context, &mut out).unwrap();
    let empty = canned::stream(&canned::events(&[], "end_turn"));
    let mut sent = Vec::new();
    let done = loop {
        match exchange.next_step().unwrap() {
            Step::Done(done) => break done,
            Step::Send(body) => sent.push(serde_json::from_slice::<Value>(&body).unwrap()),
        }
        exchange.push_bytes(empty.as_bytes(), &mut out).unwrap();
        exchange.finish_response(&mut out).unwrap();
    };
    assert_eq!(sent.len(), 2);
    let last = sent[1]["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last, &json!({"role": "user", "content": "Please continue."}));
    let ended = done.ended.unwrap();
    assert!(done.local, "{ended:?}");
    assert_eq!(ended.reason.to_string(), "empty");
}

#[tokio::test]
async fn b34_a_placeholder_is_never_the_answer() {
    for said in ["[no answer]", " [no answer]\n", "", "\u{200b}"] {
        let ran = play(
            Policy::default(),
            vec![grep(0), Turn::from_text(said), Turn::from_text(said), Turn::from_text(said)],
        )
        .await;
        assert_eq!(ran.end(), ("stopped", "empty".into(), Some("local_answer")), "{said:?}");
        assert_eq!(ran.report.answered_by, Some(AnsweredBy::Local));
        let answer = ran.answer();
        assert!(!answer.contains("[no answer]") && answer.contains("finding 0"), "{answer}");
        assert!(answer.contains("turns were empty (3 in a row)"), "{answer}");
        // While landing, too.
        let policy = Policy { tool_calls_limit: Some(1), ..Policy::default() };
        let ran = play(policy, vec![grep(0), Turn::from_text(said), Turn::from_text(said)]).await;
        assert_eq!(ran.end().0, "stopped", "{said:?}");
        assert!(!ran.answer().contains("[no answer]"));
    }
}

#[tokio::test]
async fn b35_the_count_belongs_to_one_run_and_a_real_turn_resets_it() {
    // Two empty turns before and after a real one are no row of three.
    let nothing = Turn::default;
    let turns =
        vec![nothing(), nothing(), grep(0), nothing(), nothing(), Turn::from_text("Twelve.")];
    let (agent, transport, _) = Case::new(Policy::default(), turns).agent();
    let mut conversation = Conversation::new();
    let (report, events) = ask(&agent, &mut conversation, "What is it?").await;
    assert_eq!(report.answer.as_deref(), Some("Twelve."));
    assert_eq!(signals(&events), ["empty"; 4]);
    all_answered(&messages_of(&conversation));
    assert_eq!(transport.sim.refused_requests(), 0);
    // A run that ended in silence leaves nothing to the next one.
    let turns =
        [vec![nothing(); 3], vec![nothing(), nothing(), Turn::from_text("Thirteen.")]].concat();
    let (agent, ..) = Case::new(Policy::default(), turns).agent();
    let mut conversation = Conversation::new();
    let (first, _) = ask(&agent, &mut conversation, "What is it?").await;
    let (second, _) = ask(&agent, &mut conversation, "And then?").await;
    assert_eq!(first.ended.reason.to_string(), "empty");
    assert_eq!(second.answer.as_deref(), Some("Thirteen."));
    // Calls with empty text are no empty turns, any number of them.
    let quiet = |n: u64| {
        Turn::from_parts(vec![
            Part::text(""),
            Part::text(" "),
            Part::tool_call("grep", format!(r#"{{"n":{n}}}"#)),
        ])
    };
    let mut case =
        Case::new(Policy::default(), (0..6).map(quiet).chain([Turn::from_text("So.")]).collect());
    case.answer = |n, _| ToolOutput::ok(format!("finding {n}"));
    let ran = case.run().await;
    assert_eq!((signals(&ran.events).len(), ran.executed, ran.answer()), (0, 6, "So."));
}

#[tokio::test]
async fn b38_text_without_calls_is_the_answer_whatever_it_quotes() {
    for said in [
        "<b>x</b>",
        "[Tool Result] 3 files",
        "<use_tool><name>grep</name></use_tool>",
        r#"{"type":"tool_use","name":"grep","input":{}}"#,
        "<function_calls><invoke name=\"grep\"></invoke></function_calls>",
        "3 tool calls remaining",
        "Please continue.",
        "ok",
        "I said [no answer] to him.",
    ] {
        let ran = play(Policy::default(), vec![grep(0), Turn::from_text(said)]).await;
        assert_eq!(ran.end(), ("answered", "final".into(), None), "{said}");
        assert_eq!((ran.answer(), ran.requests.len(), ran.executed), (said, 2, 1));
        assert!(signals(&ran.events).is_empty(), "{said}");
    }
}
