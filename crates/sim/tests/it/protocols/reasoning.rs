//! Reasoning that has to come back, in each protocol and dialect that requires it.

use crate::protocols::apis::{Api, Reply, sim, user};
use crate::protocols::{check_with, with};
use serde_json::{Value, json};
use softland_sim::Sim;

const DEEP: &str = "deepseek-v4-flash";
const CLAUDE: &str = "anthropic/claude-haiku-4.5";

/// Returns a first turn with calls, and the request that continues it.
fn round(api: Api, sim: &Sim, base: &Value) -> (Reply, Value) {
    let reply = api.ask(sim, base);
    assert!(!reply.calls.is_empty());
    let mut next = base.clone();
    api.push(&mut next, reply.said.clone());
    let results = reply.calls.iter().map(|(id, ..)| (id.clone(), "a.md:1:x".into())).collect();
    api.push(&mut next, api.results(results));
    (reply, next)
}

#[test]
fn deepseek_wants_its_reasoning_content_back() {
    let api = Api::Chat;
    let sim = sim("thinker");
    let base = api.body(DEEP, vec![user("find it")]);
    let (reply, next) = round(api, &sim, &base);
    assert!(reply.said[0]["reasoning_content"].as_str().unwrap().len() > 5, "{reply:?}");
    check_with(&sim, api, "whole", &next, 200, "");
    let said = "The `reasoning_content` in the thinking mode must be passed back to the API.";
    let mut bare = next.clone();
    bare["messages"][1].as_object_mut().unwrap().remove("reasoning_content");
    check_with(&sim, api, "without", &bare, 400, said);
    // In all later requests, and also after a further question.
    api.push(&mut bare, vec![json!({"role": "assistant", "content": "x"}), user("and?")]);
    check_with(&sim, api, "later", &bare, 400, said);
    let mut empty = next;
    empty["messages"][1]["reasoning_content"] = "".into();
    check_with(&sim, api, "empty", &empty, 200, "");
    let off = json!({"thinking": {"type": "disabled"}});
    check_with(&sim, api, "not thinking", &with(bare, off), 200, "");
    let (_, error) = api.json(&sim, &with(base, json!({"messages": []})));
    let error = error["error"].as_object().unwrap();
    assert_eq!(error["param"], Value::Null);
}

#[test]
fn deepseek_wants_reasoning_before_each_round_of_items() {
    let api = Api::Responses;
    let sim = sim("thinker");
    let base = api.body(DEEP, vec![user("find it")]);
    let (reply, next) = round(api, &sim, &base);
    let first = &reply.said[0];
    assert_eq!(
        (&first["type"], &first["content"][0]["type"]),
        (&json!("reasoning"), &json!("reasoning_text"))
    );
    check_with(&sim, api, "whole", &next, 200, "");
    let said = "The `reasoning_text` in the thinking mode must be passed back to the API.";
    let mut bare = next.clone();
    bare["input"].as_array_mut().unwrap().retain(|item| item["type"] != "reasoning");
    check_with(&sim, api, "without", &bare, 400, said);
    // A call after an output, with no reasoning in between, is a round without reasoning.
    let more = [
        json!({"type": "function_call", "call_id": "z", "name": "grep", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "z", "output": "x"}),
    ];
    let mut interleaved = next;
    api.push(&mut interleaved, more.to_vec());
    check_with(&sim, api, "interleaved", &interleaved, 400, said);
}

#[test]
fn a_routed_claude_wants_its_details_unmodified() {
    let api = Api::Chat;
    for stream in [false, true] {
        let sim = sim("thinker");
        let wish = json!({"reasoning": {"max_tokens": 2000}});
        let base = with(api.body(CLAUDE, vec![user("find it")]), wish);
        let (mut reply, mut next) = round(api, &sim, &base);
        if stream {
            reply = api.ask_stream(&sim, &base);
            next = base.clone();
            api.push(&mut next, reply.said.clone());
            let results =
                reply.calls.iter().map(|(id, ..)| (id.clone(), "a.md:1:x".into())).collect();
            api.push(&mut next, api.results(results));
        }
        let detail = &reply.said[0]["reasoning_details"][0];
        assert_eq!(detail["type"], "reasoning.text");
        assert!(detail["signature"].is_string(), "{detail}");
        check_with(&sim, api, "whole", &next, 200, "");
        // A client may merge and rename unsigned reasoning.
        let mut kept = next.clone();
        kept["messages"][1]["reasoning_details"][0]["format"] = Value::Null;
        kept["messages"][1].as_object_mut().unwrap().remove("reasoning");
        check_with(&sim, api, "kept", &kept, 200, "");
        for (field, value) in [("text", "something else"), ("signature", "sig")] {
            let mut edited = next.clone();
            edited["messages"][1]["reasoning_details"][0][field] = value.into();
            check_with(&sim, api, field, &edited, 400, "Invalid `signature` in `thinking` block");
        }
        let mut bare = next.clone();
        bare["messages"][1].as_object_mut().unwrap().remove("reasoning_details");
        check_with(&sim, api, "without", &bare, 400, "Expected `thinking` or `redacted_thinking`");
        let (_, error) = api.json(&sim, &bare);
        assert_eq!(error["error"]["message"], "Provider returned error");
        assert_eq!(error["error"]["code"], 400);
        // Only an open loop has to have it.
        api.push(&mut bare, vec![json!({"role": "assistant", "content": "x"}), user("and?")]);
        check_with(&sim, api, "closed", &bare, 200, "");
    }
}

#[test]
fn encrypted_details_are_verified_too() {
    let api = Api::Chat;
    let sim = sim("thinker");
    let (reply, next) = round(api, &sim, &api.body("openai/o4-mini", vec![user("find it")]));
    let detail = &reply.said[0]["reasoning_details"][0];
    assert_eq!(detail["type"], "reasoning.encrypted");
    check_with(&sim, api, "whole", &next, 200, "");
    let mut edited = next;
    edited["messages"][1]["reasoning_details"][0]["data"] = "simr.1.0.0".into();
    check_with(&sim, api, "edited", &edited, 400, "could not be verified");
}

#[test]
fn reasoning_items_go_with_their_calls() {
    let api = Api::Responses;
    for store in [true, false] {
        let sim = sim("thinker");
        let base = with(api.body("gpt-5.2", vec![user("find it")]), json!({"store": store}));
        let (reply, next) = round(api, &sim, &base);
        let first = &reply.said[0];
        assert_eq!(first["type"], "reasoning");
        assert_eq!(first["encrypted_content"].is_string(), !store, "{first}");
        check_with(&sim, api, "whole", &next, 200, "");
        let without = |keep: &dyn Fn(&Value) -> bool| {
            let mut body = next.clone();
            body["input"].as_array_mut().unwrap().retain(keep);
            body
        };
        let said = "was provided without its required 'reasoning' item: 'rs_";
        let bare = without(&|item| item["type"] != "reasoning");
        check_with(&sim, api, "calls alone", &bare, 400, said);
        // Clients that drop the ids drop the links between the items, too.
        let mut nameless = bare;
        for item in nameless["input"].as_array_mut().unwrap() {
            item.as_object_mut().unwrap().remove("id");
        }
        check_with(&sim, api, "without ids", &nameless, 200, "");
        let mut ends = base.clone();
        api.push(&mut ends, vec![first.clone()]);
        let said = "of type 'reasoning' was provided without its required following item.";
        check_with(&sim, api, "reasoning alone", &ends, 400, said);
        api.push(&mut ends, vec![user("go on")]);
        check_with(&sim, api, "and a word", &ends, 400, said);
        // An empty turn's reasoning before a placeholder.
        let mut placed = base.clone();
        let placeholder = json!({"role": "assistant", "content": "[no answer]"});
        api.push(&mut placed, vec![first.clone(), placeholder, user("Please continue.")]);
        check_with(&sim, api, "before a placeholder", &placed, 200, "");
    }
}

#[test]
fn encrypted_content_comes_back_as_it_was_given_at_the_end() {
    let api = Api::Responses;
    let sim = sim("thinker");
    let base = with(api.body("gpt-5.2", vec![user("find it")]), json!({"store": false}));
    let (_, next) = round(api, &sim, &base);
    let said = "could not be verified. Reason: Encrypted content could not be decrypted or parsed.";
    for content in ["gAAAAsomebody", "simr.1.0.0"] {
        let mut edited = next.clone();
        edited["input"][1]["encrypted_content"] = content.into();
        check_with(&sim, api, content, &edited, 400, said);
        let (_, error) = api.json(&sim, &edited);
        assert_eq!(error["error"]["code"], "invalid_encrypted_content");
    }
    let mut forgotten = next.clone();
    forgotten["input"][1].as_object_mut().unwrap().remove("encrypted_content");
    check_with(&sim, api, "by id", &forgotten, 404, "Items are not persisted when `store` is set");
    // The first event of an item does not have the complete seal yet.
    let response = api.post(&sim, 0, &with(base, json!({"stream": true})));
    let events = crate::protocols::apis::events(&response.collect_bytes().0);
    let of = |kind: &str| {
        let event = events.iter().find(|e| e["type"] == kind).unwrap();
        event["item"]["encrypted_content"].clone()
    };
    let (added, done) = (of("response.output_item.added"), of("response.output_item.done"));
    assert_ne!(added, done);
    let mut early = next;
    early["input"][1]["encrypted_content"] = added;
    check_with(&sim, api, "from the first event", &early, 400, said);
}
