//! What is kept: the beginnings and ends of runs, the requests sent for them, and what happened.

use std::sync::Arc;

use softland_core::{Ended, NanoUsd};

use crate::fields::{self, Fields};
use crate::read::Step;

/// One thing worth keeping. Times are milliseconds since 1970.
#[derive(Clone, Debug)]
pub enum Record {
    /// A run was met for the first time.
    RunStart(RunStart),
    /// A request is sent upstream: what it can cost at most. Its [`Record::Request`] follows once
    /// its response has ended; where none does, since the process has died, this one is booked
    /// when the ledger is opened next.
    Sent(Request),
    /// A request has ended that was sent upstream, or that was answered without.
    Request(Request),
    /// A signal, an intervention, or another event of a run.
    Event(Event),
    /// A run ended.
    RunEnd(RunEnd),
}

/// The beginning of a run.
#[derive(Clone, Debug)]
pub struct RunStart {
    /// When.
    pub at: u64,
    /// The run.
    pub run: Arc<str>,
    /// What shares money with it.
    pub session: Arc<str>,
    /// The name that the client gave it (`x-softland-run`); several runs may have one.
    pub name: Option<Arc<str>>,
    /// The agent within the session, where the client names one.
    pub agent: Option<Arc<str>>,
    /// The run that a later request of an ended run goes on from.
    pub continues: Option<Arc<str>>,
    /// The model.
    pub model: Arc<str>,
    /// The policy's name.
    pub policy: String,
    /// The client, as its `user-agent` names it.
    pub client: Option<String>,
    /// It is only observed: what is said to have been done to it would have been.
    pub observed: bool,
}

/// One request, with its own texts as `T`.
#[derive(Clone, Debug)]
pub struct Request<T = String> {
    /// When it came.
    pub at: u64,
    /// The gateway's own id of the client's request.
    pub id: T,
    /// The run; `None` where it belongs to none.
    pub run: Option<Arc<str>>,
    /// What shares money with it.
    pub session: Option<Arc<str>>,
    /// The turn of the run, 1 the first.
    pub turn: u64,
    /// The upstream's name.
    pub upstream: Arc<str>,
    /// The path, without its query.
    pub path: T,
    /// The model, where the request names one.
    pub model: Option<Arc<str>>,
    /// The landing rung or hidden kind, where it was not the client's own turn.
    pub rung: Option<T>,
    /// The upstream's status; `None` where none came.
    pub status: Option<u16>,
    /// Uncached input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens read from the prompt cache.
    pub cache_read: u64,
    /// Tokens written to it.
    pub cache_write: u64,
    /// What it cost; `None` where the model has no known price.
    pub cost: Option<NanoUsd>,
    /// From the request's arrival to the end of its response, in milliseconds.
    pub millis: u64,
    /// Why it could not be metered or governed, where that is so.
    pub remark: Option<T>,
    /// What was sent upstream, where whole contents are kept.
    pub content: Option<Vec<u8>>,
}

/// Something that happened in a run: the event's name and its fields, as `F`.
#[derive(Clone, Debug)]
pub struct Event<F = Fields> {
    /// When.
    pub at: u64,
    /// The run.
    pub run: Arc<str>,
    /// The turn, 1 the first.
    pub turn: u64,
    /// The event's name (contract §7).
    pub event: &'static str,
    /// Its further fields.
    pub fields: F,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct RunEnd {
    /// When.
    pub at: u64,
    /// The run.
    pub run: Arc<str>,
    /// How it ended.
    pub ended: Ended,
    /// Whether the answer is softland's own.
    pub local: bool,
    /// The answer, where whole contents are kept.
    pub answer: Option<String>,
    /// Turns.
    pub turns: u64,
    /// Tool calls; `None` where nobody has counted them.
    pub tool_calls: Option<u64>,
    /// Uncached input tokens of the run.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens read from the prompt cache.
    pub cache_read: u64,
    /// Tokens written to it.
    pub cache_write: u64,
    /// What it cost; `None` where that is not known.
    pub cost: Option<NanoUsd>,
}

/// The texts of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Texts<'a> {
    pub(crate) id: &'a str,
    pub(crate) path: &'a str,
    pub(crate) rung: Option<&'a str>,
    pub(crate) remark: Option<&'a str>,
}

impl<T> Request<T> {
    /// The same with other texts.
    pub(crate) fn map<U>(self, mut text: impl FnMut(T) -> U) -> Request<U> {
        Request {
            at: self.at,
            id: text(self.id),
            run: self.run,
            session: self.session,
            turn: self.turn,
            upstream: self.upstream,
            path: text(self.path),
            model: self.model,
            rung: self.rung.map(&mut text),
            status: self.status,
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            cost: self.cost,
            millis: self.millis,
            remark: self.remark.map(&mut text),
            content: self.content,
        }
    }

    /// Its texts, each read by `text`.
    pub(crate) fn texts<'a>(&'a self, text: impl Fn(&'a T) -> &'a str) -> Texts<'a> {
        Texts {
            id: text(&self.id),
            path: text(&self.path),
            rung: self.rung.as_ref().map(&text),
            remark: self.remark.as_ref().map(&text),
        }
    }
}

impl<F> Event<F> {
    /// The same with its fields as something else.
    pub(crate) fn map<G>(self, fields: impl FnOnce(F) -> G) -> Event<G> {
        let Self { at, run, turn, event, fields: own } = self;
        Event { at, run, turn, event, fields: fields(own) }
    }
}

impl Record {
    /// The run's line that this record will be, not numbered yet, and the run; `None` of a request
    /// that belongs to no run or has not ended. `full`: as where whole contents are kept.
    #[must_use]
    pub fn step(&self, full: bool) -> Option<(&str, Step)> {
        let (run, at, turn, event, fields) = match self {
            Self::RunStart(r) => (&r.run, r.at, 0, "run_start", fields::of_start(r)),
            Self::Sent(_) => return None,
            Self::Request(r) => (
                r.run.as_ref()?,
                r.at,
                r.turn,
                "usage",
                fields::of_request(r, r.texts(String::as_str)),
            ),
            Self::Event(r) => {
                let fields = fields::of_event(r.event, r.fields.as_str(), full).into_owned();
                (&r.run, r.at, r.turn, r.event, fields)
            }
            Self::RunEnd(r) => {
                let event = fields::last_event(&r.ended);
                (&r.run, r.at, r.turns, event, fields::of_end(r, full))
            }
        };
        let event = event.to_owned();
        Some((run, Step { seq: 0, at, turn, event, fields, late: false }))
    }

    /// What it takes in memory, roughly, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let own = size_of::<Self>();
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let name = |name: &Option<Arc<str>>| name.as_ref().map_or(0, |name| name.len());
        own + match self {
            Self::RunStart(r) => {
                let named = r.run.len() + r.session.len() + r.model.len() + r.policy.len();
                let given = name(&r.agent) + name(&r.name);
                named + given + name(&r.continues) + text(&r.client)
            }
            Self::Request(r) | Self::Sent(r) => {
                let named = r.id.len() + r.upstream.len() + r.path.len();
                let content = r.content.as_ref().map_or(0, Vec::len);
                named
                    + content
                    + name(&r.run)
                    + name(&r.session)
                    + name(&r.model)
                    + text(&r.rung)
                    + text(&r.remark)
            }
            Self::Event(r) => r.run.len() + r.fields.as_str().len(),
            Self::RunEnd(r) => r.run.len() + text(&r.answer),
        }
    }

    /// The beginning or the end of a run: what the rest hangs on.
    pub(crate) fn is_frame(&self) -> bool {
        matches!(self, Self::RunStart(_) | Self::RunEnd(_))
    }
}
