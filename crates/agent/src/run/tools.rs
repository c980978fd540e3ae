//! A round of tool calls: every call gets exactly one result, in the order of the calls.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use serde_json::Value;
use softland_session::PendingCall;
use softland_session::core::{Admission, Because, NanoUsd, Reason, lines};
use tokio_util::sync::CancellationToken;

use super::emit::EventSink;
use super::form::{self, AnsweredCall, ApiFormat, CallStatus};
use super::journaling::{self, AnsweredRound};
use super::sub_agent::{SubAgentResult, SubAgentRun};
use super::{ActiveRun, Agent, drive};
use crate::event::{EventKind, UsageTotal};
use crate::journal::{JournalError, RunJournal};
use crate::tool::{ToolCall, ToolFormat, ToolOutput};

impl ActiveRun<'_> {
    /// Runs the calls that may run, answers the others, and appends the results to the
    /// conversation.
    pub(super) async fn answer_calls(
        &mut self,
        calls: &[PendingCall],
        chars_before: u64,
    ) -> Result<AnsweredRound, JournalError> {
        let typed = self.typed_calls(calls);
        let calls = typed.as_deref().unwrap_or(calls);
        self.emit.begin_answers(self.turn);
        let results = match self.setup.policy.result_chars_limit {
            None => self.run_calls_together(calls).await,
            Some(limit) => self.run_calls_in_order(calls, limit, chars_before).await,
        };
        self.wait_for_replay().await;
        self.answer_round(&results)
    }

    /// Converts arguments that come as text to the types that their tools ask for.
    fn typed_calls(&self, calls: &[PendingCall]) -> Option<Vec<PendingCall>> {
        (self.agent.options.tool_format == ToolFormat::Tags).then(|| {
            let typed = |call: &PendingCall| {
                let input =
                    form::tags::typed_arguments(self.agent.tools.get(&call.name), &call.input);
                PendingCall { input: input.unwrap_or_else(|| call.input.clone()), ..call.clone() }
            };
            calls.iter().map(typed).collect()
        })
    }

    async fn run_calls_together(&mut self, calls: &[PendingCall]) -> Vec<AnsweredCall> {
        let mut begun = Vec::with_capacity(calls.len());
        for (at, call) in (0..).zip(calls) {
            begun.push(self.prepare_call((at, call), calls).await);
        }
        let (agent, cancel, until) = (self.agent, self.cancel, self.exploring_deadline());
        let (journal, turn, sink) = (self.journal, self.turn, self.emit.sink());
        let mut running: FuturesOrdered<_> = (0..)
            .zip(calls.iter().zip(begun))
            .map(|(at, (call, begun))| {
                let within = CallContext { until, agent, call, cancel, journal, place: (turn, at) };
                begun.run_call(within, sink)
            })
            .collect();
        let mut results = Vec::with_capacity(calls.len());
        let mut rest = calls.iter();
        while let Some((back, took)) = running.next().await {
            let Some(call) = rest.next() else { break };
            let output = self.charge_sub_agent(back);
            results.push(self.answer_call(call, output, took));
        }
        results
    }

    /// Emits that a call runs, and creates the sub-agent's run if it asks for one.
    async fn prepare_call(
        &mut self,
        (at, call): (u64, &PendingCall),
        calls: &[PendingCall],
    ) -> PreparedCall {
        if !is_executed(call) {
            return PreparedCall::Not(refusal_output(call, calls));
        }
        self.emit_execute(call);
        if !self.is_sub_agent_call(call) {
            return PreparedCall::Tool;
        }
        match self.prepare_sub_agent((at, call), calls).await {
            Ok(child) => PreparedCall::Child(Box::new(child)),
            Err(output) => PreparedCall::Not(output),
        }
    }

    /// Runs the calls in order, under a limit of result characters. The result that crosses the
    /// limit is cut, and the calls after it are not run.
    async fn run_calls_in_order(
        &mut self,
        calls: &[PendingCall],
        limit: u64,
        mut used: u64,
    ) -> Vec<AnsweredCall> {
        let options = &self.agent.options;
        let form = form::conversation_format(options.api, options.tool_format);
        let mut results = Vec::with_capacity(calls.len());
        for (at, call) in (0..).zip(calls) {
            let because = Because::from_counts(Reason::ResultChars, used, limit);
            if !call.admission.is_run() {
                results.push(self.answer_call(
                    call,
                    refusal_output(call, calls),
                    Default::default(),
                ));
                continue;
            }
            if used >= limit {
                let output = ToolOutput::error(lines::format_not_run(&because));
                let refused =
                    PendingCall { admission: Admission::Refused(because), ..call.clone() };
                results.push(self.answer_call(&refused, output, Default::default()));
                continue;
            }
            let begun = self.prepare_call((at, call), calls).await;
            let (agent, cancel, until) = (self.agent, self.cancel, self.exploring_deadline());
            let (journal, place) = (self.journal, (self.turn, at));
            let within = CallContext { until, agent, call, cancel, journal, place };
            let (back, took) = begun.run_call(within, self.emit.sink()).await;
            let mut output = self.charge_sub_agent(back);
            used += fit_result(form, &mut output, limit - used);
            results.push(self.answer_call(call, output, took));
        }
        results
    }

    /// Emits the note that a refusal carries, if it does.
    fn emit_note(&mut self, call: &PendingCall, content: &str) {
        let Some(because) = refusal_reason(&call.admission) else { return };
        if content == lines::format_refusal(&because) {
            let text = Some(lines::format_ask(&because));
            let because = Some(because);
            self.emit.emit_call_event(EventKind::Intervention {
                intervention: "ask",
                because,
                text,
                observed: false,
            });
        }
    }

    fn emit_execute(&mut self, call: &PendingCall) {
        self.emit.emit_event(EventKind::ToolExecute {
            id: call.id.clone(),
            name: call.name.clone(),
            input: serde_json::from_str(&call.input)
                .unwrap_or_else(|_| Value::String(call.input.clone())),
        });
    }

    fn answer_call(
        &mut self,
        call: &PendingCall,
        output: ToolOutput,
        took: Duration,
    ) -> AnsweredCall {
        let content = non_blank(output.content);
        if is_executed(call) {
            self.emit.emit_call_event(EventKind::ToolResult {
                id: call.id.clone(),
                name: call.name.clone(),
                ok: !output.is_error,
                content: content.clone(),
                ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            });
        } else {
            self.emit.emit_call_event(EventKind::Intervention {
                intervention: "refuse",
                because: refusal_reason(&call.admission),
                text: Some(content.clone()),
                observed: false,
            });
            self.emit_note(call, &content);
        }
        let how =
            if call.admission.is_run() { call_status(output.is_error) } else { CallStatus::NotRun };
        AnsweredCall { id: call.id.clone(), name: call.name.clone(), text: content, how }
    }
}

/// Returns true if a call is executed: if it was admitted and can be run.
pub(super) fn is_executed(call: &PendingCall) -> bool {
    call.admission.is_run() && call.unfit.is_none()
}

/// A call of a round, ready to run.
enum PreparedCall {
    /// Answered without being run.
    Not(ToolOutput),
    /// Runs a tool.
    Tool,
    /// Runs a sub-agent.
    Child(Box<SubAgentRun>),
}

/// The circumstances of a call: its agent, its deadline, its cancellation, and its place in the
/// journal.
struct CallContext<'a> {
    until: Option<tokio::time::Instant>,
    agent: &'a Agent,
    call: &'a PendingCall,
    cancel: &'a CancellationToken,
    journal: &'a RunJournal,
    /// The turn, and the position of the call in it.
    place: (u64, u64),
}

impl PreparedCall {
    async fn run_call(
        self,
        within: CallContext<'_>,
        sink: &dyn EventSink,
    ) -> (SubAgentResult, Duration) {
        let (output, took) = match self {
            Self::Not(output) => (output, Duration::ZERO),
            Self::Tool => {
                let CallContext { agent, call, journal, place, .. } = within;
                journaling::run_recorded_call(journal, agent, place, call, || run_until(within))
                    .await
            }
            // A sub-agent ends in time by itself, so that it hands something back.
            Self::Child(child) => {
                return child.run_to_end(sink, within.journal, within.cancel.child_token()).await;
            }
        };
        let nothing = (UsageTotal::default(), Some(NanoUsd::ZERO));
        (SubAgentResult { output, usage: nothing.0, cost: nothing.1 }, took)
    }
}

/// Runs a call until the end of the run's time for exploring. The remaining time belongs to the
/// answer.
async fn run_until(within: CallContext<'_>) -> ToolOutput {
    let CallContext { until, agent, cancel, .. } = within;
    let call = tool_call(within.call);
    tokio::select! {
        biased;
        output = agent.tools.run_call(&call, cancel) => output,
        () = drive::wait_until(until) => {
            ToolOutput::error(format!("{}: ended, the run's time is over", call.name))
        }
    }
}

fn tool_call(call: &PendingCall) -> ToolCall {
    ToolCall { id: call.id.clone(), name: call.name.clone(), input_raw: call.input.clone() }
}

/// Returns the result of a call that does not run. If no call of the turn runs, the last call that
/// the run's limit refused carries the note, because no other result can carry it.
fn refusal_output(call: &PendingCall, calls: &[PendingCall]) -> ToolOutput {
    let none_runs = !calls.iter().any(|call| call.admission.is_run());
    let by_run = |call: &&PendingCall| matches!(call.admission, Admission::Refused(_));
    let last = calls.iter().rfind(by_run).is_some_and(|last| last.id == call.id);
    ToolOutput::error(match &call.admission {
        Admission::Run if call.unfit.is_some() => call.unfit.clone().unwrap_or_default(),
        Admission::ToolRefused(because) => lines::format_tool_refusal(&call.name, because.limit),
        Admission::Refused(because) if none_runs && last => lines::format_refusal(because),
        Admission::Refused(because) => lines::format_not_run(because),
        Admission::Run | Admission::Server | Admission::Answer => "Not run.".to_owned(),
    })
}

fn refusal_reason(admission: &Admission) -> Option<Because> {
    match admission {
        Admission::Refused(because) | Admission::ToolRefused(because) => Some(because.clone()),
        Admission::Run | Admission::Server | Admission::Answer => None,
    }
}

/// Replaces blank output, since the API refuses blank text.
fn non_blank(content: String) -> String {
    if content.trim().is_empty() { "(no output)".to_owned() } else { content }
}

fn call_status(failed: bool) -> CallStatus {
    if failed { CallStatus::Failed } else { CallStatus::Succeeded }
}

/// Cuts a result to the room that it has in the history. If an API has no sign of failure, the text
/// holds that too. Returns the characters that the result takes.
fn fit_result(form: &dyn ApiFormat, output: &mut ToolOutput, room: u64) -> u64 {
    let whole = non_blank(std::mem::take(&mut output.content));
    let how = call_status(output.is_error);
    let cut_to = |most: u64| {
        let mut text = whole.clone();
        cut_text(&mut text, most);
        let answered = AnsweredCall { id: String::new(), name: String::new(), text, how };
        let taken = form.result_text(&answered).chars().count() as u64;
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
fn cut_text(text: &mut String, room: u64) {
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    if text.chars().count() <= room {
        return;
    }
    let kept = room.saturating_sub(CUT.chars().count());
    let cut: String = text.chars().take(kept).chain(CUT.chars()).collect();
    *text = if kept > 0 { cut } else { CUT.trim_start().to_owned() };
}
