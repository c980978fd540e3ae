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
use softland_core::{NanoUsd, Outcome, Reason, RunEnding};

use crate::batch::{PackedRecord, TextSpan};
use crate::fields::{self, Envelope};
use crate::record::{Event, Payer, Request, RunEnd, RunOwner, RunStart};

/// The number of runs that are remembered between batches.
const REMEMBERED: usize = 4096;

/// The event name of rows that hold several lines.
pub(crate) const LINES: &str = "lines";

/// Event names that a [`Record::Event`](crate::record::Record::Event) may not have: those of other
/// records, and [`LINES`].
const RESERVED: [&str; 4] = ["run_start", "done", "error", LINES];

/// A destination for numbered records, which are borrowed for `'b`.
pub(crate) trait RecordSink<'b> {
    /// The error of a failed write.
    type Error;

    /// Returns the stored state of a run.
    fn find_run(&mut self, run: &str) -> Result<Option<RunRow>, Self::Error>;

    /// Returns the id for a new run; `None` if the registry counts them.
    fn new_id(&mut self) -> Option<i64> {
        None
    }

    /// Takes one line of a run that is not a request.
    fn add_event(&mut self, line: NumberedLine<'b>) -> Result<(), Self::Error>;

    /// Takes a request that has not ended.
    fn add_sent(&mut self, request: &'b Request<TextSpan>);

    /// Takes a request that has ended. The id is 0 for a request that belongs to no run.
    fn add_request(
        &mut self,
        id: i64,
        seq: u64,
        request: &'b Request<TextSpan>,
    ) -> Result<(), Self::Error>;
}

/// A numbered line that is not a request, of the run with this id.
#[derive(Debug)]
pub(crate) struct NumberedLine<'b> {
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
pub(crate) struct RunRow {
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
    pub(crate) payer: Payer,
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
    pub(crate) end: Option<RowEnd>,
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
pub(crate) struct RowEnd {
    pub(crate) at: u64,
    /// The number of its last line.
    pub(crate) seq: u64,
    pub(crate) outcome: String,
    pub(crate) reason: String,
    pub(crate) local: bool,
    /// [`softland_core::RunEnding`] as JSON.
    pub(crate) ended: String,
}

/// The states of recent runs.
#[derive(Debug, Default)]
pub(crate) struct RunRegistry {
    rows: Vec<RunRow>,
    /// The index of each run in `rows`.
    places: HashMap<Arc<str>, usize, RandomState>,
    /// The indexes of the rows in the current batch, each once. There may be thousands of others.
    batch: Vec<usize>,
    /// The id for the next new run.
    pub(crate) next_id: i64,
    /// The number for the next request that belongs to no run.
    pub(crate) next_runless: u64,
    /// True if full contents are kept.
    full: bool,
}

/// The result of numbering a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// The record has a line.
    Line,
    /// The record is kept without a line: it came after the end of its run, or belongs to none.
    NoLine,
    /// The record repeats a known beginning or end.
    Known,
    /// The event has a reserved name.
    Misnamed,
}

impl RunRegistry {
    /// Creates an empty registry. With `full`, full contents are kept.
    pub(crate) fn new(full: bool) -> Self {
        Self { full, ..Self::default() }
    }

    /// Numbers a record of a batch and hands it to the sink. `texts` is the batch's text buffer.
    /// Its line is appended to `text`, if the caller wants lines.
    pub(crate) fn number_record<'b, S: RecordSink<'b>>(
        &mut self,
        record: &'b PackedRecord,
        texts: &'b str,
        sink: &mut S,
        text: Option<&mut Vec<u8>>,
    ) -> Result<Numbering, S::Error> {
        let full = self.full;
        match record {
            PackedRecord::RunStart(start) => {
                let row = self.find_or_create(&start.run, start.at, sink)?;
                if row.met {
                    return Ok(Numbering::Known);
                }
                row.apply_start(start);
                number_event(
                    row,
                    (start.at, 0, "run_start"),
                    fields::start_fields(start),
                    sink,
                    text,
                )
            }
            PackedRecord::Event(event) if is_reserved(event.event) => Ok(Numbering::Misnamed),
            PackedRecord::Event(event) => {
                let row = self.find_or_create(&event.run, event.at, sink)?;
                row.note_activity(event.at, event.turn);
                let Event { at, turn, event, fields, .. } = *event;
                let fields = fields::event_fields(event, fields.text_in(texts), full);
                number_event(row, (at, turn, event), fields, sink, text)
            }
            PackedRecord::Sent(request) => {
                if let Some(run) = &request.run {
                    self.find_or_create(run, request.at, sink)?.note_sent(request);
                }
                sink.add_sent(request);
                Ok(Numbering::NoLine)
            }
            PackedRecord::Request(request) => self.number_request(request, texts, sink, text),
            PackedRecord::RunEnd(end) => {
                let row = self.find_or_create(&end.run, end.at, sink)?;
                if row.end.is_some() {
                    return Ok(Numbering::Known);
                }
                let RunOwner { session, model, payer } = &end.owner;
                row.note_owner(session.as_ref(), model.as_ref(), payer);
                let name = fields::last_event_name(&end.ended);
                let fields = fields::end_fields(end, full);
                let taken = number_event(row, (end.at, end.turns, name), fields, sink, text)?;
                row.apply_end(end);
                Ok(taken)
            }
        }
    }

    fn number_request<'b, S: RecordSink<'b>>(
        &mut self,
        request: &'b Request<TextSpan>,
        texts: &str,
        sink: &mut S,
        text: Option<&mut Vec<u8>>,
    ) -> Result<Numbering, S::Error> {
        let Some(run) = &request.run else {
            sink.add_request(0, self.next_runless, request)?;
            self.next_runless += 1;
            return Ok(Numbering::NoLine);
        };
        let row = self.find_or_create(run, request.at, sink)?;
        row.note_activity(request.at, request.turn);
        row.add_usage(request);
        let seq = row.take_number();
        sink.add_request(row.id, seq, request)?;
        if row.end.is_some() {
            return Ok(Numbering::NoLine);
        }
        if let Some(text) = text {
            let envelope = usage_envelope(run, seq, request);
            let fields =
                fields::usage_fields(request, request.resolve_texts(|span| span.text_in(texts)));
            fields::write_line(text, &envelope, &fields);
        }
        Ok(Numbering::Line)
    }

    fn find_or_create<'b, S: RecordSink<'b>>(
        &mut self,
        run: &str,
        at: u64,
        sink: &mut S,
    ) -> Result<&mut RunRow, S::Error> {
        let place = match self.places.get(run) {
            Some(place) => *place,
            None => {
                let row = match sink.find_run(run)? {
                    Some(row) => row,
                    None => {
                        let id = sink.new_id().unwrap_or_else(|| {
                            self.next_id += 1;
                            self.next_id - 1
                        });
                        RunRow::new(id, run, at)
                    }
                };
                self.insert_row(Arc::clone(&row.run), row)
            }
        };
        let row = &mut self.rows[place];
        if !mem::replace(&mut row.in_batch, true) {
            self.batch.push(place);
        }
        Ok(row)
    }

    fn insert_row(&mut self, run: Arc<str>, row: RunRow) -> usize {
        let place = self.rows.len();
        self.rows.push(row);
        self.places.insert(run, place);
        place
    }

    /// Returns the rows that have changed since they were last stored.
    pub(crate) fn changed_rows(&self) -> impl Iterator<Item = &RunRow> {
        self.batch.iter().filter_map(|place| self.rows.get(*place)).filter(|row| row.changed)
    }

    /// Marks every row as stored. With `all`, runs are stored nowhere else, so that the registry
    /// holds on to as many as possible.
    pub(crate) fn mark_stored(&mut self, all: bool) {
        for place in self.batch.drain(..) {
            if let Some(row) = self.rows.get_mut(place) {
                (row.changed, row.whole, row.new, row.in_batch) = (false, false, false, false);
            }
        }
        let most = if all { REMEMBERED * 16 } else { REMEMBERED };
        if self.rows.len() > most {
            let (mut rows, places) = (mem::take(&mut self.rows), mem::take(&mut self.places));
            let open = |row: &&mut RunRow| row.end.is_none();
            for (run, place) in places {
                if let Some(row) = rows.get_mut(place).filter(open) {
                    self.insert_row(run, mem::take(row));
                }
            }
        }
        if self.rows.len() > most {
            self.forget_runs();
        }
    }

    /// Replaces all states with the given ones.
    pub(crate) fn load_rows(&mut self, rows: HashMap<Arc<str>, RunRow>) {
        self.forget_runs();
        for (run, row) in rows {
            self.insert_row(run, row);
        }
    }

    /// Adds a run from another database, unless this one has it.
    pub(crate) fn adopt_run<'b, S: RecordSink<'b>>(
        &mut self,
        row: RunRow,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if self.places.contains_key(&row.run) || sink.find_run(&row.run)?.is_some() {
            return Ok(());
        }
        self.next_id += 1;
        let id = self.next_id - 1;
        self.insert_row(row.run.clone(), RunRow { id, new: true, ..row });
        Ok(())
    }

    /// Forgets every run. Each is read again when needed.
    pub(crate) fn forget_runs(&mut self) {
        self.rows.clear();
        self.places.clear();
        self.batch.clear();
    }
}

/// Returns true for a name that an event may not have.
pub(crate) fn is_reserved(event: &str) -> bool {
    RESERVED.contains(&event)
}

/// Returns the envelope of a request's line.
pub(crate) fn usage_envelope<'a, T>(run: &'a str, seq: u64, request: &Request<T>) -> Envelope<'a> {
    Envelope { seq, at: request.at, run, turn: request.turn, event: "usage" }
}

fn number_event<'b, S: RecordSink<'b>>(
    row: &mut RunRow,
    (at, turn, event): (u64, u64, &'static str),
    fields: impl Into<Cow<'b, str>>,
    sink: &mut S,
    text: Option<&mut Vec<u8>>,
) -> Result<Numbering, S::Error> {
    let (seq, fields) = (row.take_number(), fields.into());
    let taken = if row.end.is_some() { Numbering::NoLine } else { Numbering::Line };
    if let Some(text) = text.filter(|_| taken == Numbering::Line) {
        let envelope = Envelope { seq, at, run: &row.run, turn, event };
        fields::write_line(text, &envelope, &fields);
    }
    sink.add_event(NumberedLine { id: row.id, seq, at, turn, event, fields })?;
    Ok(taken)
}

impl RunRow {
    fn new(id: i64, run: &str, at: u64) -> Self {
        let run = Arc::from(run);
        Self { id, run, started: at, last: at, cost: Some(0), new: true, ..Self::default() }
    }

    /// Creates a row for a run of which only the last line is known.
    pub(crate) fn with_next_seq(run: &str, next_seq: u64) -> Self {
        Self { next_seq, met: true, new: false, ..Self::new(0, run, 0) }
    }

    /// Returns the end of a run that its process abandoned, with the sums of its last record. The
    /// number of its tool calls is not known.
    pub(crate) fn into_abandoned_end(self) -> RunEnd {
        RunEnd {
            at: self.last,
            ended: RunEnding::without_limit(Outcome::Cancelled, Reason::User),
            local: false,
            answer: None,
            turns: self.turns,
            tool_calls: None,
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            cost: self.cost.filter(|_| self.unpriced == 0).map(NanoUsd),
            owner: RunOwner { session: self.session, model: self.model, payer: self.payer },
            run: self.run,
        }
    }

    fn take_number(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.changed = true;
        seq
    }

    /// Counts an abandoned request as if it had ended.
    pub(crate) fn add_abandoned(&mut self, request: &Request) {
        self.note_activity(request.at, request.turn);
        self.add_usage(request);
    }

    fn note_activity(&mut self, at: u64, turn: u64) {
        self.last = self.last.max(at);
        if self.end.is_none() {
            self.turns = self.turns.max(turn);
        }
    }

    fn apply_start(&mut self, start: &RunStart) {
        (self.met, self.whole) = (true, true);
        self.note_activity(start.at, 0);
        self.session = Some(start.session.clone());
        self.agent = start.agent.clone();
        self.name = start.name.clone();
        self.observed = start.observed;
        self.continues = start.continues.clone();
        self.model = Some(start.model.clone());
        self.policy = Some(start.policy.clone());
        self.client = start.client.clone();
        self.payer = start.payer.clone();
    }

    /// Adds the usage of a request. A late request does not change the sums that the end stated.
    fn add_usage<T>(&mut self, request: &Request<T>) {
        self.requests += 1;
        if self.end.is_some() {
            return;
        }
        self.note_owner(request.session.as_ref(), request.model.as_ref(), &request.payer);
        self.input = self.input.saturating_add(request.input);
        self.output = self.output.saturating_add(request.output);
        self.cache_read = self.cache_read.saturating_add(request.cache_read);
        self.cache_write = self.cache_write.saturating_add(request.cache_write);
        match request.cost {
            Some(cost) => self.cost = Some(self.cost.unwrap_or(0).saturating_add(cost.0)),
            None => self.unpriced += 1,
        }
    }

    /// Notes whose request is sent.
    fn note_sent<T>(&mut self, request: &Request<T>) {
        self.changed |= !self.met;
        self.note_owner(request.session.as_ref(), request.model.as_ref(), &request.payer);
    }

    /// Notes whose run it is, if the record of its beginning was lost or deleted, or is still to come.
    fn note_owner(&mut self, session: Option<&Arc<str>>, model: Option<&Arc<str>>, payer: &Payer) {
        if self.met {
            return;
        }
        self.whole = true;
        self.session = self.session.take().or_else(|| session.cloned());
        self.model = self.model.take().or_else(|| model.cloned());
        if self.payer == Payer::default() {
            self.payer = payer.clone();
        }
    }

    fn apply_end(&mut self, end: &RunEnd) {
        self.whole = true;
        self.note_activity(end.at, end.turns);
        self.turns = end.turns;
        self.tool_calls = end.tool_calls;
        (self.input, self.output) = (end.input, end.output);
        (self.cache_read, self.cache_write) = (end.cache_read, end.cache_write);
        self.cost = end.cost.map(|cost| cost.0);
        self.end = Some(RowEnd {
            at: end.at,
            seq: self.next_seq.saturating_sub(1),
            outcome: end.ended.outcome.word().to_owned(),
            reason: end.ended.reason.to_string(),
            local: end.local,
            ended: fields::to_json(&end.ended),
        });
    }
}
