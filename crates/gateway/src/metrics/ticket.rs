//! The metrics and the log line of one client request, from its head to the end of its response.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use http::{Method, Uri};
use softland_ledger::{Record, Request};
use tracing::{info, warn};

use crate::body::CutReason;
use crate::server::connection::ConnectionActivity;
use crate::state::GatewayState;

/// The gateway's own name of a client's request, in logs, errors and the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestId {
    start: u64,
    number: u64,
}

impl RequestId {
    /// Returns the id as text, with one allocation.
    pub(crate) fn to_text(self) -> String {
        let mut text = String::with_capacity(LONGEST_ID);
        text.push_str("req_");
        push_hex(&mut text, self.start);
        text.push('_');
        push_hex(&mut text, self.number);
        text
    }
}

/// Bytes of an id whose numbers have their largest values.
const LONGEST_ID: usize = "req_".len() + 16 + "_".len() + 16;

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// Appends a number in hexadecimal, without the cost of the standard library's formatting for each
/// request.
fn push_hex(text: &mut String, number: u64) {
    let digits = (u64::BITS - (number | 1).leading_zeros()).div_ceil(4);
    let digit = |at| char::from_digit((number >> (4 * at)) as u32 & 0xf, 16);
    text.extend((0..digits).rev().filter_map(digit));
}

/// A generator of request ids. They are unique among the gateways of one machine, unless a clock is
/// set back.
#[derive(Debug)]
pub(crate) struct RequestIds {
    start: u64,
    next: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        Self { start, next: AtomicU64::new(1) }
    }

    pub(crate) fn next(&self) -> RequestId {
        RequestId { start: self.start, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }
}

/// The metrics and the log line of one request, which are written when the value is dropped.
pub(crate) struct RequestTicket {
    gate: Arc<GatewayState>,
    /// Marked idle when the request ends.
    pulse: Arc<ConnectionActivity>,
    pub(crate) id: RequestId,
    pub(crate) began: Instant,
    method: Method,
    uri: Uri,
    route: &'static str,
    upstream: Arc<str>,
    status: u16,
    streams: bool,
    unmetered: bool,
    end: ResponseEnd,
}

/// The progress of a response.
#[derive(Debug)]
enum ResponseEnd {
    /// It has not ended: if the value is dropped in this state, the client has disconnected.
    Open,
    Whole,
    Cut(CutReason),
}

/// The status under which a request is counted whose client left before the response. It is never
/// sent; nginx uses the same number.
const CLIENT_CLOSED: u16 = 499;

impl RequestTicket {
    pub(crate) fn new(
        gate: &Arc<GatewayState>,
        pulse: Arc<ConnectionActivity>,
        method: &Method,
        uri: &Uri,
    ) -> Self {
        Self {
            id: gate.requests.next(),
            gate: Arc::clone(gate),
            pulse,
            began: Instant::now(),
            method: method.clone(),
            uri: uri.clone(),
            route: "none",
            upstream: Arc::clone(&gate.no_upstream),
            status: CLIENT_CLOSED,
            streams: false,
            unmetered: false,
            end: ResponseEnd::Open,
        }
    }

    /// Sets the endpoint and the upstream of the request.
    pub(crate) fn set_route(&mut self, route: &'static str, upstream: &Arc<str>) {
        self.route = route;
        self.upstream = Arc::clone(upstream);
    }

    /// Returns true if the request is for the pages, and not a client's.
    pub(crate) fn is_of_pages(&self) -> bool {
        self.route == crate::pages::ROUTE
    }

    /// Marks the request as one whose cost may not be counted.
    pub(crate) fn mark_unmetered(&mut self) {
        self.unmetered = true;
    }

    /// Notes the head of the response.
    pub(crate) fn note_head(&mut self, status: u16, streams: bool) {
        self.status = status;
        self.streams = streams;
        if streams {
            self.gate.metrics.count_stream_begin();
        }
    }

    /// Notes that the response has ended completely.
    pub(crate) fn mark_complete(&mut self) {
        self.end = ResponseEnd::Whole;
    }

    /// Notes that the response broke off.
    pub(crate) fn mark_cut(&mut self, cut: &CutReason) {
        self.end = ResponseEnd::Cut(cut.clone());
    }

    /// Writes the log line. It has the path without its query, in which clients also send keys.
    fn write_log(&self, ms: u64) {
        let (id, method, path) = (&self.id, &self.method, self.uri.path());
        let (upstream, status) = (&*self.upstream, self.status);
        let gone = matches!(self.end, ResponseEnd::Open).then_some(true);
        let unmetered = self.unmetered.then_some(true);
        if let ResponseEnd::Cut(cut) = &self.end {
            warn!(%id, %method, path, upstream, status, ms, unmetered, %cut, "request");
        } else {
            info!(%id, %method, path, upstream, status, ms, unmetered, gone, "request");
        }
    }

    /// Returns the ledger's record of a request that could not be metered.
    fn unmetered_record(&self, millis: u64) -> Request {
        Request {
            at: self.gate.now().saturating_sub(millis),
            id: self.id.to_text(),
            run: None,
            session: None,
            turn: 0,
            upstream: Arc::clone(&self.upstream),
            path: self.uri.path().to_owned(),
            model: None,
            rung: None,
            status: (self.status != CLIENT_CLOSED).then_some(self.status),
            input: 0,
            output: 0,
            cache_read: 0,
            cache_write: 0,
            cost: None,
            millis,
            remark: Some("unmetered".to_owned()),
            content: None,
        }
    }
}

impl Drop for RequestTicket {
    fn drop(&mut self) {
        self.pulse.mark_idle();
        let took = self.began.elapsed();
        self.gate.metrics.count_request(self.route, &self.upstream, self.status, took);
        if self.streams {
            self.gate.metrics.count_stream_end();
        }
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.write_log(ms);
        if self.unmetered {
            self.gate.metrics.count_event("unmetered");
            self.gate.write_record(|| Record::Request(self.unmetered_record(ms)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_its_numbers_in_hexadecimal_digits() {
        for number in [0, 1, 9, 0xa, 0x10, 0xff0, u64::MAX >> 3, u64::MAX] {
            let id = RequestId { start: number.rotate_left(7), number };
            let expected = format!("req_{:x}_{:x}", id.start, id.number);
            assert_eq!((id.to_text(), id.to_string()), (expected.clone(), expected));
            assert!(id.to_text().len() <= LONGEST_ID);
        }
    }
}
