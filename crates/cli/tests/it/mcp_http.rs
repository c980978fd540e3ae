//! `softland mcp --listen` as seen by clients of all kinds: through the real binary.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use crate::support::mcp::{PATIENCE, Place, agents, child, flags, gone, stays};
use crate::support::server::Server;
use crate::support::{SECRET, said_by, softland};
use serde_json::json;

/// Sends one request over HTTP. Returns head and body as received until the connection or `until`
/// ends.
fn post(address: &str, session: &str, head: &str, body: &str, until: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{head} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let (mut said, mut buffer) = (String::new(), [0; 4096]);
    while !said.contains(until) {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            size => said.push_str(&String::from_utf8_lossy(&buffer[..size])),
        }
    }
    said
}

/// Serves the agents of a folder, and returns the address.
fn served(folder: &Path, given: &[&str]) -> (Server, String) {
    let mut command = softland();
    command.env("ANTHROPIC_API_KEY", SECRET);
    command.env("PATH", std::env::var("PATH").unwrap());
    command.arg("mcp").arg(folder).args(given).args(["--listen", "127.0.0.1:0"]);
    let server = Server::start(&mut command);
    let address = server.address.trim_end_matches("/mcp").to_owned();
    (server, address)
}

/// A client's first message.
fn first() -> String {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}})
    .to_string()
}

/// Begins a session, and returns its header.
fn session(address: &str) -> String {
    let begun = post(address, "", "POST /mcp", &first(), "serverInfo");
    let id = begun.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let session = format!("mcp-session-id: {id}\r\n");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert!(post(address, &session, "POST /mcp", &ready, "\r\n\r\n").contains("202"));
    session
}

/// Sends a raw request, and returns everything until the connection ends.
fn raw(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut said = Vec::new();
    // The server may close the connection before it has read everything.
    let _ = stream.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn over_http_a_session_is_guarded_and_its_end_stops_its_runs() {
    let place = Place::new();
    let (folder, sim) = stays(&place);
    let url = sim.url();
    let (server, address) = served(&folder, &flags(&url));
    let session = session(&address);
    let first = first();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "stays", "arguments": {"prompt": "go"}}})
    .to_string();
    let calling = {
        let (address, session) = (address.clone(), session.clone());
        std::thread::spawn(move || post(&address, &session, "POST /mcp", &call, "nothing at all"))
    };
    let process = child(&place);
    assert!(post(&address, &session, "DELETE /mcp", "", "\r\n\r\n").contains("202"));
    gone(&process);
    drop(calling);
    for (header, status) in
        [("origin: http://elsewhere.example\r\n", "403"), ("origin: null\r\n", "403")]
    {
        let said = post(&address, header, "POST /mcp", &first, "\r\n\r\n");
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{said}");
    }
    let elsewhere = post(&address, "", "POST /", &first, "\r\n\r\n");
    assert!(elsewhere.starts_with("HTTP/1.1 404"), "{elsewhere}");
    server.signal("TERM");
    assert!(server.ended().0.success());
    let open = said_by(softland().arg("mcp").arg(&folder).args(["--listen", "0.0.0.0:0"]).args([
        "--model",
        "sim/reader",
        "--allow-shell",
    ]));
    open.status(2).says("is not a loopback address");
}

#[test]
fn odd_requests_get_clear_answers() {
    let place = Place::new();
    let folder = agents(&place, &[("reader", "model: sim/reader")]);
    let (server, address) = served(&folder, &[]);
    let session = session(&address);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let json = "content-type: application/json\r\n";
    let both = "accept: application/json, text/event-stream\r\n";
    let wrong = "mcp-session-id: of-somebody-else\r\n".to_owned();
    let batch = format!("[{list},{list}]");
    let half = list.replace("tools/list", "tools/\\ud83d");
    let (none, text) = (String::new(), "content-type: text/plain\r\n");
    let asked: &[(&str, [&str; 3], &str, &str, &str)] = &[
        ("POST", [json, "", &session], &list, "406", "must accept both"),
        ("POST", [json, both, &wrong], &list, "404", "Session not found"),
        ("POST", [json, both, &none], &list, "4", ""),
        ("POST", [text, both, &session], &list, "415", "application/json"),
        ("POST", [json, both, &session], &batch, "400", "batches are not supported"),
        ("POST", [json, both, &session], "{\"jsonrpc\":", "400", "-32700"),
        ("POST", [json, both, &session], "\"words\"", "400", "-32600"),
        ("POST", [json, both, &session], &half, "400", "half of a character"),
        ("POST", [json, both, &session], "{\"jsonrpc\":\"2.0\",\"id\":{}}", "400", "-32600"),
        ("GET", ["", "", &session], "", "406", "text/event-stream"),
        ("GET", ["", both, &wrong], "", "404", "Session not found"),
        ("DELETE", ["", "", &wrong], "", "", ""),
        ("DELETE", ["", "", &none], "", "4", ""),
        ("PUT", [json, both, &session], &list, "405", "Not Allowed"),
    ];
    for (method, headers, body, status, words) in asked {
        let said = raw(
            &address,
            &format!(
                "{method} /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{}\
                 content-length: {}\r\n\r\n{body}",
                headers.concat(),
                body.len()
            ),
        );
        let what = format!("{method} {headers:?} {body}: {said}");
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{what}");
        assert!(said.contains(words), "{what}");
    }
    // A body that announces too great a length is not read.
    let huge = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\n{json}{both}{session}\
         content-length: 17000000\r\n\r\n"
    );
    let said = raw(&address, &huge);
    assert!(said.starts_with("HTTP/1.1 413") && said.contains("16 MiB"), "{said}");
    // The session is unharmed.
    let listed = post(&address, &session, "POST /mcp", &list, "\"reader\"");
    assert!(listed.contains("\"reader\""), "{listed}");
    server.signal("TERM");
    assert!(server.ended().0.success());
}

#[test]
fn over_http_an_id_is_one_calls_until_that_is_answered() {
    let place = Place::new();
    let (folder, sim) = stays(&place);
    let url = sim.url();
    let (server, address) = served(&folder, &flags(&url));
    let session = session(&address);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "stays", "arguments": {"prompt": "go"}}})
    .to_string();
    let calling = {
        let (address, session, call) = (address.clone(), session.clone(), call.clone());
        std::thread::spawn(move || post(&address, &session, "POST /mcp", &call, "nothing at all"))
    };
    let process = child(&place);
    let said = post(&address, &session, "POST /mcp", &call, "under way");
    assert!(said.starts_with("HTTP/1.1 400") && said.contains("\"id\":1"), "{said}");
    assert!(post(&address, &session, "DELETE /mcp", "", "\r\n\r\n").contains("202"));
    gone(&process);
    drop(calling);
    server.signal("TERM");
    assert!(server.ended().0.success());
}
