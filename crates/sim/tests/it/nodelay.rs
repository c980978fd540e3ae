//! A kept-alive stream does not stall: small pieces are sent at once (`TCP_NODELAY`).

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use crate::support::body;
use softland_sim::{Config, DEFAULT_MODEL, Scenario, Sim, serve_http};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// With Nagle's algorithm, every response on a warm connection waits for at least one delayed
/// acknowledgement of 40 ms. So the fastest of many responses shows it, however busy the machine
/// is.
#[tokio::test]
async fn kept_alive_streams_do_not_stall() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sim = Arc::new(Sim::new(Config::new(Scenario::from_name("slow:10").unwrap())));
    tokio::spawn(serve_http(listener, sim, std::future::pending()));
    let mut socket = TcpStream::connect(address).await.unwrap();
    let mut quickest = Duration::MAX;
    for n in 0..24 {
        let took = stream(&mut socket).await;
        // A new connection acknowledges at once, whatever the other side does.
        if n >= 8 {
            quickest = quickest.min(took);
        }
    }
    assert!(quickest < Duration::from_millis(40), "{quickest:?}");
}

/// Sends one streamed request, and returns the time that the response took.
async fn stream(socket: &mut TcpStream) -> Duration {
    let mut body = body(DEFAULT_MODEL, serde_json::json!([{"role": "user", "content": "hi"}]));
    body["stream"] = true.into();
    // A few pieces are enough.
    body["max_tokens"] = 3.into();
    let body = body.to_string();
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\nanthropic-version: 2023-06-01\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let began = Instant::now();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    while !reply.ends_with(b"\r\n0\r\n\r\n") {
        assert!(socket.read_buf(&mut reply).await.unwrap() > 0, "the connection was closed");
    }
    began.elapsed()
}
