//! The bounds of a request: its framing, its size, its time, and the number of connections.

use std::time::Duration;

use crate::security::{assert_anthropic, closed};
use crate::support::Wire;
use http::StatusCode;
use tokio::net::TcpStream;

// --- framing

#[tokio::test]
async fn a_request_has_one_length() {
    let (provider, gateway) = closed(|_| {}).await;
    let smuggled = "POST /v1/smuggled HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";
    for headers in [
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5, 6",
        "content-length: +5",
        "content-length: 0x5",
        "content-length: -1",
        "content-length: 99999999999999999999",
        "transfer-encoding: chunked, identity",
        "transfer-encoding: gzip",
        "transfer-encoding: xchunked",
        "transfer-encoding : chunked",
        "content-length: 5\r\n folded: 1",
        " leading: 1",
        "content-length: 5\rx: y",
    ] {
        let head =
            format!("POST /v1/files HTTP/1.1\r\nhost: {}\r\n{headers}\r\n\r\n", gateway.address);
        let mut client = gateway.client().await;
        let _ = tokio::io::AsyncWriteExt::write_all(
            &mut client.stream,
            format!("{head}0\r\n\r\n{smuggled}").as_bytes(),
        )
        .await;
        let answer = String::from_utf8(client.rest().await).expect("text");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{headers}: {answer:?}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{headers}: {answer:?}");
    }
    assert_eq!(provider.count(), 0);
}

#[tokio::test]
async fn heads_have_bounds() {
    let (provider, gateway) = closed(|_| {}).await;
    let many: Vec<_> = (0..150).map(|n| format!("x-{n}: 1")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let large = format!("x-large: {}", "x".repeat(70 << 10));
    for headers in [many, vec![large.as_str()]] {
        let mut client = gateway.client().await;
        let request = gateway.request("POST /v1/messages", &headers, "{}");
        let _ = tokio::io::AsyncWriteExt::write_all(&mut client.stream, request.as_bytes()).await;
        assert_eq!(client.message().await.expect("a response").status(), 431);
    }
    assert_eq!(provider.count(), 0);
}

// --- size and time

#[tokio::test]
async fn a_body_may_not_be_larger_than_allowed() {
    let (provider, gateway) = closed(|settings| settings.limits.body = 1000).await;
    let says = "1000 bytes";
    // Told beforehand: the body is not waited for.
    let declared = gateway.request("POST /v1/messages", &["content-length: 1001"], "");
    let got = gateway.ask(declared).await;
    assert_anthropic(&got, StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", says);
    // Not told.
    let chunk = format!("3e9\r\n{}\r\n0\r\n\r\n", "x".repeat(1001));
    let request = gateway.request("POST /v1/messages", &["transfer-encoding: chunked"], "");
    let got = gateway.ask(request + &chunk).await;
    assert_anthropic(&got, StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", says);
    // Small, but not for long: a thousand times its size unpacked.
    let zeros = vec![b'0'; 1 << 20];
    let mut packed = Vec::new();
    let mut encoder = async_compression::tokio::bufread::GzipEncoder::new(zeros.as_slice());
    tokio::io::AsyncReadExt::read_to_end(&mut encoder, &mut packed).await.expect("packed");
    assert!(packed.len() > 1000 && packed.len() < 2000);
    let (bomb_provider, bombed) = closed(|settings| settings.limits.body = 100 << 10).await;
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {}\r\ncontent-encoding: gzip\r\n\
         content-length: {}\r\n\r\n",
        bombed.address,
        packed.len()
    );
    let got = bombed.ask([head.as_bytes(), &packed].concat()).await;
    assert_eq!(got.status(), 413);
    // Not packed at all.
    let got =
        bombed.ask(bombed.request("POST /v1/messages", &["content-encoding: gzip"], "{}")).await;
    assert_anthropic(&got, StatusCode::BAD_REQUEST, "invalid_request_error", "gzip");
    assert_eq!((provider.count(), bomb_provider.count()), (0, 0));
}

#[tokio::test]
async fn a_body_may_not_take_longer_than_allowed() {
    let (provider, gateway) =
        closed(|settings| settings.limits.body_time = Duration::from_millis(100)).await;
    let request = gateway.request("POST /v1/messages", &["content-length: 10"], "") + "half";
    let got = gateway.ask(request).await;
    assert_anthropic(&got, StatusCode::REQUEST_TIMEOUT, "invalid_request_error", "100ms");
    let request = gateway.request("POST /v1/embeddings", &["content-length: 10"], "") + "half";
    let got = gateway.ask(request).await;
    assert_eq!(got.status(), 408);
    let body: serde_json::Value = serde_json::from_slice(&got.body).expect("JSON");
    assert_eq!(body["error"]["type"], "invalid_request_error");
    assert!(body.get("type").is_none(), "OpenAI's shape: {body}");
    assert_eq!(provider.count(), 0);
}

#[tokio::test]
async fn a_head_may_not_take_longer_than_allowed() {
    let (provider, gateway) =
        closed(|settings| settings.limits.head_time = Duration::from_millis(100)).await;
    let mut client = gateway.client().await;
    client.send("POST /v1/messages HTTP/1.1\r\nhost: lo").await;
    let got = client.message().await.expect("a response");
    let says = "head";
    assert_anthropic(&got, StatusCode::REQUEST_TIMEOUT, "invalid_request_error", says);
    assert_eq!(client.rest().await, b"");
    // Also the second one of a connection; between the two there is more time.
    let mut client = gateway.client().await;
    let whole = gateway.request("POST /v1/messages", &[], "{}");
    assert_eq!(client.ask(&whole).await.status(), 200);
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(client.ask(&whole).await.status(), 200, "an idle connection is kept");
    client.send("POST").await;
    assert_eq!(client.message().await.expect("a response").status(), 408);
    // Who says nothing at all gets no answer.
    assert_eq!(gateway.client().await.rest().await, b"");
    assert_eq!(provider.count(), 2);
}

#[tokio::test]
async fn there_are_so_many_connections() {
    let (_provider, gateway) = closed(|settings| settings.limits.connections = 2).await;
    let request = gateway.request("POST /v1/messages", &[], "{}");
    let (mut a, mut b) = (gateway.client().await, gateway.client().await);
    assert_eq!(a.ask(&request).await.status(), 200);
    assert_eq!(b.ask(&request).await.status(), 200);
    let mut c = gateway.client().await;
    let got = c.message().await.expect("an answer at once");
    let says = "connections";
    assert_anthropic(&got, StatusCode::SERVICE_UNAVAILABLE, "overloaded_error", says);
    drop(a);
    drop(c);
    // The place is free again as soon as the gateway has seen the end.
    for attempt in 0.. {
        let stream = TcpStream::connect(gateway.address).await.expect("a connection");
        let mut d = Wire { stream, read: Vec::new() };
        let _ = tokio::io::AsyncWriteExt::write_all(&mut d.stream, request.as_bytes()).await;
        if d.message().await.is_some_and(|got| got.status() == 200) {
            break;
        }
        assert!(attempt < 1000, "no place becomes free");
    }
    assert_eq!(b.ask(&request).await.status(), 200, "who is in stays in");
}
