//! A round of tool calls: every call gets exactly one result, in the order of the calls.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use serde_json::Value;
use softland_session::Pending;
use softland_session::core::{Admission, Because, NanoUsd, Reason, lines};
use tokio_util::sync::CancellationToken;

use super::child::{Child, HandedBack};
use super::emit::Hear;
use super::form::{self, Answered, Form, How};
use super::kept::{self, Answers};
use super::{Agent, UnderWay, drive};
use crate::event::{EventKind, UsageTotal};
use crate::journal::{JournalError, RunJournal};
use crate::tool::{ToolCall, ToolFormat, ToolOutput};

impl UnderWay<'_> {
    /// Runs the calls that may run, answers the others, and appends the results to the
    /// conversation.
    pub(super) async fn answer_calls(
        &mut self,
        calls: &[Pending],
        chars_before: u64,
    ) -> Result<Answers, JournalError> {
        let typed = self.typed(calls);
        let calls = typed.as_deref().unwrap_or(calls);
        self.emit.answers(self.turn);
        let results = match self.setup.policy.result_chars_limit {
            None => self.all_at_once(calls).await,
            Some(limit) => self.one_by_one(calls, limit, chars_before).await,
        };
        self.settled().await;
        self.answer_round(&results)
    }

    /// Converts arguments that come as text to the types that their tools ask for.
    fn typed(&self, calls: &[Pending]) -> Option<Vec<Pending>> {
        (self.agent.options.tool_format == ToolFormat::Tags).then(|| {
            let typed = |call: &Pending| {
                let input = form::tags::typed(self.agent.tools.get(&call.name), &call.input);
                Pending { input: input.unwrap_or_else(|| call.input.clone()), ..call.clone() }
            };
            calls.iter().map(typed).collect()
        })
    }

    async fn all_at_once(&mut self, calls: &[Pending]) -> Vec<Answered> {
        let mut begun = Vec::with_capacity(calls.len());
        for (at, call) in (0..).zip(calls) {
            begun.push(self.begin((at, call), calls).await);
        }
        let (agent, cancel, until) = (self.agent, self.cancel, self.exploring_ends());
        let (journal, turn, sink) = (self.journal, self.turn, self.emit.sink());
        let mut running: FuturesOrdered<_> = (0..)
            .zip(calls.iter().zip(begun))
            .map(|(at, (call, begun))| {
                let within = Within { until, agent, call, cancel, journal, place: (turn, at) };
                begun.run(within, sink)
            })
            .collect();
        let mut results = Vec::with_capacity(calls.len());
        let mut rest = calls.iter();
        while let Some((back, took)) = running.next().await {
            let Some(call) = rest.next() else { break };
            let output = self.take_back(back);
            results.push(self.result(call, output, took));
        }
        results
    }

    /// Emits that a call runs, and creates the sub-agent's run if it asks for one.
    async fn begin(&mut self, (at, call): (u64, &Pending), calls: &[Pending]) -> Begun {
        if !runs(call) {
            return Begun::Not(refusal(call, calls));
        }
        self.tell_execute(call);
        if !self.delegates(call) {
            return Begun::Tool;
        }
        match self.child((at, call), calls).await {
            Ok(child) => Begun::Child(Box::new(child)),
            Err(output) => Begun::Not(output),
        }
    }

    /// Runs the calls in order, under a limit of result characters. The result that crosses the
    /// limit is cut, and the calls after it are not run.
    async fn one_by_one(&mut self, calls: &[Pending], limit: u64, mut used: u64) -> Vec<Answered> {
        let options = &self.agent.options;
        let form = form::spoken(options.api, options.tool_format);
        let mut results = Vec::with_capacity(calls.len());
        for (at, call) in (0..).zip(calls) {
            let because = Because::count(Reason::ResultChars, used, limit);
            if !call.admission.runs() {
                results.push(self.result(call, refusal(call, calls), Default::default()));
                continue;
            }
            if used >= limit {
                let output = ToolOutput::error(lines::beyond(&because));
                let refused = Pending { admission: Admission::Refused(because), ..call.clone() };
                results.push(self.result(&refused, output, Default::default()));
                continue;
            }
            let begun = self.begin((at, call), calls).await;
            let (agent, cancel, until) = (self.agent, self.cancel, self.exploring_ends());
            let (journal, place) = (self.journal, (self.turn, at));
            let within = Within { until, agent, call, cancel, journal, place };
            let (back, took) = begun.run(within, self.emit.sink()).await;
            let mut output = self.take_back(back);
            used += fit(form, &mut output, limit - used);
            results.push(self.result(call, output, took));
        }
        results
    }

    /// Emits the note that a refusal carries, if it does.
    fn tell_note(&mut self, call: &Pending, content: &str) {
        let Some(because) = because(&call.admission) else { return };
        if content == lines::refused(&because) {
            let text = Some(lines::ask(&because));
            let because = Some(because);
            self.emit.answered(EventKind::Intervention { intervention: "ask", because, text });
        }
    }

    fn tell_execute(&mut self, call: &Pending) {
        self.emit.send(EventKind::ToolExecute {
            id: call.id.clone(),
            name: call.name.clone(),
            input: serde_json::from_str(&call.input)
                .unwrap_or_else(|_| Value::String(call.input.clone())),
        });
    }

    fn result(&mut self, call: &Pending, output: ToolOutput, took: Duration) -> Answered {
        let content = said(output.content);
        if runs(call) {
            self.emit.answered(EventKind::ToolResult {
                id: call.id.clone(),
                name: call.name.clone(),
                ok: !output.is_error,
                content: content.clone(),
                ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            });
        } else {
            self.emit.answered(EventKind::Intervention {
                intervention: "refuse",
                because: because(&call.admission),
                text: Some(content.clone()),
            });
            self.tell_note(call, &content);
        }
        let how = if call.admission.runs() { ran(output.is_error) } else { How::NotRun };
        Answered { id: call.id.clone(), name: call.name.clone(), text: content, how }
    }
}

/// Returns true if a call is executed: if it was admitted and can be run.
pub(super) fn runs(call: &Pending) -> bool {
    call.admission.runs() && call.unfit.is_none()
}

/// A call of a round, ready to run.
enum Begun {
    /// Answered without being run.
    Not(ToolOutput),
    /// Runs a tool.
    Tool,
    /// Runs a sub-agent.
    Child(Box<Child>),
}

/// The circumstances of a call: its agent, its deadline, its cancellation, and its place in the
/// journal.
struct Within<'a> {
    until: Option<tokio::time::Instant>,
    agent: &'a Agent,
    call: &'a Pending,
    cancel: &'a CancellationToken,
    journal: &'a RunJournal,
    /// The turn, and the position of the call in it.
    place: (u64, u64),
}

impl Begun {
    async fn run(self, within: Within<'_>, sink: &dyn Hear) -> (HandedBack, Duration) {
        let (output, took) = match self {
            Self::Not(output) => (output, Duration::ZERO),
            Self::Tool => {
                let Within { agent, call, journal, place, .. } = within;
                kept::call(journal, agent, place, call, || run_until(within)).await
            }
            // A sub-agent ends in time by itself, so that it hands something back.
            Self::Child(child) => {
                return child.run(sink, within.journal, within.cancel.child_token()).await;
            }
        };
        let nothing = (UsageTotal::default(), Some(NanoUsd::ZERO));
        (HandedBack { output, usage: nothing.0, cost: nothing.1 }, took)
    }
}

/// Runs a call until the end of the run's time for exploring. The remaining time belongs to the
/// answer.
async fn run_until(within: Within<'_>) -> ToolOutput {
    let Within { until, agent, cancel, .. } = within;
    let call = tool_call(within.call);
    tokio::select! {
        biased;
        output = agent.tools.run(&call, cancel) => output,
        () = drive::until(until) => {
            ToolOutput::error(format!("{}: ended, the run's time is over", call.name))
        }
    }
}

fn tool_call(call: &Pending) -> ToolCall {
    ToolCall { id: call.id.clone(), name: call.name.clone(), input_raw: call.input.clone() }
}

/// Returns the result of a call that does not run. If no call of the turn runs, the last call that
/// the run's limit refused carries the note, because no other result can carry it.
fn refusal(call: &Pending, calls: &[Pending]) -> ToolOutput {
    let none_runs = !calls.iter().any(|call| call.admission.runs());
    let by_run = |call: &&Pending| matches!(call.admission, Admission::Refused(_));
    let last = calls.iter().rfind(by_run).is_some_and(|last| last.id == call.id);
    ToolOutput::error(match &call.admission {
        Admission::Run if call.unfit.is_some() => call.unfit.clone().unwrap_or_default(),
        Admission::ToolRefused(because) => lines::tool_refused(&call.name, because.limit),
        Admission::Refused(because) if none_runs && last => lines::refused(because),
        Admission::Refused(because) => lines::beyond(because),
        Admission::Run | Admission::Server | Admission::Answer => "Not run.".to_owned(),
    })
}

fn because(admission: &Admission) -> Option<Because> {
    match admission {
        Admission::Refused(because) | Admission::ToolRefused(because) => Some(because.clone()),
        Admission::Run | Admission::Server | Admission::Answer => None,
    }
}

/// Replaces blank output, since the API refuses blank text.
fn said(content: String) -> String {
    if content.trim().is_empty() { "(no output)".to_owned() } else { content }
}

fn ran(failed: bool) -> How {
    if failed { How::Failed } else { How::Succeeded }
}

/// Cuts a result to the room that it has in the history. If an API has no sign of failure, the text
/// holds that too. Returns the characters that the result takes.
fn fit(form: &dyn Form, output: &mut ToolOutput, room: u64) -> u64 {
    let whole = said(std::mem::take(&mut output.content));
    let how = ran(output.is_error);
    let cut_to = |most: u64| {
        let mut text = whole.clone();
        cut(&mut text, most);
        let answered = Answered { id: String::new(), name: String::new(), text, how };
        let taken = form.told(&answered).chars().count() as u64;
        (answered.text, taken)
    };
    let mut best = cut_to(room);
    if best.1 > room {
        // Escaped text is longer than its content, so the fitting length is found by bisection.
        let (mut fits, mut most) = (0, room);
        while fits < most {
            let middle = fits + (most - fits).div_ceil(2);
            match cut_to(middle).1 <= room {
                true => fits = middle,
                false => most = middle - 1,
            }
        }
        best = cut_to(fits);
    }
    output.content = best.0;
    best.1
}

/// The marker of a cut result.
const CUT: &str = "\n[cut: result_chars_limit]";

/// Cuts a text to `room` characters, the marker included. If `room` is smaller than the marker,
/// only the marker is left.
fn cut(text: &mut String, room: u64) {
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    if text.chars().count() <= room {
        return;
    }
    let kept = room.saturating_sub(CUT.chars().count());
    let cut: String = text.chars().take(kept).chain(CUT.chars()).collect();
    *text = if kept > 0 { cut } else { CUT.trim_start().to_owned() };
}
