//! A round: the calls of one turn, their results as they come in, and the line that is due at each
//! result. [`placing`] finds the result that has room for it.

mod pending;
mod placing;

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use self::pending::PendingResults;
use super::loops::LoopConsequence;
use super::{Admission, Phase, Role, Run};
use crate::addition::{Addition, AdditionKind};
use crate::because::{Because, Reason};
use crate::digest::Digest;
use crate::event::{Call, Facts, FinishedTurn, LineRoom, ToolResult};
use crate::identity;
use crate::pinned::FactDecision;
use crate::policy::{Countdown, LoopKey, LoopKind, Policy, Share};
use crate::rules::{self, AnsweredCall, CallWords, Round, Signal};
use crate::tables::{self, ToolKind};

/// The calls of the newest turn, and their results so far.
#[derive(Clone, Debug)]
pub(super) struct OpenRound {
    turn: u64,
    calls_before: u64,
    calls: Vec<OpenCall>,
    /// The calls that have no result yet.
    waiting: PendingResults,
    /// The number of these that run, by tool; counted when first needed.
    pending: Option<BTreeMap<Digest, u64>>,
    /// The number of calls that run; `ran` of them have their result.
    to_run: u64,
    ran: u64,
    /// The number of calls that ran as answers and that the client wants in another form. They do
    /// not count.
    sent_back: u64,
    answered: Vec<AnsweredCall>,
    ended: bool,
}

#[derive(Clone, Debug)]
struct OpenCall {
    words: CallWords,
    name: Digest,
    key: Digest,
    kind: Option<LoopKind>,
    admission: Admission,
    done: bool,
    /// True if the call was taken as the answer.
    answered: bool,
    /// The command that ends a client's run, if the call is one.
    ending: Option<&'static str>,
}

impl OpenRound {
    /// Creates the round of a turn, and counts in `run` the calls that run.
    pub(super) fn new(run: &mut Run, turn: &FinishedTurn<'_>) -> Self {
        let cut = usize::from(turn.cut_call);
        let calls = turn.calls.get(..turn.calls.len().saturating_sub(cut)).unwrap_or(&[]);
        let calls_before = run.used.calls;
        let calls: Vec<_> = match run.role {
            Role::Engine => calls
                .iter()
                .zip(run.admit_calls(calls))
                .map(|(call, admission)| OpenCall::new(call, admission, run.policy()))
                .collect(),
            Role::Gateway => {
                let mut answered = false;
                let admitted = |call| {
                    OpenCall::new(call, run.admit_recorded(call, &mut answered), run.policy())
                };
                calls.iter().map(admitted).collect()
            }
        };
        for call in &calls {
            let counts_total = call.admission.is_run();
            let hosted = call.admission == Admission::Server;
            if counts_total || hosted {
                let tool = call.words.tool();
                let tool = if hosted { tables::hosted_name(tool) } else { tool };
                match run.used.by_tool.get_mut(tool) {
                    Some(count) => *count += 1,
                    None => {
                        run.used.by_tool.insert(tool.to_owned(), 1);
                    }
                }
            }
            run.used.calls += u64::from(counts_total);
        }
        let to_run = run.used.calls - calls_before;
        let turn = run.used.turns;
        let answered = Vec::with_capacity(calls.len());
        let waiting = PendingResults::new(calls.iter().map(|call| call.words.id()));
        let (pending, ran, sent_back, ended) = (None, 0, 0, false);
        Self {
            turn,
            calls_before,
            calls,
            waiting,
            pending,
            to_run,
            ran,
            sent_back,
            answered,
            ended,
        }
    }

    /// Returns the number of calls of a tool that run and have no result yet.
    fn count_pending(&mut self, tool: Digest) -> u64 {
        let pending = self.pending.get_or_insert_with(|| {
            let mut pending = BTreeMap::new();
            for call in self.calls.iter().filter(|call| !call.done && call.admission.is_run()) {
                *pending.entry(call.name).or_default() += 1;
            }
            pending
        });
        pending.get(&tool).copied().unwrap_or(0)
    }

    /// Takes a call off the pending ones: it has its result, or will not run.
    fn take_off_pending(pending: &mut Option<BTreeMap<Digest, u64>>, call: &OpenCall) {
        if let Some(count) = pending.as_mut().and_then(|pending| pending.get_mut(&call.name)) {
            *count = count.saturating_sub(1);
        }
    }

    /// Returns true if the turn's calls are its answer.
    pub(super) fn has_answer(&self) -> bool {
        self.calls.iter().any(|call| call.admission == Admission::Answer)
    }

    /// Returns the tool that was refused by its own limit, if one was.
    pub(super) fn refused_tool(&self) -> Option<String> {
        self.calls.iter().find_map(|call| match &call.admission {
            Admission::ToolRefused(because) | Admission::Refused(because) => {
                match &because.reason {
                    Reason::Tool(tool) => Some(tool.clone()),
                    _ => None,
                }
            }
            Admission::Run | Admission::Server | Admission::Answer => None,
        })
    }
}

impl OpenCall {
    fn new(call: &Call<'_>, admission: Admission, policy: &Policy) -> Self {
        let name = Digest::from_bytes(call.name.as_bytes());
        let answers = admission == Admission::Answer;
        let ending = answers.then(|| tables::ending_command(call.name, call.input)).flatten();
        Self {
            words: CallWords::from_call(call),
            name,
            key: call_identity(call, name, policy),
            kind: classify_call(call, policy),
            admission,
            done: false,
            answered: false,
            ending,
        }
    }
}

/// Returns the identity of a call: the tool, and its arguments except those that only present it.
fn call_identity(call: &Call<'_>, tool: Digest, policy: &Policy) -> Digest {
    let arguments = match policy.loop_keys.get(call.name) {
        Some(LoopKey::Arguments(names)) => {
            identity::digest_members(call.input, names.iter().map(|name| &**name))
        }
        _ => identity::digest_text(call.input, &|name| {
            tables::is_presentation_argument(call.name, name)
        }),
    };
    tool.followed_by(arguments)
}

/// Returns the kind of a call, as the policy says or the tables know.
fn classify_call(call: &Call<'_>, policy: &Policy) -> Option<LoopKind> {
    match policy.loop_keys.get(call.name) {
        Some(LoopKey::Kind(kind)) => Some(*kind),
        _ => {
            let argument = |name: &str| identity::find_member(call.input, name);
            match tables::kind_of_call(call.name, argument)? {
                ToolKind::Reads => Some(LoopKind::Reads),
                ToolKind::Writes => Some(LoopKind::Writes),
                ToolKind::Polls => Some(LoopKind::Polls),
                ToolKind::Shell => None,
            }
        }
    }
}

impl Run {
    /// Returns the admission of a call of another program's history: it ran, unless it is the
    /// answer.
    fn admit_recorded(&self, call: &Call<'_>, answered: &mut bool) -> Admission {
        if self.is_turn_answer(call, answered) {
            Admission::Answer
        } else if call.server {
            Admission::Server
        } else {
            Admission::Run
        }
    }

    /// Adds results, and returns the line that each of them gets.
    pub(crate) fn add_results(
        &mut self,
        results: &[ToolResult<'_>],
        facts: Option<&Facts>,
    ) -> (Vec<Addition>, Vec<Signal>) {
        let mut lines = Vec::new();
        let mut signals = Vec::new();
        // The rungs of a landing are one turn.
        self.within_turn &= self.phase != Phase::Open && !self.policy().is_observing();
        let Some(mut open) = self.open.take() else { return (Vec::new(), signals) };
        self.count_returned_calls(&mut open);
        for (index, result) in results.iter().enumerate() {
            let line = self.add_result(&mut open, result, facts, &mut signals);
            // In the engine's history, no result of a call that ran can hold a line of softland's.
            // A text that looks like a line is the tool's own. The ask is never left out.
            let closed =
                |kind| result.lined && self.role == Role::Gateway && kind != AdditionKind::Ask;
            lines.extend(line.filter(|(kind, ..)| !closed(*kind)).map(|line| (index, line)));
        }
        self.open = (!open.waiting.is_empty()).then_some(open);
        (self.place_lines(results, lines), signals)
    }

    fn add_result(
        &mut self,
        open: &mut OpenRound,
        result: &ToolResult<'_>,
        facts: Option<&Facts>,
        signals: &mut Vec<Signal>,
    ) -> Option<ResultLine> {
        let call = open.calls.get_mut(open.waiting.take_call(&result.id)?)?;
        call.done = true;
        if !call.admission.is_run() {
            let ends = open.to_run == 0 && open.waiting.is_empty() && !open.ended;
            return if ends { self.end_refused_round(open, facts, signals) } else { None };
        }
        OpenRound::take_off_pending(&mut open.pending, call);
        open.ran += 1;
        if call.answered {
            self.record_answer_result(call, result);
            open.sent_back += u64::from(result.sent_back);
        }
        open.answered.push(AnsweredCall {
            name: call.name,
            key: call.key,
            result: (!result.cleared).then_some(result.digest),
            failed: result.failed,
            kind: match call.kind {
                None | Some(LoopKind::Reads) if result.unfinished => Some(LoopKind::Polls),
                kind => kind,
            },
            // The words of a finished call are not needed again.
            words: core::mem::take(&mut call.words),
        });
        self.used.result_chars = self.used.result_chars.saturating_add(result.chars);
        self.cut_batch(open);
        let countdown = self.countdown_in(open, result.room);
        if open.ran < open.to_run || open.ended {
            return countdown;
        }
        self.end_round(open, facts, signals, true).or_else(|| self.taken_out_line()).or(countdown)
    }

    /// Counts the calls of the round that were taken as the answer. The run goes on with results,
    /// so these calls ran, except calls of the policy's own answer tools.
    fn count_returned_calls(&mut self, open: &mut OpenRound) {
        for call in open.calls.iter_mut().filter(|call| call.admission == Admission::Answer) {
            let tool = call.words.tool();
            if self.names_answer_tool(tool) {
                continue;
            }
            *self.used.by_tool.entry(tool.to_owned()).or_default() += 1;
            self.used.calls += 1;
            open.to_run += 1;
            call.admission = Admission::Run;
            call.answered = true;
        }
    }

    /// Records the result of a call that was taken as the answer. A call that the client only wants
    /// in another form does not count.
    fn record_answer_result(&mut self, call: &OpenCall, result: &ToolResult<'_>) {
        let tool = call.words.tool();
        self.answers.record_result(call.ending.unwrap_or(tool), result.failed || result.sent_back);
        if result.sent_back {
            self.used.calls -= 1;
            if let Some(count) = self.used.by_tool.get_mut(tool) {
                *count -= 1;
            }
        }
    }

    /// Returns the line for calls that the history does not show, because they were taken out of
    /// the turn by their tools' own limits. The last result of a round carries it.
    fn taken_out_line(&self) -> Option<ResultLine> {
        let here = self.pinned.decided.iter().filter(|decided| decided.round == self.used.rounds);
        let taken: Vec<_> = here.filter(|d| d.removes_calls()).map(|d| &d.because).collect();
        let because = (*taken.first()?).clone();
        Some((AdditionKind::Countdown, Some(because), self.pinned.words.tool_refusals(&taken)))
    }

    /// Counts a turn from which calls were taken out as a refused turn, like one whose refusals the
    /// history shows.
    fn count_taken_out(&mut self, open: &OpenRound) {
        let here = |d: &&FactDecision| d.round == self.used.rounds && d.removes_calls();
        let taken = self.pinned.decided.iter().find(here).map(|decided| &decided.because.reason);
        if let (Some(Reason::Tool(tool)), None) = (taken, open.refused_tool()) {
            let refusals = rules::tool::shown_refusals(&self.used) + 1;
            self.used.refused_tool = Some((tool.clone(), refusals));
        }
    }

    /// Ends a round in which no call ran. If the run's own limit refused the calls, their results
    /// carry the note already. If their tools' limits did, the note goes behind the last result.
    fn end_refused_round(
        &mut self,
        open: &mut OpenRound,
        facts: Option<&Facts>,
        signals: &mut Vec<Signal>,
    ) -> Option<ResultLine> {
        let refused = open.calls.iter().find_map(|call| match &call.admission {
            Admission::Refused(because) => Some(because.clone()),
            _ => None,
        });
        let line = self.end_round(open, facts, signals, false);
        match refused {
            Some(because) => {
                if self.phase == Phase::Open {
                    self.phase = Phase::Landing { because, in_result: true };
                }
                None
            }
            None => line,
        }
    }

    /// Refuses the rest of a batch in softland's own loop: the result that crosses the limit is the
    /// last that runs.
    fn cut_batch(&mut self, open: &mut OpenRound) {
        let crossed = rules::plain::check_limit(&self.used, self.policy());
        let cuts = self.role == Role::Engine && open.ran < open.to_run;
        let Some(because) = crossed.filter(|_| cuts) else { return };
        let rest = open.calls.iter_mut().filter(|call| !call.done && call.admission.is_run());
        for call in rest {
            OpenRound::take_off_pending(&mut open.pending, call);
            call.admission = Admission::Refused(because.clone());
            self.used.calls -= 1;
            open.to_run -= 1;
            if let Some(count) = self.used.by_tool.get_mut(call.words.tool()) {
                *count -= 1;
            }
        }
    }

    /// Ends a round whose calls have all come back: the loop rules see it, limits are checked, and
    /// the most important line is chosen. A displaced warning waits for the next result. Without
    /// `room`, the result has a line already, and only the note goes behind it.
    fn end_round(
        &mut self,
        open: &mut OpenRound,
        facts: Option<&Facts>,
        signals: &mut Vec<Signal>,
        room: bool,
    ) -> Option<ResultLine> {
        open.ended = true;
        self.used.rounds += 1;
        self.count_taken_out(open);
        // A run that is only observed is checked beyond its end.
        if self.phase != Phase::Open && !self.policy().is_observing() {
            return None;
        }
        let answered = core::mem::take(&mut open.answered);
        let round = Round::new(open.turn, open.calls_before, answered);
        let found = self.loops.observe_round(&round, &self.pinned.policy);
        if self.phase != Phase::Open {
            signals.extend(found);
            return None;
        }
        let facts = self.take_unseen_facts(facts);
        let consequence = self.loops.decide_consequence(&found, open.turn, &self.pinned.policy);
        signals.extend(found);
        let because = self.find_limit(facts);
        let (lands, note) = match consequence {
            LoopConsequence::Land(because) => (Some(because), None),
            LoopConsequence::Note(because) => (None, Some(because)),
            LoopConsequence::Stop(because) => {
                self.phase = Phase::Stopping { because };
                return None;
            }
            LoopConsequence::Nothing => (None, None),
        };
        if let Some(because) = because.or(lands) {
            self.phase = Phase::Landing { because: because.clone(), in_result: true };
            return Some((
                AdditionKind::Ask,
                Some(because.clone()),
                self.pinned.words.ask(&because),
            ));
        }
        let due = self.take_warnings(facts);
        self.displaced.extend(due);
        if let Some(because) = note.filter(|_| room) {
            return Some((
                AdditionKind::Note,
                Some(because.clone()),
                self.pinned.words.note(&because),
            ));
        }
        if self.displaced.is_empty() || !room {
            return None;
        }
        let because = self.displaced.remove(0);
        let text = {
            let left = self.policy().warn_at.left_percent();
            self.pinned.words.warning(&because.reason, left)
        };
        Some((AdditionKind::Warn, Some(because), text))
    }

    /// Returns the countdown for the newest result. One that says how many calls remain is not moved
    /// to a later result, which counts anew.
    fn countdown_in(&mut self, open: &mut OpenRound, room: LineRoom) -> Option<ResultLine> {
        let line = self.countdown_line(open)?;
        let counts = line.1.as_ref().is_some_and(|because| because.used != because.limit);
        self.owes_countdown = counts && room != LineRoom::Text;
        Some(line).filter(|_| !self.owes_countdown)
    }

    /// Returns the countdown with the fewest calls left, after the newest result.
    fn countdown_line(&self, open: &mut OpenRound) -> Option<ResultLine> {
        let policy = self.policy();
        let newest = open.answered.last()?;
        let (name, limited) = (newest.name, policy.tool_limits.contains_key(newest.words.tool()));
        let pending = if limited { open.count_pending(name) } else { 0 };
        let tool = open.answered.last()?.words.tool();
        let total = policy.tool_calls_limit.and_then(|limit| {
            let used = open.calls_before + open.ran - open.sent_back;
            Some((
                self.countdown_number(used, limit)?,
                None,
                Because::from_counts(Reason::ToolCalls, used, limit),
            ))
        });
        let own = policy.tool_limits.get(tool).filter(|_| policy.countdown != Countdown::Off);
        let own = own.and_then(|limit| {
            let used = self.used.by_tool.get(tool).copied().unwrap_or(0).saturating_sub(pending);
            let because = Because::from_counts(Reason::Tool(tool.to_owned()), used, *limit);
            Some((self.countdown_number(used, *limit)?, Some(tool), because))
        });
        let fewest = match (total, own) {
            (Some(total), Some(own)) if own.0 < total.0 => Some(own),
            (total, own) => total.or(own),
        };
        let (left, tool, because) = fewest?;
        if policy.countdown == Countdown::Off {
            let text = self.pinned.words.warning(&Reason::ToolCalls, 0);
            return Some((AdditionKind::Warn, Some(because), text));
        }
        if left == 0 {
            let text = self.pinned.words.tool_refusal(tool?, because.limit);
            return Some((AdditionKind::Countdown, Some(because), text));
        }
        Some((AdditionKind::Countdown, Some(because), self.pinned.words.countdown(left, tool)))
    }

    /// Returns the number that the countdown shows after `used` of `limit`, if it shows one here.
    fn countdown_number(&self, used: u64, limit: u64) -> Option<u64> {
        let left = limit.checked_sub(used)?;
        let policy = self.policy();
        let shows = match policy.countdown {
            _ if self.owes_countdown => true,
            Countdown::Every => policy.countdown_from.is_reached(used, limit),
            Countdown::Milestones => {
                let crossed = |percent| {
                    let share = Share::from_percent(percent);
                    share.is_reached(used, limit) && !share.is_reached(used - 1, limit)
                };
                left <= 1 || [50, 75, 90].into_iter().any(crossed)
            }
            Countdown::Off => left == 1 && limit > 1,
        };
        shows.then_some(left)
    }
}

pub(super) type ResultLine = (AdditionKind, Option<Because>, String);
