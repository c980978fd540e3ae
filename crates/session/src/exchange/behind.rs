//! What is added behind the history within one client request.

use softland_core::models::capability::Nudge;
use softland_core::{Because, Rung, Tail};
use softland_wire::anthropic::{Message, Request};

use super::{Exchange, plan};
use crate::anthropic::{tail, turn};
use crate::out::Out;

impl Exchange {
    /// Adds the tail for the next request.
    pub(super) fn extend(&mut self, tail: &Tail, out: &mut Out) {
        if let Tail::Expire(because) = tail {
            self.close_pause();
            self.tail.extend(tail::expired(because));
            plan::tell_ask(because, out);
        }
        let Some(message) = self.newest.take() else { return };
        if !matches!(tail, Tail::Keep) && !tail::resolves(&message) {
            self.close_pause();
        }
        match tail {
            Tail::Keep | Tail::Expire(_) => {}
            Tail::Refuse(because) => self.tail.extend(tail::refusal(&message, because)),
            Tail::ToolRefuse => {
                let calls: Vec<_> = turn::calls(&message.blocks).map(|(call, _)| call).collect();
                let admissions = self.run.admit(&calls);
                self.tail.extend(tail::tool_refusal(&message, &admissions));
                plan::tell_rung(Rung::Refuse, None, out);
            }
            Tail::Nudge(because) => self.nudge(&message, because, out),
            Tail::Continue => {
                self.pieces.push_str(&turn::text(&tail::kept(&message, false)));
                self.tail.extend(tail::go_on(&message));
            }
            Tail::Resume => {
                self.pieces.push_str(&turn::text(&message.blocks));
                let blocks = tail::kept(&message, false);
                if !blocks.is_empty() {
                    let closed = tail::closed(blocks.clone());
                    let closed = (!closed.is_empty()).then(|| tail::assistant(&closed));
                    self.paused = Some((self.tail.len(), closed));
                    self.tail.push(tail::assistant(&blocks));
                }
            }
        }
    }

    /// Something other than the rest of a paused turn follows it: what it waited for is left out.
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
            && let Ok(request) = Request::scan(&self.body)
        {
            tail::close_history(&mut self.lines, &request);
        }
    }

    fn nudge(&mut self, message: &Message, because: &Because, out: &mut Out) {
        let mut form = self.nudge_form(message);
        // Two system messages in a row are not accepted everywhere; the pair is.
        if form == Nudge::MidSystem && (self.ends_in_system || !self.tail.is_empty()) {
            form = Nudge::Pair;
        }
        self.nudged_bare |= form == Nudge::BareUser;
        self.tail.extend(tail::nudge(message, form));
        plan::tell_empty(self.run.used().turns + 1, because, out);
    }

    fn nudge_form(&self, message: &Message) -> Nudge {
        let has_thinking = turn::finished(message).hidden;
        self.capability.nudge(plan::thinking(&self.body), has_thinking)
    }

    /// The bare user message comes once: a second one would merge with it.
    pub(super) fn is_bare_again(&self, message: &Message) -> bool {
        self.nudged_bare && self.nudge_form(message) == Nudge::BareUser
    }
}
