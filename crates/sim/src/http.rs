//! The simulator over HTTP. This module reads the clock and waits; other modules decide what is
//! sent and how long to wait.

use crate::reply::{Body as Reply, Chunk, Piece, Response as Answer};
use crate::request::Request;
use crate::sim::{MAX_BODY, Sim};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request as HttpRequest, Response, StatusCode};
use axum::serve::ListenerExt as _;
use bytes::Bytes;
use futures_util::stream;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// Serves a simulator until `shutdown` completes. Open responses are finished first.
///
/// # Errors
/// Returns an error if the listener fails.
pub async fn serve_http(
    listener: TcpListener,
    sim: Arc<Sim>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let shared = Arc::new(SharedState { sim, start: Instant::now() });
    let app = Router::new().fallback(handle_request).with_state(shared);
    // Without TCP_NODELAY, a stream on a reused connection stalls for 40 ms at a time.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, app).with_graceful_shutdown(shutdown).await
}

struct SharedState {
    sim: Arc<Sim>,
    start: Instant,
}

async fn handle_request(
    State(shared): State<Arc<SharedState>>,
    request: HttpRequest<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    // One byte more than allowed is enough to see that the body is too large.
    let body = match axum::body::to_bytes(body, MAX_BODY + 1).await {
        Ok(bytes) => bytes,
        Err(_) => Bytes::from(vec![b' '; MAX_BODY + 1]),
    };
    let headers = header_pairs(&parts.headers);
    let path = parts.uri.path_and_query().map_or("/", |p| p.as_str());
    let now = u64::try_from(shared.start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let method = parts.method.as_str();
    let answer = shared.sim.respond(now, &Request { method, path, headers: &headers, body: &body });
    to_http_response(answer).await
}

fn header_pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect()
}

async fn to_http_response(answer: Answer) -> Response<Body> {
    let body = match answer.body {
        Reply::Whole { delay_ms, bytes } => {
            wait_ms(delay_ms).await;
            Body::from(bytes)
        }
        Reply::Stream(chunks) => {
            // The delay of the first piece comes before the headers, as with the real API.
            let first = chunks.first().map_or(0, |chunk| chunk.delay_ms);
            wait_ms(first).await;
            let mut rest = chunks.into_iter();
            let head = rest.next().map(|chunk| Chunk { delay_ms: 0, ..chunk });
            Body::from_stream(stream_chunks(head.into_iter().chain(rest)))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or_default();
    for (name, value) in &answer.headers {
        let name = axum::http::HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value.parse()) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn stream_chunks(
    chunks: impl Iterator<Item = Chunk> + Send,
) -> impl stream::Stream<Item = io::Result<Bytes>> + Send {
    stream::unfold(chunks, |mut chunks| async move {
        let chunk = chunks.next()?;
        wait_ms(chunk.delay_ms).await;
        let item = match chunk.piece {
            Piece::Bytes(bytes) => Ok(Bytes::from(bytes)),
            Piece::Cut => {
                // Earlier pieces must be sent first, or the client sees a reset before them.
                wait_ms(5).await;
                Err(io::Error::new(io::ErrorKind::ConnectionReset, "cut by the scenario"))
            }
        };
        Some((item, chunks))
    })
}

async fn wait_ms(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
