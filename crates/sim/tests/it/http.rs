//! The simulator on a real socket: routes, streaming, delays, cuts, shutdown.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use crate::support::body;
use softland_sim::{Config, DEFAULT_MODEL, Scenario, Sim, serve_http};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

struct Server {
    address: std::net::SocketAddr,
    stop: tokio::sync::oneshot::Sender<()>,
    done: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn start(scenario: &str) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sim = Arc::new(Sim::new(Config::new(Scenario::from_name(scenario).unwrap())));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let done = tokio::spawn(serve_http(listener, sim, async move { drop(stopped.await) }));
    Server { address, stop, done }
}

async fn exchange(server: &Server, head: &str, body: &str) -> String {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\nanthropic-version: 2023-06-01\r\n\
         authorization: Bearer k\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    drop(socket.read_to_end(&mut reply).await);
    String::from_utf8_lossy(&reply).into_owned()
}

fn message(stream: bool) -> String {
    let mut body = body(DEFAULT_MODEL, serde_json::json!([{"role": "user", "content": "hi"}]));
    body["stream"] = stream.into();
    body.to_string()
}

#[tokio::test]
async fn routes_streams_and_shutdown() {
    let server = start("reader").await;
    let whole = exchange(&server, "POST /v1/messages?beta=true", &message(false)).await;
    assert!(
        whole.starts_with("HTTP/1.1 200") && whole.contains("\"stop_reason\":\"tool_use\""),
        "{whole}"
    );
    let stream = exchange(&server, "POST /v1/messages", &message(true)).await;
    assert!(stream.contains("content-type: text/event-stream"), "{stream}");
    assert!(stream.contains("event: message_start") && stream.contains("event: message_stop"));
    let count = exchange(
        &server,
        "POST /v1/messages/count_tokens",
        r#"{"model":"claude-sonnet-5-5","messages":[{"role":"user","content":"hi"}]}"#,
    )
    .await;
    assert!(count.contains("{\"input_tokens\":4}"), "{count}");
    let models = exchange(&server, "GET /v1/models", "").await;
    assert!(models.contains("claude-opus-5-5"), "{models}");
    let lost = exchange(&server, "POST /v1/nowhere", "{}").await;
    assert!(lost.starts_with("HTTP/1.1 404") && lost.contains("not_found_error"), "{lost}");
    server.stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(5), server.done).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn delays_are_waited_for_and_cuts_cut() {
    let server = start("slow:100").await;
    let begun = Instant::now();
    let slow = exchange(&server, "POST /v1/messages", &message(true)).await;
    assert!(slow.contains("message_stop"));
    assert!(begun.elapsed() >= Duration::from_millis(130), "{:?}", begun.elapsed());
    let server = start("cut").await;
    let cut = exchange(&server, "POST /v1/messages", &message(true)).await;
    assert!(cut.contains("message_start") && !cut.contains("message_stop"), "{cut}");
    assert!(!cut.ends_with("0\r\n\r\n"), "the chunked body does not end well");
}

#[tokio::test]
async fn openai_s_protocols_are_served_too() {
    let server = start("reader").await;
    let chat = r#"{"model":"gpt-5.2","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let stream = exchange(&server, "POST /v1/chat/completions", chat).await;
    assert!(stream.starts_with("HTTP/1.1 200") && stream.contains("data: [DONE]"), "{stream}");
    assert!(stream.contains("x-request-id: req_sim"), "{stream}");
    let responses = r#"{"model":"gpt-5.2","stream":true,"input":"hi"}"#;
    let stream = exchange(&server, "POST /v1/responses", responses).await;
    assert!(stream.contains("event: response.completed"), "{stream}");
    let whole =
        exchange(&server, "POST /v1/responses", r#"{"model":"gpt-5.2","input":"hi"}"#).await;
    assert!(whole.contains("\"status\":\"completed\""), "{whole}");
    let kept = exchange(&server, "GET /v1/responses/resp_sim00000003", "").await;
    assert!(kept.starts_with("HTTP/1.1 200"), "{kept}");
    let lost = exchange(&server, "GET /v1/responses/resp_nope", "").await;
    assert!(lost.starts_with("HTTP/1.1 404") && lost.contains("\"param\""), "{lost}");
}
