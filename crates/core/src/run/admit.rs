//! Which calls of a turn may run. The loop executes by it, the gateway lets pass by it, and the
//! fold reads a history by it: a place in the transcript and the pinned policy say it all.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Role, Run};
use crate::because::{Because, Reason};
use crate::event::Call;
use crate::policy::Batch;
use crate::rules;

/// What becomes of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It runs and counts.
    Run,
    /// The provider runs it; it counts under its own name only.
    Server,
    /// It is the answer; it neither runs nor counts. Of tools that the policy does not name, a gateway
    /// takes the first call of a turn for it: the client runs all of them.
    Answer,
    /// Its tool is at its own limit; others remain.
    ToolRefused(Because),
    /// The run is at a limit.
    Refused(Because),
}

impl Admission {
    /// Whether the call is executed by whoever executes calls.
    #[must_use]
    pub fn runs(&self) -> bool {
        matches!(self, Self::Run)
    }

    /// Whether the call is taken out of its turn, or answered as not run.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::ToolRefused(_) | Self::Refused(_))
    }
}

/// The calls of a turn that were admitted so far: all that the next one's admission depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Calls that run, unless their batch is refused as a whole.
    runs: u64,
    /// Those of tools that have limits of their own.
    by_tool: BTreeMap<String, u64>,
    /// Whether the answer was among them.
    answered: bool,
}

impl Run {
    /// What becomes of each of these calls of the run's next turn, in order.
    #[must_use]
    pub fn admit(&self, calls: &[Call<'_>]) -> Vec<Admission> {
        let mut before = Admitted::default();
        let mut admissions: Vec<_> =
            calls.iter().map(|call| self.admit_next(call, &mut before)).collect();
        // Such a batch is refused as a whole.
        if let (Batch::None, Some(because)) = (self.policy().batch, self.too_many(&before)) {
            for admission in admissions.iter_mut().filter(|admission| admission.runs()) {
                *admission = Admission::Refused(because.clone());
            }
        }
        admissions
    }

    /// What becomes of one more call of the turn, behind those of `before`, where it is added.
    /// Calls that follow can change it under `batch = "none"` only.
    #[must_use]
    pub fn admit_next(&self, call: &Call<'_>, before: &mut Admitted) -> Admission {
        let admission = self.alone(call, before);
        if !admission.runs() {
            return admission;
        }
        before.runs += 1;
        let passes = self.policy().batch == Batch::All;
        self.too_many(before).filter(|_| !passes).map_or(admission, Admission::Refused)
    }

    /// Whether one more call behind these is admitted, whatever its tool.
    #[must_use]
    pub fn admits_more(&self, before: &Admitted) -> bool {
        let limited = self.policy().tool_limits.keys().map(|name| &**name);
        limited.chain([""]).all(|name| {
            let one = Call { id: "", name, input: "{}", server: false };
            !self.admit_next(&one, &mut before.clone()).is_refused()
        })
    }

    /// A call by itself: is it the answer, is its tool or the run at a limit? `before` counts those
    /// admitted before it.
    fn alone(&self, call: &Call<'_>, before: &mut Admitted) -> Admission {
        if self.is_the_answer(call, &mut before.answered) {
            return Admission::Answer;
        }
        if call.server {
            return Admission::Server;
        }
        if self.policy().observes() {
            return Admission::Run;
        }
        if let Some(because) = self.phase.because() {
            return Admission::Refused(because.clone());
        }
        if !self.policy().tool_limits.contains_key(call.name) {
            return Admission::Run;
        }
        let admitted = before.by_tool.entry(call.name.to_owned()).or_insert(0);
        let before = self.used.by_tool.get(call.name).copied().unwrap_or(0);
        if let Some(because) = rules::tool::refused(call.name, before + *admitted, self.policy()) {
            let last = rules::tool::refuses_last(&self.used);
            return if last {
                Admission::Refused(because)
            } else {
                Admission::ToolRefused(because)
            };
        }
        *admitted += 1;
        Admission::Run
    }

    /// Whether a call is its turn's answer; `answered` says whether the turn has one, and is set. A
    /// tool that the policy names answers with every call.
    pub(super) fn is_the_answer(&self, call: &Call<'_>, answered: &mut bool) -> bool {
        let one_more =
            *answered && self.role == Role::Gateway && !self.names_answer_tool(call.name);
        let is_answer = self.is_answer(call) && !one_more;
        *answered |= is_answer;
        is_answer
    }

    /// Calls that may still run.
    fn room(&self) -> u64 {
        self.policy().tool_calls_limit.map_or(u64::MAX, |l| l.saturating_sub(self.used.calls))
    }

    fn too_many(&self, wanted: &Admitted) -> Option<Because> {
        let limit = self.policy().tool_calls_limit.filter(|_| !self.policy().observes())?;
        let used = if self.policy().batch == Batch::First { limit } else { self.used.calls };
        (wanted.runs > self.room()).then(|| Because::count(Reason::ToolCalls, used, limit))
    }
}

#[cfg(test)]
mod tests;
