//! Requests that could be taken for two: refused, and nothing of them goes on. Also what chunks
//! may look like.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use crate::support::{Provider, Running, Wire, response};
use tokio::io::AsyncWriteExt as _;

/// A gateway, and a provider that must not be asked.
async fn closed() -> (Provider, Running) {
    let provider = Provider::says(response("200 OK", &[], "ok")).await;
    let gateway = Running::before(&provider).await;
    (provider, gateway)
}

/// All that comes back for these bytes; a connection that is cut while they are sent is an end.
async fn told(client: &mut Wire, bytes: &str) -> String {
    let _ = client.stream.write_all(bytes.as_bytes()).await;
    String::from_utf8(client.rest().await).expect("text")
}

fn inner(gateway: &Running) -> String {
    format!("POST /v1/smuggled HTTP/1.1\r\nhost: {}\r\ncontent-length: 0\r\n\r\n", gateway.address)
}

#[tokio::test]
async fn a_length_and_chunks_together_are_refused_with_what_follows() {
    let (provider, gateway) = closed().await;
    let inner = inner(&gateway);
    let chunk = format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len());
    let bodies = [format!("0\r\n\r\n{inner}"), chunk];
    for both in [
        "content-length: 4\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 4",
        "Content-Length: 4\r\nTRANSFER-ENCODING: Chunked",
        "transfer-encoding:chunked\r\nx: y\r\ncontent-length:4\r\ncontent-length:4",
        "content-length: 0\r\ntransfer-encoding:\t chunked ",
    ] {
        for (path, body) in [("/v1/files", &bodies[0]), ("/v1/messages", &bodies[1])] {
            let head =
                format!("POST {path} HTTP/1.1\r\nhost: {}\r\n{both}\r\n\r\n", gateway.address);
            let answer = told(&mut gateway.client().await, &(head + body)).await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{both}: {answer:?}");
            assert!(answer.contains("connection: close"), "{both}: {answer:?}");
            assert!(answer.contains("once and plainly where it ends"), "{both}: {answer:?}");
            assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{both}: {answer:?}");
        }
    }
    assert_eq!(provider.count(), 0);
    gateway.until_metrics(r#"softland_events_total{event="two_framings"} 10"#).await;
}

#[tokio::test]
async fn it_is_seen_on_a_connection_that_is_kept_and_byte_by_byte() {
    let (provider, gateway) = closed().await;
    let bad = format!(
        "POST /v1/files HTTP/1.1\r\nhost: {}\r\ncontent-length: 5\r\ntransfer-encoding: \
         chunked\r\n\r\n0\r\n\r\n",
        gateway.address
    );
    let plain = gateway.request("POST /v1/files", &[], "whole body\r\n\r\n");
    let chunks = format!(
        "{}5;x=\"y\"\r\n\r\nabc\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n",
        gateway.request("POST /v1/files", &["transfer-encoding: chunked"], "")
    );
    let get = gateway.request("GET /healthz", &[], "");
    let mut client = gateway.client().await;
    client.stream.set_nodelay(true).expect("a socket");
    for request in [&plain, &chunks, &get, &chunks] {
        for byte in request.as_bytes() {
            client.send([*byte]).await;
        }
        assert_eq!(client.message().await.expect("a response").status(), 200);
    }
    assert_eq!(provider.count(), 3);
    let answer = told(&mut client, &bad).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer:?}");
    assert_eq!(provider.count(), 3);
    // Behind another that is sent at once, that one is answered.
    let answer = told(&mut gateway.client().await, &[&*plain, &bad].concat()).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("HTTP/1.1 400 "), "{answer:?}");
    assert_eq!(provider.count(), 4);
}

#[tokio::test]
async fn codings_and_lengths_in_odd_dress_are_refused() {
    let (provider, gateway) = closed().await;
    let inner = inner(&gateway);
    for headers in [
        "transfer-encoding: chunked\r\n , identity",
        "transfer-encoding:\r\n chunked",
        "transfer-encoding: \u{b}chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity",
        "transfer-encoding: chunked, chunked, x",
        "transfer-encoding\t: chunked",
        "transfer_encoding: chunked\r\ntransfer-encoding: cow",
        "content-length: 3\r\ncontent-length: 4",
        "content-length: 3,3",
        "content-length: 0003x",
        &format!("content-length:{}4", " ".repeat(100)),
    ] {
        let head =
            format!("POST /v1/files HTTP/1.1\r\nhost: {}\r\n{headers}\r\n\r\n", gateway.address);
        let answer = told(&mut gateway.client().await, &(head + "0\r\n\r\n" + &inner)).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{headers:?}: {answer:?}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{headers:?}: {answer:?}");
    }
    let old = format!(
        "POST /v1/files HTTP/1.0\r\nhost: {}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        gateway.address
    );
    let answer = told(&mut gateway.client().await, &old).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") || answer.starts_with("HTTP/1.0 400 "));
    assert_eq!(provider.count(), 0);
}

/// Malformed chunks. The head is good, so the answer is an error of the body, or the end.
#[tokio::test]
async fn chunks_out_of_shape_end_the_connection_and_nothing_of_them_is_a_request() {
    let (provider, gateway) = closed().await;
    let inner = inner(&gateway);
    let head = gateway.request("POST /v1/messages", &["transfer-encoding: chunked"], "");
    let extension = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(64 << 10));
    let trailers = format!("1\r\na\r\n0\r\n{}\r\n", "x: y\r\n".repeat(16 << 10));
    for body in [
        "x\r\n",
        "-1\r\na\r\n",
        "fffffffffffffffff\r\na\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "1\na\n0\n\n",
        "1;x\ny\r\na\r\n0\r\n\r\n",
        "1\r\na0\r\n\r\n",
        &extension,
        &trailers,
    ] {
        let mut client = gateway.client().await;
        let answer = told(&mut client, &[&*head, body, &inner].concat()).await;
        let shown: String = body.chars().take(40).collect();
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(matches!(status, "" | "400" | "413"), "{shown:?}: {answer:?}");
        assert!(answer.matches("HTTP/1.1").count() <= 1, "{shown:?}: {answer:?}");
    }
    let asked = provider.asked.lock().expect("no panic").clone();
    assert!(asked.iter().all(|asked| !asked.line.contains("smuggled")), "{asked:?}");
    assert_eq!(asked.len(), 0, "{asked:?}");
}
