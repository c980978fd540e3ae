//! What an exchange needs to know beside the request.

use std::sync::Arc;

use softland_core::models::Model;
use softland_core::models::capability::Capability;
use softland_core::policy::Policy;
use softland_core::{Facts, Records, Role, models};
use softland_wire::Api;
use softland_wire::tags::Shape;

use crate::chain::Chain;

/// What an exchange needs to know beside the request.
#[derive(Clone, Debug)]
pub struct Context {
    /// The API that the client speaks.
    pub api: Api,
    /// Who executes the tools.
    pub role: Role,
    /// The policy for a run that has no record yet.
    pub policy: Arc<Policy>,
    /// What earlier exchanges returned to be kept.
    pub records: Records,
    /// What the transcript does not show, now.
    pub facts: Facts,
    /// What the model's API accepts.
    pub capability: Capability,
    /// The model's largest output, in tokens; `None` where unknown.
    pub output_maximum: Option<u64>,
    /// The most that a request and its answer may have together, in tokens; `None` where unknown.
    pub window: Option<u64>,
    /// Where the model writes its calls as text: how these are read, and what of the responses'
    /// text the client gets. `None`: text is text.
    pub shape: Option<Arc<Shape>>,
    /// How the request's body was joined, where the provider keeps what stands before it.
    pub chain: Option<Chain>,
    /// When the client asked, in seconds since 1970: the time of an answer that softland gives
    /// itself, where the API has one. 0 where nobody reads it.
    pub asked_at: u64,
}

impl Context {
    /// The context of a conversation's first request, with what the built-in tables know of the
    /// model. `provider` may be left out where the model's name says enough.
    #[must_use]
    pub fn new(
        role: Role,
        policy: impl Into<Arc<Policy>>,
        provider: Option<&str>,
        model: &str,
    ) -> Self {
        let row = models::find(provider, model);
        Self::of_row(role, policy, row, models::capability_of(row, provider, model))
    }

    /// The same where the model's row is found already, or is known to be none, and what its API
    /// accepts is known.
    #[must_use]
    pub fn of_row(
        role: Role,
        policy: impl Into<Arc<Policy>>,
        known: Option<&Model>,
        capability: Capability,
    ) -> Self {
        Self {
            api: Api::default(),
            role,
            policy: policy.into(),
            records: Records::new(),
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

/// The most that the model gives, as far as that is known, in tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub(super) output: Option<u64>,
    /// Its answer and what it is asked with.
    pub(super) window: Option<u64>,
}

impl Most {
    pub(super) fn of(context: &Context) -> Self {
        Self { output: context.output_maximum, window: context.window }
    }
}
