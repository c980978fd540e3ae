//! Replays recorded conversations through the core's fold: once as an observer, for what the
//! detectors see, and once under the policy, for what it would have done.

mod current;
mod judge;
mod listed;
mod money;
mod spent;
mod trees;

use std::collections::BTreeMap;
use std::path::Path;

use softland_session::core::models::Price;
use softland_session::core::policy::{Mode, Policy, RunBoundary};
use softland_session::core::{
    Call, Class, Digest, Facts, Finished, NanoUsd, Role, Stop, Text, Transcript, User, UserText,
    classify, looks_trivial,
};

use crate::report::RunReport;
use crate::step::{Begin, Noted, Row, Sink, Talk, Turn, UserStep};
use current::Current;
use judge::Judge;
use listed::Seen;
use money::{Input, Prices, held, with_price};
use trees::Place;
pub use trees::{Spend, Trees};

/// The stand-in for a message that a program wrote and that carries no information.
const MACHINE: &str = "<system-reminder></system-reminder>";

/// Settings of the replay.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The policy that `what_if` asks about.
    pub policy: Policy,
    /// Prices by model, which take precedence over the table.
    pub prices: Vec<(String, Price)>,
    /// True if the steps of runs with signals are kept for a person to look at.
    pub steps: bool,
    /// The spending that runs share, as a first reading of the same files found it. It counts under
    /// limits of money and tokens.
    pub trees: Option<Trees>,
}

/// Folds the conversations of one file into runs.
#[derive(Debug)]
pub struct Folder<'s> {
    settings: &'s Settings,
    path: String,
    talks: BTreeMap<Talk, Conversation<'s>>,
    runs: Vec<RunReport>,
}

impl<'s> Folder<'s> {
    /// Creates a sink for the file at `path`.
    #[must_use]
    pub fn new(settings: &'s Settings, path: &Path) -> Self {
        let path = path.display().to_string();
        Self { settings, path, talks: BTreeMap::new(), runs: Vec::new() }
    }

    /// Returns the runs, in the order in which they ended.
    #[must_use]
    pub fn into_runs(mut self) -> Vec<RunReport> {
        for (_, mut talk) in std::mem::take(&mut self.talks) {
            talk.finish(&mut self.runs);
        }
        self.runs
    }
}

impl Sink for Folder<'_> {
    fn begin(&mut self, talk: Talk, begin: &Begin<'_>) {
        let conversation = Conversation::new(self.settings, &self.path, begin);
        if let Some(mut before) = self.talks.insert(talk, conversation) {
            before.finish(&mut self.runs);
        }
    }

    fn user(&mut self, talk: Talk, step: &UserStep<'_>) {
        if let Some(talk) = self.talks.get_mut(&talk) {
            talk.user(step, &mut self.runs);
        }
    }

    fn turn(&mut self, talk: Talk, turn: &Turn<'_>) {
        if let Some(talk) = self.talks.get_mut(&talk) {
            talk.turn(turn, &mut self.runs);
        }
    }

    fn counted(&mut self, talk: Talk, calls: u64) {
        if let Some(run) = self.talks.get_mut(&talk).and_then(|talk| talk.run.as_mut()) {
            run.counted(calls);
        }
    }

    fn noted(&mut self, talk: Talk, noted: Noted) {
        if let Some(run) = self.talks.get_mut(&talk).and_then(|talk| talk.run.as_mut()) {
            run.noted.push(noted);
        }
    }

    fn outcome(&mut self, talk: Talk, outcome: &str, reason: &str) {
        if let Some(run) = self.talks.get_mut(&talk).and_then(|talk| talk.run.as_mut()) {
            run.ended(outcome, reason);
        }
    }

    fn end(&mut self, talk: Talk) {
        if let Some(mut talk) = self.talks.remove(&talk) {
            talk.finish(&mut self.runs);
        }
        // There may be a million small files: release unused capacity.
        if self.talks.is_empty() {
            self.talks = BTreeMap::new();
            if self.runs.len() < 4 {
                self.runs.shrink_to_fit();
            }
        }
    }
}

/// One conversation while its steps are read.
#[derive(Debug)]
struct Conversation<'s> {
    settings: &'s Settings,
    /// The limits by which signals are listed.
    limits: Policy,
    path: String,
    session: String,
    name: Option<String>,
    agent: Option<String>,
    caller: Option<String>,
    inferred: bool,
    /// True if the conversation is one run, whatever is said in it.
    whole: bool,
    line: Option<u64>,
    transcript: Transcript,
    judge: Judge,
    prices: Prices,
    run: Option<Current>,
    runs: u64,
    /// The signals' state that the run before leaves to the detectors.
    seen: Seen,
    /// True if the step before was the model's.
    spoke: bool,
    /// Money of all runs so far.
    spent: NanoUsd,
    /// The estimate of the next request's input.
    input: Input,
}

impl<'s> Conversation<'s> {
    fn new(settings: &'s Settings, path: &str, begin: &Begin<'_>) -> Self {
        let whole = begin.run.is_some() || begin.inferred;
        let run_boundary = if whole { RunBoundary::Conversation } else { RunBoundary::Human };
        // The policy's knowledge of tools holds for the detectors too; its limits do not.
        let limits = Policy {
            mode: Mode::Observe,
            run_boundary,
            loop_keys: settings.policy.loop_keys.clone(),
            answer_tool: settings.policy.answer_tool.clone(),
            ..Policy::default()
        };
        Self {
            settings,
            path: path.to_owned(),
            session: begin.session.unwrap_or(path).to_owned(),
            name: begin.run.map(str::to_owned),
            agent: begin.agent.map(str::to_owned),
            caller: begin.caller.map(str::to_owned),
            inferred: begin.inferred,
            whole,
            line: begin.line,
            transcript: Transcript::new(Role::Gateway, limits.clone(), BTreeMap::new()),
            limits,
            judge: Judge::new(&settings.policy, run_boundary),
            prices: Prices::default(),
            run: None,
            runs: 0,
            seen: Seen::default(),
            spoke: false,
            spent: NanoUsd::ZERO,
            input: Input::default(),
        }
    }

    fn user(&mut self, step: &UserStep<'_>, done: &mut Vec<RunReport>) {
        let user = &step.user;
        if user.results.is_empty() && user.texts.is_empty() && (step.machine || !user.media) {
            return self.machine(step.time, step.line, done);
        }
        self.take(user, step.time, step.line, done);
    }

    /// Takes a message that a program wrote, or that nobody is recorded to have written.
    fn machine(&mut self, time: Option<u64>, line: Option<u64>, done: &mut Vec<RunReport>) {
        let texts = vec![UserText::of(MACHINE)];
        self.take(&User { texts, ..User::default() }, time, line, done);
    }

    fn take(
        &mut self,
        user: &User<'_>,
        time: Option<u64>,
        line: Option<u64>,
        done: &mut Vec<RunReport>,
    ) {
        self.spoke = false;
        let step = self.transcript.user(user, None);
        if step.starts_run {
            self.finish(done);
            self.runs += 1;
            let first = if self.runs == 1 { self.line.or(line) } else { line };
            self.run =
                Some(Current::new(first, self.settings.steps, std::mem::take(&mut self.seen)));
        }
        let Some(run) = &mut self.run else { return };
        run.clock.tick(time);
        run.results(user);
        self.input.user(user);
        let next = run.turns() + 1;
        for signal in step.signals {
            let silent = run.seen.signal(signal, &self.limits);
            if silent.is_some_and(|count| count >= self.settings.policy.empty_limit.max(1)) {
                self.judge.stop(run.turns(), softland_session::core::Reason::Empty);
            }
        }
        self.judge.user(user, next);
    }

    fn turn(&mut self, turn: &Turn<'_>, done: &mut Vec<RunReport>) {
        // Two turns in a row are two turns. A turn without a message before it gets one.
        if self.spoke || self.run.is_none() {
            self.machine(turn.time, turn.line, done);
        }
        self.spoke = true;
        let settings = self.settings;
        let cost = self.prices.cost(turn, &settings.prices);
        let facts = self.facts(turn, cost);
        let Some(run) = &mut self.run else { return };
        let number = run.turns() + 1;
        self.judge.request(number, Some(&facts).filter(|_| self.judge.needs_facts()));
        run.needs(&facts, cost.is_some(), self.limits.reserve_tokens);
        run.clock.tick(turn.time);
        let of_row = turn.row.map(finished_of);
        let finished = of_row.as_ref().unwrap_or(&turn.finished);
        self.transcript.model(finished);
        let told = finished.text.digest.is_some() || !finished.calls.is_empty();
        if self.whole && finished.gives && !told {
            self.judge.turn_untold(number);
        } else {
            self.judge.turn(finished);
        }
        let answers =
            |call: &Call<'_>| self.limits.answer_tool.iter().any(|tool| tool == call.name);
        let class = classify(finished, answers);
        let held = held(&facts, turn, &settings.policy);
        run.spend(turn, (cost, held), class);
        if let Some(reason) = run.look(turn, finished, class, (&self.limits, &settings.policy)) {
            self.judge.stop(number, reason);
        }
        self.spent += cost.unwrap_or(NanoUsd::ZERO);
        self.input.turn(turn);
    }

    /// Returns the facts that hold when the request of this turn is sent.
    fn facts(&mut self, turn: &Turn<'_>, cost: Option<NanoUsd>) -> Facts {
        let Some(run) = &self.run else { return Facts::default() };
        let recorded = turn.usage.tokens.input_total();
        let row = self.prices.row(turn.model, &self.settings.prices);
        let most = self.input.most(recorded, row);
        let next_input = if recorded > 0 { recorded } else { most };
        let (tokens, spent) = run.used();
        let mut facts = Facts {
            tokens,
            cost: spent,
            session_cost: self.spent,
            elapsed: run.clock.elapsed(),
            next_input,
            ..Facts::default()
        };
        if let (Some(trees), Some(time)) = (&self.settings.trees, turn.time) {
            let at = (time, turn.line.unwrap_or(0));
            let policy = &self.settings.policy;
            let place = Place {
                source: &self.path,
                session: &self.session,
                name: self.name.as_deref(),
                agent: self.agent.as_deref(),
                began: run.began().unwrap_or(at),
                at,
                limits: (policy.cost_limit_usd, policy.tokens_limit),
            };
            trees.tell(&mut facts, &place);
        }
        let price = self.prices.dearest(turn.model, &self.settings.prices, most);
        with_price(facts, most, price, cost)
    }

    /// Ends the open run.
    fn finish(&mut self, done: &mut Vec<RunReport>) {
        let Some(run) = self.run.take() else { return };
        let verdict = self.judge.finish(run.turns());
        self.seen = run.seen.next();
        if run.turns() == 0 {
            // A question that nobody answered is no run.
            self.runs -= 1;
            return;
        }
        let mut report = run.report(verdict, self.inferred, &self.limits);
        if !self.settings.policy.counts_usage() {
            report.beside.spends = Vec::new();
        }
        report.run = self.name_of();
        report.beside.name.clone_from(&self.name);
        report.beside.caller.clone_from(&self.caller);
        report.session.clone_from(&self.session);
        report.agent.clone_from(&self.agent);
        report.source.clone_from(&self.path);
        done.push(report);
    }

    fn name_of(&self) -> String {
        let session = &self.session;
        match (&self.name, &self.agent) {
            (Some(name), _) if name.starts_with(session.as_str()) => name.clone(),
            (Some(name), _) => format!("{session}/{name}"),
            (None, Some(agent)) => format!("{session}/{agent}#{}", self.runs),
            (None, None) => format!("{session}#{}", self.runs),
        }
    }
}

/// Returns the turn that stands for a row of numbers: a word, an unknown call, or an answer.
fn finished_of(row: Row) -> Finished<'static> {
    let digest = Digest::of(b"row");
    let text = if row.trivial {
        Text { digest: Some(digest), visible: 1, placeholder: false }
    } else {
        Text::default()
    };
    Finished {
        text,
        calls: Vec::new(),
        cut_call: false,
        hidden: false,
        gives: !row.trivial,
        stop: Stop::Unknown,
        output_tokens: None,
    }
}

/// Returns a person's word for a turn.
fn word_of(class: Class) -> &'static str {
    match class {
        Class::Final | Class::Answer => "answer",
        Class::Calls => "calls",
        Class::Empty | Class::Silent => "empty",
        Class::Truncated => "truncated",
        Class::Refused { .. } => "refused",
        Class::Paused => "paused",
        Class::Full { .. } => "context full",
    }
}

/// Returns true if a turn would be trivial in case its run goes on.
fn may_be_trivial(finished: &Finished<'_>, class: Class) -> bool {
    matches!(class, Class::Final | Class::Truncated) && looks_trivial(finished)
}
