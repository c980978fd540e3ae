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
use softland_pages::AllowedStyles;

use self::list::RunFilter;
use self::query::PageQuery;
pub use self::start::add_history;
use crate::budgets::windows::{self, BudgetState};
use crate::page_files;
use crate::serve::guard::EntryPoint;
use crate::state::GatewayState;
use softland_govern::Body;
use softland_govern::Protocol;
use softland_govern::Refusal;
use softland_govern::store::StoreError;

mod audit;
mod cancel;
mod list;
mod query;
mod questions;
mod start;
mod stream;
mod totals;
mod usage;
mod watched;

/// Answers a request for a page, or for a file or an API path of a page.
pub(crate) async fn answer_page(
    gate: &Arc<GatewayState>,
    parts: &Parts,
    body: Incoming,
    entry: EntryPoint,
) -> Result<Response<Body>, Refusal> {
    let mut response = match route_page(gate, parts, body, entry).await {
        Ok(response) => response,
        Err(refusal) => refusal.to_response(),
    };
    // Every response of the pages has the security headers.
    softland_pages::set_security_headers(response.headers_mut(), AllowedStyles::Own);
    Ok(response)
}

async fn route_page(
    gate: &Arc<GatewayState>,
    parts: &Parts,
    body: Incoming,
    entry: EntryPoint,
) -> Result<Response<Body>, Refusal> {
    let path = parts.uri.path();
    // If the pages have an address of their own, they are served only there.
    if entry == EntryPoint::Clients && gate.live_config().settings.admin.listen.is_some() {
        return Err(page_refusal(
            StatusCode::NOT_FOUND,
            "the pages are at the address of [admin] listen",
        ));
    }
    let Some(api) = path.strip_prefix("/api/") else {
        check_method(&parts.method, &[Method::GET, Method::HEAD])?;
        return page_files::find_file(path)
            .map(file_response)
            .or_else(|| audit::audit_file(gate, path))
            .ok_or_else(nothing_here);
    };
    // Browsers send this header; other clients do not.
    if parts.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        let what = "requests of web pages of another origin are refused";
        return Err(page_refusal(StatusCode::FORBIDDEN, what));
    }
    let names: Vec<&str> = api.split('/').collect();
    match names.as_slice() {
        ["audit"] => audit::answer_audit(gate, parts, body, entry).await,
        ["runs", run, "cancel"] => answer_cancel(gate, parts, run).await,
        names => answer_read(gate, parts, names, entry).await,
    }
}

async fn answer_cancel(
    gate: &Arc<GatewayState>,
    parts: &Parts,
    run: &str,
) -> Result<Response<Body>, Refusal> {
    PageQuery::from_parts(parts, &[])?;
    if parts.method != Method::POST {
        return Ok(not_allowed("POST"));
    }
    gate.live_config().guard.may_change(&parts.headers, &gate.pages.token)?;
    let run = resolve_run(gate, run).await?;
    let done = cancel::cancel_run(gate, &run).await.map_err(|error| state_away(&error))?;
    done.map(|done| json_response(&done)).ok_or_else(no_run)
}

/// Returns the id of the run that a segment of the path names, or the refusal if there is none.
async fn resolve_run(gate: &Arc<GatewayState>, segment: &str) -> Result<Arc<str>, Refusal> {
    let unread = |why: String| page_refusal(StatusCode::SERVICE_UNAVAILABLE, &why);
    list::resolve_run(gate, segment).await.map_err(unread)?.ok_or_else(no_run)
}

/// Answers a request that only reads. `names` are the segments of the path behind `/api/`.
async fn answer_read(
    gate: &Arc<GatewayState>,
    parts: &Parts,
    names: &[&str],
    entry: EntryPoint,
) -> Result<Response<Body>, Refusal> {
    gate.live_config().guard.may_read(&parts.headers, entry, &gate.pages.token)?;
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Ok(not_allowed("GET, HEAD"));
    }
    let asked = match names {
        ["totals"] => PageQuery::from_parts(parts, &["days", "offset"])?,
        ["runs"] => PageQuery::from_parts(parts, &list::FILTERS)?,
        ["usage"] => PageQuery::from_parts(parts, &usage::PARAMETERS)?,
        _ => PageQuery::from_parts(parts, &[])?,
    };
    match names {
        ["runs"] => {
            let runs = list::list_runs(gate, &RunFilter::from_query(&asked)?).await;
            runs.map(|runs| json_response(&runs)).map_err(|error| state_away(&error))
        }
        ["runs", run] => match list::find_run(gate, &resolve_run(gate, run).await?).await {
            Ok(row) => row.map(|row| json_response(&row)).ok_or_else(no_run),
            Err(why) => Err(page_refusal(StatusCode::SERVICE_UNAVAILABLE, &why)),
        },
        ["totals"] => {
            let days = asked.parse_number("days", 1..=3660, 30)?;
            let offset = asked.parse_number("offset", -1440..=1440, 0)?;
            Ok(json_response(&read_totals(gate, days.unsigned_abs(), offset).await))
        }
        ["usage"] => usage::answer_usage(gate, &asked).await,
        ["budgets"] => match windows::read_windows(gate).await {
            Ok(states) => {
                let rows: Vec<_> = states.iter().map(BudgetState::to_row).collect();
                Ok(json_response(&json!({"v": 1, "budgets": rows})))
            }
            Err(away) => Err(page_refusal(StatusCode::SERVICE_UNAVAILABLE, &away.to_string())),
        },
        ["events"] => {
            let permit = stream::StreamPermit::try_acquire(&gate.pages.open_streams)
                .ok_or_else(pages_full)?;
            Ok(stream::stream_list(gate, &parts.headers, permit))
        }
        ["runs", run, "events"] => {
            let permit = stream::StreamPermit::try_acquire(&gate.pages.open_streams)
                .ok_or_else(pages_full)?;
            let run = resolve_run(gate, run).await?;
            let stream = stream::stream_run(gate, &run, &parts.headers, permit).await;
            stream.map_err(|error| state_away(&error))?.ok_or_else(no_run)
        }
        _ => Err(nothing_here()),
    }
}

async fn read_totals(gate: &Arc<GatewayState>, days: u64, offset: i64) -> Value {
    let (place, now) = (gate.live_config().settings.ledger.clone(), gate.now());
    let read = place.map(|place| {
        tokio::task::spawn_blocking(move || totals::sum_ledger(&place, now, days, offset))
    });
    let found = match read {
        Some(read) => read.await.unwrap_or_else(|error| Err(error.to_string())),
        None => Ok(json!({})),
    };
    let done = gate.watch.metrics.to_summary();
    let now = json!({"requests": done.requests, "spend_usd": done.spend,
        "answered": done.answered, "landed": done.landed, "stopped": done.stopped,
        "failed": done.failed, "cancelled": done.cancelled});
    let mut told = found.unwrap_or_else(|why| json!({"trouble": list::ledger_trouble(&why)}));
    told["v"] = 1.into();
    told["days"] = days.into();
    told["since_start"] = now;
    told
}

fn file_response((kind, bytes): (&'static str, &'static [u8])) -> Response<Body> {
    let mut response = Response::new(Body::from_bytes(bytes));
    softland_pages::set_content_type(response.headers_mut(), kind);
    response
}

fn json_response(value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from_bytes(value.to_string()));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn page_refusal(status: StatusCode, what: &str) -> Refusal {
    Refusal::new(status, Protocol::Anthropic, what)
}

fn check_method(method: &Method, allowed: &[Method]) -> Result<(), Refusal> {
    if allowed.contains(method) {
        return Ok(());
    }
    Err(page_refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are served here"))
}

fn not_allowed(allowed: &'static str) -> Response<Body> {
    let what = format!("only {allowed} is served here");
    let mut response = page_refusal(StatusCode::METHOD_NOT_ALLOWED, &what).to_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

fn nothing_here() -> Refusal {
    page_refusal(StatusCode::NOT_FOUND, "there is nothing at this path")
}

fn no_run() -> Refusal {
    page_refusal(StatusCode::NOT_FOUND, "there is no such run, or it has ended")
}

/// Returns the refusal while the state that gateways share cannot be reached.
fn state_away(error: &StoreError) -> Refusal {
    page_refusal(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())
}

fn pages_full() -> Refusal {
    page_refusal(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open")
}
