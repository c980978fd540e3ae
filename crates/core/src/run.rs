//! One run: what was used, what was seen, and what that leads to. A run is a fold; everything in
//! it can be had again from the transcript and the pinned record.

mod admit;
mod answers;
mod lands;
mod loops;
mod round;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::because::{Because, Reason};
use crate::digest::Digest;
use crate::event::{Call, Facts, Finished};
use crate::pinned::Pinned;
use crate::policy::Policy;
use crate::rules::{self, Signal, SignalKind};
use crate::turn::{Class, classify};
use crate::used::Used;

use loops::Loops;
use round::OpenRound;

pub use admit::{Admission, Admitted};
pub(crate) use answers::Answers;
pub use lands::Advice;

/// Who executes the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// softland's own loop: calls beyond a limit are in its history, answered as not run.
    Engine,
    /// Somebody else: whatever call is in the history was run.
    Gateway,
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It may call tools.
    Open,
    /// It has reached a limit and is asked for its answer.
    Landing {
        /// The limit.
        because: Because,
        /// Whether the note stands in a tool result; else at the end of the human message.
        in_result: bool,
    },
    /// A limit was reached since this same place was looked at before: the note can stand in no
    /// line any more, and comes behind the history.
    Late {
        /// The limit.
        because: Because,
    },
    /// It is over: softland answers.
    Stopping {
        /// Why.
        because: Because,
    },
}

impl Phase {
    /// Why the run may not go on, if it may not.
    #[must_use]
    pub fn because(&self) -> Option<&Because> {
        match self {
            Self::Open => None,
            Self::Landing { because, .. } | Self::Late { because } | Self::Stopping { because } => {
                Some(because)
            }
        }
    }
}

/// A run in the middle of its transcript.
#[derive(Clone, Debug)]
pub struct Run {
    pinned: Pinned,
    role: Role,
    used: Used,
    phase: Phase,
    open: Option<OpenRound>,
    loops: Loops,
    warned: BTreeSet<Reason>,
    /// Warnings that found their place taken.
    displaced: Vec<Because>,
    empty_in_row: u64,
    last: Last,
    /// The tools by which the client is seen to take its answers, beside those of the policy.
    answers: Answers,
    /// Tools that the provider runs.
    hosted: BTreeSet<String>,
    /// The next model message belongs to the same turn: it was paused, nudged, continued or
    /// refused, and the client has not spoken since.
    within_turn: bool,
}

/// What the last turn was, as far as the next message is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// No turn yet.
    Nothing,
    /// An answer: what follows is human, unless machine-made.
    Finished,
    /// Calls, or a turn that ended in no answer and whose request goes on.
    Unfinished,
    /// The placeholder of an empty turn.
    Empty,
    /// An answer that would be trivial if the run went on by itself, behind so many turns in a row
    /// that were empty or trivial.
    TrivialLooking { before: u64 },
}

impl Last {
    /// Whether it was an answer.
    pub(crate) fn is_finished(self) -> bool {
        matches!(self, Self::Finished | Self::TrivialLooking { .. })
    }
}

impl Run {
    /// A run that begins at a human message.
    pub(crate) fn begin(pinned: Pinned, role: Role, facts: Option<&Facts>) -> Self {
        Self::begin_at(Digest::EMPTY, pinned, role, BTreeSet::new(), facts)
    }

    /// A run that begins at a human message which stands at this place. `hosted` are the tools that
    /// the provider runs.
    pub(crate) fn begin_at(
        place: Digest,
        pinned: Pinned,
        role: Role,
        hosted: BTreeSet<String>,
        facts: Option<&Facts>,
    ) -> Self {
        let mut run = Self {
            pinned,
            role,
            used: Used::default(),
            phase: Phase::Open,
            open: None,
            loops: Loops::default(),
            warned: BTreeSet::new(),
            displaced: Vec::new(),
            empty_in_row: 0,
            last: Last::Nothing,
            answers: Answers::default(),
            hosted,
            within_turn: false,
        };
        run.carry(place);
        let facts = run.look(facts);
        if let Some(because) = run.limit_reached(facts) {
            run.phase = Phase::Landing { because, in_result: false };
        }
        run
    }

    /// Counts what the history does not show, if it counts from this place on.
    pub(crate) fn carry(&mut self, place: Digest) -> bool {
        let Some(carried) = self.pinned.carried_at(place) else { return false };
        self.used.carry(carried);
        true
    }

    /// A message that brings no result stands where what was used before began to count: the run may
    /// be at a limit by that.
    pub(crate) fn lands_here(&mut self, facts: Option<&Facts>) -> Option<Because> {
        let facts = self.look(facts);
        if self.phase != Phase::Open {
            return None;
        }
        let because = self.limit_reached(facts)?;
        self.phase = Phase::Landing { because: because.clone(), in_result: false };
        Some(because)
    }

    /// A run of a history that has no human message to begin it: nothing is limited.
    #[must_use]
    pub fn unlimited(pinned: Pinned, role: Role) -> Self {
        let policy = Policy { empty_limit: pinned.policy.empty_limit, ..Policy::default() };
        let pinned = Pinned { policy: Arc::new(policy), ..pinned };
        Self::begin(pinned, role, None)
    }

    /// Takes a turn of the model into account.
    pub(crate) fn model(&mut self, turn: &Finished<'_>) {
        if !self.within_turn {
            self.used.turns += 1;
        }
        let class = classify(turn, |call| self.is_answer(call));
        let before = self.empty_in_row;
        self.empty_in_row = if class == Class::Empty { self.empty_in_row + 1 } else { 0 };
        self.last = match class {
            Class::Calls => Last::Unfinished,
            Class::Empty | Class::Silent => Last::Empty,
            Class::Final | Class::Truncated if rules::trivial::looks(turn) => {
                Last::TrivialLooking { before }
            }
            Class::Truncated | Class::Paused if turn.text.is_blank() => Last::Unfinished,
            _ => Last::Finished,
        };
        self.open =
            (class == Class::Calls || class == Class::Answer).then(|| OpenRound::new(self, turn));
        if let Some(open) = &self.open {
            self.last = if open.answers() { Last::Finished } else { Last::Unfinished };
            self.count_refusals();
        }
        self.within_turn = true;
    }

    /// The run goes on by itself after a turn that looked finished: a machine's message followed.
    pub(crate) fn goes_on(&mut self, own: bool) -> Option<Signal> {
        self.within_turn &= own;
        let Last::TrivialLooking { before } = self.last else { return None };
        if self.role == Role::Engine {
            return None;
        }
        self.empty_in_row = before + 1;
        if let Some(because) = rules::empty::reached(self.empty_in_row, self.policy()) {
            self.phase = Phase::Stopping { because };
        }
        Some(Signal::of_turn(SignalKind::Trivial, self.used.turns, None))
    }

    /// Somebody else than the person answers the turn: the run goes on, but not by itself.
    pub(crate) fn is_answered(&mut self) {
        self.within_turn = false;
    }

    /// The message at this place came at once: the run goes on with it, now and whenever its
    /// history is read. `landing`: nothing but a landing before it told so.
    pub(crate) fn goes_on_at(&mut self, place: Digest, landing: bool) {
        self.pinned.went_on.insert(place);
        if landing {
            self.pinned.behind_landing = Some(place);
        }
    }

    /// One context was answered in vain too often: the run is stopped.
    pub(crate) fn stale(&mut self, facts: &Facts) -> Option<Signal> {
        let because = rules::stale::reached(facts, self.policy())?;
        self.phase = Phase::Stopping { because: because.clone() };
        Some(Signal::of_turn(SignalKind::Stale, self.used.turns + 1, Some(because)))
    }

    /// A person spoke in the middle of a round: what came before is no loop any more.
    pub(crate) fn steer(&mut self) {
        self.loops.clear();
    }

    /// Who executes the run's tools.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The policy that holds for this run.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.pinned.policy
    }

    /// Whether a call is the answer: the policy names its tool, or the client is seen to take its
    /// answers by it. It is not refused, and not counted unless something comes back for it.
    #[must_use]
    pub fn is_answer(&self, call: &Call<'_>) -> bool {
        self.names_answer_tool(call.name) || self.answers.has(call)
    }

    /// Whether the provider runs this tool.
    #[must_use]
    pub fn is_hosted(&self, tool: &str) -> bool {
        self.hosted.contains(tool)
    }

    /// Whether calls of this tool are the answer.
    #[must_use]
    pub fn is_answer_tool(&self, tool: &str) -> bool {
        self.names_answer_tool(tool) || self.answers.has_tool(tool)
    }

    /// Whether the policy names this tool for one whose call is the answer.
    pub(crate) fn names_answer_tool(&self, tool: &str) -> bool {
        self.policy().answer_tool.iter().any(|named| named == tool)
    }

    pub(crate) fn answers_by(&mut self, answers: Answers) {
        self.answers = answers;
    }

    /// The answer tools as they are known now, for the client's next run.
    pub(crate) fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Whether the newest turn was an answer by a tool's call, for which nothing has come back.
    #[must_use]
    pub fn awaits_answer(&self) -> bool {
        self.last == Last::Finished && self.open.as_ref().is_some_and(OpenRound::answers)
    }

    /// A person goes on behind such an answer: what stands between the two closes it.
    pub(crate) fn closes_answer(&mut self) {
        (self.open, self.within_turn) = (None, false);
    }

    /// The record to keep for this run.
    #[must_use]
    pub fn pinned(&self) -> &Pinned {
        &self.pinned
    }

    /// What the run has used.
    #[must_use]
    pub fn used(&self) -> &Used {
        &self.used
    }

    /// Where the run stands.
    #[must_use]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Empty turns in a row at the end of the transcript.
    #[must_use]
    pub fn empty_in_row(&self) -> u64 {
        self.empty_in_row
    }

    pub(crate) fn last(&self) -> Last {
        self.last
    }

    /// Turns in which a tool was refused by its own limit, while others remained.
    fn count_refusals(&mut self) {
        let Some(open) = &self.open else { return };
        if let Some(tool) = open.refused_tool() {
            let refusals = rules::tool::refusals(&self.used) + 1;
            self.used.refused_tool = Some((tool, refusals));
        }
    }
}
