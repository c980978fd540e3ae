//! softland's own event lines, ledgers and journals: events of many runs, interleaved.

mod journal;
mod ledger;

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::Error;
use softland_session::ResultReader;
use softland_session::core::{Digest, Evidence, NanoUsd, SignalKind, ToolResult};
use softland_session::wire::Tokens;

use crate::draft::{Results, TurnDraft, parse_time};
use crate::fields::{Fields, array_elements, decode_string};
use crate::input::Input;
use crate::step::{ConversationId, ConversationStart, RecordedSignal, RequestUsage};
use crate::step_output::StepOutput;
pub(crate) use journal::read_journal as journal;
pub(crate) use ledger::{is_ledger, read_ledger as ledger};

/// Reads event lines.
pub(crate) fn read_events(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    let mut runs: BTreeMap<String, RecordedRun> = BTreeMap::new();
    let mut callers = Callers::new();
    out.read_lines(input, &mut |out, text, line| {
        let fields = Fields::from_json(text)?;
        let name = fields.owned_text("run").ok_or("an event of no run")?;
        let event = fields.text("event").ok_or("a line without `event`")?;
        let at = fields.text("ts").and_then(|at| parse_time(&at));
        let turn = fields.uint("turn").unwrap_or(0);
        let run =
            runs.entry(name.clone()).or_insert_with(|| RecordedRun::from_callers(&callers, &name));
        run.take_event(out, &name, &Event { event: &event, turn, at, line: Some(line) }, &fields);
        if matches!(&*event, "done" | "error") {
            run.end_run(out);
        }
        run.note_called_run(&mut callers, &name, &event, &fields);
        if matches!(&*event, "done" | "error") {
            runs.remove(&name);
        }
        Ok(())
    });
    for run in runs.values_mut() {
        run.end_run(out);
    }
}

/// The intervention by which softland answers in the model's place.
const LOCAL_ANSWER: &str = "local_answer";

/// The calling run and the session of each run that another run called.
type Callers = BTreeMap<String, (String, String)>;

/// The members before an event's own fields.
struct Event<'a> {
    event: &'a str,
    turn: u64,
    at: Option<u64>,
    line: Option<u64>,
}

/// A run whose events are being read.
#[derive(Default)]
struct RecordedRun {
    talk: Option<ConversationId>,
    model: Option<String>,
    session: Option<String>,
    caller: Option<String>,
    /// The turn that is being read, and its number.
    draft: Option<(u64, TurnDraft)>,
    /// Calls whose arguments are not complete yet: `tool_start` comes before `tool_execute`.
    started: Vec<(String, String, String)>,
    results: Results,
    /// True if any content is recorded. Without it, a turn is not silent but unrecorded.
    told: bool,
    /// The number of tool calls that the run's end reports.
    calls: Option<u64>,
    /// Outcome and reason, if the run has ended.
    ended: Option<(String, String)>,
    /// Signals as recorded, with turns by their recorded numbers.
    noted: Vec<RecordedSignal>,
    /// Numbers of the turns that were read: a recording may begin in the middle of a run.
    turns: Vec<u64>,
}

impl RecordedRun {
    /// Creates a run, which may be a sub-agent's.
    fn from_callers(callers: &Callers, run: &str) -> Self {
        let (caller, session) = callers.get(run).cloned().unzip();
        Self { caller, session, ..Self::default() }
    }

    /// Notes a run that this run calls.
    fn note_called_run(&self, callers: &mut Callers, run: &str, event: &str, fields: &Fields<'_>) {
        if let Some(child) = fields.owned_text("child_run").filter(|_| event == "child") {
            let session = self.session.as_deref().unwrap_or(run);
            callers.insert(child, (run.to_owned(), session.to_owned()));
        }
    }

    fn take_event(
        &mut self,
        out: &mut StepOutput<'_>,
        run: &str,
        event: &Event<'_>,
        fields: &Fields<'_>,
    ) {
        if event.event == "run_start" {
            self.model = fields.owned_text("model");
            let session = fields.text("session");
            let agent = fields.text("agent");
            self.open_conversation(out, run, session.as_deref(), agent.as_deref(), event.line);
            return;
        }
        let talk = self.open_conversation(out, run, None, None, event.line);
        match event.event {
            "turn_start" => {
                self.end_turn(out, talk);
                self.open_turn(out, talk, event);
            }
            "text_delta" => {
                self.told = true;
                let text = fields.str("text");
                let draft = self.open_turn(out, talk, event);
                match text {
                    Some(text) => draft.add_text(text),
                    None => draft.gives |= fields.uint("text_bytes").unwrap_or(0) > 0,
                }
            }
            "thinking_delta" => self.open_turn(out, talk, event).add_hidden(fields.str("text")),
            "tool_start" => {
                self.told = true;
                let id = fields.owned_text("id").unwrap_or_default();
                let name = fields.owned_text("name").unwrap_or_default();
                self.open_turn(out, talk, event);
                self.started.push((id, name, String::new()));
            }
            "tool_input_delta" => {
                let id = fields.text("id").unwrap_or_default();
                let piece = fields.text("partial_json").unwrap_or_default();
                if let Some((_, _, input)) = self.started.iter_mut().rfind(|call| call.0 == id) {
                    input.push_str(&piece);
                }
            }
            "tool_execute" => self.take_call(out, talk, event, fields),
            "tool_result" => self.take_result(event, fields),
            "usage" => self.add_usage(out, talk, event, fields),
            "intervention" if fields.text("intervention").as_deref() == Some(LOCAL_ANSWER) => {
                let draft = self.draft.as_mut().filter(|(number, _)| *number == event.turn);
                if let Some((_, draft)) = draft {
                    draft.local |= !fields.is_true("observed");
                }
            }
            "signal" => self.noted.extend(read_signal(event.turn, fields)),
            // A run that a gateway governed has no single calls, but their number.
            "done" | "error" => {
                self.calls = fields.uint("tool_calls").or(self.calls);
                let reason = fields.owned_text("reason").unwrap_or_default();
                self.ended = fields.owned_text("outcome").map(|outcome| (outcome, reason));
            }
            _ => {}
        }
    }

    fn open_conversation(
        &mut self,
        out: &mut StepOutput<'_>,
        run: &str,
        session: Option<&str>,
        agent: Option<&str>,
        line: Option<u64>,
    ) -> ConversationId {
        if let Some(talk) = self.talk {
            return talk;
        }
        let session = session.map(str::to_owned).or_else(|| self.session.take());
        let session = self.session.insert(session.unwrap_or_else(|| run.to_owned()));
        let begin = ConversationStart {
            session: Some(session),
            run: Some(run),
            agent,
            caller: self.caller.as_deref(),
            line,
            ..ConversationStart::default()
        };
        *self.talk.insert(out.begin_conversation(&begin))
    }

    /// Returns the turn of an event. An event with another turn number begins the next turn.
    fn open_turn(
        &mut self,
        out: &mut StepOutput<'_>,
        talk: ConversationId,
        event: &Event<'_>,
    ) -> &mut TurnDraft {
        if self.draft.as_ref().is_some_and(|(number, _)| *number != event.turn) {
            self.end_turn(out, talk);
        }
        let model = &self.model;
        let fresh = || {
            let (model, time, line) = (model.clone(), event.at, event.line);
            (event.turn, TurnDraft { model, time, line, ..TurnDraft::default() })
        };
        &mut self.draft.get_or_insert_with(fresh).1
    }

    fn take_call(
        &mut self,
        out: &mut StepOutput<'_>,
        talk: ConversationId,
        event: &Event<'_>,
        fields: &Fields<'_>,
    ) {
        self.told = true;
        let id = fields.owned_text("id").unwrap_or_default();
        let name = fields.owned_text("name").unwrap_or_default();
        let input = match fields.raw("input") {
            Some(raw) => {
                decode_string(raw).map_or_else(|| raw.into(), |text| text.unescape()).into_owned()
            }
            // The input was not kept: its digest tells one call from another.
            None => fields
                .raw("input_digest")
                .map_or_else(|| "{}".to_owned(), |digest| format!("{{\"digest\":{digest}}}")),
        };
        self.started.retain(|call| call.0 != id);
        self.open_turn(out, talk, event).add_call(id, name, input, false);
    }

    fn take_result(&mut self, event: &Event<'_>, fields: &Fields<'_>) {
        let id = fields.owned_text("id").unwrap_or_default();
        let mut read = ResultReader::default();
        match fields.str("content") {
            Some(text) => read.add_text(text),
            None => read.add_media(""),
        }
        let mut facts = read.to_facts();
        if let Some(digest) = fields.text("content_digest") {
            facts = ToolResult {
                digest: Digest::from_bytes(digest.as_bytes()),
                chars: fields.uint("content_bytes").unwrap_or(0),
                ..facts
            };
        }
        let failed = facts.failed || fields.raw("ok") == Some("false");
        self.results.list.push((id, ToolResult { failed, ..facts }));
        self.results.time = self.results.time.or(event.at);
        self.results.line = self.results.line.or(event.line);
    }

    /// Adds the usage of a request; a turn may take several requests.
    fn add_usage(
        &mut self,
        out: &mut StepOutput<'_>,
        talk: ConversationId,
        event: &Event<'_>,
        fields: &Fields<'_>,
    ) {
        let count = |key| fields.uint(key).unwrap_or(0);
        let tokens = Tokens {
            input: count("input"),
            output: count("output"),
            cache_read: count("cache_read"),
            cache_write_5m: count("cache_write"),
            cache_write_1h: 0,
            ..Tokens::default()
        };
        let cost = fields.raw("cost_usd").and_then(|raw| raw.parse::<f64>().ok());
        let cost = cost.and_then(NanoUsd::from_dollars);
        let model = fields.owned_text("model");
        let draft = self.open_turn(out, talk, event);
        let first = draft.tokens.is_none();
        draft.requests.push(RequestUsage { tokens, cost });
        draft.tokens = Some(draft.tokens.unwrap_or_default().saturating_add(tokens));
        draft.cost = if first { cost } else { draft.cost.zip(cost).map(|(a, b)| a + b) };
        draft.model = model.or_else(|| draft.model.take());
    }

    fn end_turn(&mut self, out: &mut StepOutput<'_>, talk: ConversationId) {
        let Some((number, mut draft)) = self.draft.take() else { return };
        self.turns.push(number);
        // Each request has its usage. Where softland answered and none came, nothing was sent.
        if draft.local && draft.requests.is_empty() {
            draft.cost = draft.cost.or(Some(NanoUsd::ZERO));
        }
        for (id, name, input) in std::mem::take(&mut self.started) {
            // A call that was cut off does not count; without recorded content, nothing tells.
            let cut = !input.is_empty() && Fields::from_json(&input).is_err();
            draft.cut_call |= cut;
            if !cut {
                let input = if input.is_empty() { "{}".to_owned() } else { input };
                // Nobody but the provider runs its own searches.
                let server = id.starts_with("srvtoolu_");
                draft.add_call(id, name, input, server);
            }
        }
        draft.gives |= !self.told;
        draft.emit_turn(out, talk);
        self.results.emit_results(out, talk);
    }

    /// Returns true if nothing came for the last turn, and no outcome says why: the program was ended
    /// before the answer.
    fn is_unanswered(&self) -> bool {
        let nothing = |(_, draft): &(u64, TurnDraft)| draft.is_bare();
        self.ended.is_none() && self.started.is_empty() && self.draft.as_ref().is_some_and(nothing)
    }

    fn end_run(&mut self, out: &mut StepOutput<'_>) {
        if let Some(talk) = self.talk {
            if self.is_unanswered() {
                self.draft = None;
            }
            self.end_turn(out, talk);
            if let Some(calls) = self.calls {
                out.send_call_total(talk, calls);
            }
            let mut places: BTreeMap<u64, u64> = BTreeMap::new();
            for (number, place) in self.turns.iter().zip(1..) {
                places.entry(*number).or_insert(place);
            }
            for one in std::mem::take(&mut self.noted) {
                let turns = one.evidence.turns.iter().filter_map(|turn| places.get(turn).copied());
                let turns = turns.collect();
                out.send_signal(
                    talk,
                    RecordedSignal { evidence: Evidence { turns, ..one.evidence }, ..one },
                );
            }
            if let Some((outcome, reason)) = &self.ended {
                out.send_outcome(talk, outcome, reason);
            }
            out.end_conversation(talk);
        }
    }
}

/// Reads a recorded signal; returns `None` for an unknown kind.
fn read_signal(turn: u64, fields: &Fields<'_>) -> Option<RecordedSignal> {
    let word = fields.text("signal")?;
    let signal = SignalKind::ALL.into_iter().find(|kind| kind.word() == word)?;
    let evidence = fields.object("evidence").unwrap_or_default();
    let turns = array_elements(evidence.raw("turns").unwrap_or_default());
    let mut turns: Vec<u64> = turns.into_iter().filter_map(|turn| turn.parse().ok()).collect();
    if turns.is_empty() {
        turns.push(turn);
    }
    let (call, text) = (evidence.owned_text("call"), evidence.owned_text("text"));
    let digest =
        |digits: &str| Digest::deserialize(digits.into_deserializer()).map_err(|e: Error| e);
    let result = evidence.text("result").and_then(|digits| digest(&digits).ok());
    let tokens = evidence.uint("tokens");
    Some(RecordedSignal { signal, evidence: Evidence { turns, call, result, text, tokens } })
}
