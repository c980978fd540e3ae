//! Messages that are added behind the history within one client request.

use std::borrow::Cow;

use softland_core::models::capability::Nudge;
use softland_core::{Because, Rung, Tail, lines};
use softland_wire::Api;
use softland_wire::request::Request;

use super::{Exchange, plan};
use crate::anthropic::rewrite;
use crate::chain;
use crate::framing::{Json, Who};
use crate::out::Out;
use crate::reply::{self, Reply};
use crate::tail;

/// The part of an exchange that is in a provider's log of the conversation.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The number of messages in the tail when the newest response was asked for; `None` before the
    /// first response.
    pub(super) told: Option<usize>,
    /// The answers to that response's calls, where nothing in the tail answers them.
    pub(super) unanswered: Json,
}

/// Returns the items of the tail that a provider's log of the conversation does not have yet;
/// `None` before the log has anything of this request.
pub(super) fn not_in_log(exchange: &Exchange) -> Option<String> {
    exchange.log.told?;
    let items = unsent(exchange);
    if !items.is_empty() {
        return Some(items);
    }
    // A request needs at least one item.
    let ask = exchange.ladder.landing().map_or_else(|| lines::NUDGE.to_owned(), lines::ask);
    String::from_utf8(exchange.relay.framing().said(Who::User, &ask)).ok()
}

/// Returns the part of the tail that follows the newest response and is not the model's own, as
/// items of the Responses API.
pub(super) fn unsent(exchange: &Exchange) -> String {
    let told = exchange.log.told.filter(|_| exchange.api == Api::Responses);
    let new = told.and_then(|told| exchange.tail.get(told..)).unwrap_or_default();
    let answers = std::iter::once(&exchange.log.unanswered).filter(|answers| !answers.is_empty());
    let new: Vec<&[u8]> = answers.chain(new).map(Vec::as_slice).collect();
    chain::not_in_log(&new.join(b",".as_slice()))
}

impl Exchange {
    /// Adds the tail for the next request.
    pub(super) fn extend(&mut self, tail: &Tail, out: &mut Out) {
        if let Tail::Expire(because) = tail {
            self.close_pause();
            self.tail.extend(tail::expired(self.relay.framing(), because));
            plan::tell_ask(because, out);
        }
        let Some(reply) = self.newest.take() else { return };
        if !matches!(tail, Tail::Keep) && !reply.resolves() {
            self.close_pause();
        }
        match tail {
            Tail::Keep | Tail::Expire(_) => self.log.unanswered = self.refused(&reply),
            Tail::Refuse(because) => {
                self.tail.extend(tail::refusal(self.relay.framing(), &reply, because))
            }
            Tail::ToolRefuse => {
                let calls: Vec<_> = reply.calls_in(&reply.blocks).map(|(call, _)| call).collect();
                let admissions = self.run.admit(&calls);
                self.tail.extend(tail::tool_refusal(self.relay.framing(), &reply, &admissions));
                plan::tell_rung(Rung::Refuse, self.ladder.tool_refused(), None, out);
            }
            Tail::Nudge(because) => self.nudge(&reply, because, out),
            Tail::Continue => {
                self.pieces.push_str(&reply.kept_words());
                self.tail.extend(tail::go_on(self.relay.framing(), &reply));
            }
            Tail::Resume => {
                self.pieces.push_str(&reply.words());
                let blocks = reply.kept(false);
                if !blocks.is_empty() {
                    let closed = reply::closed(Cow::Borrowed(&blocks));
                    let closed =
                        (!closed.is_empty()).then(|| self.relay.framing().assistant(&closed));
                    self.paused = Some((self.tail.len(), closed));
                    self.tail.push(self.relay.framing().assistant(&blocks));
                }
            }
        }
    }

    /// Returns the answers to the calls of a response that does not become a turn.
    fn refused(&self, reply: &Reply) -> Json {
        let because = self.ladder.landing().filter(|_| self.api == Api::Responses);
        let Some(because) = because else { return Json::new() };
        let calls = reply.calls_in(&reply.blocks).map(|(call, _)| call).filter(|call| !call.server);
        let answers: Vec<_> = calls.map(|call| (call, lines::refused(because))).collect();
        if answers.is_empty() { Json::new() } else { self.relay.framing().results(&answers) }
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
            && let Ok(request) = Request::of(self.api, &self.body)
        {
            rewrite::close_history(&mut self.lines, &request);
        }
    }

    fn nudge(&mut self, reply: &Reply, because: &Because, out: &mut Out) {
        let mut form = self.nudge_form(reply);
        // Two system messages in a row are not accepted everywhere; the pair is.
        if form == Nudge::MidSystem && (self.ends_in_system || !self.tail.is_empty()) {
            form = Nudge::Pair;
        }
        self.nudged_bare |= form == Nudge::BareUser;
        self.tail.extend(tail::nudge(self.relay.framing(), reply, form));
        plan::tell_empty(self.run.used().turns + 1, because, out);
    }

    fn nudge_form(&self, reply: &Reply) -> Nudge {
        let has_thinking = reply.finished().hidden;
        self.capability.nudge(plan::thinking(self.api, &self.body), has_thinking)
    }

    /// True if the nudge would be a second bare user message, which would merge with the first.
    pub(super) fn is_bare_again(&self, reply: &Reply) -> bool {
        self.nudged_bare && self.nudge_form(reply) == Nudge::BareUser
    }
}
