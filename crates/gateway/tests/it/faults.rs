//! Upstreams that fail: their own errors pass, and where there is none, one in the client's
//! protocol names the upstream.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::time::Duration;

use crate::support::{LONG, Message, Provider, Running, response, settings};
use serde_json::Value;
use softland_gateway::{BaseUrl, Settings};
use tokio::net::TcpListener;

use crate::support;

/// The path of each API.
const PATHS: [&str; 3] = ["/v1/messages", "/v1/chat/completions", "/v1/responses"];

fn anthropic_error(got: &Message) -> String {
    let body: Value = serde_json::from_slice(&got.body).expect("JSON");
    assert_eq!((&body["type"], &body["error"]["type"]), (&"error".into(), &"api_error".into()));
    body["error"]["message"].as_str().expect("a message").to_owned()
}

fn openai_error(got: &Message) -> String {
    let body: Value = serde_json::from_slice(&got.body).expect("JSON");
    assert!(body.get("type").is_none(), "{body}");
    assert_eq!(body["error"]["type"], "server_error");
    body["error"]["message"].as_str().expect("a message").to_owned()
}

async fn everywhere(settings: Settings, status: u16, says: &str) {
    let gateway = Running::with(settings).await;
    let got = gateway.ask(gateway.request("POST /v1/messages", &[], "{}")).await;
    assert_eq!(got.status(), status, "{got:?}");
    let message = anthropic_error(&got);
    assert!(message.contains("anthropic") && message.contains(says), "{message}");
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let got = gateway.ask(gateway.request(&format!("POST {path}"), &[], "{}")).await;
        assert_eq!(got.status(), status, "{path}: {got:?}");
        let message = openai_error(&got);
        assert!(message.contains("openai") && message.contains(says), "{path}: {message}");
    }
}

#[tokio::test]
async fn an_upstreams_own_errors_pass_as_they_are() {
    for (status, headers) in [
        ("429 Too Many Requests", ["retry-after: 17", "anthropic-ratelimit-requests-remaining: 0"]),
        ("529 Overloaded", ["retry-after: 3", "x-should-retry: true"]),
        ("400 Bad Request", ["request-id: req_9", "x-a: b"]),
        ("503 Service Unavailable", ["retry-after-ms: 250", "x-a: b"]),
    ] {
        let body = "{\"type\":\"error\" , \"error\":{\"type\":\"odd_error\"}}";
        let provider = Provider::says(response(status, &headers, body)).await;
        let gateway = Running::before(&provider).await;
        for (n, path) in PATHS.iter().enumerate() {
            let got = gateway.ask(gateway.request(&format!("POST {path}"), &[], "{}")).await;
            assert_eq!(got.status().to_string(), status.split(' ').next().expect("a number"));
            assert_eq!(got.text(), body);
            for header in headers {
                let (name, value) = header.split_once(": ").expect("a header");
                assert_eq!(got.header(name), Some(value));
            }
            assert_eq!(provider.count(), n + 1, "it is the client who tries again");
        }
    }
}

#[tokio::test]
async fn who_refuses_connections_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", free.local_addr().expect("an address"));
    drop(free);
    everywhere(settings(&url), 502, "refused").await;
    everywhere(settings(&url), 502, &url).await;
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_named() {
    everywhere(settings("http://no-such-host.invalid"), 502, "no-such-host.invalid").await;
}

#[tokio::test]
async fn tls_that_fails_is_an_error_in_words() {
    let provider = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{}", provider.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = provider.accept().await {
            let plain = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, plain).await;
        }
    });
    everywhere(settings(&url), 502, &url).await;
}

#[tokio::test]
async fn a_connection_has_so_much_time() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    // TLS is part of connecting: this one never says hello.
    let mut settings = settings(&format!("https://{}", silent.local_addr().expect("an address")));
    settings.limits.connect = Duration::from_millis(100);
    let keep = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok(accepted) = silent.accept().await {
            kept.push(accepted);
        }
    });
    everywhere(settings, 504, "connect within 100ms").await;
    keep.abort();
}

#[tokio::test]
async fn c151_an_answer_has_so_much_time() {
    let provider = Provider::does(|_, wire| async move {
        wire.lock().await.rest().await;
        false
    })
    .await;
    let mut first = settings(&provider.url());
    first.limits.first_byte = Duration::from_millis(100);
    everywhere(first, 504, "did not answer in 100ms").await;
    let mut silent = settings(&provider.url());
    for upstream in silent.upstreams.values_mut() {
        upstream.silence = Some(Duration::from_millis(150));
    }
    everywhere(silent, 504, "did not answer in 150ms").await;
}

#[tokio::test]
async fn a_long_upload_is_no_silence() {
    let provider = Provider::says(response("200 OK", &[], "ok")).await;
    let mut settings = settings(&provider.url());
    settings.limits.first_byte = Duration::from_millis(400);
    for upstream in settings.upstreams.values_mut() {
        upstream.silence = Some(Duration::from_millis(200));
    }
    let gateway = Running::with(settings).await;
    let mut client = gateway.client().await;
    client.send(gateway.request("POST /v1/files", &["content-length: 30"], "")).await;
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        client.send("x").await;
    }
    assert_eq!(client.message().await.expect("a response").text(), "ok");
}

#[tokio::test]
async fn a_silent_stream_is_cut() {
    let provider = Provider::does(|_, wire| async move {
        let mut wire = wire.lock().await;
        wire.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n").await;
        wire.rest().await;
        false
    })
    .await;
    let mut settings = settings(&provider.url());
    settings.limits.idle = Duration::from_millis(100);
    let gateway = Running::with(settings).await;
    let mut client = gateway.client().await;
    client.send(gateway.request("GET /v1/streams/1", &[], "")).await;
    client.head().await.expect("a head");
    assert_eq!(client.chunk().await.as_deref(), Some(b"hi".as_slice()));
    assert_eq!(client.chunk().await, None, "cut, not ended");
}

#[tokio::test]
async fn garbage_and_resets_are_errors_in_words() {
    for (said, says) in [
        ("this is no HTTP at all\r\n\r\n", ""),
        ("HTTP/1.1 2000 OK\r\n\r\n", ""),
        ("HTTP/1.1 200 OK\r\nbad header\r\n\r\n", ""),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello", ""),
        ("HTTP/1.1 200 OK\r\nx-a", "broke off"),
        ("", "broke off"),
    ] {
        let provider = Provider::does(move |_, wire| async move {
            let mut wire = wire.lock().await;
            wire.send(said).await;
            // With a reset where nothing was said.
            let _ = wire.stream.set_zero_linger();
            false
        })
        .await;
        everywhere(settings(&provider.url()), 502, says).await;
    }
}

#[tokio::test]
async fn an_upstream_that_closed_in_the_meantime_is_asked_again_only_if_it_was_not_asked() {
    // It closes each connection after one answer without saying so.
    let provider = Provider::does(|_, wire| async move {
        wire.lock().await.send(response("200 OK", &[], "ok")).await;
        false
    })
    .await;
    let gateway = Running::before(&provider).await;
    for asked in 1..=20 {
        let got = gateway.ask(gateway.request("POST /v1/messages", &[], "{}")).await;
        // The close may meet the request on its way: then nobody knows what became of it.
        assert!(matches!(got.status(), 200 | 502), "{got:?}");
        assert!(provider.count() <= asked, "none was sent twice");
    }
}

#[tokio::test]
async fn an_upstream_that_answers_early_is_heard() {
    let provider = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", provider.local_addr().expect("an address"));
    let gateway = Running::with(settings(&url)).await;
    let mut client = gateway.client().await;
    client.send(gateway.request("POST /v1/files", &["content-length: 1000000"], "")).await;
    client.send([b'x'; 1000]).await;
    let (stream, _) = provider.accept().await.expect("a connection");
    let mut wire = support::Wire { stream, read: Vec::new() };
    wire.head().await.expect("a head");
    wire.send(response("413 Payload Too Large", &["connection: close"], "too much")).await;
    let got = tokio::time::timeout(LONG, client.message()).await.expect("no wait for the body");
    let got = got.expect("a response");
    assert_eq!((got.status(), got.text()), (413, "too much"));
}

#[tokio::test]
async fn an_upstream_that_goes_on_after_the_client_left_is_cut_off() {
    let provider = Provider::does(|_, wire| async move {
        let mut wire = wire.lock().await;
        wire.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        // It never looks whether anybody still reads.
        while tokio::io::AsyncWriteExt::write_all(&mut wire.stream, b"1\r\nx\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        false
    })
    .await;
    let gateway = Running::before(&provider).await;
    let mut client = gateway.client().await;
    client.send(gateway.request("POST /v1/messages", &[], "{}")).await;
    client.until("x").await;
    drop(client);
    gateway.until_metrics("upstream=\"anthropic\",status=\"200\"} 1").await;
}

#[test]
fn base_urls_that_cannot_be_used_do_not_get_here() {
    assert!(BaseUrl::parse("http://").is_err());
    assert!(BaseUrl::parse("http://exa mple").is_err());
}
