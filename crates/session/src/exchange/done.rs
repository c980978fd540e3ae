//! The end of an exchange: whose turn it is, what the answer is, and what is kept.

use serde::{Deserialize, Serialize, Serializer};
use softland_core::{
    Admission, Because, Digest, Facts, NextAction, Outcome, PinnedRecords, Reason, Remaining, Role,
    Run, RunEnding, RunUsage, Rung, Signal, SignalKind, TurnClass,
};
use softland_wire::{Api, Tokens};

use super::Exchange;
use super::bill::ExchangeBill;
use super::plan::shown_refusals;
use super::progress::LadderProgress;
use super::reading::RequestReading;
use super::shown::NewestResponse;
use crate::chain::ShownResponse;
use crate::framing::Speaker;
use crate::local;
use crate::out::{Event, Intervention, Output};
use crate::remembered::{SeenResult, StoredTail, place_after_item};
use crate::reply::{self, Block, Reply};
use crate::sealed;
use crate::tags;

/// A call that is the client's to run, or to answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingCall {
    /// The id that its result must carry.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as received.
    pub input: String,
    /// True if the arguments are a whole JSON object. If not, the call is answered, never run.
    pub complete: bool,
    /// The decision whether it runs, with the reason if it does not.
    pub admission: Admission,
    /// For a call that is written as text: the message that the model gets in place of a result,
    /// where the call cannot be run although it was admitted. It counts all the same.
    pub unfit: Option<String>,
}

/// The result of an exchange.
#[derive(Clone, Debug, Serialize)]
pub struct Done {
    /// The run's end; `None` where the run goes on with the client's results.
    pub ended: Option<RunEnding>,
    /// The answer, where there is one.
    pub answer: Option<String>,
    /// True if the answer is softland's.
    pub local: bool,
    /// The calls of the turn that are the client's, in order.
    pub calls: Vec<PendingCall>,
    /// The digests of the turn's compacted contexts, which later histories may open with.
    pub sealed: Vec<Digest>,
    /// Messages to append to the history, as JSON, for an engine that owns it. In a gateway there
    /// are none unless something was added behind the history.
    #[serde(serialize_with = "write_texts")]
    pub messages: Vec<Vec<u8>>,
    /// Records to keep for later requests of the conversation.
    pub records: PinnedRecords,
    /// The digest that identifies the run; `None` where there is no run.
    pub run: Option<Digest>,
    /// The digest of the client's messages ([`Outline::here`](crate::Outline::here)).
    pub context: Digest,
    /// Tokens of all upstream responses that came to their end.
    pub spent: Tokens,
    /// Tokens that other responses reported before they broke off or were given up.
    pub abandoned: Tokens,
    /// The amounts that the run has used, this turn included.
    pub used: RunUsage,
    /// Turns of the run refused by tools' own limits, for the facts of its next request.
    pub tool_refusals: u64,
    /// True if the model's last turn was empty, or nearly so.
    pub vain: bool,
    /// In a gateway: the tail that this turn's calls stand behind, to be remembered.
    pub tail: Option<(Digest, StoredTail)>,
    /// In a gateway: results that were not remembered yet, as they are now, to be remembered.
    pub seen: Vec<(Digest, SeenResult)>,
    /// In a gateway: the response that the client has now, where the provider keeps it and a later
    /// request may name it by its id.
    pub shown: Option<ShownResponse>,
}

/// Writes messages, which are JSON, as texts.
fn write_texts<S: Serializer>(messages: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(messages.iter().map(|message| str::from_utf8(message).unwrap_or_default()))
}

impl Exchange {
    /// Ends the exchange as the ladder says.
    pub(super) fn finish_exchange(
        &mut self,
        end: NextAction,
        class: Option<TurnClass>,
        out: &mut Output,
    ) -> Done {
        let reply = self.progress.newest.take();
        let unsent = self.progress.unsent_items(self.reading.api());
        let (mut ended, local) = match end {
            NextAction::End { ended, local } => (Some(ended), local),
            NextAction::Pass | NextAction::Send { .. } => (None, false),
        };
        if let Some(ended) = &mut ended {
            ended.remaining = remaining_amounts(&self.reading, &self.bill);
            ended.value = self.reading.run.policy().limit_value(&ended.reason).or(ended.value);
            report_end(&self.reading, &self.progress, ended, local, out);
        }
        let mut done = self.new_done(ended, local);
        let bare = done.messages.is_empty();
        let newest = NewestResponse { reply: reply.as_ref(), unsent, bare };
        let Self { reading, progress, bill, relay } = self;
        if local {
            let turns = used_amounts(reading, bill).turns;
            let text =
                local_answer((reading, turns), progress, reply.as_ref(), done.ended.as_ref());
            let id = local::answer_id(reading.api(), reading.key, &text);
            let view = reading.request.view();
            let head = (&*id, &*view.model.unescape());
            relay.close_local(head, &text, bill.local_usage(), bill.billed(), out);
            done.messages.push(relay.framing().text_message(Speaker::Assistant, &text));
            done.answer = Some(text);
            done.shown = self.shown_response(None, &newest, &done);
        } else if let Some(reply) = &reply {
            self.take_turn(reply, class, &mut done);
            done.tail = self.tail_to_store(reply, &done);
            done.shown = self.shown_response(Some(reply), &newest, &done);
            let Self { bill, relay, .. } = self;
            relay.close_message(reply, bill.shown_output(), bill.billed(), out);
        } else {
            relay.abandon_message(out);
            done.messages.clear();
        }
        done.records = std::mem::take(&mut self.reading.records);
        record_removed_calls(&self.reading, &mut done);
        done
    }

    /// Creates the result of the exchange, still without a turn.
    fn new_done(&mut self, ended: Option<RunEnding>, local: bool) -> Done {
        let Self { reading, progress, bill, .. } = self;
        let refusals = progress.ladder.tool_refusals();
        Done {
            ended,
            answer: None,
            local,
            calls: Vec::new(),
            sealed: Vec::new(),
            messages: std::mem::take(&mut progress.tail),
            records: PinnedRecords::new(),
            run: reading.key,
            context: reading.messages_digest(),
            spent: bill.spent(),
            abandoned: bill.abandoned(),
            used: used_amounts(reading, bill),
            tool_refusals: refusals.saturating_sub(shown_refusals(&reading.run)),
            vain: progress.vain,
            tail: None,
            seen: std::mem::take(&mut reading.seen),
            shown: None,
        }
    }

    /// Notes the turn in the result: its messages, its answer, and its calls.
    fn take_turn(&self, reply: &Reply, class: Option<TurnClass>, done: &mut Done) {
        let Self { reading, progress, relay, .. } = self;
        // In a gateway the client was shown a call that was cut, and has it in its history.
        let cut = reading.role == Role::Engine && reply.has_cut_call();
        let mut blocks = reply.kept_blocks(cut);
        if done.ended.is_some() {
            blocks = reply::without_open_calls(blocks);
        }
        // A gateway writes the turn only to tell it apart from the tail before it.
        let wanted = reading.role == Role::Engine || !done.messages.is_empty();
        if wanted && !blocks.is_empty() {
            let turn = relay.framing().assistant_message(&blocks);
            // Not every protocol takes back reasoning alone.
            done.messages.extend(Some(turn).filter(|turn| !turn.is_empty()));
        }
        if done.ended.is_some() {
            done.answer = Some(match class {
                Some(TurnClass::Answer) => answer_input(&reading.run, reply),
                _ => progress.pieces.clone() + &*reply.visible_text_of(&blocks),
            });
        }
        done.sealed = sealed::block_contexts(&reply.blocks);
        done.calls = pending_calls(&reading.run, reply, &blocks);
    }

    /// Returns the tail that the calls of this turn stand behind, and that the client never saw.
    fn tail_to_store(&self, reply: &Reply, done: &Done) -> Option<(Digest, StoredTail)> {
        let Self { reading, progress, relay, .. } = self;
        let first = done.calls.iter().find(|call| {
            !matches!(call.admission, Admission::Refused(_) | Admission::ToolRefused(_))
        })?;
        // The last message is the turn itself.
        let (turn, tail) = done.messages.split_last()?;
        if reading.role != Role::Gateway || tail.is_empty() {
            return None;
        }
        // The end came behind a call that had passed, or in the answer tool's call: the client was
        // shown all that stood before it.
        let answers = first.admission == Admission::Answer && reply.whole;
        let passed = progress.ladder.landing().is_none() && (answers || relay.is_live());
        if done.ended.is_some() && !passed {
            return None;
        }
        // The messages were written from text.
        let messages = String::from_utf8(tail.join(b",".as_slice())).ok()?;
        let (shown, before) = (relay.block_kinds_shown(), reading.messages_digest());
        // A call that is written as text has no id that the client could send back.
        let id = match reply.text_call_count() {
            0 => first.id.clone(),
            _ => tags::call_id(None, 0),
        };
        let merges = reading.api() == Api::Chat && shown.contains('k');
        let own = merges.then(|| String::from_utf8(turn.clone())).transpose().ok()?;
        Some((
            place_after_item(reading.here?.place, &id),
            StoredTail { shown, messages, before, own },
        ))
    }
}

/// Notes in the run's record the calls that were taken out of a turn which goes on. They stand in
/// no history: by the record, the last result of that turn says so in every later request.
fn record_removed_calls(reading: &RequestReading, done: &mut Done) {
    if reading.role != Role::Gateway || done.ended.is_some() {
        return;
    }
    let record = reading.key.and_then(|key| done.records.get_mut(&key));
    let taken = done.calls.iter().filter_map(|call| match &call.admission {
        Admission::ToolRefused(because) | Admission::Refused(because) => Some(because),
        Admission::Run | Admission::Server | Admission::Answer => None,
    });
    if let Some(record) = record {
        record.record_removed_calls(reading.run.used().rounds + 1, taken);
    }
}

/// Returns the amounts that the run has used. The turn under way counts if a request was sent for
/// it.
fn used_amounts(reading: &RequestReading, bill: &ExchangeBill) -> RunUsage {
    let used = reading.run.used().clone();
    RunUsage { turns: used.turns + u64::from(bill.has_requests()), ..used }
}

/// Returns what every limit leaves after this turn. The caller knows the price, and adds the money.
fn remaining_amounts(reading: &RequestReading, bill: &ExchangeBill) -> Remaining {
    let spent = bill.spent().input_total().saturating_add(bill.spent().output);
    let tokens = reading.facts.tokens.saturating_add(spent);
    used_amounts(reading, bill)
        .remaining_limits(reading.run.policy(), &Facts { tokens, ..reading.facts })
}

/// Returns the calls among these blocks that are the client's, with what is decided on them.
fn pending_calls(run: &Run, reply: &Reply, blocks: &[Block]) -> Vec<PendingCall> {
    let unfit = reply.tagged.iter().flat_map(|tagged| &tagged.calls).map(|call| call.unfit.clone());
    let unfit = unfit.chain(std::iter::repeat(None));
    let calls: Vec<_> = reply.calls_in(blocks).map(|(call, _)| call).collect();
    let admissions = run.admit_calls(&calls);
    let pending = reply.calls_in(blocks).zip(admissions).zip(unfit);
    pending
        .filter(|(((call, _), _), _)| !call.server)
        .map(|(((call, complete), admission), unfit)| PendingCall {
            id: call.id.to_owned(),
            name: call.name.to_owned(),
            input: call.input.to_owned(),
            complete,
            admission,
            unfit,
        })
        .collect()
}

/// Returns the answer tool's input: its only text member, or the whole input.
fn answer_input(run: &Run, reply: &Reply) -> String {
    let call = reply.calls_in(&reply.blocks).find(|(call, _)| run.is_answer(call));
    call.map(|(call, _)| only_text(call.input).unwrap_or_else(|| call.input.to_owned()))
        .unwrap_or_default()
}

fn only_text(input: &str) -> Option<String> {
    let mut cursor = softland_wire::json::Cursor::new(input);
    let mut texts = Vec::new();
    cursor
        .read_members(|cursor, _| {
            texts.push(cursor.read_string_or_skip()?.map(|(text, _)| text.unescape().into_owned()));
            Ok::<_, softland_wire::json::Error>(())
        })
        .ok()?;
    match texts.as_mut_slice() {
        [text] => text.take(),
        _ => None,
    }
}

/// Returns the text of the answer that softland gives itself.
fn local_answer(
    (reading, turns): (&RequestReading, u64),
    progress: &LadderProgress,
    reply: Option<&Reply>,
    ended: Option<&RunEnding>,
) -> String {
    let said = reply.map(Reply::visible_text).unwrap_or_default();
    let said = progress.pieces.clone() + &*said;
    let because = end_reason(reading, progress, ended);
    let (request, reader) = (reading.request.view(), reading.reader.as_ref());
    let mut text =
        local::write_answer(&request, (&reading.run, turns), because.as_ref(), &said, reader);
    let is_for_money = because
        .as_ref()
        .is_some_and(|because| because.needed.is_some() || because.reason == Reason::Budget);
    if let Some(remark) = reading.remark.as_ref().filter(|_| is_for_money) {
        text.push_str("\n\n");
        text.push_str(remark);
    }
    text
}

/// Returns the reason of an end, with its numbers.
pub(super) fn end_reason(
    reading: &RequestReading,
    progress: &LadderProgress,
    ended: Option<&RunEnding>,
) -> Option<Because> {
    if let Some(because) = progress.ladder.landing() {
        return Some(because.clone());
    }
    let reason = ended?.reason.clone();
    if let (Reason::Tool(_), Some(because)) = (&reason, progress.ladder.reached_tool_limit()) {
        return Some(because.clone());
    }
    let limit = reading.run.policy().empty_limit.max(1);
    let counts = matches!(reason, Reason::Empty | Reason::Provider);
    let used = if counts { progress.ladder.empty_turns() } else { 1 };
    Some(Because::from_counts(reason, used, limit))
}

/// Reports the signals and interventions that go with an end.
fn report_end(
    reading: &RequestReading,
    progress: &LadderProgress,
    ended: &RunEnding,
    local: bool,
    out: &mut Output,
) {
    let because = end_reason(reading, progress, Some(ended));
    let turn = reading.run.used().turns + 1;
    if ended.reason == Reason::Empty && ended.outcome == Outcome::Stopped {
        let signal = Signal::from_turn(SignalKind::Empty, turn, because.clone());
        out.events.push(Event::Signal(signal));
    }
    if progress.ladder.continuations() >= 3 && ended.reason == Reason::Truncated {
        let because = Because::from_counts(Reason::Truncated, progress.ladder.continuations(), 3);
        let signal = Signal::from_turn(SignalKind::Truncated, turn, Some(because));
        out.events.push(Event::Signal(signal));
    }
    if local && ended.outcome == Outcome::Stopped {
        let stop = progress.ladder.landing().is_none() && ended.rung == Some(Rung::LocalAnswer);
        let intervention = if stop { Intervention::Stop } else { Intervention::LocalAnswer };
        out.events.push(Event::Intervention { intervention, because, text: None });
    }
}
