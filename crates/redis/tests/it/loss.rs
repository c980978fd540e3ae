//! The store ends and comes back; a gateway ends and does not.

use crate::outage::{check_another_gateway, check_spending, check_start};
use crate::server::RedisServer;
use crate::state::connect;

#[tokio::test]
#[ignore = "needs redis-server"]
async fn what_was_spent_while_redis_was_away_is_booked_once_when_it_is_back() {
    let mut server = RedisServer::start();
    let state = connect(&server);
    check_spending(&mut server, &state).await;
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_gateway_starts_while_redis_is_away() {
    let mut server = RedisServer::start();
    let url = server.url();
    check_start(&mut server, || softland_redis::connect(&url).expect("an address")).await;
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_run_goes_on_through_another_gateway_of_one_redis() {
    let server = RedisServer::start();
    check_another_gateway((connect(&server), connect(&server)), || {
        let host = server.command(&["zrange", "{softland}:hosts", "0", "0"]);
        let server = &server;
        move || drop(server.command(&["zadd", "{softland}:hosts", "1", host.trim()]))
    })
    .await;
}
