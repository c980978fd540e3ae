//! Messages that are added behind the history within one client request.

use std::borrow::Cow;

use softland_core::models::capability::NudgeForm;
use softland_core::{Because, Rung, Tail, lines};
use softland_wire::Api;
use softland_wire::request::Request;

use super::{Exchange, plan};
use crate::chain;
use crate::framing::{JsonBytes, Speaker};
use crate::out::Output;
use crate::reply::{self, Reply};
use crate::rewrite;
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

/// Returns the items of the tail that a provider's log of the conversation does not have yet;
/// `None` before the log has anything of this request.
pub(super) fn unlogged_items(exchange: &Exchange) -> Option<String> {
    exchange.log.told?;
    let items = unsent_items(exchange);
    if !items.is_empty() {
        return Some(items);
    }
    // A request needs at least one item.
    let ask = exchange.ladder.landing().map_or_else(|| lines::NUDGE.to_owned(), lines::format_ask);
    String::from_utf8(exchange.relay.framing().text_message(Speaker::User, &ask)).ok()
}

/// Returns the part of the tail that follows the newest response and is not the model's own, as
/// items of the Responses API.
pub(super) fn unsent_items(exchange: &Exchange) -> String {
    let told = exchange.log.told.filter(|_| exchange.api == Api::Responses);
    let new = told.and_then(|told| exchange.tail.get(told..)).unwrap_or_default();
    let answers = std::iter::once(&exchange.log.unanswered).filter(|answers| !answers.is_empty());
    let new: Vec<&[u8]> = answers.chain(new).map(Vec::as_slice).collect();
    chain::drop_model_items(&new.join(b",".as_slice()))
}

impl Exchange {
    /// Adds the tail for the next request.
    pub(super) fn extend_tail(&mut self, tail: &Tail, out: &mut Output) {
        if let Tail::Expire(because) = tail {
            self.close_pause();
            self.tail.extend(tail::expiry_messages(self.relay.framing(), because));
            plan::report_ask(because, out);
        }
        let Some(reply) = self.newest.take() else { return };
        if !matches!(tail, Tail::Keep) && !reply.resolves_call() {
            self.close_pause();
        }
        match tail {
            Tail::Keep | Tail::Expire(_) => self.log.unanswered = self.refuse_calls(&reply),
            Tail::Refuse(because) => {
                self.tail.extend(tail::refusal_messages(self.relay.framing(), &reply, because))
            }
            Tail::ToolRefuse => {
                let calls: Vec<_> = reply.calls_in(&reply.blocks).map(|(call, _)| call).collect();
                let admissions = self.run.admit_calls(&calls);
                self.tail.extend(tail::tool_refusal_messages(
                    self.relay.framing(),
                    &reply,
                    &admissions,
                ));
                plan::report_rung(Rung::Refuse, self.ladder.tool_refused(), None, out);
            }
            Tail::Nudge(because) => self.add_nudge(&reply, because, out),
            Tail::Continue => {
                self.pieces.push_str(&reply.kept_text());
                self.tail.extend(tail::continuation_messages(self.relay.framing(), &reply));
            }
            Tail::Resume => {
                self.pieces.push_str(&reply.visible_text());
                let blocks = reply.kept_blocks(false);
                if !blocks.is_empty() {
                    let closed = reply::without_open_calls(Cow::Borrowed(&blocks));
                    let closed = (!closed.is_empty())
                        .then(|| self.relay.framing().assistant_message(&closed));
                    self.paused = Some((self.tail.len(), closed));
                    self.tail.push(self.relay.framing().assistant_message(&blocks));
                }
            }
        }
    }

    /// Returns the answers to the calls of a response that does not become a turn.
    fn refuse_calls(&self, reply: &Reply) -> JsonBytes {
        let because = self.ladder.landing().filter(|_| self.api == Api::Responses);
        let Some(because) = because else { return JsonBytes::new() };
        let calls = reply.calls_in(&reply.blocks).map(|(call, _)| call).filter(|call| !call.server);
        let answers: Vec<_> = calls.map(|call| (call, lines::format_refusal(because))).collect();
        if answers.is_empty() {
            JsonBytes::new()
        } else {
            self.relay.framing().result_messages(&answers)
        }
    }

    /// Closes a paused turn that something other than its rest follows. The call that waited for
    /// its result is left out.
    pub(super) fn close_pause(&mut self) {
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
        if self.here.is_none()
            && self.tail.is_empty()
            && let Ok(request) = Request::from_body(self.api, &self.body)
        {
            rewrite::close_history(&mut self.lines, &request);
        }
    }

    fn add_nudge(&mut self, reply: &Reply, because: &Because, out: &mut Output) {
        let mut form = self.nudge_form(reply);
        // Two system messages in a row are not accepted everywhere; the pair is.
        if form == NudgeForm::MidSystem && (self.ends_in_system || !self.tail.is_empty()) {
            form = NudgeForm::Pair;
        }
        self.nudged_bare |= form == NudgeForm::BareUser;
        self.tail.extend(tail::nudge_messages(self.relay.framing(), reply, form));
        plan::report_empty(self.run.used().turns + 1, because, out);
    }

    fn nudge_form(&self, reply: &Reply) -> NudgeForm {
        let has_thinking = reply.as_finished_turn().hidden;
        self.capability.nudge_form(plan::read_thinking(self.api, &self.body), has_thinking)
    }

    /// True if the nudge would be a second bare user message, which would merge with the first.
    pub(super) fn is_bare_again(&self, reply: &Reply) -> bool {
        self.nudged_bare && self.nudge_form(reply) == NudgeForm::BareUser
    }
}
