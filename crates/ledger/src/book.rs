//! The standing of every run: which number its next line has, whether it has begun and ended, and
//! its sums. Numbers have no gaps, and one line at most ends a run.
//!
//! It writes nothing: a [`Sink`] does, and what failed there is forgotten here with
//! [`Book::forget`] and read again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use foldhash::fast::RandomState;
use softland_core::{Ended, NanoUsd, Outcome, Reason};

use crate::batch::{Packed, Span};
use crate::fields::{self, Envelope};
use crate::record::{Event, Request, RunEnd, RunStart};

/// Runs that are remembered between batches.
const REMEMBERED: usize = 4096;

/// The name of rows that several lines share.
pub(crate) const LINES: &str = "lines";

/// Names that no event may have: those of records of their own, and [`LINES`].
const RESERVED: [&str; 4] = ["run_start", "done", "error", LINES];

/// Where numbered records go, which are borrowed for `'b`.
pub(crate) trait Sink<'b> {
    /// Why they cannot.
    type Error;

    /// The run as it stands there.
    fn find(&mut self, run: &str) -> Result<Option<Row>, Self::Error>;

    /// One line of a run that is no request.
    fn event(&mut self, line: Line<'b>) -> Result<(), Self::Error>;

    /// A request that has not ended.
    fn sent(&mut self, request: &'b Request<Span>);

    /// A request; of no run, its id is 0.
    fn request(&mut self, id: i64, seq: u64, request: &'b Request<Span>)
    -> Result<(), Self::Error>;
}

/// A numbered line that is no request, of the run with this id.
#[derive(Debug)]
pub(crate) struct Line<'b> {
    pub(crate) id: i64,
    pub(crate) seq: u64,
    pub(crate) at: u64,
    pub(crate) turn: u64,
    pub(crate) event: &'static str,
    /// A JSON object on one line, borrowed from the record where it says the same.
    pub(crate) fields: Cow<'b, str>,
}

/// A run as it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    /// The database's own id.
    pub(crate) id: i64,
    pub(crate) run: Arc<str>,
    pub(crate) session: Option<Arc<str>>,
    pub(crate) agent: Option<Arc<str>>,
    /// What the client calls it.
    pub(crate) name: Option<Arc<str>>,
    /// Only observed.
    pub(crate) observed: bool,
    pub(crate) continues: Option<Arc<str>>,
    pub(crate) model: Option<Arc<str>>,
    pub(crate) policy: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) started: u64,
    pub(crate) last: u64,
    /// Its beginning was recorded.
    pub(crate) met: bool,
    pub(crate) next_seq: u64,
    pub(crate) turns: u64,
    pub(crate) tool_calls: Option<u64>,
    pub(crate) requests: u64,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    /// Nano-dollars: of a run that goes on, the sum of what is known; of one that has ended, what
    /// its end says.
    pub(crate) cost: Option<u64>,
    /// Requests without a known price.
    pub(crate) unpriced: u64,
    pub(crate) end: Option<End>,
    /// It has changed since it was last kept.
    pub(crate) changed: bool,
    /// So has more of it than going on changes: its names, or its end.
    pub(crate) whole: bool,
    /// It was never kept.
    pub(crate) new: bool,
    /// The batch under way has to do with it.
    pub(crate) in_batch: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) at: u64,
    /// The number of its last line.
    pub(crate) seq: u64,
    pub(crate) outcome: String,
    pub(crate) reason: String,
    pub(crate) local: bool,
    /// [`softland_core::Ended`] as JSON.
    pub(crate) ended: String,
}

/// Every run that was met lately.
#[derive(Debug, Default)]
pub(crate) struct Book {
    rows: Vec<Row>,
    /// Where each run stands among them.
    places: HashMap<Arc<str>, usize, RandomState>,
    /// Those of the batch under way, each once: there may be thousands of others.
    batch: Vec<usize>,
    /// The id of the next new run.
    pub(crate) next_id: i64,
    /// The number of the next request that belongs to no run.
    pub(crate) next_loose: u64,
    /// Whole contents are kept.
    full: bool,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It has a line.
    Line,
    /// It came after the end of its run, or belongs to none: kept without a line.
    NoLine,
    /// It says again what is known: a second beginning or end.
    Known,
    /// An event whose name only a record of its own may have.
    Misnamed,
}

impl Book {
    /// An empty one; `full`: whole contents are kept.
    pub(crate) fn new(full: bool) -> Self {
        Self { full, ..Self::default() }
    }

    /// Numbers a record of the batch with these texts and hands it to the sink; its line is
    /// appended to `text`, where somebody reads lines.
    pub(crate) fn take<'b, S: Sink<'b>>(
        &mut self,
        record: &'b Packed,
        texts: &'b str,
        sink: &mut S,
        text: Option<&mut Vec<u8>>,
    ) -> Result<Taken, S::Error> {
        let full = self.full;
        match record {
            Packed::RunStart(start) => {
                let row = self.row(&start.run, start.at, sink)?;
                if row.met {
                    return Ok(Taken::Known);
                }
                row.begin(start);
                put(row, (start.at, 0, "run_start"), fields::of_start(start), sink, text)
            }
            Packed::Event(event) if RESERVED.contains(&event.event) => Ok(Taken::Misnamed),
            Packed::Event(event) => {
                let row = self.row(&event.run, event.at, sink)?;
                row.touch(event.at, event.turn);
                let Event { at, turn, event, fields, .. } = *event;
                let fields = fields::of_event(event, fields.of(texts), full);
                put(row, (at, turn, event), fields, sink, text)
            }
            Packed::Sent(request) => {
                sink.sent(request);
                Ok(Taken::NoLine)
            }
            Packed::Request(request) => self.request(request, texts, sink, text),
            Packed::RunEnd(end) => {
                let row = self.row(&end.run, end.at, sink)?;
                if row.end.is_some() {
                    return Ok(Taken::Known);
                }
                let name = fields::last_event(&end.ended);
                let fields = fields::of_end(end, full);
                let taken = put(row, (end.at, end.turns, name), fields, sink, text)?;
                row.finish(end);
                Ok(taken)
            }
        }
    }

    fn request<'b, S: Sink<'b>>(
        &mut self,
        request: &'b Request<Span>,
        texts: &str,
        sink: &mut S,
        text: Option<&mut Vec<u8>>,
    ) -> Result<Taken, S::Error> {
        let Some(run) = &request.run else {
            sink.request(0, self.next_loose, request)?;
            self.next_loose += 1;
            return Ok(Taken::NoLine);
        };
        let row = self.row(run, request.at, sink)?;
        row.touch(request.at, request.turn);
        row.add(request);
        let seq = row.number();
        sink.request(row.id, seq, request)?;
        if row.end.is_some() {
            return Ok(Taken::NoLine);
        }
        if let Some(text) = text {
            let envelope = usage_line(run, seq, request);
            let fields = fields::of_request(request, request.texts(|span| span.of(texts)));
            fields::line(text, &envelope, &fields);
        }
        Ok(Taken::Line)
    }

    fn row<'b, S: Sink<'b>>(
        &mut self,
        run: &str,
        at: u64,
        sink: &mut S,
    ) -> Result<&mut Row, S::Error> {
        let place = match self.places.get(run) {
            Some(place) => *place,
            None => {
                let row = match sink.find(run)? {
                    Some(row) => row,
                    None => {
                        self.next_id += 1;
                        Row::new(self.next_id - 1, run, at)
                    }
                };
                self.add(Arc::clone(&row.run), row)
            }
        };
        let row = &mut self.rows[place];
        if !mem::replace(&mut row.in_batch, true) {
            self.batch.push(place);
        }
        Ok(row)
    }

    fn add(&mut self, run: Arc<str>, row: Row) -> usize {
        let place = self.rows.len();
        self.rows.push(row);
        self.places.insert(run, place);
        place
    }

    /// Rows that have changed since they were last kept.
    pub(crate) fn changed(&self) -> impl Iterator<Item = &Row> {
        self.batch.iter().filter_map(|place| self.rows.get(*place)).filter(|row| row.changed)
    }

    /// All of it is kept now. `all`: there is no other memory of a run, so that as many as
    /// possible are held on to.
    pub(crate) fn kept(&mut self, all: bool) {
        for place in self.batch.drain(..) {
            if let Some(row) = self.rows.get_mut(place) {
                (row.changed, row.whole, row.new, row.in_batch) = (false, false, false, false);
            }
        }
        let most = if all { REMEMBERED * 16 } else { REMEMBERED };
        if self.rows.len() > most {
            let (mut rows, places) = (mem::take(&mut self.rows), mem::take(&mut self.places));
            let open = |row: &&mut Row| row.end.is_none();
            for (run, place) in places {
                if let Some(row) = rows.get_mut(place).filter(open) {
                    self.add(run, mem::take(row));
                }
            }
        }
        if self.rows.len() > most {
            self.forget();
        }
    }

    /// Runs stand like this.
    pub(crate) fn learn(&mut self, rows: HashMap<Arc<str>, Row>) {
        self.forget();
        for (run, row) in rows {
            self.add(run, row);
        }
    }

    /// A run that another database had goes on in this one, unless it has it.
    pub(crate) fn adopt<'b, S: Sink<'b>>(
        &mut self,
        row: Row,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if self.places.contains_key(&row.run) || sink.find(&row.run)?.is_some() {
            return Ok(());
        }
        self.next_id += 1;
        let id = self.next_id - 1;
        self.add(row.run.clone(), Row { id, new: true, ..row });
        Ok(())
    }

    /// Nothing is known of any run, until it is read again.
    pub(crate) fn forget(&mut self) {
        self.rows.clear();
        self.places.clear();
        self.batch.clear();
    }
}

/// The line of a request.
pub(crate) fn usage_line<'a, T>(run: &'a str, seq: u64, request: &Request<T>) -> Envelope<'a> {
    Envelope { seq, at: request.at, run, turn: request.turn, event: "usage" }
}

fn put<'b, S: Sink<'b>>(
    row: &mut Row,
    (at, turn, event): (u64, u64, &'static str),
    fields: impl Into<Cow<'b, str>>,
    sink: &mut S,
    text: Option<&mut Vec<u8>>,
) -> Result<Taken, S::Error> {
    let (seq, fields) = (row.number(), fields.into());
    let taken = if row.end.is_some() { Taken::NoLine } else { Taken::Line };
    if let Some(text) = text.filter(|_| taken == Taken::Line) {
        let envelope = Envelope { seq, at, run: &row.run, turn, event };
        fields::line(text, &envelope, &fields);
    }
    sink.event(Line { id: row.id, seq, at, turn, event, fields })?;
    Ok(taken)
}

impl Row {
    fn new(id: i64, run: &str, at: u64) -> Self {
        let run = Arc::from(run);
        Self { id, run, started: at, last: at, cost: Some(0), new: true, ..Self::default() }
    }

    /// One that is known by its last line only.
    pub(crate) fn standing(run: &str, next_seq: u64) -> Self {
        Self { next_seq, met: true, new: false, ..Self::new(0, run, 0) }
    }

    /// The end of a run that nobody goes on with: with what it had come to when it was last heard
    /// of. How many calls it made stands nowhere.
    pub(crate) fn left(self) -> RunEnd {
        RunEnd {
            at: self.last,
            ended: Ended::plain(Outcome::Cancelled, Reason::User),
            local: false,
            answer: None,
            turns: self.turns,
            tool_calls: None,
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            cost: self.cost.filter(|_| self.unpriced == 0).map(NanoUsd),
            run: self.run,
        }
    }

    fn number(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.changed = true;
        seq
    }

    /// A request of it was left open: counted as if it had ended.
    pub(crate) fn add_left(&mut self, request: &Request) {
        self.touch(request.at, request.turn);
        self.add(request);
    }

    fn touch(&mut self, at: u64, turn: u64) {
        self.last = self.last.max(at);
        if self.end.is_none() {
            self.turns = self.turns.max(turn);
        }
    }

    fn begin(&mut self, start: &RunStart) {
        (self.met, self.whole) = (true, true);
        self.touch(start.at, 0);
        self.session = Some(start.session.clone());
        self.agent = start.agent.clone();
        self.name = start.name.clone();
        self.observed = start.observed;
        self.continues = start.continues.clone();
        self.model = Some(start.model.clone());
        self.policy = Some(start.policy.clone());
        self.client = start.client.clone();
    }

    /// What an end has said is not changed by what comes late.
    fn add<T>(&mut self, request: &Request<T>) {
        self.requests += 1;
        if self.end.is_some() {
            return;
        }
        if !self.met {
            // Its beginning was lost, or comes yet.
            self.whole = true;
            self.session = self.session.take().or_else(|| request.session.clone());
            self.model = self.model.take().or_else(|| request.model.clone());
        }
        self.input = self.input.saturating_add(request.input);
        self.output = self.output.saturating_add(request.output);
        self.cache_read = self.cache_read.saturating_add(request.cache_read);
        self.cache_write = self.cache_write.saturating_add(request.cache_write);
        match request.cost {
            Some(cost) => self.cost = Some(self.cost.unwrap_or(0).saturating_add(cost.0)),
            None => self.unpriced += 1,
        }
    }

    fn finish(&mut self, end: &RunEnd) {
        self.whole = true;
        self.touch(end.at, end.turns);
        self.turns = end.turns;
        self.tool_calls = end.tool_calls;
        (self.input, self.output) = (end.input, end.output);
        (self.cache_read, self.cache_write) = (end.cache_read, end.cache_write);
        self.cost = end.cost.map(|cost| cost.0);
        self.end = Some(End {
            at: end.at,
            seq: self.next_seq.saturating_sub(1),
            outcome: end.ended.outcome.word().to_owned(),
            reason: end.ended.reason.to_string(),
            local: end.local,
            ended: fields::json(&end.ended),
        });
    }
}
