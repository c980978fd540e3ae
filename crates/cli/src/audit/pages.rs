//! The audit for a gateway's pages: of the ledger, or of one recording that a browser has uploaded,
//! within bounds.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use softland_agent::core::models::Price;
use softland_agent::core::policy::Policy;
use softland_gateway::{Audit, AuditAsked, AuditForm};
use softland_import::report::{Report, UnreadableLine};
use softland_import::{
    Begin, Folder, Noted, Options, Settings, Sink, Talk, Turn, UserStep, read_while,
};

use super::html::{self, Runs};

/// The most messages that one report reads: the memory for its runs grows with them.
const STEPS: u64 = 1_000_000;
/// The most time that one report may take.
const TIME: Duration = Duration::from_secs(300);

/// The source of the audit reports that a gateway's pages show.
#[derive(Debug)]
pub(crate) struct Pages {
    policy: Policy,
    prices: Vec<(String, Price)>,
    steps: u64,
}

impl Pages {
    /// Creates reports with the policy and the prices of a config.
    pub(crate) fn new(policy: Policy, prices: Vec<(String, Price)>) -> Self {
        Self { policy, prices, steps: STEPS }
    }

    fn read(&self, asked: &AuditAsked<'_>) -> Report {
        let until = Instant::now() + TIME;
        let mut settings = Settings {
            policy: self.policy.clone(),
            prices: self.prices.clone(),
            steps: asked.form == AuditForm::Page,
            trees: None,
        };
        let mut report = self.read_once(asked, &settings, until);
        for _ in 0..2 {
            settings.trees = super::trees(&settings, &report);
            if settings.trees.is_some() {
                report = self.read_once(asked, &settings, until);
            }
        }
        report
    }

    fn read_once(&self, asked: &AuditAsked<'_>, settings: &Settings, until: Instant) -> Report {
        let left = AtomicU64::new(self.steps);
        let name = asked.name.map_or(asked.path, Path::new);
        let on = |_| {
            !asked.stop.load(Ordering::Relaxed)
                && left.load(Ordering::Relaxed) > 0
                && Instant::now() < until
        };
        let sink = |_: &Path| Bounded { inner: Folder::new(settings, name), left: &left };
        let done = read_while(&[asked.path.to_owned()], &Options { threads: 1 }, sink, on);
        let done = softland_import::Read {
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
        let mut report = softland_import::report(done);
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

impl Audit for Pages {
    fn report(&self, asked: &AuditAsked<'_>) -> String {
        let report = self.read(asked);
        match asked.form {
            AuditForm::Json => serde_json::to_string(&report).unwrap_or_default(),
            AuditForm::Page if report.runs.is_empty() => html::nothing(&report),
            AuditForm::Page => {
                let of = if asked.name.is_some() { Runs::Recording } else { Runs::Ledger };
                html::body(&report, of)
            }
        }
    }

    fn file(&self, path: &str) -> Option<(&'static str, &'static [u8])> {
        html::file(path)
    }
}

/// A sink that drops all steps beyond a limit.
struct Bounded<'s, 'l> {
    inner: Folder<'s>,
    left: &'l AtomicU64,
}

impl Bounded<'_, '_> {
    fn may(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

impl Sink for Bounded<'_, '_> {
    fn begin(&mut self, talk: Talk, begin: &Begin<'_>) {
        if self.may() {
            self.inner.begin(talk, begin);
        }
    }

    fn user(&mut self, talk: Talk, step: &UserStep<'_>) {
        if self.may() {
            self.inner.user(talk, step);
        }
    }

    fn turn(&mut self, talk: Talk, turn: &Turn<'_>) {
        if self.may() {
            self.inner.turn(talk, turn);
        }
    }

    fn counted(&mut self, talk: Talk, calls: u64) {
        self.inner.counted(talk, calls);
    }

    fn noted(&mut self, talk: Talk, noted: Noted) {
        self.inner.noted(talk, noted);
    }

    fn outcome(&mut self, talk: Talk, outcome: &str, reason: &str) {
        self.inner.outcome(talk, outcome, reason);
    }

    fn end(&mut self, talk: Talk) {
        self.inner.end(talk);
    }
}

#[cfg(test)]
mod tests;
