//! The text of event lines: the envelope, and each event's fields as
//! `docs/reference/events.md` names them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::ser::Serializer as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use softland_core::{Digest, NanoUsd, Outcome, RunEnding};

use crate::record::{Request, RequestTexts, RunEnd, RunStart};

/// The beginning of every line, with the version of the format.
pub(crate) const HEAD: &str = "{\"v\":1,\"seq\":";

/// Names in the envelope, which no field may have.
const ENVELOPE: [&str; 6] = ["v", "seq", "ts", "run", "turn", "event"];

/// The fields with contents, by event.
const CONTENTS: [(&str, &str); 5] = [
    ("text_delta", "text"),
    ("thinking_delta", "text"),
    ("tool_input_delta", "partial_json"),
    ("tool_execute", "input"),
    ("tool_result", "content"),
];

/// Formats a time in milliseconds since 1970 as RFC 3339 in UTC, to the millisecond.
#[must_use]
pub fn format_timestamp(at: u64) -> String {
    let at = i64::try_from(at).unwrap_or(i64::MAX);
    let at = jiff::Timestamp::from_millisecond(at).unwrap_or(jiff::Timestamp::MAX);
    format!("{at:.3}")
}

/// Parses a time in milliseconds since 1970: RFC 3339, or a day, which is its beginning in UTC.
#[must_use]
pub fn parse_timestamp(text: &str) -> Option<u64> {
    let time = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let day = text.parse::<jiff::civil::Date>().ok()?;
        Some(day.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    });
    u64::try_from(time?.as_millisecond()).ok()
}

/// The values before an event's own fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) seq: u64,
    pub(crate) at: u64,
    pub(crate) run: &'a str,
    pub(crate) turn: u64,
    pub(crate) event: &'a str,
}

/// Appends one line; `fields` is a JSON object on one line.
pub(crate) fn write_line(out: &mut Vec<u8>, envelope: &Envelope<'_>, fields: &str) {
    write_line_at(out, envelope, &format_timestamp(envelope.at), fields);
}

/// Appends one line with its time as a text.
pub(crate) fn write_line_at(out: &mut Vec<u8>, envelope: &Envelope<'_>, ts: &str, fields: &str) {
    let Envelope { seq, run, turn, event, .. } = *envelope;
    let head = format!("{HEAD}{seq},\"ts\":\"{ts}\",\"run\":");
    out.extend_from_slice(head.as_bytes());
    write_quoted(out, run);
    out.extend_from_slice(format!(",\"turn\":{turn},\"event\":").as_bytes());
    write_quoted(out, event);
    let inner = fields.strip_prefix('{').unwrap_or("}");
    if inner.trim_start() != "}" {
        out.push(b',');
    }
    out.extend_from_slice(inner.as_bytes());
    out.push(b'\n');
}

fn write_quoted(out: &mut Vec<u8>, text: &str) {
    // Writing a string to a vector cannot fail.
    let _ = serde_json::Serializer::new(out).serialize_str(text);
}

/// An event's fields: a JSON object on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields(String);

impl Fields {
    /// Serializes a struct or a map as fields. For any other value, and for a value that JSON
    /// cannot represent, only its size is kept.
    #[must_use]
    pub fn from_value(value: &impl Serialize) -> Self {
        let text = serde_json::to_string(value).unwrap_or_default();
        if text.starts_with('{') { Self(text) } else { Self::from_unreadable(text.len()) }
    }

    fn from_unreadable(bytes: usize) -> Self {
        Self(to_json(&BTreeMap::from([("unreadable_bytes", bytes)])))
    }

    /// Returns the JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Parses a JSON object. For any other text, only its size is kept.
impl From<&str> for Fields {
    fn from(text: &str) -> Self {
        let Ok(fields) = serde_json::from_str::<BTreeMap<String, Value>>(text) else {
            return Self::from_unreadable(text.len());
        };
        // `may_clash` searches for names in our own notation: on one line, without escapes.
        let plain = !text.contains(['\n', '\r', '\\']);
        if plain { Self(text.trim().to_owned()) } else { Self::from_value(&fields) }
    }
}

/// Returns the fields of an event as they are stored: without the envelope's names, and with
/// digests in place of contents unless `full`.
pub(crate) fn event_fields<'a>(event: &str, fields: &'a str, full: bool) -> Cow<'a, str> {
    let said = CONTENTS.iter().find(|(name, _)| *name == event).map(|(_, field)| *field);
    let said = said.filter(|_| !full);
    if said.is_none() && !may_clash(fields) {
        return Cow::Borrowed(fields);
    }
    let taken: BTreeMap<String, Value> = serde_json::from_str(fields).unwrap_or_default();
    if said.is_none() && !taken.keys().any(|name| ENVELOPE.contains(&name.as_str())) {
        return Cow::Borrowed(fields);
    }
    let mut kept = BTreeMap::new();
    for (name, value) in taken {
        if said == Some(name.as_str()) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            kept.insert(
                format!("{name}_digest"),
                Digest::from_bytes(text.as_bytes()).to_string().into(),
            );
            kept.insert(format!("{name}_bytes"), text.len().into());
        } else if ENVELOPE.contains(&name.as_str()) {
            // `child {run}`: the envelope's `run` is the parent's.
            kept.insert(format!("{event}_{name}"), value);
        } else {
            kept.insert(name, value);
        }
    }
    to_json(&kept).into()
}

/// True if an object may have a name of the envelope, at its top level or deeper. Only compares the
/// text before colons, and does not parse.
fn may_clash(fields: &str) -> bool {
    fields.match_indices(':').any(|(colon, _)| {
        let before = fields.get(..colon).unwrap_or_default().trim_end();
        let Some(before) = before.strip_suffix('"') else { return false };
        let named = |name: &str| before.strip_suffix(name).is_some_and(|rest| rest.ends_with('"'));
        ENVELOPE.into_iter().any(named)
    })
}

/// Returns the fields of `run_start`, with the session and others that readers of several runs
/// need.
pub(crate) fn start_fields(start: &RunStart) -> String {
    #[derive(Serialize)]
    struct StartFields<'a> {
        agent: Option<&'a str>,
        model: &'a str,
        policy: &'a str,
        session: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        mode: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        continues: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        client: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        account: Option<&'a str>,
    }
    to_json(&StartFields {
        agent: start.agent.as_deref(),
        model: &start.model,
        policy: &start.policy,
        session: &start.session,
        name: start.name.as_deref(),
        mode: mode_name(start.observed),
        continues: start.continues.as_deref(),
        client: start.client.as_deref(),
        key: start.payer.key.as_deref(),
        account: start.payer.account.as_deref(),
    })
}

/// Returns the policy's `mode`, unless it is the default.
pub(crate) fn mode_name(observed: bool) -> Option<&'static str> {
    observed.then_some("observe")
}

/// Returns the fields of `usage`, with the identity and the result of the request.
pub(crate) fn usage_fields<T>(request: &Request<T>, texts: RequestTexts<'_>) -> String {
    #[derive(Serialize)]
    struct UsageFields<'a> {
        input: u64,
        output: u64,
        cache_read: u64,
        cache_write: u64,
        cost_usd: Option<NanoUsd>,
        request: &'a str,
        upstream: &'a str,
        path: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        rung: Option<&'a str>,
        status: Option<u16>,
        ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        remark: Option<&'a str>,
    }
    to_json(&UsageFields {
        input: request.input,
        output: request.output,
        cache_read: request.cache_read,
        cache_write: request.cache_write,
        cost_usd: request.cost,
        request: texts.id,
        upstream: &request.upstream,
        path: texts.path,
        model: request.model.as_deref(),
        rung: texts.rung,
        status: request.status,
        ms: request.millis,
        remark: texts.remark,
    })
}

/// Returns the name of a run's last event.
pub(crate) fn last_event_name(ended: &RunEnding) -> &'static str {
    if ended.outcome.is_done() { "done" } else { "error" }
}

/// Returns the fields of `done` or `error`.
pub(crate) fn end_fields(end: &RunEnd, full: bool) -> String {
    #[derive(Serialize)]
    struct UsageTotal {
        input: u64,
        output: u64,
        cache_read: u64,
        cache_write: u64,
    }
    #[derive(Serialize)]
    struct EndFields<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(flatten)]
        ended: &'a RunEnding,
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        answered_by: Option<&'static str>,
        turns: u64,
        tool_calls: Option<u64>,
        usage: UsageTotal,
        cost_usd: Option<NanoUsd>,
    }
    let done = end.ended.outcome.is_done();
    to_json(&EndFields {
        message: (!done).then(|| end_message(&end.ended)),
        ended: &end.ended,
        answer: end.answer.as_deref().filter(|_| done && full),
        answered_by: done.then_some(if end.local { "local" } else { "model" }),
        turns: end.turns,
        tool_calls: end.tool_calls,
        usage: UsageTotal {
            input: end.input,
            output: end.output,
            cache_read: end.cache_read,
            cache_write: end.cache_write,
        },
        cost_usd: end.cost,
    })
}

/// Returns the reason why a run has no answer, as a sentence.
fn end_message(ended: &RunEnding) -> String {
    match (ended.outcome, &ended.reason) {
        (Outcome::Failed, softland_core::Reason::Provider) => {
            "the provider gave no answer".to_owned()
        }
        (Outcome::Cancelled, softland_core::Reason::User) => {
            "ended by the user or by silence".to_owned()
        }
        (outcome, reason) => format!("{}: {reason}", outcome.word()),
    }
}

/// The values that identify a line of the event log.
#[derive(Debug, Deserialize)]
pub(crate) struct LineHeader {
    pub(crate) seq: u64,
    pub(crate) run: String,
    pub(crate) event: String,
}

/// Reads the header of a line, or returns `None` if the text is not such a line.
pub(crate) fn read_header(line: &[u8]) -> Option<LineHeader> {
    serde_json::from_slice(line).ok()
}

/// Serializes a value of our own types. Every key is a string, so that this cannot fail.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "{}".to_owned())
}
