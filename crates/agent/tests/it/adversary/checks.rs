//! Checks of every run, of its report and of its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use softland_agent::core::policy::{Batch, Policy};
use softland_agent::core::{Ladder, Outcome};
use softland_agent::http::Api;
use softland_agent::{AnsweredBy, Conversation, Event, EventKind, Report};
use softland_session::wire::request::Request;

use crate::adversary::case::Case;
use crate::adversary::hostile::THOUGHT;
use crate::adversary::seeds::Met;
use crate::adversary::watch::Watching;
use crate::common::SimTransport;

/// The run used no more than it was allowed, and its report is true.
pub(crate) fn first_run(
    (report, events): &(Report, Vec<Event>),
    policy: &Policy,
    tools: &[(&str, Arc<AtomicU64>)],
    script: u64,
    transport: &SimTransport,
) {
    let executed =
        events.iter().filter(|e| matches!(e.kind, EventKind::ToolExecute { .. })).count();
    let run: u64 = tools.iter().map(|(_, calls)| calls.load(Ordering::Relaxed)).sum();
    assert!(run <= executed as u64, "{run} calls ran, {executed} were told");
    assert_eq!(report.tool_calls, executed as u64, "the count of calls is true");
    if let Some(limit) = policy.tool_calls_limit {
        // With `all`, the one batch that passes the limit runs whole.
        let most = if policy.batch == Batch::All && limit > 0 { limit + 4 } else { limit };
        assert!(executed as u64 <= most, "{executed} calls of {limit}");
    }
    for (tool, limit) in &policy.tool_limits {
        let of =
            |e: &&Event| matches!(&e.kind, EventKind::ToolExecute { name, .. } if name == tool);
        let calls = events.iter().filter(of).count() as u64;
        assert!(calls <= *limit, "{calls} calls of {tool}, limit {limit}");
    }
    let requests = transport.requests().len() as u64;
    let most = (script + 2) * (Ladder::max_requests(policy)) * 3;
    assert!(requests <= most, "{requests} requests");
    if let Some(limit) = policy.turns_limit {
        assert!(report.turns <= limit.max(1), "{} turns of {limit}", report.turns);
    }
    truth(report, transport);
}

/// A landed run's last request carried the note; an answered run's did not.
fn truth(report: &Report, transport: &SimTransport) {
    let last = transport.requests().pop().unwrap_or_default();
    let text = last.to_string();
    let noted = text.contains("Answer now with what you have");
    match report.ended.outcome {
        Outcome::Answered => assert!(!noted, "answered, but the note was there: {text}"),
        Outcome::Landed if report.ended.limit.is_some() => {
            assert!(noted, "landed without a note: {:?} {text}", report.ended)
        }
        _ => {}
    }
}

/// Checks that the run has one end and every call its result.
pub(crate) fn events(events: &[Event]) {
    let terminal = events.iter().filter(|event| event.kind.is_terminal()).count();
    assert_eq!(terminal, 1, "one terminal event");
    assert!(events.last().is_some_and(|event| event.kind.is_terminal()), "it is the last");
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event.seq, n as u64, "no gaps");
        serde_json::to_string(event).unwrap();
    }
    let mut open: Vec<&str> = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::ToolExecute { id, .. } => open.push(id),
            EventKind::ToolResult { id, .. } => {
                let at = open.iter().position(|o| o == id).expect("a result without a call");
                open.remove(at);
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "calls without a result: {open:?}");
}

/// Checks that an answer has an author.
pub(crate) fn report(report: &Report) {
    match report.ended.outcome {
        Outcome::Answered | Outcome::Landed | Outcome::Stopped => {
            let answer = report.answer.as_deref().unwrap_or_default();
            assert!(!answer.trim().is_empty(), "an answer: {report:?}");
            assert_ne!(answer.trim(), "[no answer]");
            assert!(!answer.contains(THOUGHT), "thinking in the answer");
            let local = report.answered_by == Some(AnsweredBy::Local);
            assert_eq!(local, report.ended.outcome == Outcome::Stopped, "{report:?}");
            assert_eq!(local, answer.contains("softland's, not the model's"), "whose: {answer}");
        }
        Outcome::Failed | Outcome::Cancelled => {
            assert!(report.answer.is_none() && report.answered_by.is_none());
        }
    }
    if let Some(limit) = &report.ended.limit {
        assert!(report.ended.value.is_some(), "{limit} without its value");
    }
}

/// Every call is answered exactly once, before the model says anything more.
pub(crate) fn conversation(api: Api, conversation: &Conversation) {
    let messages: Vec<Value> =
        conversation.messages().map(|m| serde_json::from_slice(m).unwrap()).collect();
    let mut open: Vec<String> = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let (calls, answers) = ids(api, message);
        for answer in answers {
            assert!(!open.is_empty(), "a result without a call: message {n} of {messages:#?}");
            assert_eq!(open.remove(0), answer, "message {n} of {messages:#?}");
        }
        // A turn of Responses may have a text behind its calls; the simulator looks at the order.
        let items = api == Api::OpenAiResponses;
        let speaks = message["role"] == "user" || (message["role"] == "assistant" && !items);
        assert!(!speaks || open.is_empty(), "unanswered before message {n} of {messages:#?}");
        open.extend(calls);
    }
    assert!(open.is_empty(), "unanswered at the end of {messages:#?}");
}

/// The ids of a message's calls, and of its results.
fn ids(api: Api, message: &Value) -> (Vec<String>, Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of = |list: &Value, kind: &str, key: &str| -> Vec<String> {
        let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().filter(|b| b["type"] == kind).map(|b| text(&b[key])).collect()
    };
    let one = |is: bool, key: &str| if is { vec![text(&message[key])] } else { Vec::new() };
    match api {
        Api::Anthropic => (
            of(&message["content"], "tool_use", "id"),
            of(&message["content"], "tool_result", "tool_use_id"),
        ),
        Api::OpenAiChat => (
            of(&message["tool_calls"], "function", "id"),
            one(message["role"] == "tool", "tool_call_id"),
        ),
        Api::OpenAiResponses => (
            one(message["type"] == "function_call", "call_id"),
            one(message["type"] == "function_call_output", "call_id"),
        ),
    }
}

/// Every request begins with the messages of the request before it, except for messages that stand
/// apart.
pub(crate) fn prefixes(api: Api, transport: &SimTransport, apart: &[usize]) {
    let bodies = transport.bodies.lock().unwrap();
    for (n, pair) in bodies.windows(2).enumerate() {
        if apart.contains(&(n + 1)) {
            continue;
        }
        let (before, after) = (messages(api, &pair[0]), messages(api, &pair[1]));
        let before = before.strip_suffix(b"]").unwrap();
        assert!(
            after.starts_with(before),
            "the prefix changed:\n{}\n---\n{}",
            String::from_utf8_lossy(before),
            String::from_utf8_lossy(after)
        );
    }
}

/// Checks refusals. For a model in the tables the provider refuses nothing. For any other model, no
/// rung of the run that began with request `asked` is refused twice, and requests that are not
/// rungs are not refused.
pub(crate) fn refused(case: &Case, watching: &Watching, asked: usize) {
    let rungs: Vec<_> = watching.refused().into_iter().filter(|(n, _)| *n >= asked).collect();
    if rungs.is_empty() {
        return;
    }
    let why = watching.transport.sim.stats().refusals;
    assert!(case.rules_of.is_some(), "refused: {why:?}");
    for (_, rung) in &rungs {
        assert!(rung.is_some(), "refused, and no rung: {why:?}");
        let same = rungs.iter().filter(|(_, other)| other == rung).count();
        assert!(same == 1, "{rung:?} refused twice: {why:?}");
    }
}

fn messages(api: Api, body: &[u8]) -> &[u8] {
    let span = Request::from_body(api.into(), body).unwrap().messages.span;
    &body[span.start..span.end]
}

/// Notes the situations that the run met.
pub(crate) fn note((report, events): &(Report, Vec<Event>), seen: &mut Met) {
    seen.insert(format!("outcome {}", report.ended.outcome.word()));
    seen.insert(format!("reason {}", report.ended.reason.to_string().split(':').next().unwrap()));
    if let Some(rung) = report.ended.rung {
        seen.insert(format!("rung {}", rung.word()));
    }
    for event in events {
        match &event.kind {
            EventKind::Signal { signal, .. } => seen.insert(format!("signal {signal}")),
            EventKind::Intervention { intervention, .. } => {
                if ["refuse", "none", "respond"].contains(intervention) {
                    seen.insert(format!("rung {intervention}"));
                }
                seen.insert(format!("intervention {intervention}"))
            }
            _ => false,
        };
    }
}
