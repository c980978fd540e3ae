//! The integration tests of this crate, in one binary: to link each file alone takes longer than to
//! run it.

mod audit;
mod audit_ledger;
mod bad_input;
mod budgets;
mod check;
mod default_ledger;
mod documented;
mod first_steps;
mod generated;
mod keys;
mod ledger;
mod mcp;
mod mcp_http;
mod mcp_serve;
mod notebook;
mod resume;
mod resume_agents;
mod run;
mod serve;
mod sim;
mod sub_agents;
mod sub_agents_caps;
mod support;
mod terminal;
mod tidy;
mod tools;
mod wrap;
mod wrong_commands;
