//! Keys in a store.

use softland_govern::suite::check_key_store;
use softland_govern::{LocalKeyStore, StoredKey, TokenDigest};

#[tokio::test]
async fn k39_keys_in_memory_do_what_every_store_of_keys_does() {
    check_key_store(async || LocalKeyStore::default()).await;
}

/// Rows of the first release with keys, with and without their optional members. Members that a later
/// release adds are skipped.
#[test]
fn rows_of_earlier_and_later_releases_are_read() {
    let digest = TokenDigest::from_sha256([7; 32]);
    let whole = format!(
        r#"{{"name":"ana","token_sha256":"{digest}","account":"acme/ana","policy":"coding","policies":["coding","strict"],"created":5,"rotated":7,"previous":{{"token_sha256":"{digest}","until":9}},"revoked":8}}"#
    );
    let read: StoredKey = serde_json::from_str(&whole).expect("a row");
    assert_eq!(serde_json::to_string(&read).expect("JSON"), whole);
    assert_eq!((read.created, read.rotated, read.revoked), (5, Some(7), Some(8)));
    let small = format!(r#"{{"name":"bo","token_sha256":"{digest}","created":5,"later":[]}}"#);
    let read: StoredKey = serde_json::from_str(&small).expect("a row");
    assert!(read.policies.is_empty() && read.account.is_none() && read.revoked.is_none());
    let torn: Result<StoredKey, _> = serde_json::from_str(r#"{"name":"c","token_sha256":"abc"}"#);
    assert!(torn.is_err());
}
