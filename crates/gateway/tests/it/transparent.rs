//! The parts of requests and responses that the gateway leaves alone: status, headers and bytes, in
//! both directions, at once.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Provider, Running, Wire, response, settings};
use async_compression::tokio::bufread::{GzipEncoder, ZstdEncoder};
use proptest::prelude::*;
use softland_gateway::{BaseUrl, Upstream};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};

use crate::support;

#[tokio::test]
async fn bytes_and_headers_pass_in_both_directions() {
    let body = "{\"id\":\"msg_1\" ,\"unknown\":[1, 2.50]}\n";
    let provider =
        Provider::says(response("200 OK", &["X-Odd: a  b", "request-id: req_1"], body)).await;
    let gateway = Running::before(&provider).await;
    let sent = "{ \"model\":\"m\",\t\"max_tokens\": 1}";
    let headers =
        ["x-api-key: sk-client", "anthropic-beta: a,b", "anthropic-beta: c", "user-agent: t/1"];
    let request = gateway.request("POST /v1/messages?beta=true&x=%20y", &headers, sent);
    let got = gateway.ask(request).await;
    assert_eq!((got.status(), got.text()), (200, body));
    assert_eq!(got.header("x-odd"), Some("a  b"));
    assert_eq!(got.header("request-id"), Some("req_1"));
    let asked = provider.only();
    assert_eq!(asked.line, "POST /v1/messages?beta=true&x=%20y HTTP/1.1");
    assert_eq!(asked.text(), sent);
    assert_eq!(asked.header("x-api-key"), Some("sk-client"));
    assert_eq!(asked.header("host"), Some(provider.address.to_string().as_str()));
    let betas = asked.headers.iter().filter(|(name, _)| name == "anthropic-beta");
    assert_eq!(betas.map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["a,b", "c"]);
}

#[tokio::test]
async fn every_method_status_and_length_passes() {
    let answers = [
        ("GET /v1/models?limit=2", "200 OK", "{\"data\":[]}"),
        ("DELETE /v1/files/f_1", "200 OK", "{}"),
        ("PUT /v1/x", "418 I'm a teapot", "short and stout"),
        ("PATCH /v1/x", "404 Not Found", ""),
        ("POST /v1/embeddings", "500 Internal Server Error", "oops"),
        ("OPTIONS /v1/x", "200 OK", "ok"),
        ("GET /api/hello?x=1", "200 OK", "hello"),
        ("GET /v1/x", "301 Moved Permanently", "elsewhere"),
    ];
    for (line, status, body) in answers {
        let provider = Provider::says(response(status, &["location: http://e.test/"], body)).await;
        let gateway = Running::before(&provider).await;
        let got = gateway.ask(gateway.request(line, &[], "")).await;
        assert_eq!(format!("HTTP/1.1 {status}").split(' ').nth(1), got.line.split(' ').nth(1));
        assert_eq!(got.text(), body, "{line}");
        assert_eq!(got.header("location"), Some("http://e.test/"), "redirects are not followed");
        assert_eq!(provider.only().line, format!("{line} HTTP/1.1"));
        assert_eq!(provider.count(), 1);
    }
}

#[tokio::test]
async fn responses_without_a_body_keep_their_heads() {
    let provider = Provider::says("HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n").await;
    let gateway = Running::before(&provider).await;
    let mut client = gateway.client().await;
    for _ in 0..2 {
        client.send(gateway.request("HEAD /v1/models", &[], "")).await;
        let head = client.head().await.expect("a head");
        assert_eq!(head.header("content-length"), Some("1234"));
    }
    // Claude Code asks whether its provider is there. Paths like that are the pages' own.
    for path in ["/api/hello", "/to/anthropic/api/hello"] {
        let mut client = gateway.client().await;
        client.send(gateway.request(&format!("HEAD {path}"), &[], "")).await;
        let head = client.head().await.expect("a head");
        assert_eq!((head.status(), head.header("content-length")), (200, Some("1234")), "{path}");
    }
    let own = gateway.ask(gateway.request("GET /api/hello/x", &[], "")).await;
    assert_eq!((own.status(), provider.count()), (404, 4));
    let provider = Provider::says("HTTP/1.1 204 No Content\r\nx-a: b\r\n\r\n").await;
    let gateway = Running::before(&provider).await;
    let got = gateway.ask(gateway.request("DELETE /v1/files/f", &[], "")).await;
    assert_eq!((got.status(), got.header("x-a"), got.body.len()), (204, Some("b"), 0));
}

#[tokio::test]
async fn packed_responses_are_not_unpacked() {
    let odd = "\u{1}\u{2}\u{7f}not gzip at all";
    let provider = Provider::says(response("200 OK", &["content-encoding: gzip"], odd)).await;
    let gateway = Running::before(&provider).await;
    let request = gateway.request("GET /v1/models", &["accept-encoding: gzip, br"], "");
    let got = gateway.ask(request).await;
    assert_eq!((got.text(), got.header("content-encoding")), (odd, Some("gzip")));
    assert_eq!(provider.only().header("accept-encoding"), Some("gzip, br"));
}

#[tokio::test]
async fn headers_of_one_connection_stay_there() {
    let theirs = [
        "connection: close, x-mine",
        "keep-alive: timeout=3",
        "x-mine: 1",
        "x-softland-run: forged",
        "proxy-authenticate: Basic",
        "x-yours: 2",
    ];
    let provider = Provider::says(response("200 OK", &theirs, "ok")).await;
    let gateway = Running::before(&provider).await;
    let ours = [
        "Connection: keep-alive, X-Hop",
        "x-hop: 1",
        "te: trailers",
        "proxy-authorization: Basic abc",
        "upgrade: h2c",
        "x-softland-run: r1",
        "X-Softland-Anything: x",
        "x-end: 2",
    ];
    let got = gateway.ask(gateway.request("POST /v1/messages", &ours, "{}")).await;
    let names = |message: &support::Message| {
        let names = message.headers.iter().map(|(name, _)| name.clone());
        let mut names: Vec<_> = names.filter(|name| !name.starts_with("content-")).collect();
        names.sort();
        names
    };
    let asked = provider.only();
    assert_eq!(asked.header("x-end"), Some("2"));
    let kept: Vec<_> = names(&asked).into_iter().filter(|name| name != "accept-encoding").collect();
    assert_eq!(kept, ["host", "x-end"]);
    let got: Vec<_> = names(&got).into_iter().filter(|n| !n.starts_with("x-softland-")).collect();
    assert_eq!(got, ["date", "x-yours"], "the date is that of the gateway, as RFC 9110 has it");
}

#[tokio::test]
async fn pieces_of_a_response_are_forwarded_as_they_come() {
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let provider = Provider::does(move |_, wire| {
        let wait = Arc::clone(&wait);
        async move {
            let mut wire = wire.lock().await;
            wire.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n").await;
            wire.send("transfer-encoding: chunked\r\n\r\n5\r\n: hi\n\r\n").await;
            wait.notified().await;
            wire.send("c\r\ndata: done\n\n\r\n0\r\n\r\n").await;
            true
        }
    })
    .await;
    let gateway = Running::before(&provider).await;
    let mut client = gateway.client().await;
    client.send(gateway.request("GET /v1/streams/1", &[], "")).await;
    let head = client.head().await.expect("a head");
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    // The provider goes on only after this has arrived: nothing is held back.
    assert_eq!(client.chunk().await.as_deref(), Some(b": hi\n".as_slice()));
    assert!(gateway.metrics().await.contains("softland_active_streams 1"));
    go.notify_one();
    assert_eq!(client.chunks().await.as_deref(), Some(b"data: done\n\n".as_slice()));
    gateway.until_metrics("softland_active_streams 0").await;
}

#[tokio::test]
async fn pieces_of_a_request_are_forwarded_as_they_come() {
    let provider = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", provider.local_addr().expect("an address"));
    let gateway = Running::with(settings(&url)).await;
    let mut client = gateway.client().await;
    let headers = ["transfer-encoding: chunked"];
    client.send(gateway.request("POST /v1/files", &headers, "")).await;
    client.send("3\r\nabc\r\n").await;
    let (stream, _) = provider.accept().await.expect("a connection");
    let mut wire = Wire { stream, read: Vec::new() };
    let head = wire.head().await.expect("a head");
    assert_eq!(head.header("transfer-encoding"), Some("chunked"));
    assert_eq!(wire.chunk().await.as_deref(), Some(b"abc".as_slice()));
    client.send("2\r\nde\r\n0\r\n\r\n").await;
    assert_eq!(wire.chunks().await.as_deref(), Some(b"de".as_slice()));
    wire.send(response("200 OK", &[], "got it")).await;
    assert_eq!(client.message().await.expect("a response").text(), "got it");
}

#[tokio::test]
async fn when_the_client_leaves_the_upstream_is_let_go() {
    for streaming in [false, true] {
        let (gone, mut left) = mpsc::channel::<()>(1);
        let (here, mut there) = mpsc::channel::<()>(1);
        let provider = Provider::does(move |_, wire| {
            let (gone, here) = (gone.clone(), here.clone());
            async move {
                let mut wire = wire.lock().await;
                if streaming {
                    wire.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
                    wire.send("3\r\nabc\r\n").await;
                }
                here.send(()).await.expect("the test waits");
                // Resolves when the gateway closes its connection, and only then.
                wire.rest().await;
                gone.send(()).await.expect("the test waits");
                false
            }
        })
        .await;
        let gateway = Running::before(&provider).await;
        let mut client = gateway.client().await;
        client.send(gateway.request("POST /v1/messages", &[], "{}")).await;
        there.recv().await.expect("the provider was asked");
        if streaming {
            client.until("abc").await;
        }
        drop(client);
        left.recv().await.expect("the upstream's connection was closed");
        gateway
            .until_metrics(if streaming { "status=\"200\"} 1" } else { "status=\"499\"} 1" })
            .await;
    }
}

#[tokio::test]
async fn a_slow_reader_slows_the_upstream() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let provider = Provider::does(move |_, wire| {
        let counter = Arc::clone(&counter);
        async move {
            let mut wire = wire.lock().await;
            wire.send("HTTP/1.1 200 OK\r\ncontent-length: 1099511627776\r\n\r\n").await;
            let piece = vec![b'x'; 64 << 10];
            while wire.stream.write_all(&piece).await.is_ok() {
                counter.fetch_add(piece.len(), Ordering::Relaxed);
            }
            false
        }
    })
    .await;
    let gateway = Running::before(&provider).await;
    let mut client = gateway.client().await;
    client.send(gateway.request("GET /v1/files/big/content", &[], "")).await;
    client.head().await.expect("a head");
    // Four socket buffers (6 MiB at most each as Linux tunes them) and the gateway's own.
    let bound = 40 << 20;
    let mut before = usize::MAX;
    loop {
        let now = sent.load(Ordering::Relaxed);
        assert!(now < bound, "{now} bytes are somewhere on the way");
        if now == before {
            break;
        }
        before = now;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn a_cut_upstream_is_a_cut_response() {
    for head in ["transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", "content-length: 10\r\n\r\nabc"]
    {
        let said = format!("HTTP/1.1 200 OK\r\n{head}");
        let provider = Provider::does(move |_, wire| {
            let said = said.clone();
            async move {
                wire.lock().await.send(said).await;
                false
            }
        })
        .await;
        let gateway = Running::before(&provider).await;
        let mut client = gateway.client().await;
        client.send(gateway.request("POST /v1/messages", &[], "{}")).await;
        client.head().await.expect("a head");
        let rest = String::from_utf8(client.rest().await).expect("text");
        assert!(rest.contains("abc"), "what came is passed: {rest:?}");
        assert!(!rest.contains("0\r\n\r\n"), "half a response must not look whole: {rest:?}");
    }
}

#[tokio::test]
async fn packed_requests_are_read_and_others_passed() {
    let provider = Provider::says(response("200 OK", &[], "ok")).await;
    let gateway = Running::before(&provider).await;
    let plain = "{\"model\":\"m\"}".repeat(100);
    let gzip = packed(GzipEncoder::new(plain.as_bytes())).await;
    let zstd = packed(ZstdEncoder::new(plain.as_bytes())).await;
    for (encoding, body, wanted) in [
        ("gzip", &gzip, plain.as_bytes()),
        ("zstd", &zstd, plain.as_bytes()),
        ("Identity", &gzip, &gzip),
        ("br", &gzip, &gzip),
    ] {
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {}\r\ncontent-encoding: {encoding}\r\n\
             content-length: {}\r\n\r\n",
            gateway.address,
            body.len()
        );
        let got = gateway.ask([head.as_bytes(), body].concat()).await;
        assert_eq!(got.status(), 200, "{encoding}");
        let asked = provider.asked.lock().expect("no panic").pop().expect("asked");
        assert_eq!(asked.body, wanted, "{encoding}");
        let kept = (encoding == "br").then_some("br");
        assert_eq!(asked.header("content-encoding"), kept, "{encoding}");
    }
    assert!(gateway.metrics().await.contains("softland_events_total{event=\"opaque_body\"} 1"));
}

#[tokio::test]
async fn other_upstreams_are_reached_by_name() {
    let provider = Provider::says(response("200 OK", &[], "ok")).await;
    let below = format!("{}/compatible/v1", provider.url());
    let gateway = Running::with(settings(&below)).await;
    for (line, wanted) in [
        ("POST /to/other/v1/messages?beta=true", "POST /compatible/v1/messages?beta=true"),
        ("GET /to/other/v1/models/a%2Fb", "GET /compatible/v1/models/a%2Fb"),
        ("POST /v1/chat/completions", "POST /compatible/v1/chat/completions"),
        ("GET /to/other/v1/x?q={a|b:'c'}", "GET /compatible/v1/x?q={a|b:'c'}"),
    ] {
        let got = gateway.ask(gateway.request(line, &[], "")).await;
        assert_eq!(got.text(), "ok", "{line}");
        let asked = provider.asked.lock().expect("no panic").pop().expect("asked");
        assert_eq!(asked.line, format!("{wanted} HTTP/1.1"));
    }
}

#[tokio::test]
async fn requests_without_a_vendors_path_go_where_their_headers_say() {
    let anthropic = Provider::says(response("200 OK", &[], "anthropic")).await;
    let openai = Provider::says(response("200 OK", &[], "openai")).await;
    let mut both = settings(&anthropic.url());
    both.upstreams.insert(
        "openai".to_owned(),
        Upstream {
            base_url: BaseUrl::parse(&openai.url()).expect("a URL"),
            key: None,
            silence: None,
        },
    );
    let gateway = Running::with(both).await;
    for (line, header, wanted) in [
        ("GET /v1/models", "anthropic-version: 2023-06-01", "anthropic"),
        ("GET /v1/models", "x-api-key: k", "anthropic"),
        ("GET /v1/models", "authorization: Bearer k", "openai"),
        ("GET /v1/messages/batches/b", "authorization: Bearer k", "anthropic"),
        ("POST /v1/chat/completions", "x-api-key: k", "openai"),
        ("POST /v1/responses", "x-a: b", "openai"),
        ("GET /v1/responses/r_1", "x-a: b", "openai"),
    ] {
        let got = gateway.ask(gateway.request(line, &[header], "")).await;
        assert_eq!(got.text(), wanted, "{line} {header}");
    }
}

#[tokio::test]
async fn one_connection_serves_many_requests_also_sent_at_once() {
    let provider = Provider::says(response("200 OK", &[], "ok")).await;
    let gateway = Running::before(&provider).await;
    let mut client = gateway.client().await;
    for n in 0..5 {
        let line = format!("POST /v1/messages?n={n}");
        assert_eq!(client.ask(gateway.request(&line, &[], "{}")).await.text(), "ok");
    }
    let one = gateway.request("POST /v1/messages", &[], "{}");
    client.send(one.repeat(3)).await;
    for _ in 0..3 {
        assert_eq!(client.message().await.expect("a response").text(), "ok");
    }
    assert_eq!(provider.count(), 8);
}

#[tokio::test]
async fn who_expects_to_be_asked_for_a_body_is_asked() {
    let provider = Provider::says(response("200 OK", &[], "ok")).await;
    let gateway = Running::before(&provider).await;
    let mut client = gateway.client().await;
    let headers = ["expect: 100-continue", "content-length: 2"];
    client.send(gateway.request("POST /v1/messages", &headers, "")).await;
    client.until("HTTP/1.1 100 Continue\r\n\r\n").await;
    assert_eq!(client.ask("{}").await.text(), "ok");
    assert_eq!(provider.only().header("expect"), None);
}

#[tokio::test]
async fn small_pieces_are_not_delayed() {
    let seen = Arc::new(Notify::new());
    let wait = Arc::clone(&seen);
    let provider = Provider::does(move |_, wire| {
        let wait = Arc::clone(&wait);
        async move {
            let mut wire = wire.lock().await;
            wire.stream.set_nodelay(true).expect("a socket");
            wire.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n").await;
            wait.notified().await;
            wire.send("1\r\nb\r\n").await;
            wait.notified().await;
            wire.send("0\r\n\r\n").await;
            true
        }
    })
    .await;
    let gateway = Running::before(&provider).await;
    let mut client = gateway.client().await;
    let mut waits = Vec::new();
    for _ in 0..20 {
        client.send(gateway.request("GET /v1/stream", &[], "")).await;
        client.until("a\r\n").await;
        let began = Instant::now();
        seen.notify_one();
        client.until("b\r\n").await;
        waits.push(began.elapsed());
        seen.notify_one();
        client.until("0\r\n\r\n").await;
    }
    // A client that has just sent something acknowledges after 40 ms: so long a second piece
    // would be held back.
    waits.sort();
    let middle = waits.get(10).expect("there are 20");
    assert!(*middle < Duration::from_millis(30), "{waits:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_in_any_pieces_come_back(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..3000), 0..8),
        chunked: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let provider = Provider::does(|asked, wire| async move {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", asked.body.len());
                wire.lock().await.send([head.into_bytes(), asked.body].concat()).await;
                true
            })
            .await;
            let gateway = Running::before(&provider).await;
            let whole = pieces.concat();
            let mut client = gateway.client().await;
            let length = if chunked {
                "transfer-encoding: chunked".to_owned()
            } else {
                format!("content-length: {}", whole.len())
            };
            client.send(gateway.request("POST /v1/files", &[&length], "")).await;
            for piece in &pieces {
                if chunked {
                    client.send(format!("{:x}\r\n", piece.len())).await;
                }
                client.send(piece).await;
                if chunked {
                    client.send("\r\n").await;
                }
            }
            if chunked {
                client.send("0\r\n\r\n").await;
            }
            let got = client.message().await.expect("a response");
            assert_eq!(got.body, whole);
            assert_eq!(provider.only().body, whole);
        });
    }
}

async fn packed(mut encoder: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut packed = Vec::new();
    encoder.read_to_end(&mut packed).await.expect("packed");
    packed
}

/// A response without a type gets none.
#[tokio::test]
async fn an_empty_answer_gains_no_type() {
    for (line, body) in [("204 No Content", ""), ("200 OK", "what is no message")] {
        let provider = Provider::says(response(line, &[], body)).await;
        let gateway = Running::before(&provider).await;
        let asked = r#"{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
        let got = gateway.ask(gateway.request("POST /v1/messages", &[], asked)).await;
        assert_eq!((got.line.split_once(' ').map(|line| line.1), got.text()), (Some(line), body));
        assert_eq!(got.header("content-type"), None, "{got:?}");
    }
}
