//! Records: the beginnings and ends of runs, the requests sent for them, and other events.

use std::sync::Arc;

use softland_core::{NanoUsd, RunEnding};

use crate::fields::{self, Fields};
use crate::step::Step;

/// One fact to keep. Times are milliseconds since 1970.
#[derive(Clone, Debug)]
pub enum Record {
    /// A run was seen for the first time.
    RunStart(RunStart),
    /// A request is about to be sent upstream, with the most that it can cost. A run that the ledger
    /// does not have begins with it. Its [`Record::Request`] follows once its response has ended. If the process dies before that,
    /// this record is booked when the ledger is next opened.
    Sent(Request),
    /// A request has ended, whether or not it was sent upstream.
    Request(Request),
    /// A signal, an intervention, or another event of a run.
    Event(Event),
    /// A run ended.
    RunEnd(RunEnd),
}

/// The key that asks and the account that pays, where a gateway has keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payer {
    /// The name of the key.
    pub key: Option<Arc<str>>,
    /// The account, a path.
    pub account: Option<Arc<str>>,
}

/// Whose a run is, and its model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOwner {
    /// The session, which shares money.
    pub session: Option<Arc<str>>,
    /// The model.
    pub model: Option<Arc<str>>,
    /// The key that asks, and the account that pays.
    pub payer: Payer,
}

/// The beginning of a run.
#[derive(Clone, Debug)]
pub struct RunStart {
    /// The time of the record.
    pub at: u64,
    /// The run.
    pub run: Arc<str>,
    /// The session, which shares money.
    pub session: Arc<str>,
    /// The client's name for the run (`x-softland-run`). Several runs may share a name.
    pub name: Option<Arc<str>>,
    /// The agent within the session, where the client names one.
    pub agent: Option<Arc<str>>,
    /// The ended run that this run continues.
    pub continues: Option<Arc<str>>,
    /// The model.
    pub model: Arc<str>,
    /// The policy's name.
    pub policy: String,
    /// The client, as its `user-agent` names it.
    pub client: Option<String>,
    /// The key that asks, and the account that pays.
    pub payer: Payer,
    /// True if the run is only observed: its interventions were not applied.
    pub observed: bool,
}

/// One request; its own texts have the type `T`.
#[derive(Clone, Debug)]
pub struct Request<T = String> {
    /// The time at which the request arrived.
    pub at: u64,
    /// The gateway's own id for the client's request.
    pub id: T,
    /// The run; `None` if the request belongs to no run.
    pub run: Option<Arc<str>>,
    /// The session, which shares money.
    pub session: Option<Arc<str>>,
    /// The key that asks, and the account that pays.
    pub payer: Payer,
    /// The turn of the run, counted from 1.
    pub turn: u64,
    /// The upstream's name.
    pub upstream: Arc<str>,
    /// The path, without its query.
    pub path: T,
    /// The model, if the request names one.
    pub model: Option<Arc<str>>,
    /// The landing rung or the kind of hidden request, unless this is the client's own turn.
    pub rung: Option<T>,
    /// The upstream's status code; `None` if no response arrived.
    pub status: Option<u16>,
    /// Uncached input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens read from the prompt cache.
    pub cache_read: u64,
    /// Tokens written to the prompt cache.
    pub cache_write: u64,
    /// The cost; `None` if the model has no known price.
    pub cost: Option<NanoUsd>,
    /// The time from the request's arrival to the end of its response, in milliseconds.
    pub millis: u64,
    /// The reason why the request could not be metered or governed, if it could not.
    pub remark: Option<T>,
    /// The body sent upstream, if full contents are kept.
    pub content: Option<Vec<u8>>,
}

/// An event of a run: its name, and its fields as `F`.
#[derive(Clone, Debug)]
pub struct Event<F = Fields> {
    /// The time of the event.
    pub at: u64,
    /// The run.
    pub run: Arc<str>,
    /// The turn, counted from 1.
    pub turn: u64,
    /// The event's name (`docs/reference/events.md`).
    pub event: &'static str,
    /// Its other fields.
    pub fields: F,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct RunEnd {
    /// The time of the end.
    pub at: u64,
    /// The run.
    pub run: Arc<str>,
    /// Whose it is. Kept if the ledger does not have the run's beginning.
    pub owner: RunOwner,
    /// The outcome and its reason.
    pub ended: RunEnding,
    /// True if the answer is softland's own.
    pub local: bool,
    /// The answer, if full contents are kept.
    pub answer: Option<String>,
    /// The number of turns.
    pub turns: u64,
    /// The number of tool calls; `None` if they were not counted.
    pub tool_calls: Option<u64>,
    /// Uncached input tokens of the run.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens read from the prompt cache.
    pub cache_read: u64,
    /// Tokens written to the prompt cache.
    pub cache_write: u64,
    /// The cost; `None` if it is not known.
    pub cost: Option<NanoUsd>,
}

/// The texts of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestTexts<'a> {
    pub(crate) id: &'a str,
    pub(crate) path: &'a str,
    pub(crate) rung: Option<&'a str>,
    pub(crate) remark: Option<&'a str>,
}

impl<T> Request<T> {
    /// Converts the texts of the request with `text`.
    pub(crate) fn map_texts<U>(self, mut text: impl FnMut(T) -> U) -> Request<U> {
        Request {
            at: self.at,
            id: text(self.id),
            run: self.run,
            session: self.session,
            payer: self.payer,
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

    /// Returns the texts of the request, each read by `text`.
    pub(crate) fn resolve_texts<'a>(&'a self, text: impl Fn(&'a T) -> &'a str) -> RequestTexts<'a> {
        RequestTexts {
            id: text(&self.id),
            path: text(&self.path),
            rung: self.rung.as_ref().map(&text),
            remark: self.remark.as_ref().map(&text),
        }
    }
}

impl<F> Event<F> {
    /// Converts the fields of the event with `fields`.
    pub(crate) fn map_fields<G>(self, fields: impl FnOnce(F) -> G) -> Event<G> {
        let Self { at, run, turn, event, fields: own } = self;
        Event { at, run, turn, event, fields: fields(own) }
    }
}

impl Record {
    /// Returns the run and the line that this record becomes in it, not numbered yet. Returns
    /// `None` for a request that belongs to no run or has not ended. With `full`, the line has what
    /// a ledger that keeps full contents would write.
    #[must_use]
    pub fn to_step(&self, full: bool) -> Option<(&str, Step)> {
        let (run, at, turn, event, fields) = match self {
            Self::RunStart(r) => (&r.run, r.at, 0, "run_start", fields::start_fields(r)),
            Self::Sent(_) => return None,
            Self::Request(r) => (
                r.run.as_ref()?,
                r.at,
                r.turn,
                "usage",
                fields::usage_fields(r, r.resolve_texts(String::as_str)),
            ),
            Self::Event(r) => {
                let fields = fields::event_fields(r.event, r.fields.as_str(), full).into_owned();
                (&r.run, r.at, r.turn, r.event, fields)
            }
            Self::RunEnd(r) => {
                let event = fields::last_event_name(&r.ended);
                (&r.run, r.at, r.turns, event, fields::end_fields(r, full))
            }
        };
        let event = event.to_owned();
        Some((run, Step { seq: 0, at, turn, event, fields, late: false }))
    }

    /// Returns the approximate size of the record in memory, in bytes.
    pub(crate) fn memory_size(&self) -> usize {
        let own = size_of::<Self>();
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let name = |name: &Option<Arc<str>>| name.as_ref().map_or(0, |name| name.len());
        let payer = |payer: &Payer| name(&payer.key) + name(&payer.account);
        own + match self {
            Self::RunStart(r) => {
                let named = r.run.len() + r.session.len() + r.model.len() + r.policy.len();
                let given = name(&r.agent) + name(&r.name) + payer(&r.payer);
                named + given + name(&r.continues) + text(&r.client)
            }
            Self::Request(r) | Self::Sent(r) => {
                let named = r.id.len() + r.upstream.len() + r.path.len();
                let content = r.content.as_ref().map_or(0, Vec::len);
                named
                    + content
                    + name(&r.run)
                    + payer(&r.payer)
                    + name(&r.session)
                    + name(&r.model)
                    + text(&r.rung)
                    + text(&r.remark)
            }
            Self::Event(r) => r.run.len() + r.fields.as_str().len(),
            Self::RunEnd(r) => {
                let owner = name(&r.owner.session) + name(&r.owner.model) + payer(&r.owner.payer);
                r.run.len() + owner + text(&r.answer)
            }
        }
    }

    /// True for the beginning and the end of a run, on which its other records depend.
    pub(crate) fn is_frame(&self) -> bool {
        matches!(self, Self::RunStart(_) | Self::RunEnd(_))
    }
}
