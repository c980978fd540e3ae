//! Every recorded request of OpenAI's protocols, and the requests of real clients, against the
//! simulator. What a vendor accepted is accepted; what it refused is refused with the same status,
//! shape and text. The recordings are not in this repository: without them the tests print that
//! they skip.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in test helpers to panic is to fail the test, and a skipped test says so"
)]

use softland_sim::{Config, DEFAULT_OPEN_MODEL, Json, Request, Scenario, Sim};
use std::path::{Path, PathBuf};

const FOLDERS: &[(&str, &str)] = &[
    ("openai-chat", "/v1/chat/completions"),
    ("openrouter", "/v1/chat/completions"),
    ("deepseek", "/v1/chat/completions"),
    ("zai", "/v1/chat/completions"),
    ("openai-responses", "/v1/responses"),
];

fn shared(part: &str) -> PathBuf {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(part);
    assert!(path.exists(), "there are no recordings at {path:?}");
    path
}

/// Accepts foreign reasoning: the clients were recorded with models of a stand-in.
fn lenient() -> Sim {
    let alias = |name: &str, listed: &str| (name.to_owned(), listed.to_owned());
    Sim::new(Config {
        accept_foreign_signatures: true,
        aliases: vec![alias("fake-model", "gpt-4.1"), alias("fake-small", "gpt-4.1")],
        ..Config::new(Scenario::from_name("reader").unwrap())
    })
}

fn send(sim: &Sim, path: &str, body: &[u8]) -> (u16, Json) {
    let headers = [("authorization".to_owned(), "Bearer any".to_owned())];
    let response = sim.respond(0, &Request { method: "POST", path, headers: &headers, body });
    let (bytes, _) = response.collect_bytes();
    (response.status, Json::parse(&bytes).unwrap_or(Json::Null))
}

/// The recorded status and error of a response file; a stream began with 200.
fn recorded(base: &str, index: &str) -> (u16, Option<Json>) {
    let name = base.rsplit("recordings/").next().unwrap();
    for ending in ["sse", "json"] {
        let Some(line) = index.lines().find(|l| l.starts_with(&format!("{name}.{ending}\t")))
        else {
            continue;
        };
        let status = line.split('\t').nth(3).unwrap().parse().unwrap();
        let text = std::fs::read(format!("{base}.{ending}")).unwrap();
        let error = Json::parse(&text).ok().and_then(|json| json.get("error").cloned());
        return (status, error.filter(|_| status != 200));
    }
    panic!("{name} is not in the index");
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn every_recorded_request_is_answered_as_recorded() {
    let folder = shared("recordings");
    let index = std::fs::read_to_string(folder.join("INDEX.tsv")).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for (vendor, endpoint) in FOLDERS {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder.join(vendor)).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        for path in files {
            let file = path.display().to_string();
            let Some(base) = file.strip_suffix(".req.json") else { continue };
            let (status, error) = recorded(base, &index);
            let (got, reply) = send(&lenient(), endpoint, &std::fs::read(&path).unwrap());
            let said = reply.get("error").map(Json::to_text).unwrap_or_default();
            assert_eq!(got, status, "{base}: {said}");
            let Some(error) = error else {
                accepted += 1;
                continue;
            };
            let own = reply.get("error").unwrap();
            for (key, value) in error.entries() {
                assert_eq!(own.get(key), Some(value), "{base}: {key}");
            }
            assert_eq!(own.entries().len(), error.entries().len(), "{base}: {said}");
            refused += 1;
        }
    }
    println!("{accepted} accepted, {refused} refused as recorded");
    assert!(accepted >= 35 && refused >= 6, "{accepted} accepted, {refused} refused");
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn recorded_requests_of_real_clients_are_accepted() {
    let folder = shared("clients");
    let mut seen = 0;
    let mut clients: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    clients.retain(|client| client.is_dir());
    for file in clients.iter().flat_map(|client| std::fs::read_dir(client).unwrap()) {
        let file = file.unwrap().path();
        let json = Json::parse(&std::fs::read(&file).unwrap()).unwrap();
        let path = json.str_at("path").unwrap_or("");
        let Some(body) = json.get("body").filter(|b| b.is_map()) else { continue };
        if !path.starts_with("/v1/chat/completions") && !path.starts_with("/v1/responses") {
            continue;
        }
        let text = body.to_text();
        let sim = lenient();
        let (status, reply) = send(&sim, path, text.as_bytes());
        assert_eq!(status, 200, "{}: {}", file.display(), reply.to_text());
        // The same for a reasoning model, if the request has nothing that such a model refuses.
        if path.starts_with("/v1/responses") {
            let text = text.replace("fake-model", DEFAULT_OPEN_MODEL);
            let (status, reply) = send(&sim, path, text.as_bytes());
            assert_eq!(status, 200, "{}: {}", file.display(), reply.to_text());
        }
        seen += 1;
    }
    println!("{seen} requests of clients");
    assert!(seen >= 35, "{seen}");
}
