//! Whose fault an error answer is.

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The request: it will fail again unless it is changed.
    Request,
    /// The key or the account behind it: a person must act.
    Account,
    /// The provider, or the way to it: waiting may help.
    Provider,
}
