//! A test of [`KeyStore`] that any implementation can run.

use futures_util::future;

use crate::key::TokenDigest;
use crate::key_store::{
    KeyChangeError, KeyStore, PreviousToken, StoredKey, StoredKeys, add_key, revoke_key, rotate_key,
};

/// Checks an implementation. Each call of `make` has to give an empty store.
///
/// # Panics
/// Panics where the implementation does something else than
/// [`LocalKeyStore`](crate::LocalKeyStore) does.
pub async fn check_key_store<S: KeyStore>(make: impl AsyncFn() -> S) {
    check_versions(&make().await).await;
    check_rows(&make().await).await;
    check_changes(&make().await).await;
    check_writers(&make().await).await;
}

/// A digest of its own for each number.
fn digest(of: u8) -> TokenDigest {
    TokenDigest::from_sha256([of; 32])
}

fn key(name: &str) -> StoredKey {
    StoredKey::new(name, digest(7), 1)
}

async fn read(store: &dyn KeyStore) -> StoredKeys {
    let keys = store.read_keys(None).await.expect("the store answers");
    keys.expect("a caller that knows no version gets the keys")
}

/// Each change has a later version. A caller that knows the version gets no keys.
async fn check_versions(store: &dyn KeyStore) {
    assert_eq!(read(store).await, StoredKeys::default(), "an empty store has no keys");
    let mut known = 0;
    for name in ["b", "a", "b"] {
        let unchanged = store.read_keys(Some(known)).await.expect("the store answers");
        assert_eq!(unchanged, None, "nothing has changed since {known}");
        let written = store.write_key(known, &key(name)).await.expect("the store answers");
        assert!(written, "{known} is the version");
        let late = store.write_key(known, &key("late")).await.expect("the store answers");
        assert!(!late, "{known} is not the version any more");
        let changed = store.read_keys(Some(known)).await.expect("the store answers");
        let changed = changed.expect("it has changed");
        assert!(changed.version > known);
        known = changed.version;
    }
    let names: Vec<String> =
        read(store).await.keys.iter().map(|key| key.name.to_string()).collect();
    assert_eq!(names, ["a", "b"], "each name once, in their order");
}

/// A row comes back as it was written, whatever is in its texts.
async fn check_rows(store: &dyn KeyStore) {
    let strange = "a:b/{c} \"d\"\n\u{e4}\u{1f511}";
    let whole = StoredKey {
        account: Some("acme/search/ana".into()),
        policy: Some(strange.to_owned()),
        policies: vec!["strict".to_owned(), strange.to_owned()],
        created: 1_795_000_000_123,
        rotated: Some(1_795_000_000_124),
        previous: Some(PreviousToken { token_sha256: digest(8), until: 9 }),
        revoked: Some(u64::from(u32::MAX) * 1000),
        ..key("ana")
    };
    for row in [&whole, &key(strange)] {
        let version = read(store).await.version;
        assert!(store.write_key(version, row).await.expect("the store answers"));
        assert_eq!(read(store).await.find_name(&row.name), Some(row));
    }
    assert_eq!(read(store).await.keys.len(), 2);
}

/// The rules of changes: a name is given once, and a revoked key stays revoked.
async fn check_changes(store: &dyn KeyStore) {
    assert_eq!(revoke_key(store, "ana", 2).await, Err(KeyChangeError::Unknown));
    let unknown = rotate_key(store, "ana", digest(1), (2, 0)).await;
    assert_eq!(unknown, Err(KeyChangeError::Unknown));
    add_key(store, key("ana")).await.expect("the name is free");
    assert_eq!(add_key(store, key("ana")).await, Err(KeyChangeError::Taken));
    for name in ["", "a b", "a/b", "a:b", "\u{e4}"] {
        assert_eq!(add_key(store, key(name)).await, Err(KeyChangeError::Malformed), "{name:?}");
    }
    let rotated = rotate_key(store, "ana", digest(2), (5, 0)).await.expect("a new token");
    assert_eq!(
        (rotated.token_sha256, rotated.rotated, rotated.previous),
        (digest(2), Some(5), None)
    );
    let kept = rotate_key(store, "ana", digest(3), (7, 10)).await.expect("a new token");
    let previous = Some(PreviousToken { token_sha256: digest(2), until: 17 });
    assert_eq!((kept.token_sha256, kept.previous), (digest(3), previous));
    assert_eq!(read(store).await.keys, [kept]);
    let revoked = revoke_key(store, "ana", 8).await.expect("it is there");
    assert_eq!(revoked.revoked, Some(8));
    assert_eq!(revoke_key(store, "ana", 9).await, Ok(revoked.clone()), "it stays as it was");
    let again = rotate_key(store, "ana", digest(4), (9, 0)).await;
    assert_eq!(again, Err(KeyChangeError::Revoked(8)), "no new token brings it back");
    assert_eq!(add_key(store, key("ana")).await, Err(KeyChangeError::Revoked(8)), "nor its name");
    assert_eq!(read(store).await.keys, [revoked]);
}

/// No writer overwrites a change of another that it has not read.
async fn check_writers(store: &dyn KeyStore) {
    let names: Vec<String> = (0..4).map(|n| format!("key{n}")).collect();
    let added = future::join_all(names.iter().map(|name| add_key(store, key(name)))).await;
    assert!(added.iter().all(Result::is_ok), "{added:?}");
    assert_eq!(read(store).await.keys.len(), names.len());
    let same = future::join_all((0..4).map(|_| add_key(store, key("one")))).await;
    assert_eq!(same.iter().filter(|added| added.is_ok()).count(), 1, "{same:?}");
}
