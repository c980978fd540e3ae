//! One client request, and every request that softland sends upstream for it: nudges,
//! continuations, pauses, and the rungs of a landing. The ladder says what to do next; its caller
//! has the bytes.
//!
//! The number of requests is bounded: see [`Ladder::max_requests`].

use crate::because::{Because, Reason};
use crate::outcome::{Outcome, RunEnding};
use crate::policy::{Landing, Policy};
use crate::rules;
use crate::run::{Phase, Role};
use crate::rung::Rung;
use crate::turn::TurnClass;

/// The most continuations of a truncated turn.
const CONTINUATIONS: u64 = 3;
/// The most times that a paused turn is sent back.
const PAUSES: u64 = 5;
/// The most requests of a landing: `ask` or its refusal, the forced tool, `none`.
const RUNGS: u64 = 4;

/// The settings of one client request, apart from the run's state.
#[derive(Clone, Debug)]
pub struct LadderSettings {
    /// The side that executes the tools.
    pub role: Role,
    /// The policy's `landing`.
    pub landing: Landing,
    /// The policy's `empty_limit`.
    pub empty_limit: u64,
    /// The number of empty turns in a row before this request.
    pub empty_before: u64,
    /// True if an answer tool is declared and the API accepts forcing it.
    pub may_force: bool,
    /// True if the policy or the client asks for the answer tool.
    pub wants_tool: bool,
    /// True if the client itself forces a tool call; then a text is no answer.
    pub client_forces: bool,
    /// True if the API accepts `tool_choice: none`.
    pub may_none: bool,
    /// True if the request declares tools. Without tools, `none` changes nothing in it.
    pub declares: bool,
    /// The number of turns refused by tools' own limits before this request.
    pub refusals_before: u64,
    /// True if an empty turn counts as empty: in a gateway only if the request has tools or
    /// results.
    pub repairs: bool,
    /// True if the limits leave enough for one more answer.
    pub affordable: bool,
}

/// The messages to add behind the governed history before the next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing: the history is sent as it is.
    Keep,
    /// The turn, with its calls answered as not run.
    Refuse(Because),
    /// The turn, with its calls answered as over their tools' limits; the run goes on.
    ToolRefuse,
    /// The nudge after an empty turn.
    Nudge(Because),
    /// The truncated turn, without a cut call, and the request to continue.
    Continue,
    /// The paused turn as it is.
    Resume,
    /// The placeholder and the note, when a limit was reached while the model was answering.
    Expire(Because),
}

/// The reason why a request brought no turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFailure {
    /// The provider failed beyond the caller's retries.
    Provider,
    /// The client went away, or the request was cancelled.
    Cancelled,
}

/// The next action for a client request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// Send a request upstream.
    Send {
        /// The landing rung, if the request is one.
        rung: Option<Rung>,
        /// The messages to add behind the history.
        tail: Tail,
        /// True if `max_tokens` is doubled, up to the model's maximum.
        grow: bool,
    },
    /// Pass the turn to the client: its calls are run, and the run goes on.
    Pass,
    /// End the run.
    End {
        /// The outcome with its reason.
        ended: RunEnding,
        /// True if softland answers in the model's place.
        local: bool,
    },
}

/// The state of one client request.
#[derive(Clone, Debug)]
pub struct Ladder {
    setting: LadderSettings,
    /// The limit, once the run is landing.
    landing: Option<Because>,
    stopping: bool,
    /// True if no line holds the note yet.
    late: bool,
    /// True if no result has room for the note.
    waiting: bool,
    in_result: bool,
    rung: Option<Rung>,
    refused: bool,
    empties: u64,
    tool_refusals: u64,
    /// The tool's limit that refused a turn of this request, if one did.
    reached_tool_limit: Option<Because>,
    continuations: u64,
    pauses: u64,
}

impl Ladder {
    /// Begins a client request of a run in this phase.
    #[must_use]
    pub fn new(setting: LadderSettings, phase: &Phase) -> Self {
        let landing = phase.because().cloned();
        Self {
            stopping: matches!(phase, Phase::Stopping { .. }),
            late: matches!(phase, Phase::Late { .. }),
            waiting: matches!(phase, Phase::Waiting { .. }),
            in_result: matches!(phase, Phase::Landing { in_result: true, .. }),
            empties: setting.empty_before,
            tool_refusals: setting.refusals_before,
            reached_tool_limit: None,
            setting,
            landing,
            rung: None,
            refused: false,
            continuations: 0,
            pauses: 0,
        }
    }

    /// Returns the most requests upstream that one client request may lead to under this policy.
    #[must_use]
    pub fn max_requests(policy: &Policy) -> u64 {
        policy.empty_limit.max(1) + CONTINUATIONS + PAUSES + RUNGS + rules::tool::REFUSALS
    }

    /// Returns the number of empty turns in a row, including those of this request.
    #[must_use]
    pub fn empty_turns(&self) -> u64 {
        self.empties
    }

    /// Returns the number of turns refused by tools' own limits, including those before this
    /// request.
    #[must_use]
    pub fn tool_refusals(&self) -> u64 {
        self.tool_refusals
    }

    /// Returns the tool's limit that the last refused turn had reached.
    #[must_use]
    pub fn reached_tool_limit(&self) -> Option<&Because> {
        self.reached_tool_limit.as_ref()
    }

    /// Counts an empty turn as empty from now on, whatever the request holds, because softland
    /// itself left nothing of the turn.
    pub fn enable_repairs(&mut self) {
        self.setting.repairs = true;
    }

    /// Returns the number of continuations so far.
    #[must_use]
    pub fn continuations(&self) -> u64 {
        self.continuations
    }

    /// Returns the rung of the request under way.
    #[must_use]
    pub fn rung(&self) -> Option<Rung> {
        self.rung
    }

    /// Returns the reason why the run is landing, if it is.
    #[must_use]
    pub fn landing(&self) -> Option<&Because> {
        self.landing.as_ref()
    }

    /// Returns the first action of the client request.
    #[must_use]
    pub fn choose_first_action(&mut self) -> NextAction {
        let Some(because) = self.landing.clone() else {
            return NextAction::Send { rung: None, tail: Tail::Keep, grow: false };
        };
        if self.stopping || self.setting.landing == Landing::Stop {
            return self.answer_locally(&because);
        }
        if self.waiting && self.setting.affordable {
            return NextAction::Send { rung: None, tail: Tail::Keep, grow: false };
        }
        if self.late {
            return self.force_answer(Tail::Expire(because));
        }
        let asks = matches!(self.setting.landing, Landing::Auto | Landing::Ask);
        if asks && self.in_result {
            self.take_rung(Rung::Ask, Tail::Keep)
        } else {
            self.force_answer(Tail::Keep)
        }
    }

    /// Returns the action after a finished turn. `none_pass` is the limit because of which none of
    /// the turn's calls may run. `text` is true if the turn holds visible text.
    pub fn handle_turn(
        &mut self,
        class: TurnClass,
        none_pass: Option<&Because>,
        text: bool,
    ) -> NextAction {
        match self.landing.clone() {
            Some(because) => self.follow_landing(class, &because, text),
            None => self.follow_exploring(class, none_pass, text),
        }
    }

    /// Returns the action after a request that brought no turn.
    pub fn handle_failure(&mut self, failure: RequestFailure) -> NextAction {
        if failure == RequestFailure::Cancelled {
            return Self::end_run(
                RunEnding::without_limit(Outcome::Cancelled, Reason::User),
                false,
            );
        }
        if let Some(because) = self.landing.clone() {
            return self.take_next_rung(&because, Tail::Keep);
        }
        if let Some(because) = self.reached_tool_limit.clone() {
            return self.answer_locally(&because);
        }
        if self.empties > self.setting.empty_before {
            // No further turn was empty: the failure of the provider ends the row.
            let limit = self.setting.empty_limit.max(1);
            return self.answer_locally(&Because::from_counts(
                Reason::Provider,
                self.empties,
                limit,
            ));
        }
        Self::end_run(RunEnding::without_limit(Outcome::Failed, Reason::Provider), false)
    }

    /// Ends the run with a local answer, because the nudge of [`Tail::Nudge`] cannot be given.
    pub fn abandon_nudge(&mut self, because: &Because) -> NextAction {
        self.answer_locally(because)
    }

    /// Lands the run at a limit that was reached while a request was under way. The request was
    /// given up for it.
    pub fn handle_expiry(&mut self, because: Because) -> NextAction {
        if self.landing.is_some() {
            return self.handle_failure(RequestFailure::Provider);
        }
        self.landing = Some(because.clone());
        if matches!(self.setting.landing, Landing::Stop) {
            return self.answer_locally(&because);
        }
        self.force_answer(Tail::Expire(because))
    }

    /// Ends the run with a local answer, because a request cannot be paid. The limit for which the run
    /// was landing, if it was, remains the reason.
    pub fn handle_denial(&mut self, because: &Because) -> NextAction {
        let reason = self.landing.get_or_insert_with(|| because.clone()).clone();
        self.answer_locally(&reason)
    }

    fn follow_exploring(
        &mut self,
        class: TurnClass,
        none_pass: Option<&Because>,
        text: bool,
    ) -> NextAction {
        let engine = self.setting.role == Role::Engine;
        match class {
            TurnClass::Final | TurnClass::Answer => {
                Self::end_run(RunEnding::without_limit(Outcome::Answered, Reason::Final), false)
            }
            TurnClass::Calls => match none_pass {
                Some(because) if !engine => self.refuse_unseen(because),
                _ => NextAction::Pass,
            },
            TurnClass::Empty => self.nudge_model(),
            TurnClass::Silent if engine => self.nudge_model(),
            TurnClass::Truncated if engine => self.continue_turn(text),
            TurnClass::Paused if engine && self.pauses < PAUSES => {
                self.pauses += 1;
                NextAction::Send { rung: None, tail: Tail::Resume, grow: false }
            }
            TurnClass::Refused { text } => self.end_without_answer(Reason::Refusal, text),
            TurnClass::Full { text } => self.end_without_answer(Reason::Truncated, text),
            TurnClass::Paused if engine => self.end_without_answer(Reason::Truncated, text),
            TurnClass::Silent | TurnClass::Truncated | TurnClass::Paused => NextAction::Pass,
        }
    }

    fn follow_landing(&mut self, class: TurnClass, because: &Because, text: bool) -> NextAction {
        let forced_only = self.setting.client_forces;
        // Nothing but the governed history was sent, and no note stands in it.
        let untold = self.waiting && self.rung.is_none();
        let asked = self.rung == Some(Rung::Ask) || untold;
        let silent = class == TurnClass::Silent;
        match class {
            // What the model says then, it says by itself.
            TurnClass::Final
            | TurnClass::Answer
            | TurnClass::Refused { .. }
            | TurnClass::Full { .. }
                if untold =>
            {
                self.follow_exploring(class, None, text)
            }
            TurnClass::Truncated | TurnClass::Silent
                if self.setting.role == Role::Gateway && untold && (text || silent) =>
            {
                self.follow_exploring(class, None, text)
            }
            TurnClass::Final if !forced_only => self.end_landed(because),
            TurnClass::Answer => self.end_landed(because),
            // A gateway passes on a turn that was cut by the client's own output limit.
            TurnClass::Truncated | TurnClass::Silent
                if self.setting.role == Role::Gateway && asked && (text || silent) =>
            {
                self.end_landed(because)
            }
            TurnClass::Calls if asked && !self.refused => {
                self.refused = true;
                self.take_rung(Rung::Refuse, Tail::Refuse(because.clone()))
            }
            _ => self.take_next_rung(because, Tail::Keep),
        }
    }

    /// Takes the next rung, after one that brought no answer.
    fn take_next_rung(&mut self, because: &Because, tail: Tail) -> NextAction {
        match (self.setting.landing, self.rung) {
            (Landing::Auto, Some(Rung::Ask | Rung::Refuse)) => self.force_answer(tail),
            (Landing::Auto | Landing::Respond, Some(Rung::Respond))
                if self.setting.may_none && !self.setting.client_forces =>
            {
                self.take_rung(Rung::None, tail)
            }
            _ => self.answer_locally(because),
        }
    }

    /// Takes rung 3: the forced answer tool if it is wanted and legal, otherwise `none`.
    fn force_answer(&mut self, tail: Tail) -> NextAction {
        let setting = &self.setting;
        let tool = setting.may_force
            && match setting.landing {
                Landing::Respond => true,
                Landing::Auto => setting.wants_tool || setting.client_forces,
                Landing::Ask | Landing::None | Landing::Stop => false,
            };
        if tool {
            return self.take_rung(Rung::Respond, tail);
        }
        // A request that brought nothing is not sent again unchanged.
        let same = self.rung.is_some() && tail == Tail::Keep && !setting.declares;
        if setting.may_none && !setting.client_forces && !same {
            return self.take_rung(Rung::None, tail);
        }
        match self.landing.clone() {
            Some(because) => self.answer_locally(&because),
            None => NextAction::Pass,
        }
    }

    fn take_rung(&mut self, rung: Rung, tail: Tail) -> NextAction {
        if let Some(because) = self.landing.clone().filter(|_| !self.setting.affordable) {
            return self.answer_locally(&because);
        }
        self.rung = Some(rung);
        NextAction::Send { rung: Some(rung), tail, grow: false }
    }

    fn nudge_model(&mut self) -> NextAction {
        if !self.setting.repairs {
            return NextAction::Pass;
        }
        self.empties += 1;
        let limit = self.setting.empty_limit.max(1);
        let because = Because::from_counts(Reason::Empty, self.empties, limit);
        if rules::empty::is_over(self.empties, limit) {
            return self.answer_locally(&because);
        }
        NextAction::Send { rung: None, tail: Tail::Nudge(because), grow: false }
    }

    fn continue_turn(&mut self, text: bool) -> NextAction {
        if self.continuations < CONTINUATIONS {
            self.continuations += 1;
            return NextAction::Send { rung: None, tail: Tail::Continue, grow: true };
        }
        self.end_without_answer(Reason::Truncated, text)
    }

    /// Ends the run with a turn that is no answer. Its text stands for an answer. Without text, the
    /// engine answers in its place; a gateway passes the turn on as it is.
    fn end_without_answer(&mut self, reason: Reason, text: bool) -> NextAction {
        let outcome = match (&reason, text) {
            (Reason::Refusal, true) => Outcome::Answered,
            (_, true) => Outcome::Landed,
            (_, false) => Outcome::Stopped,
        };
        let local = !text && self.setting.role == Role::Engine;
        if local {
            self.rung = Some(Rung::LocalAnswer);
        }
        Self::end_run(
            RunEnding {
                rung: self.rung.filter(|_| local),
                ..RunEnding::without_limit(outcome, reason)
            },
            local,
        )
    }

    /// Refuses a turn none of whose calls may pass, in a gateway, without showing it to the client.
    fn refuse_unseen(&mut self, because: &Because) -> NextAction {
        if matches!(because.reason, Reason::Tool(_)) {
            self.tool_refusals += 1;
            self.reached_tool_limit = Some(because.clone());
            if self.tool_refusals < rules::tool::REFUSALS {
                return NextAction::Send { rung: None, tail: Tail::ToolRefuse, grow: false };
            }
        }
        self.landing = Some(because.clone());
        self.refused = true;
        match self.setting.landing {
            Landing::Auto | Landing::Ask => {
                self.take_rung(Rung::Refuse, Tail::Refuse(because.clone()))
            }
            Landing::Stop => self.answer_locally(because),
            Landing::None | Landing::Respond => self.force_answer(Tail::Refuse(because.clone())),
        }
    }

    fn end_landed(&self, because: &Because) -> NextAction {
        Self::end_run(RunEnding::from_because(Outcome::Landed, because, self.rung), false)
    }

    fn answer_locally(&mut self, because: &Because) -> NextAction {
        self.rung = Some(Rung::LocalAnswer);
        Self::end_run(RunEnding::from_because(Outcome::Stopped, because, self.rung), true)
    }

    fn end_run(ended: RunEnding, local: bool) -> NextAction {
        NextAction::End { ended, local }
    }
}
