//! Replays recorded conversations through the core's fold: once as an observer, for what the
//! detectors see, and once under the policy, for what it would have done.

mod carried;
mod current;
mod judge;
mod listed;
mod money;
mod shared_spending;
mod spending;
mod turn_log;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use softland_session::core::models::Price;
use softland_session::core::policy::{Mode, Policy, RunBoundary};
use softland_session::core::{
    Call, ContextWatch, Digest, Facts, FinishedTurn, NanoUsd, PromptCache, Role, Stop, Transcript,
    TurnClass, UserMessage, UserText, VisibleText, classify_turn, looks_trivial,
};

use crate::report::RunReport;
use crate::step::{
    ActivityRow, ConversationId, ConversationStart, KnownTurn, MACHINE, RecordedSignal, Sink,
    TurnStep, UserStep,
};
use carried::CarriedResults;
use current::OpenRun;
use judge::Judge;
use listed::SeenSignals;
use money::{InputBound, Prices, compute_held, with_price};
use shared_spending::RunMoment;
pub use shared_spending::SharedSpending;
use spending::shorten_title;

/// Settings of the replay.
#[derive(Clone, Debug, Default)]
pub struct ReplaySettings {
    /// The policy that `what_if` asks about.
    pub policy: Policy,
    /// Prices by model, which take precedence over the table.
    pub prices: Vec<(String, Price)>,
    /// True if the steps of runs with signals are kept for a person to look at.
    pub steps: bool,
    /// True if runs are kept for an export.
    pub trajectories: bool,
    /// The spending that runs share, as a first reading of the same files found it. It counts under
    /// limits of money and tokens.
    pub trees: Option<SharedSpending>,
}

/// Folds the conversations of one file into runs.
#[derive(Debug)]
pub struct FileReplay<'s> {
    settings: &'s ReplaySettings,
    path: String,
    talks: BTreeMap<ConversationId, ConversationReplay<'s>>,
    runs: Vec<RunReport>,
}

impl<'s> FileReplay<'s> {
    /// Creates a sink for the file at `path`.
    #[must_use]
    pub fn new(settings: &'s ReplaySettings, path: &Path) -> Self {
        let path = path.display().to_string();
        Self { settings, path, talks: BTreeMap::new(), runs: Vec::new() }
    }

    /// Returns the runs, in the order in which they ended.
    #[must_use]
    pub fn into_runs(mut self) -> Vec<RunReport> {
        for (_, mut talk) in std::mem::take(&mut self.talks) {
            talk.finish_conversation(&mut self.runs);
        }
        self.runs
    }
}

impl Sink for FileReplay<'_> {
    fn begin_conversation(&mut self, talk: ConversationId, begin: &ConversationStart<'_>) {
        let conversation = ConversationReplay::new(self.settings, &self.path, begin);
        if let Some(mut before) = self.talks.insert(talk, conversation) {
            before.finish_conversation(&mut self.runs);
        }
    }

    fn take_user_step(&mut self, talk: ConversationId, step: &UserStep<'_>) {
        if let Some(talk) = self.talks.get_mut(&talk) {
            talk.take_user_step(step, &mut self.runs);
        }
    }

    fn take_turn(&mut self, talk: ConversationId, turn: &TurnStep<'_>) {
        if let Some(talk) = self.talks.get_mut(&talk) {
            talk.take_turn(turn, &mut self.runs);
        }
    }

    fn take_known_turn(&mut self, talk: ConversationId, turn: &KnownTurn<'_>) {
        if let Some(talk) = self.talks.get_mut(&talk) {
            talk.take_known_turn(turn);
        }
    }

    fn take_call_total(&mut self, talk: ConversationId, calls: u64) {
        if let Some(run) = self.talks.get_mut(&talk).and_then(|talk| talk.run.as_mut()) {
            run.take_call_total(calls);
        }
    }

    fn take_signal(&mut self, talk: ConversationId, noted: RecordedSignal) {
        if let Some(run) = self.talks.get_mut(&talk).and_then(|talk| talk.run.as_mut()) {
            run.noted.push(noted);
        }
    }

    fn take_outcome(&mut self, talk: ConversationId, outcome: &str, reason: &str) {
        if let Some(run) = self.talks.get_mut(&talk).and_then(|talk| talk.run.as_mut()) {
            run.take_outcome(outcome, reason);
        }
    }

    fn end_conversation(&mut self, talk: ConversationId) {
        if let Some(mut talk) = self.talks.remove(&talk) {
            talk.finish_conversation(&mut self.runs);
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
struct ConversationReplay<'s> {
    settings: &'s ReplaySettings,
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
    cache: PromptCache,
    carried: CarriedResults,
    watch: ContextWatch,
    /// True if the newest message holds no results.
    asked: bool,
    project: Option<Arc<str>>,
    run: Option<OpenRun>,
    runs: u64,
    /// The signals' state that the run before leaves to the detectors.
    seen: SeenSignals,
    /// True if the step before was the model's.
    spoke: bool,
    /// Money of all runs so far.
    spent: NanoUsd,
    /// The estimate of the next request's input.
    input: InputBound,
}

impl<'s> ConversationReplay<'s> {
    fn new(settings: &'s ReplaySettings, path: &str, begin: &ConversationStart<'_>) -> Self {
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
            cache: PromptCache::default(),
            carried: CarriedResults::default(),
            watch: ContextWatch::default(),
            asked: false,
            project: begin.project.map(Arc::from),
            run: None,
            runs: 0,
            seen: SeenSignals::default(),
            spoke: false,
            spent: NanoUsd::ZERO,
            input: InputBound::default(),
        }
    }

    fn take_user_step(&mut self, step: &UserStep<'_>, done: &mut Vec<RunReport>) {
        let user = &step.user;
        if user.results.is_empty()
            && user.texts.is_empty()
            && (step.machine || user.media.is_none())
        {
            return self.take_program_message(step.time, step.line, done);
        }
        self.take_message(user, step.time, step.line, done);
    }

    /// Takes a message that a program wrote, or that nobody is recorded to have written.
    fn take_program_message(
        &mut self,
        time: Option<u64>,
        line: Option<u64>,
        done: &mut Vec<RunReport>,
    ) {
        let texts = vec![UserText::new(MACHINE)];
        self.take_message(&UserMessage { texts, ..UserMessage::default() }, time, line, done);
    }

    fn take_message(
        &mut self,
        user: &UserMessage<'_>,
        time: Option<u64>,
        line: Option<u64>,
        done: &mut Vec<RunReport>,
    ) {
        self.spoke = false;
        let step = self.transcript.add_user_message(user, None);
        if step.starts_run {
            self.finish_run(done);
            self.runs += 1;
            let first = if self.runs == 1 { self.line.or(line) } else { line };
            let mut run = OpenRun::new(first, self.settings, std::mem::take(&mut self.seen));
            self.watch.begin_run();
            run.spending.title = user.texts.first().and_then(|text| shorten_title(text.text()));
            self.run = Some(run);
        }
        let Some(run) = &mut self.run else { return };
        run.clock.tick(time);
        run.attach_results(user, time);
        self.carried.take_message(user);
        run.spending.note_signals(self.watch.take_results(&user.results));
        self.asked = user.results.is_empty();
        self.input.add_user(user);
        let next = run.turn_count() + 1;
        for signal in step.signals {
            let silent = run.seen.take_signal(signal, &self.limits);
            if silent.is_some_and(|count| count >= self.settings.policy.empty_limit.max(1)) {
                self.judge.note_stop(run.turn_count(), softland_session::core::Reason::Empty);
            }
        }
        self.judge.take_user(user, next);
    }

    fn take_turn(&mut self, turn: &TurnStep<'_>, done: &mut Vec<RunReport>) {
        // Two turns in a row are two turns. A turn without a message before it gets one.
        if self.spoke || self.run.is_none() {
            self.take_program_message(turn.time, turn.line, done);
        }
        self.spoke = true;
        let settings = self.settings;
        let bill = self.prices.bill_turn(turn, &settings.prices);
        let cost = bill.cost;
        let facts = self.compute_facts(turn, cost);
        let Some(run) = &mut self.run else { return };
        let number = run.turn_count() + 1;
        self.judge.take_request(number, Some(&facts).filter(|_| self.judge.needs_facts()));
        run.note_cost_needed(&facts, cost.is_some(), self.limits.reserve_tokens);
        run.clock.tick(turn.time);
        let of_row = turn.row.map(finished_from_row);
        let finished = of_row.as_ref().unwrap_or(&turn.finished);
        self.transcript.add_turn(finished);
        let told = finished.text.digest.is_some() || !finished.calls.is_empty();
        if self.whole && finished.gives && !told {
            self.judge.take_turn_without_content(number);
        } else {
            self.judge.take_turn(finished);
        }
        let answers =
            |call: &Call<'_>| self.limits.answer_tool.iter().any(|tool| tool == call.name);
        let class = classify_turn(finished, answers);
        let held = compute_held(&facts, turn, &settings.policy);
        run.count_turn(turn, (cost, held), class);
        self.count_spending(turn, &bill, done);
        let Some(run) = &mut self.run else { return };
        if let Some(reason) =
            run.check_turn(turn, finished, class, (&self.limits, &settings.policy))
        {
            self.judge.note_stop(number, reason);
        }
        self.spent += cost.unwrap_or(NanoUsd::ZERO);
        self.input.add_turn(turn);
    }

    /// Returns the facts that hold when the request of this turn is sent.
    fn compute_facts(&mut self, turn: &TurnStep<'_>, cost: Option<NanoUsd>) -> Facts {
        let Some(run) = &self.run else { return Facts::default() };
        let recorded = turn.usage.tokens.input_total();
        let row = self.prices.table_row(turn.model, &self.settings.prices);
        let most = self.input.max_tokens(recorded, row);
        let next_input = if recorded > 0 { recorded } else { most };
        let (tokens, spent) = run.used_so_far();
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
            let place = RunMoment {
                source: &self.path,
                session: &self.session,
                name: self.name.as_deref(),
                agent: self.agent.as_deref(),
                began: run.first_moment().unwrap_or(at),
                at,
                limits: (policy.cost_limit_usd, policy.tokens_limit),
            };
            trees.add_shared_use(&mut facts, &place);
        }
        let price = self.prices.highest_price(turn.model, &self.settings.prices, most);
        with_price(facts, most, price, cost)
    }

    /// Ends the conversation, with the run that is open.
    fn finish_conversation(&mut self, done: &mut Vec<RunReport>) {
        self.finish_run(done);
        self.carried.clear(None, done);
    }

    /// Ends the open run.
    fn finish_run(&mut self, done: &mut Vec<RunReport>) {
        let Some(run) = self.run.take() else { return };
        let verdict = self.judge.finish_run(run.turn_count());
        self.seen = run.seen.for_next_run();
        if run.turn_count() == 0 {
            // A question that nobody answered is no run.
            self.runs -= 1;
            return;
        }
        let mut report = run.into_report(verdict, self.inferred, &self.limits);
        self.carried.finish_run(done.len(), &mut report.spending);
        if !self.settings.policy.counts_usage() {
            report.beside.spends = Vec::new();
        }
        report.run = self.run_name();
        report.beside.name.clone_from(&self.name);
        report.beside.caller.clone_from(&self.caller);
        report.session.clone_from(&self.session);
        report.agent.clone_from(&self.agent);
        report.spending.project.clone_from(&self.project);
        report.source.clone_from(&self.path);
        done.push(report);
    }

    fn run_name(&self) -> String {
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
fn finished_from_row(row: ActivityRow) -> FinishedTurn<'static> {
    let digest = Digest::from_bytes(b"row");
    let text = if row.trivial {
        VisibleText { digest: Some(digest), visible: 1, placeholder: false }
    } else {
        VisibleText::default()
    };
    FinishedTurn {
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
fn class_word(class: TurnClass) -> &'static str {
    match class {
        TurnClass::Final | TurnClass::Answer => "answer",
        TurnClass::Calls => "calls",
        TurnClass::Empty | TurnClass::Silent => "empty",
        TurnClass::Truncated => "truncated",
        TurnClass::Refused { .. } => "refused",
        TurnClass::Paused => "paused",
        TurnClass::Full { .. } => "context full",
    }
}

/// Returns true if a turn would be trivial in case its run goes on.
fn may_be_trivial(finished: &FinishedTurn<'_>, class: TurnClass) -> bool {
    matches!(class, TurnClass::Final | TurnClass::Truncated) && looks_trivial(finished)
}
