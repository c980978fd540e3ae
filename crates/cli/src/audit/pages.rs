//! The audit for a gateway's pages: of the ledger, or of one recording that a browser has uploaded,
//! within bounds.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use softland_agent::core::models::Price;
use softland_agent::core::policy::Policy;
use softland_gateway::{Audit, AuditFormat, AuditRequest};
use softland_import::report::{Report, UnreadableLine};
use softland_import::{
    ConversationId, ConversationStart, FileReplay, KnownTurn, ReadOptions, RecordedSignal,
    ReplaySettings, Sink, TurnStep, UserStep, read_paths_while,
};

use super::html::{self, RunSource};

/// The most messages that one report reads: the memory for its runs grows with them.
const STEPS: u64 = 1_000_000;
/// The most time that one report may take.
const TIME: Duration = Duration::from_secs(300);

/// The source of the audit reports that a gateway's pages show.
#[derive(Debug)]
pub(crate) struct PageReports {
    policy: Policy,
    prices: Vec<(String, Price)>,
    steps: u64,
}

impl PageReports {
    /// Creates reports with the policy and the prices of a config.
    pub(crate) fn new(policy: Policy, prices: Vec<(String, Price)>) -> Self {
        Self { policy, prices, steps: STEPS }
    }

    fn read_report(&self, asked: &AuditRequest<'_>) -> Report {
        let until = Instant::now() + TIME;
        let mut settings = ReplaySettings {
            policy: self.policy.clone(),
            prices: self.prices.clone(),
            steps: asked.form == AuditFormat::Page,
            trajectories: false,
            trees: None,
        };
        let mut report = self.read_once(asked, &settings, until);
        for _ in 0..2 {
            settings.trees = super::collect_trees(&settings, &report);
            if settings.trees.is_some() {
                report = self.read_once(asked, &settings, until);
            }
        }
        report
    }

    fn read_once(
        &self,
        asked: &AuditRequest<'_>,
        settings: &ReplaySettings,
        until: Instant,
    ) -> Report {
        let left = AtomicU64::new(self.steps);
        let name = asked.name.map_or(asked.path, Path::new);
        let on = |_| {
            !asked.stop.load(Ordering::Relaxed)
                && left.load(Ordering::Relaxed) > 0
                && Instant::now() < until
        };
        let sink = |_: &Path| BoundedSink { inner: FileReplay::new(settings, name), left: &left };
        let done =
            read_paths_while(&[asked.path.to_owned()], &ReadOptions { threads: 1 }, sink, on);
        let done = softland_import::Recordings {
            sources: done
                .sources
                .into_iter()
                .map(|source| softland_import::Source {
                    path: name.to_owned(),
                    kind: source.kind,
                    bytes: source.bytes,
                    sink: source.sink.map(|sink| sink.inner),
                })
                .collect(),
            unreadable: done
                .unreadable
                .into_iter()
                .map(|one| softland_import::Unreadable { path: name.to_owned(), ..one })
                .collect(),
        };
        let mut report = softland_import::build_report(done);
        let why = if left.load(Ordering::Relaxed) == 0 {
            format!("only its first {} messages were read", self.steps)
        } else if Instant::now() >= until {
            format!("only what could be read in {} s was read", TIME.as_secs())
        } else {
            return report;
        };
        let (path, line) = (name.display().to_string(), None);
        report.unreadable.push(UnreadableLine { path, line, reason: why });
        report
    }
}

impl Audit for PageReports {
    fn write_report(&self, asked: &AuditRequest<'_>) -> String {
        let report = self.read_report(asked);
        match asked.form {
            AuditFormat::Json => serde_json::to_string(&report.to_full()).unwrap_or_default(),
            AuditFormat::Page if report.runs.is_empty() => html::render_empty(&report),
            AuditFormat::Page => {
                let of =
                    if asked.name.is_some() { RunSource::Recording } else { RunSource::Ledger };
                html::render_body(&report, of)
            }
        }
    }

    fn find_file(&self, path: &str) -> Option<(&'static str, &'static [u8])> {
        html::find_file(path)
    }
}

/// A sink that drops all steps beyond a limit.
struct BoundedSink<'s, 'l> {
    inner: FileReplay<'s>,
    left: &'l AtomicU64,
}

impl BoundedSink<'_, '_> {
    fn take_step(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

impl Sink for BoundedSink<'_, '_> {
    fn begin_conversation(&mut self, talk: ConversationId, begin: &ConversationStart<'_>) {
        if self.take_step() {
            self.inner.begin_conversation(talk, begin);
        }
    }

    fn take_user_step(&mut self, talk: ConversationId, step: &UserStep<'_>) {
        if self.take_step() {
            self.inner.take_user_step(talk, step);
        }
    }

    fn take_turn(&mut self, talk: ConversationId, turn: &TurnStep<'_>) {
        if self.take_step() {
            self.inner.take_turn(talk, turn);
        }
    }

    fn take_known_turn(&mut self, talk: ConversationId, turn: &KnownTurn<'_>) {
        if self.take_step() {
            self.inner.take_known_turn(talk, turn);
        }
    }

    fn take_call_total(&mut self, talk: ConversationId, calls: u64) {
        self.inner.take_call_total(talk, calls);
    }

    fn take_signal(&mut self, talk: ConversationId, noted: RecordedSignal) {
        self.inner.take_signal(talk, noted);
    }

    fn take_outcome(&mut self, talk: ConversationId, outcome: &str, reason: &str) {
        self.inner.take_outcome(talk, outcome, reason);
    }

    fn end_conversation(&mut self, talk: ConversationId) {
        self.inner.end_conversation(talk);
    }
}

#[cfg(test)]
mod tests;
