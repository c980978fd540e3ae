//! Every recorded Anthropic request, and the requests of real clients, against the simulator. What
//! the provider accepted is accepted; what it refused is refused with the same status and error
//! type. The recordings are not in this repository: without them the tests print that they skip.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in test helpers to panic is to fail the test, and a skipped test says so"
)]

use softland_sim::{Binding, Config, Json, Request, Scenario, Sim};
use std::path::{Path, PathBuf};

/// The recordings hold bodies only, so every header a request may have needed is sent.
const BETAS: &str = "context-management-2025-06-27,compact-2026-01-12,mcp-client-2025-11-20,\
    task-budgets-2026-03-13,mid-conversation-tool-changes-2026-07-01,\
    mid-conversation-system-clear-at-2026-08-21,mid-conversation-output-config-2026-07-01,\
    interleaved-thinking-2025-05-14,structured-outputs-2025-11-13,\
    thinking-binding-controls-2026-08-01,message-threads-2026-08-12,\
    thinking-display-updates-2026-08-18";

fn shared(part: &str) -> PathBuf {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(part);
    assert!(path.exists(), "there are no recordings at {path:?}");
    path
}

fn lenient() -> Sim {
    Sim::new(Config {
        accept_foreign_signatures: true,
        binding: Binding::ByModel,
        ..Config::new(Scenario::from_name("reader").unwrap())
    })
}

fn send(sim: &Sim, path: &str, key: &str, body: &[u8]) -> (u16, Json) {
    let headers =
        [("x-api-key", key), ("anthropic-version", "2023-06-01"), ("anthropic-beta", BETAS)]
            .map(|(k, v)| (k.to_owned(), v.to_owned()));
    let response = sim.respond(0, &Request { method: "POST", path, headers: &headers, body });
    let (bytes, _) = response.collect_bytes();
    (response.status, Json::parse(&bytes).unwrap_or(Json::Null))
}

/// The recorded status and error of a response file; a stream began with 200.
fn recorded(base: &str) -> Option<(u16, Option<(String, String)>)> {
    if Path::new(&format!("{base}.sse")).exists() {
        return Some((200, None));
    }
    let text = std::fs::read(format!("{base}.json")).ok()?;
    let json = Json::parse(&text).unwrap();
    let Some(error) = json.get("error") else { return Some((200, None)) };
    let kind = error.str_at("type").unwrap().to_owned();
    let status = match kind.as_str() {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "not_found_error" => 404,
        other => panic!("{base}: no status known for {other}"),
    };
    Some((status, Some((kind, error.str_at("message").unwrap().to_owned()))))
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn every_recorded_request_is_answered_as_recorded() {
    let folder = shared("recordings/anthropic");
    let index = std::fs::read_to_string(folder.join("../INDEX.tsv")).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path().display().to_string();
        let Some(base) = path.strip_suffix(".req.json") else { continue };
        let (status, error) = recorded(base).unwrap_or_else(|| panic!("{base}: no response"));
        let name = base.rsplit('/').next().unwrap();
        let listed = index.lines().find(|l| l.starts_with(&format!("anthropic/{name}.json\t")));
        if let Some(listed) = listed.and_then(|l| l.split('\t').nth(3)).filter(|s| !s.is_empty()) {
            assert_eq!(listed.parse::<u16>().unwrap(), status, "{name}: the index disagrees");
        }
        let key = if status == 401 { "invalid" } else { "any" };
        let body = std::fs::read(&path).unwrap();
        let (got, reply) = send(&lenient(), "/v1/messages", key, &body);
        let said = reply.get("error").and_then(|e| e.str_at("message")).unwrap_or("");
        assert_eq!(got, status, "{name}: {said}");
        if let Some((kind, message)) = error {
            assert_eq!(reply.get("error").unwrap().str_at("type"), Some(kind.as_str()), "{name}");
            assert_eq!(said, message, "{name}");
            refused += 1;
        } else {
            accepted += 1;
        }
    }
    println!("{accepted} accepted, {refused} refused as recorded");
    assert!(accepted >= 45 && refused >= 4, "{accepted} accepted, {refused} refused");
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn recorded_requests_of_real_clients_are_accepted() {
    let folder = shared("clients");
    let mut seen = 0;
    for client in std::fs::read_dir(&folder).unwrap() {
        let client = client.unwrap().path();
        for file in
            client.is_dir().then(|| std::fs::read_dir(&client).unwrap()).into_iter().flatten()
        {
            let file = file.unwrap().path();
            let json = Json::parse(&std::fs::read(&file).unwrap()).unwrap();
            let path = json.str_at("path").unwrap_or("");
            let Some(body) = json.get("body").filter(|b| b.is_map()) else { continue };
            if !path.starts_with("/v1/messages") {
                continue;
            }
            let (status, reply) = send(&lenient(), path, "any", body.to_text().as_bytes());
            let error = reply.get("error").map(Json::to_text).unwrap_or_default();
            // A thread is refused in the way that makes its SDK send the whole history.
            if body.get("thread").is_some() {
                assert_eq!(status, 400, "{}", file.display());
                assert!(error.contains("thread_unsupported_request"), "{error}");
            } else if status != 200 {
                // The clients were recorded against a stand-in that never thinks, so with
                // `enabled` their tool loops lack the thinking that a real turn begins with.
                let mode = body.get("thinking").and_then(|t| t.str_at("type"));
                assert_eq!(mode, Some("enabled"), "{}: {error}", file.display());
                assert!(error.contains("Expected `thinking`"), "{}: {error}", file.display());
            }
            seen += 1;
        }
    }
    println!("{seen} requests of clients");
    assert!(seen >= 30, "{seen}");
}

/// Reads and writes of a recorded three-request loop follow each other as ours do: each request
/// reads what the ones before read and wrote. The sizes differ, ours are estimates.
#[test]
#[ignore = "reads recordings from ../shared"]
fn a_recorded_loop_is_billed_alike() {
    let folder = shared("recordings/anthropic");
    let sim = lenient();
    let figures = |reply: &Json| {
        let usage = reply.get("usage").unwrap();
        let at = |key: &str| usage.get(key).and_then(Json::as_u64).unwrap();
        (at("cache_read_input_tokens"), at("cache_creation_input_tokens"))
    };
    let (mut ours, mut theirs) = (0, 0);
    for n in 0..3 {
        let file =
            |end: &str| std::fs::read(folder.join(format!("cache_agent_loop.{n}.{end}"))).unwrap();
        let (_, reply) = send(&sim, "/v1/messages", "any", &file("req.json"));
        for (kept, reply) in
            [(&mut ours, reply), (&mut theirs, Json::parse(&file("json")).unwrap())]
        {
            let (read, written) = figures(&reply);
            assert_eq!(read, *kept, "request {n}");
            assert!(written > 0, "request {n}");
            *kept = read + written;
        }
    }
}
