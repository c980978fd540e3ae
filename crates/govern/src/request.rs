//! A client's request, as its host hands it over.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use softland_session::core::{AccountAbove, Millis, NanoUsd};

use crate::active::ActiveRequest;
use crate::services::Services;
use crate::target::Target;
use crate::transport::Transport;

/// A client's request whose body has been read.
pub struct ClientRequest {
    /// The state that it shares with other requests.
    pub services: Arc<Services>,
    /// The way to the upstreams.
    pub transport: Arc<dyn Transport>,
    /// Its destination.
    pub target: Target,
    /// Its head.
    pub parts: Parts,
    /// The runs around its run whose money, tokens and time it uses too, where the host knows them;
    /// the run itself among them, if its conversations share tokens and time.
    pub around: Vec<BudgetAround>,
    /// The tokens that runs within its run have used, where the host knows them.
    pub nested_tokens: u64,
    /// Something that the host holds until the body is no longer needed.
    pub held: Option<Box<dyn Any + Send + Sync>>,
    /// The part of it that others may reach.
    pub active: Arc<ActiveRequest>,
}

/// The limits of a run that hold for each conversation and each run within it, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetAround {
    /// The name of the run, as its own requests give it.
    pub run: Arc<str>,
    /// Its limit of money.
    pub cost_limit: Option<NanoUsd>,
    /// The output tokens that it holds back for its own answer.
    pub reserve_tokens: u64,
    /// Its limit of tokens, and the tokens that are used of it or held back for its answer.
    pub tokens: Option<AccountAbove<u64>>,
    /// The time that its limit leaves, less what it holds back for its answer.
    pub time_left: Option<Millis>,
}

impl fmt::Debug for ClientRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRequest").field("id", &self.target.id).finish_non_exhaustive()
    }
}
