//! Records on Redis that another release has written.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use softland_govern::key_store::{KeyStore as _, add_key};

use crate::outage::key;
use crate::server::RedisServer;
use crate::state::connect;
use crate::stories::{check_records, leave_records};

/// The records of the releases whose records are read, each as `write_records` has left them.
const RELEASES: [(&str, &str); 1] = [("0.1", include_str!("records/0.1.json"))];

/// Returns all keys with their values; a score of a sorted set is a number.
fn read_all(server: &RedisServer) -> Value {
    let command = |words: &[&str]| -> Value {
        let words = [&["--json"], words].concat();
        serde_json::from_str(&server.command(&words)).expect("JSON")
    };
    let keys: Vec<String> = serde_json::from_value(command(&["keys", "*"])).expect("names");
    let mut all = BTreeMap::new();
    for key in keys {
        let kind = command(&["type", &key]);
        let value = match kind.as_str() {
            Some("string") => command(&["get", &key]),
            Some("hash") => command(&["hgetall", &key]),
            Some("list") => command(&["lrange", &key, "0", "-1"]),
            Some("zset") => command(&["zrange", &key, "0", "-1", "withscores"]),
            _ => panic!("{kind} of {key}"),
        };
        all.insert(key, json!({ "type": kind, "value": value }));
    }
    json!(all)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Fills an empty server with such records.
fn fill(server: &RedisServer, records: &Map<String, Value>) {
    for (key, record) in records {
        let value = &record["value"];
        let items = || value.as_array().into_iter().flatten();
        let (command, words): (_, Vec<String>) = match record["type"].as_str() {
            Some("string") => ("set", vec![text(value)]),
            Some("hash") => {
                let fields = value.as_object().into_iter().flatten();
                ("hset", fields.flat_map(|(field, value)| [field.clone(), text(value)]).collect())
            }
            Some("list") => ("rpush", items().map(text).collect()),
            _ => {
                let pair = |pair: &Value| [text(&pair[1]), text(&pair[0])];
                ("zadd", items().flat_map(pair).collect())
            }
        };
        let mut line = vec![command, key];
        line.extend(words.iter().map(String::as_str));
        let said = server.command(&line);
        assert!(!said.contains("ERR"), "{said}");
    }
}

fn records(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).expect("records")
}

/// Writes down the records of this release, for the tests of later ones:
/// `cargo test -p softland-redis --features client --test it -- --ignored write_records`.
#[tokio::test]
#[ignore = "writes a file into this folder, by hand before a release"]
async fn write_records() {
    let server = RedisServer::start();
    let state = connect(&server).with_given_times();
    leave_records(&state).await;
    add_key(&state, key("ana")).await.expect("it answers");
    let records = serde_json::to_string_pretty(&read_all(&server)).expect("JSON");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/records/");
    let version = env!("CARGO_PKG_VERSION").rsplit_once('.').expect("three numbers").0;
    std::fs::write(format!("{folder}{version}.json"), records + "\n").expect("written");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn records_of_each_release_are_read_from_redis() {
    for (release, text) in RELEASES {
        let server = RedisServer::start();
        fill(&server, &records(text));
        let state = connect(&server).with_given_times();
        check_records(&state).await;
        let keys = state.read_keys(None).await.expect("it answers").expect("keys").keys;
        assert_eq!(keys, [key("ana")], "keys of {release}");
    }
}

/// A newer release adds members to records, and fields: those are read past, and fields stay.
#[tokio::test]
#[ignore = "needs redis-server"]
async fn what_a_newer_release_adds_on_redis_hinders_nobody() {
    let (_, text) = RELEASES[RELEASES.len() - 1];
    let mut records = records(text);
    let mut hashes = Vec::new();
    for (key, record) in &mut records {
        let Some(fields) = record["value"].as_object_mut() else { continue };
        // Items are what clients have sent, and no record.
        for (_, value) in fields.iter_mut().filter(|(field, _)| *field != "items") {
            let members = value.as_str().and_then(|text| serde_json::from_str(text).ok());
            let Some(Value::Object(mut members)) = members else { continue };
            members.insert("of a newer release".to_owned(), json!({ "v": 9 }));
            *value = Value::Object(members).to_string().into();
        }
        // A hash of names has no fields of its own.
        if !key.ends_with(":keys") && !key.contains(":h:") {
            fields.insert("~newer".to_owned(), "kept".into());
            hashes.push(key.clone());
        }
    }
    let server = RedisServer::start();
    fill(&server, &records);
    check_records(&connect(&server).with_given_times()).await;
    let kept = |key: &&String| server.command(&["hget", key.as_str(), "~newer"]).trim() == "kept";
    let left: Vec<&String> = hashes.iter().filter(kept).collect();
    let talk = "{softland}:s:talk".to_owned();
    assert!(left.contains(&&talk) && left.len() > 3, "{left:?} of {hashes:?}");
}
