//! Servers at the other end of a pipe whose answers are odd.

use rmcp::serve_client;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex,
    split,
};

use super::*;
use crate::mcp::lines::LineTransport;
use crate::tool::{ToolContext, ToolOutput};

/// Returns the members of an answer to a request; `None` for what is no request.
fn answer_members(message: &Value, called: &str) -> Option<String> {
    let init = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
    });
    match message["method"].as_str()? {
        "initialize" => Some(format!("\"result\":{init}")),
        "tools/call" => Some(called.to_owned()),
        _ => None,
    }
}

/// Answers each call with these members of an answer, until the pipe is closed.
async fn serve_pipe(pipe: DuplexStream, called: String) {
    let (input, mut output) = split(pipe);
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        if let Some(members) = answer_members(&message, &called) {
            let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{members}}}\n", message["id"]);
            output.write_all(answer.as_bytes()).await.unwrap();
        }
    }
}

/// Calls a tool over a pipe whose server answers with these members.
async fn call_over_pipe(called: &str) -> ToolOutput {
    let (ours, theirs) = duplex(64 * 1024);
    let served = tokio::spawn(serve_pipe(theirs, called.to_owned()));
    let (input, output) = split(ours);
    let ended = CancellationToken::new();
    let lines = LineTransport::new(input, output, ended.clone(), false);
    let why = lines.close_reason();
    let handler = NotificationHandler {
        name: "s".to_owned(),
        heard: Arc::new(|_, _| {}),
        changed: Arc::default(),
    };
    let service = serve_client(handler, lines).await.unwrap();
    let connection = Arc::new(ServerConnection {
        name: "s".to_owned(),
        peer: service.peer().clone(),
        call_time: CALL_TIME,
        calls: Arc::default(),
        ended,
        exited: CancellationToken::new(),
        why,
        words: StderrTail::default(),
    });
    let listed = serde_json::from_value(json!({"name": "t", "inputSchema": {"type": "object"}}));
    let tool = McpTool::new(&listed.unwrap(), &connection).unwrap();
    let output = tool.call(json!({}), &ToolContext::default()).await;
    drop(service);
    served.abort();
    output
}

/// Returns the members of an answer with these blocks.
fn with_blocks(blocks: &Value) -> String {
    format!("\"result\":{}", json!({"content": blocks}))
}

#[tokio::test]
async fn c141_one_block_that_cannot_be_read_does_not_lose_the_others() {
    let kept = json!({"type": "text", "text": "KEPT"});
    for (block, named) in [
        (json!({"type": "hologram", "x": 1}), "hologram, which is not known"),
        (json!({"type": "image", "data": "AA=="}), "image, which is not of its form"),
        (json!(null), "content of no kind"),
    ] {
        let output = call_over_pipe(&with_blocks(&json!([block, kept]))).await;
        let told = &output.content;
        assert!(!output.is_error && told.contains(named) && told.ends_with("\nKEPT"), "{told}");
    }
    // What is no result of a tool stays an error.
    let output = call_over_pipe("\"result\":{\"content\":\"KEPT\"}").await;
    assert!(output.is_error && output.content.contains("not the result of a tool"));
    let output = call_over_pipe(&with_blocks(&json!([kept]))).await;
    assert_eq!((output.content.as_str(), output.is_error), ("KEPT", false));
}

/// Answers each request of one connection after another: calls with these members of an answer, in
/// this type of content.
async fn serve_address(listener: tokio::net::TcpListener, called: String, kind: &'static str) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let called = called.clone();
        tokio::spawn(async move { serve_connection(BufReader::new(stream), &called, kind).await });
    }
}

async fn serve_connection(
    mut stream: BufReader<tokio::net::TcpStream>,
    called: &str,
    kind: &str,
) -> Option<()> {
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
            let lower = line.to_ascii_lowercase();
            if let Some(given) = lower.strip_prefix("content-length:") {
                length = given.trim().parse().ok()?;
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let calls = message["method"] == "tools/call";
        let listed = "\"result\":{\"tools\":[{\"name\":\"t\",\"inputSchema\":{}}]}";
        let members = match message["method"].as_str() {
            Some("tools/list") => Some(listed.to_owned()),
            _ => answer_members(&message, called),
        };
        let (status, kind, body) = match members {
            _ if !head.starts_with("POST") => ("405 No", "text/plain", String::new()),
            None => ("202 Accepted", "text/plain", String::new()),
            Some(members) => {
                let json = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{members}}}", message["id"]);
                match calls && kind == "text/event-stream" {
                    true => ("200 OK", kind, format!("event: message\ndata: {json}\n\n")),
                    false => ("200 OK", "application/json", json),
                }
            }
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.ok()?;
    }
}

#[tokio::test]
async fn c147_half_a_character_over_http_is_an_error_with_its_name() {
    let half = r#""result":{"content":[{"type":"text","text":"cut \ud83d"}]}"#;
    let low = r#""result":{"content":[{"type":"text","text":"\ude00 cut"}]}"#;
    let whole = r#""result":{"content":[{"type":"text","text":"\ud83d\ude00"}]}"#;
    let odd = r#""result":{"content":[{"type":"hologram"},{"type":"text","text":"KEPT"}]}"#;
    let words = "half of a character";
    for kind in ["application/json", "text/event-stream"] {
        for (called, wanted, is_error) in [
            (half, words, true),
            (low, words, true),
            (whole, "\u{1f600}", false),
            (odd, "KEPT", false),
        ] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/mcp", listener.local_addr().unwrap());
            let served = tokio::spawn(serve_address(listener, called.to_owned(), kind));
            let text = json!({"mcpServers": {"s": {"type": "http", "url": url}}}).to_string();
            let file = ServersFile::parse("m.json", &text, &|_| None).unwrap();
            let named = BTreeSet::from(["s".to_owned()]);
            let heard: StderrHandler = Arc::new(|_, _| {});
            let servers = Servers::start_named(&file, &named, &|_| None, &heard).await.unwrap();
            let tool = servers.tools().remove(0);
            let output = tool.call(json!({}), &ToolContext::default()).await;
            let told = &output.content;
            assert!(
                told.contains(wanted) && output.is_error == is_error,
                "{kind} {called}: {told}"
            );
            servers.shut_down().await;
            served.abort();
        }
    }
}
