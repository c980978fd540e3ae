#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::Api;
use super::client;
use super::provider::{Endpoint, ProviderOverrides, resolve_model};
use super::*;

mod provider_cases;
mod retry_cases;

const KEY: &str = "sk-very-secret-0123456789";

/// The action of a scripted server after it has read a request.
enum Step {
    Send(&'static str),
    /// Sends nothing more and keeps the connection open.
    Stall,
    Reset,
}
use Step::{Reset, Send, Stall};

/// Starts a server for one connection. Returns the request that it read.
async fn serve(steps: Vec<Step>) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let request = read_request(&mut socket).await;
        for step in steps {
            match step {
                Send(text) => socket.write_all(text.as_bytes()).await.unwrap(),
                Stall => std::future::pending().await,
                Reset => socket.set_zero_linger().unwrap(),
            }
        }
        request
    });
    (address, task)
}

async fn read_request(socket: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = socket.read(&mut buffer).await.unwrap();
        request.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&request);
        let whole = text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.ends_with('}'));
        if read == 0 || whole {
            return text.into_owned();
        }
    }
}

fn endpoint(base_url: &str) -> Endpoint {
    let env = |name: &str| (name == "ANTHROPIC_API_KEY").then(|| KEY.to_owned());
    let base_url = Some((base_url, "--base-url"));
    let given =
        ProviderOverrides { api: Some(Api::Anthropic), base_url, ..ProviderOverrides::default() };
    resolve_model("anthropic/m", &given, &env).unwrap()
}

fn quick() -> Timeouts {
    let short = Duration::from_millis(300);
    Timeouts { connect: Duration::from_secs(5), first_byte: short, idle: short }
}

fn patient() -> Timeouts {
    let long = Duration::from_secs(20);
    Timeouts { connect: long, first_byte: long, idle: long }
}

fn request() -> Request {
    let headers = vec![("anthropic-beta".to_owned(), "b1".to_owned())];
    Request { path: "/v1/messages", headers, body: Bytes::from_static(b"{\"a\":1}") }
}

async fn send(base_url: &str, timeouts: Timeouts) -> Result<Response, TransportError> {
    HttpTransport::new(endpoint(base_url), timeouts)?.send(request()).await
}

/// Returns status, head and body of one answer, or the error. None of them may contain the key.
async fn exchange(
    steps: Vec<Step>,
    timeouts: Timeouts,
) -> Result<(u16, ResponseHead, Bytes), TransportError> {
    let (address, _server) = serve(steps).await;
    let result = async {
        let response = send(&format!("http://{address}"), timeouts).await?;
        let (status, head) = (response.status, response.head.clone());
        Ok((status, head, response.read_body(1024).await?))
    };
    let result = result.await;
    assert!(!format!("{result:?}").contains(KEY));
    result
}

fn kind<T: std::fmt::Debug>(result: Result<T, TransportError>) -> TransportErrorKind {
    result.unwrap_err().kind
}

#[tokio::test]
async fn a_request_carries_the_key_and_what_the_api_asks_for_once() {
    for base in ["", "/", "/v1", "/v1/"] {
        let ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nrequest-id: r1\r\ncontent-type: text/event-stream\r\n\r\nhi";
        let (address, server) = serve(vec![Send(ok)]).await;
        let response = send(&format!("http://{address}{base}"), patient()).await.unwrap();
        assert_eq!(response.status, 200);
        assert_eq!(response.head.request_id.as_deref(), Some("r1"));
        assert_eq!(response.head.content_type.as_deref(), Some("text/event-stream"));
        assert_eq!(response.read_body(10).await.unwrap(), "hi");
        let sent = server.await.unwrap();
        assert!(sent.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{sent}");
        for header in [
            &format!("x-api-key: {KEY}"),
            "anthropic-version: 2023-06-01",
            "anthropic-beta: b1",
            "content-type: application/json",
            concat!("user-agent: softland/", env!("CARGO_PKG_VERSION")),
        ] {
            assert_eq!(sent.matches(&format!("\r\n{header}\r\n")).count(), 1, "{header}: {sent}");
        }
        assert!(sent.ends_with("\r\n\r\n{\"a\":1}"), "{sent}");
        assert!(!sent.contains("authorization"), "{sent}");
    }
}

#[tokio::test]
async fn statuses_are_responses_with_their_heads() {
    for (status, more, retry_after, should_retry) in [
        (401, "", None, None),
        (404, "x-should-retry: false\r\n", None, Some(false)),
        (413, "", None, None),
        (429, "retry-after: 7\r\n", Some(7000), None),
        (429, "retry-after: 7\r\nretry-after-ms: 1500\r\n", Some(1500), None),
        (529, "x-should-retry: true\r\nretry-after: soon\r\n", None, Some(true)),
    ] {
        let answer = format!("HTTP/1.1 {status} X\r\n{more}content-length: 4\r\n\r\nbody");
        let (got, head, body) = exchange(vec![Send(answer.leak())], patient()).await.unwrap();
        assert_eq!((got, &body[..]), (status, &b"body"[..]));
        assert_eq!(head.retry_after, retry_after.map(Duration::from_millis));
        assert_eq!(head.should_retry, should_retry);
    }
}

#[tokio::test]
async fn refused_connections_name_the_origin_only() {
    // A port that was free a moment ago: bound and dropped again.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = send(&format!("http://{address}/some/path"), patient()).await.unwrap_err();
    assert_eq!(error.kind, TransportErrorKind::Refused);
    assert_eq!(
        error.to_string(),
        format!(
            "http://{address} refused the connection: nothing listens there (is the base URL right?)"
        ),
    );
}

#[tokio::test]
async fn unknown_hosts_are_told_from_refused_connections() {
    // `.invalid` never resolves (RFC 6761); without any resolver it does not either.
    let endpoint = endpoint("http://softland-test.invalid");
    let transport = HttpTransport::without_proxy(endpoint, patient()).unwrap();
    let error = transport.send(request()).await.unwrap_err();
    assert_eq!(error.kind, TransportErrorKind::Dns, "{error}");
    assert!(
        error.to_string().starts_with("http://softland-test.invalid: the host name has no address")
    );
}

#[tokio::test]
async fn tls_to_a_plain_port_is_a_tls_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut hello = [0; 16];
        let _ = socket.read(&mut hello).await;
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        let _ = socket.read(&mut hello).await;
    });
    let transport = match HttpTransport::new(endpoint(&format!("https://{address}")), patient()) {
        Ok(transport) => transport,
        Err(error) => {
            println!("skipped: this system has no root certificates ({error})");
            return;
        }
    };
    let error = transport.send(request()).await.unwrap_err();
    assert!(matches!(error.kind, TransportErrorKind::Tls { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("does not speak TLS") && text.contains(&format!("https://{address}")),
        "{text}"
    );
}

#[tokio::test]
async fn garbage_and_cuts_are_broken_connections() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n";
    for steps in [
        vec![Send("SSH-2.0-OpenSSH_9.6\r\n")],
        vec![Send("HTTP/1.1 200 OK\r\ncontent-le")],
        vec![],
        vec![Reset],
        vec![Send(head), Send("abc")],
        vec![Send(chunked)],
        vec![Send(chunked), Send("zz\r\n")],
        vec![Send(head), Send("abc"), Reset],
    ] {
        let kind = kind(exchange(steps, patient()).await);
        assert!(matches!(kind, TransportErrorKind::Broken { .. }), "{kind:?}");
    }
}

#[tokio::test]
async fn what_came_before_a_cut_is_handed_out_first() {
    let (address, _server) =
        serve(vec![Send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")]).await;
    let mut response = send(&format!("http://{address}"), patient()).await.unwrap();
    assert_eq!(response.body.next().await.unwrap().unwrap(), "abc");
    assert!(matches!(
        response.body.next().await.unwrap().unwrap_err().kind,
        TransportErrorKind::Broken { .. }
    ));
    assert!(response.body.next().await.is_none());
}

#[tokio::test]
async fn each_wait_has_its_own_timeout() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n";
    for (steps, phase) in [
        (vec![Stall], TimeoutPhase::FirstByte),
        (vec![Send("HTTP/1.1 200 OK\r\n"), Stall], TimeoutPhase::FirstByte),
        (vec![Send(head), Stall], TimeoutPhase::FirstByte),
        (vec![Send(head), Send("abc"), Stall], TimeoutPhase::Idle),
    ] {
        // Only the wait under test is short, so that a slow machine changes nothing.
        let timeouts = match phase {
            TimeoutPhase::Idle => Timeouts { first_byte: patient().first_byte, ..quick() },
            TimeoutPhase::Connect | TimeoutPhase::FirstByte => quick(),
        };
        let kind = kind(exchange(steps, timeouts).await);
        let after = Duration::from_millis(300);
        assert_eq!(kind, TransportErrorKind::Timeout { phase, after });
    }
    let kind = TransportErrorKind::Timeout {
        phase: TimeoutPhase::Idle,
        after: Duration::from_millis(300),
    };
    assert_eq!(
        TransportError::new("https://a.example", kind).to_string(),
        "https://a.example sent nothing more of the answer within 0.3 s",
    );
}

#[tokio::test]
async fn redirects_are_not_followed_and_their_target_never_asked() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = elsewhere.local_addr().unwrap();
    for status in [301, 302, 303, 307, 308] {
        let answer = format!(
            "HTTP/1.1 {status} X\r\nlocation: http://user:pw@{target}/v1?key={KEY}\r\ncontent-length: 0\r\n\r\n"
        );
        let error = exchange(vec![Send(answer.leak())], patient()).await.unwrap_err();
        let to = Some(format!("http://{target}"));
        assert_eq!(error.kind, TransportErrorKind::Redirect { status, to });
        assert!(error.to_string().contains("redirects are not followed"));
    }
    let asked = tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await;
    assert!(asked.is_err(), "the redirect was followed");
}

#[tokio::test]
async fn bodies_are_bounded() {
    let answer = "HTTP/1.1 500 X\r\ncontent-length: 2000\r\n\r\n";
    let body = "x".repeat(2000).leak();
    let kind = kind(exchange(vec![Send(answer), Send(body)], patient()).await);
    assert_eq!(kind, TransportErrorKind::TooLarge { max: 1024 });
}

#[tokio::test]
async fn headers_that_cannot_be_sent_are_named_without_their_value() {
    let transport = HttpTransport::new(endpoint("http://127.0.0.1:1"), quick()).unwrap();
    let mut request = request();
    request.headers.push(("x-a".to_owned(), format!("{KEY}\n")));
    let error = transport.send(request).await.unwrap_err();
    assert!(
        error.to_string().ends_with("cannot be sent: the header `x-a` is not valid"),
        "{error}"
    );
    assert!(!format!("{error:?} {transport:?}").contains(KEY));
}

#[tokio::test]
async fn a_caller_cannot_replace_the_credential() {
    let (address, server) = serve(vec![Send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")]).await;
    let transport = HttpTransport::new(endpoint(&format!("http://{address}")), patient()).unwrap();
    let mut request = request();
    request.headers.push(("x-api-key".to_owned(), "other".to_owned()));
    transport.send(request).await.unwrap();
    let sent = server.await.unwrap();
    assert!(sent.contains(KEY) && !sent.contains("other"), "{sent}");
}

#[test]
fn a_proxy_is_named_without_its_password() {
    let find = |scheme: &str, vars: &[(&str, &str)]| {
        client::proxy_for(scheme, &|name| {
            vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    };
    let http = ("HTTP_PROXY", "http://u:hunter2@proxy.example:3128/x");
    assert_eq!(find("http", &[http]).unwrap(), "http://proxy.example:3128 (HTTP_PROXY)");
    assert_eq!(find("https", &[http]), None);
    let all = ("all_proxy", "socks5://u:hunter2@10.0.0.1:1080");
    assert_eq!(find("https", &[http, all]).unwrap(), "socks5://10.0.0.1:1080 (all_proxy)");
    let bare = ("https_proxy", "u:hunter2@proxy:1");
    assert_eq!(find("https", &[bare]).unwrap(), "http://proxy:1 (https_proxy)");
    let odd = find("http", &[("HTTP_PROXY", "http://u:hunter2@:x")]).unwrap();
    assert_eq!(odd, "the one of HTTP_PROXY, which is not a URL");
}
