//! The tests of the state on Redis, over a real server.

mod cluster;
mod keys;
mod loss;
mod records;
mod state;
mod tls;

#[path = "../../../../tests/servers/alike.rs"]
mod alike;
#[path = "../../../../tests/servers/outage.rs"]
mod outage;
#[path = "../../../../tests/servers/required.rs"]
mod required;
#[path = "../../../../tests/servers/redis.rs"]
mod server;
#[path = "../../../../tests/servers/records.rs"]
mod stories;
#[path = "../../../../tests/servers/windows.rs"]
mod windows;

#[test]
fn tests_with_redis_pass() {
    required::run_with_server("redis", &server::find_program());
}
