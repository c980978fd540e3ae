//! The sink for a batch: rows are gathered while records are numbered, and then written, several
//! with one statement.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};
use softland_core::Digest;

use super::bind::BoundStatement;
use super::rows::{read_run_row, run_sql};
use super::{open_requests, shared_rows};
use crate::batch::TextSpan;
use crate::record::{Request, RequestTexts};
use crate::registry::{NumberedLine, RecordSink, RunRow};

static EVENTS: LazyLock<Table> = LazyLock::new(|| Table::new("events", 6, 8));
/// Few rows per statement: a request mostly repeats the values of the one before, and these stay
/// bound if they are at the same place of the statement.
static REQUESTS: LazyLock<Table> = LazyLock::new(|| Table::new("requests", 22, 4));
static RUNS: LazyLock<Table> = LazyLock::new(|| Table::new("runs", 31, 1));

/// `run` and `started` have indexes and never change.
const CHANGED: &str = "UPDATE runs SET session = ?3, agent = ?4, continues = ?5, model = ?6, \
    policy = ?7, client = ?8, last = ?10, met = ?11, next_seq = ?12, turns = ?13, \
    tool_calls = ?14, requests = ?15, input = ?16, output = ?17, cache_read = ?18, \
    cache_write = ?19, cost = ?20, unpriced = ?21, ended = ?22, end_seq = ?23, outcome = ?24, \
    reason = ?25, local = ?26, ending = ?27, name = ?28, observed = ?29, key = ?30, \
    account = ?31 \
    WHERE id = ?1 AND run = ?2 AND started = ?9";

/// The columns that change while a run is open. The condition excludes a run that was deleted, and
/// another run that has its id now. Other processes' writes are noticed under the lock before a
/// batch, so that comparing `started` is enough, and costs next to nothing.
const GOES_ON: &str = "UPDATE runs SET last = ?3, next_seq = ?4, turns = ?5, requests = ?6, \
    input = ?7, output = ?8, cache_read = ?9, cache_write = ?10, cost = ?11, unpriced = ?12 \
    WHERE id = ?1 AND started = ?2";

/// The tables within a transaction. Records are borrowed from the batch for `'b`.
pub(crate) struct TableSink<'a, 'b> {
    db: &'a Connection,
    full: bool,
    /// The text buffer of the batch.
    texts: &'b str,
    /// The first number of each run in this batch.
    pub(crate) first: BTreeMap<i64, u64>,
    found: Option<CachedStatement<'a>>,
    events: Vec<NumberedLine<'b>>,
    requests: Vec<(i64, u64, &'b Request<TextSpan>)>,
    /// Requests that were sent, by id; `None` for those that have ended.
    open: BTreeMap<&'b str, Option<&'b Request<TextSpan>>>,
}

impl<'a, 'b> TableSink<'a, 'b> {
    /// Creates an empty sink. With `full`, full contents are kept.
    pub(crate) fn new(db: &'a Connection, full: bool, texts: &'b str) -> Self {
        let (first, events, requests) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { db, full, texts, first, found: None, events, requests, open: BTreeMap::new() }
    }

    /// Writes the gathered rows, and the runs that have changed.
    pub(crate) fn write_rows<'r>(
        &mut self,
        runs: impl Iterator<Item = &'r RunRow>,
    ) -> rusqlite::Result<()> {
        // Sorted in the order of their tables: inserting next to the row before is fast.
        self.events.sort_unstable_by_key(|line| (line.id, line.seq));
        self.requests.sort_unstable_by_key(|(id, seq, _)| (*id, *seq));
        EVENTS.insert_rows(self.db, shared_rows::pack_rows(self.events.drain(..)), bind_line)?;
        let texts = self.texts;
        REQUESTS.insert_rows(self.db, self.requests.iter().copied(), |to, before, row| {
            bind_request(to, before, row, texts)
        })?;
        open_requests::update_table(self.db, &self.open, texts)?;
        if self.full {
            self.write_contents()?;
        }
        self.write_runs(runs)
    }

    fn write_runs<'r>(&self, runs: impl Iterator<Item = &'r RunRow>) -> rusqlite::Result<()> {
        let (mut begun, mut changed, mut goes_on) = (None, None, None);
        for row in runs {
            let statement = if row.new {
                get_or_prepare(&mut begun, self.db, &RUNS.sql_of_one)?
            } else if row.whole {
                get_or_prepare(&mut changed, self.db, CHANGED)?
            } else {
                get_or_prepare(&mut goes_on, self.db, GOES_ON)?
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

impl<'b> RecordSink<'b> for TableSink<'_, 'b> {
    type Error = rusqlite::Error;

    fn find_run(&mut self, run: &str) -> rusqlite::Result<Option<RunRow>> {
        static SQL: LazyLock<String> =
            LazyLock::new(|| run_sql("SELECT ", " FROM runs WHERE run = ?1"));
        let found = match &mut self.found {
            Some(found) => found,
            None => self.found.insert(self.db.prepare_cached(&SQL)?),
        };
        found.query_row([run], |row| read_run_row(row)).optional()
    }

    fn add_event(&mut self, line: NumberedLine<'b>) -> rusqlite::Result<()> {
        self.first.entry(line.id).or_insert(line.seq);
        self.events.push(line);
        Ok(())
    }

    fn add_sent(&mut self, request: &'b Request<TextSpan>) {
        self.open.insert(request.id.text_in(self.texts), Some(request));
    }

    fn add_request(
        &mut self,
        id: i64,
        seq: u64,
        request: &'b Request<TextSpan>,
    ) -> rusqlite::Result<()> {
        if id != 0 {
            self.first.entry(id).or_insert(seq);
        }
        self.open.insert(request.id.text_in(self.texts), None);
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
    fn insert_rows<'b, T>(
        &self,
        db: &Connection,
        rows: impl IntoIterator<Item = T>,
        bind: impl Fn(&mut BoundStatement<'_, 'b>, usize, &T) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let mut rows = rows.into_iter();
        let mut chunk = Vec::with_capacity(self.many);
        let mut many = None;
        loop {
            chunk.extend(rows.by_ref().take(self.many));
            if chunk.len() < self.many {
                break;
            }
            let many = get_or_prepare(&mut many, db, &self.sql_of_many)?;
            for (place, row) in chunk.iter().enumerate() {
                bind(many, place * self.columns, row)?;
            }
            many.execute()?;
            chunk.clear();
        }
        let mut one = None;
        for row in &chunk {
            let one = get_or_prepare(&mut one, db, &self.sql_of_one)?;
            bind(one, 0, row)?;
            one.execute()?;
        }
        Ok(())
    }
}

/// Returns the statement, which is prepared when the batch first needs it.
fn get_or_prepare<'s, 'a, 'b>(
    statement: &'s mut Option<BoundStatement<'a, 'b>>,
    db: &'a Connection,
    sql: &str,
) -> rusqlite::Result<&'s mut BoundStatement<'a, 'b>> {
    match statement {
        Some(bound) => Ok(bound),
        None => Ok(statement.insert(BoundStatement::new(db, sql)?)),
    }
}

fn bind_line<'b>(
    to: &mut BoundStatement<'_, 'b>,
    before: usize,
    line: &NumberedLine<'_>,
) -> rusqlite::Result<()> {
    to.bind_id(before + 1, line.id)?;
    to.bind_int(before + 2, line.seq)?;
    to.bind_int(before + 3, line.at)?;
    to.bind_int(before + 4, line.turn)?;
    to.bind_text(before + 5, line.event)?;
    to.bind_unique_text(before + 6, &line.fields)
}

fn bind_request<'b>(
    to: &mut BoundStatement<'_, 'b>,
    before: usize,
    (id, seq, request): &(i64, u64, &'b Request<TextSpan>),
    texts: &'b str,
) -> rusqlite::Result<()> {
    let RequestTexts { id: named, path, rung, remark } =
        request.resolve_texts(|span| span.text_in(texts));
    to.bind_id(before + 1, *id)?;
    to.bind_int(before + 2, *seq)?;
    to.bind_int(before + 3, request.at)?;
    to.bind_unique_text(before + 4, named)?;
    to.bind_text(before + 5, request.session.as_deref())?;
    to.bind_int(before + 6, request.turn)?;
    to.bind_text(before + 7, &*request.upstream)?;
    to.bind_text(before + 8, path)?;
    to.bind_text(before + 9, request.model.as_deref())?;
    to.bind_text(before + 10, rung)?;
    to.bind_int(before + 11, request.status.map(u64::from))?;
    to.bind_int(before + 12, request.input)?;
    to.bind_int(before + 13, request.output)?;
    to.bind_int(before + 14, request.cache_read)?;
    to.bind_int(before + 15, request.cache_write)?;
    to.bind_int(before + 16, request.cost.map(|cost| cost.0))?;
    to.bind_int(before + 17, request.millis)?;
    to.bind_text(before + 18, remark)?;
    match &request.content {
        Some(content) => {
            to.bind_unique_text(before + 19, &Digest::from_bytes(content).to_string())?
        }
        None => to.bind_text(before + 19, None)?,
    }
    to.bind_int(before + 20, request.content.as_ref().map(|content| content.len() as u64))?;
    to.bind_text(before + 21, request.payer.key.as_deref())?;
    to.bind_text(before + 22, request.payer.account.as_deref())
}

/// Binds all columns of a run, for the statement that inserts it or the one that updates it.
fn bind_run<'b>(to: &mut BoundStatement<'_, 'b>, row: &'b RunRow) -> rusqlite::Result<()> {
    let end = row.end.as_ref();
    to.bind_id(1, row.id)?;
    to.bind_text(2, &*row.run)?;
    to.bind_text(3, row.session.as_deref())?;
    to.bind_text(4, row.agent.as_deref())?;
    to.bind_text(5, row.continues.as_deref())?;
    to.bind_text(6, row.model.as_deref())?;
    to.bind_text(7, row.policy.as_deref())?;
    to.bind_text(8, row.client.as_deref())?;
    to.bind_int(9, row.started)?;
    to.bind_int(10, row.last)?;
    to.bind_int(11, u64::from(row.met))?;
    to.bind_int(12, row.next_seq)?;
    to.bind_int(13, row.turns)?;
    to.bind_int(14, row.tool_calls)?;
    to.bind_int(15, row.requests)?;
    to.bind_int(16, row.input)?;
    to.bind_int(17, row.output)?;
    to.bind_int(18, row.cache_read)?;
    to.bind_int(19, row.cache_write)?;
    to.bind_int(20, row.cost)?;
    to.bind_int(21, row.unpriced)?;
    to.bind_int(22, end.map(|end| end.at))?;
    to.bind_int(23, end.map(|end| end.seq))?;
    to.bind_text(24, end.map(|end| end.outcome.as_str()))?;
    to.bind_text(25, end.map(|end| end.reason.as_str()))?;
    to.bind_int(26, end.map(|end| u64::from(end.local)))?;
    to.bind_text(27, end.map(|end| end.ended.as_str()))?;
    to.bind_text(28, row.name.as_deref())?;
    to.bind_int(29, u64::from(row.observed))?;
    to.bind_text(30, row.payer.key.as_deref())?;
    to.bind_text(31, row.payer.account.as_deref())
}

/// Binds the columns that [`GOES_ON`] changes.
fn bind_counts<'b>(to: &mut BoundStatement<'_, 'b>, row: &'b RunRow) -> rusqlite::Result<()> {
    to.bind_id(1, row.id)?;
    to.bind_int(2, row.started)?;
    to.bind_int(3, row.last)?;
    to.bind_int(4, row.next_seq)?;
    to.bind_int(5, row.turns)?;
    to.bind_int(6, row.requests)?;
    to.bind_int(7, row.input)?;
    to.bind_int(8, row.output)?;
    to.bind_int(9, row.cache_read)?;
    to.bind_int(10, row.cache_write)?;
    to.bind_int(11, row.cost)?;
    to.bind_int(12, row.unpriced)
}
