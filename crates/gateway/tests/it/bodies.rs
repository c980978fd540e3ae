//! The memory that the bodies of all requests share.

use crate::support;

use crate::support::{Provider, Running, response, settings};

/// Many bodies that are each allowed: what is beyond the room for all of them is to come again, and
/// the room is there again when an exchange has ended.
#[tokio::test]
async fn all_bodies_together_may_not_be_larger_than_allowed() {
    let provider = Provider::says(response("200 OK", &[], "through")).await;
    let mut settings = settings(&provider.url());
    settings.limits.bodies = 1 << 20;
    let gateway = Running::with(settings).await;
    let large = |bytes: usize| format!("{{\"system\":\"{}\"}}", "x".repeat(bytes));
    let post = |body: &str| gateway.request("POST /v1/messages", &[], body);
    // It waits with its body in memory, but for the last byte.
    let mut waiting = gateway.client().await;
    let first = post(&large(700 << 10));
    waiting.send(&first[..first.len() - 1]).await;
    let full = async {
        loop {
            let got = gateway.ask(post(&large(700 << 10))).await;
            if got.status() == 503 {
                return got;
            }
        }
    };
    let got = tokio::time::timeout(support::LONG, full).await.expect("it is full");
    assert!(got.text().contains("no more large requests for now"), "{}", got.text());
    assert!(got.text().contains("\"type\":\"error\""), "Anthropic's shape: {}", got.text());
    assert_eq!(got.header("retry-after"), Some("1"));
    let packed = {
        let (text, mut packed) = (large(700 << 10), Vec::new());
        let mut encoder = async_compression::tokio::bufread::GzipEncoder::new(text.as_bytes());
        tokio::io::AsyncReadExt::read_to_end(&mut encoder, &mut packed).await.expect("packed");
        packed
    };
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {}\r\ncontent-encoding: gzip\r\n\
         content-length: {}\r\n\r\n",
        gateway.address,
        packed.len()
    );
    let unpacked = gateway.ask([head.as_bytes(), &packed].concat()).await;
    assert_eq!(unpacked.status(), 503, "it is counted as it is unpacked");
    let small = gateway.ask(post(&large(1000))).await;
    assert_eq!(small.status(), 200, "a small one is served: {}", small.text());
    gateway.until_metrics("softland_events_total{event=\"bodies_full\"} ").await;
    waiting.send(&first[first.len() - 1..]).await;
    assert_eq!(waiting.message().await.expect("an answer").status(), 200);
    let again = async {
        while gateway.ask(post(&large(700 << 10))).await.status() != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(support::LONG, again).await.expect("the room is there again");
}
