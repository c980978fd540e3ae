//! The counters of a gateway.
//!
//! A client's words reach a label only through a closed list: a hostile client cannot make the
//! labels grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use softland_govern::runs::ObservedEnd;
use softland_govern::{BilledRequest, ClientKey, Meter, UsageLabels};
use softland_session::core::{LossCause, NanoUsd, Outcome};

use crate::budgets::windows::BudgetNotices;
use crate::dollars::DollarCounter;
use crate::key_spend::KeySpend;
use crate::recap::Recap;
use crate::usage_metrics::UsageMetrics;

/// The label of requests for the pages.
pub(crate) const PAGES: &str = "pages";

/// The media type of [`Metrics::to_text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The bounds of the histograms in seconds: of the time that softland adds, and of whole requests.
const ADDED: [f64; 10] = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25];
const WHOLE: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 180.0, 600.0];

/// The counters of one gateway.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    duration: Family<RouteLabels, Histogram, fn() -> Histogram>,
    added: Histogram,
    streams: Gauge,
    tool_calls: Counter,
    phases: Family<PhaseLabels, Counter>,
    interventions: Family<InterventionLabels, Counter>,
    observed: Family<InterventionLabels, Counter>,
    signals: Family<SignalLabels, Counter>,
    limit_hits: Family<LimitLabels, Counter>,
    cache_lost: Family<CauseLabels, Counter>,
    cache_lost_usd: Family<CauseLabels, DollarCounter>,
    spend: DollarCounter,
    key_spend: KeySpend,
    usage: UsageMetrics,
    pub(crate) budget_notices: BudgetNotices,
    events: Family<EventLabels, Counter>,
    ledger_waiting: Gauge,
    tally: Tally,
}

/// Integer counters beside the metrics, for [`Summary`].
#[derive(Debug, Default)]
struct Tally {
    requests: AtomicU64,
    spend: AtomicU64,
    answered: AtomicU64,
    landed: AtomicU64,
    stopped: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    observed: AtomicU64,
    would_land: AtomicU64,
    would_stop: AtomicU64,
    would: [AtomicU64; INTERVENTIONS.len()],
}

/// A summary of what a gateway has done since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests of clients, of every kind.
    pub requests: u64,
    /// The cost of the runs.
    pub spend: NanoUsd,
    /// Runs that the model ended by itself.
    pub answered: u64,
    /// Runs that were brought to an answer at a limit.
    pub landed: u64,
    /// Runs that ended with softland's own answer.
    pub stopped: u64,
    /// Runs that ended at a failing provider.
    pub failed: u64,
    /// Runs that their user ended.
    pub cancelled: u64,
    /// The interventions in runs that were only observed, had they been carried out.
    pub would: ObservedSummary,
    /// The runs by themselves, if [`Settings::recap`](crate::Settings::recap) asks for them.
    pub recap: Recap,
    /// The number of records that the ledger has lost.
    pub lost_records: u64,
    /// The last fault of the ledger's disk, if it has had one.
    pub ledger_fault: Option<String>,
}

/// The interventions of policies that only observe, had they been carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedSummary {
    /// Runs that were only observed, including those that are still open.
    pub runs: u64,
    /// The observed runs that would have been brought to an answer at a limit.
    pub landed: u64,
    /// The observed runs that would have ended with softland's own answer.
    pub stopped: u64,
    /// The number of times that each of [`INTERVENTIONS`] would have been made.
    pub times: [u64; INTERVENTIONS.len()],
}

/// The interventions, by the words of `docs/reference/events.md`.
pub const INTERVENTIONS: [&str; 12] = [
    "countdown",
    "warn",
    "note",
    "ask",
    "refuse",
    "none",
    "respond",
    "nudge",
    "local_answer",
    "trim_tail",
    "stop",
    "deny_spend",
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    upstream: Arc<str>,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabels {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InterventionLabels {
    intervention: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SignalLabels {
    signal: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    limit: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabels {
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    event: &'static str,
}

impl Metrics {
    /// Creates counters at zero.
    pub(crate) fn new() -> Self {
        let duration: fn() -> Histogram = || Histogram::new(WHOLE);
        let mut metrics = Self {
            registry: Registry::with_prefix("softland"),
            requests: Family::default(),
            duration: Family::new_with_constructor(duration),
            added: Histogram::new(ADDED),
            streams: Gauge::default(),
            tool_calls: Counter::default(),
            phases: Family::default(),
            interventions: Family::default(),
            observed: Family::default(),
            signals: Family::default(),
            limit_hits: Family::default(),
            cache_lost: Family::default(),
            cache_lost_usd: Family::default(),
            spend: DollarCounter::default(),
            key_spend: KeySpend::default(),
            usage: UsageMetrics::default(),
            budget_notices: BudgetNotices::default(),
            events: Family::default(),
            ledger_waiting: Gauge::default(),
            tally: Tally::default(),
        };
        metrics.register_all();
        metrics
    }

    /// Registers all metrics. The encoder appends `_total` to the names of counters.
    fn register_all(&mut self) {
        let registry = &mut self.registry;
        registry.register("requests", "Requests of clients", self.requests.clone());
        registry.register(
            "request_duration_seconds",
            "From a request's head to the end of its response",
            self.duration.clone(),
        );
        registry.register(
            "added_latency_seconds",
            "Time that softland itself took before a request went on",
            self.added.clone(),
        );
        registry.register("active_streams", "Streams under way", self.streams.clone());
        registry.register("tool_calls", "Tool calls seen", self.tool_calls.clone());
        registry.register("phases", "Governed requests by their phase", self.phases.clone());
        registry.register("interventions", "What softland did", self.interventions.clone());
        registry.register(
            "observed_interventions",
            "What softland would have done to runs that it only observes",
            self.observed.clone(),
        );
        registry.register("signals", "What detectors saw", self.signals.clone());
        registry.register("limit_hits", "Runs that reached a limit", self.limit_hits.clone());
        registry.register(
            "cache_lost_tokens",
            "Tokens that had been in the provider's cache and were written or sent again",
            self.cache_lost.clone(),
        );
        registry.register(
            "cache_lost_usd",
            "What that cost beyond the price of reading, in dollars",
            self.cache_lost_usd.clone(),
        );
        registry.register("spend_usd", "What requests cost, in dollars", self.spend.clone());
        let help = "What the requests of a key cost, in dollars";
        registry.register("key_spend_usd", help, self.key_spend.family.clone());
        self.usage.register_all(registry);
        let help = "Shares of budgets that were spent (notify_at)";
        registry.register("budget_notices", help, self.budget_notices.family.clone());
        registry.register(
            "events",
            "Things an operator should know: refused clients, lost records",
            self.events.clone(),
        );
        registry.register(
            "ledger_waiting",
            "Records that are not on disk yet",
            self.ledger_waiting.clone(),
        );
    }

    /// Returns all metrics in the OpenMetrics text format.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        // Writing into a string cannot fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }

    /// Counts a client's request that has ended. `upstream` is a configured name, or empty.
    pub(crate) fn count_request(
        &self,
        route: &'static str,
        upstream: &Arc<str>,
        status: u16,
        took: Duration,
    ) {
        let labels = RequestLabels { route, upstream: Arc::clone(upstream), status };
        self.requests.get_or_create(&labels).inc();
        self.duration.get_or_create(&RouteLabels { route }).observe(took.as_secs_f64());
        // A request for the pages is not a client's.
        if route != PAGES {
            self.tally.requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Observes the time that softland itself took before a request was sent upstream.
    pub(crate) fn observe_added_latency(&self, took: Duration) {
        self.added.observe(took.as_secs_f64());
    }

    /// Counts a stream that begins.
    pub(crate) fn count_stream_begin(&self) {
        self.streams.inc();
    }

    /// Counts a stream that has ended.
    pub(crate) fn count_stream_end(&self) {
        self.streams.dec();
    }

    /// Counts the tool calls of a response that a client receives.
    pub(crate) fn count_tool_calls(&self, calls: u64) {
        self.tool_calls.inc_by(calls);
    }

    /// Counts a governed request by the phase of its run.
    pub(crate) fn count_phase(&self, phase: &'static str) {
        self.phases.get_or_create(&PhaseLabels { phase }).inc();
    }

    /// Counts an intervention.
    pub(crate) fn count_intervention(&self, intervention: &'static str) {
        self.interventions.get_or_create(&InterventionLabels { intervention }).inc();
    }

    /// Counts an intervention that was only observed.
    pub(crate) fn count_observed(&self, intervention: &'static str) {
        self.observed.get_or_create(&InterventionLabels { intervention }).inc();
        let at = INTERVENTIONS.iter().position(|known| *known == intervention);
        if let Some(times) = at.and_then(|at| self.tally.would.get(at)) {
            times.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts the end that a run which is only observed would have had at its first landing or
    /// stop.
    pub(crate) fn count_observed_end(&self, end: ObservedEnd) {
        let ends = match end {
            ObservedEnd::Landed => &self.tally.would_land,
            ObservedEnd::Stopped => &self.tally.would_stop,
        };
        ends.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a run that begins and is only observed.
    pub(crate) fn count_observed_run(&self) {
        self.tally.observed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a signal of a detector.
    pub(crate) fn count_signal(&self, signal: &'static str) {
        self.signals.get_or_create(&SignalLabels { signal }).inc();
    }

    /// Counts a run that ended at a limit (a policy key).
    pub(crate) fn count_limit_hit(&self, limit: &str, outcome: &'static str) {
        self.limit_hits.get_or_create(&LimitLabels { limit: limit.to_owned(), outcome }).inc();
    }

    /// Counts tokens that were lost to the provider's cache, and what that cost.
    pub(crate) fn count_cache_loss(&self, cause: LossCause, tokens: u64, lost: NanoUsd) {
        let labels = CauseLabels { cause: cause.word() };
        self.cache_lost.get_or_create(&labels).inc_by(tokens);
        self.cache_lost_usd.get_or_create(&labels).add_amount(lost);
    }

    /// Adds money that was spent.
    pub(crate) fn add_spend(&self, amount: NanoUsd) {
        self.spend.add_amount(amount);
        self.tally.spend.fetch_add(amount.0, Ordering::Relaxed);
    }

    /// Counts an event that an operator should know about: a word of a closed list.
    pub(crate) fn count_event(&self, event: &'static str) {
        self.events.get_or_create(&EventLabels { event }).inc();
    }

    /// Sets the numbers of records that the ledger has lost so far, and that wait to be written.
    pub(crate) fn set_ledger(&self, lost: u64, waiting: u64) {
        if lost > 0 {
            let labels = EventLabels { event: "ledger_lost" };
            self.events.get_or_create(&labels).inner().store(lost, Ordering::Relaxed);
        }
        self.ledger_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// Counts a run that has ended.
    pub(crate) fn count_ended_run(&self, outcome: Outcome) {
        let count = match outcome {
            Outcome::Answered => &self.tally.answered,
            Outcome::Landed => &self.tally.landed,
            Outcome::Stopped => &self.tally.stopped,
            Outcome::Failed => &self.tally.failed,
            Outcome::Cancelled => &self.tally.cancelled,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a summary of what has been done so far.
    pub(crate) fn to_summary(&self) -> Summary {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let tally = &self.tally;
        Summary {
            requests: read(&tally.requests),
            spend: NanoUsd(read(&tally.spend)),
            answered: read(&tally.answered),
            landed: read(&tally.landed),
            stopped: read(&tally.stopped),
            failed: read(&tally.failed),
            cancelled: read(&tally.cancelled),
            would: ObservedSummary {
                runs: read(&tally.observed),
                landed: read(&tally.would_land),
                stopped: read(&tally.would_stop),
                times: tally.would.each_ref().map(read),
            },
            ..Summary::default()
        }
    }
}

impl Meter for Metrics {
    fn observe_added_latency(&self, took: Duration) {
        self.observe_added_latency(took);
    }

    fn count_tool_calls(&self, calls: u64) {
        self.count_tool_calls(calls);
    }

    fn count_phase(&self, phase: &'static str) {
        self.count_phase(phase);
    }

    fn count_intervention(&self, intervention: &'static str) {
        self.count_intervention(intervention);
    }

    fn count_observed(&self, intervention: &'static str) {
        self.count_observed(intervention);
    }

    fn count_observed_end(&self, end: ObservedEnd) {
        self.count_observed_end(end);
    }

    fn count_observed_run(&self) {
        self.count_observed_run();
    }

    fn count_signal(&self, signal: &'static str) {
        self.count_signal(signal);
    }

    fn count_cache_loss(&self, cause: LossCause, tokens: u64, lost: NanoUsd) {
        self.count_cache_loss(cause, tokens, lost);
    }

    fn count_limit_hit(&self, limit: &str, outcome: &'static str) {
        self.count_limit_hit(limit, outcome);
    }

    fn add_spend(&self, amount: NanoUsd) {
        self.add_spend(amount);
    }

    fn add_key_spend(&self, key: &ClientKey, amount: NanoUsd) {
        self.key_spend.add_spend(key, amount);
    }

    fn count_event(&self, event: &'static str) {
        self.count_event(event);
    }

    fn count_ended_run(&self, outcome: Outcome, labels: UsageLabels<'_>) {
        self.count_ended_run(outcome);
        self.usage.count_run(labels, outcome);
    }

    fn count_usage_request(&self, labels: UsageLabels<'_>) {
        self.usage.count_request(labels);
    }

    fn add_usage(&self, labels: UsageLabels<'_>, billed: &BilledRequest) {
        self.usage.add_billed(labels, billed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_reference() {
        let metrics = Metrics::new();
        metrics.count_request("messages", &"anthropic".into(), 200, Duration::from_millis(3));
        metrics.observe_added_latency(Duration::from_micros(80));
        metrics.count_stream_begin();
        metrics.count_tool_calls(3);
        metrics.count_phase("landing");
        metrics.count_intervention("ask");
        metrics.count_observed("nudge");
        metrics.count_signal("empty");
        metrics.count_limit_hit("tool_calls_limit", "landed");
        metrics.count_cache_loss(LossCause::Idle, 40_000, NanoUsd(250_000_000));
        metrics.add_spend(NanoUsd(1_500_000_000));
        metrics.set_ledger(1, 5);
        metrics.set_ledger(2, 7);
        let text = metrics.to_text();
        for line in [
            r#"softland_requests_total{route="messages",upstream="anthropic",status="200"} 1"#,
            "softland_tool_calls_total 3",
            r#"softland_phases_total{phase="landing"} 1"#,
            r#"softland_interventions_total{intervention="ask"} 1"#,
            r#"softland_observed_interventions_total{intervention="nudge"} 1"#,
            r#"softland_signals_total{signal="empty"} 1"#,
            r#"softland_limit_hits_total{limit="tool_calls_limit",outcome="landed"} 1"#,
            r#"softland_cache_lost_tokens_total{cause="idle"} 40000"#,
            r#"softland_cache_lost_usd_total{cause="idle"} 0.25"#,
            "softland_spend_usd_total 1.5",
            "softland_added_latency_seconds_count 1",
            r#"softland_request_duration_seconds_count{route="messages"} 1"#,
            "softland_active_streams 1",
            r#"softland_events_total{event="ledger_lost"} 2"#,
            "softland_ledger_waiting 7",
        ] {
            assert!(text.lines().any(|had| had == line), "{line}\nis not in\n{text}");
        }
        assert!(!text.contains(r#"softland_interventions_total{intervention="nudge"}"#));
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_summary_counts_runs_and_money() {
        let metrics = Metrics::new();
        metrics.add_spend(NanoUsd(7));
        metrics.count_ended_run(Outcome::Landed);
        metrics.count_ended_run(Outcome::Stopped);
        metrics.count_ended_run(Outcome::Stopped);
        let summary = metrics.to_summary();
        assert_eq!((summary.spend, summary.landed, summary.stopped), (NanoUsd(7), 1, 2));
        assert_eq!((summary.answered, summary.failed, summary.cancelled), (0, 0, 0));
        assert_eq!(summary.would, ObservedSummary::default());
        metrics.count_observed_run();
        metrics.count_observed("countdown");
        metrics.count_observed("ask");
        metrics.count_observed_end(ObservedEnd::Landed);
        metrics.count_observed("deny_spend");
        let would = metrics.to_summary().would;
        assert_eq!((would.runs, would.landed, would.stopped), (1, 1, 0));
        assert_eq!(would.times, [1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
