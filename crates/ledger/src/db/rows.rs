//! Conversions between values and columns.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow, params};
use softland_core::NanoUsd;

use crate::fields::{self, Envelope};
use crate::log::LineId;
use crate::record::{Payer, Request};
use crate::registry::{RowEnd, RunRow, usage_envelope};

/// The columns that [`read_run_row`] reads, in order.
pub(crate) const COLUMNS: &str = "id, run, session, agent, continues, model, policy, client, \
    started, last, met, next_seq, turns, tool_calls, requests, input, output, cache_read, \
    cache_write, cost, unpriced, ended, end_seq, outcome, reason, local, ending, \
    name, observed, key, account";

/// Converts an integer for SQLite. A number too large becomes SQLite's largest.
pub(super) fn to_sql_int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn read_count(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(at).map(|number| u64::try_from(number).unwrap_or(0))
}

fn read_optional_count(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<Option<u64>> {
    let number = row.get::<_, Option<i64>>(at)?;
    Ok(number.map(|number| u64::try_from(number).unwrap_or(0)))
}

/// Puts SQL around the columns of a run.
pub(crate) fn run_sql(before: &str, after: &str) -> String {
    [before, COLUMNS, after].concat()
}

/// Reads a run from its [`COLUMNS`].
pub(crate) fn read_run_row(row: &SqlRow<'_>) -> rusqlite::Result<RunRow> {
    let end = match read_optional_count(row, 21)? {
        None => None,
        Some(at) => Some(RowEnd {
            at,
            seq: read_count(row, 22)?,
            outcome: row.get(23)?,
            reason: row.get(24)?,
            local: row.get(25)?,
            ended: row.get(26)?,
        }),
    };
    Ok(RunRow {
        id: row.get(0)?,
        run: row.get(1)?,
        session: row.get(2)?,
        agent: row.get(3)?,
        continues: row.get(4)?,
        model: row.get(5)?,
        policy: row.get(6)?,
        client: row.get(7)?,
        started: read_count(row, 8)?,
        last: read_count(row, 9)?,
        met: row.get(10)?,
        next_seq: read_count(row, 11)?,
        turns: read_count(row, 12)?,
        tool_calls: read_optional_count(row, 13)?,
        requests: read_count(row, 14)?,
        input: read_count(row, 15)?,
        output: read_count(row, 16)?,
        cache_read: read_count(row, 17)?,
        cache_write: read_count(row, 18)?,
        cost: read_optional_count(row, 19)?,
        unpriced: read_count(row, 20)?,
        end,
        name: row.get(27)?,
        observed: row.get(28)?,
        payer: Payer { key: row.get(29)?, account: row.get(30)? },
        changed: false,
        whole: false,
        new: false,
        in_batch: false,
    })
}

/// One stored line of a run.
#[derive(Clone, Debug)]
pub(crate) struct StoredLine {
    pub(crate) seq: u64,
    pub(crate) at: u64,
    pub(crate) turn: u64,
    pub(crate) event: String,
    pub(crate) fields: String,
}

/// Reads the lines of a run in order, starting at the number with which a batch began.
pub(crate) fn read_lines(db: &Connection, id: i64, from: u64) -> rusqlite::Result<Vec<StoredLine>> {
    // No row holds lines of two batches.
    let sql = "SELECT seq, at, turn, event, fields FROM lines WHERE run_id = ?1 AND row >= ?2";
    let mut events = db.prepare_cached(sql)?;
    let events = events.query_map(params![id, to_sql_int(from)], |row| {
        Ok(StoredLine {
            seq: read_count(row, 0)?,
            at: read_count(row, 1)?,
            turn: read_count(row, 2)?,
            event: row.get(3)?,
            fields: row.get(4)?,
        })
    })?;
    let mut lines = events.collect::<rusqlite::Result<Vec<_>>>()?;
    let sql = "SELECT seq, at, request, session, turn, upstream, path, model, rung, status, \
               input, output, cache_read, cache_write, cost, ms, remark, key, account \
               FROM requests WHERE run_id = ?1 AND seq >= ?2";
    let mut requests = db.prepare_cached(sql)?;
    let requests = requests.query_map(params![id, to_sql_int(from)], |row| {
        let request = read_request(row)?;
        let line = usage_envelope("", read_count(row, 0)?, &request);
        let event = line.event.to_owned();
        let fields = fields::usage_fields(&request, request.resolve_texts(String::as_str));
        Ok(StoredLine { seq: line.seq, at: line.at, turn: line.turn, event, fields })
    })?;
    for line in requests {
        lines.push(line?);
    }
    lines.sort_by_key(|line| line.seq);
    Ok(lines)
}

fn read_request(row: &SqlRow<'_>) -> rusqlite::Result<Request> {
    Ok(Request {
        at: read_count(row, 1)?,
        id: row.get(2)?,
        run: None,
        session: row.get(3)?,
        payer: Payer { key: row.get(17)?, account: row.get(18)? },
        turn: read_count(row, 4)?,
        upstream: row.get(5)?,
        path: row.get(6)?,
        model: row.get(7)?,
        rung: row.get(8)?,
        status: row.get(9)?,
        input: read_count(row, 10)?,
        output: read_count(row, 11)?,
        cache_read: read_count(row, 12)?,
        cache_write: read_count(row, 13)?,
        cost: read_optional_count(row, 14)?.map(NanoUsd),
        millis: read_count(row, 15)?,
        remark: row.get(16)?,
        content: None,
    })
}

/// Notes the first number of each run of a batch. An empty map means that every line is logged.
pub(crate) fn note_unlogged(db: &Connection, first: &BTreeMap<i64, u64>) -> rusqlite::Result<()> {
    let sql = "UPDATE unlogged SET runs = ?1 WHERE runs <> ?1";
    db.prepare_cached(sql)?.execute([fields::to_json(first)]).map(drop)
}

/// Reads the lines of the last batch, each with its text.
pub(crate) fn unlogged_lines(db: &Connection) -> rusqlite::Result<Vec<(LineId, Vec<u8>)>> {
    let noted: String = db.query_row("SELECT runs FROM unlogged", [], |row| row.get(0))?;
    let first: BTreeMap<i64, u64> = serde_json::from_str(&noted).unwrap_or_default();
    let mut found = Vec::new();
    for (id, from) in first {
        let sql = run_sql("SELECT ", " FROM runs WHERE id = ?1");
        let Some(row) = db.query_row(&sql, [id], read_run_row).optional()? else { continue };
        let last = row.end.as_ref().map_or(u64::MAX, |end| end.seq);
        for kept in read_lines(db, id, from)?.iter().filter(|kept| kept.seq <= last) {
            let mut text = Vec::new();
            fields::write_line(&mut text, &kept.to_envelope(&row.run), &kept.fields);
            found.push(((row.run.clone(), kept.seq), text));
        }
    }
    Ok(found)
}

impl StoredLine {
    pub(crate) fn to_envelope<'a>(&'a self, run: &'a str) -> Envelope<'a> {
        Envelope { seq: self.seq, at: self.at, run, turn: self.turn, event: &self.event }
    }
}
