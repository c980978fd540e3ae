//! A run keeps its count whatever its client does to the history: replaces it by a summary, keeps
//! its newest part, moves notes in it (`docs/governing.md` §7). And nobody has another's count.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in test helpers to panic is to fail the test"
)]

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::client::{APIS, Client};
use crate::support::script::{Form, whole};
use crate::support::sim::governed;
use crate::support::{Message, Provider, Running};
use serde_json::{Value, json};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

/// The limit of a run.
pub(crate) const LIMIT: usize = 20;

/// The form in which a backend names its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    /// Each by a name of its own.
    Own,
    /// Each alike.
    Same,
}

const ANSWER: &str = "It is done. The notes were read from the first to the last, and each of them \
     tells of an afternoon: of the walk along the river, of the books that were bought, of the people \
     who were met, and of what was eaten in the evening.";

/// Returns the model's answer to a request for a summary: each is different, and long enough to be
/// recognized.
pub(crate) fn summary(n: usize) -> String {
    format!(
        "<summary>\n1. Request: to look at the notes ({n}).\n2. Done: some of the notes were read, \
         which tell of afternoons by the river, of books that were bought and of people who were met; \
         those of {n} are the newest.\n3. Next: the other notes, from {n} on.\n</summary>"
    )
}

/// Claude Code's request for a summary.
const WANTED: &str = "Your task is to create a detailed summary of the conversation so far";

/// A provider whose model calls a tool as long as it is let, each time with other arguments.
pub(crate) async fn calling(ids: Ids) -> Provider {
    let count = AtomicUsize::new(0);
    Provider::does(move |asked, wire| {
        let n = count.fetch_add(1, Ordering::SeqCst);
        async move {
            let body: Value = serde_json::from_slice(&asked.body).unwrap();
            let none = body["tool_choice"] == "none" || body["tool_choice"]["type"] == "none";
            let id =
                if ids == Ids::Own { format!("toolu_{n:08}abcd") } else { "call_0".to_owned() };
            // Long enough for its results to tell whose they are.
            let input = json!({"path": format!("notes/{n}/{}", "of an afternoon/".repeat(14))});
            let call = json!({"type": "tool_use", "id": id, "name": "read_file", "input": input});
            let said = asked.text();
            let answer = if said.contains("summary") { summary(n) } else { ANSWER.to_owned() };
            let text = json!({"type": "text", "text": answer});
            let tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
            let ends = none || said.contains("Say it now") || said.contains(WANTED);
            let calls = tools && !ends;
            let (block, stop) = if calls { (call, "tool_use") } else { (text, "end_turn") };
            wire.lock().await.send(whole(Form::of(&asked), &[block], stop)).await;
            true
        }
    })
    .await
}

pub(crate) async fn gateway(provider: &Provider) -> Running {
    let keys = [("tool_calls_limit", Key::Int(LIMIT as i128))];
    Running::with(governed(&provider.url(), &keys)).await
}

/// The ways in which a client compacts its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Everything becomes one summary with a known opening, behind what the harness says first.
    Summary,
    /// The summary has no known opening.
    Unknown,
    /// The question stays, and a summary with a known opening comes behind it.
    Question,
    /// A summary, and the newest rounds as they were.
    Tail,
    /// The question and the newest rounds.
    Window,
    /// The first round stays, too, and a summary with a known opening.
    First,
    /// The newest rounds stand behind a summary in the model's turn and a nudge.
    Answered,
    /// The model is asked for a summary, in known words and with the tools, and everything becomes
    /// that.
    Asked,
    /// The same without tools, behind the history.
    Apart,
    /// The same in one message, which holds the results as text, in words that nobody knows.
    Told,
    /// It is asked for in known words, and the history opens with the model's turn that brought it.
    Turn,
}

/// Asks for a summary, and goes on with that alone.
async fn sum_up(client: &mut Client, gateway: &Running, way: Way) {
    let mut asking = client.clone();
    match way {
        Way::Asked | Way::Turn => asking.says(WANTED),
        _ => asking.body["tools"] = json!([]),
    }
    match way {
        Way::Apart => {
            asking.says("Sum up all of that in a short summary, for whoever goes on with it.")
        }
        Way::Told => {
            let told: Vec<String> = client
                .messages()
                .iter()
                .map(|message| {
                    let text = |value: &Value| match value {
                        Value::String(text) => text.clone(),
                        other => other[0]["content"].as_str().unwrap_or_default().to_owned(),
                    };
                    let said = if message["output"].is_null() {
                        &message["content"]
                    } else {
                        &message["output"]
                    };
                    format!("[Tool result]: {}", text(said))
                })
                .collect();
            asking = asking.asking(&format!("{}\n\nA summary of that, please.", told.join("\n\n")));
        }
        _ => {}
    }
    let (_, response) = asking.turn(gateway).await;
    let said = response.content.iter().find_map(|block| block["text"].as_str()).unwrap().to_owned();
    if way == Way::Turn {
        *client.messages() = vec![json!({"role": "assistant", "content": said})];
        return;
    }
    let said = said.replace("<summary>", "").replace("</summary>", "");
    *client =
        client.clone().asking(&format!("This is where we stand:\n\n{said}\n\nGo on with it."));
}

const SUMMARIES: [&str; 2] = [
    "Another language model started to solve this problem and produced a \
     summary of its thinking process.",
    "These are my notes of what was done before.",
];

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Returns true if a message or item is the client's own.
fn is_clients(message: &Value) -> bool {
    message["role"] == "user"
        || message["role"] == "tool"
        || message["type"] == "function_call_output"
}

/// The last `rounds` turns of a history with what came back.
fn tail(history: &[Value], rounds: usize) -> Vec<Value> {
    let starts = (1..history.len()).rev();
    let starts = starts.filter(|at| !is_clients(&history[*at]) && is_clients(&history[*at - 1]));
    let start = starts.take(rounds).last().unwrap_or(history.len());
    history[start..].to_vec()
}

/// The first turn of a history with what came back, and what stands before it.
fn head(history: &[Value]) -> Vec<Value> {
    let ends = |at: &usize| {
        is_clients(&history[*at]) && history.get(at + 1).is_none_or(|n| !is_clients(n))
    };
    let end = (1..history.len()).find(ends).unwrap_or(0);
    history[..=end].to_vec()
}

fn compacted(way: Way, history: &[Value], n: usize) -> Vec<Value> {
    let known = user(&format!("{} Time {n}.", SUMMARIES[0]));
    let unknown = user(&format!("{} Time {n}.", SUMMARIES[1]));
    let question = history[0].clone();
    let env = user("<environment_context>\n<cwd>/work</cwd>\n</environment_context>");
    let mut new = match way {
        Way::Summary => vec![env, known],
        Way::Question => vec![env, question, known],
        Way::Unknown | Way::Tail | Way::Asked | Way::Apart | Way::Told | Way::Turn => {
            vec![unknown]
        }
        Way::Window => vec![question],
        Way::First => {
            let mut head = head(history);
            head.push(known);
            head
        }
        Way::Answered => vec![
            user("What did we do so far?"),
            json!({"role": "assistant", "content": format!("This was done, in short: {n}.")}),
            user("Continue if you have next steps, or stop."),
        ],
    };
    if matches!(way, Way::Tail | Way::Window | Way::Answered) {
        new.extend(tail(history, 3));
    }
    new
}

fn counted(message: &Message) -> String {
    message.header("x-softland-tool-calls").unwrap_or_else(|| panic!("{message:?}")).to_owned()
}

/// Works until it is landed, compacting whenever `every` more rounds were made; returns the calls
/// that it ran, and what was counted before each of its turns, with each run that is a new one.
async fn works(client: &mut Client, gateway: &Running, way: Way, every: usize) -> (usize, String) {
    let (mut ran, mut trail, mut run) = (0, String::new(), String::new());
    for request in 1..=2 * LIMIT {
        let (message, response) = client.turn(gateway).await;
        if run_of(&message) != run {
            run = run_of(&message);
            trail += "run ";
        }
        trail += &format!("{} ", counted(&message));
        let calls = response.calls().len();
        if calls == 0 {
            return (ran, trail);
        }
        ran += calls;
        if request % every != 0 {
            continue;
        }
        if matches!(way, Way::Asked | Way::Apart | Way::Told | Way::Turn) {
            sum_up(client, gateway, way).await;
        } else {
            let new = compacted(way, client.messages(), request);
            *client.messages() = new;
        }
    }
    (ran, trail + "and it goes on")
}

const NAMES: [&str; 4] =
    ["accept: */*", "x-claude-code-session-id: c", "x-softland-session: s", "x-softland-run: r"];

#[tokio::test]
async fn a_run_keeps_its_count_behind_whatever_its_client_makes_of_the_history() {
    let ways = [
        // By its own name, or by a user's and what the summary opens with.
        (Way::Summary, &NAMES[1..]),
        (Way::Question, &NAMES[1..]),
        (Way::Unknown, &NAMES[1..2]),
        // By its newest calls, or what stands before the summary, whoever it is.
        (Way::Tail, &NAMES[..]),
        (Way::Window, &NAMES[..]),
        (Way::First, &NAMES[..]),
        (Way::Answered, &NAMES[..]),
        // By its summary.
        (Way::Asked, &NAMES[..]),
        (Way::Apart, &NAMES[..]),
        (Way::Told, &NAMES[..]),
        (Way::Turn, &NAMES[..]),
    ];
    let mut failed = Vec::new();
    for api in APIS {
        for (way, names) in ways {
            for name in names {
                for ids in [Ids::Own, Ids::Same] {
                    let provider = calling(ids).await;
                    let gateway = gateway(&provider).await;
                    let mut client = Client::on(api, true).with(name);
                    let (ran, trail) = works(&mut client, &gateway, way, 5).await;
                    // What no one knows for a request for a summary is an answer, and at the limit a
                    // summary is what the run is landed with.
                    let runs = trail.trim_end_matches("run 20/20 ").matches("run").count();
                    let one = way == Way::Apart || runs <= 1;
                    if ran != LIMIT || !one {
                        failed.push(format!("{api:?} {way:?} {ids:?} {name}: {ran}: {trail}"));
                    }
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn run_of(message: &Message) -> String {
    message.header("x-softland-run").unwrap_or_else(|| panic!("{message:?}")).to_owned()
}

/// Takes turns in the order of the clients until each has had so many: what each was counted before
/// each of its turns, and its runs.
async fn in_turn(
    clients: &mut [Client],
    gateway: &Running,
    turns: usize,
) -> Vec<(Vec<String>, String)> {
    let mut told = vec![(Vec::new(), String::new()); clients.len()];
    for _ in 0..turns {
        for (client, told) in clients.iter_mut().zip(&mut told) {
            let (message, _) = client.turn(gateway).await;
            told.0.push(counted(&message));
            if told.1.is_empty() {
                told.1 = run_of(&message);
            }
            assert_eq!(told.1, run_of(&message), "one run");
        }
    }
    told
}

/// Each has a count and a run of its own, from this one on.
fn each_has_its_own(told: &[(Vec<String>, String)], from: usize, what: &str) {
    let runs: std::collections::BTreeSet<_> = told.iter().map(|(_, run)| run).collect();
    assert_eq!(runs.len(), told.len(), "{what}");
    for (counts, _) in told {
        let expected: Vec<String> =
            (0..counts.len()).map(|n| format!("{}/{LIMIT}", from + n)).collect();
        assert_eq!(*counts, expected, "{what}");
    }
}

#[tokio::test]
async fn whoever_asks_the_same_has_a_count_of_its_own() {
    for api in APIS {
        for (ids, name, many) in [
            (Ids::Own, "accept: */*", 50),
            (Ids::Same, "accept: */*", 50),
            (Ids::Own, "x-softland-session: s", 10),
            (Ids::Same, "x-softland-session: s", 10),
            (Ids::Own, "x-litellm-session-id: s", 10),
        ] {
            let provider = calling(ids).await;
            let gateway = gateway(&provider).await;
            let mut clients = vec![Client::on(api, true).with(name); many];
            let told = in_turn(&mut clients, &gateway, 3).await;
            each_has_its_own(&told, 0, &format!("{api:?} {ids:?} {name}"));
        }
    }
}

#[tokio::test]
async fn users_of_one_application_have_counts_of_their_own() {
    for api in [Api::Chat, Api::Responses] {
        let provider = calling(Ids::Same).await;
        let gateway = gateway(&provider).await;
        let of_app = |question: &str| {
            let client = Client::on(api, true).asking(question);
            client.set("prompt_cache_key", json!("app")).set("user", json!("app"))
        };
        let mut clients = ["How is the weather?", "What is the time?"].map(of_app);
        each_has_its_own(&in_turn(&mut clients, &gateway, 4).await, 0, &format!("{api:?}"));
        let mut later = [of_app("How is the weather?"), of_app("And tomorrow?")];
        each_has_its_own(&in_turn(&mut later, &gateway, 4).await, 0, &format!("{api:?}, later"));
    }
}

#[tokio::test]
async fn a_name_that_others_may_have_finds_the_only_conversation_that_a_summary_can_be_of() {
    for (key, value) in [
        ("prompt_cache_key", json!("k")),
        ("user", json!("u")),
        ("metadata", json!({"session": "s"})),
    ] {
        let provider = calling(Ids::Same).await;
        let gateway = gateway(&provider).await;
        let mut client = Client::on(Api::Chat, true).set(key, value);
        let (ran, trail) = works(&mut client, &gateway, Way::Question, 5).await;
        assert_eq!(ran, LIMIT, "{key}: {trail}");
    }
}

#[tokio::test]
async fn an_agent_that_is_told_what_another_has_found_has_a_count_of_its_own() {
    for api in APIS {
        for name in NAMES {
            let provider = calling(Ids::Same).await;
            let gateway = gateway(&provider).await;
            let mut one = Client::on(api, true).with(name);
            in_turn(std::slice::from_mut(&mut one), &gateway, 4).await;
            one.says("Say it now");
            let (_, response) = one.turn(&gateway).await;
            assert!(response.calls().is_empty());
            let quoted = format!("Another agent has found this:\n\n{ANSWER}\n\nIs it true?");
            let mut other = Client::on(api, true).with(name).asking(&quoted);
            let told = in_turn(std::slice::from_mut(&mut other), &gateway, 3).await;
            each_has_its_own(&told, 0, &format!("{api:?} {name}"));
        }
    }
}

#[tokio::test]
async fn calls_that_every_conversation_shows_are_nobodys() {
    for api in APIS {
        for name in ["accept: */*", "x-softland-session: s"] {
            let provider = calling(Ids::Own).await;
            let gateway = gateway(&provider).await;
            let with_examples = |n: usize| {
                let example = |n: usize| {
                    json!({"type": "tool_use", "id": format!("toolu_example{n:04}"),
                        "name": "read_file", "input": {"path": format!("example/{n}")}})
                };
                let mut client = Client::on(api, true).with(name).asking("Show me how.");
                client.takes(&[example(0)]);
                client.takes(&[example(1)]);
                client.takes(&[json!({"type": "text", "text": "That is how it is done."})]);
                client.says(&format!("Now look at the notes of day {n}."));
                client
            };
            let mut clients: Vec<Client> = (0..6).map(with_examples).collect();
            let told = in_turn(&mut clients, &gateway, 3).await;
            each_has_its_own(&told, 0, &format!("{api:?} {name}"));
        }
    }
}

#[tokio::test]
async fn sub_agents_under_their_parents_name_have_counts_of_their_own() {
    let provider = calling(Ids::Own).await;
    let gateway = gateway(&provider).await;
    let of = |system: &str, question: &str| {
        let client = Client::on(Api::Anthropic, true).with("x-claude-code-session-id: c");
        client.asking(question).set("system", json!(system))
    };
    let mut agents = [
        of("You lead.", "Look at everything."),
        of("You search.", "Search for the first."),
        of("You read.", "Read the second."),
    ];
    each_has_its_own(&in_turn(&mut agents, &gateway, 4).await, 0, "by their prompts");
}

/// The counts that no transcript shows continue, too: tokens and money.
#[tokio::test]
async fn tokens_and_money_are_not_had_anew_behind_a_compaction() {
    // Each request of the provider's is billed 1,050 tokens, $0.00375.
    for (key, value, most) in
        [("tokens_limit", Key::Int(30_000), 28), ("cost_limit_usd", Key::Float(0.12), 32)]
    {
        for (way, name) in [
            (Way::Tail, "accept: */*"),
            (Way::Window, "accept: */*"),
            (Way::Told, "accept: */*"),
            (Way::Summary, "x-claude-code-session-id: c"),
            (Way::Question, "x-softland-session: s"),
        ] {
            let provider = calling(Ids::Same).await;
            let keys = [(key, value.clone()), ("tool_calls_limit", Key::Int(500))];
            let gateway = Running::with(governed(&provider.url(), &keys)).await;
            let mut client = Client::on(Api::Anthropic, true).with(name);
            let (ran, trail) = works(&mut client, &gateway, way, 5).await;
            assert!(!trail.contains("and it goes on"), "{key} {way:?}: {ran}: {trail}");
            assert!(provider.count() <= most, "{key} {way:?}: {}: {trail}", provider.count());
        }
    }
}

/// A client that puts the time into its newest message, and takes it out again, changes what stands
/// before every later turn.
#[tokio::test]
async fn a_note_that_moves_on_begins_no_run() {
    for api in APIS {
        for (ids, name) in [(Ids::Own, "accept: */*"), (Ids::Same, "agent-session-id: 20261126_1")]
        {
            let provider = calling(ids).await;
            let keys = [("tokens_limit", Key::Int(20_000))];
            let gateway = Running::with(governed(&provider.url(), &keys)).await;
            let mut client = Client::on(api, true).with(name);
            let mut runs = std::collections::BTreeSet::new();
            let mut landed = false;
            for minute in 0..30 {
                let mut noted = client.clone();
                noted.says(&format!("<info-msg>It is 12:{minute:02}.</info-msg>"));
                let (message, response) = noted.turn(&gateway).await;
                runs.insert(run_of(&message));
                landed = response.calls().is_empty();
                if landed {
                    break;
                }
                client.takes_response(&response);
            }
            assert_eq!(runs.len(), 1, "{api:?} {ids:?} {name}");
            assert!(
                landed,
                "{api:?} {ids:?} {name}: 30 requests of 1,050 tokens each under 20,000"
            );
        }
    }
}
