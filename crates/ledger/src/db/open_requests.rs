//! The table of requests that were sent and have not ended.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};
use softland_core::NanoUsd;

use crate::batch::TextSpan;
use crate::columns::Columns;
use crate::record::{Payer, Request};
use crate::sql::to_sql_int;

/// Stores the requests that were sent, and deletes those that have ended (`None`).
pub(super) fn update_table(
    db: &Connection,
    open: &BTreeMap<&str, Option<&Request<TextSpan>>>,
    texts: &str,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO open_requests VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, \
               ?10, ?11, ?12, ?13, ?14, ?15)";
    let mut keep = db.prepare_cached(sql)?;
    let mut forget = db.prepare_cached("DELETE FROM open_requests WHERE request = ?1")?;
    for (id, request) in open {
        let Some(request) = request else {
            forget.execute([id])?;
            continue;
        };
        let texts = request.resolve_texts(|span| span.text_in(texts));
        keep.execute(params![
            id,
            request.run.as_deref(),
            to_sql_int(request.at),
            request.session.as_deref(),
            to_sql_int(request.turn),
            &*request.upstream,
            texts.path,
            request.model.as_deref(),
            texts.rung,
            to_sql_int(request.input),
            to_sql_int(request.output),
            request.cost.map(|cost| to_sql_int(cost.0)),
            texts.remark,
            request.payer.key.as_deref(),
            request.payer.account.as_deref(),
        ])?;
    }
    Ok(())
}

/// The columns that [`read_open_request`] reads, in order.
pub(crate) const OPEN_COLUMNS: &str = "request, run, at, session, turn, upstream, path, model, \
    rung, input, output, cost, remark, key, account";

/// Reads the oldest open requests, at most `most`.
pub(super) fn read_oldest(db: &Connection, most: i64) -> rusqlite::Result<Vec<Request>> {
    let sql = format!("SELECT {OPEN_COLUMNS} FROM open_requests ORDER BY at LIMIT ?1");
    db.prepare(&sql)?.query_map([most], |row| read_open_request(row))?.collect()
}

/// Reads an open request from its [`OPEN_COLUMNS`].
pub(crate) fn read_open_request<R: Columns>(row: &R) -> Result<Request, R::Error> {
    Ok(Request {
        at: row.count(2)?,
        id: row.text(0)?,
        run: row.name(1)?,
        session: row.name(3)?,
        payer: Payer { key: row.name(13)?, account: row.name(14)? },
        turn: row.count(4)?,
        upstream: row.name(5)?.unwrap_or_default(),
        path: row.text(6)?,
        model: row.name(7)?,
        rung: row.optional_text(8)?,
        status: None,
        input: row.count(9)?,
        output: row.count(10)?,
        cache_read: 0,
        cache_write: 0,
        cost: row.optional_count(11)?.map(NanoUsd),
        millis: 0,
        remark: row.optional_text(12)?,
        content: None,
    })
}
