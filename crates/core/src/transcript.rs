//! A transcript read from its beginning: runs, their boundaries, and what is added where. The
//! live loop, the gateway and the replay of recordings all read by this.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::addition::{Addition, AdditionKind, Place};
use crate::because::Because;
use crate::digest::Digest;
use crate::event::{Facts, Finished, ToolResult, User, UserText};
use crate::human::{Arrival, Came, Heard, Sender, is_by_another, is_machine_made};
use crate::lines;
use crate::pinned::{Pinned, Records};
use crate::policy::{Policy, RunBoundary};
use crate::rules::Signal;
use crate::run::{Answers, Last, Phase, Role, Run};

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
    /// What was said in this run.
    heard: Heard,
    /// The name over the conversation's first message, if there is one.
    opener: Option<String>,
    /// How what stands behind the newest turn came, where that is known.
    arrival: Option<Arrival>,
    /// The tools by which the client is seen to take its answers.
    answers: Answers,
    /// Whether the client forces one of them.
    forces_answer: bool,
    /// Tools that the provider runs.
    hosted: BTreeSet<String>,
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
        Self {
            role,
            policy: policy.into(),
            records,
            chain: Digest::EMPTY,
            run: None,
            runs: 0,
            heard: Heard::default(),
            opener: None,
            arrival: None,
            answers: Answers::default(),
            forces_answer: false,
            hosted: BTreeSet::new(),
            named: None,
        }
    }

    /// Takes a user message. `facts` are given for the newest message only.
    pub fn user(&mut self, user: &User<'_>, facts: Option<&Facts>) -> Step {
        let mut step = self.message(user, facts);
        if let (Some((_, run)), Some(facts)) = (&mut self.run, facts) {
            let run = Arc::make_mut(run);
            run.look_last(facts);
            step.signals.extend(run.stale(facts));
        }
        step
    }

    /// Where a user message would stand if it came next.
    #[must_use]
    pub fn here(&self, user: &User<'_>) -> Here {
        let place = self.behind(user);
        match &self.run {
            Some((run, current)) if self.sender(current, user, place) != Sender::Person => {
                Here { run: *run, starts: false, place }
            }
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

    /// Where a history stands that ends in a turn of the model; `None` before any.
    #[must_use]
    pub fn ends(&self) -> Option<Here> {
        Some(Here { run: self.key()?, starts: false, place: self.chain })
    }

    /// Says by which tools the client is seen to take its answers, beside those that the policy
    /// names, and whether it forces one. To be said before anything is taken.
    pub fn answer_by(&mut self, tools: Vec<String>, forced: bool) {
        self.forces_answer = forced && !tools.is_empty();
        self.answers = Answers::shown(tools);
    }

    /// Says which tools the requests declare that the provider runs. To be said before anything is
    /// taken.
    pub fn host(&mut self, tools: BTreeSet<String>) {
        self.hosted = tools;
    }

    /// Says that the conversation goes by a name of its user's, for policies whose runs are begun
    /// by that alone: `begun` are the places where runs of that name began. A name without any is
    /// new, and its run begins at the newest human message. To be said before anything is taken.
    pub fn named(&mut self, begun: Vec<Digest>) {
        self.named = Some(begun.into_iter().collect());
    }

    /// Says how the messages came that are taken next, up to the model's next turn.
    pub fn arrives(&mut self, arrival: Option<Arrival>) {
        self.arrival = arrival;
    }

    /// Takes a turn of the model. A history that opens with one (a client has left out what was
    /// asked, or put a summary in its place) begins a run there.
    pub fn model(&mut self, turn: &Finished<'_>) {
        let calls = turn.calls.iter().fold(Digest::EMPTY, |sum, call| {
            sum.then(Digest::of(call.name.as_bytes())).then(Digest::of(call.input.as_bytes()))
        });
        let text = turn.text.digest.unwrap_or(Digest::EMPTY);
        self.chain = self.chain.then(Digest::of(b"assistant")).then(text).then(calls);
        self.arrival = None;
        let opens = self.run.is_none();
        if opens {
            self.begin_run(None);
        }
        if let Some((_, run)) = &mut self.run {
            let run = Arc::make_mut(run);
            if !opens {
                run.carry(self.chain);
            }
            run.model(turn);
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
        let place = self.behind(user);
        let moves = place != self.chain;
        self.chain = place;
        let Some((_, run)) = &self.run else {
            self.opener = user.name.as_deref().map(String::from);
            return self.begin(user, facts);
        };
        let sender = self.sender(run, user, place);
        if sender == Sender::Person {
            return self.begin(user, facts);
        }
        let mut step = Step::default();
        self.heard.hear(user, run.last(), run.phase());
        let by_another = is_by_another(user, self.opener.as_deref());
        let closes = user.spoken_after || closes(user);
        let Some((_, run)) = &mut self.run else { return step };
        let run = Arc::make_mut(run);
        if let Sender::AtOnce { landing } = sender {
            run.goes_on_at(place, landing);
        }
        let carries = moves && run.carry(place);
        if run.awaits_answer() && closes {
            run.closes_answer();
        } else if !user.results.is_empty() {
            (step.additions, step.signals) = run.results(&user.results, facts);
            let spoken = user.texts.iter().any(|text| !is_machine_made(text.text()));
            if spoken || user.results.iter().any(|result| result.remarked) {
                run.steer();
            }
        } else if by_another {
            run.is_answered();
        } else {
            let own = user.texts.iter().all(|text| lines::is_own_message(text.text()));
            step.signals.extend(run.goes_on(own));
            if carries && let Some(because) = run.lands_here(facts) {
                step.additions.push(ask(&because));
            }
        }
        step
    }

    fn begin(&mut self, user: &User<'_>, facts: Option<&Facts>) -> Step {
        let last = self.run.as_ref().map_or(Last::Nothing, |(_, run)| run.last());
        self.heard = Heard::default();
        self.heard.hear(user, last, &Phase::Open);
        self.begin_run(facts)
    }

    /// Begins a run behind what was taken last.
    fn begin_run(&mut self, facts: Option<&Facts>) -> Step {
        self.keep();
        let key = self.chain;
        let known = self.records.get(&key).map(|known| (**known).clone());
        let pinned = known.unwrap_or_else(|| Pinned::new(Arc::clone(&self.policy)));
        let mut run = Run::begin_at(key, pinned, self.role, self.hosted.clone(), facts);
        let known = self.run.as_ref().map(|(_, before)| before.answers().clone().of_next_run());
        run.answers_by(known.unwrap_or_else(|| self.answers.clone()));
        let mut step = Step { starts_run: true, ..Step::default() };
        if let Phase::Landing { because, .. } = run.phase() {
            step.additions.push(ask(because));
        }
        self.run = Some((key, Arc::new(run)));
        self.runs += 1;
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

    /// The digest of all messages with this one behind them. What consists of a harness's tags is
    /// left out: some harnesses move them from message to message. A first message has nothing
    /// before it that could stand for it.
    fn behind(&self, user: &User<'_>) -> Digest {
        let says_nothing = user.results.is_empty() && !user.media && !user.texts.is_empty();
        if says_nothing && self.run.is_some() && user.texts.iter().all(UserText::is_tags) {
            return self.chain;
        }
        self.chain.then(Digest::of(b"user")).then(content(user))
    }

    /// Who wrote a message that stands at this place of the run.
    fn sender(&self, run: &Run, user: &User<'_>, place: Digest) -> Sender {
        let by_name = |begins: bool| if begins { Sender::Person } else { Sender::Program };
        match (run.policy().run_boundary, &self.named) {
            (RunBoundary::Header, Some(begun)) if !begun.is_empty() => {
                by_name(begun.contains(&place))
            }
            (RunBoundary::Header, None) | (RunBoundary::Conversation, _) => by_name(false),
            (RunBoundary::Human | RunBoundary::Header, _) => {
                let by_another = is_by_another(user, self.opener.as_deref());
                let came = Came { place, arrival: self.arrival.as_ref(), by_another };
                self.heard.sender(run, user, came, self.forces_answer)
            }
        }
    }

    /// Whether a person says something in a message, or shows it.
    #[must_use]
    pub fn is_spoken(user: &User<'_>) -> bool {
        user.media || user.texts.iter().any(|text| !is_machine_made(text.text()))
    }
}

/// Whether results close an answer, and a person goes on in the same message: a result that failed
/// wants the answer again.
fn closes(user: &User<'_>) -> bool {
    let taken = |result: &ToolResult<'_>| !result.failed && !result.sent_back;
    !user.results.is_empty()
        && user.results.iter().all(taken)
        && user.texts.iter().any(|text| !is_machine_made(text.text()))
}

/// The note at the end of a message that brings no result.
fn ask(because: &Because) -> Addition {
    Addition {
        place: Place::End,
        kind: AdditionKind::Ask,
        because: Some(because.clone()),
        text: lines::ask(because),
    }
}

fn content(user: &User<'_>) -> Digest {
    let results = user.results.iter().fold(Digest::EMPTY, |sum, r| sum.then(r.digest));
    let bare = user.texts.iter().all(UserText::is_tags);
    let words = user.texts.iter().filter(|text| bare || !text.is_tags());
    words.fold(results, |sum, text| sum.then(text.digest()))
}
