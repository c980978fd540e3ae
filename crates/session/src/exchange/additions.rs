//! Messages that are added behind the history within one client request.

use std::borrow::Cow;

use softland_core::models::capability::NudgeForm;
use softland_core::{Rung, Tail, lines};
use softland_wire::Api;

use super::progress::LadderProgress;
use super::reading::RequestReading;
use super::report;
use crate::chain;
use crate::framing::{Framing, JsonBytes, Speaker};
use crate::out::Output;
use crate::reply::{self, Reply};
use crate::tail;

/// The part of an exchange that is in a provider's log of the conversation.
#[derive(Debug, Default)]
pub(super) struct ProviderLog {
    /// The number of messages in the tail when the newest response was asked for; `None` before the
    /// first response.
    pub(super) told: Option<usize>,
    /// The answers to that response's calls, where nothing in the tail answers them.
    pub(super) unanswered: JsonBytes,
}

impl LadderProgress {
    /// Returns the items of the tail that a provider's log of the conversation does not have yet;
    /// `None` before the log has anything of this request.
    pub(super) fn unlogged_items(&self, api: Api, framing: &dyn Framing) -> Option<String> {
        self.log.told?;
        let items = self.unsent_items(api);
        if !items.is_empty() {
            return Some(items);
        }
        // A request needs at least one item.
        let ask = self.ladder.landing().map_or_else(|| lines::NUDGE.to_owned(), lines::format_ask);
        String::from_utf8(framing.text_message(Speaker::User, &ask)).ok()
    }

    /// Returns the part of the tail that follows the newest response and is not the model's own, as
    /// items of the Responses API.
    pub(super) fn unsent_items(&self, api: Api) -> String {
        let told = self.log.told.filter(|_| api == Api::Responses);
        let new = told.and_then(|told| self.tail.get(told..)).unwrap_or_default();
        let answers = std::iter::once(&self.log.unanswered).filter(|answers| !answers.is_empty());
        let new: Vec<&[u8]> = answers.chain(new).map(Vec::as_slice).collect();
        chain::drop_model_items(&new.join(b",".as_slice()))
    }

    /// Adds the tail for the next request.
    pub(super) fn extend_tail(
        &mut self,
        tail: &Tail,
        reading: &mut RequestReading,
        framing: &dyn Framing,
        out: &mut Output,
    ) {
        if let Tail::Expire(because) = tail {
            self.close_pause(reading);
            self.tail.extend(tail::expiry_messages(framing, because));
            report::report_ask(because, out);
        }
        let Some(reply) = self.newest.take() else { return };
        if !matches!(tail, Tail::Keep) && !reply.resolves_call() {
            self.close_pause(reading);
        }
        match tail {
            Tail::Keep | Tail::Expire(_) => {
                self.log.unanswered = self.refuse_calls(reading.api(), framing, &reply);
            }
            Tail::Refuse(because) => {
                self.tail.extend(tail::refusal_messages(framing, &reply, because))
            }
            Tail::ToolRefuse => {
                let calls: Vec<_> = reply.calls_in(&reply.blocks).map(|(call, _)| call).collect();
                let admissions = reading.run.admit_calls(&calls);
                self.tail.extend(tail::tool_refusal_messages(framing, &reply, &admissions));
                report::report_rung(Rung::Refuse, self.ladder.reached_tool_limit(), None, out);
            }
            Tail::Nudge(because) => {
                self.add_nudge(reading, framing, &reply);
                report::report_empty(reading.run.used().turns + 1, because, out);
            }
            Tail::Continue => {
                self.pieces.push_str(&reply.kept_text());
                self.tail.extend(tail::continuation_messages(framing, &reply));
            }
            Tail::Resume => self.keep_paused(framing, &reply),
        }
    }

    /// Returns the answers to the calls of a response that does not become a turn.
    fn refuse_calls(&self, api: Api, framing: &dyn Framing, reply: &Reply) -> JsonBytes {
        let because = self.ladder.landing().filter(|_| api == Api::Responses);
        let Some(because) = because else { return JsonBytes::new() };
        let calls = reply.calls_in(&reply.blocks).map(|(call, _)| call).filter(|call| !call.server);
        let answers: Vec<_> = calls.map(|call| (call, lines::format_refusal(because))).collect();
        match answers.is_empty() {
            true => JsonBytes::new(),
            false => framing.result_messages(&answers),
        }
    }

    /// Adds a paused turn, which the next response goes on with.
    fn keep_paused(&mut self, framing: &dyn Framing, reply: &Reply) {
        self.pieces.push_str(&reply.visible_text());
        let blocks = reply.kept_blocks(false);
        if blocks.is_empty() {
            return;
        }
        let closed = reply::without_open_calls(Cow::Borrowed(&blocks));
        let closed = (!closed.is_empty()).then(|| framing.assistant_message(&closed));
        self.paused = Some((self.tail.len(), closed));
        self.tail.push(framing.assistant_message(&blocks));
    }

    /// Closes a paused turn that something other than its rest follows. The call that waited for
    /// its result is left out.
    pub(super) fn close_pause(&mut self, reading: &mut RequestReading) {
        match self.paused.take() {
            Some((at, Some(closed))) => {
                if let Some(paused) = self.tail.get_mut(at) {
                    *paused = closed;
                }
            }
            Some((at, None)) if at < self.tail.len() => {
                self.tail.remove(at);
            }
            _ => {}
        }
        if reading.here.is_none() && self.tail.is_empty() {
            reading.close_history();
        }
    }

    fn add_nudge(&mut self, reading: &RequestReading, framing: &dyn Framing, reply: &Reply) {
        let mut form = reading.nudge_form(reply);
        // Not every API accepts two system messages in a row. All accept an assistant message and
        // then a user message.
        if form == NudgeForm::MidSystem && (!self.tail.is_empty() || reading.ends_in_system()) {
            form = NudgeForm::Pair;
        }
        self.nudged_bare |= form == NudgeForm::BareUser;
        self.tail.extend(tail::nudge_messages(framing, reply, form));
    }

    /// True if the nudge would be a second bare user message, which would merge with the first.
    pub(super) fn is_bare_again(&self, reading: &RequestReading, reply: &Reply) -> bool {
        self.nudged_bare && reading.nudge_form(reply) == NudgeForm::BareUser
    }
}
