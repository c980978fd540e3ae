//! What a conversation has behind it counts once, whatever of it the history still shows, and from
//! the same place on in every later history.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use serde_json::{Value, json};
use softland_core::policy::{Policy, PolicyValue as Key};
use softland_core::{Facts, PinnedRecords, RequestFailure, Role, RunUsage};
use softland_session::wire::{Api, request::Request};
use softland_session::{Context, Exchange, OpenedRequest, Output, Past, Step, StoredConversation};

const LIMIT: i128 = 40;

fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.set_key("tool_calls_limit", &Key::Int(LIMIT)).unwrap();
    policy
}

/// One round of these calls.
fn round(n: usize, calls: usize) -> [Value; 2] {
    let id = |call: usize| format!("toolu_{n:06}x{call:04}");
    let call = |at: usize| json!({"type": "tool_use", "id": id(at), "name": "look", "input": {"at": n, "call": at}});
    let result = |at: usize| json!({"type": "tool_result", "tool_use_id": id(at), "content": format!("{n}.{at}")});
    let calls: Vec<usize> = (0..calls).collect();
    [
        json!({"role": "assistant", "content": calls.iter().map(|at| call(*at)).collect::<Vec<_>>()}),
        json!({"role": "user", "content": calls.iter().map(|at| result(*at)).collect::<Vec<_>>()}),
    ]
}

fn body(messages: &[Value]) -> Vec<u8> {
    let tools = json!([{"name": "look", "input_schema": {"type": "object"}}]);
    let head = json!({"model": "claude-sonnet-4-5", "max_tokens": 100, "tools": tools}).to_string();
    let messages = serde_json::to_string(messages).unwrap();
    format!("{},\"messages\":{messages}}}", head.strip_suffix('}').unwrap()).into_bytes()
}

/// The request as it is governed, the calls that are counted, and the records to keep.
fn governed(
    messages: &[Value],
    records: PinnedRecords,
    past: Option<Past>,
) -> (String, u64, PinnedRecords) {
    let body = body(messages);
    let request = Request::from_body(Api::Anthropic, &body).unwrap();
    let mut context = Context::new(Role::Gateway, policy(), None, "claude-sonnet-4-5");
    context.records = records;
    let remembered = StoredConversation { past, ..StoredConversation::default() };
    let opened = OpenedRequest::read_history(&request, body.clone().into(), context, remembered);
    let mut out = Output::default();
    let mut exchange: Exchange = opened.into_exchange(&Facts::default(), &mut out);
    let governed = String::from_utf8(exchange.governed_body().to_vec()).unwrap();
    let calls = exchange.run().used().calls;
    exchange.fail_request(RequestFailure::Provider, &mut out);
    let Step::Done(done) = exchange.next_step().unwrap() else {
        panic!("a failed request is over")
    };
    (governed, calls, done.records)
}

#[test]
fn what_is_kept_behind_a_summary_counts_once() {
    for (made, width) in [(6, 1), (5, 3), (9, 2)] {
        for kept in 0..=made {
            let total = (made * width) as u64;
            let rounds: Vec<[Value; 2]> = (0..made).map(|n| round(n, width)).collect();
            let mut messages = vec![json!({"role": "user", "content": "Before that: much."})];
            messages.extend(rounds[made - kept..].iter().flatten().cloned());
            let used = RunUsage { calls: total, turns: made as u64, ..RunUsage::default() };
            let past = Past { turn: kept.checked_sub(1), used, from: 0, ..Past::default() };
            let (before, calls, records) =
                governed(&messages, PinnedRecords::new(), Some(past.clone()));
            assert_eq!(calls, total, "{kept} of {made} rounds of {width}");
            // Asked again, and gone on with.
            let again = governed(&messages, records.clone(), Some(past));
            assert_eq!((&again.0, again.1), (&before, total));
            messages.extend(round(made, 1));
            let (after, calls, _) = governed(&messages, records, None);
            assert_eq!(calls, total + 1, "{kept} of {made} rounds of {width}");
            let prefix = before.strip_suffix("]}").unwrap();
            assert!(after.starts_with(prefix), "{prefix}\n{after}");
        }
    }
}

#[test]
fn a_history_from_before_does_not_see_what_counts_behind_it() {
    let question = json!({"role": "user", "content": "Look."});
    let summary = json!({"role": "user", "content": "Another language model started to solve this \
        problem and produced a summary of its thinking process. Much was done."});
    let used = RunUsage { calls: 7, turns: 7, ..RunUsage::default() };
    let past = Past { from: usize::MAX, used, ..Past::default() };
    let compacted = [question.clone(), summary];
    let (_, calls, records) = governed(&compacted, PinnedRecords::new(), Some(past));
    assert_eq!(calls, 7);
    let whole: Vec<Value> = [vec![question], round(0, 1).to_vec(), round(1, 1).to_vec()].concat();
    assert_eq!(governed(&whole, records, None).1, 2, "the same first message, gone back");
}

#[test]
fn a_question_behind_an_answer_is_a_run_of_its_own() {
    let used = RunUsage { calls: 7, turns: 7, ..RunUsage::default() };
    let alone = [json!({"role": "user", "content": "What was done is this. And now to the rest."})];
    for (over, counted) in [(false, 7), (true, 0)] {
        let past = Past { from: usize::MAX, used: used.clone(), over, ..Past::default() };
        assert_eq!(governed(&alone, PinnedRecords::new(), Some(past)).1, counted, "{over}");
    }
    // A tail, an answer, and a question.
    let mut messages = vec![json!({"role": "user", "content": "Before that: much."})];
    messages.extend(round(3, 1));
    messages
        .push(json!({"role": "assistant", "content": "That was all that there is to see here."}));
    messages.push(json!({"role": "user", "content": "And what else is there to be seen?"}));
    let past = Past { turn: Some(0), used, ..Past::default() };
    assert_eq!(governed(&messages, PinnedRecords::new(), Some(past)).1, 0);
}
