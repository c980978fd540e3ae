//! A client's request, read up to its newest message, before anything is decided.

use std::sync::Arc;

use bytes::Bytes;
use softland_core::models::capability::Capability;
use softland_core::policy::Policy;
use softland_core::{Digest, Facts, MessagePosition, Role, Transcript};
use softland_wire::request::Request;

use super::context::{Context, ModelLimits};
use super::{Exchange, hosted, plan};
use crate::chain::Chain;
use crate::history::FoldedHistory;
use crate::out::Output;
use crate::past;
use crate::remembered::StoredConversation;
use crate::tags::TagReader;

/// A request whose history was read up to its newest message. It shows what is known of the run
/// before anything is decided, so that a caller can find out the facts.
///
/// ```
/// use bytes::Bytes;
/// use softland_session::core::policy::Policy;
/// use softland_session::core::{Facts, Role};
/// use softland_session::wire::request::Request;
/// use softland_session::{Context, OpenedRequest, Output, Step, StoredConversation};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let body = Bytes::from_static(br#"{"model": "claude-sonnet-5-5", "max_tokens": 100,
///     "tools": [{"name": "ls", "input_schema": {"type": "object"}}],
///     "messages": [{"role": "user", "content": "Hello"}]}"#);
/// let context = Context::new(Role::Gateway, Policy::default(), None, "claude-sonnet-5-5");
/// let request = Request::from_body(context.api, &body)?;
/// let remembered = StoredConversation::default(); // what a store keeps of this conversation
/// let opened = OpenedRequest::read_history(&request, body.clone(), context, remembered);
///
/// // Now the run is known, and with it what it has spent so far.
/// let run = opened.newest_position().expect("a user's message").run;
/// let spent_so_far = |_run| Facts::default();
/// let mut exchange = opened.into_exchange(&spent_so_far(run), &mut Output::default());
/// assert!(matches!(exchange.next_step()?, Step::Send(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OpenedRequest<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) body: Bytes,
    pub(super) role: Role,
    pub(super) fold: FoldedHistory<'a>,
    pub(super) goes_on: bool,
    pub(super) capability: Capability,
    pub(super) most: ModelLimits,
    pub(super) chain: Option<Chain>,
    /// The policy for a run that has no record.
    pub(super) policy: Arc<Policy>,
    pub(super) reader: Option<TagReader>,
    pub(super) asked_at: u64,
    /// The most uses of the provider's own tools, where the request does not say.
    pub(super) uses: Option<u64>,
    /// The caller's remark for an answer that is given for want of money.
    pub(super) remark: Option<String>,
    /// The digest of the client's messages, where the caller knows it.
    pub(super) context: Option<Digest>,
}

impl<'a> OpenedRequest<'a> {
    /// Reads the history of `request`, which was scanned from `body`. Ignores the context's facts.
    #[must_use]
    pub fn read_history(
        request: &'a Request<'a>,
        body: Bytes,
        context: Context,
        remembered: StoredConversation<'a>,
    ) -> Self {
        let most = ModelLimits::from_context(&context);
        let Context { role, policy, records, capability, chain, shape, asked_at, .. } = context;
        let reader = shape.map(|shape| TagReader { shape, role });
        let (fold, goes_on) =
            past::read_history(remembered.past.as_ref(), records, &policy, |records| {
                let mut transcript = Transcript::new(role, Arc::clone(&policy), records);
                if role == Role::Gateway {
                    transcript.set_answer_tools(
                        plan::answer_tools(request),
                        plan::client_forces(request),
                    );
                }
                transcript.set_hosted_tools(hosted::declared_names(request));
                let remembered = (role == Role::Gateway).then(|| remembered.clone());
                FoldedHistory::new(request, transcript, remembered, reader.clone())
            });
        let (uses, remark) = (None, None);
        Self {
            request,
            body,
            role,
            fold,
            goes_on,
            capability,
            most,
            chain,
            policy,
            reader,
            asked_at,
            uses,
            remark,
            context: None,
        }
    }

    /// Bounds the uses of the provider's own tools, where the request does not say. The bound has
    /// to be the same for a whole run, since what is added to a tool is part of the cached prefix.
    pub fn bound_uses(&mut self, uses: Option<u64>) {
        self.uses = uses;
    }

    /// Sets the remark that explains the cost of a request, for an answer for want of money.
    pub fn set_remark(&mut self, remark: Option<String>) {
        self.remark = remark;
    }

    /// Sets the digest of the client's messages ([`Outline::here`](crate::Outline::here)), which is
    /// otherwise read once more at the end.
    pub fn set_context_digest(&mut self, context: Digest) {
        self.context = Some(context);
    }

    /// True if the newest run goes on from the [`Past`](crate::Past) that was remembered.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Returns the position of the newest message; `None` where it is not a user's.
    #[must_use]
    pub fn newest_position(&self) -> Option<MessagePosition> {
        self.fold.here
    }

    /// Returns the policy of the run that the newest message belongs to.
    #[must_use]
    pub fn run_policy(&self) -> &Policy {
        let run = self.fold.here.map(|here| here.run).or_else(|| self.fold.transcript.run_key());
        run.map_or(&self.policy, |run| self.fold.transcript.policy_of(&run))
    }

    /// Decides what to send, by the facts that hold now.
    #[must_use]
    pub fn into_exchange(self, facts: &Facts, out: &mut Output) -> Exchange {
        Exchange::from_opened(self, *facts, out)
    }
}
