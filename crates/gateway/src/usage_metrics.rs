//! The counters by model, policy and account. Their label sets are bounded: a client that names ever
//! new models adds none.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use softland_govern::{BilledRequest, UsageLabels};
use softland_session::core::Outcome;

use crate::dollars::DollarCounter;

/// The number of models with a label of their own.
const MOST_MODELS: usize = 100;

/// The number of label sets.
const MOST_SETS: usize = 1_000;

/// The label of everything beyond these numbers, and of models that no provider has served.
const OTHER: &str = "other";

/// The counters by model, policy and account.
#[derive(Debug, Default)]
pub(crate) struct UsageMetrics {
    requests: Family<SetLabels, Counter>,
    runs: Family<RunLabels, Counter>,
    tokens: Family<TokenLabels, Counter>,
    spend: Family<SetLabels, DollarCounter>,
    known: Mutex<KnownSets>,
}

/// The label sets that are in use.
#[derive(Debug, Default)]
struct KnownSets {
    models: HashSet<Arc<str>>,
    sets: HashSet<SetLabels>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SetLabels {
    model: Arc<str>,
    policy: Arc<str>,
    account: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    outcome: &'static str,
    model: Arc<str>,
    policy: Arc<str>,
    account: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    kind: &'static str,
    model: Arc<str>,
    policy: Arc<str>,
    account: Arc<str>,
}

impl UsageMetrics {
    /// Registers the counters.
    pub(crate) fn register_all(&self, registry: &mut Registry) {
        let help = "Governed and metered requests of clients";
        registry.register("usage_requests", help, self.requests.clone());
        registry.register("usage_runs", "Runs that have ended", self.runs.clone());
        registry.register("usage_tokens", "Tokens of requests", self.tokens.clone());
        let help = "What requests cost, in dollars, by model, policy and account";
        registry.register("usage_spend_usd", help, self.spend.clone());
    }

    /// Counts a client's request that has ended.
    pub(crate) fn count_request(&self, labels: UsageLabels<'_>) {
        self.requests.get_or_create(&self.bound_labels(labels, false)).inc();
    }

    /// Counts a run that has ended.
    pub(crate) fn count_run(&self, labels: UsageLabels<'_>, outcome: Outcome) {
        let SetLabels { model, policy, account } = self.bound_labels(labels, false);
        let outcome = outcome.word();
        self.runs.get_or_create(&RunLabels { outcome, model, policy, account }).inc();
    }

    /// Adds what a request upstream has used.
    pub(crate) fn add_billed(&self, labels: UsageLabels<'_>, billed: &BilledRequest) {
        let set = self.bound_labels(labels, billed.served);
        let tokens = &billed.tokens;
        let cache_write = tokens.cache_write_5m.saturating_add(tokens.cache_write_1h);
        for (kind, count) in [
            ("input", tokens.input),
            ("output", tokens.output),
            ("cache_read", tokens.cache_read),
            ("cache_write", cache_write),
        ] {
            if count > 0 {
                let SetLabels { model, policy, account } = set.clone();
                let labels = TokenLabels { kind, model, policy, account };
                self.tokens.get_or_create(&labels).inc_by(count);
            }
        }
        if let Some(cost) = billed.cost.filter(|cost| cost.0 > 0) {
            self.spend.get_or_create(&set).add_amount(cost);
        }
    }

    /// Returns the labels under which to count. A model gets its label once a provider has served
    /// it, which a client's invention is not.
    fn bound_labels(&self, labels: UsageLabels<'_>, served: bool) -> SetLabels {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let KnownSets { models, sets } = &mut *known;
        let has_label = models.contains(labels.model)
            || served && models.len() < MOST_MODELS && models.insert(Arc::clone(labels.model));
        let set = SetLabels {
            model: if has_label { Arc::clone(labels.model) } else { OTHER.into() },
            policy: labels.policy.into(),
            account: labels.account.cloned().unwrap_or_default(),
        };
        if sets.contains(&set) || sets.len() < MOST_SETS && sets.insert(set.clone()) {
            return set;
        }
        SetLabels { model: OTHER.into(), policy: OTHER.into(), account: OTHER.into() }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;
    use softland_session::core::NanoUsd;
    use softland_session::wire::Tokens;

    use super::*;

    fn write_text(usage: &UsageMetrics) -> String {
        let mut registry = Registry::default();
        usage.register_all(&mut registry);
        let mut out = String::new();
        text::encode(&mut out, &registry).expect("a text");
        out
    }

    fn billed(served: bool) -> BilledRequest {
        let tokens = Tokens { input: 7, output: 2, cache_write_5m: 1, ..Tokens::default() };
        BilledRequest { tokens, cost: Some(NanoUsd(1_500_000)), served }
    }

    #[test]
    fn each_counter_has_model_policy_and_account() {
        let usage = UsageMetrics::default();
        let (model, account) = ("m".into(), "acme/ana".into());
        let labels = UsageLabels { model: &model, policy: "coding", account: Some(&account) };
        usage.add_billed(labels, &billed(true));
        usage.count_request(labels);
        usage.count_run(labels, Outcome::Landed);
        let text = write_text(&usage);
        let set = r#"model="m",policy="coding",account="acme/ana""#;
        for line in [
            format!("usage_requests_total{{{set}}} 1"),
            format!("usage_runs_total{{outcome=\"landed\",{set}}} 1"),
            format!("usage_tokens_total{{kind=\"input\",{set}}} 7"),
            format!("usage_tokens_total{{kind=\"cache_write\",{set}}} 1"),
            format!("usage_spend_usd_total{{{set}}} 0.0015"),
        ] {
            assert!(text.lines().any(|had| had == line), "{line}\nis not in\n{text}");
        }
    }

    #[test]
    fn models_that_nobody_serves_get_no_label() {
        let usage = UsageMetrics::default();
        for n in 0..5_000 {
            let model = format!("invented-{n}").into();
            let labels = UsageLabels { model: &model, policy: "default", account: None };
            usage.add_billed(labels, &billed(false));
            usage.count_request(labels);
        }
        let text = write_text(&usage);
        let line = r#"usage_requests_total{model="other",policy="default",account=""} 5000"#;
        assert!(text.contains(line) && !text.contains("invented"), "{text}");
    }

    #[test]
    fn models_and_label_sets_have_a_most() {
        let usage = UsageMetrics::default();
        for n in 0..MOST_MODELS + 5 {
            let model = format!("m{n}").into();
            let labels = UsageLabels { model: &model, policy: "default", account: None };
            usage.add_billed(labels, &billed(true));
        }
        let text = write_text(&usage);
        let line =
            r#"usage_tokens_total{kind="input",model="other",policy="default",account=""} 35"#;
        assert!(text.contains(line) && !text.contains("\"m100\""), "{text}");
        let model = "m0".into();
        for n in 0..2 * MOST_SETS {
            let account = format!("a{n}").into();
            let labels = UsageLabels { model: &model, policy: "default", account: Some(&account) };
            usage.count_request(labels);
        }
        let text = write_text(&usage);
        let lines = text.lines().filter(|line| line.starts_with("usage_requests_total"));
        let rest = 2 * MOST_SETS - (MOST_SETS - MOST_MODELS - 1);
        let line = format!(
            r#"usage_requests_total{{model="other",policy="other",account="other"}} {rest}"#
        );
        assert!(lines.count() <= MOST_SETS && text.contains(&line), "{line}");
    }
}
