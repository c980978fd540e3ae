//! Conversions between values and columns.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};
use softland_core::NanoUsd;

use crate::columns::Columns;
use crate::fields::{self, Envelope};
use crate::log::LineId;
use crate::record::{Payer, Request};
use crate::registry::{RowEnd, RunRow, usage_envelope};
use crate::sql::to_sql_int;

/// The columns that [`read_run_row`] reads, in order.
pub(crate) const COLUMNS: &str = "id, run, session, agent, continues, model, policy, client, \
    started, last, met, next_seq, turns, tool_calls, requests, input, output, cache_read, \
    cache_write, cost, unpriced, ended, end_seq, outcome, reason, local, ending, \
    name, observed, key, account";

/// Puts SQL around the columns of a run.
pub(crate) fn run_sql(before: &str, after: &str) -> String {
    [before, COLUMNS, after].concat()
}

/// Reads a run from its [`COLUMNS`].
pub(crate) fn read_run_row<R: Columns>(row: &R) -> Result<RunRow, R::Error> {
    let end = match row.optional_count(21)? {
        None => None,
        Some(at) => Some(RowEnd {
            at,
            seq: row.count(22)?,
            outcome: row.text(23)?,
            reason: row.text(24)?,
            local: row.flag(25)?,
            ended: row.text(26)?,
        }),
    };
    Ok(RunRow {
        id: row.optional_int(0)?.unwrap_or(0),
        run: row.name(1)?.unwrap_or_default(),
        session: row.name(2)?,
        agent: row.name(3)?,
        continues: row.name(4)?,
        model: row.name(5)?,
        policy: row.optional_text(6)?,
        client: row.optional_text(7)?,
        started: row.count(8)?,
        last: row.count(9)?,
        met: row.flag(10)?,
        next_seq: row.count(11)?,
        turns: row.count(12)?,
        tool_calls: row.optional_count(13)?,
        requests: row.count(14)?,
        input: row.count(15)?,
        output: row.count(16)?,
        cache_read: row.count(17)?,
        cache_write: row.count(18)?,
        cost: row.optional_count(19)?,
        unpriced: row.count(20)?,
        end,
        name: row.name(27)?,
        observed: row.flag(28)?,
        payer: Payer { key: row.name(29)?, account: row.name(30)? },
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

/// The columns that [`read_request_line`] reads, in order.
pub(crate) const REQUEST_COLUMNS: &str = "seq, at, request, session, turn, upstream, path, model, \
    rung, status, input, output, cache_read, cache_write, cost, ms, remark, key, account";

/// Reads the lines of a run in order, starting at the number with which a batch began.
pub(crate) fn read_lines(db: &Connection, id: i64, from: u64) -> rusqlite::Result<Vec<StoredLine>> {
    // No row holds lines of two batches.
    let sql = "SELECT seq, at, turn, event, fields FROM lines WHERE run_id = ?1 AND row >= ?2";
    let mut events = db.prepare_cached(sql)?;
    let events = events.query_map(params![id, to_sql_int(from)], |row| read_stored_line(row))?;
    let mut lines = events.collect::<rusqlite::Result<Vec<_>>>()?;
    let sql = format!("SELECT {REQUEST_COLUMNS} FROM requests WHERE run_id = ?1 AND seq >= ?2");
    let mut requests = db.prepare_cached(&sql)?;
    let requests =
        requests.query_map(params![id, to_sql_int(from)], |row| read_request_line(row))?;
    for line in requests {
        lines.push(line?);
    }
    lines.sort_by_key(|line| line.seq);
    Ok(lines)
}

/// Reads a line from `seq, at, turn, event, fields`.
pub(crate) fn read_stored_line<R: Columns>(row: &R) -> Result<StoredLine, R::Error> {
    Ok(StoredLine {
        seq: row.count(0)?,
        at: row.count(1)?,
        turn: row.count(2)?,
        event: row.text(3)?,
        fields: row.text(4)?,
    })
}

/// Reads a request's line from its [`REQUEST_COLUMNS`].
pub(crate) fn read_request_line<R: Columns>(row: &R) -> Result<StoredLine, R::Error> {
    let request = read_request(row)?;
    let line = usage_envelope("", row.count(0)?, &request);
    let event = line.event.to_owned();
    let fields = fields::usage_fields(&request, request.resolve_texts(String::as_str));
    Ok(StoredLine { seq: line.seq, at: line.at, turn: line.turn, event, fields })
}

fn read_request<R: Columns>(row: &R) -> Result<Request, R::Error> {
    Ok(Request {
        at: row.count(1)?,
        id: row.text(2)?,
        run: None,
        session: row.name(3)?,
        payer: Payer { key: row.name(17)?, account: row.name(18)? },
        turn: row.count(4)?,
        upstream: row.name(5)?.unwrap_or_default(),
        path: row.text(6)?,
        model: row.name(7)?,
        rung: row.optional_text(8)?,
        status: row.optional_count(9)?.map(|status| u16::try_from(status).unwrap_or(u16::MAX)),
        input: row.count(10)?,
        output: row.count(11)?,
        cache_read: row.count(12)?,
        cache_write: row.count(13)?,
        cost: row.optional_count(14)?.map(NanoUsd),
        millis: row.count(15)?,
        remark: row.optional_text(16)?,
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
        let Some(row) = db.query_row(&sql, [id], |row| read_run_row(row)).optional()? else {
            continue;
        };
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
