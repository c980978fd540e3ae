//! Reads and writes of the prompt cache, and what a change loses. All counts are the simulator's
//! own estimates; the tests are about the rules.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use crate::support;

use crate::support::{ask_at, tool};
use serde_json::{Value, json};
use softland_sim::{Config, Scenario, Sim, Usage, find_model};

const MODEL: &str = "claude-sonnet-4-6";
const MINUTE: u64 = 60_000;

fn mark() -> Value {
    json!({"type": "ephemeral"})
}

/// Tools, system and messages of about 2,500 tokens each, with a breakpoint behind each.
fn base() -> Value {
    let mut tool = tool("grep", &["pattern"]);
    tool["description"] = "t".repeat(10_000).into();
    tool["cache_control"] = mark();
    json!({
        "model": MODEL, "max_tokens": 100,
        "tools": [tool],
        "system": [{"type": "text", "text": "s".repeat(10_000), "cache_control": mark()}],
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "m".repeat(10_000), "cache_control": mark()}]}],
    })
}

fn sim() -> Sim {
    Sim::new(Config::new(Scenario::Scripted(Vec::new())))
}

/// The input, read, five-minute and one-hour write tokens.
fn bill(sim: &Sim, now: u64, body: &Value) -> [u64; 4] {
    let (status, reply) = ask_at(sim, now, body);
    assert_eq!(status, 200, "{reply}");
    let usage = &reply["usage"];
    let at = |value: &Value| value.as_u64().unwrap();
    let (five, hour) = (
        at(&usage["cache_creation"]["ephemeral_5m_input_tokens"]),
        at(&usage["cache_creation"]["ephemeral_1h_input_tokens"]),
    );
    assert_eq!(at(&usage["cache_creation_input_tokens"]), five + hour);
    [at(&usage["input_tokens"]), at(&usage["cache_read_input_tokens"]), five, hour]
}

#[test]
fn written_once_and_read_until_it_expires() {
    let sim = sim();
    let [input, read, written, hour] = bill(&sim, 0, &base());
    assert_eq!((input, read, hour), (0, 0, 0));
    assert!(written > 7500, "{written}");
    assert_eq!(bill(&sim, 1, &base()), [0, written, 0, 0]);
    // Reading renews: ten minutes after the write, but never five without a read.
    for minute in [4, 8, 12] {
        assert_eq!(bill(&sim, minute * MINUTE, &base()), [0, written, 0, 0], "{minute}");
    }
    assert_eq!(bill(&sim, 17 * MINUTE, &base()), [0, 0, written, 0]);
}

#[test]
fn an_hour_lasts_an_hour_and_is_billed_apart() {
    let sim = sim();
    let mut body = base();
    for place in ["tools", "system"] {
        body[place][0]["cache_control"]["ttl"] = "1h".into();
    }
    let [_, _, five, hour] = bill(&sim, 0, &body);
    assert!(hour > 2 * five && five > 2400, "{five} {hour}");
    assert_eq!(bill(&sim, 59 * MINUTE, &body), [0, hour, five, 0]);
}

type Change = fn(&mut Value);

#[test]
fn each_change_loses_what_the_provider_says() {
    let sizes = |sim: &Sim| {
        let count = |keep: &[&str]| {
            let mut body = base();
            for place in ["tools", "system"].iter().filter(|p| !keep.contains(p)) {
                body.as_object_mut().unwrap().remove(*place);
            }
            let response = support::post(sim, 0, "/v1/messages/count_tokens", "", &counted(body));
            let reply: Value = serde_json::from_slice(&response.collect_bytes().0).unwrap();
            reply["input_tokens"].as_u64().unwrap()
        };
        let all = count(&["tools", "system"]);
        let (tools, both) = (all - count(&["system"]), all - count(&[]));
        (tools, both, all)
    };
    let (tools, both, all) = sizes(&sim());
    let changes: [(&str, Change, u64); 14] = [
        ("nothing", |_| (), all),
        ("tool choice", |b| b["tool_choice"] = json!({"type": "none"}), both),
        (
            "one call at a time",
            |b| {
                b["tool_choice"] = json!({"type": "auto", "disable_parallel_tool_use": true});
            },
            both,
        ),
        ("auto said", |b| b["tool_choice"] = json!({"type": "auto"}), all),
        ("thinking", |b| b["thinking"] = json!({"type": "adaptive"}), both),
        ("effort", |b| b["output_config"] = json!({"effort": "low"}), both),
        ("default effort said", |b| b["output_config"] = json!({"effort": "high"}), all),
        ("system text", |b| b["system"][0]["text"] = "z".repeat(10_000).into(), tools),
        ("tool text", |b| b["tools"][0]["description"] = "z".repeat(10_000).into(), 0),
        (
            "web search on",
            |b| {
                b["tools"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"type": "web_search_20250305", "name": "web_search"}))
            },
            tools,
        ),
        (
            "first words",
            |b| b["messages"][0]["content"][0]["text"] = "z".repeat(10_000).into(),
            both,
        ),
        (
            "more words",
            |b| {
                b["messages"][0]["content"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"type": "text", "text": "more"}))
            },
            all,
        ),
        ("max_tokens", |b| b["max_tokens"] = 7.into(), all),
        ("model", |b| b["model"] = "claude-sonnet-5".into(), 0),
    ];
    for (name, change, kept) in changes {
        let sim = sim();
        bill(&sim, 0, &base());
        let mut body = base();
        change(&mut body);
        assert_eq!(bill(&sim, 1, &body)[1], kept, "{name}");
    }
}

fn counted(mut body: Value) -> Value {
    body.as_object_mut().unwrap().remove("max_tokens");
    body
}

/// A conversation of `blocks` short texts, the last one marked.
fn blocks(blocks: usize) -> Value {
    let mut content: Vec<Value> = (0..blocks)
        .map(|i| json!({"type": "text", "text": format!("{i} {}", "x".repeat(6000))}))
        .collect();
    content.last_mut().unwrap()["cache_control"] = mark();
    json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": content}]})
}

#[test]
fn a_read_looks_back_over_twenty_positions() {
    for (more, found) in [(1, true), (19, true), (20, false), (40, false)] {
        let sim = sim();
        bill(&sim, 0, &blocks(5));
        let read = bill(&sim, 1, &blocks(5 + more))[1];
        assert_eq!(read > 0, found, "{more} more");
    }
    // A second breakpoint early bridges the gap.
    let sim = sim();
    bill(&sim, 0, &blocks(5));
    let mut body = blocks(35);
    body["messages"][0]["content"][20]["cache_control"] = mark();
    assert!(bill(&sim, 1, &body)[1] > 0);
}

#[test]
fn below_the_minimum_nothing_is_cached_and_nothing_said() {
    let sim = sim();
    let short = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": [
        {"type": "text", "text": "x".repeat(4000), "cache_control": mark()}]}]});
    for now in [0, 1] {
        let [input, read, five, hour] = bill(&sim, now, &short);
        assert_eq!((read, five, hour), (0, 0, 0));
        assert!(input > 1000);
    }
}

#[test]
fn the_automatic_mark_lands_on_the_last_block() {
    let sim = sim();
    let mut body = blocks(3);
    body["messages"][0]["content"][2].as_object_mut().unwrap().remove("cache_control");
    let uncached = bill(&sim, 0, &body)[0];
    body["cache_control"] = mark();
    assert_eq!(bill(&sim, 1, &body), [0, 0, uncached, 0]);
    assert_eq!(bill(&sim, 2, &body), [0, uncached, 0, 0]);
}

#[test]
fn key_order_of_an_input_matters_and_marks_and_forms_do_not() {
    let body = |input: &str, question: Value| {
        let text = json!({"model": MODEL, "max_tokens": 9, "tools": support::tools(), "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "grep", "input": "INPUT"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1",
                "content": "r".repeat(8000), "cache_control": mark()}]}]})
        .to_string();
        text.replace("\"INPUT\"", input)
    };
    let send = |sim: &Sim, now: u64, body: &str| {
        let headers = [("x-api-key", "k"), ("anthropic-version", "2023-06-01")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()));
        let request = softland_sim::Request {
            method: "POST",
            path: "/v1/messages",
            headers: &headers,
            body: body.as_bytes(),
        };
        let reply: Value =
            serde_json::from_slice(&sim.respond(now, &request).collect_bytes().0).unwrap();
        reply["usage"]["cache_read_input_tokens"].as_u64().unwrap()
    };
    let listed = json!([{"type": "text", "text": "q", "cache_control": mark()}]);
    let sim = sim();
    let (one, other) = (r#"{"pattern":"x","path":"."}"#, r#"{"path":".","pattern":"x"}"#);
    assert_eq!(send(&sim, 0, &body(one, "q".into())), 0);
    assert!(send(&sim, 1, &body(one, listed)) > 2000);
    assert_eq!(send(&sim, 2, &body(other, "q".into())), 0);
}

#[test]
fn an_entry_can_be_read_once_its_first_response_has_begun() {
    let sim = Sim::new(Config::new(Scenario::from_name("slow:3000").unwrap()));
    let written = bill(&sim, 0, &base())[2];
    assert_eq!(bill(&sim, 1000, &base())[1], 0);
    assert_eq!(bill(&sim, 3000, &base())[1], written);
}

#[test]
fn prices_are_the_listed_multiples() {
    let usage = Usage {
        input: 1000,
        cache_read: 1000,
        cache_write_5m: 1000,
        cache_write_1h: 1000,
        output: 1000,
        thinking: 0,
    };
    for (model, nano) in [
        // $3 and $15: 3000 + 300 + 3750 + 6000 + 15000 nano-dollars a token.
        ("claude-sonnet-4-6", 28_050_000),
        // $4 and $20, reads at 0.05: 4000 + 200 + 5000 + 8000 + 20000.
        ("claude-opus-5-5", 37_200_000),
        // $10 and $50, reads at 0.025: 10000 + 250 + 12500 + 20000 + 50000.
        ("claude-fable-5-1", 92_750_000),
    ] {
        assert_eq!(usage.cost_nano(find_model(model).unwrap()), nano, "{model}");
    }
}

#[test]
fn the_ledger_adds_up() {
    let sim = sim();
    for now in 0..3 {
        bill(&sim, now, &base());
    }
    let stats = sim.stats();
    assert_eq!((stats.requests, stats.responses, stats.refused), (3, 3, 0));
    assert_eq!(stats.cost_nano, stats.charges.iter().map(|c| c.cost_nano).sum::<u64>());
    let total = stats.charges[0].usage.total_input();
    assert!(stats.charges.iter().all(|c| c.usage.total_input() == total));
}
