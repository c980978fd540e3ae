//! Reads and writes of OpenAI's automatic caches, and what a change loses. All counts are the
//! simulator's own estimates; the tests are about the rules.

use crate::protocols::apis::{Api, sim, user};
use crate::protocols::with;
use serde_json::{Value, json};
use softland_sim::{Sim, find_open_model};

const MINUTE: u64 = 60_000;
const OLD: &str = "gpt-4.1";
const NEW: &str = "gpt-5.6-sol";

/// Tools of about 1,000 tokens, a question of about 1,500.
fn base(api: Api, model: &str) -> Value {
    let mut body = api.body(model, vec![user(&"m".repeat(6000))]);
    let text: Value = "t".repeat(4000).into();
    match api {
        Api::Chat => body["tools"][0]["function"]["description"] = text,
        _ => body["tools"][0]["description"] = text,
    }
    body
}

/// The uncached input, read and written tokens.
fn bill(api: Api, sim: &Sim, now: u64, body: &Value) -> [u64; 3] {
    let response = api.post(sim, now, body);
    let json: Value = serde_json::from_slice(&response.collect_bytes().0).unwrap();
    assert_eq!(response.status, 200, "{json}");
    let usage = &json["usage"];
    let (all, details) = match api {
        Api::Chat => (&usage["prompt_tokens"], &usage["prompt_tokens_details"]),
        _ => (&usage["input_tokens"], &usage["input_tokens_details"]),
    };
    let read = details["cached_tokens"].as_u64().unwrap();
    let written = details["cache_write_tokens"].as_u64().unwrap_or(0);
    let charge = sim.stats().charges.back().unwrap().clone();
    assert_eq!(charge.usage.total_input(), all.as_u64().unwrap());
    assert_eq!((charge.usage.cache_read, charge.usage.cache_write_5m), (read, written));
    assert_eq!(charge.cost_nano, find_open_model(charge.model).unwrap().cost_nano(&charge.usage));
    [charge.usage.input, read, written]
}

#[test]
fn older_models_read_the_longest_prefix_in_steps() {
    for api in [Api::Chat, Api::Responses] {
        let sim = sim("trivial");
        let [all, read, written] = bill(api, &sim, 0, &base(api, OLD));
        assert_eq!((read, written), (0, 0), "{api:?}");
        let [input, read, written] = bill(api, &sim, 1, &base(api, OLD));
        assert_eq!((read % 128, written, input + read), (0, 0, all), "{api:?}");
        assert!(input < 128, "{input}");
        // Reading renews; five minutes without one forget.
        assert!(bill(api, &sim, 4 * MINUTE, &base(api, OLD))[1] > 0);
        assert!(bill(api, &sim, 8 * MINUTE, &base(api, OLD))[1] > 0);
        assert_eq!(bill(api, &sim, 14 * MINUTE, &base(api, OLD))[1], 0);
        // A prefix of it too, to the step.
        let mut shorter = base(api, OLD);
        let key = api.history_key();
        shorter[key][0]["content"] = format!("{}z", "m".repeat(3000)).into();
        let part = bill(api, &sim, 15 * MINUTE, &shorter)[1];
        assert!(part >= 1536 && part < read, "{api:?}: {part}");
    }
}

#[test]
fn short_prompts_are_not_cached() {
    for (model, changes) in [(OLD, json!({})), (NEW, json!({}))] {
        let sim = sim("trivial");
        let body = with(Api::Chat.body(model, vec![user(&"m".repeat(3400))]), changes);
        for now in [0, 1] {
            let [input, read, written] = bill(Api::Chat, &sim, now, &body);
            assert!(input < 1024, "{input}");
            assert_eq!((read, written), (0, 0), "{model}");
        }
    }
}

type Change = fn(&mut Value);

#[test]
fn each_setting_loses_or_keeps_what_the_vendor_says() {
    let changes: [(&str, Change, bool); 9] = [
        ("nothing", |_| (), true),
        ("tool choice", |b| b["tool_choice"] = "none".into(), true),
        ("parallel said", |b| b["parallel_tool_calls"] = true.into(), true),
        ("one call at a time", |b| b["parallel_tool_calls"] = false.into(), false),
        ("effort", |b| b["reasoning"] = json!({"effort": "low"}), false),
        ("format", |b| b["text"] = json!({"format": {"type": "json_object"}}), false),
        ("tools", |b| drop(b["tools"].as_array_mut().unwrap().pop()), false),
        ("limit", |b| b["max_output_tokens"] = 99.into(), true),
        ("model", |b| b["model"] = "gpt-6-sol".into(), false),
    ];
    for model in [NEW, "gpt-5.2"] {
        for (name, change, kept) in changes {
            let sim = sim("trivial");
            bill(Api::Responses, &sim, 0, &base(Api::Responses, model));
            let mut body = base(Api::Responses, model);
            change(&mut body);
            let read = bill(Api::Responses, &sim, 1, &body)[1];
            assert_eq!(read > 0, kept, "{model} {name}: {read}");
        }
    }
}

#[test]
fn newer_models_write_at_message_ends_at_a_price() {
    for api in [Api::Chat, Api::Responses] {
        let sim = sim("trivial");
        let [input, read, written] = bill(api, &sim, 0, &base(api, NEW));
        assert!(read == 0 && written > 2400 && written % 128 == 0 && input < 128, "{written}");
        assert_eq!(bill(api, &sim, 29 * MINUTE, &base(api, NEW)), [input, written, 0]);
        assert_eq!(bill(api, &sim, 60 * MINUTE, &base(api, NEW))[1], 0, "30 minutes of life");
        // Appending keeps what was written, and writes the rest.
        let mut longer = base(api, NEW);
        let more = [json!({"role": "assistant", "content": "hm"}), user(&"n".repeat(2000))];
        api.push(&mut longer, more.to_vec());
        let [_, read, more] = bill(api, &sim, 61 * MINUTE, &longer);
        assert_eq!(read, written, "{api:?}");
        assert!(more > 300 && more < 800, "{more}");
        // Extending a message in place loses it, unlike with older models.
        let mut extended = base(api, NEW);
        extended[api.history_key()][0]["content"] = format!("{}!", "m".repeat(6000)).into();
        assert_eq!(bill(api, &sim, 61 * MINUTE, &extended)[1], 0, "{api:?}");
    }
}

#[test]
fn a_read_looks_at_the_last_twenty_message_ends() {
    // The call message and its results come after the end that was written.
    for (results, found) in [(5, true), (18, true), (19, false), (30, false)] {
        let sim = sim("trivial");
        bill(Api::Chat, &sim, 0, &base(Api::Chat, NEW));
        let ids: Vec<String> = (0..results).map(|i| format!("call_{i}")).collect();
        let calls: Vec<Value> = ids
            .iter()
            .map(|id| {
                json!({"id": id, "type": "function",
                "function": {"name": "grep", "arguments": "{}"}})
            })
            .collect();
        let mut body = base(Api::Chat, NEW);
        let said = json!({"role": "assistant", "content": null, "tool_calls": calls});
        Api::Chat.push(&mut body, vec![said]);
        let results_of = ids.into_iter().map(|id| (id, "x".to_owned())).collect();
        Api::Chat.push(&mut body, Api::Chat.results(results_of));
        let read = bill(Api::Chat, &sim, 1, &body)[1];
        assert_eq!(read > 0, found, "{results} results");
    }
}

#[test]
fn explicit_marks_are_written_where_they_stand() {
    let api = Api::Chat;
    let marked = |last: &str, mode: &str| {
        let part = json!({"type": "text", "text": "m".repeat(6000),
            "prompt_cache_breakpoint": {"mode": "explicit"}});
        let parts = json!([part, {"type": "text", "text": last}]);
        with(
            api.body(NEW, vec![json!({"role": "user", "content": parts})]),
            json!({"prompt_cache_options": {"mode": mode}}),
        )
    };
    let sim = sim("trivial");
    let long = "a".repeat(2000);
    let explicit = bill(api, &sim, 0, &marked(&long, "explicit"))[2];
    assert!(explicit > 1500 && explicit < 1800, "{explicit}");
    assert_eq!(bill(api, &sim, 1, &marked("b", "explicit"))[1], explicit);
    // With the implicit one the rest is written too.
    let [_, read, more] = bill(api, &sim, 2, &marked(&long, "implicit"));
    assert!(read == explicit && more > 400, "{read} {more}");
}

#[test]
fn a_routed_claude_caches_at_its_marks_only() {
    let api = Api::Chat;
    let body = |mark: bool| {
        let mut part = json!({"type": "text", "text": "m".repeat(6000)});
        if mark {
            part["cache_control"] = json!({"type": "ephemeral"});
        }
        api.body("anthropic/claude-haiku-4.5", vec![json!({"role": "user", "content": [part]})])
    };
    let sim = sim("trivial");
    for now in [0, 1] {
        assert_eq!(bill(api, &sim, now, &body(false))[1..], [0, 0]);
    }
    let written = bill(api, &sim, 2, &body(true))[2];
    assert!(written > 1500, "{written}");
    assert_eq!(bill(api, &sim, 3, &body(true))[1..], [written, 0]);
}

#[test]
fn deepseek_counts_in_smaller_steps() {
    let sim = sim("trivial");
    let off = json!({"thinking": {"type": "disabled"}});
    let body = with(Api::Chat.body("deepseek-v4-flash", vec![user(&"m".repeat(600))]), off);
    bill(Api::Chat, &sim, 0, &body);
    let read = bill(Api::Chat, &sim, 1, &body)[1];
    assert!(read >= 192 && read.is_multiple_of(64), "{read}");
}

#[test]
fn an_entry_can_be_read_once_its_first_response_has_begun() {
    for model in [OLD, NEW] {
        let sim = sim("slow:3000");
        let read = |now| bill(Api::Chat, &sim, now, &base(Api::Chat, model))[1];
        assert_eq!((read(0), read(1000)), (0, 0), "{model}");
        assert!(read(3000) > 0, "{model}");
    }
}

#[test]
fn prices_are_the_listed_ones() {
    let usage = softland_sim::Usage {
        input: 1000,
        cache_read: 1000,
        cache_write_5m: 1000,
        output: 1000,
        ..softland_sim::Usage::default()
    };
    for (model, nano) in [
        // $4 in, $0.40 read, $5 write, $20 out.
        ("gpt-5.6-sol", 29_400_000),
        // $2, $0.10, $2.50, $10.
        ("gpt-6.1-sol", 14_600_000),
        // Writes are free: they cost what input costs. $2.50, $1.25, $10.
        ("gpt-4o", 16_250_000),
        ("deepseek-v4-flash", 903_000),
    ] {
        assert_eq!(find_open_model(model).unwrap().cost_nano(&usage), nano, "{model}");
    }
}
