//! Keys on Redis: what every store of keys does, and that they stay.

use softland_govern::key_store::add_key;
use softland_govern::suite::{check_content_store, check_key_store};

use crate::outage::{check_kept_keys, check_unreadable_keys, key};
use crate::server::RedisServer;
use crate::state::connect;

#[tokio::test]
#[ignore = "needs redis-server"]
async fn keys_on_redis_do_what_every_store_of_keys_does() {
    let server = RedisServer::start();
    check_key_store(async || {
        server.command(&["flushall"]);
        connect(&server)
    })
    .await;
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn keys_on_redis_have_the_tag_and_stay_and_no_token_is_there() {
    let mut server = RedisServer::start();
    let state = connect(&server);
    check_kept_keys(&mut server, &state, |server| {
        for held in ["{softland}:keys", "{softland}:keys_version"] {
            assert_eq!(server.command(&["ttl", held]).trim(), "-1", "{held} is there, and stays");
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_key_that_redis_cannot_tell_is_named_and_none_other_is_lost() {
    let server = RedisServer::start();
    let state = connect(&server);
    add_key(&state, key("ana")).await.expect("it answers");
    for (name, row) in [("bo", "{\"v\":2}"), ("carl", "no JSON"), ("dora", "{}")] {
        server.command(&["hset", "{softland}:keys", name, row]);
    }
    let moved = serde_json::to_string(&key("ana")).expect("JSON");
    server.command(&["hset", "{softland}:keys", "eve", &moved]);
    check_unreadable_keys(&state, &["bo", "carl", "dora", "eve"]).await;
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn runs_are_deleted_from_redis_with_their_texts() {
    let server = RedisServer::start();
    check_content_store(async || {
        server.command(&["flushall"]);
        connect(&server)
    })
    .await;
}
