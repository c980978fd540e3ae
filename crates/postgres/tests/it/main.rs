//! The tests of the state on PostgreSQL, over a real server.

mod keys;
mod loss;
mod state;

#[path = "../../../../tests/servers/alike.rs"]
mod alike;
#[path = "../../../../tests/servers/outage.rs"]
mod outage;
#[path = "../../../../tests/servers/required.rs"]
mod required;
#[path = "../../../../tests/servers/postgres.rs"]
mod server;
#[path = "../../../../tests/servers/windows.rs"]
mod windows;

#[test]
fn tests_with_postgres_pass() {
    required::run_with_server("postgres", &server::postgres_program("postgres"));
}
