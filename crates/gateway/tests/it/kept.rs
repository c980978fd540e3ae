//! Connections to upstreams are used again, as many are made as are needed at once, and none that
//! was closed meanwhile costs a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::client::{Client, all};
use crate::support::script::{Form, whole};
use crate::support::{LONG, Provider, Running, reading, response, settings};
use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::{Barrier, Notify};

fn says_hello(form: Form) -> String {
    whole(form, &[json!({"type": "text", "text": "Hello."})], "end_turn")
}

#[tokio::test]
async fn what_comes_one_after_the_other_goes_over_one_connection() {
    let provider = Provider::does(|asked, wire| async move {
        let answer = match asked.line.as_str() {
            line if line.starts_with("GET") => response("204 No Content", &[], ""),
            line if line.starts_with("HEAD") => response("200 OK", &[], ""),
            line if line.contains("/files") => response("200 OK", &[], "ok"),
            _ => says_hello(Form::of(&asked)),
        };
        wire.lock().await.send(answer).await;
        true
    })
    .await;
    let gateway = Running::before(&provider).await;
    let mut sent = 0;
    for _ in 0..2 {
        for (api, stream) in all() {
            let got = Client::on(api, stream).post(&gateway).await;
            assert_eq!(reading::read(&got).text(), "Hello.", "{got:?}");
            sent += 1;
        }
        // What is not governed, what is sent in pieces, and answers without a body.
        let pieces = "POST /v1/files HTTP/1.1\r\ntransfer-encoding: chunked\r\n";
        let pieces =
            format!("{pieces}host: {}\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", gateway.address);
        assert_eq!(gateway.ask(pieces).await.text(), "ok");
        assert_eq!(gateway.ask(gateway.request("GET /v1/models", &[], "")).await.status(), 204);
        sent += 2;
    }
    assert_eq!((provider.count(), provider.connections()), (sent, 1));
}

#[tokio::test]
async fn as_many_are_made_as_are_needed_at_once_and_no_more() {
    const AT_ONCE: usize = 8;
    let all = Arc::new(Barrier::new(AT_ONCE));
    let provider = Provider::does(move |asked, wire| {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            wire.lock().await.send(says_hello(Form::of(&asked))).await;
            true
        }
    })
    .await;
    let gateway = Running::before(&provider).await;
    for _ in 0..3 {
        let clients: Vec<_> = (0..AT_ONCE).map(|n| Client::new(n % 2 == 0)).collect();
        for got in join_all(clients.iter().map(|client| client.post(&gateway))).await {
            assert_eq!(reading::read(&got).text(), "Hello.");
        }
    }
    assert_eq!((provider.count(), provider.connections()), (3 * AT_ONCE, AT_ONCE));
}

#[tokio::test]
async fn one_that_was_closed_unused_costs_no_request() {
    let closed = Arc::new(Notify::new());
    let told = Arc::clone(&closed);
    let provider = Provider::does(move |asked, wire| {
        let told = Arc::clone(&told);
        async move {
            let mut wire = wire.lock().await;
            wire.send(says_hello(Form::of(&asked))).await;
            // Says nothing of it before, and waits until the gateway has closed its side.
            tokio::io::AsyncWriteExt::shutdown(&mut wire.stream).await.expect("closed");
            assert_eq!(wire.rest().await, b"", "no request came over it any more");
            told.notify_one();
            false
        }
    })
    .await;
    let gateway = Running::before(&provider).await;
    for n in 1..=5 {
        let got = Client::new(n % 2 == 0).post(&gateway).await;
        assert_eq!(reading::read(&got).text(), "Hello.", "{n}: {got:?}");
        tokio::time::timeout(LONG, closed.notified()).await.expect("closed by both");
        assert_eq!((provider.count(), provider.connections()), (n, n));
    }
}

#[tokio::test]
async fn a_stream_that_is_read_to_its_end_leaves_nothing_behind() {
    // Its framing ends some time after its last event.
    let told = Arc::new(Notify::new());
    let release = Arc::clone(&told);
    let provider = Provider::does(move |asked, wire| {
        let release = Arc::clone(&release);
        async move {
            let mut wire = wire.lock().await;
            let answer = says_hello(Form::of(&asked));
            let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                        transfer-encoding: chunked\r\n\r\n";
            wire.send(format!("{head}{:x}\r\n{body}\r\n", body.len())).await;
            release.notified().await;
            wire.send("8\r\n: more\n\n\r\n0\r\n\r\n").await;
            true
        }
    })
    .await;
    let gateway = Running::before(&provider).await;
    for n in 1..=4 {
        let mut client = gateway.client().await;
        client.send(Client::new(true).request(&gateway)).await;
        client.until("Hello.").await;
        told.notify_one();
        let rest = client.until("0\r\n\r\n").await;
        assert!(rest.contains("message_stop") && !rest.contains("HTTP/1.1"), "{rest:?}");
        assert_eq!((provider.count(), provider.connections()), (n, 1));
    }
}

#[tokio::test]
async fn one_whose_client_left_serves_nobody_else() {
    let asked_once = Arc::new(AtomicBool::new(false));
    let left = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&left);
    let provider = Provider::does(move |asked, wire| {
        let (first, seen) = (!asked_once.swap(true, Ordering::SeqCst), Arc::clone(&seen));
        async move {
            let mut wire = wire.lock().await;
            if first {
                // Whose answer would be whose?
                assert_eq!(wire.rest().await, b"");
                seen.fetch_add(1, Ordering::SeqCst);
                return false;
            }
            wire.send(says_hello(Form::of(&asked))).await;
            true
        }
    })
    .await;
    let gateway = Running::before(&provider).await;
    let mut gone = gateway.client().await;
    gone.send(Client::new(false).request(&gateway)).await;
    provider.until_asked(1).await;
    drop(gone);
    let waited = tokio::time::timeout(LONG, async {
        while left.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    waited.await.expect("the upstream is let go");
    for _ in 0..2 {
        let got = Client::new(false).post(&gateway).await;
        assert_eq!(reading::read(&got).text(), "Hello.");
    }
    assert_eq!(provider.connections(), 2);
}

#[tokio::test]
async fn one_that_nobody_uses_is_closed_after_a_while() {
    let closed = Arc::new(Notify::new());
    let told = Arc::clone(&closed);
    let provider = Provider::does(move |_, wire| {
        let told = Arc::clone(&told);
        async move {
            wire.lock().await.send(response("200 OK", &[], "ok")).await;
            tokio::spawn(async move {
                let mut wire = wire.lock().await;
                let end = tokio::io::AsyncReadExt::read(&mut wire.stream, &mut [0]).await;
                assert!(matches!(end, Ok(0)), "nothing comes but the end");
                told.notify_one();
            });
            // The connection lives on in there.
            false
        }
    })
    .await;
    let gateway = Running::before(&provider).await;
    let request = gateway.request("POST /v1/messages", &[], "{}");
    assert_eq!(gateway.ask(&request).await.text(), "ok");
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(20)).await;
    tokio::time::resume();
    let early = tokio::time::timeout(Duration::from_millis(20), closed.notified()).await;
    assert!(early.is_err(), "it is kept for the next request");
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(31)).await;
    tokio::time::resume();
    tokio::time::timeout(LONG, closed.notified()).await.expect("it is closed");
}

#[tokio::test]
async fn new_settings_go_on_with_the_connections_of_the_old_ones() {
    let provider = Provider::says(response("200 OK", &[], "ok")).await;
    let gateway = Running::before(&provider).await;
    let request = gateway.request("POST /v1/messages", &[], "{}");
    for _ in 0..3 {
        assert_eq!(gateway.ask(&request).await.text(), "ok");
        gateway.handle.reload(settings(&provider.url())).expect("new settings");
    }
    // Three names of one upstream share them, too.
    let other = gateway.request("POST /to/other/v1/messages", &[], "{}");
    assert_eq!(gateway.ask(other).await.text(), "ok");
    assert_eq!((provider.count(), provider.connections()), (4, 1));
}

/// A listener of this system that is asked for no backlog lets one connection in that nobody has
/// accepted, and answers no further one.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn one_that_is_free_before_the_new_one_is_there_serves_who_waits() {
    use tokio::net::{TcpSocket, TcpStream};

    use crate::support::Wire;

    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let listener = socket.listen(0).expect("a listener");
    let address = listener.local_addr().expect("an address");
    let gateway = Running::with(settings(&format!("http://{address}"))).await;
    let (mut first, mut second) = (gateway.client().await, gateway.client().await);
    first.send(gateway.request("POST /v1/messages?n=1", &[], "{}")).await;
    let (stream, _) = listener.accept().await.expect("a connection");
    let mut wire = Wire { stream, read: Vec::new() };
    assert!(wire.message().await.expect("a request").line.contains("n=1"));
    let _full = TcpStream::connect(address).await.expect("the one that is let in");
    second.send(gateway.request("POST /v1/messages?n=2", &[], "{}")).await;
    let waits = tokio::time::timeout(Duration::from_millis(50), wire.more()).await;
    assert!(waits.is_err(), "it is not sent behind the first");
    wire.send(response("200 OK", &[], "one")).await;
    assert_eq!(first.message().await.expect("a response").text(), "one");
    assert!(wire.message().await.expect("a request").line.contains("n=2"));
    wire.send(response("200 OK", &[], "two")).await;
    assert_eq!(second.message().await.expect("a response").text(), "two");
}
