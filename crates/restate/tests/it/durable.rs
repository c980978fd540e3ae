//! The mock of an engine, and the adversary's runs under an engine, from the tests of the agent.
#![allow(dead_code, clippy::allow_attributes, reason = "shared with the agent's tests")]

#[path = "../../../agent/tests/it/durable/hostile_run.rs"]
pub(crate) mod hostile_run;
#[path = "../../../agent/tests/it/durable/mock.rs"]
pub(crate) mod mock;
