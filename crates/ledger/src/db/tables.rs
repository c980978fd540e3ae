//! The sink for a batch: rows are gathered while records are numbered, and then written, several
//! with one statement.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};
use softland_core::Digest;

use super::bind::Bound;
use super::rows::{row_of, run_sql};
use super::{open, share};
use crate::batch::Span;
use crate::book::{Line, Row, Sink};
use crate::record::{Request, Texts};

static EVENTS: LazyLock<Table> = LazyLock::new(|| Table::new("events", 6, 8));
/// Few rows per statement: a request mostly repeats the values of the one before, and these stay
/// bound if they are at the same place of the statement.
static REQUESTS: LazyLock<Table> = LazyLock::new(|| Table::new("requests", 20, 4));
static RUNS: LazyLock<Table> = LazyLock::new(|| Table::new("runs", 29, 1));

/// `run` and `started` have indexes and never change.
const CHANGED: &str = "UPDATE runs SET session = ?3, agent = ?4, continues = ?5, model = ?6, \
    policy = ?7, client = ?8, last = ?10, met = ?11, next_seq = ?12, turns = ?13, \
    tool_calls = ?14, requests = ?15, input = ?16, output = ?17, cache_read = ?18, \
    cache_write = ?19, cost = ?20, unpriced = ?21, ended = ?22, end_seq = ?23, outcome = ?24, \
    reason = ?25, local = ?26, ending = ?27, name = ?28, observed = ?29 \
    WHERE id = ?1 AND run = ?2 AND started = ?9";

/// The columns that change while a run is open. The condition excludes a run that was deleted, and
/// another run that has its id now. Other processes' writes are noticed under the lock before a
/// batch, so that comparing `started` is enough, and costs next to nothing.
const GOES_ON: &str = "UPDATE runs SET last = ?3, next_seq = ?4, turns = ?5, requests = ?6, \
    input = ?7, output = ?8, cache_read = ?9, cache_write = ?10, cost = ?11, unpriced = ?12 \
    WHERE id = ?1 AND started = ?2";

/// The tables within a transaction. Records are borrowed from the batch for `'b`.
pub(crate) struct Tables<'a, 'b> {
    db: &'a Connection,
    full: bool,
    /// The text buffer of the batch.
    texts: &'b str,
    /// The first number of each run in this batch.
    pub(crate) first: BTreeMap<i64, u64>,
    found: Option<CachedStatement<'a>>,
    events: Vec<Line<'b>>,
    requests: Vec<(i64, u64, &'b Request<Span>)>,
    /// Requests that were sent, by id; `None` for those that have ended.
    open: BTreeMap<&'b str, Option<&'b Request<Span>>>,
}

impl<'a, 'b> Tables<'a, 'b> {
    /// Creates an empty sink. With `full`, full contents are kept.
    pub(crate) fn new(db: &'a Connection, full: bool, texts: &'b str) -> Self {
        let (first, events, requests) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { db, full, texts, first, found: None, events, requests, open: BTreeMap::new() }
    }

    /// Writes the gathered rows, and the runs that have changed.
    pub(crate) fn write<'r>(
        &mut self,
        runs: impl Iterator<Item = &'r Row>,
    ) -> rusqlite::Result<()> {
        // Sorted in the order of their tables: inserting next to the row before is fast.
        self.events.sort_unstable_by_key(|line| (line.id, line.seq));
        self.requests.sort_unstable_by_key(|(id, seq, _)| (*id, *seq));
        EVENTS.insert(self.db, share::rows(self.events.drain(..)), bind_line)?;
        let texts = self.texts;
        REQUESTS.insert(self.db, self.requests.iter().copied(), |to, before, row| {
            bind_request(to, before, row, texts)
        })?;
        open::write(self.db, &self.open, texts)?;
        if self.full {
            self.write_contents()?;
        }
        self.write_runs(runs)
    }

    fn write_runs<'r>(&self, runs: impl Iterator<Item = &'r Row>) -> rusqlite::Result<()> {
        let (mut begun, mut changed, mut goes_on) = (None, None, None);
        for row in runs {
            let statement = if row.new {
                bound(&mut begun, self.db, &RUNS.sql_of_one)?
            } else if row.whole {
                bound(&mut changed, self.db, CHANGED)?
            } else {
                bound(&mut goes_on, self.db, GOES_ON)?
            };
            let bind = if row.new || row.whole { bind_run } else { bind_counts };
            bind(statement, row)?;
            statement.execute()?;
        }
        Ok(())
    }

    fn write_contents(&self) -> rusqlite::Result<()> {
        for (id, seq, request) in &self.requests {
            let Some(content) = &request.content else { continue };
            let sql = "INSERT INTO contents VALUES (?1, ?2, ?3)";
            let seq = i64::try_from(*seq).unwrap_or(i64::MAX);
            self.db.prepare_cached(sql)?.execute(params![id, seq, content])?;
        }
        Ok(())
    }
}

impl<'b> Sink<'b> for Tables<'_, 'b> {
    type Error = rusqlite::Error;

    fn find(&mut self, run: &str) -> rusqlite::Result<Option<Row>> {
        static SQL: LazyLock<String> =
            LazyLock::new(|| run_sql("SELECT ", " FROM runs WHERE run = ?1"));
        let found = match &mut self.found {
            Some(found) => found,
            None => self.found.insert(self.db.prepare_cached(&SQL)?),
        };
        found.query_row([run], row_of).optional()
    }

    fn event(&mut self, line: Line<'b>) -> rusqlite::Result<()> {
        self.first.entry(line.id).or_insert(line.seq);
        self.events.push(line);
        Ok(())
    }

    fn sent(&mut self, request: &'b Request<Span>) {
        self.open.insert(request.id.of(self.texts), Some(request));
    }

    fn request(&mut self, id: i64, seq: u64, request: &'b Request<Span>) -> rusqlite::Result<()> {
        if id != 0 {
            self.first.entry(id).or_insert(seq);
        }
        self.open.insert(request.id.of(self.texts), None);
        self.requests.push((id, seq, request));
        Ok(())
    }
}

/// A table into which whole rows are inserted.
struct Table {
    columns: usize,
    /// The number of rows in the longer statement.
    many: usize,
    sql_of_many: String,
    sql_of_one: String,
}

impl Table {
    /// Prepares the statements. A refused row makes the whole batch fail, hence `OR FAIL`: by
    /// default SQLite copies every page that a statement of several rows changes, to be able to
    /// undo it.
    fn new(name: &str, columns: usize, many: usize) -> Self {
        let row = format!("({})", vec!["?"; columns].join(", "));
        let sql =
            |rows| format!("INSERT OR FAIL INTO {name} VALUES {}", vec![&*row; rows].join(", "));
        Self { columns, many, sql_of_many: sql(many), sql_of_one: sql(1) }
    }

    /// Inserts rows. `bind` binds one row, behind the given number of parameters.
    fn insert<'b, T>(
        &self,
        db: &Connection,
        rows: impl IntoIterator<Item = T>,
        bind: impl Fn(&mut Bound<'_, 'b>, usize, &T) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let mut rows = rows.into_iter();
        let mut chunk = Vec::with_capacity(self.many);
        let mut many = None;
        loop {
            chunk.extend(rows.by_ref().take(self.many));
            if chunk.len() < self.many {
                break;
            }
            let many = bound(&mut many, db, &self.sql_of_many)?;
            for (place, row) in chunk.iter().enumerate() {
                bind(many, place * self.columns, row)?;
            }
            many.execute()?;
            chunk.clear();
        }
        let mut one = None;
        for row in &chunk {
            let one = bound(&mut one, db, &self.sql_of_one)?;
            bind(one, 0, row)?;
            one.execute()?;
        }
        Ok(())
    }
}

/// Returns the statement, which is prepared when the batch first needs it.
fn bound<'s, 'a, 'b>(
    statement: &'s mut Option<Bound<'a, 'b>>,
    db: &'a Connection,
    sql: &str,
) -> rusqlite::Result<&'s mut Bound<'a, 'b>> {
    match statement {
        Some(bound) => Ok(bound),
        None => Ok(statement.insert(Bound::new(db, sql)?)),
    }
}

fn bind_line<'b>(to: &mut Bound<'_, 'b>, before: usize, line: &Line<'_>) -> rusqlite::Result<()> {
    to.id(before + 1, line.id)?;
    to.int(before + 2, line.seq)?;
    to.int(before + 3, line.at)?;
    to.int(before + 4, line.turn)?;
    to.text(before + 5, line.event)?;
    to.own_text(before + 6, &line.fields)
}

fn bind_request<'b>(
    to: &mut Bound<'_, 'b>,
    before: usize,
    (id, seq, request): &(i64, u64, &'b Request<Span>),
    texts: &'b str,
) -> rusqlite::Result<()> {
    let Texts { id: named, path, rung, remark } = request.texts(|span| span.of(texts));
    to.id(before + 1, *id)?;
    to.int(before + 2, *seq)?;
    to.int(before + 3, request.at)?;
    to.own_text(before + 4, named)?;
    to.text(before + 5, request.session.as_deref())?;
    to.int(before + 6, request.turn)?;
    to.text(before + 7, &*request.upstream)?;
    to.text(before + 8, path)?;
    to.text(before + 9, request.model.as_deref())?;
    to.text(before + 10, rung)?;
    to.int(before + 11, request.status.map(u64::from))?;
    to.int(before + 12, request.input)?;
    to.int(before + 13, request.output)?;
    to.int(before + 14, request.cache_read)?;
    to.int(before + 15, request.cache_write)?;
    to.int(before + 16, request.cost.map(|cost| cost.0))?;
    to.int(before + 17, request.millis)?;
    to.text(before + 18, remark)?;
    match &request.content {
        Some(content) => to.own_text(before + 19, &Digest::of(content).to_string())?,
        None => to.text(before + 19, None)?,
    }
    to.int(before + 20, request.content.as_ref().map(|content| content.len() as u64))
}

/// Binds all columns of a run, for the statement that inserts it or the one that updates it.
fn bind_run<'b>(to: &mut Bound<'_, 'b>, row: &'b Row) -> rusqlite::Result<()> {
    let end = row.end.as_ref();
    to.id(1, row.id)?;
    to.text(2, &*row.run)?;
    to.text(3, row.session.as_deref())?;
    to.text(4, row.agent.as_deref())?;
    to.text(5, row.continues.as_deref())?;
    to.text(6, row.model.as_deref())?;
    to.text(7, row.policy.as_deref())?;
    to.text(8, row.client.as_deref())?;
    to.int(9, row.started)?;
    to.int(10, row.last)?;
    to.int(11, u64::from(row.met))?;
    to.int(12, row.next_seq)?;
    to.int(13, row.turns)?;
    to.int(14, row.tool_calls)?;
    to.int(15, row.requests)?;
    to.int(16, row.input)?;
    to.int(17, row.output)?;
    to.int(18, row.cache_read)?;
    to.int(19, row.cache_write)?;
    to.int(20, row.cost)?;
    to.int(21, row.unpriced)?;
    to.int(22, end.map(|end| end.at))?;
    to.int(23, end.map(|end| end.seq))?;
    to.text(24, end.map(|end| end.outcome.as_str()))?;
    to.text(25, end.map(|end| end.reason.as_str()))?;
    to.int(26, end.map(|end| u64::from(end.local)))?;
    to.text(27, end.map(|end| end.ended.as_str()))?;
    to.text(28, row.name.as_deref())?;
    to.int(29, u64::from(row.observed))
}

/// Binds the columns that [`GOES_ON`] changes.
fn bind_counts<'b>(to: &mut Bound<'_, 'b>, row: &'b Row) -> rusqlite::Result<()> {
    to.id(1, row.id)?;
    to.int(2, row.started)?;
    to.int(3, row.last)?;
    to.int(4, row.next_seq)?;
    to.int(5, row.turns)?;
    to.int(6, row.requests)?;
    to.int(7, row.input)?;
    to.int(8, row.output)?;
    to.int(9, row.cache_read)?;
    to.int(10, row.cache_write)?;
    to.int(11, row.cost)?;
    to.int(12, row.unpriced)
}
