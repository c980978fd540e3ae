//! Keys on Redis: what every store of keys does, and that they stay.

use softland_govern::key_store::{add_key, revoke_key};
use softland_govern::suite::check_key_store;
use softland_govern::{KeyStore as _, StoredKey, TokenDigest};

use crate::server::RedisServer;
use crate::state::connect;

fn key(name: &str) -> StoredKey {
    StoredKey {
        name: name.into(),
        token_sha256: TokenDigest::from_sha256([7; 32]),
        account: None,
        policy: None,
        policies: Vec::new(),
        created: 1,
        rotated: None,
        previous: None,
        revoked: None,
    }
}

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
    add_key(&state, key("ana-token")).await.expect("it answers");
    revoke_key(&state, "ana-token", 2).await.expect("it answers");
    for held in ["{softland}:keys", "{softland}:keys_version"] {
        assert_eq!(server.command(&["ttl", held]).trim(), "-1", "{held} is there, and stays");
    }
    let before = state.read_keys(None).await.expect("it answers").expect("keys");
    server.restart();
    let answered = async {
        loop {
            if let Ok(keys) = state.read_keys(Some(before.version)).await {
                break keys;
            }
        }
    };
    let again = tokio::time::timeout(std::time::Duration::from_secs(30), answered).await;
    assert_eq!(again, Ok(None), "it has kept them");
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
    let mut keys = state.read_keys(None).await.expect("it answers").expect("keys");
    keys.unreadable.sort();
    assert_eq!(keys.keys, [key("ana")]);
    let unreadable: Vec<&str> = keys.unreadable.iter().map(|name| &**name).collect();
    assert_eq!(unreadable, ["bo", "carl", "dora", "eve"]);
}
