//! Observing and governing one request, from its bytes to the body that goes upstream: a history
//! of 1 MB (400 turns) and of 10 MB (4,000), under a policy that counts down. Beside it, what a
//! program without the session would do for the same lines: parse into `serde_json::Value`, append
//! them to the results, serialise.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

mod corpus;

use std::collections::BTreeMap;

use bytes::Bytes;
use divan::{Bencher, counter::BytesCount};
use serde_json::Value;
use softland_core::policy::Policy;
use softland_core::{Facts, Role, lines, models::find_capability};
use softland_session::{Context, Exchange, Output, Step};

const SIZES: [usize; 2] = [400, 4000];

fn main() {
    let body = corpus::request(400);
    assert!((900_000..1_200_000).contains(&body.len()), "{} bytes", body.len());
    // Both sides do the same work: the bodies mean the same.
    let parsed = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap();
    assert_eq!(parsed(&governed(body.clone(), 400)), parsed(&baseline(&body, 400)));
    divan::main();
}

/// A limit that the history reaches to about three quarters, so that a quarter of the results
/// carry a line; every detector is on.
fn limit(turns: usize) -> u64 {
    (turns as u64 * 11 / 10) * 4 / 3
}

fn policy(turns: usize) -> Policy {
    Policy { tool_calls_limit: Some(limit(turns)), ..Policy::default() }
}

fn governed(body: Vec<u8>, turns: usize) -> Bytes {
    begun(body, policy(turns))
}

fn begun(body: Vec<u8>, policy: Policy) -> Bytes {
    let context = Context {
        api: Default::default(),
        role: Role::Gateway,
        policy: policy.into(),
        records: BTreeMap::new(),
        facts: Facts::default(),
        capability: find_capability(Some("anthropic"), "claude-opus-5-5"),
        output_maximum: Some(128_000),
        window: None,
        shape: None,
        chain: None,
        asked_at: 0,
    };
    let mut out = Output::default();
    match Exchange::from_request(body, context, &mut out).unwrap().next_step().unwrap() {
        Step::Send(body) => body,
        Step::Done(_) => Bytes::new(),
    }
}

fn baseline(body: &[u8], turns: usize) -> Vec<u8> {
    let mut request: Value = serde_json::from_slice(body).unwrap();
    let limit = limit(turns);
    let mut used = 0;
    for message in request["messages"].as_array_mut().unwrap() {
        for block in message["content"].as_array_mut().unwrap() {
            if block["type"] != "tool_result" {
                continue;
            }
            used += 1;
            if used * 2 < limit {
                continue;
            }
            let line = lines::format_countdown(limit - used, None);
            let text = match &mut block["content"] {
                Value::Array(parts) => &mut parts.last_mut().unwrap()["text"],
                text => text,
            };
            *text = format!("{}\n\n{line}", text.as_str().unwrap()).into();
        }
    }
    serde_json::to_vec(&request).unwrap()
}

#[divan::bench(args = SIZES)]
fn govern(bencher: Bencher<'_, '_>, turns: usize) {
    let body = corpus::request(turns);
    bencher
        .counter(BytesCount::of_slice(&body))
        .with_inputs(|| body.clone())
        .bench_values(|body| governed(body, turns));
}

#[divan::bench(args = SIZES)]
fn observe(bencher: Bencher<'_, '_>, turns: usize) {
    let body = corpus::request(turns);
    let policy = Policy { mode: softland_core::policy::Mode::Observe, ..policy(turns) };
    bencher
        .counter(BytesCount::of_slice(&body))
        .with_inputs(|| (body.clone(), policy.clone()))
        .bench_values(|(body, policy)| begun(body, policy));
}

#[divan::bench(args = SIZES)]
fn serde_json_value(bencher: Bencher<'_, '_>, turns: usize) {
    let body = corpus::request(turns);
    bencher.counter(BytesCount::of_slice(&body)).bench(|| baseline(&body, turns));
}
