//! Requests that are refused, headers that are not passed on, and hostile bytes, which do nothing.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use crate::support::{Message, Provider, Running, response, settings};
use http::StatusCode;
use softland_gateway::{BaseUrl, KeyEntry, Route, Secret, Settings, Upstream};
use softland_session::core::NanoUsd;
use softland_session::core::policy::{Mode, Policy};

/// The change of a gateway's settings in one case.
type Change<'a> = &'a dyn Fn(&mut Settings);

/// A gateway that must not ask its provider anything.
pub(crate) async fn closed(change: impl FnOnce(&mut Settings)) -> (Provider, Running) {
    let provider = Provider::says(response("200 OK", &[], "through")).await;
    let mut settings = settings(&provider.url());
    change(&mut settings);
    let gateway = Running::with(settings).await;
    (provider, gateway)
}

pub(crate) fn assert_anthropic(got: &Message, status: StatusCode, kind: &str, says: &str) {
    assert_eq!(got.status(), status.as_u16(), "{got:?}");
    assert_eq!(got.header("content-type"), Some("application/json"));
    let body: serde_json::Value = serde_json::from_slice(&got.body).expect("JSON");
    assert_eq!((&body["type"], &body["error"]["type"]), (&"error".into(), &kind.into()), "{body}");
    let message = body["error"]["message"].as_str().expect("a message");
    assert!(message.contains(says), "{message}");
}

// --- names

#[tokio::test]
async fn only_known_hosts_are_served() {
    let (provider, gateway) = closed(|settings| {
        settings.allowed_hosts = vec!["gw.internal".into(), "Other.test:8080".into()];
    })
    .await;
    let port = gateway.address.port();
    let served = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("LocalHost:{port}"),
        format!("[::1]:{port}"),
        "gw.internal".to_owned(),
        "GW.internal:99".to_owned(),
        "other.test:8080".to_owned(),
    ];
    for host in &served {
        let request = format!("GET /v1/models HTTP/1.1\r\nhost: {host}\r\n\r\n");
        assert_eq!(gateway.ask(request).await.status(), 200, "{host}");
    }
    let before = provider.count();
    let refused = [
        "evil.test".to_owned(),
        format!("evil.test:{port}"),
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port ^ 1),
        format!("127.0.0.2:{port}"),
        format!("localhost.evil.test:{port}"),
        format!("127.0.0.1.evil.test:{port}"),
        "other.test".to_owned(),
        "other.test:80".to_owned(),
        format!("user@localhost:{port}"),
        format!("localhost:{port}:{port}"),
        format!("localhost:0{port}0"),
        format!("[::1:{port}"),
        String::new(),
    ];
    for host in refused {
        for path in ["/v1/messages", "/healthz", "/metrics", "/nothing"] {
            let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
            let got = gateway.ask(request).await;
            assert!(matches!(got.status(), 400 | 403), "{host:?} {path} {got:?}");
        }
    }
    let got = gateway.ask("POST /v1/messages HTTP/1.1\r\nhost: evil.test\r\n\r\n").await;
    assert_anthropic(&got, StatusCode::FORBIDDEN, "permission_error", "allowed_hosts");
    assert_eq!(got.header("x-should-retry"), Some("false"));
    assert_eq!(provider.count(), before, "none of them went through");
}

#[tokio::test]
async fn a_host_is_there_once() {
    let (provider, gateway) = closed(|_| {}).await;
    let host = format!("host: {}", gateway.address);
    for hosts in
        ["x-a: b".to_owned(), format!("{host}\r\n{host}"), format!("{host}\r\nhost: evil.test")]
    {
        let got = gateway.ask(format!("POST /v1/messages HTTP/1.1\r\n{hosts}\r\n\r\n")).await;
        assert_anthropic(&got, StatusCode::BAD_REQUEST, "invalid_request_error", "one Host");
    }
    assert_eq!(provider.count(), 0);
}

#[tokio::test]
async fn web_pages_of_other_origins_are_refused() {
    let (provider, gateway) = closed(|_| {}).await;
    let port = gateway.address.port();
    for origin in [
        "https://evil.test".to_owned(),
        "null".to_owned(),
        format!("http://localhost:{}", port ^ 1),
        format!("http://localhost:{port}.evil.test"),
        "http://localhost".to_owned(),
        format!("ftp://localhost:{port}"),
        format!("http://localhost:{port}\r\norigin: http://evil.test"),
        String::new(),
    ] {
        let header = format!("origin: {origin}");
        let got = gateway.ask(gateway.request("POST /v1/messages", &[&header], "{}")).await;
        assert_anthropic(&got, StatusCode::FORBIDDEN, "permission_error", "origin");
    }
    assert_eq!(provider.count(), 0);
    let header = format!("origin: http://localhost:{port}");
    let got = gateway.ask(gateway.request("POST /v1/messages", &[&header], "{}")).await;
    assert_eq!(got.status(), 200, "its own pages are not foreign");
}

#[tokio::test]
async fn an_address_in_the_request_line_does_not_choose_the_upstream() {
    let (provider, gateway) = closed(|_| {}).await;
    let elsewhere = Provider::says(response("200 OK", &[], "elsewhere")).await;
    let (host, other) = (gateway.address, elsewhere.address);
    for (target, named, status) in [
        (format!("http://{other}/v1/models"), host.to_string(), 403),
        (format!("http://{other}/v1/models"), other.to_string(), 403),
        (format!("http://{host}/v1/models"), other.to_string(), 403),
        (format!("http://{host}/v1/models"), host.to_string(), 200),
        ("*".to_owned(), host.to_string(), 404),
    ] {
        let request = format!("OPTIONS {target} HTTP/1.1\r\nhost: {named}\r\n\r\n");
        let got = gateway.ask(request).await;
        assert_eq!(got.status(), status, "{target} {named}: {got:?}");
    }
    assert_eq!((provider.count(), elsewhere.count()), (1, 0));
    let request = format!("CONNECT {host} HTTP/1.1\r\nhost: {host}\r\n\r\n");
    assert!(matches!(gateway.ask(request).await.status(), 400..=499));
    assert_eq!(provider.count(), 1);
}

#[tokio::test]
async fn tricks_in_paths_are_refused() {
    let (provider, gateway) = closed(|_| {}).await;
    for path in [
        "/to/other/v1/../../secret",
        "/to/other/v1/%2e%2e/secret",
        "/to/other/v1/%2E./secret",
        "/to/other/v1/..%2fsecret",
        "/to/other/v1/..%5csecret",
        "/to/other/v1/a\\..\\b",
        "/to/other/../other/v1/x",
        "/to/../v1/x",
        "/to//v1/x",
        "/to/other//v1/x",
        "/to/other/v1//x",
        "//evil.test/v1/messages",
        "/to/other/v1/./messages",
        "/to/other/v1/%00",
        "/to/other/v1/x%0d%0ahost:%20evil.test",
        "/v1/%6dessages",
        "/v1%2fmessages",
        "/to/other/v1%2Fmessages",
        "/to/other/v1/chat%2fcompletions",
        "/to/evil.test/v1/x",
        "/to/http:/v1/x",
        "/to/other@evil.test/v1/x",
        "/to/other%2f..%2fanthropic/v1/x",
        "/to/Other/v1/x",
        "/to/other",
        "/to/other/",
        "/to/other/v2/x",
        "/to/",
        "/secret",
        "/v1",
        "/v10/x",
    ] {
        let got = gateway.ask(gateway.request(&format!("POST {path}"), &[], "")).await;
        assert!(matches!(got.status(), 400 | 404), "{path}: {got:?}");
    }
    assert_eq!(provider.count(), 0);
    // What is odd and harmless goes on as it is.
    for path in ["/to/other/v1/a%2Fb", "/v1/models/m.v2..x", "/v1/x%20y?a=../..&b=//"] {
        let got = gateway.ask(gateway.request(&format!("GET {path}"), &[], "")).await;
        assert_eq!(got.status(), 200, "{path}");
        let asked = provider.asked.lock().expect("no panic").pop().expect("asked");
        let wanted = path.strip_prefix("/to/other").unwrap_or(path);
        assert_eq!(asked.line, format!("GET {wanted} HTTP/1.1"));
    }
}

// --- credentials

fn with_key(settings: &mut Settings, name: &str, key: &str) {
    let upstream = settings.upstreams.get_mut(name).expect("there");
    upstream.key = Some(Secret::new(key));
}

#[tokio::test]
async fn client_tokens_are_asked_for_and_stay_here() {
    let (provider, gateway) = closed(|settings| {
        settings.keys = ["token-a", "token-b"].map(KeyEntry::from_token).into();
        with_key(settings, "anthropic", "sk-own");
    })
    .await;
    for header in [
        "x-a: b",
        "x-api-key: token-",
        "x-api-key: token-aa",
        "x-api-key: TOKEN-A",
        "x-api-key:",
        "authorization: Bearer token-c",
        "authorization: Basic token-a",
    ] {
        let got = gateway.ask(gateway.request("POST /v1/messages", &[header], "{}")).await;
        let says = "client token";
        assert_anthropic(&got, StatusCode::UNAUTHORIZED, "authentication_error", says);
        assert!(!got.text().contains("token-"), "no token is told");
    }
    assert_eq!(provider.count(), 0);
    for header in ["x-api-key: token-a", "authorization: bearer token-b"] {
        let got = gateway.ask(gateway.request("POST /v1/messages", &[header], "{}")).await;
        assert_eq!(got.status(), 200, "{header}");
        let asked = provider.asked.lock().expect("no panic").pop().expect("asked");
        assert_eq!(asked.header("x-api-key"), Some("sk-own"));
        assert!(!format!("{asked:?}").contains("token-"), "{asked:?}");
    }
    // Without a key of the gateway the client's own goes on, the token does not.
    let headers = ["x-api-key: token-a", "authorization: Bearer sk-client"];
    gateway.ask(gateway.request("POST /to/other/v1/responses", &headers, "{}")).await;
    let asked = provider.asked.lock().expect("no panic").pop().expect("asked");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-client"));
    assert_eq!(asked.header("x-api-key"), None);
}

#[tokio::test]
async fn the_gateways_key_replaces_the_clients_where_there_is_one() {
    let (provider, gateway) = closed(|settings| {
        with_key(settings, "anthropic", "sk-a");
        with_key(settings, "openai", "sk-o");
    })
    .await;
    let theirs = ["x-api-key: mine", "authorization: Bearer mine", "api-key: mine"];
    for (line, name, wanted) in [
        ("POST /v1/messages", "x-api-key", "sk-a"),
        ("POST /v1/responses", "authorization", "Bearer sk-o"),
        ("POST /to/openai/v1/messages", "authorization", "Bearer sk-o"),
    ] {
        gateway.ask(gateway.request(line, &theirs, "{}")).await;
        let asked = provider.asked.lock().expect("no panic").pop().expect("asked");
        assert_eq!(asked.header(name), Some(wanted), "{line}");
        assert!(!format!("{asked:?}").contains("mine"), "{asked:?}");
    }
    gateway.ask(gateway.request("POST /to/other/v1/messages", &theirs, "{}")).await;
    let asked = provider.asked.lock().expect("no panic").pop().expect("asked");
    assert_eq!(asked.header("x-api-key"), Some("mine"), "there is none for this upstream");
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirect_and_are_not_told() {
    let elsewhere = Provider::says(response("200 OK", &[], "elsewhere")).await;
    let location = format!("location: {}/v1/messages", elsewhere.url());
    let provider = Provider::says(response("307 Temporary Redirect", &[&location], "")).await;
    let mut settings = settings(&provider.url());
    with_key(&mut settings, "anthropic", "sk-own");
    let dead = BaseUrl::parse("http://127.0.0.1:9").expect("a URL");
    let dead = Upstream { base_url: dead, key: Some(Secret::new("sk-dead")), silence: None };
    settings.upstreams.insert("openai".to_owned(), dead);
    let gateway = Running::with(settings).await;
    let got = gateway.ask(gateway.request("POST /v1/messages", &[], "{}")).await;
    assert_eq!(got.status(), 307);
    assert_eq!(elsewhere.count(), 0);
    let got =
        gateway.ask(gateway.request("POST /v1/responses", &["x-api-key: sk-mine"], "{}")).await;
    assert_eq!(got.status(), 502);
    assert!(!format!("{got:?}").contains("sk-"), "{got:?}");
}

// --- identity headers

#[tokio::test]
async fn identity_headers_are_short_and_plain() {
    let (provider, gateway) = closed(|_| {}).await;
    for name in ["x-softland-run", "x-softland-session", "x-softland-policy"] {
        let long = "r".repeat(257);
        for value in [
            "",
            " ",
            "a b",
            "a\tb",
            "caf\u{e9}",
            "a\u{7f}b",
            &long,
            "a\r\nX-Softland-Run: b\r\nx-softland-session: b\r\nx-softland-policy: b",
        ] {
            let header = format!("{name}: {value}");
            let got = gateway.ask(gateway.request("POST /v1/messages", &[&header], "{}")).await;
            assert!(matches!(got.status(), 400), "{header:?}: {got:?}");
        }
    }
    assert_eq!(provider.count(), 0);
    let long = format!("x-softland-run: {}", "r".repeat(256));
    let got = gateway.ask(gateway.request("POST /v1/messages", &[&long], "{}")).await;
    assert_eq!(got.status(), 200);
    assert!(!format!("{:?}", provider.only()).contains("x-softland"));
}

// --- what is not served

#[tokio::test]
async fn websockets_are_refused_in_words() {
    let (provider, gateway) = closed(|_| {}).await;
    let headers = [
        "connection: Upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    let got = gateway.ask(gateway.request("GET /v1/responses", &headers, "")).await;
    assert_eq!(got.status(), 426);
    let body: serde_json::Value = serde_json::from_slice(&got.body).expect("JSON");
    assert!(body["error"]["message"].as_str().expect("text").contains("WebSocket"), "{body}");
    assert_eq!(provider.count(), 0);
    let headers = ["connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAM"];
    let got = gateway.ask(gateway.request("POST /v1/messages", &headers, "{}")).await;
    assert_eq!(got.status(), 200, "an offer of HTTP/2 is passed over");
    assert_eq!(provider.only().header("http2-settings"), None);
}

#[tokio::test]
async fn what_cannot_be_metered_is_refused_under_a_cost_limit() {
    let force = |settings: &mut Settings, policy| {
        settings.policies.insert("forced".into(), policy);
        settings.forced_policy = Some("forced".into());
    };
    let limited = || Policy { cost_limit_usd: Some(NanoUsd(1)), ..Policy::default() };
    let route = Route {
        model: "claude-*".into(),
        policy: Some("dear".into()),
        upstream: None,
        shape: None,
    };
    let cases: [(&str, Change<'_>, u16); 6] = [
        ("no limit", &|_| {}, 200),
        ("default", &|s| drop(s.policies.insert("default".into(), limited())), 400),
        ("forced", &|s| force(s, limited()), 400),
        (
            "a route's",
            &|s| {
                s.policies.insert("dear".into(), limited());
                s.routes = vec![route.clone()];
            },
            400,
        ),
        (
            "allowed",
            &|s| {
                force(s, limited());
                s.allow_unmetered = true;
            },
            200,
        ),
        (
            "observed",
            &|s| {
                force(s, Policy { mode: Mode::Observe, ..limited() });
            },
            200,
        ),
    ];
    for (name, change, status) in cases {
        let (provider, gateway) = closed(change).await;
        for path in ["/v1/messages/batches", "/v1/completions", "/to/other/v1/embeddings"] {
            let got = gateway.ask(gateway.request(&format!("POST {path}"), &[], "{}")).await;
            assert_eq!(got.status(), status, "{name} {path}: {got:?}");
            if status == 400 {
                assert!(got.text().contains("allow_unmetered"), "{got:?}");
                assert_eq!(got.header("x-should-retry"), Some("false"));
            }
        }
        // A body that cannot be read cannot be metered either, and a stop is an answer.
        let packed = ["content-encoding: br"];
        let got = gateway.ask(gateway.request("POST /v1/messages", &packed, "{}")).await;
        assert_eq!(got.status(), 200, "{name}: {got:?}");
        assert_eq!(got.text().contains("content-encoding is br"), status == 400, "{name}: {got:?}");
        assert_eq!(provider.count(), if status == 200 { 4 } else { 0 }, "{name}");
        for line in ["GET /v1/models", "POST /v1/files", "POST /v1/messages/batches/b/cancel"] {
            let got = gateway.ask(gateway.request(line, &[], "")).await;
            assert_eq!(got.status(), 200, "{name} {line} costs nothing");
        }
        let counted = gateway.metrics().await.contains("{event=\"unmetered\"} 4");
        assert_eq!(counted, status == 200, "{name}");
    }
}

/// Each header that selects a policy leads to the right one, as the policies' limits of tool calls
/// show.
#[tokio::test]
async fn a_header_selects_what_the_operator_allows() {
    let limit = |calls| Policy { tool_calls_limit: Some(calls), ..Policy::default() };
    let gateway = async |allowed: &[&str], forced: Option<&str>| {
        closed(|settings| {
            for (name, calls) in [("default", 11), ("strict", 12), ("lax", 13), ("routed", 14)] {
                settings.policies.insert(name.to_owned(), limit(calls));
            }
            let route = Route {
                model: "routed-*".into(),
                policy: Some("routed".into()),
                upstream: None,
                shape: None,
            };
            settings.routes = vec![route];
            settings.header_policies = allowed.iter().map(|&name| name.to_owned()).collect();
            settings.forced_policy = forced.map(str::to_owned);
        })
        .await
    };
    let asked = |model: &str| {
        format!(
            "{{\"model\":\"{model}\",\"max_tokens\":9,\"tools\":[{{\"name\":\"t\",\"input_schema\":\
             {{}}}}],\"messages\":[{{\"role\":\"user\",\"content\":\"x\"}}]}}"
        )
    };
    let holds = Ok::<u64, &str>;
    let (plain, routed) = ("m", "routed-m");
    for (allowed, forced, header, model, wanted) in [
        (&["strict", "lax"][..], None, None, plain, holds(11)),
        (&["strict", "lax"], None, None, routed, holds(14)),
        (&["strict", "lax"], None, Some("strict"), plain, holds(12)),
        (&["strict", "lax"], None, Some("lax"), routed, holds(13)),
        (&["strict", "lax"], Some("default"), Some("lax"), routed, holds(11)),
        (&["strict"], None, Some("lax"), plain, Err("they may choose strict")),
        (&["strict", "lax"], None, Some("default"), plain, Err("they may choose strict, lax")),
        // Built-in ones are not the operator's.
        (&["strict"], None, Some("coding"), plain, Err("they may choose strict")),
        (&["strict"], None, Some("Strict"), plain, Err("they may choose strict")),
        (&[], None, Some("strict"), routed, Err("no policy may be chosen")),
    ] {
        let name = format!("{allowed:?} {forced:?} {header:?} {model}");
        let (provider, gateway) = gateway(allowed, forced).await;
        let header = header.map(|name| format!("x-softland-policy: {name}"));
        let headers: Vec<&str> = header.iter().map(String::as_str).collect();
        let got = gateway.ask(gateway.request("POST /v1/messages", &headers, &asked(model))).await;
        match wanted {
            Ok(calls) => {
                assert_eq!(
                    got.header("x-softland-tool-calls"),
                    Some(&*format!("0/{calls}")),
                    "{name}"
                );
            }
            Err(words) => {
                assert_anthropic(&got, StatusCode::FORBIDDEN, "permission_error", words);
                let lines = ["POST /v1/messages/count_tokens", "POST /v1/embeddings"];
                for line in lines {
                    let got = gateway.ask(gateway.request(line, &headers, &asked(model))).await;
                    assert_eq!(got.status(), 403, "{name}: {line}");
                    assert!(got.text().contains(words), "{name}: {}", got.text());
                }
                assert_eq!(provider.count(), 0, "{name}");
            }
        }
    }
}

/// A path that is nearly a governed one is governed, and asked for as its API has it, or refused.
#[tokio::test]
async fn near_misses_of_governed_paths_do_not_pass() {
    let (provider, gateway) = closed(|settings| {
        let policy = Policy { tool_calls_limit: Some(7), ..Policy::default() };
        settings.policies.insert("default".to_owned(), policy);
    })
    .await;
    let body = |path: &str| match path.contains("responses") {
        true => r#"{"model":"m","input":"x","tools":[{"type":"function","name":"t"}]}"#,
        false if path.contains("chat") => {
            r#"{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"t"}}]}"#
        }
        false => {
            r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"t","input_schema":{}}]}"#
        }
    };
    for known in ["/v1/messages", "/v1/chat/completions", "/v1/responses"] {
        for (before, tail, query) in [
            ("", "/", ""),
            ("/", "", ""),
            ("/v1", "", "?beta=true"),
            ("/v1/v1//", "//", "?beta=true"),
            ("/to/other", "/", ""),
            ("/to/other/v1", "", ""),
            ("/to/other/", "", ""),
        ] {
            let path = format!("{before}{known}{tail}{query}");
            let got = gateway.ask(gateway.request(&format!("POST {path}"), &[], body(known))).await;
            assert_eq!(got.header("x-softland-tool-calls"), Some("0/7"), "{path}: {got:?}");
            let asked = provider.asked.lock().expect("no panic").pop().expect("asked");
            assert_eq!(asked.line, format!("POST {known}{query} HTTP/1.1"), "{path}");
        }
        for path in [
            known.to_uppercase(),
            known.replace("/v1", "/v1/openai/v1"),
            known.replace("s", "%73"),
            format!("{known};x=1"),
            format!("{known}%20"),
            format!("/to/other{known}%2f"),
            known.replace("/v1", "/v1/engines/gpt-4.1"),
            known.replace("/v1", "/v1/openai/deployments/gpt-4.1"),
            known.replace("/v1", "/v1/projects/p"),
            known.replace("/v1", "/to/other/v1/api"),
            format!("{known}{}", known.trim_start_matches("/v1")),
            "/v1/chat/completion".to_owned(),
        ] {
            let before = provider.count();
            let got = gateway.ask(gateway.request(&format!("POST {path}"), &[], body(known))).await;
            assert!(matches!(got.status(), 400 | 404), "{path}: {got:?}");
            assert_eq!(provider.count(), before, "{path}");
        }
    }
}
