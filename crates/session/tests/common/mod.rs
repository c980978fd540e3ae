//! What the tests of the session share.
#![allow(dead_code, reason = "each test uses what it needs")]

pub(crate) mod client;
pub(crate) mod hostile;
