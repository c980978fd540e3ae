//! A client's request, as its host hands it over.

use std::sync::Arc;

use http::request::Parts;

use crate::active::ActiveRequest;
use crate::body::BudgetShare;
use crate::route::Target;
use crate::state::GatewayState;

/// A client's request whose body has been read.
pub(crate) struct ClientRequest {
    pub(crate) gate: Arc<GatewayState>,
    pub(crate) target: Target,
    pub(crate) parts: Parts,
    /// The memory of its body, until the body is no longer needed.
    #[expect(dead_code, reason = "it is held, and given back when it is dropped")]
    pub(crate) share: BudgetShare,
    /// The part of it that others may reach.
    pub(crate) active: Arc<ActiveRequest>,
}
