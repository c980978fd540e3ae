//! The party at fault for an error response.

/// The party at fault for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The request: it will fail again unless it is changed.
    Request,
    /// The API key or its account: a person must act.
    Account,
    /// The provider, or the connection to it: waiting may help.
    Provider,
}
