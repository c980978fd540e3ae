//! Servers at the other end of a pipe whose answers are odd.

use rmcp::serve_client;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split};

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
