//! One client request, and all that softland sends upstream for it: nudges, continuations,
//! pauses, and the rungs of a landing. It says what to do next; somebody else has the bytes.
//!
//! It is bounded: see [`Ladder::most_requests`].

use crate::because::{Because, Reason};
use crate::outcome::{Ended, Outcome};
use crate::policy::{Landing, Policy};
use crate::rules;
use crate::run::{Phase, Role};
use crate::rung::Rung;
use crate::turn::Class;

/// Continuations of a truncated turn.
const CONTINUATIONS: u64 = 3;
/// Times a paused turn is sent back.
const PAUSES: u64 = 5;
/// Requests of a landing: `ask` or its refusal, the forced tool, `none`.
const RUNGS: u64 = 4;

/// What holds for one client request, apart from the run's state.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Who executes the tools.
    pub role: Role,
    /// The policy's `landing`.
    pub landing: Landing,
    /// The policy's `empty_limit`.
    pub empty_limit: u64,
    /// Empty turns in a row before this request.
    pub empty_before: u64,
    /// An answer tool is declared, and the API accepts forcing it.
    pub may_force: bool,
    /// Policy or client asks for the answer tool.
    pub wants_tool: bool,
    /// The client itself forces a tool call: an answer in text is none.
    pub client_forces: bool,
    /// The API accepts `tool_choice: none`.
    pub may_none: bool,
    /// The request declares tools: without any, `none` changes nothing in it.
    pub declares: bool,
    /// Turns refused by tools' own limits before this request.
    pub refusals_before: u64,
    /// Whether an empty turn is one: in a gateway only where there are tools or results.
    pub repairs: bool,
    /// Whether the limits leave enough for one more answer.
    pub affordable: bool,
}

/// What to add behind the governed history before the next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing: as it is.
    Keep,
    /// The turn, and its calls answered as not run.
    Refuse(Because),
    /// The turn, and its calls answered as over their tools' limits; the run goes on.
    ToolRefuse,
    /// The empty turn's nudge.
    Nudge(Because),
    /// The truncated turn, without a cut call, and the request to go on.
    Continue,
    /// The paused turn as it is.
    Resume,
    /// The placeholder and the note, where a limit was reached while the model was at it.
    Expire(Because),
}

/// Why a request brought no turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The provider failed beyond the caller's retries.
    Provider,
    /// The caller went away or was cancelled.
    Cancelled,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send a request upstream.
    Send {
        /// The landing rung, if it is one.
        rung: Option<Rung>,
        /// What to add behind the history.
        tail: Tail,
        /// Whether `max_tokens` is doubled, up to the model's maximum.
        grow: bool,
    },
    /// The turn is the client's: its calls are run, the run goes on.
    Pass,
    /// The run is over.
    End {
        /// How.
        ended: Ended,
        /// Whether softland answers in the model's place.
        local: bool,
    },
}

/// The state of one client request.
#[derive(Clone, Debug)]
pub struct Ladder {
    setting: Setting,
    /// The limit, once the run is landing.
    landing: Option<Because>,
    stopping: bool,
    /// The note stands in no line yet.
    late: bool,
    in_result: bool,
    rung: Option<Rung>,
    refused: bool,
    empties: u64,
    tool_refusals: u64,
    /// Why this request's own turns were refused by a tool's limit, if one was.
    tool_refused: Option<Because>,
    continuations: u64,
    pauses: u64,
}

impl Ladder {
    /// Begins a client request of a run in this phase.
    #[must_use]
    pub fn new(setting: Setting, phase: &Phase) -> Self {
        let landing = phase.because().cloned();
        Self {
            stopping: matches!(phase, Phase::Stopping { .. }),
            late: matches!(phase, Phase::Late { .. }),
            in_result: matches!(phase, Phase::Landing { in_result: true, .. }),
            empties: setting.empty_before,
            tool_refusals: setting.refusals_before,
            tool_refused: None,
            setting,
            landing,
            rung: None,
            refused: false,
            continuations: 0,
            pauses: 0,
        }
    }

    /// Requests upstream that one client request may lead to at most under this policy.
    #[must_use]
    pub fn most_requests(policy: &Policy) -> u64 {
        policy.empty_limit.max(1) + CONTINUATIONS + PAUSES + RUNGS + rules::tool::REFUSALS
    }

    /// Empty turns in a row, this request's included.
    #[must_use]
    pub fn empties(&self) -> u64 {
        self.empties
    }

    /// Turns refused by tools' own limits, those before this request included.
    #[must_use]
    pub fn tool_refusals(&self) -> u64 {
        self.tool_refusals
    }

    /// The tool's limit that a turn was refused for last.
    #[must_use]
    pub fn tool_refused(&self) -> Option<&Because> {
        self.tool_refused.as_ref()
    }

    /// An empty turn is one from now on, whatever the request holds: it was softland that left
    /// nothing of it.
    pub fn repair(&mut self) {
        self.setting.repairs = true;
    }

    /// Continuations so far.
    #[must_use]
    pub fn continuations(&self) -> u64 {
        self.continuations
    }

    /// The rung of the request under way.
    #[must_use]
    pub fn rung(&self) -> Option<Rung> {
        self.rung
    }

    /// Why the run is landing, if it is.
    #[must_use]
    pub fn landing(&self) -> Option<&Because> {
        self.landing.as_ref()
    }

    /// What to send first.
    #[must_use]
    pub fn first(&mut self) -> Next {
        let Some(because) = self.landing.clone() else {
            return Next::Send { rung: None, tail: Tail::Keep, grow: false };
        };
        if self.stopping || self.setting.landing == Landing::Stop {
            return self.local(&because);
        }
        if self.late {
            return self.force(Tail::Expire(because));
        }
        let asks = matches!(self.setting.landing, Landing::Auto | Landing::Ask);
        if asks && self.in_result {
            self.take(Rung::Ask, Tail::Keep)
        } else {
            self.force(Tail::Keep)
        }
    }

    /// What follows from a finished turn. `none_pass`: none of its calls may run.
    pub fn answered(&mut self, class: Class, none_pass: Option<&Because>, text: bool) -> Next {
        match self.landing.clone() {
            Some(because) => self.landed(class, &because, text),
            None => self.explored(class, none_pass, text),
        }
    }

    /// What follows when no turn came back.
    pub fn failed(&mut self, failure: Failure) -> Next {
        if failure == Failure::Cancelled {
            return Self::end(Ended::plain(Outcome::Cancelled, Reason::User), false);
        }
        if let Some(because) = self.landing.clone() {
            return self.after(&because, Tail::Keep);
        }
        if let Some(because) = self.tool_refused.clone() {
            return self.local(&because);
        }
        if self.empties > self.setting.empty_before {
            // No further turn was empty: it is the provider's failure that ends the row.
            let limit = self.setting.empty_limit.max(1);
            return self.local(&Because::count(Reason::Provider, self.empties, limit));
        }
        Self::end(Ended::plain(Outcome::Failed, Reason::Provider), false)
    }

    /// The nudge that [`Tail::Nudge`] asks for cannot be given: softland answers.
    pub fn unanswered(&mut self, because: &Because) -> Next {
        self.local(because)
    }

    /// A limit was reached while a request was under way, which was given up for it.
    pub fn expired(&mut self, because: Because) -> Next {
        if self.landing.is_some() {
            return self.failed(Failure::Provider);
        }
        self.landing = Some(because.clone());
        if matches!(self.setting.landing, Landing::Stop) {
            return self.local(&because);
        }
        self.force(Tail::Expire(because))
    }

    /// A request cannot be paid: softland answers, whatever the request was.
    pub fn denied(&mut self, because: &Because) -> Next {
        self.landing.get_or_insert_with(|| because.clone());
        self.local(because)
    }

    fn explored(&mut self, class: Class, none_pass: Option<&Because>, text: bool) -> Next {
        let engine = self.setting.role == Role::Engine;
        match class {
            Class::Final | Class::Answer => {
                Self::end(Ended::plain(Outcome::Answered, Reason::Final), false)
            }
            Class::Calls => match none_pass {
                Some(because) if !engine => self.hidden_refusal(because),
                _ => Next::Pass,
            },
            Class::Empty => self.nudge(),
            Class::Silent if engine => self.nudge(),
            Class::Truncated if engine => self.go_on(text),
            Class::Paused if engine && self.pauses < PAUSES => {
                self.pauses += 1;
                Next::Send { rung: None, tail: Tail::Resume, grow: false }
            }
            Class::Refused { text } => self.no_answer(Reason::Refusal, text),
            Class::Full { text } => self.no_answer(Reason::Truncated, text),
            Class::Paused if engine => self.no_answer(Reason::Truncated, text),
            Class::Silent | Class::Truncated | Class::Paused => Next::Pass,
        }
    }

    fn landed(&mut self, class: Class, because: &Because, text: bool) -> Next {
        let forced_only = self.setting.client_forces;
        let silent = class == Class::Silent;
        match class {
            Class::Final if !forced_only => self.lands(because),
            Class::Answer => self.lands(because),
            // A gateway hands the client's own output limit on.
            Class::Truncated | Class::Silent
                if self.setting.role == Role::Gateway
                    && self.rung == Some(Rung::Ask)
                    && (text || silent) =>
            {
                self.lands(because)
            }
            Class::Calls if self.rung == Some(Rung::Ask) && !self.refused => {
                self.refused = true;
                self.take(Rung::Refuse, Tail::Refuse(because.clone()))
            }
            _ => self.after(because, Tail::Keep),
        }
    }

    /// The next rung after one that brought nothing.
    fn after(&mut self, because: &Because, tail: Tail) -> Next {
        match (self.setting.landing, self.rung) {
            (Landing::Auto, Some(Rung::Ask | Rung::Refuse)) => self.force(tail),
            (Landing::Auto | Landing::Respond, Some(Rung::Respond))
                if self.setting.may_none && !self.setting.client_forces =>
            {
                self.take(Rung::None, tail)
            }
            _ => self.local(because),
        }
    }

    /// Rung 3: the forced answer tool where it is wanted and legal, else `none`.
    fn force(&mut self, tail: Tail) -> Next {
        let setting = &self.setting;
        let tool = setting.may_force
            && match setting.landing {
                Landing::Respond => true,
                Landing::Auto => setting.wants_tool || setting.client_forces,
                Landing::Ask | Landing::None | Landing::Stop => false,
            };
        if tool {
            return self.take(Rung::Respond, tail);
        }
        // A request that brought nothing is not sent once more as it is.
        let same = self.rung.is_some() && tail == Tail::Keep && !setting.declares;
        if setting.may_none && !setting.client_forces && !same {
            return self.take(Rung::None, tail);
        }
        match self.landing.clone() {
            Some(because) => self.local(&because),
            None => Next::Pass,
        }
    }

    fn take(&mut self, rung: Rung, tail: Tail) -> Next {
        if let Some(because) = self.landing.clone().filter(|_| !self.setting.affordable) {
            return self.local(&because);
        }
        self.rung = Some(rung);
        Next::Send { rung: Some(rung), tail, grow: false }
    }

    fn nudge(&mut self) -> Next {
        if !self.setting.repairs {
            return Next::Pass;
        }
        self.empties += 1;
        let limit = self.setting.empty_limit.max(1);
        let because = Because::count(Reason::Empty, self.empties, limit);
        if rules::empty::over(self.empties, limit) {
            return self.local(&because);
        }
        Next::Send { rung: None, tail: Tail::Nudge(because), grow: false }
    }

    fn go_on(&mut self, text: bool) -> Next {
        if self.continuations < CONTINUATIONS {
            self.continuations += 1;
            return Next::Send { rung: None, tail: Tail::Continue, grow: true };
        }
        self.no_answer(Reason::Truncated, text)
    }

    /// A turn that is no answer: with text it stands for one, else softland answers in its place;
    /// a gateway passes it on as it is.
    fn no_answer(&mut self, reason: Reason, text: bool) -> Next {
        let outcome = match (&reason, text) {
            (Reason::Refusal, true) => Outcome::Answered,
            (_, true) => Outcome::Landed,
            (_, false) => Outcome::Stopped,
        };
        let local = !text && self.setting.role == Role::Engine;
        if local {
            self.rung = Some(Rung::LocalAnswer);
        }
        Self::end(
            Ended { rung: self.rung.filter(|_| local), ..Ended::plain(outcome, reason) },
            local,
        )
    }

    /// In a gateway, a turn of which no call may pass is answered behind the client's back.
    fn hidden_refusal(&mut self, because: &Because) -> Next {
        if matches!(because.reason, Reason::Tool(_)) {
            self.tool_refusals += 1;
            self.tool_refused = Some(because.clone());
            if self.tool_refusals < rules::tool::REFUSALS {
                return Next::Send { rung: None, tail: Tail::ToolRefuse, grow: false };
            }
        }
        self.landing = Some(because.clone());
        self.refused = true;
        match self.setting.landing {
            Landing::Auto | Landing::Ask => self.take(Rung::Refuse, Tail::Refuse(because.clone())),
            Landing::Stop => self.local(because),
            Landing::None | Landing::Respond => self.force(Tail::Refuse(because.clone())),
        }
    }

    fn lands(&self, because: &Because) -> Next {
        Self::end(Ended::by(Outcome::Landed, because, self.rung), false)
    }

    fn local(&mut self, because: &Because) -> Next {
        self.rung = Some(Rung::LocalAnswer);
        Self::end(Ended::by(Outcome::Stopped, because, self.rung), true)
    }

    fn end(ended: Ended, local: bool) -> Next {
        Next::End { ended, local }
    }
}
