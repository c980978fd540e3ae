//! Keys on PostgreSQL: what every store of keys does, and that they stay.

use softland_govern::key_store::{add_key, revoke_key};
use softland_govern::suite::check_key_store;
use softland_govern::{KeyStore as _, StoredKey, TokenDigest};

use crate::server::PostgresServer;
use crate::state::{connect, connect_empty};

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
#[ignore = "needs postgres"]
async fn keys_on_postgres_do_what_every_store_of_keys_does() {
    let server = PostgresServer::start();
    check_key_store(async || connect_empty(&server)).await;
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn keys_on_postgres_stay_over_a_restart() {
    let mut server = PostgresServer::start();
    let state = connect(&server);
    add_key(&state, key("ana-token")).await.expect("it answers");
    revoke_key(&state, "ana-token", 2).await.expect("it answers");
    server.sql("SELECT softland_sweep()");
    let before = state.read_keys(None).await.expect("it answers").expect("keys");
    assert_eq!(before.keys.len(), 1, "{before:?}");
    server.restart();
    let answered = async {
        loop {
            if let Ok(keys) = state.read_keys(Some(before.version)).await {
                break keys;
            }
        }
    };
    let again = tokio::time::timeout(std::time::Duration::from_secs(60), answered).await;
    assert_eq!(again, Ok(None), "it has kept them");
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn a_key_that_postgres_cannot_tell_is_named_and_none_other_is_lost() {
    let server = PostgresServer::start();
    let state = connect(&server);
    add_key(&state, key("ana")).await.expect("it answers");
    server.sql(
        "INSERT INTO softland_keys VALUES ('bo', '{\"v\":2}'), ('carl', 'no JSON'), ('dora', '{}')",
    );
    let mut keys = state.read_keys(None).await.expect("it answers").expect("keys");
    keys.unreadable.sort();
    assert_eq!(keys.keys, [key("ana")]);
    let unreadable: Vec<&str> = keys.unreadable.iter().map(|name| &**name).collect();
    assert_eq!(unreadable, ["bo", "carl", "dora"]);
}
