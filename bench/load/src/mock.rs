//! The upstream of every measurement: answers at once or paced, counts what it got, and does
//! nothing else. Its pace is set by requests to `/bench/…`, which only the load tool sends.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use memchr::memmem;
use softland_bench_texts::requests::Wire;
use softland_bench_texts::{DONE, answers};
use tokio::net::TcpListener;
use tokio::time::{Instant, Sleep};

use crate::awake::Awake;
use crate::client::now;

/// In a governed request.
const GOVERNED: &str = "tool calls remaining";

type Answer = Response<Either<Full<Bytes>, Paced>>;

/// How streams are written.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pace {
    /// Between two events; zero: all at once.
    pub(crate) gap: Duration,
    /// Before the head event, behind the response's head.
    pub(crate) lead: Duration,
    /// All that follows the head event as one piece.
    pub(crate) joined: bool,
}

impl Pace {
    /// The control request's query.
    pub(crate) fn query(self) -> String {
        let (gap, lead) = (self.gap.as_micros(), self.lead.as_micros());
        format!("gap={gap}&lead={lead}&joined={}", u8::from(self.joined))
    }

    fn read(query: &str) -> Self {
        let value = |key: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.into_iter().find(|(k, _)| *k == key).and_then(|(_, v)| v.parse::<u64>().ok())
        };
        Self {
            gap: Duration::from_micros(value("gap").unwrap_or(0)),
            lead: Duration::from_micros(value("lead").unwrap_or(0)),
            joined: value("joined") == Some(1),
        }
    }
}

struct State {
    pace: Cell<Pace>,
    awake: RefCell<Option<Awake>>,
    requests: Cell<u64>,
    governed: Cell<u64>,
    prepared: Prepared,
}

/// Answers at once, made once: [not the last, the last].
struct Prepared {
    message: [Bytes; 2],
    message_stream: [Bytes; 2],
    completion: [Bytes; 2],
    completion_stream: [Bytes; 2],
    response: [Bytes; 2],
    response_stream: [Bytes; 2],
}

impl Prepared {
    fn whole(&self, wire: Wire) -> &[Bytes; 2] {
        match wire {
            Wire::Messages => &self.message,
            Wire::Chat => &self.completion,
            Wire::Responses => &self.response,
        }
    }

    fn stream(&self, wire: Wire) -> &[Bytes; 2] {
        match wire {
            Wire::Messages => &self.message_stream,
            Wire::Chat => &self.completion_stream,
            Wire::Responses => &self.response_stream,
        }
    }
}

/// Serves until the process is ended. Says its address on standard output.
pub(crate) async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let mut out = io::stdout();
    writeln!(out, "{}", listener.local_addr()?)?;
    out.flush()?;
    let both = |one: fn(bool) -> Bytes| [one(false), one(true)];
    let joined = |events: fn(bool, u128) -> Vec<Bytes>| {
        [events(false, 0), events(true, 0)].map(|events| Bytes::from(events.concat()))
    };
    let prepared = Prepared {
        message: both(answers::message),
        message_stream: joined(answers::message_events),
        completion: both(answers::completion),
        completion_stream: joined(answers::completion_events),
        response: both(answers::response),
        response_stream: joined(answers::response_events),
    };
    let state = Rc::new(State {
        pace: Cell::default(),
        awake: RefCell::default(),
        requests: Cell::default(),
        governed: Cell::default(),
        prepared,
    });
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let state = Rc::clone(&state);
        tokio::task::spawn_local(async move {
            let service = service_fn(|request| answer(Rc::clone(&state), request));
            // A client that goes away in mid-stream is no fault of the mock.
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(state: Rc<State>, request: Request<Incoming>) -> Result<Answer, hyper::Error> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let body = collect(request.into_body()).await?;
    if path == "/bench/pace" {
        state.pace.set(Pace::read(&query));
        return Ok(whole("text/plain", Bytes::from_static(b"set")));
    }
    if let "/bench/awake" | "/bench/asleep" = path.as_str() {
        state.awake.replace(path.ends_with("awake").then(Awake::new));
        return Ok(whole("text/plain", Bytes::from_static(b"set")));
    }
    if path == "/bench/counts" {
        let counts = format!("{} {}", state.requests.take(), state.governed.take());
        return Ok(whole("text/plain", counts.into()));
    }
    state.requests.set(state.requests.get() + 1);
    if memmem::find(&body, GOVERNED.as_bytes()).is_some() {
        state.governed.set(state.governed.get() + 1);
    }
    let streams = memmem::find(&body, b"\"stream\":true").is_some();
    let last = memmem::find(&body, DONE.as_bytes()).is_some();
    let wire = match path.as_str() {
        path if path.ends_with("/chat/completions") => Wire::Chat,
        path if path.ends_with("/responses") => Wire::Responses,
        _ => Wire::Messages,
    };
    Ok(respond(&state, wire, streams, last))
}

async fn collect(mut body: Incoming) -> Result<Bytes, hyper::Error> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole.freeze())
}

fn respond(state: &State, wire: Wire, streams: bool, last: bool) -> Answer {
    let (at, pace) = (usize::from(last), state.pace.get());
    if !streams {
        return whole("application/json", state.prepared.whole(wire)[at].clone());
    }
    if pace.gap.is_zero() {
        // A stream is sent in chunks, as a provider does: its length is not known beforehand.
        return stream(Paced::at_once(state.prepared.stream(wire)[at].clone()));
    }
    stream(Paced::new(wire, last, pace))
}

fn whole(kind: &'static str, bytes: Bytes) -> Answer {
    typed(kind, Either::Left(Full::new(bytes)))
}

fn stream(body: Paced) -> Answer {
    typed("text/event-stream", Either::Right(body))
}

fn typed(kind: &'static str, body: Either<Full<Bytes>, Paced>) -> Answer {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A stream's body: each event at its time.
struct Paced {
    events: Vec<Bytes>,
    next: usize,
    start: Instant,
    gap: Duration,
    wire: Wire,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    fn at_once(bytes: Bytes) -> Self {
        let start = Instant::now();
        let (gap, wire) = (Duration::ZERO, Wire::Messages);
        Self { events: vec![bytes], next: 0, start, gap, wire, sleep: None }
    }

    fn new(wire: Wire, last: bool, pace: Pace) -> Self {
        let start = Instant::now() + pace.lead;
        let mut events = match wire {
            Wire::Messages => answers::message_events(last, 0),
            Wire::Chat => answers::completion_events(last, 0),
            Wire::Responses => answers::response_events(last, 0),
        };
        if pace.joined {
            let rest = Bytes::from(events.split_off(1).concat());
            events.push(rest);
        }
        let sleep = Some(Box::pin(tokio::time::sleep_until(start)));
        Self { events, next: 0, start, gap: pace.gap, wire, sleep }
    }

    fn event(&self) -> Bytes {
        if self.next > 0 || self.gap.is_zero() {
            return self.events[self.next].clone();
        }
        let nanos = now().as_nanos();
        match self.wire {
            Wire::Messages => answers::message_head(nanos),
            Wire::Chat => answers::completion_head(nanos),
            Wire::Responses => answers::response_head(nanos),
        }
    }
}

impl http_body::Body for Paced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.next == self.events.len() {
            return Poll::Ready(None);
        }
        let due = self.start + self.gap * u32::try_from(self.next).unwrap_or(u32::MAX);
        if let Some(sleep) = &mut self.sleep {
            if sleep.deadline() != due {
                sleep.as_mut().reset(due);
            }
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        let event = self.event();
        self.next += 1;
        Poll::Ready(Some(Ok(Frame::data(event))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_read_as_it_was_written() {
        let pace = Pace { gap: Duration::from_millis(5), lead: Duration::ZERO, joined: true };
        let read = Pace::read(&pace.query());
        assert_eq!((read.gap, read.lead, read.joined), (pace.gap, pace.lead, pace.joined));
    }
}
