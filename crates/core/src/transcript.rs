//! A transcript read from its beginning: runs, their boundaries, and what is added where. The
//! live loop, the gateway and the replay of recordings all read by this.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::addition::{Addition, AdditionKind, Place};
use crate::digest::Digest;
use crate::event::{Facts, Finished, User, UserText};
use crate::lines;
use crate::pinned::{Pinned, Records};
use crate::policy::{Policy, RunBoundary};
use crate::rules::Signal;
use crate::run::{Last, Phase, Role, Run};
use crate::tables;
use crate::used::Used;

/// The fold over a transcript.
#[derive(Clone, Debug)]
pub struct Transcript {
    role: Role,
    /// What a run is pinned to that has no record yet.
    policy: Arc<Policy>,
    records: Records,
    /// Digest of all messages so far.
    chain: Digest,
    run: Option<(Digest, Arc<Run>)>,
    runs: u64,
    /// Digests of the user texts of this run.
    asked: BTreeSet<Digest>,
    /// What was used before the history was compacted, until its first message is taken.
    carried: Option<Used>,
    /// The answer tool that the client forces.
    answer_tool: Option<String>,
    /// Where runs of the name that the conversation goes by began, if it has one.
    named: Option<BTreeSet<Digest>>,
}

/// Where a message that was not taken yet will stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here {
    /// What identifies its run.
    pub run: Digest,
    /// Whether it starts that run.
    pub starts: bool,
    /// The digest of all messages, this one included.
    pub place: Digest,
}

/// What one message leads to.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Lines to add to this message.
    pub additions: Vec<Addition>,
    /// What the detectors saw in it.
    pub signals: Vec<Signal>,
    /// Whether it starts a run.
    pub starts_run: bool,
}

impl Transcript {
    /// An empty transcript. `records` are what earlier requests returned to be kept; a run
    /// without one is pinned to `policy`.
    #[must_use]
    pub fn new(role: Role, policy: impl Into<Arc<Policy>>, records: Records) -> Self {
        let (policy, run, asked) = (policy.into(), None, BTreeSet::new());
        let (chain, carried, answer_tool, named) = (Digest::EMPTY, None, None, None);
        Self { role, policy, records, chain, run, runs: 0, asked, carried, answer_tool, named }
    }

    /// Takes a user message. `facts` are given for the newest message only.
    pub fn user(&mut self, user: &User<'_>, facts: Option<&Facts>) -> Step {
        let mut step = self.message(user, facts);
        if let (Some((_, run)), Some(facts)) = (&mut self.run, facts) {
            step.signals.extend(Arc::make_mut(run).stale(facts));
        }
        step
    }

    /// Where a user message would stand if it came next.
    #[must_use]
    pub fn here(&self, user: &User<'_>) -> Here {
        let place = self.chain.then(Digest::of(b"user")).then(content(user));
        match &self.run {
            Some((run, _)) if !self.begins(user, place) => Here { run: *run, starts: false, place },
            _ => Here { run: place, starts: true, place },
        }
    }

    /// The policy that holds, or will hold, for the run of that name.
    #[must_use]
    pub fn policy_of(&self, run: &Digest) -> &Policy {
        match &self.run {
            Some((key, current)) if key == run => current.policy(),
            _ => self.records.get(run).map_or(&self.policy, |pinned| &pinned.policy),
        }
    }

    /// The digest of all messages so far.
    #[must_use]
    pub fn place(&self) -> Digest {
        self.chain
    }

    /// Says that the history was compacted into its first message, and what was used before.
    pub fn carry(&mut self, used: Used) {
        self.carried = Some(used);
    }

    /// Says which tool's call is the answer in runs whose policy names none: one that the client
    /// forces. To be said before anything is taken.
    pub fn answer_by(&mut self, tool: Option<String>) {
        self.answer_tool = tool;
    }

    /// Says that the conversation goes by a name of its user's, for policies whose runs are begun
    /// by that alone: `begun` are the places where runs of that name began. A name without any is
    /// new, and its run begins at the newest human message. To be said before anything is taken.
    pub fn named(&mut self, begun: Vec<Digest>) {
        self.named = Some(begun.into_iter().collect());
    }

    /// Takes a turn of the model.
    pub fn model(&mut self, turn: &Finished<'_>) {
        let calls = turn.calls.iter().fold(Digest::EMPTY, |sum, call| {
            sum.then(Digest::of(call.name.as_bytes())).then(Digest::of(call.input.as_bytes()))
        });
        let text = turn.text.digest.unwrap_or(Digest::EMPTY);
        self.chain = self.chain.then(Digest::of(b"assistant")).then(text).then(calls);
        if let Some((_, run)) = &mut self.run {
            Arc::make_mut(run).model(turn);
        }
    }

    /// The newest run.
    #[must_use]
    pub fn run(&self) -> Option<&Run> {
        self.run.as_ref().map(|(_, run)| &**run)
    }

    /// What identifies the newest run: the digest of the messages up to and including the human
    /// one that started it.
    #[must_use]
    pub fn key(&self) -> Option<Digest> {
        self.run.as_ref().map(|(key, _)| *key)
    }

    /// How many runs the transcript holds.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// What remains of a transcript that was read: the newest run's [`key`](Self::key), the run
    /// itself, and every record to keep, those that came in included.
    #[must_use]
    pub fn into_parts(mut self) -> (Option<Digest>, Option<Arc<Run>>, Records) {
        self.keep();
        let (key, run) = self.run.unzip();
        (key, run, self.records)
    }

    fn message(&mut self, user: &User<'_>, facts: Option<&Facts>) -> Step {
        self.chain = self.chain.then(Digest::of(b"user")).then(content(user));
        if self.begins(user, self.chain) {
            return self.begin(user, facts);
        }
        let mut step = Step::default();
        self.remember(user);
        let Some((_, run)) = &mut self.run else { return step };
        let run = Arc::make_mut(run);
        if user.results.is_empty() {
            let own = user.texts.iter().all(|text| lines::is_own_message(text.text()));
            step.signals.extend(run.goes_on(own));
        } else {
            (step.additions, step.signals) = run.results(&user.results, facts);
            let spoken = user.texts.iter().any(|text| !is_machine_made(text.text()));
            if spoken || user.results.iter().any(|result| result.remarked) {
                run.steer();
            }
        }
        step
    }

    fn begin(&mut self, user: &User<'_>, facts: Option<&Facts>) -> Step {
        self.keep();
        let key = self.chain;
        let known = self.records.get(&key).map(|known| (**known).clone());
        let carried = self.carried.take();
        let pinned =
            known.unwrap_or_else(|| Pinned { carried, ..Pinned::new(Arc::clone(&self.policy)) });
        let mut run = Run::begin(pinned, self.role, facts);
        run.answers_by(self.answer_tool.as_deref());
        let mut step = Step { starts_run: true, ..Step::default() };
        if let Phase::Landing { because, .. } = run.phase() {
            step.additions.push(Addition {
                place: Place::End,
                kind: AdditionKind::Ask,
                because: Some(because.clone()),
                text: lines::ask(because),
            });
        }
        self.run = Some((key, Arc::new(run)));
        self.runs += 1;
        self.asked.clear();
        self.remember(user);
        step
    }

    fn keep(&mut self) {
        if let Some((key, run)) = &self.run {
            let pinned = run.pinned().clone();
            match self.records.get_mut(key) {
                Some(known) => **known = pinned,
                None => {
                    self.records.insert(*key, Box::new(pinned));
                }
            }
        }
    }

    fn remember(&mut self, user: &User<'_>) {
        self.asked.extend(user.texts.iter().map(UserText::digest));
    }

    /// Whether a message that stands at this place begins a run.
    fn begins(&self, user: &User<'_>, place: Digest) -> bool {
        let Some((_, run)) = &self.run else { return true };
        match (run.policy().run_boundary, &self.named) {
            (RunBoundary::Human, _) => self.is_human(run, user),
            (RunBoundary::Header, Some(begun)) if begun.is_empty() => self.is_human(run, user),
            (RunBoundary::Header, Some(begun)) => begun.contains(&place),
            (RunBoundary::Header, None) | (RunBoundary::Conversation, _) => false,
        }
    }

    /// Contract §1, "human message".
    fn is_human(&self, run: &Run, user: &User<'_>) -> bool {
        if !user.results.is_empty() {
            return false;
        }
        // Under a forced choice a client may ask for the answer's form, as nobody did.
        let retries = |text: &str| self.answer_tool.is_some() && tables::is_validation_retry(text);
        let machine_made = |text: &str| is_machine_made(text) || retries(text);
        let spoken: Vec<_> = user.texts.iter().filter(|text| !machine_made(text.text())).collect();
        if spoken.is_empty() {
            return user.media
                && matches!(run.last(), Last::Finished | Last::TrivialLooking { .. });
        }
        match run.last() {
            Last::Finished | Last::TrivialLooking { .. } => true,
            Last::Nothing | Last::Unfinished => false,
            Last::Empty => spoken
                .iter()
                .any(|text| !tables::is_nudge(text.text()) && !self.asked.contains(&text.digest())),
        }
    }
}

/// Text that no person wrote: a harness's own tags, a summary, softland's own words.
fn is_machine_made(text: &str) -> bool {
    lines::is_own_message(text)
        || tables::is_harness_only(text)
        || tables::is_compaction_summary(text)
}

fn content(user: &User<'_>) -> Digest {
    let results = user.results.iter().fold(Digest::EMPTY, |sum, r| sum.then(r.digest));
    user.texts.iter().fold(results, |sum, t| sum.then(t.digest()))
}
