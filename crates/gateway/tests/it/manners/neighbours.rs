//! Honest use: who has a count of their own, and keeps it.

use serde_json::json;
use softland_session::wire::Api;

use super::client::{Manner, Serves, Session, Shortens};
use super::model::{Ids, Model, Temper, Time};
use crate::support::Running;
use crate::support::client::APIS;
use crate::support::script::items;

const LIMIT: u64 = 4;
const QUESTION: &str = "Look at the notes and say what is in them.";

/// A client that keeps all of its history.
fn plain(api: Api) -> Manner {
    Manner {
        api,
        streams: false,
        limit: LIMIT,
        ids: Ids::Own,
        batch: 1,
        header: None,
        shortens: Shortens::Never,
        reminds: false,
        nudges: 0,
        regenerates: 0,
        serves: Serves::Client,
    }
}

async fn model(answers_after: Option<u64>) -> (Model, Running, Time) {
    let model = Model::new(Temper { ids: Ids::Own, most: 1, answers_after }).await;
    let (gateway, time) = model.governed(LIMIT).await;
    (model, gateway, time)
}

/// All go on in turns until each has its answer: the calls of each.
async fn together(sessions: &mut [Session<'_>], gateway: &Running, time: &Time) -> Vec<u64> {
    let mut ran = vec![(0, false); sessions.len()];
    for _ in 0..LIMIT + 4 {
        for (session, (ran, over)) in sessions.iter_mut().zip(&mut ran) {
            if !*over {
                let calls = session.step(gateway, time).await;
                *ran += calls;
                *over = calls == 0;
            }
        }
    }
    assert!(ran.iter().all(|(_, over)| *over), "not all have ended: {ran:?}");
    ran.into_iter().map(|(ran, _)| ran).collect()
}

/// So many sessions that are alike, each as it is told to be.
async fn each_has_its_own(n: usize, manner: &Manner, made: impl Fn(usize, &mut Session<'_>)) {
    let (_model, gateway, time) = model(None).await;
    let mut sessions: Vec<_> = (0..n).map(|_| Session::new(manner, QUESTION)).collect();
    for (at, session) in sessions.iter_mut().enumerate() {
        made(at, session);
    }
    let ran = together(&mut sessions, &gateway, &time).await;
    assert_eq!(ran, vec![LIMIT; n], "{manner:?}");
}

#[tokio::test]
async fn samples_of_one_prompt_have_their_own_counts() {
    for api in APIS {
        each_has_its_own(50, &plain(api), |_, _| {}).await;
    }
}

#[tokio::test]
async fn parallel_sessions_of_one_prompt_have_their_own_counts() {
    for api in APIS {
        each_has_its_own(10, &plain(api), |_, _| {}).await;
        let header = Some("x-softland-session: all-of-them".to_owned());
        let named = Manner { header, ..plain(api) };
        each_has_its_own(10, &named, |_, _| {}).await;
    }
}

#[tokio::test]
async fn users_of_one_application_have_their_own_counts() {
    for api in [Api::Chat, Api::Responses] {
        each_has_its_own(2, &plain(api), |_, session| {
            session.sets("prompt_cache_key", json!("the application"));
        })
        .await;
    }
}

#[tokio::test]
async fn few_shot_calls_of_every_conversation_count_in_none() {
    for api in APIS {
        let call = json!({"type": "tool_use", "id": "toolu_example_0001", "name": "read_file",
            "input": {"path": "example.md"}});
        let mut examples = vec![json!({"role": "user", "content": "What does example.md say?"})];
        examples.extend(items(api, &[call]));
        examples.push(match api {
            Api::Anthropic => json!({"role": "user", "content": [{"type": "tool_result",
                "tool_use_id": "toolu_example_0001", "content": "an example"}]}),
            Api::Chat => json!({"role": "tool", "tool_call_id": "toolu_example_0001",
                "content": "an example"}),
            Api::Responses => json!({"type": "function_call_output",
                "call_id": "toolu_example_0001", "output": "an example"}),
        });
        examples.extend(items(api, &[json!({"type": "text", "text": "It says: an example."})]));
        each_has_its_own(3, &plain(api), |_, session| session.begins_with(examples.clone())).await;
    }
}

#[tokio::test]
async fn who_quotes_another_agents_answer_has_its_own_count() {
    for api in APIS {
        let (_model, gateway, time) = model(None).await;
        let manner = plain(api);
        let mut first = Session::new(&manner, QUESTION);
        assert_eq!(first.lands(&gateway, &time).await, LIMIT);
        let said = first.said();
        let quotes = format!("Another agent was asked and said:\n\n{said}\n\nIs that so?");
        let mut second = Session::new(&manner, &quotes);
        assert_eq!(second.lands(&gateway, &time).await, LIMIT);
    }
}

#[tokio::test]
async fn sub_agents_under_their_parents_session_have_their_own_counts() {
    for (api, named) in [(Api::Anthropic, true), (Api::Anthropic, false), (Api::Chat, false)] {
        let header = Some("x-claude-code-session-id: 5f0c7c1e-work".to_owned());
        let manner = Manner { header, ..plain(api) };
        let (_model, gateway, time) = model(None).await;
        let mut parent = Session::new(&manner, QUESTION);
        assert_eq!(parent.step(&gateway, &time).await, 1);
        for n in 0..3 {
            let mut child = Session::new(&manner, &format!("Look into matter {n}, as a helper."));
            if named {
                child.sends(&format!("x-claude-code-agent-id: helper-{n}"));
            } else {
                let says = "You help another agent with one matter.";
                match api {
                    Api::Anthropic => child.sets("system", json!(says)),
                    _ => child.begins_with(vec![json!({"role": "system", "content": says})]),
                }
            }
            assert_eq!(child.lands(&gateway, &time).await, LIMIT, "{named} {n}");
        }
        assert_eq!(parent.lands(&gateway, &time).await, LIMIT - 1);
    }
}

#[tokio::test]
async fn ten_questions_without_a_pause_are_ten_runs() {
    for api in APIS {
        let (_model, gateway, time) = model(Some(LIMIT - 1)).await;
        let manner = plain(api);
        let mut session = Session::new(&manner, "What does note 0 say?");
        for n in 1..=10 {
            assert_eq!(session.lands(&gateway, &time).await, LIMIT - 1, "question {n}");
            session.asks(&format!("And what about {}?", MATTERS[n - 1]));
        }
    }
}

const MATTERS: [&str; 10] = [
    "trains",
    "the weather",
    "music",
    "tea",
    "chess",
    "gardens",
    "old maps",
    "bread",
    "stars",
    "wool",
];

#[tokio::test]
async fn a_chat_that_has_landed_goes_on() {
    for api in APIS {
        let (_model, gateway, time) = model(None).await;
        let manner = plain(api);
        let mut session = Session::new(&manner, QUESTION);
        assert_eq!(session.lands(&gateway, &time).await, LIMIT);
        // After a pause, whatever is said; even the same once more.
        for text in ["Go on.", "Go on.", "What else?"] {
            time.passes(5000);
            session.asks(text);
            assert_eq!(session.lands(&gateway, &time).await, LIMIT, "{text}");
        }
        // At once, the second different message in any case.
        session.asks("And the trains?");
        let first = session.lands(&gateway, &time).await;
        session.asks("Then tell me of the weather.");
        let second = session.lands(&gateway, &time).await;
        assert!(first == LIMIT || second == LIMIT, "{first} and {second} calls");
    }
}

#[tokio::test]
async fn who_asks_for_another_answer_starts_from_what_the_history_shows() {
    for api in APIS {
        let (_model, gateway, time) = model(None).await;
        let manner = plain(api);
        let mut session = Session::new(&manner, QUESTION);
        assert_eq!(session.lands(&gateway, &time).await, LIMIT);
        for kept in [0, 2, 1] {
            session.rewinds(kept);
            assert_eq!(session.lands(&gateway, &time).await, LIMIT - kept as u64, "{kept} kept");
        }
    }
}
