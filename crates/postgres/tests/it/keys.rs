//! Keys on PostgreSQL: what every store of keys does, and that they stay.

use softland_govern::key_store::add_key;
use softland_govern::suite::{check_content_store, check_key_store};

use crate::outage::{check_kept_keys, check_unreadable_keys, key};
use crate::server::PostgresServer;
use crate::state::{connect, connect_empty};

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
    check_kept_keys(&mut server, &state, |server| drop(server.sql("SELECT softland_sweep()")))
        .await;
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
    check_unreadable_keys(&state, &["bo", "carl", "dora"]).await;
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn runs_are_deleted_from_postgres_with_their_texts() {
    let server = PostgresServer::start();
    check_content_store(async || connect_empty(&server)).await;
}
