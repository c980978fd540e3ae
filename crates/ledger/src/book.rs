//! The state of every run: the number of its next line, its beginning, its end, and its sums.
//! Numbers have no gaps, and at most one line ends a run.
//!
//! The registry writes nothing itself: a [`RecordSink`] does. After a failed write, the registry is
//! emptied with [`RunRegistry::forget_runs`], and runs are read again when needed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use foldhash::fast::RandomState;
use softland_core::{Ended, NanoUsd, Outcome, Reason};

use crate::batch::{Packed, Span};
use crate::fields::{self, Envelope};
use crate::record::{Event, Request, RunEnd, RunStart};

/// The number of runs that are remembered between batches.
const REMEMBERED: usize = 4096;

/// The event name of rows that hold several lines.
pub(crate) const LINES: &str = "lines";

/// Event names that a [`Record::Event`](crate::record::Record::Event) may not have: those of other
/// records, and [`LINES`].
const RESERVED: [&str; 4] = ["run_start", "done", "error", LINES];

/// A destination for numbered records, which are borrowed for `'b`.
pub(crate) trait Sink<'b> {
    /// The error of a failed write.
    type Error;

    /// Returns the stored state of a run.
    fn find(&mut self, run: &str) -> Result<Option<Row>, Self::Error>;

    /// Takes one line of a run that is not a request.
    fn event(&mut self, line: Line<'b>) -> Result<(), Self::Error>;

    /// Takes a request that has not ended.
    fn sent(&mut self, request: &'b Request<Span>);

    /// Takes a request that has ended. The id is 0 for a request that belongs to no run.
    fn request(&mut self, id: i64, seq: u64, request: &'b Request<Span>)
    -> Result<(), Self::Error>;
}

/// A numbered line that is not a request, of the run with this id.
#[derive(Debug)]
pub(crate) struct Line<'b> {
    pub(crate) id: i64,
    pub(crate) seq: u64,
    pub(crate) at: u64,
    pub(crate) turn: u64,
    pub(crate) event: &'static str,
    /// A JSON object on one line. Borrowed from the record if it is unchanged.
    pub(crate) fields: Cow<'b, str>,
}

/// The state of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    /// The id of the run in the database.
    pub(crate) id: i64,
    pub(crate) run: Arc<str>,
    pub(crate) session: Option<Arc<str>>,
    pub(crate) agent: Option<Arc<str>>,
    /// The client's name for the run.
    pub(crate) name: Option<Arc<str>>,
    /// True if the run is only observed.
    pub(crate) observed: bool,
    pub(crate) continues: Option<Arc<str>>,
    pub(crate) model: Option<Arc<str>>,
    pub(crate) policy: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) started: u64,
    pub(crate) last: u64,
    /// True if its beginning was recorded.
    pub(crate) met: bool,
    pub(crate) next_seq: u64,
    pub(crate) turns: u64,
    pub(crate) tool_calls: Option<u64>,
    pub(crate) requests: u64,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    /// Nano-dollars. For an open run, the sum of the known costs; for an ended run, the cost that
    /// its end states.
    pub(crate) cost: Option<u64>,
    /// The number of requests without a known price.
    pub(crate) unpriced: u64,
    pub(crate) end: Option<End>,
    /// True if the row has changed since it was last stored.
    pub(crate) changed: bool,
    /// True if its names or its end have changed, too, which an open run leaves alone.
    pub(crate) whole: bool,
    /// True if the row was never stored.
    pub(crate) new: bool,
    /// True if the current batch concerns the run.
    pub(crate) in_batch: bool,
}

/// The end of a run.
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

/// The states of recent runs.
#[derive(Debug, Default)]
pub(crate) struct Book {
    rows: Vec<Row>,
    /// The index of each run in `rows`.
    places: HashMap<Arc<str>, usize, RandomState>,
    /// The indexes of the rows in the current batch, each once. There may be thousands of others.
    batch: Vec<usize>,
    /// The id for the next new run.
    pub(crate) next_id: i64,
    /// The number for the next request that belongs to no run.
    pub(crate) next_loose: u64,
    /// True if full contents are kept.
    full: bool,
}

/// The result of numbering a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The record has a line.
    Line,
    /// The record is kept without a line: it came after the end of its run, or belongs to none.
    NoLine,
    /// The record repeats a known beginning or end.
    Known,
    /// The event has a reserved name.
    Misnamed,
}

impl Book {
    /// Creates an empty registry. With `full`, full contents are kept.
    pub(crate) fn new(full: bool) -> Self {
        Self { full, ..Self::default() }
    }

    /// Numbers a record of a batch and hands it to the sink. `texts` is the batch's text buffer.
    /// Its line is appended to `text`, if the caller wants lines.
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

    /// Returns the rows that have changed since they were last stored.
    pub(crate) fn changed(&self) -> impl Iterator<Item = &Row> {
        self.batch.iter().filter_map(|place| self.rows.get(*place)).filter(|row| row.changed)
    }

    /// Marks every row as stored. With `all`, runs are stored nowhere else, so that the registry
    /// holds on to as many as possible.
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

    /// Replaces all states with the given ones.
    pub(crate) fn learn(&mut self, rows: HashMap<Arc<str>, Row>) {
        self.forget();
        for (run, row) in rows {
            self.add(run, row);
        }
    }

    /// Adds a run from another database, unless this one has it.
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

    /// Forgets every run. Each is read again when needed.
    pub(crate) fn forget(&mut self) {
        self.rows.clear();
        self.places.clear();
        self.batch.clear();
    }
}

/// Returns the envelope of a request's line.
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

    /// Creates a row for a run of which only the last line is known.
    pub(crate) fn standing(run: &str, next_seq: u64) -> Self {
        Self { next_seq, met: true, new: false, ..Self::new(0, run, 0) }
    }

    /// Returns the end of a run that its process abandoned, with the sums of its last record. The
    /// number of its tool calls is not known.
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

    /// Counts an abandoned request as if it had ended.
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

    /// Adds the usage of a request. A late request does not change the sums that the end stated.
    fn add<T>(&mut self, request: &Request<T>) {
        self.requests += 1;
        if self.end.is_some() {
            return;
        }
        if !self.met {
            // The record of its beginning was lost, or is still to come.
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
