//! The admission of a turn's calls. The loop executes by it, the gateway passes calls by it, and
//! the fold reads a history by it. It depends on a place in the transcript and the pinned policy
//! only.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Role, Run};
use crate::because::{Because, Reason};
use crate::event::Call;
use crate::policy::Batch;
use crate::rules;

/// The admission of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admission {
    /// The call runs and counts.
    Run,
    /// The provider runs the call; it counts under its own name only.
    Server,
    /// The call is the answer; it neither runs nor counts. For a tool that the policy does not
    /// name, a gateway takes only the first call of a turn as the answer, because the client runs
    /// all of them.
    Answer,
    /// The tool is at its own limit; other tools remain.
    ToolRefused(Because),
    /// The run is at a limit.
    Refused(Because),
}

impl Admission {
    /// Returns true if the call is executed.
    #[must_use]
    pub fn is_run(&self) -> bool {
        matches!(self, Self::Run)
    }

    /// Returns true if the call is taken out of its turn, or answered as not run.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::ToolRefused(_) | Self::Refused(_))
    }
}

/// The calls of a turn admitted so far. The admission of the next call depends on nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmittedCalls {
    /// The number of calls that run, unless their batch is refused as a whole.
    runs: u64,
    /// The number of calls by tool, for tools that have limits of their own.
    by_tool: BTreeMap<String, u64>,
    /// True if the answer was among them.
    answered: bool,
}

impl Run {
    /// Returns the admission of each of these calls of the run's next turn, in order.
    #[must_use]
    pub fn admit_calls(&self, calls: &[Call<'_>]) -> Vec<Admission> {
        let mut before = AdmittedCalls::default();
        let mut admissions: Vec<_> =
            calls.iter().map(|call| self.admit_next(call, &mut before)).collect();
        // Under this policy, a batch beyond the limit is refused as a whole.
        if let (Batch::None, Some(because)) = (self.policy().batch, self.check_batch(&before)) {
            for admission in admissions.iter_mut().filter(|admission| admission.is_run()) {
                *admission = Admission::Refused(because.clone());
            }
        }
        admissions
    }

    /// Returns the admission of one more call of the turn, behind those of `before`, and adds it
    /// there. Later calls can change it under `batch = "none"` only.
    #[must_use]
    pub fn admit_next(&self, call: &Call<'_>, before: &mut AdmittedCalls) -> Admission {
        let admission = self.admit_alone(call, before);
        if !admission.is_run() {
            return admission;
        }
        before.runs += 1;
        let passes = self.policy().batch == Batch::All;
        self.check_batch(before).filter(|_| !passes).map_or(admission, Admission::Refused)
    }

    /// Returns true if one more call behind these is admitted, whatever its tool.
    #[must_use]
    pub fn admits_more(&self, before: &AdmittedCalls) -> bool {
        let limited = self.policy().tool_limits.keys().map(|name| &**name);
        limited.chain([""]).all(|name| {
            let one = Call { id: "", name, input: "{}", server: false };
            !self.admit_next(&one, &mut before.clone()).is_refused()
        })
    }

    /// Returns the admission of a call by itself: the answer, or refused because its tool or the
    /// run is at a limit, or run. `before` counts the calls that were admitted before it.
    fn admit_alone(&self, call: &Call<'_>, before: &mut AdmittedCalls) -> Admission {
        if self.is_turn_answer(call, &mut before.answered) {
            return Admission::Answer;
        }
        if call.server {
            return Admission::Server;
        }
        if self.policy().is_observing() {
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
        if let Some(because) = rules::tool::check_call(call.name, before + *admitted, self.policy())
        {
            let last = rules::tool::is_last_refusal(&self.used);
            return if last {
                Admission::Refused(because)
            } else {
                Admission::ToolRefused(because)
            };
        }
        *admitted += 1;
        Admission::Run
    }

    /// Returns true if a call is its turn's answer. `answered` says whether the turn has an answer
    /// already, and is set. A tool that the policy names answers with every call.
    pub(super) fn is_turn_answer(&self, call: &Call<'_>, answered: &mut bool) -> bool {
        let one_more =
            *answered && self.role == Role::Gateway && !self.names_answer_tool(call.name);
        let is_answer = self.is_answer(call) && !one_more;
        *answered |= is_answer;
        is_answer
    }

    /// Returns the number of calls that may still run.
    fn calls_left(&self) -> u64 {
        self.policy().tool_calls_limit.map_or(u64::MAX, |l| l.saturating_sub(self.used.calls))
    }

    fn check_batch(&self, wanted: &AdmittedCalls) -> Option<Because> {
        let limit = self.policy().tool_calls_limit.filter(|_| !self.policy().is_observing())?;
        let used = if self.policy().batch == Batch::First { limit } else { self.used.calls };
        (wanted.runs > self.calls_left())
            .then(|| Because::from_counts(Reason::ToolCalls, used, limit))
    }
}

#[cfg(test)]
mod tests;
