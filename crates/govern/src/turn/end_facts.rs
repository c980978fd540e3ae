//! The end of a run, as the client is told of it: by headers of a whole response, and by a comment
//! in a stream.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use serde::Serialize;
use softland_session::core::{NanoUsd, RunEnding};

use super::flow::GovernedRequest;

const OUTCOME: HeaderName = HeaderName::from_static("x-softland-outcome");
const REASON: HeaderName = HeaderName::from_static("x-softland-reason");
const LIMIT: HeaderName = HeaderName::from_static("x-softland-limit");
const COST: HeaderName = HeaderName::from_static("x-softland-cost-usd");

/// The facts of a response: the end of its run, if the run ends, and what the run has cost so far.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct EndFacts {
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The key and value of the limit that ended the run: `tool_calls_limit 30`.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    /// In dollars; `None` if it is unknown.
    cost_usd: Option<NanoUsd>,
}

impl EndFacts {
    fn new(ending: Option<&RunEnding>, cost: Option<NanoUsd>) -> Self {
        let Some(ending) = ending else { return Self { cost_usd: cost, ..Self::default() } };
        let limit = ending.limit.as_ref().zip(ending.value);
        Self {
            outcome: Some(ending.outcome.word()),
            reason: Some(ending.reason.to_string()),
            limit: limit.map(|(key, value)| format!("{key} {}", plain(&value.to_string()))),
            cost_usd: cost,
        }
    }

    /// Adds the headers of a whole response.
    pub(super) fn add_headers(&self, headers: &mut HeaderMap) {
        let cost = self.cost_usd.map(|cost| plain(&cost.to_string()).to_owned());
        let facts = [
            (OUTCOME, self.outcome),
            (REASON, self.reason.as_deref()),
            (LIMIT, self.limit.as_deref()),
            (COST, cost.as_deref()),
        ];
        for (name, fact) in facts {
            if let Some(value) = fact.and_then(|fact| HeaderValue::from_str(fact).ok()) {
                headers.insert(name, value);
            }
        }
    }
}

/// Returns a whole stream with a comment in front of its last event.
pub(super) fn before_last_event(stream: &[u8], comment: &str) -> Bytes {
    let events = stream.strip_suffix(b"\n\n").unwrap_or(stream);
    let last = events.windows(2).rposition(|end| end == b"\n\n").map_or(0, |at| at + 2);
    [&stream[..last], comment.as_bytes(), &stream[last..]].concat().into()
}

/// Returns an amount without its sign: the key or the header names the unit.
fn plain(amount: &str) -> &str {
    amount.trim_start_matches('$')
}

impl GovernedRequest {
    /// Returns the facts of the response once everything is booked. `ending` is the run's end, if
    /// the run ends with it.
    pub(super) fn end_facts(&self, ending: Option<&RunEnding>) -> EndFacts {
        let belongs = !self.opening.metered;
        EndFacts::new(ending.filter(|_| belongs), self.account.run_cost().filter(|_| belongs))
    }

    /// Tells a client that reads a stream how its run has ended: by a comment, in front of the bytes
    /// that are left, which hold the stream's last event.
    pub(super) fn comment_end(&mut self, ending: Option<&RunEnding>) {
        if let Some(comment) = self.end_comment(ending) {
            let waiting = std::mem::take(&mut self.out.bytes);
            self.out.bytes = [comment.into_bytes(), waiting].concat();
        }
    }

    /// Returns the comment that tells a stream's client how the run has ended. There is none if no
    /// limit is set and nothing was done.
    pub(super) fn end_comment(&self, ending: Option<&RunEnding>) -> Option<String> {
        let policy = self.exchange.run().policy();
        let limited = policy.limits_work() || policy.limits_money();
        let told = limited || !self.account.budgets().is_empty() || self.record.has_intervened();
        if policy.is_observing() || !told || !self.exchange.is_streaming() || !self.comments() {
            return None;
        }
        let facts = self.end_facts(ending);
        facts.outcome?;
        Some(format!(": softland {}\n\n", serde_json::to_string(&facts).ok()?))
    }

    /// Returns true if streams may have comments of softland's.
    pub(super) fn comments(&self) -> bool {
        !self.opening.target.settings.no_comments
    }
}

#[cfg(test)]
mod tests {
    use softland_session::core::{Because, Outcome, Quantity, Reason};

    use super::*;

    #[test]
    fn a_comment_stands_before_the_last_event() {
        for (stream, wanted) in [
            ("data: a\n\ndata: b\n\n", "data: a\n\n: c\n\ndata: b\n\n"),
            ("data: a\n\n", ": c\n\ndata: a\n\n"),
            ("data: a\n\ndata: b", "data: a\n\n: c\n\ndata: b"),
            ("", ": c\n\n"),
        ] {
            assert_eq!(before_last_event(stream.as_bytes(), ": c\n\n"), wanted);
        }
    }

    #[test]
    fn the_facts_are_told_in_words_and_without_a_sign() {
        let because = Because::from_counts(Reason::ToolCalls, 30, 30);
        let ending = RunEnding::from_because(Outcome::Landed, &because, None);
        let facts = EndFacts::new(Some(&ending), NanoUsd::from_dollars(0.0123));
        assert_eq!(
            serde_json::to_string(&facts).unwrap(),
            r#"{"outcome":"landed","reason":"tool_calls","limit":"tool_calls_limit 30","cost_usd":0.0123}"#
        );
        let mut headers = HeaderMap::new();
        facts.add_headers(&mut headers);
        assert_eq!(headers["x-softland-limit"], "tool_calls_limit 30");
        assert_eq!(headers["x-softland-cost-usd"], "0.0123");
        let money = Quantity::Money(NanoUsd::from_dollars(0.3).unwrap());
        let ending = RunEnding::from_because(
            Outcome::Stopped,
            &Because::new(Reason::Cost, money, money),
            None,
        );
        let facts = EndFacts::new(Some(&ending), None);
        assert_eq!(facts.limit.as_deref(), Some("cost_limit_usd 0.30"));
        let mut headers = HeaderMap::new();
        facts.add_headers(&mut headers);
        assert!(!headers.contains_key("x-softland-cost-usd"), "an unknown cost is not zero");
    }
}
