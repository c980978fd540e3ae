//! The writing side: batches in transactions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use softland_postgres::tokio_postgres::Transaction;
use softland_postgres::{BusyConnection, Database, DatabaseError};

use super::client::Client;
use super::delete::delete_old;
use super::place::PostgresPlace;
use super::rows::{LineColumns, RequestColumns, RunColumns};
use super::to_problem;
use crate::batch::{Batch, BatchPart, PackedRecord, TextSpan};
use crate::db;
use crate::fields;
use crate::options::OpenProblem;
use crate::record::Request;
use crate::registry::{NumberedLine, Numbering, RecordSink, RunRegistry, RunRow, is_reserved};
use crate::sql::{Dialect, to_sql_int};
use crate::store::{BatchReport, LedgerStore, StoreFault};

/// The time that a batch may take, a new connection included.
const BATCH_TIME: Duration = Duration::from_secs(10);
/// Begins a transaction whose statements end before [`BATCH_TIME`] does.
const BOUND: &str = "SET LOCAL statement_timeout = 8000";
/// The number of attempts at a batch that the database ends because of another one.
const ATTEMPTS: usize = 8;
/// The most runs, and the most requests, that are ended at a time.
const ABANDONED: i64 = 1000;
/// The lock that one process holds while it ends what others have left open.
const ABANDONED_LOCK: i64 = 4_850_182;

/// A ledger that is open for writing.
#[derive(Debug)]
pub(crate) struct PostgresStore {
    client: Arc<Client>,
    full: bool,
    writer: WriterState,
}

/// What a writer remembers from one batch to the next.
#[derive(Debug)]
struct WriterState {
    /// The name of this writer.
    name: String,
    /// The number of the last batch that was written.
    batch: i64,
    /// The next batch, if it may have been written: its confirmation was lost.
    uncertain: Option<WrittenBatch>,
}

/// A batch in a transaction.
#[derive(Debug, Default)]
struct WrittenBatch {
    report: BatchReport,
    /// Its lines for the event log.
    text: Vec<u8>,
}

impl PostgresStore {
    /// Connects to the database, and makes or checks its tables.
    pub(crate) fn open(place: &PostgresPlace, full: bool) -> Result<Self, OpenProblem> {
        let client = place.client()?;
        let database = Arc::clone(&client.database);
        let connected = client.ask(BATCH_TIME, async move {
            database.get().await?.put_back();
            Ok(())
        });
        connected.map_err(to_problem)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = format!("{}-{since}-{:p}", std::process::id(), &raw const client);
        let writer = WriterState { name, batch: 0, uncertain: None };
        Ok(Self { client, full, writer })
    }
}

impl LedgerStore for PostgresStore {
    fn write_batch(
        &mut self,
        batch: BatchPart<'_>,
        text: &mut Vec<u8>,
        logged: bool,
    ) -> Result<BatchReport, StoreFault> {
        let mut attempt = 0;
        let written = loop {
            attempt += 1;
            let work = self.writer.write(&self.client.database, batch, self.full, logged);
            match self.client.work(BATCH_TIME, work) {
                Ok(written) => break written,
                Err(error) if attempt < ATTEMPTS && error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        };
        self.writer.batch += 1;
        text.extend(written.text);
        Ok(written.report)
    }

    fn sweep_old_runs(&mut self, before: u64) -> Result<bool, StoreFault> {
        let database = &self.client.database;
        let swept = self.client.work(BATCH_TIME, async {
            let mut client = database.get().await?;
            let forget =
                "DELETE FROM softland_ledger_writers WHERE seen < now() - interval '7 days'";
            client.execute(forget, &[]).await?;
            let more = delete_old(&mut client, before).await?;
            client.put_back();
            Ok(more)
        });
        Ok(swept?)
    }

    fn end_abandoned(
        &mut self,
        old: u64,
        text: &mut Vec<u8>,
        logged: bool,
    ) -> Result<(), StoreFault> {
        let (database, full) = (&self.client.database, self.full);
        let ended = self.client.work(BATCH_TIME, async {
            let mut client = database.get().await?;
            let ended = end_abandoned(&mut client, to_sql_int(old), full, logged).await?;
            client.put_back();
            Ok(ended)
        });
        text.extend(ended?.text);
        Ok(())
    }
}

impl WriterState {
    /// Writes a batch, unless an attempt before has written it.
    async fn write(
        &mut self,
        database: &Database,
        batch: BatchPart<'_>,
        full: bool,
        logged: bool,
    ) -> Result<WrittenBatch, DatabaseError> {
        let mut client = database.get().await?;
        let change = client.transaction().await?;
        change.batch_execute(BOUND).await?;
        let number = "INSERT INTO softland_ledger_writers AS w VALUES ($1, $2, now())
            ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, seen = excluded.seen
            WHERE w.batch < excluded.batch";
        let is_new = change.execute(number, &[&self.name, &(self.batch + 1)]).await? > 0;
        let before = self.uncertain.take();
        if !is_new {
            change.rollback().await?;
            client.put_back();
            return Ok(before.unwrap_or_default());
        }
        let written = write_records(&change, batch, full, logged).await?;
        self.uncertain = Some(written);
        change.commit().await?;
        client.put_back();
        Ok(self.uncertain.take().unwrap_or_default())
    }
}

/// Ends the runs that have had no record since `old`, and the requests that were sent before.
async fn end_abandoned(
    client: &mut BusyConnection,
    old: i64,
    full: bool,
    logged: bool,
) -> Result<WrittenBatch, DatabaseError> {
    let tables = Dialect::Postgres.tables();
    let change = client.transaction().await?;
    change.batch_execute(BOUND).await?;
    let lock = "SELECT pg_try_advisory_xact_lock($1)";
    if !change.query_one(lock, &[&ABANDONED_LOCK]).await?.try_get::<_, bool>(0)? {
        return Ok(WrittenBatch::default());
    }
    let bounds = format!("LIMIT {ABANDONED} FOR UPDATE SKIP LOCKED");
    let sql = format!(
        "SELECT {} FROM {} WHERE at < $1 ORDER BY at {bounds}",
        db::OPEN_COLUMNS,
        tables.open_requests
    );
    let requests = change.query(&sql, &[&old]).await?;
    let requests = requests.iter().map(db::read_open_request).collect::<Result<Vec<_>, _>>()?;
    let sql = format!(
        "SELECT {} FROM {} WHERE ended IS NULL AND last < $1 ORDER BY last {bounds}",
        db::COLUMNS,
        tables.runs
    );
    let runs = change.query(&sql, &[&old]).await?;
    let runs = runs.iter().map(db::read_run_row).collect::<Result<Vec<_>, _>>()?;
    let mut batch = Batch::default();
    db::complete_records(runs, requests).into_iter().for_each(|record| batch.push(record));
    let mut written = WrittenBatch::default();
    if !batch.is_empty() {
        tracing::warn!(records = batch.len(), "runs and requests of processes that died are ended");
        written = write_records(&change, batch.first_records(batch.len()), full, logged).await?;
    }
    change.commit().await?;
    Ok(written)
}

/// Numbers records and writes them, within a transaction.
async fn write_records(
    change: &Transaction<'_>,
    batch: BatchPart<'_>,
    full: bool,
    logged: bool,
) -> Result<WrittenBatch, DatabaseError> {
    let mut sink = RowSink::read(change, batch).await?;
    let (mut written, mut book) = (WrittenBatch::default(), RunRegistry::new(full));
    for record in batch.records {
        let text = logged.then_some(&mut written.text);
        match book.number_record(record, batch.texts, &mut sink, text) {
            Ok(Numbering::Misnamed) => written.report.misnamed += 1,
            Ok(Numbering::Line | Numbering::NoLine | Numbering::Known) => {}
            Err(never) => match never {},
        }
    }
    sink.write_rows(change, full).await?;
    write_runs(change, book.changed_rows().collect()).await?;
    Ok(written)
}

/// Writes the runs that a batch has changed.
async fn write_runs(change: &Transaction<'_>, mut rows: Vec<&RunRow>) -> Result<(), DatabaseError> {
    // Several processes that begin the same runs insert them in one order.
    rows.sort_by(|a, b| a.run.cmp(&b.run));
    let (begun, goes_on): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.new);
    let to_json = |rows: Vec<&RunRow>| {
        fields::to_json(&rows.into_iter().map(RunColumns::new).collect::<Vec<_>>())
    };
    if !begun.is_empty() {
        let begun = to_json(begun);
        // A run that another process has begun meanwhile is a conflict: the batch is written again.
        insert_rows(change, Dialect::Postgres.tables().runs, &begun).await?;
    }
    if !goes_on.is_empty() {
        let names = db::COLUMNS.split(", ").map(str::trim).filter(|name| *name != "id");
        let set = names.map(|name| format!("{name} = v.{name}")).collect::<Vec<_>>().join(", ");
        let table = Dialect::Postgres.tables().runs;
        let sql = format!(
            "UPDATE {table} AS r SET {set} FROM \
             json_populate_recordset(NULL::{table}, $1::text::json) AS v WHERE r.id = v.id"
        );
        let statement = change.prepare(&sql).await?;
        change.execute(&statement, &[&to_json(goes_on)]).await?;
    }
    Ok(())
}

/// Inserts rows, which are JSON objects with the names of the columns.
async fn insert_rows(
    change: &Transaction<'_>,
    table: &str,
    rows: &str,
) -> Result<(), DatabaseError> {
    let sql = format!(
        "INSERT INTO {table} SELECT * FROM json_populate_recordset(NULL::{table}, $1::text::json)"
    );
    change.execute(&sql, &[&rows]).await?;
    Ok(())
}

/// The rows of a batch. Records are borrowed from the batch for `'b`.
struct RowSink<'b> {
    texts: &'b str,
    /// The runs that there are, of those that the batch names.
    known: HashMap<Arc<str>, RunRow>,
    /// The ids for new runs.
    ids: std::vec::IntoIter<i64>,
    /// The numbers for requests that belong to no run.
    loose: std::vec::IntoIter<i64>,
    lines: Vec<NumberedLine<'b>>,
    requests: Vec<((i64, i64), &'b Request<TextSpan>)>,
    /// Requests that were sent, by id; `None` for those that have ended.
    open: BTreeMap<&'b str, Option<&'b Request<TextSpan>>>,
}

impl<'b> RowSink<'b> {
    /// Locks and reads the runs of a batch, and gets the numbers that it may need.
    async fn read(change: &Transaction<'_>, batch: BatchPart<'b>) -> Result<Self, DatabaseError> {
        let names: BTreeSet<&str> = batch.records.iter().filter_map(run_of).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let mut known = HashMap::new();
        if !names.is_empty() {
            let sql = format!(
                "SELECT {} FROM {} WHERE run = ANY($1) ORDER BY run FOR UPDATE",
                db::COLUMNS,
                Dialect::Postgres.tables().runs
            );
            for row in change.query(&sql, &[&names]).await? {
                let row = db::read_run_row(&row)?;
                known.insert(Arc::clone(&row.run), row);
            }
        }
        let is_loose =
            |record: &&PackedRecord| matches!(record, PackedRecord::Request(r) if r.run.is_none());
        let loose = batch.records.iter().filter(is_loose).count();
        let ids =
            take_numbers(change, "softland_ledger_run_ids", names.len() - known.len()).await?;
        let loose = take_numbers(change, "softland_ledger_loose_seqs", loose).await?;
        let (ids, loose) = (ids.into_iter(), loose.into_iter());
        let (lines, requests, open) = (Vec::new(), Vec::new(), BTreeMap::new());
        Ok(Self { texts: batch.texts, known, ids, loose, lines, requests, open })
    }

    /// Writes all rows but those of runs.
    async fn write_rows(&self, change: &Transaction<'_>, full: bool) -> Result<(), DatabaseError> {
        let tables = Dialect::Postgres.tables();
        if !self.lines.is_empty() {
            let lines: Vec<_> = self.lines.iter().map(LineColumns::new).collect();
            insert_rows(change, tables.lines, &fields::to_json(&lines)).await?;
        }
        if !self.requests.is_empty() {
            let row = |(place, request): &(_, &'b Request<_>)| {
                RequestColumns::new(*place, request, self.texts)
            };
            let rows: Vec<_> = self.requests.iter().map(row).collect();
            insert_rows(change, tables.requests, &fields::to_json(&rows)).await?;
        }
        if full {
            for ((id, seq), request) in &self.requests {
                let Some(content) = &request.content else { continue };
                let sql = format!("INSERT INTO {} VALUES ($1, $2, $3)", tables.contents);
                change.execute(&sql, &[id, seq, content]).await?;
            }
        }
        self.write_open(change, tables.open_requests).await
    }

    /// Stores the requests that were sent, and deletes those that have ended.
    async fn write_open(&self, change: &Transaction<'_>, table: &str) -> Result<(), DatabaseError> {
        if self.open.is_empty() {
            return Ok(());
        }
        let all: Vec<&str> = self.open.keys().copied().collect();
        change.execute(&format!("DELETE FROM {table} WHERE request = ANY($1)"), &[&all]).await?;
        let sent = self.open.values().flatten();
        let sent = sent.map(|request| RequestColumns::new((0, 0), request, self.texts));
        let sent: Vec<_> = sent.collect();
        if !sent.is_empty() {
            insert_rows(change, table, &fields::to_json(&sent)).await?;
        }
        Ok(())
    }
}

/// Returns the run that a record is kept under, if it is.
fn run_of(record: &PackedRecord) -> Option<&str> {
    match record {
        PackedRecord::RunStart(start) => Some(&start.run),
        PackedRecord::Event(event) => Some(&*event.run).filter(|_| !is_reserved(event.event)),
        PackedRecord::Sent(request) | PackedRecord::Request(request) => request.run.as_deref(),
        PackedRecord::RunEnd(end) => Some(&end.run),
    }
}

/// Takes the next numbers of a sequence.
async fn take_numbers(
    change: &Transaction<'_>,
    sequence: &str,
    count: usize,
) -> Result<Vec<i64>, DatabaseError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let sql = format!("SELECT nextval('{sequence}') FROM generate_series(1, $1::bigint)");
    let rows = change.query(&sql, &[&to_sql_int(count as u64)]).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

impl<'b> RecordSink<'b> for RowSink<'b> {
    type Error = std::convert::Infallible;

    fn find_run(&mut self, run: &str) -> Result<Option<RunRow>, Self::Error> {
        Ok(self.known.remove(run))
    }

    fn new_id(&mut self) -> Option<i64> {
        self.ids.next()
    }

    fn add_event(&mut self, line: NumberedLine<'b>) -> Result<(), Self::Error> {
        self.lines.push(line);
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
    ) -> Result<(), Self::Error> {
        self.open.insert(request.id.text_in(self.texts), None);
        let own = if id == 0 { self.loose.next() } else { None };
        self.requests.push(((id, own.unwrap_or_else(|| to_sql_int(seq))), request));
        Ok(())
    }
}
