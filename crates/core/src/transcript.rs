//! The fold over a transcript: the runs in it, their boundaries, and the lines added to its
//! messages. The live loop, the gateway and the replay of recordings all read a history by this
//! code.

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
    /// The policy of runs that have no record yet.
    policy: Arc<Policy>,
    records: Records,
    /// Digest of all messages so far.
    chain: Digest,
    run: Option<(Digest, Arc<Run>)>,
    runs: u64,
    /// The messages of the newest run.
    heard: Heard,
    /// The `name` of the conversation's first message, if it has one.
    opener: Option<String>,
    /// The arrival of the message behind the newest turn, if it is known.
    arrival: Option<Arrival>,
    /// The tools whose calls the client takes as answers, as far as its requests show.
    answers: Answers,
    /// True if the client forces one of these tools.
    forces_answer: bool,
    /// Tools that the provider runs.
    hosted: BTreeSet<String>,
    /// The places where runs of the conversation's name began, if the conversation has a name.
    named: Option<BTreeSet<Digest>>,
}

/// The position of a message that the transcript has not taken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here {
    /// The key of its run.
    pub run: Digest,
    /// True if the message starts that run.
    pub starts: bool,
    /// The digest of all messages, this one included.
    pub place: Digest,
}

/// The effect of one message.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Lines to add to this message.
    pub additions: Vec<Addition>,
    /// The signals of the detectors for this message.
    pub signals: Vec<Signal>,
    /// True if the message starts a run.
    pub starts_run: bool,
}

impl Transcript {
    /// Creates an empty transcript. `records` are the records that earlier requests returned; a run
    /// without a record is pinned to `policy`.
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

    /// Adds a user message. `facts` are given for the newest message only.
    pub fn user(&mut self, user: &User<'_>, facts: Option<&Facts>) -> Step {
        let mut step = self.message(user, facts);
        if let (Some((_, run)), Some(facts)) = (&mut self.run, facts) {
            let run = Arc::make_mut(run);
            run.look_last(facts);
            step.signals.extend(run.stale(facts));
        }
        step
    }

    /// Returns the position that a user message would have if it came next.
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

    /// Returns the policy that holds, or will hold, for the run of this key.
    #[must_use]
    pub fn policy_of(&self, run: &Digest) -> &Policy {
        match &self.run {
            Some((key, current)) if key == run => current.policy(),
            _ => self.records.get(run).map_or(&self.policy, |pinned| &pinned.policy),
        }
    }

    /// Returns the digest of all messages so far.
    #[must_use]
    pub fn place(&self) -> Digest {
        self.chain
    }

    /// Returns the position of a history that ends in a turn of the model; `None` before any turn.
    #[must_use]
    pub fn ends(&self) -> Option<Here> {
        Some(Here { run: self.key()?, starts: false, place: self.chain })
    }

    /// Sets the tools whose calls the client takes as answers, beside those that the policy names.
    /// `forced` is true if the client forces one of them. Call this before any message is added.
    pub fn answer_by(&mut self, tools: Vec<String>, forced: bool) {
        self.forces_answer = forced && !tools.is_empty();
        self.answers = Answers::shown(tools);
    }

    /// Sets the tools that the provider runs, as the requests declare them. Call this before any
    /// message is added.
    pub fn host(&mut self, tools: BTreeSet<String>) {
        self.hosted = tools;
    }

    /// Sets the places where runs of this conversation's name began. Policies whose runs only a
    /// header starts read them. A name without any place is new: its run begins at the newest human
    /// message. Call this before any message is added.
    pub fn named(&mut self, begun: Vec<Digest>) {
        self.named = Some(begun.into_iter().collect());
    }

    /// Sets the arrival of the messages that are added next, up to the model's next turn.
    pub fn arrives(&mut self, arrival: Option<Arrival>) {
        self.arrival = arrival;
    }

    /// Adds a turn of the model. A history may open with a turn, because the client has left out
    /// the prompt or put a summary in its place; then a run begins there.
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

    /// Returns the newest run.
    #[must_use]
    pub fn run(&self) -> Option<&Run> {
        self.run.as_ref().map(|(_, run)| &**run)
    }

    /// Returns the key of the newest run: the digest of the messages up to and including the human
    /// message that started it.
    #[must_use]
    pub fn key(&self) -> Option<Digest> {
        self.run.as_ref().map(|(key, _)| *key)
    }

    /// Returns the number of runs in the transcript.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns the newest run's [`key`](Self::key), the run itself, and every record to store,
    /// including those that were passed in.
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

    /// Begins a run behind the newest message.
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

    /// Returns the digest of all messages with this one behind them. A message that consists of a
    /// harness's tags is left out, since some harnesses move their tags from message to message. A
    /// first message counts in any case, because nothing before it could stand for it.
    fn behind(&self, user: &User<'_>) -> Digest {
        let says_nothing = user.results.is_empty() && !user.media && !user.texts.is_empty();
        if says_nothing && self.run.is_some() && user.texts.iter().all(UserText::is_tags) {
            return self.chain;
        }
        self.chain.then(Digest::of(b"user")).then(content(user))
    }

    /// Finds the sender of a message at this place of the run.
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

    /// Returns true if a message holds words or media of a person.
    #[must_use]
    pub fn is_spoken(user: &User<'_>) -> bool {
        user.media || user.texts.iter().any(|text| !is_machine_made(text.text()))
    }
}

/// Returns true if the results close an answer and a person goes on in the same message. A result
/// that failed asks for the answer again.
fn closes(user: &User<'_>) -> bool {
    let taken = |result: &ToolResult<'_>| !result.failed && !result.sent_back;
    !user.results.is_empty()
        && user.results.iter().all(taken)
        && user.texts.iter().any(|text| !is_machine_made(text.text()))
}

/// Returns the note at the end of a message that holds no result.
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
