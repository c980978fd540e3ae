//! One client's connection, from its first byte to its last.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::request::answer_request;
use crate::serve::activity::ConnectionActivity;
use crate::serve::guard::EntryPoint;
use crate::serve::tls::ClientConnection;
use crate::state::GatewayState;

mod framing;
mod timed;

use timed::{ConnectionTimeouts, MissedDeadline, TimedStream};

/// Bytes of a request's head. The number of headers is at most 100, the server library's default:
/// another number would cost an allocation per request.
const HEAD_BYTES: usize = 64 << 10;
/// The time for which a connection without a request is kept. It is longer than the SDKs' own, so
/// that the client closes first and no request meets a closing connection.
const IDLE: Duration = Duration::from_secs(75);
/// The time for which a client may leave a response unread while the upstream waits.
const STALL: Duration = Duration::from_secs(300);
/// The message for a client whose request could be read as two requests.
const TWO_FRAMINGS: &str = "a request must say once and plainly where it ends: with one \
                            content-length, or with transfer-encoding: chunked";
/// The time to send a last error to a client whose connection ends.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves a connection to its end, or until it is told to end: with `soon` after the running
/// request, with `now` at once. `now` always follows `soon`.
pub(super) async fn serve_connection(
    gate: &Arc<GatewayState>,
    stream: TcpStream,
    (local, entry): (SocketAddr, EntryPoint),
    soon: CancellationToken,
    now: CancellationToken,
) {
    // Nagle's delay would stall a kept-alive stream for 40 ms at a time.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "the client went away at once");
        return;
    }
    // If the listener is bound to all addresses, this is the one that the client sees.
    let local = stream.local_addr().unwrap_or(local);
    let Some(stream) = secure_stream(gate, stream, &now).await else { return };
    let activity = Arc::new(ConnectionActivity::default());
    let head_time = gate.live_config().settings.limits.head_time;
    let times = ConnectionTimeouts { head: head_time, idle: IDLE, stall: STALL };
    let stream = TimedStream::new(stream, Arc::clone(&activity), times);
    let service = service_fn(|request| {
        activity.mark_busy();
        // Boxed, so that a connection holds memory for a request only while it answers one.
        let answered = Box::pin(answer_request(
            Arc::clone(gate),
            Arc::clone(&activity),
            (local, entry),
            request,
        ));
        async { Ok::<_, Infallible>(answered.await) }
    });
    let mut builder = http1::Builder::new();
    builder.max_header_size(HEAD_BYTES).header_read_timeout(None);
    let mut connection = builder.serve_connection(TokioIo::new(stream), service);
    let (mut soon, mut now) = (pin!(soon.cancelled()), pin!(now.cancelled()));
    let mut ending = false;
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut connection => break ended,
            () = &mut soon, if !ending => {
                std::pin::Pin::new(&mut connection).graceful_shutdown();
                ending = true;
            }
            () = &mut now, if ending => return,
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection");
        let stream = connection.into_parts().io.into_inner();
        if stream.missed_deadline() == Some(MissedDeadline::Head) {
            gate.watch.metrics.count_event("slow_head");
            let what = "the request head did not arrive in time";
            send_error(stream.into_inner(), StatusCode::REQUEST_TIMEOUT, what).await;
        } else if stream.is_ambiguous() {
            gate.watch.metrics.count_event("two_framings");
            send_error(stream.into_inner(), StatusCode::BAD_REQUEST, TWO_FRAMINGS).await;
        }
    }
}

/// Agrees on the keys of a connection, if the gateway serves TLS. Returns `None` if that fails.
async fn secure_stream(
    gate: &GatewayState,
    stream: TcpStream,
    now: &CancellationToken,
) -> Option<ClientConnection> {
    let live = gate.live_config();
    let Some(tls) = &live.settings.tls else { return Some(ClientConnection::Plain(stream)) };
    let shaken = tokio::time::timeout(live.settings.limits.head_time, tls.shake_hands(stream));
    let why = tokio::select! {
        () = now.cancelled() => return None,
        shaken = shaken => match shaken {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the client was too slow".to_owned(),
        },
    };
    gate.watch.metrics.count_event("tls_refused");
    tracing::debug!(%why, "no TLS connection");
    None
}

/// Tells a client why its connection ends, in an error that both protocols' SDKs can read.
async fn send_error(mut stream: ClientConnection, status: StatusCode, message: &str) {
    let words = raw_response(status, "invalid_request_error", message);
    // A slow client may not read the error either. Other clients get it before the connection
    // closes, which would happen at once if bytes that they sent were left unread.
    let said = tokio::time::timeout(LAST_WORDS, async {
        stream.write_all(words.as_bytes()).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    });
    let _ = said.await;
}

/// Refuses a connection beyond the limit.
pub(super) fn refuse_connection(stream: TcpStream) {
    let message = "this gateway accepts no more connections for now";
    let words = raw_response(StatusCode::SERVICE_UNAVAILABLE, "overloaded_error", message);
    // A new connection has room for a few hundred bytes; if it has not, it is closed silently.
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write_all(words.as_bytes());
    }
}

/// Returns a response for a connection whose protocol is unknown: in Anthropic's shape, whose
/// message OpenAI's SDKs find too.
fn raw_response(status: StatusCode, kind: &str, message: &str) -> String {
    let body = serde_json::json!({"type": "error", "error": {"type": kind, "message": message}});
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
}
