//! The metrics and the log line of one client request, from its head to the end of its response.

use std::sync::Arc;
use std::time::Instant;

use http::{Method, Uri};
use softland_govern::{BodyObserver, ClientKey, CutReason, RequestId, Watcher as _};
use softland_ledger::{Payer, Record, Request};
use tracing::{info, warn};

use crate::metrics::PAGES;
use crate::serve::activity::ConnectionActivity;
use crate::state::GatewayState;

/// The metrics and the log line of one request, which are written when the value is dropped.
pub(crate) struct RequestTicket {
    gate: Arc<GatewayState>,
    /// Marked idle when the request ends.
    activity: Arc<ConnectionActivity>,
    pub(crate) id: RequestId,
    pub(crate) began: Instant,
    method: Method,
    uri: Uri,
    route: &'static str,
    upstream: Arc<str>,
    status: u16,
    streams: bool,
    unmetered: bool,
    payer: Payer,
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
        activity: Arc<ConnectionActivity>,
        method: &Method,
        uri: &Uri,
    ) -> Self {
        Self {
            id: gate.serving.requests.next(),
            gate: Arc::clone(gate),
            activity,
            began: Instant::now(),
            method: method.clone(),
            uri: uri.clone(),
            route: "none",
            upstream: Arc::clone(&gate.serving.no_upstream),
            status: CLIENT_CLOSED,
            streams: false,
            unmetered: false,
            payer: Payer::default(),
            end: ResponseEnd::Open,
        }
    }

    /// Sets the endpoint and the upstream of the request.
    pub(crate) fn set_route(&mut self, route: &'static str, upstream: &Arc<str>) {
        self.route = route;
        self.upstream = Arc::clone(upstream);
    }

    /// Sets the key that asks.
    pub(crate) fn set_key(&mut self, key: Option<&Arc<ClientKey>>) {
        let Some(key) = key else { return };
        self.payer = Payer { key: Some(Arc::clone(&key.name)), account: key.account.clone() };
    }

    /// Returns true if the request is for the pages, and not a client's.
    pub(crate) fn is_of_pages(&self) -> bool {
        self.route == PAGES
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
            self.gate.watch.metrics.count_stream_begin();
        }
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
            payer: self.payer.clone(),
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

impl BodyObserver for RequestTicket {
    fn mark_complete(&mut self) {
        self.end = ResponseEnd::Whole;
    }

    fn mark_cut(&mut self, cut: &CutReason) {
        self.end = ResponseEnd::Cut(cut.clone());
    }
}

impl Drop for RequestTicket {
    fn drop(&mut self) {
        self.activity.mark_idle();
        let took = self.began.elapsed();
        self.gate.watch.metrics.count_request(self.route, &self.upstream, self.status, took);
        if self.streams {
            self.gate.watch.metrics.count_stream_end();
        }
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.write_log(ms);
        if self.unmetered {
            self.gate.watch.metrics.count_event("unmetered");
            if self.gate.watch.wants_records() {
                self.gate.watch.write_ledger(Record::Request(self.unmetered_record(ms)));
            }
        }
    }
}
