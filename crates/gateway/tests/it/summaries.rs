//! A run keeps its count behind a summary that its client has written anew, behind a short one, and
//! where a limit landed the request for it (`docs/governing.md` §7).

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in test helpers to panic is to fail the test"
)]

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

use crate::compaction::{Ids, LIMIT, calling, gateway, user};
use crate::support::client::{APIS, Client};
use crate::support::reading::Response;
use crate::support::script::{Form, whole};
use crate::support::sim::governed;
use crate::support::{Message, Provider, Running};

/// Claude Code's request for a summary.
const WANTED: &str = "Your task is to create a detailed summary of the conversation so far";

/// A request for a summary in the words that anybody would use.
const SUM_UP: &str = "Summarize our conversation so far. Say it now, in a short summary.";

/// Returns the history behind a compaction; the question and the summary are given.
type Compacted = fn(&str, &str) -> Vec<Value>;

/// Asks for a summary.
async fn sum_up(client: &Client, gateway: &Running, wanted: &str, tools: bool) -> String {
    let mut asking = client.clone();
    asking.says(wanted);
    if !tools {
        asking.body["tools"] = json!([]);
    }
    let (_, response) = asking.turn(gateway).await;
    text_of(&response)
}

fn text_of(response: &Response) -> String {
    let text = response.content.iter().find_map(|block| block["text"].as_str());
    text.unwrap_or_else(|| panic!("no text: {response:?}")).to_owned()
}

/// Works until it is landed and compacts its history after each `every` rounds. Returns the calls
/// that it ran.
async fn work(
    client: &mut Client,
    gateway: &Running,
    every: usize,
    (wanted, tools): (&str, bool),
    compacted: Compacted,
) -> usize {
    let mut ran = 0;
    let question = client.messages()[0]["content"].as_str().unwrap().to_owned();
    for request in 1..=2 * LIMIT {
        let (_, response) = client.turn(gateway).await;
        if response.calls().is_empty() {
            return ran;
        }
        ran += response.calls().len();
        if request % every == 0 {
            let summary = sum_up(client, gateway, wanted, tools).await;
            *client.messages() = compacted(&question, &summary);
        }
    }
    ran
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn wrapped(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.chunks(7).map(|line| line.join(" ") + "\n").collect()
}

const FORMS: [(&str, Compacted); 12] = [
    ("joined", |_, said| vec![user(&said.split_whitespace().collect::<Vec<_>>().join(" "))]),
    ("wrapped", |_, said| vec![user(&wrapped(said))]),
    ("quoted", |_, said| vec![user(&format!("> {}", wrapped(said).replace('\n', "\n> ")))]),
    ("in JSON", |_, said| vec![user(&json!({ "summary": said }).to_string())]),
    ("in XML", |_, said| {
        let said = said.replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&apos;");
        vec![user(&format!("<memory>{said}</memory>"))]
    }),
    ("numbered", |_, said| {
        let lines = said.lines().enumerate().map(|(n, line)| format!("{:>5}\t{line}\n", n + 1));
        vec![user(&lines.collect::<String>())]
    }),
    ("behind the question", |question, said| {
        vec![user(question), user(&format!("So far: {}", wrapped(said)))]
    }),
    ("before a second message", |_, said| {
        vec![user(said), user("Go on with the work where it was left.")]
    }),
    ("as the model's turn", |_, said| vec![assistant(said)]),
    ("as the model's turn behind the question", |question, said| {
        vec![user(question), assistant(said), user("Go on where you stopped, please.")]
    }),
    ("as the model's turn and a word", |_, said| {
        vec![user("What was done so far?"), assistant(said), user("Continue.")]
    }),
    ("as the model's turn and a new message", |_, said| {
        vec![assistant(said), user("Read the rest of the notes, too.")]
    }),
];

#[tokio::test]
async fn a_summary_is_found_however_its_client_writes_it() {
    let requests = [
        ("known words", (WANTED, true)),
        ("known words, without tools", (WANTED, false)),
        (
            "unknown words, without tools",
            ("Now write down where this stands. It is a summary.", false),
        ),
        ("generic words", (SUM_UP, true)),
    ];
    let mut failed = Vec::new();
    for api in APIS {
        for (form, compacted) in FORMS {
            for (request, asked) in requests {
                let provider = calling(Ids::Same).await;
                let gateway = gateway(&provider).await;
                let mut client = Client::on(api, false);
                let ran = work(&mut client, &gateway, 5, asked, compacted).await;
                if ran != LIMIT {
                    failed.push(format!("{api:?}, {form}, {request}: {ran}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The words of a model that was told to answer now.
const LANDED: &str = "as far as there was room";

/// A provider whose model sums up in a few words, different each time.
async fn terse() -> Provider {
    let count = AtomicUsize::new(0);
    Provider::does(move |asked, wire| {
        let n = count.fetch_add(1, Ordering::SeqCst);
        async move {
            let body: Value = serde_json::from_slice(&asked.body).unwrap();
            let none = body["tool_choice"] == "none" || body["tool_choice"]["type"] == "none";
            let tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
            let sums_up = asked.text().contains(WANTED);
            let told = if asked.text().contains("Answer now with") { LANDED } else { "so far" };
            let text = format!("Of the notes {n} were read, {told}.");
            let text = json!({"type": "text", "text": text});
            let path = json!({"path": format!("notes/{n}")});
            let call =
                json!({"type": "tool_use", "id": "call_0", "name": "read_file", "input": path});
            let (block, stop) = match tools && !none && !sums_up {
                true => (call, "tool_use"),
                false => (text, "end_turn"),
            };
            wire.lock().await.send(whole(Form::of(&asked), &[block], stop)).await;
            true
        }
    })
    .await
}

#[tokio::test]
async fn a_short_summary_is_found_as_a_whole() {
    for api in APIS {
        for (form, compacted) in [
            ("alone", (|_, said| vec![user(said)]) as Compacted),
            ("within", |_, said| vec![user(&format!("What was done:\n\n{said}\n\nGo on."))]),
            ("in tags", |q, said| vec![user(q), user(&format!("<summary>\n{said}\n</summary>"))]),
            ("as a turn", |q, said| vec![user(q), assistant(said), user("Go on, please.")]),
        ] {
            for tools in [true, false] {
                let provider = terse().await;
                let gateway = gateway(&provider).await;
                let mut client = Client::on(api, false);
                let ran = work(&mut client, &gateway, 5, (WANTED, tools), compacted).await;
                assert_eq!(ran, LIMIT, "{api:?}, {form}, {tools}");
            }
        }
    }
}

/// A client that gives its conversation a name is found by that, whatever it makes of the summary.
#[tokio::test]
async fn a_request_for_a_summary_without_tools_leaves_the_conversation_its_tools() {
    for api in APIS {
        let provider = terse().await;
        let gateway = gateway(&provider).await;
        let mut client = Client::on(api, false).with("x-claude-code-session-id: c");
        let lost: Compacted = |_, _| vec![user("Something else than what was said.")];
        let ran = work(&mut client, &gateway, 5, (WANTED, false), lost).await;
        assert_eq!(ran, LIMIT, "{api:?}");
    }
}

/// Where the money ends with the request for a summary, its client goes on with what that brought.
#[tokio::test]
async fn money_is_not_had_anew_behind_a_landed_summary() {
    for (form, compacted) in [
        ("alone", (|_, said| vec![user(said)]) as Compacted),
        ("behind the question", |q, said| vec![user(q), user(&format!("So far: {said}"))]),
        ("before a new word", |_, said| {
            let number: String = said.chars().filter(char::is_ascii_digit).collect();
            vec![user(said), user(&format!("Continue with the work behind note {number}."))]
        }),
    ] {
        for tools in [true, false] {
            let mut landed = 0;
            // Each request of the provider's is billed 1,050 tokens of gpt-4.1.
            for limit in (0..9).map(|requests| f64::from(requests).mul_add(0.0012, 0.08)) {
                let provider = terse().await;
                let keys = [("cost_limit_usd", Key::Float(limit))];
                let gateway = Running::with(governed(&provider.url(), &keys)).await;
                let mut client = Client::on(Api::Chat, false).limited(100);
                let mut was_landed = false;
                for _ in 0..60 {
                    let (_, response) = client.turn(&gateway).await;
                    if response.calls().is_empty() {
                        break;
                    }
                    assert!(!was_landed, "{form}, {tools}: it goes on behind its landing");
                    let said = sum_up(&client, &gateway, WANTED, tools).await;
                    was_landed = said.contains("softland") || said.contains(LANDED);
                    landed += usize::from(was_landed);
                    *client.messages() = compacted("Look at the notes.", &said);
                }
            }
            assert!(landed > 0 || !tools, "{form}: no summary was landed");
        }
    }
}

/// What a summary quotes of the question says nothing about who asks it again.
#[tokio::test]
async fn a_question_that_a_summary_quotes_is_asked_anew() {
    let question = "Please look at all of the notes that were written in the year 2026, one after \
                    the other, and say of each of them in one sentence what it is about, who is in \
                    it, and whether it tells of something that should be done before the winter.";
    for api in APIS {
        let quoting = question.to_owned();
        let provider = Provider::does(move |asked, wire| {
            let sums_up = asked.text().contains(WANTED);
            let text = json!({"type": "text", "text": format!("It was asked: {quoting}\nNothing is \
                done so far, and so there is nothing to tell but what there was to be done, which \
                is a lot, since nobody has looked at the notes before, and there are many of them.")});
            let call = json!({"type": "tool_use", "id": "call_0", "name": "read_file",
                "input": {"path": "notes/1"}});
            let (block, stop) = if sums_up { (text, "end_turn") } else { (call, "tool_use") };
            async move {
                wire.lock().await.send(whole(Form::of(&asked), &[block], stop)).await;
                true
            }
        })
        .await;
        let gateway = gateway(&provider).await;
        let mut first = Client::on(api, false).asking(question);
        for _ in 0..3 {
            first.turn(&gateway).await;
        }
        sum_up(&first, &gateway, WANTED, true).await;
        let mut second = Client::on(api, false).asking(&format!("{question} Begin with the last."));
        let (message, _) = second.turn(&gateway).await;
        let counted = message.header("x-softland-tool-calls").unwrap();
        assert_eq!(counted, format!("0/{LIMIT}"), "{api:?}");
    }
}

/// Returns the results that a history shows.
fn results_of(client: &mut Client) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let results = client.messages().iter().filter_map(|message| match message["role"].as_str() {
        Some("user") => text(&message["content"][0]["content"]),
        Some("tool") => text(&message["content"]),
        _ => text(&message["output"]),
    });
    results.collect()
}

/// Asks without tools, in one message.
async fn ask_apart(client: &Client, gateway: &Running, text: &str) -> String {
    let mut asking = client.clone().asking(text);
    asking.body["tools"] = json!([]);
    text_of(&asking.turn(gateway).await.1)
}

/// A planner without tools is told what an agent has found, and other agents begin with its plan.
#[tokio::test]
async fn who_begins_with_a_plan_has_a_count_of_its_own() {
    for api in APIS {
        let provider = calling(Ids::Same).await;
        let gateway = gateway(&provider).await;
        let mut agent = Client::on(api, false);
        for _ in 0..4 {
            agent.turn(&gateway).await;
        }
        let found = results_of(&mut agent).join("\n\n");
        let plan = ask_apart(&agent, &gateway, &format!("{found}\n\nA plan: a summary.")).await;
        for n in 0..3 {
            let tool = json!([match api {
                Api::Anthropic => json!({"name": "draw", "input_schema": {"type": "object"}}),
                Api::Chat => json!({"type": "function", "function": {"name": "draw"}}),
                Api::Responses => json!({"type": "function", "name": "draw", "parameters": {}}),
            }]);
            let worker = Client::on(api, false).set("tools", tool);
            let mut worker = worker.asking(&format!("{plan}\n\nDo what is number {n}."));
            let (message, _) = worker.turn(&gateway).await;
            let counted = message.header("x-softland-tool-calls").unwrap();
            assert_eq!(counted, format!("0/{LIMIT}"), "{api:?}, {n}");
        }
    }
}

/// Works until it is landed, and puts a summary of the results in place of the history after each
/// `every` rounds. Returns the calls that it ran.
async fn work_from_results(
    api: Api,
    every: usize,
    sum_up: impl AsyncFn(&Client, &Running, &[String]) -> String,
) -> usize {
    let provider = calling(Ids::Same).await;
    let gateway = gateway(&provider).await;
    let mut client = Client::on(api, false);
    for request in 1..=2 * LIMIT {
        let (_, response) = client.turn(&gateway).await;
        if response.calls().is_empty() {
            return request - 1;
        }
        if request % every == 0 {
            let results = results_of(&mut client);
            let summary = sum_up(&client, &gateway, &results).await;
            *client.messages() = vec![user(&summary)];
        }
    }
    2 * LIMIT
}

/// The parts of a history are summed up without tools, and then their summaries.
#[tokio::test]
async fn a_summary_of_summaries_is_found() {
    for api in APIS {
        let ran = work_from_results(api, 4, async |client, gateway, results| {
            let mut parts = Vec::new();
            for half in results.chunks(2) {
                let text = format!("{}\n\nBriefly: a summary.", half.join("\n\n"));
                let part = ask_apart(client, gateway, &text).await;
                parts.push(part.replace("<summary>", "").replace("</summary>", ""));
            }
            let text = format!("Make one of these:\n\n{}", parts.join("\n\n"));
            ask_apart(client, gateway, &text).await
        });
        assert_eq!(ran.await, LIMIT, "{api:?}");
    }
}

/// Writes pieces of results into one text.
type Joined = fn(&[&str]) -> String;

/// Ways in which a client writes pieces of results into one text.
const PIECES: [(&str, Joined); 5] = [
    ("lines with a label", |pieces| pieces.iter().map(|one| format!("TOOL: {one}...\n")).collect()),
    ("JSON", |pieces| {
        json!(pieces.iter().map(|one| json!({"result": one})).collect::<Vec<_>>()).to_string()
    }),
    ("XML", |pieces| pieces.iter().map(|one| format!("<result>{one}</result> ")).collect()),
    ("a list", |pieces| pieces.iter().map(|one| format!("* {one}\n")).collect()),
    ("JSON in JSON", |pieces| json!([json!(pieces).to_string()]).to_string()),
];

/// Returns the first characters of each text.
fn cut(texts: &[String], most: usize) -> Vec<&str> {
    texts.iter().map(|text| text.get(..most).unwrap_or(text)).collect()
}

/// A client tells of many results, of each no more than a piece that is too short to be known alone.
#[tokio::test]
async fn a_summary_of_short_pieces_of_results_is_found() {
    for api in APIS {
        for (name, written) in PIECES {
            let ran = work_from_results(api, 5, async |client, gateway, results| {
                let text = format!("{}\nBriefly: a summary.", written(&cut(results, 90)));
                ask_apart(client, gateway, &text).await
            });
            assert_eq!(ran.await, LIMIT, "{api:?}, {name}");
        }
    }
}

/// What a request quotes has to be 200 characters in all: less of it may stand anywhere.
#[tokio::test]
async fn few_or_tiny_pieces_of_results_find_nothing() {
    for (rounds, most) in [(3, 90), (8, 30)] {
        let provider = calling(Ids::Same).await;
        let gateway = gateway(&provider).await;
        let mut agent = Client::on(Api::Chat, false);
        for _ in 0..rounds {
            agent.turn(&gateway).await;
        }
        let results = results_of(&mut agent);
        let text = format!("{}\nBriefly: a summary.", cut(&results, most).join("\n"));
        let summary = ask_apart(&agent, &gateway, &text).await;
        *agent.messages() = vec![user(&summary)];
        let (message, _) = agent.turn(&gateway).await;
        assert_eq!(message.header("x-softland-tool-calls"), Some(format!("0/{LIMIT}").as_str()));
    }
}

/// Returns the number of calls that a response's header counts.
fn counted_calls(message: &Message) -> usize {
    let counted = message.header("x-softland-tool-calls").unwrap();
    counted.split_once('/').unwrap().0.parse().unwrap()
}

/// Sends the same request several times. Each response brings a call, which may count, since nobody
/// knows whether the client ran it. What the history hides counts once.
async fn assert_counted_once(client: &Client, gateway: &Running, before: usize, what: &str) {
    for again in 0..6 {
        let (message, _) = client.clone().turn(gateway).await;
        let counted = counted_calls(&message);
        assert!((before..=before + again).contains(&counted), "{what}, {again}: {counted}");
    }
}

/// The response may have been lost on its way, and a person may want another one.
#[tokio::test]
async fn a_request_that_is_sent_again_counts_what_is_hidden_once() {
    for api in APIS {
        for (form, compacted) in FORMS {
            let provider = calling(Ids::Own).await;
            let gateway = gateway(&provider).await;
            let mut client = Client::on(api, false);
            let question = client.messages()[0]["content"].as_str().unwrap().to_owned();
            for _ in 0..5 {
                client.turn(&gateway).await;
            }
            let summary = sum_up(&client, &gateway, WANTED, true).await;
            *client.messages() = compacted(&question, &summary);
            assert_counted_once(&client, &gateway, 5, &format!("{api:?}, {form}")).await;
        }
    }
}

/// A session may have begun before its client was put behind the gateway.
#[tokio::test]
async fn a_history_from_elsewhere_that_is_sent_again_counts_once() {
    let provider = calling(Ids::Own).await;
    let gateway = gateway(&provider).await;
    let session = json!({"session_id": "0a8d2f3e-6c1b-4e5f-9a7d-3b2c1d0e9f8a"}).to_string();
    let mut client = Client::on(Api::Anthropic, false).set("metadata", json!({"user_id": session}));
    for n in 0..2 {
        let id = format!("toolu_elsewhere{n:012}");
        let call = json!({"type": "tool_use", "id": id, "name": "read", "input": {"path": n}});
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": format!("{n}")});
        client.messages().push(json!({"role": "assistant", "content": [call]}));
        client.messages().push(json!({"role": "user", "content": [result]}));
    }
    assert_counted_once(&client, &gateway, 2, "from elsewhere").await;
}
