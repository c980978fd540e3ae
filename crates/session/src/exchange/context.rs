//! The context of an exchange: all that it needs to know beside the request.

use std::sync::Arc;

use softland_core::models::Model;
use softland_core::models::capability::Capability;
use softland_core::policy::Policy;
use softland_core::{Facts, PinnedRecords, Role, models};
use softland_wire::Api;
use softland_wire::tags::Shape;

use crate::chain::Chain;

/// The facts that an exchange needs beside the request.
///
/// ```
/// use softland_session::Context;
/// use softland_session::core::policy::Policy;
/// use softland_session::core::{Facts, NanoUsd, Role};
///
/// # fn main() -> Result<(), softland_session::core::ParseMoneyError> {
/// let policy = Policy { cost_limit_usd: Some("2".parse()?), ..Policy::default() };
/// let mut context = Context::new(Role::Gateway, policy, None, "claude-sonnet-5-5");
/// // For the conversation's next request: what the last exchange returned, and what was spent.
/// context.records = Default::default(); // `done.records`
/// context.facts = Facts { cost: "0.25".parse::<NanoUsd>()?, ..Facts::default() };
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Context {
    /// The API that the client speaks.
    pub api: Api,
    /// The side that executes the tools.
    pub role: Role,
    /// The policy for a run that has no record yet.
    pub policy: Arc<Policy>,
    /// Records that earlier exchanges returned.
    pub records: PinnedRecords,
    /// Facts that the transcript does not show, as of now.
    pub facts: Facts,
    /// The capabilities of the model's API.
    pub capability: Capability,
    /// The model's largest output, in tokens; `None` where unknown.
    pub output_maximum: Option<u64>,
    /// The most that a request and its answer may have together, in tokens; `None` where unknown.
    pub window: Option<u64>,
    /// The shape of calls that the model writes as text: how they are read, and which text of the
    /// responses the client gets. `None`: text is text.
    pub shape: Option<Arc<Shape>>,
    /// The chain by which the request's body was joined, where the provider keeps the earlier
    /// history.
    pub chain: Option<Chain>,
    /// The time of the client's request, in seconds since 1970. An answer that softland gives
    /// itself carries it, where the API has a time. 0 where nobody reads it.
    pub asked_at: u64,
}

impl Context {
    /// Creates the context of a conversation's first request, with the built-in tables' entries for
    /// the model. `provider` may be left out where the model's name says enough.
    #[must_use]
    pub fn new(
        role: Role,
        policy: impl Into<Arc<Policy>>,
        provider: Option<&str>,
        model: &str,
    ) -> Self {
        let row = models::find_model(provider, model);
        Self::from_row(role, policy, row, models::capability_of_row(row, provider, model))
    }

    /// Creates the context from the model's row and the capabilities of its API, where the caller
    /// has looked them up. The row is `None` for an unknown model.
    #[must_use]
    pub fn from_row(
        role: Role,
        policy: impl Into<Arc<Policy>>,
        known: Option<&Model>,
        capability: Capability,
    ) -> Self {
        Self {
            api: Api::default(),
            role,
            policy: policy.into(),
            records: PinnedRecords::new(),
            facts: Facts::default(),
            capability,
            output_maximum: known.and_then(|model| model.max_output).map(u64::from),
            window: known.and_then(|model| model.context_window).map(u64::from),
            shape: None,
            chain: None,
            asked_at: 0,
        }
    }
}

/// The model's largest sizes in tokens, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModelLimits {
    pub(super) output: Option<u64>,
    /// The largest sum of an answer and its request.
    pub(super) window: Option<u64>,
}

impl ModelLimits {
    pub(super) fn from_context(context: &Context) -> Self {
        Self { output: context.output_maximum, window: context.window }
    }
}
