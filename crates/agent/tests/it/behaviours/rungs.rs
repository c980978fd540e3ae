//! The way from a limit to an answer: the rung that is taken, and the next one if it brings none.

use softland_agent::core::models::capability::{Capability, ForcedChoice};
use softland_agent::core::policy::{Landing, Policy};
use softland_sim::{Config, Fault, Part, Scenario, Stop, Turn};

use crate::behaviours::support::{Case, FORCEABLE, MODEL, grep, play};
use crate::common::interventions;

fn calls(limit: u64, landing: Landing) -> Policy {
    Policy { tool_calls_limit: Some(limit), landing, ..Policy::default() }
}

type Reply = fn() -> Turn;

/// A turn that does as the model pleases, whatever `tool_choice` says.
fn lawless(turn: Turn) -> Turn {
    Turn { lawless: true, ..turn }
}

#[tokio::test]
async fn b11_a_rung_that_brings_no_answer_takes_the_next_and_softland_answers_at_the_end() {
    let again = || lawless(grep(7));
    let half =
        || lawless(Turn::from_call("respond", r#"{"answer":"ha"#).with_stop(Stop::MaxTokens));
    let bad: [(&str, Reply); 6] = [
        ("another call", || lawless(grep(7))),
        ("nothing", Turn::default),
        ("a blank", || Turn::from_text("  \n")),
        ("a refusal", || Turn::default().with_stop(Stop::Refusal)),
        ("cut before a word", || Turn::default().with_stop(Stop::MaxTokens)),
        ("an error", || Turn::from_status(500, None)),
    ];
    for (what, reply) in bad {
        for (landing, model) in [
            (Landing::Auto, MODEL),
            (Landing::Ask, MODEL),
            (Landing::None, MODEL),
            (Landing::Respond, FORCEABLE),
        ] {
            let turns = std::iter::once(grep(0)).chain((0..12).map(|_| reply())).collect();
            let mut case = Case::new(calls(1, landing), turns);
            case.model = model;
            let ran = case.run().await;
            let end = ran.end();
            assert_eq!(
                (end.0, &*end.1, end.2),
                ("stopped", "tool_calls", Some("local_answer")),
                "{what}"
            );
            let answer = ran.answer();
            assert!(answer.contains("tool_calls_limit: 1 of 1"), "{what} {landing:?}: {answer}");
            assert!(answer.contains("finding 0"), "{what} {landing:?}: {answer}");
            assert_eq!(ran.executed, 1, "{what} {landing:?}");
        }
    }
    // Each rung in its place: the note, the refusal, `none`.
    let ran = play(calls(1, Landing::Auto), vec![grep(0), again(), again(), again()]).await;
    assert_eq!(interventions(&ran.events), ["ask", "refuse", "none", "local_answer"]);
    let choices: Vec<_> = ran.requests.iter().map(|r| r["tool_choice"]["type"].as_str()).collect();
    assert_eq!(choices, [None, None, None, Some("none")]);
    assert!(ran.results(2)[0].starts_with("Not run. Tool call limit reached (1 of 1). Answer now"));
    // A forced answer that is half a call is none, and `none` comes after it.
    let mut case =
        Case::new(calls(1, Landing::Respond), vec![grep(0), half(), Turn::from_text("Twelve.")]);
    case.model = FORCEABLE;
    let ran = case.run().await;
    assert_eq!(interventions(&ran.events), ["ask", "respond", "none"]);
    assert_eq!(ran.end(), ("landed", "tool_calls".into(), Some("none")));
    assert_eq!(ran.answer(), "Twelve.");
}

#[tokio::test]
async fn b11_limits_allow_no_nudge_and_no_continuation() {
    let half = Turn::from_text("Half of an").with_stop(Stop::MaxTokens);
    for reply in [Turn::default(), Turn::from_text(" "), half] {
        let ran =
            play(calls(1, Landing::Auto), vec![grep(0), reply, Turn::from_text("Twelve.")]).await;
        assert_eq!(interventions(&ran.events), ["ask", "none"]);
        assert_eq!((ran.requests.len(), ran.answer()), (3, "Twelve."));
    }
}

#[tokio::test]
async fn b13_forcing_is_never_sent_where_it_is_refused() {
    // Every listed model, with visible thinking and without: nothing is refused.
    for model in softland_sim::models() {
        for thinking in [false, true] {
            let name: &'static str = Box::leak(format!("anthropic/{}", model.id).into_boxed_str());
            let turns = vec![grep(0), Turn::from_text("Twelve."), Turn::from_text("Twelve.")];
            let mut case = Case::new(calls(1, Landing::Respond), turns);
            (case.model, case.thinking) = (name, thinking);
            let ran = case.run().await;
            ran.nothing_refused();
            assert!(ran.report.ended.outcome.is_done(), "{name}");
            let forced = ran.requests.iter().any(|r| r["tool_choice"]["type"] == "tool");
            let may = model.forced != softland_sim::Forced::Never;
            assert!(may || !forced, "{name}: forced where it may not be");
        }
    }
}

#[tokio::test]
async fn b13_an_unlisted_model_that_refuses_is_asked_once_more_with_the_next_rung() {
    // Nobody knows the model; a row of the user's says that it may be forced, which is wrong.
    let unlisted = |turns| {
        let mut case = Case::new(calls(1, Landing::Respond), turns);
        case.model = "anthropic/nobody-knows";
        let alias = ("nobody-knows".to_owned(), "claude-opus-5-5".to_owned());
        case.config = Config { aliases: vec![alias], ..case.config };
        case
    };
    let turns = vec![grep(0), Turn::from_text("Twelve.")];
    let (mut agent, transport, _) = unlisted(turns).agent();
    agent.options.capability = Some(Capability { forced: ForcedChoice::Yes, ..Capability::SAFEST });
    let (report, events) = crate::common::run(&agent, "What is it?").await;
    assert_eq!(transport.sim.refused_requests(), 1);
    let choices: Vec<_> =
        transport.requests().iter().map(|r| r["tool_choice"]["type"].clone()).collect();
    assert_eq!(choices, [serde_json::Value::Null, "tool".into(), "none".into()]);
    assert_eq!(report.ended.outcome.word(), "landed");
    assert_eq!(report.answer.as_deref(), Some("Twelve."));
    assert_eq!(interventions(&events), ["ask", "respond", "none"]);
    // By the built-in table it is not forced in the first place.
    let ran = unlisted(vec![grep(0), Turn::from_text("Twelve.")]).run().await;
    ran.nothing_refused();
    assert!(ran.requests.iter().all(|r| r["tool_choice"]["type"] != "tool"));
}

#[tokio::test]
async fn b13_a_failure_beyond_retries_while_landing_takes_the_next_rung() {
    let cut = Turn::from_text("I would").with_fault(Fault::Cut { after: 5 });
    let turns = vec![grep(0), cut, Turn::from_text("Twelve.")];
    let ran = play(calls(1, Landing::Auto), turns).await;
    assert_eq!(ran.end(), ("landed", "tool_calls".into(), Some("none")));
    assert_eq!(ran.answer(), "Twelve.", "the cut text is no part of the answer");
}

#[tokio::test]
async fn a_stubborn_model_is_stopped_within_few_requests() {
    let lawless = || lawless(Turn::from_parts(vec![Part::tool_call("grep", "{}")]));
    let config = Config::new(Scenario::Scripted((0..30).map(|_| lawless()).collect()));
    let mut case = Case::new(calls(3, Landing::Auto), Vec::new());
    case.config = config;
    let ran = case.run().await;
    assert_eq!((ran.executed, ran.requests.len()), (3, 6));
    ran.nothing_refused();
}
