//! Journals of `softland run` (`docs/runs.md`), read as data: the messages of the conversation, the
//! usage that the provider reported, and the times. The runs of a tree are in one file.

use std::borrow::Cow;
use std::collections::BTreeMap;

use softland_session::core::NanoUsd;
use softland_session::wire::json::Cursor;
use softland_session::wire::{Tokens, anthropic};

use crate::draft::parse_time;
use crate::fields::{Fields, array_elements, decode_string};
use crate::input::Input;
use crate::items;
use crate::message::parse_usage;
use crate::messages::{Conversation, TurnCost};
use crate::step::ConversationStart;
use crate::step_output::StepOutput;

/// One run of the tree.
struct JournalRun {
    conversation: Conversation,
    session: String,
    /// The run that called this one.
    caller: Option<String>,
    /// Start time in milliseconds since 1970.
    began: Option<u64>,
    /// Tokens of the responses in the current turn.
    tokens: Option<Tokens>,
    /// Nano-dollars so far, including those of its sub-agents.
    total: u64,
    /// Nano-dollars of its own earlier turns.
    spent: u64,
    priced: bool,
}

/// Reads a journal.
pub(crate) fn read_journal(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    let mut runs: BTreeMap<String, JournalRun> = BTreeMap::new();
    out.read_lines(input, &mut |out, text, line| {
        let record = Fields::from_json(text)?;
        let name = record.owned_text("run").ok_or("a record of no run")?;
        let kind = record.text("kind").ok_or("a record without `kind`")?;
        if kind == "start" && !runs.contains_key(&name) {
            let run = JournalRun::from_start(out, &runs, &name, &record, line)?;
            runs.insert(name, run);
            return Ok(());
        }
        let called = runs.values().filter(|run| run.caller.as_ref() == Some(&name));
        let below = called.map(|run| run.total).fold(0, u64::saturating_add);
        let run = runs.get_mut(&name).ok_or("a record of a run whose beginning is not here")?;
        run.take_record(out, &kind, &record, below, line)
    });
    for (_, run) in runs {
        run.conversation.end_conversation(out);
    }
}

impl JournalRun {
    fn from_start(
        out: &mut StepOutput<'_>,
        runs: &BTreeMap<String, Self>,
        name: &str,
        record: &Fields<'_>,
        line: u64,
    ) -> Result<Self, String> {
        let caller = record.object("parent").and_then(|parent| parent.owned_text("run"));
        let session = match &caller {
            None => name,
            Some(caller) => runs.get(caller).map_or(caller.as_str(), |run| &run.session),
        };
        let session = session.to_owned();
        let agent = record.text("agent").filter(|_| caller.is_some());
        let begin = ConversationStart {
            session: Some(&session),
            run: Some(name),
            agent: agent.as_deref(),
            caller: caller.as_deref(),
            line: Some(line),
            ..ConversationStart::default()
        };
        let mut conversation =
            Conversation::new(out.begin_conversation(&begin), record.owned_text("model"));
        let began = record.text("ts").and_then(|at| parse_time(&at));
        let began = began.map(|at| at.saturating_sub(record.uint("ms").unwrap_or(0)));
        // Messages before the question belong to earlier runs.
        let messages = array_elements(record.raw("messages").unwrap_or_default());
        if let Some(question) = messages.last().and_then(|message| decode_string(message)) {
            conversation.take_message(out, &question.unescape(), Some(line))?;
        }
        let priced = record.raw("price").is_some_and(|price| price != "null");
        Ok(Self { conversation, session, caller, began, tokens: None, total: 0, spent: 0, priced })
    }

    /// Takes a record. `below` is the money that the runs it called have spent so far, in
    /// nano-dollars.
    fn take_record(
        &mut self,
        out: &mut StepOutput<'_>,
        kind: &str,
        record: &Fields<'_>,
        below: u64,
        line: u64,
    ) -> Result<(), String> {
        match kind {
            "response" => {
                let came = record.text("body").and_then(|body| read_usage(&body));
                let known = self.tokens.unwrap_or_default();
                self.tokens = came.map(|tokens| known.saturating_add(tokens)).or(self.tokens);
                return Ok(());
            }
            "took" => {
                self.total = record.uint("nano").unwrap_or(self.total);
                let spent = self.total.saturating_sub(below).max(self.spent);
                let cost = NanoUsd(spent - self.spent);
                self.spent = spent;
                self.conversation.came = Some(TurnCost {
                    tokens: self.tokens.take(),
                    cost: self.priced.then_some(cost),
                });
            }
            "round" => {}
            "end" => {
                let report = record.object("report");
                let word = |key| report.as_ref().and_then(|report| report.owned_text(key));
                if let Some(outcome) = word("outcome") {
                    self.conversation.flush(out);
                    let reason = word("reason").unwrap_or_default();
                    out.send_outcome(self.conversation.talk, &outcome, &reason);
                }
                return Ok(());
            }
            _ => return Ok(()),
        }
        let ms = record.uint("ms").unwrap_or(0);
        self.conversation.at = self.began.map(|began| began.saturating_add(ms));
        let messages = array_elements(record.raw("messages").unwrap_or_default());
        let messages = messages.into_iter().filter_map(decode_string).map(|text| text.unescape());
        let messages: Vec<_> = messages.collect();
        self.conversation.one_turn = kind == "took";
        let answers = if kind == "took" { last_answer(&messages) } else { &messages };
        for message in answers {
            self.conversation.take_message(out, message, Some(line))?;
        }
        self.conversation.flush(out);
        Ok(())
    }
}

/// Returns the model's last answer among the messages that a turn adds to the conversation. Before
/// it stand answers about which softland asked again within the same turn, and calls that it
/// refused.
fn last_answer<'a, 'b>(messages: &'a [Cow<'b, str>]) -> &'a [Cow<'b, str>] {
    let ours = messages.iter().rposition(|message| !is_model_message(message));
    let last = messages.get(ours.map_or(0, |place| place + 1)..).unwrap_or_default();
    if last.is_empty() { messages } else { last }
}

/// Returns true if the model wrote a message or an item.
fn is_model_message(message: &str) -> bool {
    let Ok(message) = Fields::from_json(message) else { return false };
    match message.text("role") {
        Some(role) => matches!(&*role, "assistant" | "model"),
        None => message.text("type").is_some_and(|kind| items::is_model_item(&kind)),
    }
}

/// Returns the usage in a response, whole or a stream of any provider's.
fn read_usage(body: &str) -> Option<Tokens> {
    let mut anthropics = anthropic::Usage::default();
    let (mut updated, mut other) = (false, None);
    let whole = body.trim_start().starts_with('{').then_some(body);
    let lines = body.lines().filter_map(|line| line.strip_prefix("data:"));
    for data in whole.into_iter().chain(lines) {
        if !data.contains("\"usage\"") {
            continue;
        }
        let Ok(event) = Fields::from_json(data) else { continue };
        let kind = event.text("type").unwrap_or_default();
        let within = ["message", "response"].iter().find_map(|key| event.object(key));
        let raw = event.raw("usage").or_else(|| within.and_then(|inner| inner.raw("usage")));
        let Some(raw) = raw.filter(|raw| raw.starts_with('{')) else { continue };
        if kind.starts_with("message") {
            if let Ok(update) = anthropic::UsageUpdate::from_cursor(&mut Cursor::new(raw)) {
                anthropics.apply_update(&update);
                updated = true;
            }
        } else {
            other = parse_usage(raw).map(|(tokens, _)| tokens).or(other);
        }
    }
    updated.then_some(anthropics.tokens).or(other)
}
