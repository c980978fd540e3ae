//! The streams of each vendor, and the match between each stream and its whole form.

use crate::protocols::apis::{Api, events, sim, user};
use crate::protocols::with;
use serde_json::{Value, json};
use softland_sim::Sim;

const API: Api = Api::Chat;

fn body(model: &str) -> Value {
    API.body(model, vec![user("What do my notes say about deploying?")])
}

fn raw(sim: &Sim, model: &str, changes: Value) -> String {
    let body = with(with(body(model), json!({"stream": true})), changes);
    let response = API.post(sim, 0, &body);
    assert_eq!(response.status, 200, "{model}");
    String::from_utf8(response.collect_bytes().0).unwrap()
}

fn chunks(name: &str, model: &str, changes: Value) -> Vec<Value> {
    events(raw(&sim(name), model, changes).as_bytes())
}

fn usage_asked() -> Value {
    json!({"stream_options": {"include_usage": true}})
}

#[test]
fn every_vendor_streams_what_it_says_whole() {
    for model in softland_sim::open_models().iter().filter(|m| m.chat && m.chat_tools) {
        for name in ["reader", "thinker", "parallel", "refuser:text", "refuser", "trivial"] {
            let wish = json!({"stream_options": null});
            let mut asked = body(model.id);
            if model.claude {
                asked["reasoning"] = json!({"enabled": true});
            }
            let (_, whole) = API.json(&sim(name), &asked);
            let said = raw(&sim(name), model.id, with(asked.clone(), wish));
            let stream = API.assemble(said.as_bytes());
            let (whole, stream) = (&whole["choices"][0], &stream["choices"][0]);
            assert_eq!(whole["finish_reason"], stream["finish_reason"], "{} {name}", model.id);
            for key in ["tool_calls", "reasoning_content", "reasoning", "reasoning_details"] {
                let (whole, stream) = (&whole["message"][key], &stream["message"][key]);
                assert_eq!(whole, stream, "{} {name} {key}", model.id);
            }
            for key in ["content", "refusal"] {
                let text = |v: &Value| v["message"][key].as_str().unwrap_or("").to_owned();
                assert_eq!(text(whole), text(stream), "{} {name} {key}", model.id);
            }
            assert!(said.ends_with("data: [DONE]\n\n"), "{}", model.id);
        }
    }
}

#[test]
fn openai_says_its_usage_last_and_null_before() {
    for model in ["gpt-4o", "gpt-5.2", "model-router"] {
        let plain = chunks("reader", model, json!({}));
        assert!(plain.iter().all(|c| c.get("usage").is_none()), "{model}");
        let asked = chunks("reader", model, usage_asked());
        let (last, before) = asked.split_last().unwrap();
        assert_eq!((&last["choices"], last["usage"].is_object()), (&json!([]), true), "{model}");
        let own = |c: &&Value| !(model == "model-router" && c["choices"] == json!([]));
        assert!(before.iter().filter(own).all(|c| c.get("usage") == Some(&Value::Null)), "{model}");
        let details = &last["usage"]["prompt_tokens_details"];
        assert_eq!(details["cached_tokens"], 0);
        let total = last["usage"]["prompt_tokens"].as_u64().unwrap()
            + last["usage"]["completion_tokens"].as_u64().unwrap();
        assert_eq!(last["usage"]["total_tokens"], total);
    }
    let padded = chunks("reader", "gpt-4o", json!({}));
    assert!(padded.iter().all(|c| c["obfuscation"].is_string()));
    let plain = json!({"stream_options": {"include_obfuscation": false}});
    assert!(chunks("reader", "gpt-4o", plain).iter().all(|c| c.get("obfuscation").is_none()));
    let writes = chunks("reader", "gpt-5.6", usage_asked());
    assert_eq!(writes.last().unwrap()["usage"]["prompt_tokens_details"]["cache_write_tokens"], 0);
}

#[test]
fn a_named_choice_ends_in_stop_although_there_is_a_call() {
    let reply = |choice: Value| {
        let (_, json) =
            API.json(&sim("looper"), &with(body("gpt-4o"), json!({"tool_choice": choice})));
        json["choices"][0].clone()
    };
    let named = reply(API.named("grep"));
    assert_eq!(
        (&named["finish_reason"], named["message"]["tool_calls"].is_array()),
        (&json!("stop"), true)
    );
    assert_eq!(reply(API.any())["finish_reason"], "tool_calls");
}

#[test]
fn azure_begins_with_a_chunk_without_choices() {
    let chunks = chunks("reader", "model-router", json!({}));
    assert_eq!(chunks[0]["choices"], json!([]));
    assert!(chunks[0]["prompt_filter_results"].is_array());
    assert_eq!(chunks[1]["model"], "gpt-4.1-mini-2025-04-14");
}

#[test]
fn openrouter_comments_repeats_its_end_and_names_the_cost() {
    let text =
        raw(&sim("thinker"), "anthropic/claude-haiku-4.5", json!({"reasoning": {"enabled": true}}));
    assert!(text.starts_with(": OPENROUTER PROCESSING\n\n"), "{text}");
    let chunks = events(text.as_bytes());
    let finished: Vec<&Value> =
        chunks.iter().filter(|c| c["choices"][0]["finish_reason"] == "tool_calls").collect();
    assert_eq!(finished.len(), 2);
    assert_eq!(finished[0]["choices"][0]["native_finish_reason"], "tool_use");
    assert!(finished[0].get("usage").is_none());
    assert!(finished[1]["usage"]["cost"].as_f64().unwrap() > 0.0);
    assert!(chunks.iter().all(|c| c["choices"][0]["delta"]["role"] == "assistant"));
    let signed = chunks
        .iter()
        .filter(|c| c["choices"][0]["delta"]["reasoning_details"][0]["signature"].is_string());
    for chunk in signed {
        let detail = &chunk["choices"][0]["delta"]["reasoning_details"][0];
        assert!(detail.get("text").is_none(), "a signature comes in its own chunk: {detail}");
    }
    let failed = raw(&sim("midstream-error"), "openai/gpt-4o", json!({}));
    let chunks = events(failed.as_bytes());
    let last = chunks.last().unwrap();
    assert_eq!(
        (&last["error"]["code"], &last["choices"][0]["finish_reason"]),
        (&json!(502), &json!("error"))
    );
    assert!(failed.ends_with("data: [DONE]\n\n"));
}

#[test]
fn deepseek_and_zai_say_their_usage_with_the_end() {
    for (model, changes) in [("deepseek-v4-flash", usage_asked()), ("glm-4.7", json!({}))] {
        let chunks = chunks("thinker", model, changes);
        let last = chunks.last().unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], "tool_calls", "{model}");
        assert!(
            last["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 0
        );
        let first = &chunks[0]["choices"][0]["delta"];
        assert!(first["reasoning_content"].is_string(), "{model}: {first}");
    }
    let deep = chunks("reader", "deepseek-v4-flash", usage_asked());
    let usage = &deep.last().unwrap()["usage"];
    let at = |key: &str| usage[key].as_u64().unwrap();
    assert_eq!(at("prompt_cache_hit_tokens") + at("prompt_cache_miss_tokens"), at("prompt_tokens"));
}

#[test]
fn groq_and_xai_send_whole_calls_and_groq_refuses_bad_ones() {
    for model in ["llama-3.3-70b-versatile", "grok-4.3"] {
        let chunks = chunks("parallel", model, json!({}));
        let calls: Vec<&Value> =
            chunks.iter().filter_map(|c| c["choices"][0]["delta"]["tool_calls"].get(0)).collect();
        assert_eq!(calls.len(), 6, "{model}");
        assert!(calls.iter().all(|c| c["function"]["arguments"].as_str().unwrap().ends_with('}')));
    }
    for name in ["bad-json", "unknown-tool"] {
        let groq = "llama-3.3-70b-versatile";
        let text = raw(&sim(name), groq, json!({}));
        assert!(text.contains("event: error\ndata: ") && !text.contains("[DONE]"), "{text}");
        let error = &events(text.as_bytes()).pop().unwrap()["error"];
        assert_eq!(
            (&error["code"], &error["status_code"]),
            (&json!("tool_use_failed"), &json!(400))
        );
        assert!(error["failed_generation"].as_str().unwrap().contains("<function="));
        let sim = sim(name);
        let (status, reply) = API.json(&sim, &body(groq));
        assert_eq!((status, &reply["error"]["code"]), (400, &json!("tool_use_failed")));
        assert_eq!((sim.refused_requests(), sim.stats().faults), (0, 1), "no rule refused it");
    }
}

#[test]
fn the_compatibility_layer_numbers_calls_as_content_blocks() {
    let chunks = chunks("reader", "claude-haiku-4-5", json!({}));
    let first = chunks.iter().find_map(|c| c["choices"][0]["delta"]["tool_calls"].get(0)).unwrap();
    assert_eq!(first["index"], 1, "the text before it was block 0");
    assert!(first["id"].as_str().unwrap().starts_with("toolu_"));
    let first = crate::protocols::dialects::chunks("looper", "claude-haiku-4-5", json!({}));
    let first = first.iter().find_map(|c| c["choices"][0]["delta"]["tool_calls"].get(0)).unwrap();
    assert_eq!(first["index"], 0);
}

#[test]
fn hidden_reasoning_can_use_up_the_limit() {
    let limit = json!({"max_completion_tokens": 2});
    let (_, reply) = API.json(&sim("thinker"), &with(body("gpt-5-nano"), limit));
    let choice = &reply["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("length"), &json!(""))
    );
    assert_eq!(reply["model"], "gpt-5-nano-2025-08-07");
    assert!(reply["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 0);
}

#[test]
fn faults_have_the_vendors_shapes() {
    let error = |model: &str| {
        let sim = sim("overloaded:always");
        let (status, json) = API.json(&sim, &body(model));
        assert_eq!(status, 503, "{model}");
        json
    };
    assert!(error("gpt-4o")["error"]["param"].is_null());
    let routed = error("openai/gpt-4o");
    assert_eq!(routed["error"]["code"], 503);
    assert!(routed["user_id"].is_string());
    assert_eq!(error("glm-4.7")["error"]["code"], "1210");
}
