//! The integration tests of this crate, in one binary: to link each file alone takes longer than to
//! run it.

mod adversary;
mod behaviours;
mod common;
mod durable;
mod embedding;
mod fuzz_agent_file;
mod journal;
mod protocols;
mod sub_agents;
mod tags;
mod truth;
