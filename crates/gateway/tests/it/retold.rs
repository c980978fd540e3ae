//! Clients that tell their history in a form of their own: the summary as what a tool brought, or
//! calls and results as texts that no table knows. The run keeps its count (`docs/governing.md` §7),
//! and neighbours that look alike have counts of their own.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use serde_json::{Value, json};
use softland_session::wire::Api;

use crate::compaction::{Ids, LIMIT, calling, gateway, user};
use crate::support::Running;
use crate::support::client::{APIS, Client};
use crate::support::script::items;

const QUESTION: &str = "Look at the notes and say what is in them.";

/// A call that was made, and what came back.
#[derive(Clone)]
struct Made {
    id: String,
    path: String,
    result: String,
}

/// The forms in which a client tells what was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// A turn says what is called with its arguments, and the next message brings the result.
    Turns,
    /// The same with each call as a command that opens a line.
    Commands,
    /// The same with nothing but the calls' ids.
    Names,
    /// The first message grows at its end.
    Grows,
    /// The first message grows between its beginning and its end.
    Between,
    /// One turn of the model's tells of all.
    OneTurn,
}

const FORMS: [Told; 6] =
    [Told::Turns, Told::Commands, Told::Names, Told::Grows, Told::Between, Told::OneTurn];

fn said(api: Api, text: &str) -> Vec<Value> {
    items(api, &[json!({"type": "text", "text": text})])
}

/// Returns the history that tells of these calls.
fn tell(form: Told, api: Api, question: &str, made: &[Made]) -> Vec<Value> {
    let step = |(at, made): (usize, &Made)| {
        format!("{}. read_file(path={:?}) gave: {}", at + 1, made.path, made.result)
    };
    let steps = || made.iter().enumerate().map(step).collect::<Vec<_>>().join("\n");
    let turns = |call: &dyn Fn(&Made) -> String| {
        let mut history = vec![user(question)];
        for one in made {
            history.extend(said(api, &call(one)));
            history.push(user(&format!("This is what came back:\n{}", one.result)));
        }
        history
    };
    match form {
        Told::Turns => {
            turns(&|made| format!("I use read_file with {}", json!({"path": made.path})))
        }
        Told::Commands => turns(&|made| format!("> {}", made.path)),
        Told::Names => turns(&|made| format!("(the tool was used, see {})", made.id)),
        Told::Grows if made.is_empty() => vec![user(question)],
        Told::Grows => vec![user(&format!("{question}\n\nDone so far:\n{}", steps()))],
        Told::Between => {
            let steps = if made.is_empty() { "nothing yet".to_owned() } else { steps() };
            vec![user(&format!("{question}\n\nDone so far: {steps}\n\nWhat is to be done next?"))]
        }
        Told::OneTurn if made.is_empty() => vec![user(question)],
        Told::OneTurn => {
            let mut history = vec![user(question)];
            history.extend(said(api, &format!("So far I did this:\n{}", steps())));
            history.push(user("Go on."));
            history
        }
    }
}

/// One turn: notes the calls that are run. Returns how many there were.
async fn step(
    client: &mut Client,
    gateway: &Running,
    (form, question): (Told, &str),
    made: &mut Vec<Made>,
) -> usize {
    *client.messages() = tell(form, client.api, question, made);
    let (_, response) = client.turn(gateway).await;
    let calls = response.calls();
    for (id, _, input) in &calls {
        let path = input["path"].as_str().unwrap().to_owned();
        made.push(Made { id: id.clone(), result: format!("a note of {} words", path.len()), path });
    }
    calls.len()
}

#[tokio::test]
async fn a_history_in_a_form_that_nobody_knows_keeps_the_count_of_its_run() {
    let mut failed = Vec::new();
    for api in APIS {
        for form in FORMS {
            for ids in [Ids::Own, Ids::Same] {
                if form == Told::Names && ids == Ids::Same {
                    continue;
                }
                for name in ["accept: */*", "x-claude-code-session-id: c", "x-softland-run: r"] {
                    let provider = calling(ids).await;
                    let gateway = gateway(&provider).await;
                    let mut client = Client::on(api, true).with(name);
                    let mut made = Vec::new();
                    for _ in 0..=LIMIT + 4 {
                        if step(&mut client, &gateway, (form, QUESTION), &mut made).await == 0 {
                            break;
                        }
                    }
                    if made.len() != LIMIT {
                        failed.push(format!("{api:?} {form:?} {ids:?} {name}: {}", made.len()));
                    }
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Samples of one prompt, and users of one application who ask something else, each tell their own.
#[tokio::test]
async fn whoever_tells_a_history_of_its_own_has_its_own_count() {
    let mut failed = Vec::new();
    for api in APIS {
        for form in FORMS {
            for same in [true, false] {
                let provider = calling(Ids::Own).await;
                let gateway = gateway(&provider).await;
                let question = |n: usize| match same {
                    true => QUESTION.to_owned(),
                    false => format!("You are of help.\nWhat of matter {}?\nUse tools.", n * 7),
                };
                let mut all = vec![(Client::on(api, true), Vec::new(), false); 5];
                for _ in 0..=LIMIT + 4 {
                    for (n, (client, made, over)) in all.iter_mut().enumerate() {
                        if !*over {
                            let told = (form, &*question(n));
                            *over = step(client, &gateway, told, made).await == 0;
                        }
                    }
                }
                let ran: Vec<usize> = all.iter().map(|(_, made, _)| made.len()).collect();
                if ran != vec![LIMIT; all.len()] {
                    failed.push(format!("{api:?} {form:?} same {same}: {ran:?}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// What an application says in every conversation, a person's own words, and another agent's report
/// mention calls, too.
#[tokio::test]
async fn a_mention_alone_joins_nobody() {
    for api in APIS {
        let provider = calling(Ids::Own).await;
        let gateway = gateway(&provider).await;
        let mut first = Client::on(api, true).asking(QUESTION);
        let mut made = Vec::new();
        for _ in 0..4 {
            step(&mut first, &gateway, (Told::Turns, QUESTION), &mut made).await;
        }
        let path = &made[1].path;
        let report = format!("Another agent called read_file(path={path:?}). Was that right?");
        let asked = [
            report.clone(),
            format!("{QUESTION}\nBut only what stands in {path}."),
            format!("Look at the notes.\n{report}\nAnd say what is in them."),
        ];
        for question in asked {
            let mut other = Client::on(api, true).asking(&question);
            let (message, _) = other.turn(&gateway).await;
            let counted = message.header("x-softland-tool-calls").unwrap();
            assert_eq!(counted, format!("0/{LIMIT}"), "{api:?} {question}");
        }
    }
}

/// The places of a summary that a tool of the client's own brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Brought {
    /// Behind the question.
    Question,
    /// Behind another message.
    Other,
    /// Behind another call of the client's own.
    Later,
}

/// Asks for a summary, and goes on with a history in which a tool brought it.
async fn bring(client: &mut Client, gateway: &Running, place: Brought, n: usize) {
    let mut asking = client.clone();
    asking.body["tools"] = json!([]);
    asking.says("A summary of that, please, for whoever goes on with it.");
    let (_, response) = asking.turn(gateway).await;
    let summary = response.text();
    let call = |name: &str| json!({"type": "tool_use", "id": format!("{name}_{n}"), "name": name, "input": {}});
    let api = client.api;
    let result = |name: &str, text: &str| {
        let id = format!("{name}_{n}");
        match api {
            Api::Anthropic => json!({"role": "user",
                "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}),
            Api::Chat => json!({"role": "tool", "tool_call_id": id, "content": text}),
            Api::Responses => json!({"type": "function_call_output", "call_id": id,
                "output": text}),
        }
    };
    let mut history = match place {
        Brought::Question => vec![user(QUESTION)],
        Brought::Other | Brought::Later => vec![user("Go on with the work.")],
    };
    if place == Brought::Later {
        history.extend(items(api, &[call("plan")]));
        history.push(result("plan", "The plan is to go on."));
    }
    history.extend(items(api, &[call("recall")]));
    history.push(result("recall", &summary));
    *client.messages() = history;
}

#[tokio::test]
async fn a_summary_that_a_tool_brings_keeps_the_count_of_its_run() {
    let mut failed = Vec::new();
    for api in APIS {
        for place in [Brought::Question, Brought::Other, Brought::Later] {
            for ids in [Ids::Own, Ids::Same] {
                let provider = calling(ids).await;
                let gateway = gateway(&provider).await;
                let mut client = Client::on(api, true);
                let mut ran = 0;
                for request in 1..=2 * LIMIT {
                    let (_, response) = client.turn(&gateway).await;
                    if response.calls().is_empty() {
                        break;
                    }
                    ran += response.calls().len();
                    if request % 5 == 0 {
                        bring(&mut client, &gateway, place, request).await;
                    }
                }
                if ran != LIMIT {
                    failed.push(format!("{api:?} {place:?} {ids:?}: {ran}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
