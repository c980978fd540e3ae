//! The entry for embedders: a body, what was kept of the conversation, and the facts of the moment.

use bytes::Bytes;
use softland_core::policy::Policy;
use softland_core::{Digest, Facts, Millis, NanoUsd};
use softland_wire::request::{Request, RequestError};

use super::Exchange;
use super::context::Context;
use super::opened::OpenedRequest;
use crate::chain::Chain;
use crate::kept::{Kept, RunMemory};
use crate::out::Output;

/// The facts that an embedder knows beside the conversation. A limit of the policy that needs a
/// fact which is not given is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownFacts {
    /// The time since the run's first request, without idle gaps.
    pub elapsed: Option<Millis>,
    /// Money, for limits of cost.
    pub money: Option<KnownMoney>,
    /// The estimated input of the request, in tokens; 0 where unknown.
    pub next_input: u64,
}

/// The money of a run and of its next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownMoney {
    /// The money of the run so far.
    pub cost: NanoUsd,
    /// The money of the session so far.
    pub session_cost: NanoUsd,
    /// The most that the request's input can cost.
    pub next_input_cost: NanoUsd,
    /// The same at the uncached input price, for the request after it.
    pub reserve_input_cost: NanoUsd,
    /// The most that one output token costs, in pico-dollars.
    pub output_pico: u64,
}

/// The reason why an exchange cannot begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeginError {
    /// The body is no request of the API.
    Request(RequestError),
    /// This key of the policy needs a fact that was not given.
    Unheld(&'static str),
}

impl std::fmt::Display for BeginError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Unheld(key) => {
                let fact = if *key == "time_limit" { "elapsed" } else { "money" };
                write!(f, "{key} cannot be enforced without `{fact}` in `KnownFacts`")
            }
        }
    }
}

impl std::error::Error for BeginError {}

impl KnownFacts {
    /// Returns the key of the first limit that these facts cannot hold.
    fn unheld_limit(&self, policy: &Policy) -> Option<&'static str> {
        let limits = [
            ("time_limit", policy.time_limit.is_some() && self.elapsed.is_none()),
            ("cost_limit_usd", policy.cost_limit_usd.is_some() && self.money.is_none()),
            (
                "session_cost_limit_usd",
                policy.session_cost_limit_usd.is_some() && self.money.is_none(),
            ),
        ];
        limits.into_iter().find(|(_, unheld)| *unheld).map(|(key, _)| key)
    }

    fn to_facts(self, run: RunMemory, here: Digest, thinking_budget: u64) -> Facts {
        let money = self.money.unwrap_or_default();
        let vain = run.vain.filter(|(context, _)| *context == here);
        Facts {
            tokens: run.tokens,
            cost: money.cost,
            session_cost: money.session_cost,
            elapsed: self.elapsed.unwrap_or_default(),
            next_input: self.next_input,
            next_input_cost: money.next_input_cost,
            reserve_input_cost: money.reserve_input_cost,
            output_pico: money.output_pico,
            thinking_budget,
            stale: vain.map_or(0, |(_, times)| times),
            tool_refusals: run.tool_refusals,
            ..Facts::default()
        }
    }
}

impl Exchange {
    /// Begins an exchange of a conversation: joins the history that the request only names, reads
    /// it with what was kept, and decides what to send. The context's records, chain and facts are
    /// not read. Give [`Done`](crate::Done) to [`Kept::merge`] at the end.
    ///
    /// ```
    /// use softland_session::core::policy::Policy;
    /// use softland_session::core::{Millis, Role};
    /// use softland_session::{Context, Exchange, Kept, KnownFacts, Output, Step};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let saved = serde_json::to_string(&Kept::default())?;
    /// let mut kept: Kept = serde_json::from_str(&saved)?; // beside the conversation
    /// let policy = Policy { time_limit: Some(Millis(60_000)), ..Policy::default() };
    /// let context = Context::new(Role::Gateway, policy, None, "claude-sonnet-5-5");
    /// // `time_limit` cannot be held without the time.
    /// let facts = KnownFacts { elapsed: Some(Millis(1_500)), ..KnownFacts::default() };
    /// let body = r#"{"model": "claude-sonnet-5-5", "max_tokens": 100,
    ///     "messages": [{"role": "user", "content": "Hello"}]}"#;
    ///
    /// let mut out = Output::default();
    /// let mut exchange = Exchange::begin(body, &kept, &facts, context, &mut out)?;
    /// # let response = br#"{"id": "msg_1", "type": "message", "role": "assistant",
    /// #     "model": "claude-sonnet-5-5", "content": [{"type": "text", "text": "Hello."}],
    /// #     "stop_reason": "end_turn", "stop_sequence": null,
    /// #     "usage": {"input_tokens": 10, "output_tokens": 2}}"#;
    /// # let post = |_: &[u8]| response;
    /// let done = loop {
    ///     match exchange.next_step()? {
    ///         Step::Send(body) => exchange.push_whole(post(&body), &mut out)?,
    ///         Step::Done(done) => break done,
    ///     }
    /// };
    /// kept.merge(&done);
    /// let saved = serde_json::to_string(&kept)?;
    /// # assert_eq!(done.answer.as_deref(), Some("Hello."));
    /// # assert_eq!(kept.runs.len(), 1);
    /// # assert_ne!(saved, serde_json::to_string(&Kept::default())?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the body is no request of the context's API, or when a limit of the run's policy needs
    /// a fact that is not known.
    pub fn begin(
        body: impl Into<Bytes>,
        kept: &Kept,
        facts: &KnownFacts,
        context: Context,
        out: &mut Output,
    ) -> Result<Self, BeginError> {
        let sent = body.into();
        let request = Request::from_body(context.api, &sent).map_err(BeginError::Request)?;
        let links = kept.find_named_history(&request);
        let joined = links.and_then(|links| Chain::join_links(&request, &sent, &links));
        let (whole, chain) = joined.map_or((sent.clone(), None), |(body, c)| (body, Some(c)));
        let request = match &chain {
            Some(_) => Request::from_body(context.api, &whole).map_err(BeginError::Request)?,
            None => request,
        };
        let context = Context { records: kept.records.clone(), chain, ..context };
        let mut opened =
            OpenedRequest::read_history(&request, whole.clone(), context, kept.stored());
        if let Some(key) = facts.unheld_limit(opened.run_policy()) {
            return Err(BeginError::Unheld(key));
        }
        let here = super::reading::messages_digest(&request);
        opened.set_context_digest(here);
        let run = opened.newest_position().and_then(|here| kept.runs.get(&here.run));
        let budget = super::plan::thinking_budget(&request);
        let facts = facts.to_facts(run.copied().unwrap_or_default(), here, budget);
        Ok(opened.into_exchange(&facts, out))
    }
}
