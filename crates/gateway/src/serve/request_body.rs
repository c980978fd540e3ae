//! The bodies of clients' requests: read as a whole within bounds ([`read_body`]), or passed on as
//! they arrive ([`OutgoingBody`]).
//!
//! Nothing here is buffered without a bound.

mod budget;
mod outgoing;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use budget::{BodyBudget, BudgetShare};
pub(crate) use outgoing::{OutgoingBody, UploadProgress};
pub(crate) use read::{BodyError, ReadBody, read_body};
