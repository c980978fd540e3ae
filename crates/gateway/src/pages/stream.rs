//! Server-sent events: of one run, from its tape, and of the list of runs, by versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response};

use super::start;
use super::watched::WatchedLedger;
use crate::run_row::RunRow;
use crate::state::GatewayState;
use crate::tape::{Tape, TapeRead};
use softland_govern::runs::RunSnapshot;
use softland_govern::store::StoreError;
use softland_govern::{Body, BodySender};

/// The number of streams to pages at once.
const MOST: usize = 1024;
/// The number of bytes that are sent at once.
const PIECE: usize = 64 << 10;
/// The interval between two checks for changed runs, for a page that watches the list.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// The silence after which a keepalive is sent.
pub(super) const SILENCE: Duration = Duration::from_secs(15);
/// The name of a tape that is read from the ledger and has no number of its own.
const RECORDED: &str = "kept";
/// The time after which a page that was cut off reconnects.
const RETRY: &[u8] = b"retry: 1000\n\n";

/// One of the limited number of streams. It is released however the stream ends.
pub(super) struct StreamPermit(Arc<AtomicUsize>);

impl StreamPermit {
    pub(super) fn try_acquire(open_streams: &Arc<AtomicUsize>) -> Option<Self> {
        if open_streams.fetch_add(1, Ordering::Relaxed) >= MOST {
            open_streams.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self(Arc::clone(open_streams)))
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A tape that counts its reader.
struct ReaderGuard(Arc<Tape>);

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        self.0.remove_reader();
    }
}

/// Reads `Last-Event-ID`: the number of the last line that was read, and the name of its tape.
fn last_id(headers: &HeaderMap) -> Option<(u64, Option<String>)> {
    let id = headers.get("last-event-id")?.to_str().ok()?.trim();
    let (number, name) = match id.split_once('.') {
        Some((number, name)) => (number, Some(name.to_owned())),
        None => (id, None),
    };
    Some((number.parse().ok()?, name))
}

/// Streams the lines of a run from the reader's last position; `None` if there is no such run, or
/// too many are watched.
///
/// # Errors
/// Returns an error if the shared state cannot be reached.
pub(super) async fn stream_run(
    gate: &Arc<GatewayState>,
    run: &str,
    headers: &HeaderMap,
    permit: StreamPermit,
) -> Result<Option<Response<Body>>, StoreError> {
    // The ledger is looked at before it is read, so that no change is missed.
    let watched = WatchedLedger::open(gate).await;
    let row = gate.services.state.find_run(run).await?;
    let open = row.as_ref().is_some_and(|row| row.end.is_none());
    let known = gate.watch.tapes.find_tape(run).is_some();
    let tape = if open || known {
        let Some((tape, new)) = gate.watch.tapes.open_tape(run) else { return Ok(None) };
        let watched = ReaderGuard(tape);
        if new {
            let Some(start) = read_beginning(gate, run, row).await else { return Ok(None) };
            let whole = (start.whole, start.whole);
            watched.0.set_beginning(start.steps, whole);
            // The run may have ended before the tape existed.
            let row = gate.services.state.find_run(run).await?;
            if start.over || row.is_none_or(|row| row.end.is_some()) {
                watched.0.end_tape();
            }
        }
        watched
    } else {
        let start = read_beginning(gate, run, row).await.filter(|start| start.found);
        let Some(start) = start else { return Ok(None) };
        if let Some(watched) = watched.filter(|_| !start.over) {
            return Ok(Some(stream_recorded(gate, run, watched, start, headers, permit)));
        }
        ReaderGuard(Arc::new(Tape::from_steps(usize::MAX, run, start.steps)))
    };
    let name = match tape.0.name() {
        usize::MAX => RECORDED.to_owned(),
        name => format!("{}t{name}", gate.pages.stamp),
    };
    let (from, lost) = last_position(headers, &name);
    let (sender, response) = open_stream();
    let gate = Arc::clone(gate);
    tokio::spawn(async move {
        tokio::select! {
            () = follow_tape(&tape.0, &name, from, lost, &sender) => sender.finish(),
            () = sender.closed() => {}
            () = gate.pages.leaving.cancelled() => {}
        }
        drop((tape, permit));
    });
    Ok(Some(response))
}

/// Returns the number of the line that a page wants next, and true if its position belongs to
/// another tape than the named one.
fn last_position(headers: &HeaderMap, name: &str) -> (Option<u64>, bool) {
    let from = last_id(headers).filter(|(_, had)| had.as_deref().is_none_or(|had| had == name));
    let lost = from.is_none() && headers.contains_key("last-event-id");
    (from.map(|(seq, _)| seq.saturating_add(1)), lost)
}

/// Streams a run that another process is writing into the ledger.
fn stream_recorded(
    gate: &Arc<GatewayState>,
    run: &str,
    watched: WatchedLedger,
    start: start::TapeStart,
    headers: &HeaderMap,
    permit: StreamPermit,
) -> Response<Body> {
    let position = last_position(headers, RECORDED);
    let (sender, response) = open_stream();
    let (gate, run) = (Arc::clone(gate), run.to_owned());
    tokio::spawn(async move {
        tokio::select! {
            () = follow_recorded(&gate, &run, watched, start, position, &sender) => sender.finish(),
            () = sender.closed() => {}
            () = gate.pages.leaving.cancelled() => {}
        }
        drop(permit);
    });
    response
}

/// Reads the run again whenever the ledger has changed, until the run has ended.
async fn follow_recorded(
    gate: &Arc<GatewayState>,
    run: &str,
    mut watched: WatchedLedger,
    mut start: start::TapeStart,
    (mut from, mut lost): (Option<u64>, bool),
    sender: &BodySender,
) {
    loop {
        let over = start.over;
        let tape = Tape::from_steps(usize::MAX, run, start.steps);
        follow_tape(&tape, RECORDED, from, lost, sender).await;
        if over {
            return;
        }
        let longer = loop {
            watched.wait_for_change(sender).await;
            let Some(next) = read_beginning(gate, run, None).await else { return };
            // A run that was deleted meanwhile stays as it was shown.
            if !next.found {
                return;
            }
            let longer = Tape::from_steps(usize::MAX, run, next.steps.clone());
            if next.over || longer.bounds() != tape.bounds() {
                start = next;
                break longer;
            }
        };
        // Where contents are kept, a turn's text goes between lines that were there before.
        lost = !longer.begins_with(&tape);
        from = (!lost).then(|| tape.bounds().1);
    }
}

async fn read_beginning(
    gate: &Arc<GatewayState>,
    run: &str,
    row: Option<RunSnapshot>,
) -> Option<start::TapeStart> {
    let (gate, run) = (Arc::clone(gate), run.to_owned());
    tokio::task::spawn_blocking(move || start::read_start(&gate, &run, row.as_ref())).await.ok()
}

async fn follow_tape(tape: &Tape, name: &str, from: Option<u64>, lost: bool, sender: &BodySender) {
    let mut next = from;
    // The page's position belongs to another tape, so the page starts over.
    let mut head = RETRY.to_vec();
    if lost {
        head.extend_from_slice(b"event: resync\ndata: {}\n\n");
    }
    if sender.send(Bytes::from(head)).await.is_err() {
        return;
    }
    loop {
        let changed = tape.changed();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();
        let (base, end) = tape.bounds();
        // A position behind the newest line is not valid.
        let from = next.unwrap_or(base).min(end);
        match tape.read_lines(from, PIECE) {
            TapeRead::Lines(mut seq, lines) => {
                let mut piece = Vec::new();
                for line in lines {
                    piece.extend_from_slice(format!("id: {seq}.{name}\ndata: ").as_bytes());
                    piece.extend_from_slice(&line);
                    piece.extend_from_slice(b"\n\n");
                    seq += 1;
                }
                next = Some(seq);
                if sender.send(Bytes::from(piece)).await.is_err() {
                    return;
                }
            }
            // The reader is too slow: its stream ends, and the page starts over.
            TapeRead::Lost => {
                let cut = Bytes::from_static(b"event: resync\nid: 0.lost\ndata: {}\n\n");
                let _ = sender.send(cut).await;
                return;
            }
            TapeRead::Over => return,
            TapeRead::Nothing => {
                if tokio::time::timeout(SILENCE, changed).await.is_err()
                    && sender.send(Bytes::from_static(b":\n\n")).await.is_err()
                {
                    return;
                }
            }
        }
    }
}

/// Streams the runs that change, each in its current state. Reading a run twice does no harm.
pub(super) fn stream_list(
    gate: &Arc<GatewayState>,
    headers: &HeaderMap,
    permit: StreamPermit,
) -> Response<Body> {
    let stamp = gate.pages.stamp.clone();
    let from = last_id(headers).filter(|(_, had)| had.as_ref().is_none_or(|had| *had == stamp));
    let lost = from.is_none() && headers.contains_key("last-event-id");
    let (sender, response) = open_stream();
    let gate = Arc::clone(gate);
    tokio::spawn(async move {
        tokio::select! {
            () = follow_list(&gate, from.map_or(0, |(version, _)| version), lost, &sender) => {}
            () = sender.closed() => {}
            () = gate.pages.leaving.cancelled() => {}
        }
        drop(permit);
    });
    response
}

async fn follow_list(gate: &GatewayState, mut version: u64, lost: bool, sender: &BodySender) {
    let stamp = gate.pages.stamp.as_str();
    let mut piece = RETRY.to_vec();
    if lost {
        piece.extend_from_slice(b"event: resync\ndata: {}\n\n");
    }
    let mut quiet = Duration::ZERO;
    let mut watched = WatchedLedger::open(gate).await;
    loop {
        // Another process has written to the ledger, so the page reads the list again.
        if let Some(watched) = &mut watched
            && watched.has_changed().await
        {
            piece.extend_from_slice(b"event: resync\ndata: {}\n\n");
        }
        // A state that cannot be reached is asked again; the page stays.
        let newest = gate.services.state.list_runs(version).await.unwrap_or_default();
        if newest.version > version {
            let rows = newest.runs;
            version = newest.version;
            let last = rows.len().saturating_sub(1);
            for (n, row) in rows.iter().enumerate() {
                // The last row alone carries the id: only then has everything up to this version
                // been read.
                if n == last {
                    piece.extend_from_slice(format!("id: {version}.{stamp}\n").as_bytes());
                }
                piece.extend_from_slice(b"data: ");
                piece.extend(serde_json::to_vec(&RunRow::from_snapshot(row)).unwrap_or_default());
                piece.extend_from_slice(b"\n\n");
            }
        } else if quiet >= SILENCE {
            piece.extend_from_slice(b":\n\n");
        }
        if !piece.is_empty() {
            if sender.send(Bytes::from(std::mem::take(&mut piece))).await.is_err() {
                return;
            }
            quiet = Duration::ZERO;
        }
        tokio::time::sleep(LOOK).await;
        quiet += LOOK;
    }
}

fn open_stream() -> (BodySender, Response<Body>) {
    let (sender, body) = Body::channel(2);
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    // Proxies such as nginx buffer a stream without this header.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    (sender, response)
}
