//! softland's own event lines, ledgers and journals: events of many runs, interleaved.

mod journal;
mod ledger;

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::Error;
use softland_session::ResultRead;
use softland_session::core::{Digest, Evidence, NanoUsd, SignalKind, ToolResult};
use softland_session::wire::Tokens;

use crate::draft::{Draft, Results, time};
use crate::fields::{Fields, elements, string};
use crate::input::Input;
use crate::out::Out;
use crate::step::{Begin, Noted, Talk};
pub(crate) use journal::read as journal;
pub(crate) use ledger::{is_its, read as ledger};

/// Reads event lines.
pub(crate) fn read(input: &mut Input<'_>, out: &mut Out<'_>) {
    let mut runs: BTreeMap<String, Run> = BTreeMap::new();
    let mut callers = Callers::new();
    out.lines(input, &mut |out, text, line| {
        let fields = Fields::of(text)?;
        let name = fields.owned("run").ok_or("an event of no run")?;
        let event = fields.text("event").ok_or("a line without `event`")?;
        let at = fields.text("ts").and_then(|at| time(&at));
        let turn = fields.uint("turn").unwrap_or(0);
        let run = runs.entry(name.clone()).or_insert_with(|| Run::called(&callers, &name));
        run.event(out, &name, &Event { event: &event, turn, at, line: Some(line) }, &fields);
        if matches!(&*event, "done" | "error") {
            run.end(out);
        }
        run.calls_others(&mut callers, &name, &event, &fields);
        if matches!(&*event, "done" | "error") {
            runs.remove(&name);
        }
        Ok(())
    });
    for run in runs.values_mut() {
        run.end(out);
    }
}

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
struct Run {
    talk: Option<Talk>,
    model: Option<String>,
    session: Option<String>,
    caller: Option<String>,
    /// The turn that is being read, and its number.
    draft: Option<(u64, Draft)>,
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
    noted: Vec<Noted>,
    /// Numbers of the turns that were read: a recording may begin in the middle of a run.
    turns: Vec<u64>,
}

impl Run {
    /// Creates a run, which may be a sub-agent's.
    fn called(callers: &Callers, run: &str) -> Self {
        let (caller, session) = callers.get(run).cloned().unzip();
        Self { caller, session, ..Self::default() }
    }

    /// Notes a run that this run calls.
    fn calls_others(&self, callers: &mut Callers, run: &str, event: &str, fields: &Fields<'_>) {
        if let Some(child) = fields.owned("child_run").filter(|_| event == "child") {
            let session = self.session.as_deref().unwrap_or(run);
            callers.insert(child, (run.to_owned(), session.to_owned()));
        }
    }

    fn event(&mut self, out: &mut Out<'_>, run: &str, event: &Event<'_>, fields: &Fields<'_>) {
        if event.event == "run_start" {
            self.model = fields.owned("model");
            let session = fields.text("session");
            let agent = fields.text("agent");
            self.talk(out, run, session.as_deref(), agent.as_deref(), event.line);
            return;
        }
        let talk = self.talk(out, run, None, None, event.line);
        match event.event {
            "turn_start" => {
                self.turn_over(out, talk);
                self.turn(out, talk, event);
            }
            "text_delta" => {
                self.told = true;
                let text = fields.str("text");
                let draft = self.turn(out, talk, event);
                match text {
                    Some(text) => draft.text(text),
                    None => draft.gives |= fields.uint("text_bytes").unwrap_or(0) > 0,
                }
            }
            "thinking_delta" => self.turn(out, talk, event).hidden(fields.str("text")),
            "tool_start" => {
                self.told = true;
                let id = fields.owned("id").unwrap_or_default();
                let name = fields.owned("name").unwrap_or_default();
                self.turn(out, talk, event);
                self.started.push((id, name, String::new()));
            }
            "tool_input_delta" => {
                let id = fields.text("id").unwrap_or_default();
                let piece = fields.text("partial_json").unwrap_or_default();
                if let Some((_, _, input)) = self.started.iter_mut().rfind(|call| call.0 == id) {
                    input.push_str(&piece);
                }
            }
            "tool_execute" => self.execute(out, talk, event, fields),
            "tool_result" => self.result(event, fields),
            "usage" => self.usage(out, talk, event, fields),
            "signal" => self.noted.extend(noted(event.turn, fields)),
            // A run that a gateway governed has no single calls, but their number.
            "done" | "error" => {
                self.calls = fields.uint("tool_calls").or(self.calls);
                let reason = fields.owned("reason").unwrap_or_default();
                self.ended = fields.owned("outcome").map(|outcome| (outcome, reason));
            }
            _ => {}
        }
    }

    fn talk(
        &mut self,
        out: &mut Out<'_>,
        run: &str,
        session: Option<&str>,
        agent: Option<&str>,
        line: Option<u64>,
    ) -> Talk {
        if let Some(talk) = self.talk {
            return talk;
        }
        let session = session.map(str::to_owned).or_else(|| self.session.take());
        let session = self.session.insert(session.unwrap_or_else(|| run.to_owned()));
        let begin = Begin {
            session: Some(session),
            run: Some(run),
            agent,
            caller: self.caller.as_deref(),
            line,
            ..Begin::default()
        };
        *self.talk.insert(out.begin(&begin))
    }

    /// Returns the turn of an event. An event with another turn number begins the next turn.
    fn turn(&mut self, out: &mut Out<'_>, talk: Talk, event: &Event<'_>) -> &mut Draft {
        if self.draft.as_ref().is_some_and(|(number, _)| *number != event.turn) {
            self.turn_over(out, talk);
        }
        let model = &self.model;
        let fresh = || {
            let (model, time, line) = (model.clone(), event.at, event.line);
            (event.turn, Draft { model, time, line, ..Draft::default() })
        };
        &mut self.draft.get_or_insert_with(fresh).1
    }

    fn execute(&mut self, out: &mut Out<'_>, talk: Talk, event: &Event<'_>, fields: &Fields<'_>) {
        self.told = true;
        let id = fields.owned("id").unwrap_or_default();
        let name = fields.owned("name").unwrap_or_default();
        let input = match fields.raw("input") {
            Some(raw) => {
                string(raw).map_or_else(|| raw.into(), |text| text.unescape()).into_owned()
            }
            // The input was not kept: its digest tells one call from another.
            None => fields
                .raw("input_digest")
                .map_or_else(|| "{}".to_owned(), |digest| format!("{{\"digest\":{digest}}}")),
        };
        self.started.retain(|call| call.0 != id);
        self.turn(out, talk, event).call(id, name, input, false);
    }

    fn result(&mut self, event: &Event<'_>, fields: &Fields<'_>) {
        let id = fields.owned("id").unwrap_or_default();
        let mut read = ResultRead::default();
        match fields.str("content") {
            Some(text) => read.text(text),
            None => read.media(),
        }
        let mut facts = read.facts();
        if let Some(digest) = fields.text("content_digest") {
            facts = ToolResult {
                digest: Digest::of(digest.as_bytes()),
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
    fn usage(&mut self, out: &mut Out<'_>, talk: Talk, event: &Event<'_>, fields: &Fields<'_>) {
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
        let model = fields.owned("model");
        let draft = self.turn(out, talk, event);
        let first = draft.tokens.is_none();
        draft.tokens = Some(draft.tokens.unwrap_or_default().plus(tokens));
        draft.cost = if first { cost } else { draft.cost.zip(cost).map(|(a, b)| a + b) };
        draft.model = model.or_else(|| draft.model.take());
    }

    fn turn_over(&mut self, out: &mut Out<'_>, talk: Talk) {
        let Some((number, mut draft)) = self.draft.take() else { return };
        self.turns.push(number);
        for (id, name, input) in std::mem::take(&mut self.started) {
            // A call that was cut off does not count; without recorded content, nothing tells.
            let cut = !input.is_empty() && Fields::of(&input).is_err();
            draft.cut_call |= cut;
            if !cut {
                let input = if input.is_empty() { "{}".to_owned() } else { input };
                // Nobody but the provider runs its own searches.
                let server = id.starts_with("srvtoolu_");
                draft.call(id, name, input, server);
            }
        }
        draft.gives |= !self.told;
        draft.give(out, talk);
        self.results.give(out, talk);
    }

    fn end(&mut self, out: &mut Out<'_>) {
        if let Some(talk) = self.talk {
            self.turn_over(out, talk);
            if let Some(calls) = self.calls {
                out.counted(talk, calls);
            }
            let mut places: BTreeMap<u64, u64> = BTreeMap::new();
            for (number, place) in self.turns.iter().zip(1..) {
                places.entry(*number).or_insert(place);
            }
            for one in std::mem::take(&mut self.noted) {
                let turns = one.evidence.turns.iter().filter_map(|turn| places.get(turn).copied());
                let turns = turns.collect();
                out.noted(talk, Noted { evidence: Evidence { turns, ..one.evidence }, ..one });
            }
            if let Some((outcome, reason)) = &self.ended {
                out.outcome(talk, outcome, reason);
            }
            out.end(talk);
        }
    }
}

/// Reads a recorded signal; returns `None` for an unknown kind.
fn noted(turn: u64, fields: &Fields<'_>) -> Option<Noted> {
    let word = fields.text("signal")?;
    let signal = SignalKind::ALL.into_iter().find(|kind| kind.word() == word)?;
    let evidence = fields.object("evidence").unwrap_or_default();
    let turns = elements(evidence.raw("turns").unwrap_or_default());
    let mut turns: Vec<u64> = turns.into_iter().filter_map(|turn| turn.parse().ok()).collect();
    if turns.is_empty() {
        turns.push(turn);
    }
    let (call, text) = (evidence.owned("call"), evidence.owned("text"));
    let digest =
        |digits: &str| Digest::deserialize(digits.into_deserializer()).map_err(|e: Error| e);
    let result = evidence.text("result").and_then(|digits| digest(&digits).ok());
    Some(Noted { signal, evidence: Evidence { turns, call, result, text } })
}
