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
#[cfg(feature = "postgres")]
mod ledger_postgres;
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

#[cfg(feature = "postgres")]
#[path = "../../../../tests/servers/postgres.rs"]
#[expect(dead_code, reason = "other tests hold transactions open")]
mod postgres_server;
#[cfg(feature = "postgres")]
#[path = "../../../../tests/servers/required.rs"]
mod required;

/// A server that a test ends and starts again.
#[cfg(feature = "postgres")]
mod outage {
    pub(crate) trait TestServer {
        /// Ends it, as a crash does.
        fn kill(&mut self);

        /// Starts it again, on its port and with what it has kept.
        fn restart(&mut self);
    }
}
