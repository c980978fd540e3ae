//! Every Anthropic recording of the shared folder: the same events however the stream is cut, and
//! the same text, calls, stop reason and usage as an independent reading of its JSON. The folder
//! is not part of the repository; where it is absent these tests say so and pass.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a failed step is a failed test; the recordings are read at run time"
)]

use crate::support;

use std::{fs, path::PathBuf};

use crate::support::{
    assembled, assert_same_everywhere, check_message, frames, read_events, read_message,
};
use serde_json::Value;
use softland_wire::Splice;
use softland_wire::{
    Api,
    anthropic::{ApiError, Event, ResponseMessage},
    request::Request,
};

fn folder() -> PathBuf {
    let path =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/recordings/anthropic"));
    assert!(path.is_dir(), "there are no recordings at {path:?}");
    path
}

/// Returns name and bytes of every recording that ends in `suffix`.
fn recordings(suffix: &str) -> Vec<(String, Vec<u8>)> {
    let folder = folder();
    let mut found: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(suffix))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(&path).unwrap())
        })
        .collect();
    found.sort();
    assert!(found.len() > 20, "only {} recordings end in {suffix}", found.len());
    found
}

/// One recording holds the answers to several requests, one after the other.
fn responses(stream: &[u8]) -> Vec<&str> {
    let stream = std::str::from_utf8(stream).unwrap();
    let mut found = Vec::new();
    let mut rest = stream;
    while let Some(at) = rest.find("event: message_stop") {
        let end = at + rest[at..].find("\n\n").map_or(rest.len() - at, |end| end + 2);
        let (response, after) = rest.split_at(end);
        found.push(response);
        rest = after;
    }
    found.extend((!rest.trim().is_empty()).then_some(rest));
    assert_eq!(found.concat().trim_end(), stream.trim_end());
    found
}

fn is_response(name: &str) -> bool {
    !name.ends_with(".req.json") && !name.starts_with("error_")
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn streams_decode_alike_however_they_are_cut() {
    for (name, bytes) in recordings(".sse") {
        let pieces = assert_same_everywhere(&name, &bytes);
        println!("{name}: {} bytes, {pieces} cuts", bytes.len());
    }
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn streams_say_what_their_json_says() {
    for (name, bytes) in recordings(".sse") {
        for response in responses(&bytes) {
            let expected = read_events(response);
            check_message(&name, &assembled(response.as_bytes()).message, &expected);
        }
    }
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn every_event_of_every_stream_is_known() {
    for (name, bytes) in recordings(".sse") {
        for frame in frames(&[&bytes]) {
            if frame.data.is_empty() {
                continue;
            }
            let event = Event::from_data(&frame.event, &frame.data).unwrap();
            assert!(!matches!(event, Event::Unknown { .. }), "{name}: {event:?}");
            assert!(!matches!(event, Event::OtherDelta { .. }), "{name}: {event:?}");
        }
        for response in responses(&bytes) {
            let finished = assembled(response.as_bytes());
            assert_eq!(finished.strays, 0, "{name}");
            let restarts = u32::from(name.starts_with("duplicate_message_start"));
            assert_eq!(finished.restarts, restarts, "{name}");
        }
    }
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn whole_responses_say_what_their_json_says() {
    for (name, bytes) in recordings(".json") {
        if is_response(&name) {
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            let message = ResponseMessage::from_json(&bytes).unwrap();
            check_message(&name, &message, &read_message(&value));
        }
    }
}

/// The blocks of every response, written for the next request, are the blocks received.
#[test]
#[ignore = "reads recordings from ../shared"]
fn blocks_go_back_as_they_came() {
    for (name, bytes) in recordings(".json") {
        if is_response(&name) {
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            for (n, block) in ResponseMessage::from_json(&bytes).unwrap().blocks.iter().enumerate()
            {
                let mut out = Vec::new();
                block.write_json(&mut out);
                let written: Value = serde_json::from_slice(&out).unwrap();
                assert_eq!(written, value["content"][n], "{name} block {n}");
            }
        }
    }
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn requests_scan_and_stay_as_they_are() {
    for (name, bytes) in recordings(".req.json") {
        let request =
            Request::from_body(Api::Anthropic, &bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(Splice::new().apply(&bytes).unwrap(), bytes, "{name}");
        support::check_request(&name, &request, &serde_json::from_slice(&bytes).unwrap());
    }
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn error_answers_say_what_their_json_says() {
    for (name, bytes) in recordings(".json") {
        if name.starts_with("error_") && !name.ends_with(".req.json") {
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            let error = ApiError::from_response(400, &bytes);
            assert_eq!(error.kind, value["error"]["type"], "{name}");
            assert_eq!(error.message, value["error"]["message"].as_str().unwrap(), "{name}");
            assert_eq!(error.request_id.as_deref(), value["request_id"].as_str(), "{name}");
        }
    }
}
