//! The reading of a client's request: the request itself, its run, and the lines that govern its
//! history. It is made once, when the exchange begins.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use softland_core::models::capability::{Capability, NudgeForm};
use softland_core::{
    Call, Digest, Facts, Ladder, MessageEffects, MessagePosition, Phase, PinnedRecord,
    PinnedRecords, Role, Run, Rung, tables,
};
use softland_wire::request::{OwnedRequest, Request, Role as RequestRole};
use softland_wire::{Api, Splice};

use super::context::ModelLimits;
use super::opened::OpenedRequest;
use super::{hosted, plan};
use crate::chain::Chain;
use crate::framing::StreamTerms;
use crate::history::FoldedHistory;
use crate::outline::PrefixDigests;
use crate::protocols::new_framing;
use crate::relay::Relay;
use crate::remembered::SeenResult;
use crate::reply::Reply;
use crate::rewrite;
use crate::tags::{self, TagReader};

/// A client's request as it was read.
#[derive(Debug)]
pub(super) struct RequestReading {
    pub(super) role: Role,
    /// The client's request, joined with the history before it.
    pub(super) request: OwnedRequest<Bytes>,
    pub(super) chain: Option<Chain>,
    /// The position of its newest message, if that is a user's.
    pub(super) here: Option<MessagePosition>,
    /// The digest that identifies the run; `None` where there is no run.
    pub(super) key: Option<Digest>,
    pub(super) run: Arc<Run>,
    pub(super) records: PinnedRecords,
    /// Results that are not remembered yet, as they are now.
    pub(super) seen: Vec<(Digest, SeenResult)>,
    pub(super) facts: Facts,
    /// The reader of a history in which calls are written as text.
    pub(super) reader: Option<TagReader>,
    /// The caller's remark for an answer that is given for want of money.
    pub(super) remark: Option<String>,
    /// The digest of the client's messages, where the caller knows it.
    context: Option<Digest>,
    /// The lines that govern its history.
    pub(super) lines: Splice,
    capability: Capability,
    pub(super) most: ModelLimits,
    /// The answer tool that a rung may force.
    pub(super) forced_answer: Option<String>,
    asked_at: u64,
}

impl RequestReading {
    /// Finishes the reading of a request, with the facts that hold now. Returns with it what the
    /// newest message led to.
    pub(super) fn from_opened(opened: OpenedRequest<'_>, facts: Facts) -> (Self, MessageEffects) {
        let OpenedRequest { request, body, role, mut fold, capability, most, .. } = opened;
        let OpenedRequest { chain, policy, reader, asked_at, uses, remark, context, .. } = opened;
        let (here, newest) = (fold.here, fold.fold_newest(&facts));
        let FoldedHistory { transcript, splice: mut lines, fresh, .. } = fold;
        // A history without a user message has no run: it is passed on as it is.
        let (key, run, records) = transcript.into_parts();
        let run =
            run.unwrap_or_else(|| Arc::new(Run::without_limits(PinnedRecord::new(policy), role)));
        hosted::write_use_limits(request, &run, uses, &mut lines);
        if plan::stream_terms(request, &run, &facts, asked_at).hidden_usage {
            lines.request_stream_usage(request.text, request.span, request.stream_options);
        }
        let forced_answer = plan::answer_to_force(request, &run);
        let reading = Self {
            role,
            request: OwnedRequest::from_request(request, body),
            chain,
            here,
            key,
            run,
            records,
            seen: fresh.unwrap_or_default(),
            facts,
            reader,
            remark,
            context,
            lines,
            capability,
            most,
            forced_answer,
            asked_at,
        };
        (reading, newest)
    }

    /// Creates the ladder of the exchange.
    pub(super) fn new_ladder(&self, request: &Request<'_>) -> Ladder {
        let mut setting = plan::ladder_setting(
            request,
            &self.run,
            &self.capability,
            &self.facts,
            self.forced_answer.is_some(),
            self.reader.as_ref(),
        );
        // Where a client lets the model's own turn continue, no place can hold a repair.
        setting.repairs &= self.role == Role::Engine || self.here.is_some();
        Ladder::new(setting, if self.is_observing() { &Phase::Open } else { self.run.phase() })
    }

    /// Creates the relay of the exchange.
    pub(super) fn new_relay(&self, request: &Request<'_>) -> Relay {
        let ids = if self.role == Role::Engine { plan::call_ids(request) } else { BTreeSet::new() };
        let asks = plan::stream_terms(request, &self.run, &self.facts, self.asked_at);
        let asks = StreamTerms { delays: self.reader.is_some(), ..asks };
        let framing = new_framing(self.api(), asks);
        let mut relay = Relay::new(framing, self.role, request.stream, Arc::clone(&self.run), ids);
        if let Some(reader) = &self.reader {
            let shape = tags::shape_in_force(&reader.shape, self.role, self.is_observing());
            let reader = TagReader { shape: Arc::new(shape), role: self.role };
            relay.shape_by(reader, self.run.used().turns + 1);
        }
        relay
    }

    /// Returns the API of the request.
    pub(super) fn api(&self) -> Api {
        self.request.api()
    }

    /// Returns the body, joined with the history before it.
    pub(super) fn body(&self) -> &Bytes {
        self.request.body()
    }

    /// True if the run's policy only observes.
    pub(super) fn is_observing(&self) -> bool {
        self.run.policy().is_observing()
    }

    /// True if the history ends in a system message. Not every API lets another one follow.
    pub(super) fn ends_in_system(&self) -> bool {
        let request = self.request.view();
        request.messages.list.last().is_some_and(|m| m.role == RequestRole::System)
    }

    /// Returns the digest of the client's messages.
    pub(super) fn messages_digest(&self) -> Digest {
        self.context.unwrap_or_else(|| messages_digest(&self.request.view()))
    }

    /// Closes a history that ends in the model's turn, so that a text can follow.
    pub(super) fn close_history(&mut self) {
        rewrite::close_history(&mut self.lines, &self.request.view());
    }

    /// Returns the form of a nudge behind this response.
    pub(super) fn nudge_form(&self, reply: &Reply) -> NudgeForm {
        let has_thinking = reply.as_finished_turn().hidden;
        self.capability.nudge_form(plan::thinking_of(&self.request.view()), has_thinking)
    }

    /// Returns the policy key to set where a call that is refused at a limit may be the client's
    /// answer: the run has not called that tool before, and nothing is known of it.
    pub(super) fn policy_advice(&self, rung: Rung, newest: Option<&Reply>) -> Option<String> {
        let refuses = rung == Rung::Refuse && self.role == Role::Gateway;
        let reply = newest.filter(|_| refuses)?;
        let used = &self.run.used().by_tool;
        let is_new = |call: &Call<'_>| !call.server && !used.contains_key(call.name);
        let mut calls = reply.calls_in(&reply.blocks).map(|(call, _)| call);
        let call = calls.find(|call| is_new(call) && tables::kind_of_tool(call.name).is_none())?;
        Some(format!(
            "`{0}` is refused at the limit; if its call is the client's answer, set \
             answer_tool = \"{0}\" in the policy",
            call.name
        ))
    }
}

/// Returns the digest of all messages of a request.
pub(super) fn messages_digest(request: &Request<'_>) -> Digest {
    PrefixDigests::from_request(request).digest_before(request.messages.list.len())
}
