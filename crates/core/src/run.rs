//! The state of one run: its usage, the signals in it, and its phase. A run is a fold. All of it
//! can be rebuilt from the transcript and the pinned record.

mod admit;
mod answers;
mod limits;
mod loops;
mod round;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::because::{Because, Reason};
use crate::digest::Digest;
use crate::event::{Call, Facts, FinishedTurn};
use crate::pinned::PinnedRecord;
use crate::policy::Policy;
use crate::rules::{self, Signal, SignalKind};
use crate::turn::{TurnClass, classify_turn};
use crate::used::RunUsage;

use loops::LoopDetectors;
use round::{OpenRound, ResultLine};

pub use admit::{Admission, AdmittedCalls};
pub(crate) use answers::AnswerTools;
pub use limits::RequestAllowance;

/// The side that executes the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// softland's own loop: calls beyond a limit are in its history, answered as not run.
    Engine,
    /// Another program: every call in the history was run.
    Gateway,
}

/// The phase of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The run may call tools.
    Open,
    /// The run has reached a limit and is asked for its answer.
    Landing {
        /// The limit.
        because: Because,
        /// True if the note stands in a tool result; otherwise it stands at the end of the human
        /// message.
        in_result: bool,
    },
    /// A limit was reached after this place had been looked at. No line can hold the note any more,
    /// so it comes behind the history.
    Late {
        /// The limit.
        because: Because,
    },
    /// A limit was reached, and no result has room for the note. The request goes on as it is, and
    /// the calls of its response are refused.
    Waiting {
        /// The limit.
        because: Because,
    },
    /// The run is over: softland answers.
    Stopping {
        /// The reason.
        because: Because,
    },
}

impl Phase {
    /// Returns the reason why the run may not go on, if there is one.
    #[must_use]
    pub fn because(&self) -> Option<&Because> {
        match self {
            Self::Open => None,
            Self::Landing { because, .. }
            | Self::Late { because }
            | Self::Waiting { because }
            | Self::Stopping { because } => Some(because),
        }
    }

    /// True if the request at this place tells the model to answer, or is not sent for an answer of
    /// softland's. A run that waits tells the model nothing.
    #[must_use]
    pub fn is_told(&self) -> bool {
        match self {
            Self::Landing { .. } | Self::Late { .. } | Self::Stopping { .. } => true,
            Self::Open | Self::Waiting { .. } => false,
        }
    }
}

/// A run in the middle of its transcript.
#[derive(Clone, Debug)]
pub struct Run {
    pinned: PinnedRecord,
    role: Role,
    used: RunUsage,
    phase: Phase,
    open: Option<OpenRound>,
    loops: LoopDetectors,
    warned: BTreeSet<Reason>,
    /// Warnings whose result already had another line.
    displaced: Vec<Because>,
    /// The line that found no room in its result, for the next result with room.
    held: Option<ResultLine>,
    /// True if a countdown found no room: the next one is shown, whatever its number.
    owes_countdown: bool,
    empty_in_row: u64,
    last: LastTurn,
    /// The tools whose calls the client takes as answers, beside those of the policy.
    answers: AnswerTools,
    /// Tools that the provider runs.
    hosted: BTreeSet<String>,
    /// True if the next model message belongs to the same turn: the turn was paused, nudged,
    /// continued or refused, and the client has sent nothing since.
    within_turn: bool,
}

/// The last turn, as far as it decides how the next message is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastTurn {
    /// No turn yet.
    Nothing,
    /// An answer: the next message is human, unless a machine made it.
    Finished,
    /// Calls, or a turn that ended without an answer and whose request goes on.
    Unfinished,
    /// The placeholder of an empty turn.
    Empty,
    /// An answer that counts as trivial if the run goes on by itself. `before` is the number of
    /// empty or trivial turns in a row before it.
    TrivialLooking { before: u64 },
}

impl LastTurn {
    /// Returns true if the turn was an answer.
    pub(crate) fn is_finished(self) -> bool {
        matches!(self, Self::Finished | Self::TrivialLooking { .. })
    }
}

impl Run {
    /// Begins a run at a human message.
    pub(crate) fn begin_unplaced(pinned: PinnedRecord, role: Role, facts: Option<&Facts>) -> Self {
        Self::begin_at_place(Digest::EMPTY, pinned, role, BTreeSet::new(), facts)
    }

    /// Begins a run at the human message at this place. `hosted` are the tools that the provider
    /// runs.
    pub(crate) fn begin_at_place(
        place: Digest,
        pinned: PinnedRecord,
        role: Role,
        hosted: BTreeSet<String>,
        facts: Option<&Facts>,
    ) -> Self {
        let mut run = Self {
            pinned,
            role,
            used: RunUsage::default(),
            phase: Phase::Open,
            open: None,
            loops: LoopDetectors::default(),
            warned: BTreeSet::new(),
            displaced: Vec::new(),
            held: None,
            owes_countdown: false,
            empty_in_row: 0,
            last: LastTurn::Nothing,
            answers: AnswerTools::default(),
            hosted,
            within_turn: false,
        };
        run.count_carried_at(place);
        let facts = run.take_unseen_facts(facts);
        if let Some(because) = run.find_limit(facts) {
            run.phase = Phase::Landing { because, in_result: false };
        }
        run
    }

    /// Adds usage that the history does not show, if the record counts it from this place on.
    /// Returns true if it does.
    pub(crate) fn count_carried_at(&mut self, place: Digest) -> bool {
        let Some(carried) = self.pinned.usage_carried_from(place) else { return false };
        self.used.add_usage(carried);
        true
    }

    /// Lands the run at a message without results, if usage that counts from this place on reaches
    /// a limit. Returns the limit.
    pub(crate) fn land_here(&mut self, facts: Option<&Facts>) -> Option<Because> {
        let facts = self.take_unseen_facts(facts);
        if self.phase != Phase::Open {
            return None;
        }
        let because = self.find_limit(facts)?;
        self.phase = Phase::Landing { because: because.clone(), in_result: false };
        Some(because)
    }

    /// Returns a run without limits, for a history that has no human message to begin one.
    #[must_use]
    pub fn without_limits(pinned: PinnedRecord, role: Role) -> Self {
        let policy = Policy { empty_limit: pinned.policy.empty_limit, ..Policy::default() };
        let pinned = PinnedRecord { policy: Arc::new(policy), ..pinned };
        Self::begin_unplaced(pinned, role, None)
    }

    /// Adds a turn of the model.
    pub(crate) fn add_turn(&mut self, turn: &FinishedTurn<'_>) {
        if !self.within_turn {
            self.used.turns += 1;
        }
        let class = classify_turn(turn, |call| self.is_answer(call));
        let before = self.empty_in_row;
        self.empty_in_row = if class == TurnClass::Empty { self.empty_in_row + 1 } else { 0 };
        self.last = match class {
            TurnClass::Calls => LastTurn::Unfinished,
            TurnClass::Empty | TurnClass::Silent => LastTurn::Empty,
            TurnClass::Final | TurnClass::Truncated if rules::trivial::looks_trivial(turn) => {
                LastTurn::TrivialLooking { before }
            }
            TurnClass::Truncated | TurnClass::Paused if turn.text.is_blank() => {
                LastTurn::Unfinished
            }
            _ => LastTurn::Finished,
        };
        self.open = (class == TurnClass::Calls || class == TurnClass::Answer)
            .then(|| OpenRound::new(self, turn));
        if let Some(open) = &self.open {
            self.last = if open.has_answer() { LastTurn::Finished } else { LastTurn::Unfinished };
            self.count_refusals();
        }
        self.within_turn = true;
    }

    /// Records that the run goes on by itself after a turn that looked finished, because a message
    /// that a machine made followed.
    pub(crate) fn record_self_continuation(&mut self, own: bool) -> Option<Signal> {
        self.within_turn &= own;
        let LastTurn::TrivialLooking { before } = self.last else { return None };
        if self.role == Role::Engine {
            return None;
        }
        self.empty_in_row = before + 1;
        if let Some(because) = rules::empty::check_limit(self.empty_in_row, self.policy()) {
            self.phase = Phase::Stopping { because };
        }
        Some(Signal::from_turn(SignalKind::Trivial, self.used.turns, None))
    }

    /// Records that another speaker than the person answered the turn: the run goes on, but not by
    /// itself.
    pub(crate) fn end_turn_by_other(&mut self) {
        self.within_turn = false;
    }

    /// Records that the message at this place came at once, so the run goes on with it whenever its
    /// history is read. `landing` is true if nothing but a landing before it shows this.
    pub(crate) fn record_going_on(&mut self, place: Digest, landing: bool) {
        self.pinned.went_on.insert(place);
        if landing {
            self.pinned.behind_landing = Some(place);
        }
    }

    /// Stops the run if one context was answered in vain too often.
    pub(crate) fn stop_if_stale(&mut self, facts: &Facts) -> Option<Signal> {
        let because = rules::stale::check_limit(facts, self.policy())?;
        self.phase = Phase::Stopping { because: because.clone() };
        Some(Signal::from_turn(SignalKind::Stale, self.used.turns + 1, Some(because)))
    }

    /// Clears the loop detectors: a person spoke within a round, so what came before is no loop.
    pub(crate) fn clear_loops(&mut self) {
        self.loops.clear();
    }

    /// Returns the side that executes the run's tools.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the policy of this run.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.pinned.policy
    }

    /// Returns true if a call is the answer: the policy names its tool, or the client takes answers
    /// by it. An answer is not refused, and it counts only if something comes back for it.
    #[must_use]
    pub fn is_answer(&self, call: &Call<'_>) -> bool {
        self.names_answer_tool(call.name) || self.answers.has_call(call)
    }

    /// Returns true if the provider runs this tool.
    #[must_use]
    pub fn is_hosted(&self, tool: &str) -> bool {
        self.hosted.contains(tool)
    }

    /// Returns true if calls of this tool are the answer.
    #[must_use]
    pub fn is_answer_tool(&self, tool: &str) -> bool {
        self.names_answer_tool(tool) || self.answers.has_tool(tool)
    }

    /// Returns true if the policy names this tool as an answer tool.
    pub(crate) fn names_answer_tool(&self, tool: &str) -> bool {
        self.policy().answer_tool.iter().any(|named| named == tool)
    }

    pub(crate) fn set_answer_tools(&mut self, answers: AnswerTools) {
        self.answers = answers;
    }

    /// Returns the answer tools as known now, for the client's next run.
    pub(crate) fn answer_tools(&self) -> &AnswerTools {
        &self.answers
    }

    /// Returns true if the newest turn was an answer by a tool call, and nothing has come back for
    /// it.
    #[must_use]
    pub fn awaits_answer(&self) -> bool {
        self.last == LastTurn::Finished && self.open.as_ref().is_some_and(OpenRound::has_answer)
    }

    /// Closes such an answer, because a person goes on behind it.
    pub(crate) fn close_answer(&mut self) {
        (self.open, self.within_turn) = (None, false);
    }

    /// Returns the record to store for this run.
    #[must_use]
    pub fn pinned(&self) -> &PinnedRecord {
        &self.pinned
    }

    /// Returns the usage of the run.
    #[must_use]
    pub fn used(&self) -> &RunUsage {
        &self.used
    }

    /// Returns the phase of the run.
    #[must_use]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Returns the number of empty turns in a row at the end of the transcript.
    #[must_use]
    pub fn empty_in_row(&self) -> u64 {
        self.empty_in_row
    }

    pub(crate) fn last_turn(&self) -> LastTurn {
        self.last
    }

    /// Counts a turn in which a tool was refused by its own limit while others remained.
    fn count_refusals(&mut self) {
        let Some(open) = &self.open else { return };
        if let Some(tool) = open.refused_tool() {
            let refusals = rules::tool::shown_refusals(&self.used) + 1;
            self.used.refused_tool = Some((tool, refusals));
        }
    }
}
