//! Redis as a cluster: all keys lie in one slot, and the node that has it is found.

use std::time::{Duration, Instant};

use softland_govern::SharedState as _;
use softland_govern::suite::check_shared_state;
use softland_session::core::NanoUsd;

use crate::outage::{SOON, check_spending, read_balance, wait_for_answer, wanted};
use crate::server::{RedisServer, free_port};
use crate::state::connect;

/// Every key that a script touches lies in the slot of the tag, which a node of a cluster demands.
#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_node_of_a_redis_cluster_does_what_every_redis_does() {
    let bus = free_port().to_string();
    let more = ["--cluster-enabled", "yes", "--cluster-port", &bus];
    let server = RedisServer::start_with(&more);
    assert_eq!(server.command(&["cluster", "addslotsrange", "0", "16383"]).trim(), "OK");
    let since = Instant::now();
    while !server.command(&["cluster", "info"]).contains("cluster_state:ok") {
        assert!(since.elapsed() < 2 * SOON, "the cluster is ready");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    check_shared_state(async || {
        server.command(&["flushall"]);
        connect(&server).with_given_times()
    })
    .await;
    let slots = server.command(&["cluster", "countkeysinslot", "0"]);
    assert_eq!(slots.trim(), "0", "of another slot");
    let slot = server.command(&["cluster", "keyslot", "{softland}:hosts"]);
    let held: u64 = server
        .command(&["cluster", "countkeysinslot", slot.trim()])
        .trim()
        .parse()
        .expect("a number");
    let all: u64 = server.command(&["dbsize"]).trim().parse().expect("a number");
    assert!(all > 0 && held == all, "{held} of {all} in the slot of the tag");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn the_master_of_a_redis_cluster_that_has_the_keys_is_found() {
    let mut server = RedisServer::start_cluster();
    let state = connect(&server).with_given_times();
    let taken = state.reserve(wanted("one", 1000, 100)).await.expect("it answers");
    taken.grant.expect("it fits");
    assert_eq!(read_balance(&state).await, (NanoUsd::ZERO, NanoUsd(100)));
    let held: u64 = server.command(&["dbsize"]).trim().parse().expect("a number");
    assert!(held > 0, "it is on the node of the slot");
    // The keys go to another node. In between neither has them all.
    server.begin_move();
    assert!(state.find_run("nobody").await.is_err(), "the store is away meanwhile");
    server.end_move();
    wait_for_answer(&state).await;
    let taken = state.reserve(wanted("two", 1000, 200)).await.expect("it answers");
    taken.grant.expect("it fits");
    assert_eq!(read_balance(&state).await, (NanoUsd::ZERO, NanoUsd(300)));
    let moved: u64 = server.command(&["dbsize"]).trim().parse().expect("a number");
    assert!(moved >= held, "they are on the node that has the slot now");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_master_of_a_redis_cluster_ends_and_comes_back() {
    let mut server = RedisServer::start_cluster();
    let state = connect(&server);
    check_spending(&mut server, &state).await;
}
