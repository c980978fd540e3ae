//! Which calls of a turn may run. The loop executes by it, the gateway lets pass by it, and the
//! fold reads a history by it: a place in the transcript and the pinned policy say it all.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::Run;
use crate::because::{Because, Reason};
use crate::event::Call;
use crate::policy::Batch;
use crate::rules;
use crate::turn::is_answer_tool;

/// What becomes of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It runs and counts.
    Run,
    /// The provider runs it; it counts under its own name only.
    Server,
    /// It is the answer; it neither runs nor counts.
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
}

impl Run {
    /// What becomes of each of these calls of the run's next turn, in order.
    #[must_use]
    pub fn admit(&self, calls: &[Call<'_>]) -> Vec<Admission> {
        let mut by_tool: BTreeMap<&str, u64> = BTreeMap::new();
        let mut admissions: Vec<_> =
            calls.iter().map(|call| self.alone(call, &mut by_tool)).collect();
        if let Some(because) = self.too_many(&admissions).filter(|_| !self.policy().observes()) {
            let room = match self.policy().batch {
                Batch::First => self.room(),
                Batch::All => u64::MAX,
                Batch::None => 0,
            };
            let runs = admissions.iter_mut().filter(|admission| admission.runs());
            for admission in runs.skip(usize::try_from(room).unwrap_or(usize::MAX)) {
                *admission = Admission::Refused(because.clone());
            }
        }
        admissions
    }

    /// Whether one more call behind these is admitted, whatever its tool.
    #[must_use]
    pub fn admits_more(&self, calls: &[Call<'_>]) -> bool {
        let limited = self.policy().tool_limits.keys().map(|name| &**name);
        limited.chain([""]).all(|name| {
            let one = Call { id: "", name, input: "{}", server: false };
            let admissions = self.admit(&[calls, &[one]].concat());
            let passes = |admission: &Admission| {
                !matches!(admission, Admission::Refused(_) | Admission::ToolRefused(_))
            };
            admissions.last().is_none_or(passes)
        })
    }

    /// A call by itself: is it the answer, is its tool or the run at a limit? `by_tool` counts
    /// those admitted before it of tools that have a limit.
    fn alone<'c>(&self, call: &Call<'c>, by_tool: &mut BTreeMap<&'c str, u64>) -> Admission {
        if is_answer_tool(call.name, self.answer_tool()) {
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
        let admitted = by_tool.entry(call.name).or_insert(0);
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

    /// Calls that may still run.
    fn room(&self) -> u64 {
        self.policy().tool_calls_limit.map_or(u64::MAX, |l| l.saturating_sub(self.used.calls))
    }

    fn too_many(&self, admissions: &[Admission]) -> Option<Because> {
        let limit = self.policy().tool_calls_limit?;
        let wanted = admissions.iter().filter(|admission| admission.runs()).count() as u64;
        let used = if self.policy().batch == Batch::First { limit } else { self.used.calls };
        (wanted > self.room()).then(|| Because::count(Reason::ToolCalls, used, limit))
    }
}
