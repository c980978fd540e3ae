//! The pages for a person with a browser, which show what runs do and did, and the API behind them.
//!
//! They show runs and cancel them; they change nothing else. A run that nobody watches costs
//! nothing here: its events are converted to text only while somebody reads it.

use std::sync::Arc;

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};

use self::asked::Asked;
use crate::body::Body;
use crate::errors::Refusal;
use crate::gate::Gate;
use crate::server::Door;
use crate::settings::Protocol;

mod asked;
mod assets;
mod audit;
mod cancel;
mod list;
mod questions;
mod said;
mod start;
mod stream;
mod tape;
mod totals;

pub(crate) use questions::Questions;
pub(crate) use said::{asks, history, live, step};
pub(crate) use tape::{Tape, Tapes};

/// The pages' label in metrics.
pub(crate) const ROUTE: &str = "pages";

/// Returns true if a path belongs to the pages.
pub(crate) fn is_here(path: &str) -> bool {
    path.starts_with("/api/") || path.starts_with("/audit/") || assets::find(path).is_some()
}

/// Answers a request for a page, or for a file or an API path of a page.
pub(crate) async fn answer(
    gate: &Arc<Gate>,
    parts: &Parts,
    body: Incoming,
    door: Door,
) -> Result<Response<Body>, Refusal> {
    let mut response = match route(gate, parts, body, door).await {
        Ok(response) => response,
        Err(refusal) => refusal.response(),
    };
    assets::protect(response.headers_mut());
    Ok(response)
}

async fn route(
    gate: &Arc<Gate>,
    parts: &Parts,
    body: Incoming,
    door: Door,
) -> Result<Response<Body>, Refusal> {
    let path = parts.uri.path();
    // If the pages have an address of their own, they are served only there.
    if door == Door::Clients && gate.live().settings.admin.listen.is_some() {
        return Err(refusal(
            StatusCode::NOT_FOUND,
            "the pages are at the address of [admin] listen",
        ));
    }
    let Some(api) = path.strip_prefix("/api/") else {
        only(&parts.method, &[Method::GET, Method::HEAD])?;
        return assets::find(path).or_else(|| audit::file(gate, path)).ok_or_else(nothing);
    };
    // Browsers send this header; other clients do not.
    if parts.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        let what = "requests of web pages of another origin are refused";
        return Err(refusal(StatusCode::FORBIDDEN, what));
    }
    let live = gate.live();
    let names: Vec<&str> = api.split('/').collect();
    if let ["audit"] = names.as_slice() {
        return audit::answer(gate, parts, body, door).await;
    }
    if let ["runs", run, "cancel"] = names.as_slice() {
        Asked::of(parts, &[])?;
        if parts.method != Method::POST {
            return Ok(not_allowed("POST"));
        }
        live.guard.may_change(&parts.headers, &gate.pages_token)?;
        return cancel::run(gate, run).map(|done| said(&done)).ok_or_else(no_run);
    }
    live.guard.may_read(&parts.headers, door, &gate.pages_token)?;
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Ok(not_allowed("GET, HEAD"));
    }
    let asked = match names.as_slice() {
        ["totals"] => Asked::of(parts, &["days", "offset"])?,
        ["runs"] => Asked::of(parts, &["search", "state"])?,
        _ => Asked::of(parts, &[])?,
    };
    match names.as_slice() {
        ["runs"] => {
            let wanted = |name| asked.text(name).filter(|text| !text.is_empty());
            Ok(said(&list::of(gate, wanted("search"), wanted("state")).await))
        }
        ["runs", run] => match list::one(gate, run).await {
            Ok(row) => row.map(|row| said(&row)).ok_or_else(no_run),
            Err(why) => Err(refusal(StatusCode::SERVICE_UNAVAILABLE, &list::unread(&why))),
        },
        ["totals"] => {
            let days = asked.number("days", 1..=3660, 30)?;
            let offset = asked.number("offset", -1440..=1440, 0)?;
            Ok(said(&sums(gate, days.unsigned_abs(), offset).await))
        }
        ["events"] => {
            let seat = stream::Seat::take(&gate.pages_seats).ok_or_else(full)?;
            Ok(stream::of_list(gate, &parts.headers, seat))
        }
        ["runs", run, "events"] => {
            let seat = stream::Seat::take(&gate.pages_seats).ok_or_else(full)?;
            stream::of_run(gate, run, &parts.headers, seat).await.ok_or_else(no_run)
        }
        _ => Err(nothing()),
    }
}

async fn sums(gate: &Arc<Gate>, days: u64, offset: i64) -> Value {
    let (path, now) = (gate.live().settings.ledger.clone(), gate.now());
    let read = path.map(|path| {
        tokio::task::spawn_blocking(move || totals::of_ledger(&path, now, days, offset))
    });
    let found = match read {
        Some(read) => read.await.unwrap_or_else(|error| Err(error.to_string())),
        None => Ok(json!({})),
    };
    let done = gate.metrics.summary();
    let now = json!({"requests": done.requests, "spend_usd": done.spend,
        "answered": done.answered, "landed": done.landed, "stopped": done.stopped,
        "failed": done.failed, "cancelled": done.cancelled});
    let mut told = found.unwrap_or_else(|why| json!({"trouble": list::unread(&why)}));
    told["v"] = 1.into();
    told["days"] = days.into();
    told["since_start"] = now;
    told
}

fn said(value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::full(value.to_string()));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn refusal(status: StatusCode, what: &str) -> Refusal {
    Refusal::new(status, Protocol::Anthropic, what)
}

fn only(method: &Method, allowed: &[Method]) -> Result<(), Refusal> {
    if allowed.contains(method) {
        return Ok(());
    }
    Err(refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are served here"))
}

fn not_allowed(allowed: &'static str) -> Response<Body> {
    let what = format!("only {allowed} is served here");
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, &what).response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

fn nothing() -> Refusal {
    refusal(StatusCode::NOT_FOUND, "there is nothing at this path")
}

fn no_run() -> Refusal {
    refusal(StatusCode::NOT_FOUND, "there is no such run, or it is not open any more")
}

fn full() -> Refusal {
    refusal(StatusCode::SERVICE_UNAVAILABLE, "as many pages are open as there may be")
}
