//! What the gateway says of itself is true: what was spent, what is left, what was done and why,
//! in headers, events and local answers alike.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::client::{APIS, Client, all};
use crate::support::reading::{End, read};
use crate::support::script::{
    Form, INPUT, OUTPUT, Reply, Scripted, calls, nothing, prices, says, whole,
};
use crate::support::sim::{governed, text};
use crate::support::{Provider, Running};
use serde_json::{Value, json};
use softland_gateway::{Clock, Settings};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;
use tempfile::TempDir;

/// Settings with an event log in a folder of its own.
struct Watched {
    settings: Settings,
    folder: TempDir,
}

impl Watched {
    fn new(url: &str, keys: &[(&str, Key)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = governed(url, keys);
        settings.log.events = Some(Self::path(folder.path()));
        Self { settings, folder }
    }

    fn path(folder: &Path) -> PathBuf {
        folder.join("events.ndjson")
    }

    async fn running(&self) -> Running {
        Running::with(self.settings.clone()).await
    }

    /// The lines of a gateway that is then stopped.
    async fn lines(&self, mut gateway: Running) -> Vec<String> {
        gateway.stopped().await;
        let text = std::fs::read_to_string(Self::path(self.folder.path())).expect("a log");
        text.lines().map(str::to_owned).collect()
    }

    async fn events(&self, gateway: Running) -> Vec<Value> {
        let parsed = |line: &String| serde_json::from_str(line).expect("JSON");
        self.lines(gateway).await.iter().map(parsed).collect()
    }
}

fn named<'e>(events: &'e [Value], name: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

/// The words of what was done, in order.
fn interventions(events: &[Value]) -> Vec<String> {
    let word = |event: &&Value| event["intervention"].as_str().expect("a word").to_owned();
    named(events, "intervention").iter().map(word).collect()
}

/// Nano-dollars of all requests.
fn told_cost(events: &[Value]) -> u64 {
    let dollars: f64 = named(events, "usage").iter().filter_map(|e| e["cost_usd"].as_f64()).sum();
    (dollars * 1e9).round() as u64
}

fn is_estimated(event: &Value) -> bool {
    event["remark"].as_str().is_some_and(|remark| remark.starts_with("estimated"))
}

/// A call of some tool.
fn call(n: u32, tool: &str) -> Value {
    let id = format!("toolu_truth{n:05}");
    json!({"type": "tool_use", "id": id, "name": tool, "input": {"path": id}})
}

#[tokio::test]
async fn a_body_that_breaks_off_is_paid_for_and_counts_to_the_cap() {
    for (api, stream) in all() {
        let upstream = Scripted::plays(vec![Reply::Cut("half of it")]).await;
        let cap = prices(api)[0] * 16_000;
        let limit = text(&format!("0.{cap:09}"));
        let keys = [("session_cost_limit_usd", limit), ("reserve_tokens", Key::Int(100))];
        let watched = Watched::new(&upstream.url(), &keys);
        let gateway = watched.running().await;
        for n in 0..25 {
            let client = Client::on(api, stream).told_usage().with("x-softland-session: s");
            let client = client.asking(&format!("{n}: what?")).limited(200);
            client.post_to_a_break(&gateway).await;
        }
        let (sent, spent) = (upstream.provider.count(), gateway.handle.summary().spend.0);
        assert!(sent < 25, "the cap acts: {sent} requests, {spent} spent");
        assert!((cap / 2..=cap).contains(&spent), "{api:?}, stream {stream}: {spent} of {cap}");
        let events = watched.events(gateway).await;
        assert_eq!(told_cost(&events), spent, "the events say what the account says");
        let usage = named(&events, "usage");
        assert_eq!(usage.len(), sent);
        assert!(usage.iter().all(|event| is_estimated(event)), "{usage:?}");
    }
}

#[tokio::test]
async fn what_its_own_time_limit_gives_up_is_paid_for() {
    let replies = || [Reply::Silent, Reply::Hangs("half of it")];
    for ((api, stream), reply) in all().flat_map(|on| replies().map(|reply| (on, reply))) {
        let name = format!("{api:?}, stream {stream}, {reply:?}");
        let upstream = Scripted::plays(vec![reply]).await;
        let keys = [
            ("time_limit", text("400ms")),
            ("reserve_time", text("150ms")),
            ("cost_limit_usd", text("0.50")),
        ];
        let watched = Watched::new(&upstream.url(), &keys);
        let gateway = watched.running().await;
        let client = Client::on(api, stream).told_usage();
        let request = client.body.to_string().len() as u64;
        let response = read(&client.post(&gateway).await);
        assert!(response.text().contains("softland"), "{name}: {}", response.text());
        let (sent, spent) = (upstream.provider.count(), gateway.handle.summary().spend.0);
        assert!(sent > 0 && spent >= sent as u64 * request / 4 * prices(api)[0], "{name}: {spent}");
        let events = watched.events(gateway).await;
        assert_eq!(told_cost(&events), spent, "{name}");
        let usage = named(&events, "usage");
        assert_eq!(usage.len(), sent, "{name}");
        assert!(usage.iter().all(|event| is_estimated(event)), "{name}: {usage:?}");
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_costs_what_was_written_of_it_and_is_marked() {
    for api in APIS {
        let said = "Fifty-five characters are all that came of this answer.";
        let upstream = Scripted::plays(vec![Reply::Cut(said)]).await;
        let watched = Watched::new(&upstream.url(), &[]);
        let gateway = watched.running().await;
        let client = Client::on(api, true).told_usage();
        let request = client.body.to_string().len() as u64;
        let message = client.post_to_a_break(&gateway).await;
        assert!(message.text().contains(said), "{}", message.text());
        let events = watched.events(gateway).await;
        let [usage] = *named(&events, "usage") else { panic!("{events:?}") };
        assert_eq!(usage["output"], json!(said.len() / 4));
        // Of the others nobody has said what was read: it is estimated, and bounded in the cost.
        let input = usage["input"].as_u64().expect("tokens");
        match api {
            Api::Anthropic => assert_eq!(input, INPUT),
            // With what a provider may put before it.
            _ => assert!((request / 8..request / 2 + 1_100).contains(&input), "{input}"),
        }
        let least = request / 4 * prices(api)[0] + said.len() as u64 / 4 * prices(api)[1];
        assert!(told_cost(&events) >= least, "{api:?}: {usage}");
        assert!(is_estimated(usage), "{usage}");
    }
}

#[tokio::test]
async fn a_new_name_begins_a_run_where_only_names_do() {
    for api in APIS {
        let replies = vec![
            calls(1),
            calls(2),
            calls(3),
            says("That is all there is to it."),
            calls(4),
            says("The second answer is this one."),
            calls(5),
            says("The third answer is this one."),
        ];
        let upstream = Scripted::plays(replies).await;
        let keys = [("run_boundary", text("header")), ("tool_calls_limit", Key::Int(9))];
        let gateway = Running::with(governed(&upstream.url(), &keys)).await;
        let mut client = Client::on(api, true).told_usage().with("x-softland-run: one");
        let mut counts = Vec::new();
        let mut ids = Vec::new();
        let mut turn = async |client: &mut Client| {
            let (message, _) = client.turn(&gateway).await;
            counts.push(message.header("x-softland-tool-calls").expect("a count").to_owned());
            ids.push(message.header("x-softland-run").expect("a run").to_owned());
        };
        for _ in 0..4 {
            turn(&mut client).await;
        }
        client.says("And now something else, please.");
        client.headers.pop();
        client = client.with("x-softland-run: two");
        for _ in 0..2 {
            turn(&mut client).await;
        }
        // A human message alone begins none.
        client.says("And one more thing.");
        for _ in 0..2 {
            turn(&mut client).await;
        }
        assert_eq!(counts, ["0/9", "1/9", "2/9", "3/9", "0/9", "1/9", "1/9", "2/9"]);
        assert_ne!(ids[3], ids[4], "another name, another run");
    }
}

/// The messages of a request.
fn history_of(api: Api, asked: &Value) -> &[Value] {
    let key = if api == Api::Responses { "input" } else { "messages" };
    asked[key].as_array().expect("a history")
}

/// The last result of a round of calls, the first being 1. Each of them has one result or two.
fn last_result(api: Api, asked: &Value, round: usize) -> String {
    let history = history_of(api, asked);
    let is_result = |message: &Value| match api {
        Api::Anthropic => message["content"][0]["type"] == "tool_result",
        Api::Chat => message["role"] == "tool",
        Api::Responses => message["type"] == "function_call_output",
    };
    let results = (0..history.len()).filter(|at| history.get(*at).is_some_and(is_result));
    let ends = results.filter(|at| !history.get(at + 1).is_some_and(is_result));
    let at = ends.collect::<Vec<_>>()[round - 1];
    let last = match api {
        Api::Anthropic => {
            &history[at]["content"].as_array().expect("results").last().expect("one")["content"]
        }
        Api::Chat => &history[at]["content"],
        Api::Responses => &history[at]["output"],
    };
    last.to_string()
}

#[tokio::test]
async fn the_last_result_says_what_was_taken_out_of_its_turn_for_ever() {
    let batch = |n| Reply::Says(vec![call(n, "list_dir"), call(n + 1, "read_file")], "tool_use");
    for (api, stream) in all() {
        let limit = u64::from(!stream);
        let upstream = Scripted::plays(vec![batch(0), batch(2), calls(9), says("all of it")]).await;
        let keys = [("tool_limits", text(&format!("list_dir={limit}")))];
        let watched = Watched::new(&upstream.url(), &keys);
        let gateway = watched.running().await;
        let mut client = Client::on(api, stream).told_usage();
        client.run(&gateway).await;
        let line = format!("list_dir: limit of {limit} reached; other tools remain");
        let last_result = |asked: &Value, round: usize| last_result(api, asked, round);
        // Of the first turn both calls fit where one is allowed.
        let (first, at) = if limit == 0 { (1, 1) } else { (2, 2) };
        for asked in first..=3 {
            let asked = upstream.asked(asked);
            assert!(last_result(&asked, at).contains(&line), "limit {limit}: {asked}");
            assert_eq!(last_result(&asked, 1).contains(&line), limit == 0, "{asked}");
        }
        let (before, after) = (upstream.asked(2), upstream.asked(3));
        let shared = history_of(api, &before);
        let longer = history_of(api, &after);
        assert_eq!(longer.get(..shared.len()), Some(shared), "the same bytes for ever");
        let done = interventions(&watched.events(gateway).await);
        assert!(done.contains(&"refuse".to_owned()), "{done:?}");
    }
}

/// The refused calls stand in no history, and each turn counts all the same.
#[tokio::test]
async fn three_turns_in_part_refused_land_the_run() {
    let batch = |n| Reply::Says(vec![call(n, "list_dir"), call(n + 1, "read_file")], "tool_use");
    for (api, stream) in all() {
        let replies = vec![batch(0), batch(2), batch(4), batch(6), batch(8), says("all of it")];
        let upstream = Scripted::plays(replies).await;
        let watched = Watched::new(&upstream.url(), &[("tool_limits", text("list_dir=1"))]);
        let gateway = watched.running().await;
        let (turns, message, response) = Client::on(api, stream).told_usage().run(&gateway).await;
        assert_eq!(message.header("x-softland-phase"), Some("landing"), "{api:?} {stream}");
        // One turn whole, three in part, and one more that is answered behind the client's back.
        assert_eq!((turns, response.text().as_str()), (5, "all of it"), "{api:?} {stream}");
        let asked = upstream.asked(4);
        let told = last_result(api, &asked, 4);
        assert!(told.contains("Answer now"), "{told}");
        assert!(!last_result(api, &asked, 3).contains("Answer now"), "{told}");
        let events = watched.events(gateway).await;
        let done = named(&events, "done")[0];
        assert_eq!(
            (&done["outcome"], &done["reason"]),
            (&json!("landed"), &json!("tool:list_dir"))
        );
    }
}

#[tokio::test]
async fn calls_taken_out_of_a_batch_are_told_of() {
    let batch = vec![call(1, "read_file"), call(2, "list_dir"), call(3, "list_dir")];
    for (api, stream) in all() {
        let replies = vec![Reply::Says(batch.clone(), "tool_use"), says("all of it")];
        let upstream = Scripted::plays(replies).await;
        let watched = Watched::new(&upstream.url(), &[("tool_calls_limit", Key::Int(1))]);
        let gateway = watched.running().await;
        let mut client = Client::on(api, stream).told_usage();
        let (_, response) = client.turn(&gateway).await;
        assert_eq!(response.calls().len(), 1);
        if stream {
            assert_eq!(response.comments, ["softland refuse"]);
        }
        client.run(&gateway).await;
        let events = watched.events(gateway).await;
        assert_eq!(interventions(&events), ["refuse", "ask"]);
        let refused = named(&events, "intervention")[0];
        assert_eq!(refused["because"], json!({"reason": "tool_calls", "used": 1, "limit": 1}));
        assert_eq!(refused["text"], "taken out of the turn: list_dir, list_dir");
        assert_eq!(refused["turn"], 1);
    }
}

/// A clock that the test sets.
fn clock(time: &Arc<AtomicU64>) -> Clock {
    let time = Arc::clone(time);
    Arc::new(move || time.load(Ordering::SeqCst))
}

#[tokio::test]
async fn what_remains_at_the_end_has_the_last_request_in_it() {
    let time = Arc::new(AtomicU64::new(1_790_000_000_000));
    let passes = Arc::clone(&time);
    let provider = Provider::does(move |asked, wire| {
        let passes = Arc::clone(&passes);
        async move {
            passes.fetch_add(5 * 60_000, Ordering::SeqCst);
            let form = Form::of(&asked);
            let results = ["tool_result", "tool_call_id", "function_call_output"];
            let first = !results.iter().any(|kind| asked.text().contains(kind));
            let reply = match first {
                true => whole(form, &[call(1, "read_file")], "tool_use"),
                false => whole(form, &[json!({"type": "text", "text": "all of it"})], "end_turn"),
            };
            wire.lock().await.send(reply).await;
            true
        }
    })
    .await;
    for (api, stream) in all() {
        let keys = [
            ("cost_limit_usd", text("5")),
            ("session_cost_limit_usd", text("7")),
            ("tokens_limit", Key::Int(100_000)),
            ("time_limit", text("1h")),
            ("tool_calls_limit", Key::Int(3)),
        ];
        let watched = Watched::new(&provider.url(), &keys);
        let gateway = Running::with_clock(watched.settings.clone(), clock(&time)).await;
        Client::on(api, stream).told_usage().with("x-softland-session: s").run(&gateway).await;
        let lines = watched.lines(gateway).await;
        let done = lines.iter().find(|line| line.contains("\"event\":\"done\"")).expect("an end");
        let left: Value = serde_json::from_str::<Value>(done).expect("JSON")["remaining"].clone();
        // Two requests, of $0.00375 each on Anthropic's API; amounts are written as decimals.
        let [run, session] = match api {
            Api::Anthropic => ["4.9925", "6.9925"],
            Api::Chat => ["4.9952", "6.9952"],
            Api::Responses => ["4.9951", "6.9951"],
        };
        for (key, left) in [("cost_limit_usd", run), ("session_cost_limit_usd", session)] {
            assert!(done.contains(&format!("\"{key}\":{left},")), "{key} {left}: {done}");
        }
        assert_eq!(left["tokens_limit"], 100_000 - 2 * (INPUT + OUTPUT));
        assert_eq!(left["time_limit"], 50 * 60, "seconds");
        assert_eq!(left["tool_calls_limit"], 2);
    }
}

#[tokio::test]
async fn a_token_limit_lets_through_what_may_fit() {
    for api in APIS {
        for (bytes, fits) in [(175_000, true), (600_000, false)] {
            let upstream = Scripted::plays(vec![says("the answer")]).await;
            let keys = [("tokens_limit", Key::Int(100_000))];
            let gateway = Running::with(governed(&upstream.url(), &keys)).await;
            let prompt = "a word and another ".repeat(bytes / 19);
            let response = read(&Client::on(api, false).asking(&prompt).post(&gateway).await);
            assert_eq!(upstream.provider.count(), usize::from(fits), "{bytes} bytes");
            assert_eq!(response.text() == "the answer", fits, "{}", response.text());
        }
    }
}

/// Whoever never hears the end hears of no usage on OpenAI's protocols: what was read counts.
#[tokio::test]
async fn a_token_limit_counts_streams_that_are_cut() {
    for api in APIS {
        let upstream = Scripted::plays(vec![Reply::Cut("half of it")]).await;
        let keys = [("tokens_limit", Key::Int(30_000))];
        let gateway = Running::with(governed(&upstream.url(), &keys)).await;
        let prompt = "a word and another ".repeat(2_000);
        let mut client = Client::on(api, true).told_usage().with("x-softland-run: r");
        client = client.asking(&prompt);
        let tokens = if api == Api::Anthropic { INPUT } else { prompt.len() as u64 / 4 };
        let many = 30_000_u64.div_ceil(tokens) as usize + 5;
        for _ in 0..many {
            client.post_to_a_break(&gateway).await;
        }
        let sent = upstream.provider.count();
        assert!(sent < many, "{api:?}: {sent} of {many} requests, {tokens} tokens each");
    }
}

/// Without a client's limit, the model's own maximum holds, or the window if no table knows that. A
/// larger value is no limit, and some providers refuse it.
#[tokio::test]
async fn no_output_limit_is_added_that_limits_nothing() {
    for (model, added) in [("grok-4.3", false), ("deepseek-chat", false), ("grok-4.3", true)] {
        let upstream = Scripted::plays(vec![says("the answer")]).await;
        let limit = if added { "0.20" } else { "20" };
        let keys = [("cost_limit_usd", text(limit))];
        let gateway = Running::with(governed(&upstream.url(), &keys)).await;
        let mut client = Client::on(Api::Chat, false);
        client.body["model"] = json!(model);
        client.body.as_object_mut().expect("an object").remove("max_completion_tokens");
        client.body.as_object_mut().expect("an object").remove("max_tokens");
        read(&client.post(&gateway).await);
        let sent = upstream.provider.only();
        assert_eq!(sent.text().contains("max_"), added, "{model}, {limit}: {}", sent.text());
    }
}

#[tokio::test]
async fn a_worst_case_that_does_not_fit_is_no_limit_reached() {
    for api in APIS {
        for (key, limit, used) in [
            ("cost_limit_usd", text("0.002"), "$0.00 of $0.002"),
            ("tokens_limit", Key::Int(200), "0 of 200"),
        ] {
            let upstream = Scripted::plays(vec![says("the answer")]).await;
            let gateway = Running::with(governed(&upstream.url(), &[(key, limit)])).await;
            let response = read(&Client::on(api, true).told_usage().post(&gateway).await);
            assert_eq!(upstream.provider.turns(), 0);
            let said = response.text();
            assert!(said.contains("did not fit") && said.contains(used), "{said}");
            assert!(!said.contains("reached its limit"), "{said}");
        }
    }
}

/// A turn that another gateway has governed, of so many calls.
fn history(calls: u32) -> Vec<Value> {
    (0..calls).map(|n| call(n, "read_file")).collect()
}

#[tokio::test]
async fn a_run_begins_with_its_beginning() {
    for api in APIS {
        let upstream = Scripted::plays(vec![calls(7), says("all of it")]).await;
        let watched = Watched::new(&upstream.url(), &[("tool_calls_limit", Key::Int(6))]);
        let gateway = watched.running().await;
        Client::on(api, true).told_usage().behind(&history(3)).run(&gateway).await;
        let events = watched.events(gateway).await;
        let of: Vec<_> = events.iter().map(|event| event["event"].as_str()).collect();
        assert_eq!(of[0], Some("run_start"), "{of:?}");
        assert!(of.contains(&Some("intervention")), "{of:?}");
        for (n, event) in events.iter().enumerate() {
            assert_eq!((&event["seq"], &event["run"]), (&json!(n), &events[0]["run"]));
        }
    }
}

/// The most tokens that a provider adds to a request with tools (`money::InputSize`).
const TOOLS: u64 = 1060;

#[tokio::test]
async fn nothing_is_named_that_was_not_done() {
    let cases = || [(true, true), (false, true), (true, false)];
    for (api, (stream, asks)) in APIS.into_iter().flat_map(|api| cases().map(|case| (api, case))) {
        let upstream = Scripted::plays(vec![says("the answer")]).await;
        let mut client = Client::on(api, stream).told_usage();
        if asks {
            client = client.behind(&history(2));
        }
        // Enough for the request as it is and a few words, not for what an answer is to have.
        let input = client.body.to_string().len() as u64 + TOOLS;
        let cap = input * prices(api)[0] + 20 * prices(api)[1];
        let cap = text(&format!("0.{cap:09}"));
        let watched = Watched::new(&upstream.url(), &[("cost_limit_usd", cap)]);
        let gateway = watched.running().await;
        let message = client.post(&gateway).await;
        assert!(read(&message).text().contains("softland"));
        assert_eq!(upstream.provider.turns(), 0, "nothing is sent");
        let done = message.header("x-softland-interventions");
        assert_eq!(done, Some("local_answer"));
        let done = interventions(&watched.events(gateway).await);
        assert!(!done.iter().any(|word| word == "ask" || word == "none"), "{done:?}");
        assert_eq!(done.last().map(String::as_str), Some("local_answer"));
    }
}

/// OpenAI's protocols give an answer a time: softland's own has that of the request.
#[tokio::test]
async fn an_answer_of_softlands_own_has_the_time_of_its_request() {
    const NOW: u64 = 1_234_567_890;
    for (api, stream) in all().filter(|(api, _)| *api != Api::Anthropic) {
        let upstream = Scripted::plays(vec![says("the answer")]).await;
        let cap = text("0.000000001");
        let settings = governed(&upstream.url(), &[("cost_limit_usd", cap)]);
        let now = Arc::new(AtomicU64::new(NOW * 1000 + 999));
        let gateway = Running::with_clock(settings, clock(&now)).await;
        let message = Client::on(api, stream).post(&gateway).await;
        assert!(read(&message).text().contains("softland"), "{api:?}: {}", message.text());
        let member = if api == Api::Chat { "created" } else { "created_at" };
        let said = format!("\"{member}\":");
        let body = message.text().replace(": ", ":");
        let times: Vec<_> = body.split(&said).skip(1).collect();
        assert!(!times.is_empty(), "{api:?}: {body}");
        assert!(times.iter().all(|rest| rest.starts_with(&NOW.to_string())), "{body}");
    }
}

#[tokio::test]
async fn a_request_has_the_rung_that_it_was_not_the_next_one() {
    let batch = vec![call(1, "read_file"), call(2, "list_dir"), call(3, "list_dir")];
    for (api, stream) in all() {
        let replies = vec![Reply::Says(batch.clone(), "tool_use"), says("all of it")];
        let upstream = Scripted::plays(replies).await;
        let keys = [("tool_calls_limit", Key::Int(2)), ("batch", text("none"))];
        let watched = Watched::new(&upstream.url(), &keys);
        let gateway = watched.running().await;
        Client::on(api, stream).told_usage().run(&gateway).await;
        let events = watched.events(gateway).await;
        let rungs: Vec<_> =
            named(&events, "usage").iter().map(|event| event["rung"].clone()).collect();
        assert_eq!(rungs, [Value::Null, json!("refuse")]);
    }
}

#[tokio::test]
async fn a_nudge_that_the_provider_fails_is_no_empty_turn() {
    for (api, stream) in all() {
        let broken = Reply::Error("500 Internal Server Error", Vec::new(), "{}");
        let upstream = Scripted::plays(vec![nothing(), broken]).await;
        let watched = Watched::new(&upstream.url(), &[]);
        let gateway = watched.running().await;
        let response = read(&Client::on(api, stream).told_usage().post(&gateway).await);
        assert_eq!(response.end, End::Whole);
        let said = response.text();
        assert!(said.contains("the provider failed"), "{said}");
        let events = watched.events(gateway).await;
        assert_eq!(named(&events, "signal").len(), 1, "{events:?}");
        let [done] = *named(&events, "done") else { panic!("{events:?}") };
        assert_eq!((&done["outcome"], &done["reason"]), (&json!("stopped"), &json!("provider")));
    }
}
