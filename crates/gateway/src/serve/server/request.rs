//! One request: admitted, routed, passed on and counted.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use softland_govern::{
    ActiveRequest, Body, ClientRequest, Protocol, Refusal, check_unmetered, errors, is_unmetered,
    mark_unmetered,
};
use softland_session::wire::Api;

use crate::metrics;
use crate::pages;
use crate::serve::activity::ConnectionActivity;
use crate::serve::guard::{self, EntryPoint};
use crate::serve::pass;
use crate::serve::request_body::{self, BodyError, BudgetShare, ReadBody};
use crate::serve::route::{self, Destination, Endpoint, RoutedRequest};
use crate::serve::ticket::RequestTicket;
use crate::serve::transport::GatewayTransport;
use crate::state::GatewayState;

/// Answers one request that arrived at the local address `at.0`, through the listener `at.1`.
pub(super) async fn answer_request(
    gate: Arc<GatewayState>,
    activity: Arc<ConnectionActivity>,
    at: (SocketAddr, EntryPoint),
    request: Request<Incoming>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut ticket = Box::new(RequestTicket::new(&gate, activity, &parts.method, &parts.uri));
    let mut response = match route_request(&gate, at, parts, body, &mut ticket).await {
        Ok(response) => response,
        Err(refusal) => {
            tracing::debug!(id = %ticket.id, status = %refusal.status, "{}", refusal.message);
            refusal.to_response()
        }
    };
    let streams = response.headers().get(CONTENT_TYPE).is_some_and(is_event_stream);
    if is_unmetered(&response) {
        ticket.mark_unmetered();
    }
    let streams = streams && !ticket.is_of_pages();
    ticket.note_head(response.status().as_u16(), streams);
    response.body_mut().attach_observer(ticket);
    response
}

async fn route_request(
    gate: &Arc<GatewayState>,
    (local, entry): (SocketAddr, EntryPoint),
    parts: Parts,
    body: Incoming,
    ticket: &mut RequestTicket,
) -> Result<Response<Body>, Refusal> {
    let live = gate.live_config();
    let way = route::find_destination(&live, &parts.method, &parts.uri, &parts.headers);
    let protocol = match &way {
        Ok(Destination::Provider { protocol, .. }) => *protocol,
        Ok(_) => Protocol::Anthropic,
        Err(refusal) => refusal.protocol,
    };
    // Checked before anything else is said, even that nothing is at this path.
    live.guard.check_request(&parts, local, protocol)?;
    match way? {
        Destination::Health => {
            answer_get(&parts.method, "health", ticket, gate, || text_response("ok\n"))
        }
        Destination::Ready => {
            answer_get(&parts.method, "ready", ticket, gate, || readiness_response(gate))
        }
        Destination::Metrics => {
            live.guard.may_look(&parts.headers, entry)?;
            answer_get(&parts.method, "metrics", ticket, gate, || metrics_response(gate))
        }
        Destination::Pages => {
            ticket.set_route(metrics::PAGES, &gate.serving.no_upstream);
            Box::pin(pages::answer_page(gate, &parts, body, entry)).await
        }
        Destination::Provider { .. } if entry == EntryPoint::Admin => Err(no_provider(protocol)),
        Destination::Provider { origin, protocol, route, path } => {
            ticket.set_route(route.metric_label(), origin.label());
            let (id, began) = (ticket.id, ticket.began);
            let key = live.guard.find_key(&parts.headers, protocol, gate.now())?;
            ticket.set_key(key.as_ref());
            let target = RoutedRequest { origin, protocol, route, path, live, key, id, began };
            serve_provider(gate, &target, parts, body).await
        }
    }
}

async fn serve_provider(
    gate: &Arc<GatewayState>,
    target: &RoutedRequest,
    parts: Parts,
    body: Incoming,
) -> Result<Response<Body>, Refusal> {
    if guard::wants_websocket(&parts.headers) {
        return Ok(no_websocket(target.protocol));
    }
    if let Some(api) = target.route.api() {
        return serve_governed(gate, target, api, parts, body).await;
    }
    let unmetered = check_unmetered(&target.to_target(&parts.uri), &parts)?;
    let response = Box::pin(pass::pass_stream(gate, target, parts, body)).await;
    Ok(if unmetered { mark_unmetered(response) } else { response })
}

async fn serve_governed(
    gate: &Arc<GatewayState>,
    target: &RoutedRequest,
    api: Api,
    mut parts: Parts,
    body: Incoming,
) -> Result<Response<Body>, Refusal> {
    let limits = &target.live.settings.limits;
    let mut share = gate.serving.bodies.new_share();
    let read = match request_body::read_body(body, &parts.headers, limits, &mut share).await {
        Ok(read) => read,
        Err(error) => return Ok(refuse_unread(gate, target.protocol, &error)),
    };
    match read {
        ReadBody::Plain(bytes) => {
            // From here on the body has no content-encoding.
            parts.headers.remove(CONTENT_ENCODING);
            let route = target.route;
            let held = Box::new(share);
            let asked = client_request(gate, target, parts, (api, bytes), Some(held));
            Ok(match route {
                Endpoint::CountTokens => Box::pin(softland_govern::count_tokens(asked)).await,
                // The future is large, and most of the time a connection has none.
                _ => Box::pin(softland_govern::govern_turn(asked)).await,
            })
        }
        ReadBody::Opaque { bytes, encoding } => {
            gate.watch.metrics.count_event("opaque_body");
            let spends = target.route != Endpoint::CountTokens;
            let asked = client_request(gate, target, parts, (api, bytes), Some(Box::new(share)));
            let why = format!("its content-encoding is {encoding}; gzip and zstd are read");
            if spends && let Some(stopped) = softland_govern::stop_opaque(&asked, &why)? {
                return Ok(stopped);
            }
            tracing::warn!(
                id = %target.id, encoding,
                "passed on ungoverned: this content-encoding is not read here (gzip, zstd are)"
            );
            let response = Box::pin(softland_govern::pass_request(&asked)).await;
            Ok(if spends { mark_unmetered(response) } else { response })
        }
    }
}

/// Hands a request over to governing.
fn client_request(
    gate: &Arc<GatewayState>,
    target: &RoutedRequest,
    parts: Parts,
    (api, body): (Api, Bytes),
    held: Option<Box<BudgetShare>>,
) -> ClientRequest {
    ClientRequest {
        services: Arc::clone(&gate.services),
        transport: Arc::new(GatewayTransport {
            gate: Arc::clone(gate),
            live: Arc::clone(&target.live),
        }),
        target: target.to_target(&parts.uri),
        parts,
        around: Vec::new(),
        nested_tokens: 0,
        held: held.map(|share| share as _),
        active: Arc::new(ActiveRequest::new(api, body)),
    }
}

/// Refuses a request whose body could not be read. If memory was full, the client may retry soon.
fn refuse_unread(gate: &GatewayState, protocol: Protocol, error: &BodyError) -> Response<Body> {
    let refusal = Refusal::new(error.status(), protocol, error.to_string());
    let mut response = refusal.to_response();
    if *error == BodyError::Full {
        gate.watch.metrics.count_event("bodies_full");
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Answers a GET or HEAD request from the gateway itself.
fn answer_get(
    method: &Method,
    route: &'static str,
    ticket: &mut RequestTicket,
    gate: &GatewayState,
    answer: impl FnOnce() -> Response<Body>,
) -> Result<Response<Body>, Refusal> {
    ticket.set_route(route, &gate.serving.no_upstream);
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(answer());
    }
    let what = "only GET and HEAD are served here";
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let mut response = Refusal::new(status, Protocol::Anthropic, what).to_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    Ok(response)
}

fn readiness_response(gate: &GatewayState) -> Response<Body> {
    if gate.is_ready() {
        return text_response("ready\n");
    }
    let mut response = text_response("draining\n");
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

fn metrics_response(gate: &GatewayState) -> Response<Body> {
    if let Some(ledger) = &gate.watch.ledger {
        gate.watch.metrics.set_ledger(ledger.lost_records(), ledger.waiting_records());
    }
    let mut response = Response::new(Body::from_bytes(gate.watch.metrics.to_text()));
    let kind = HeaderValue::from_static(metrics::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn no_provider(protocol: Protocol) -> Refusal {
    let what = "no provider is asked at this address: it serves the pages, /healthz, /readyz and \
                /metrics";
    Refusal::new(StatusCode::NOT_FOUND, protocol, what)
}

fn text_response(text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from_bytes(text));
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Refuses a WebSocket. Status 426 makes Codex continue over HTTP by itself.
fn no_websocket(protocol: Protocol) -> Response<Body> {
    let what = "WebSockets are not supported here: use HTTP requests, streaming or not";
    errors::without_retry(errors::protocol_error(protocol, StatusCode::UPGRADE_REQUIRED, what))
}

fn is_event_stream(kind: &HeaderValue) -> bool {
    const KIND: &[u8] = b"text/event-stream";
    kind.as_bytes().get(..KIND.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(KIND))
}
