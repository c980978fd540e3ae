//! One request: admitted, routed, passed on and counted.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use softland_session::wire::Api;

use super::Door;
use super::connection::Pulse;
use crate::body::{self, Body, BodyError, ReadBody};
use crate::errors::{self, Refusal};
use crate::gate::Gate;
use crate::govern::{self, Asked, Told};
use crate::guard;
use crate::metrics::{self, Ticket};
use crate::pages;
use crate::pass;
use crate::route::{self, Route, Target, Way};
use crate::settings::Protocol;

/// Answers one request that arrived at the local address `at.0`, through the listener `at.1`.
pub(super) async fn answer(
    gate: Arc<Gate>,
    pulse: Arc<Pulse>,
    at: (SocketAddr, Door),
    request: Request<Incoming>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut ticket = Box::new(Ticket::new(&gate, pulse, &parts.method, &parts.uri));
    let mut response = match handle(&gate, at, parts, body, &mut ticket).await {
        Ok(response) => response,
        Err(refusal) => {
            tracing::debug!(id = %ticket.id, status = %refusal.status, "{}", refusal.message);
            refusal.response()
        }
    };
    let streams = response.headers().get(CONTENT_TYPE).is_some_and(is_event_stream);
    if pass::is_unmetered(&response) {
        ticket.unmetered();
    }
    let streams = streams && !ticket.is_of_pages();
    ticket.answered(response.status().as_u16(), streams);
    response.body_mut().carry(ticket);
    response
}

async fn handle(
    gate: &Arc<Gate>,
    (local, door): (SocketAddr, Door),
    parts: Parts,
    body: Incoming,
    ticket: &mut Ticket,
) -> Result<Response<Body>, Refusal> {
    let live = gate.live();
    let way = route::find(&live, &parts.method, &parts.uri, &parts.headers);
    let protocol = match &way {
        Ok(Way::Provider { protocol, .. }) => *protocol,
        Ok(_) => Protocol::Anthropic,
        Err(refusal) => refusal.protocol,
    };
    // Checked before anything else is said, even that nothing is at this path.
    live.guard.admit(&parts, local, protocol)?;
    match way? {
        Way::Health => own(&parts.method, "health", ticket, gate, || text("ok\n")),
        Way::Ready => own(&parts.method, "ready", ticket, gate, || readiness(gate)),
        Way::Metrics => {
            live.guard.may_look(&parts.headers, door)?;
            own(&parts.method, "metrics", ticket, gate, || numbers(gate))
        }
        Way::Pages => {
            ticket.goes(pages::ROUTE, &gate.no_upstream);
            Box::pin(pages::answer(gate, &parts, body, door)).await
        }
        Way::Provider { .. } if door == Door::Admin => Err(no_provider(protocol)),
        Way::Provider { origin, protocol, route, path } => {
            ticket.goes(route.word(), origin.label());
            let (id, began) = (ticket.id, ticket.began);
            let target = Target { origin, protocol, route, path, live, id, began };
            provide(gate, &target, parts, body).await
        }
    }
}

async fn provide(
    gate: &Arc<Gate>,
    target: &Target,
    parts: Parts,
    body: Incoming,
) -> Result<Response<Body>, Refusal> {
    let Target { live, protocol, .. } = target;
    live.guard.authorise(&parts.headers, *protocol)?;
    if guard::wants_websocket(&parts.headers) {
        return Ok(no_websocket(*protocol));
    }
    if let Some(api) = target.route.api() {
        return governed(gate, target, api, parts, body).await;
    }
    let unmetered = pass::unmetered(target, &parts)?;
    let response = Box::pin(pass::stream(gate, target, parts, body)).await;
    Ok(if unmetered { pass::as_unmetered(response) } else { response })
}

async fn governed(
    gate: &Arc<Gate>,
    target: &Target,
    api: Api,
    mut parts: Parts,
    body: Incoming,
) -> Result<Response<Body>, Refusal> {
    let limits = &target.live.settings.limits;
    let mut share = gate.bodies.share();
    let read = match body::read(body, &parts.headers, limits, &mut share).await {
        Ok(read) => read,
        Err(error) => return Ok(unread(gate, target.protocol, &error)),
    };
    match read {
        ReadBody::Plain(bytes) => {
            // From here on the body has no content-encoding.
            parts.headers.remove(CONTENT_ENCODING);
            let (gate, target) = (Arc::clone(gate), target.clone());
            let route = target.route;
            let asked =
                Asked { gate, api, target, parts, body: bytes, share, told: Told::default() };
            Ok(match route {
                Route::CountTokens => Box::pin(govern::count_tokens(asked)).await,
                // The future is large, and most of the time a connection has none.
                _ => Box::pin(govern::turn(asked)).await,
            })
        }
        ReadBody::Opaque { bytes, encoding } => {
            gate.metrics.event("opaque_body");
            let spends = target.route != Route::CountTokens;
            if spends {
                let why = format!("its content-encoding is {encoding}; gzip and zstd are read");
                let stopped = govern::stop_unread(gate, (target, api), &parts, &[], &why)?;
                if let Some(stopped) = stopped {
                    return Ok(stopped);
                }
            }
            tracing::warn!(
                id = %target.id, encoding,
                "passed on ungoverned: this content-encoding is not read here (gzip, zstd are)"
            );
            let response = Box::pin(pass::whole(gate, target, parts, bytes)).await;
            Ok(if spends { pass::as_unmetered(response) } else { response })
        }
    }
}

/// Refuses a request whose body could not be read. If memory was full, the client may retry soon.
fn unread(gate: &Gate, protocol: Protocol, error: &BodyError) -> Response<Body> {
    let refusal = Refusal::new(error.status(), protocol, error.to_string());
    let mut response = refusal.response();
    if *error == BodyError::Full {
        gate.metrics.event("bodies_full");
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Answers a GET or HEAD request from the gateway itself.
fn own(
    method: &Method,
    route: &'static str,
    ticket: &mut Ticket,
    gate: &Gate,
    answer: impl FnOnce() -> Response<Body>,
) -> Result<Response<Body>, Refusal> {
    ticket.goes(route, &gate.no_upstream);
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(answer());
    }
    let what = "only GET and HEAD are served here";
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let mut response = Refusal::new(status, Protocol::Anthropic, what).response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    Ok(response)
}

fn readiness(gate: &Gate) -> Response<Body> {
    if gate.is_ready() {
        return text("ready\n");
    }
    let mut response = text("draining\n");
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

fn numbers(gate: &Gate) -> Response<Body> {
    if let Some(ledger) = &gate.ledger {
        gate.metrics.ledger(ledger.lost(), ledger.waiting());
    }
    let mut response = Response::new(Body::full(gate.metrics.text()));
    let kind = HeaderValue::from_static(metrics::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn no_provider(protocol: Protocol) -> Refusal {
    let what = "no provider is asked at this address: it serves the pages, /healthz, /readyz and \
                /metrics";
    Refusal::new(StatusCode::NOT_FOUND, protocol, what)
}

fn text(text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Refuses a WebSocket. Status 426 makes Codex continue over HTTP by itself.
fn no_websocket(protocol: Protocol) -> Response<Body> {
    let what = "WebSockets are not supported here: use HTTP requests, streaming or not";
    errors::without_retry(errors::shaped(protocol, StatusCode::UPGRADE_REQUIRED, what))
}

fn is_event_stream(kind: &HeaderValue) -> bool {
    const KIND: &[u8] = b"text/event-stream";
    kind.as_bytes().get(..KIND.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(KIND))
}
