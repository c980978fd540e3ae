//! Conversions between values and columns.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow, params};
use softland_core::NanoUsd;

use crate::book::{End, Row, usage_line};
use crate::fields::{self, Envelope};
use crate::log::Place;
use crate::record::Request;

/// The columns that [`read_run_row`] reads, in order.
pub(crate) const COLUMNS: &str = "id, run, session, agent, continues, model, policy, client, \
    started, last, met, next_seq, turns, tool_calls, requests, input, output, cache_read, \
    cache_write, cost, unpriced, ended, end_seq, outcome, reason, local, ending, \
    name, observed";

/// Converts an integer for SQLite. A number too large becomes SQLite's largest.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn count(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(at).map(|number| u64::try_from(number).unwrap_or(0))
}

fn maybe(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<Option<u64>> {
    let number = row.get::<_, Option<i64>>(at)?;
    Ok(number.map(|number| u64::try_from(number).unwrap_or(0)))
}

/// Puts SQL around the columns of a run.
pub(crate) fn run_sql(before: &str, after: &str) -> String {
    [before, COLUMNS, after].concat()
}

/// Reads a run from its [`COLUMNS`].
pub(crate) fn row_of(row: &SqlRow<'_>) -> rusqlite::Result<Row> {
    let end = match maybe(row, 21)? {
        None => None,
        Some(at) => Some(End {
            at,
            seq: count(row, 22)?,
            outcome: row.get(23)?,
            reason: row.get(24)?,
            local: row.get(25)?,
            ended: row.get(26)?,
        }),
    };
    Ok(Row {
        id: row.get(0)?,
        run: row.get(1)?,
        session: row.get(2)?,
        agent: row.get(3)?,
        continues: row.get(4)?,
        model: row.get(5)?,
        policy: row.get(6)?,
        client: row.get(7)?,
        started: count(row, 8)?,
        last: count(row, 9)?,
        met: row.get(10)?,
        next_seq: count(row, 11)?,
        turns: count(row, 12)?,
        tool_calls: maybe(row, 13)?,
        requests: count(row, 14)?,
        input: count(row, 15)?,
        output: count(row, 16)?,
        cache_read: count(row, 17)?,
        cache_write: count(row, 18)?,
        cost: maybe(row, 19)?,
        unpriced: count(row, 20)?,
        end,
        name: row.get(27)?,
        observed: row.get(28)?,
        changed: false,
        whole: false,
        new: false,
        in_batch: false,
    })
}

/// One stored line of a run.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) seq: u64,
    pub(crate) at: u64,
    pub(crate) turn: u64,
    pub(crate) event: String,
    pub(crate) fields: String,
}

/// Reads the lines of a run in order, starting at the number with which a batch began.
pub(crate) fn lines(db: &Connection, id: i64, from: u64) -> rusqlite::Result<Vec<Kept>> {
    // No row holds lines of two batches.
    let sql = "SELECT seq, at, turn, event, fields FROM lines WHERE run_id = ?1 AND row >= ?2";
    let mut events = db.prepare_cached(sql)?;
    let events = events.query_map(params![id, int(from)], |row| {
        Ok(Kept {
            seq: count(row, 0)?,
            at: count(row, 1)?,
            turn: count(row, 2)?,
            event: row.get(3)?,
            fields: row.get(4)?,
        })
    })?;
    let mut lines = events.collect::<rusqlite::Result<Vec<_>>>()?;
    let sql = "SELECT seq, at, request, session, turn, upstream, path, model, rung, status, \
               input, output, cache_read, cache_write, cost, ms, remark \
               FROM requests WHERE run_id = ?1 AND seq >= ?2";
    let mut requests = db.prepare_cached(sql)?;
    let requests = requests.query_map(params![id, int(from)], |row| {
        let request = request_of(row)?;
        let line = usage_line("", count(row, 0)?, &request);
        let event = line.event.to_owned();
        let fields = fields::of_request(&request, request.texts(String::as_str));
        Ok(Kept { seq: line.seq, at: line.at, turn: line.turn, event, fields })
    })?;
    for line in requests {
        lines.push(line?);
    }
    lines.sort_by_key(|line| line.seq);
    Ok(lines)
}

fn request_of(row: &SqlRow<'_>) -> rusqlite::Result<Request> {
    Ok(Request {
        at: count(row, 1)?,
        id: row.get(2)?,
        run: None,
        session: row.get(3)?,
        turn: count(row, 4)?,
        upstream: row.get(5)?,
        path: row.get(6)?,
        model: row.get(7)?,
        rung: row.get(8)?,
        status: row.get(9)?,
        input: count(row, 10)?,
        output: count(row, 11)?,
        cache_read: count(row, 12)?,
        cache_write: count(row, 13)?,
        cost: maybe(row, 14)?.map(NanoUsd),
        millis: count(row, 15)?,
        remark: row.get(16)?,
        content: None,
    })
}

/// Notes the first number of each run of a batch. An empty map means that every line is logged.
pub(crate) fn note_unlogged(db: &Connection, first: &BTreeMap<i64, u64>) -> rusqlite::Result<()> {
    let sql = "UPDATE unlogged SET runs = ?1 WHERE runs <> ?1";
    db.prepare_cached(sql)?.execute([fields::json(first)]).map(drop)
}

/// Reads the lines of the last batch, each with its text.
pub(crate) fn unlogged(db: &Connection) -> rusqlite::Result<Vec<(Place, Vec<u8>)>> {
    let noted: String = db.query_row("SELECT runs FROM unlogged", [], |row| row.get(0))?;
    let first: BTreeMap<i64, u64> = serde_json::from_str(&noted).unwrap_or_default();
    let mut found = Vec::new();
    for (id, from) in first {
        let sql = run_sql("SELECT ", " FROM runs WHERE id = ?1");
        let Some(row) = db.query_row(&sql, [id], row_of).optional()? else { continue };
        let last = row.end.as_ref().map_or(u64::MAX, |end| end.seq);
        for kept in lines(db, id, from)?.iter().filter(|kept| kept.seq <= last) {
            let mut text = Vec::new();
            fields::line(&mut text, &kept.envelope(&row.run), &kept.fields);
            found.push(((row.run.clone(), kept.seq), text));
        }
    }
    Ok(found)
}

impl Kept {
    pub(crate) fn envelope<'a>(&'a self, run: &'a str) -> Envelope<'a> {
        Envelope { seq: self.seq, at: self.at, run, turn: self.turn, event: &self.event }
    }
}
