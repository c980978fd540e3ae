//! The audit page: a report on the gateway's own ledger, or on a recording that a browser uploads.
//! One report is made at a time, apart from client requests, and it is given up when nobody waits
//! for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{ACCEPT, ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use softland_ledger::{LedgerPlace, Reader};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::OwnedSemaphorePermit;

use super::page_refusal;
use super::query::PageQuery;
use crate::audit::{Audit, AuditFormat, AuditRequest};
use crate::serve::guard::EntryPoint;
use crate::state::GatewayState;
use softland_govern::Body;
use softland_govern::Refusal;

/// The header that says whether the ledger keeps `digests` or `full` contents.
const KEEPS: HeaderName = HeaderName::from_static("x-softland-content");
/// The time that the ledger has to write the queued records.
const WRITTEN: Duration = Duration::from_secs(2);
/// The longest name of an uploaded file, in characters.
const NAME: usize = 200;

/// The source of a report.
enum AuditSource {
    Ledger(LedgerPlace),
    /// An uploaded recording, which is deleted after it has been read, and its name.
    Handed(NamedTempFile, String),
}

/// Returns a file that the audit page needs.
pub(super) fn audit_file(gate: &GatewayState, path: &str) -> Option<Response<Body>> {
    let (kind, bytes) =
        gate.live_config().settings.audit.as_ref()?.find_file(path.strip_prefix("/audit/")?)?;
    let mut response = Response::new(Body::from_bytes(bytes));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Some(response)
}

/// Answers a request for a report.
pub(super) async fn answer_audit(
    gate: &Arc<GatewayState>,
    parts: &Parts,
    body: Incoming,
    entry: EntryPoint,
) -> Result<Response<Body>, Refusal> {
    let asked =
        PageQuery::from_parts(parts, if parts.method == Method::POST { &["name"] } else { &[] });
    let live = gate.live_config();
    let settings = &live.settings;
    let Some(audit) = settings.audit.clone() else {
        return Err(page_refusal(StatusCode::NOT_FOUND, "this gateway has no audit"));
    };
    match parts.method {
        Method::GET => live.guard.may_read(&parts.headers, entry, &gate.pages.token)?,
        Method::POST => live.guard.may_change(&parts.headers, &gate.pages.token)?,
        _ => return Ok(not_allowed()),
    }
    let asked = asked?;
    let (of, permit) = if parts.method == Method::GET {
        let what = "no ledger is kept: choose a recording, or name a ledger in the config";
        let place = settings.ledger.clone();
        let place = place.ok_or_else(|| page_refusal(StatusCode::NOT_FOUND, what))?;
        (AuditSource::Ledger(place), take_permit(gate)?)
    } else {
        let declared = parts.headers.get(CONTENT_LENGTH).and_then(|text| text.to_str().ok());
        let (most, pause) = (settings.limits.recording, settings.limits.body_time);
        if declared.and_then(|text| text.parse::<u64>().ok()).is_some_and(|bytes| bytes > most) {
            return Err(too_large(most));
        }
        let permit = take_permit(gate)?;
        (
            AuditSource::Handed(
                store_recording(body, &*audit, most, pause).await?,
                recording_name(&asked),
            ),
            permit,
        )
    };
    let keeps = if settings.ledger_full { "full" } else { "digests" };
    let keeps = matches!(of, AuditSource::Ledger(_)).then_some(keeps);
    let form = audit_format(parts);
    let text = make_report(Arc::clone(gate), audit, of, form, permit).await?;
    let mut response = Response::new(Body::from_bytes(text));
    let kind = match form {
        AuditFormat::Json => "application/json",
        AuditFormat::Page => "text/html; charset=utf-8",
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Some(keeps) = keeps {
        response.headers_mut().insert(KEEPS, HeaderValue::from_static(keeps));
    }
    Ok(response)
}

/// Stops the report's thread when the request is dropped.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn make_report(
    gate: Arc<GatewayState>,
    audit: Arc<dyn Audit>,
    of: AuditSource,
    form: AuditFormat,
    permit: OwnedSemaphorePermit,
) -> Result<String, Refusal> {
    let waits = StopOnDrop::default();
    let stop = Arc::clone(&waits.0);
    let work = tokio::task::spawn_blocking(move || {
        let copy;
        let (path, name) = match &of {
            AuditSource::Ledger(place) => {
                if let Some(ledger) = &gate.watch.ledger {
                    let _ = ledger.drain(WRITTEN);
                }
                match place.as_file() {
                    Some(path) => (path, None),
                    None => {
                        copy = copy_ledger(place, &*audit)?;
                        (copy.path(), Some(place.to_string()))
                    }
                }
            }
            AuditSource::Handed(file, name) => (file.path(), Some(name.clone())),
        };
        let name = name.as_deref();
        let text = audit.write_report(&AuditRequest { path, name, form, stop: &stop });
        // The file is dropped before the permit, so that the next report finds no trace of it.
        drop(of);
        drop(permit);
        Ok::<_, String>(text)
    });
    let what = "the report could not be made; the log says why";
    work.await.map_err(|error| error.to_string()).flatten().map_err(|error| {
        tracing::error!(%error, "an audit for the pages has failed");
        page_refusal(StatusCode::INTERNAL_SERVER_ERROR, what)
    })
}

/// Copies a ledger that is in a database to a file, which is deleted when it is dropped.
fn copy_ledger(place: &LedgerPlace, audit: &dyn Audit) -> Result<NamedTempFile, String> {
    let made = temporary_file(audit).map_err(|error| error.to_string())?;
    let reader = Reader::open(place).map_err(|error| error.to_string())?;
    reader.copy_to_file(made.path()).map_err(|error| error.to_string())?;
    Ok(made)
}

/// Makes a file that only this user can read and that is deleted when it is dropped.
fn temporary_file(audit: &dyn Audit) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix("softland-audit-").tempfile_in(audit.upload_folder())
}

fn take_permit(gate: &GatewayState) -> Result<OwnedSemaphorePermit, Refusal> {
    let what = "another report is being made; there is one at a time";
    let permit = Arc::clone(&gate.pages.audit).try_acquire_owned();
    permit.map_err(|_| page_refusal(StatusCode::SERVICE_UNAVAILABLE, what))
}

/// Writes a recording to a file that only this user can read and that is deleted when it is
/// dropped.
async fn store_recording(
    mut body: Incoming,
    audit: &dyn Audit,
    most: u64,
    pause: Duration,
) -> Result<NamedTempFile, Refusal> {
    let failed = |error: io::Error| {
        tracing::error!(%error, "a recording for the audit cannot be written");
        page_refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the recording could not be kept to be read",
        )
    };
    let kept = temporary_file(audit).map_err(failed)?;
    let mut to = tokio::fs::File::from_std(kept.reopen().map_err(failed)?);
    let mut bytes = 0_u64;
    loop {
        let slow = |_| page_refusal(StatusCode::REQUEST_TIMEOUT, "the recording does not come");
        let Some(frame) = tokio::time::timeout(pause, body.frame()).await.map_err(slow)? else {
            break;
        };
        let broken = |_| page_refusal(StatusCode::BAD_REQUEST, "the recording broke off");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        bytes += data.len() as u64;
        if bytes > most {
            return Err(too_large(most));
        }
        to.write_all(&data).await.map_err(failed)?;
    }
    to.flush().await.map_err(failed)?;
    Ok(kept)
}

/// Returns the file's name of `?name=`, without its folders.
fn recording_name(asked: &PageQuery) -> String {
    let given = asked.find_text("name").unwrap_or_default();
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = last.chars().take(NAME).collect();
    if name.trim().is_empty() { "the chosen file".to_owned() } else { name }
}

fn audit_format(parts: &Parts) -> AuditFormat {
    let accepted = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let page = accepted.is_some_and(|accepted| accepted.trim_start().starts_with("text/html"));
    if page { AuditFormat::Page } else { AuditFormat::Json }
}

fn too_large(most: u64) -> Refusal {
    let what = format!("the recording has more than the {most} bytes that are read here");
    page_refusal(StatusCode::PAYLOAD_TOO_LARGE, &what)
}

fn not_allowed() -> Response<Body> {
    let what = "only GET and POST are served here";
    let mut response = page_refusal(StatusCode::METHOD_NOT_ALLOWED, what).to_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST"));
    response
}
