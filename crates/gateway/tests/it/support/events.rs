//! Reading what the pages' API streams.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::{Running, Wire};

/// Longer than anything here takes on a machine that has much to do.
const LONG: Duration = Duration::from_secs(120);

/// A reader of server-sent events.
pub(crate) struct Events {
    wire: Wire,
    text: String,
}

impl Events {
    pub(crate) async fn of(gateway: &Running, path: &str, last: Option<&str>) -> Self {
        let mut wire = gateway.client().await;
        let last = last.map(|last| format!("last-event-id: {last}"));
        let headers: Vec<&str> = last.iter().map(String::as_str).collect();
        wire.send(gateway.request(&format!("GET {path}"), &headers, "")).await;
        let head = wire.head().await.expect("a head");
        assert_eq!(head.status(), 200, "{head:?}");
        assert!(head.header("content-type").is_some_and(|kind| kind.starts_with("text/event-s")));
        Self { wire, text: String::new() }
    }

    /// The next event with its id; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                let Some(data) = field("data: ") else { continue };
                let id = field("id: ").unwrap_or_default().to_owned();
                let mut value: Value = serde_json::from_str(data).expect("JSON");
                if let Some(kind) = field("event: ") {
                    value["kind"] = kind.into();
                }
                return Some((id, value));
            }
            let chunk = timeout(LONG, self.wire.chunk()).await.expect("something comes")?;
            if chunk.is_empty() {
                return None;
            }
            self.text.push_str(std::str::from_utf8(&chunk).expect("whole lines"));
        }
    }

    /// Everything to the end of the run, or of the stream.
    pub(crate) async fn rest(&mut self) -> Vec<(String, Value)> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}
