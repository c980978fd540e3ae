//! The table of requests that were sent and have not ended.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};
use softland_core::NanoUsd;

use super::rows::to_sql_int;
use crate::batch::TextSpan;
use crate::record::{Payer, Request};

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

/// Reads the oldest open requests, at most `most`.
pub(super) fn read_oldest(db: &Connection, most: i64) -> rusqlite::Result<Vec<Request>> {
    let sql = "SELECT request, run, at, session, turn, upstream, path, model, rung, input, output, \
               cost, remark, key, account FROM open_requests ORDER BY at LIMIT ?1";
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let request = |row: &rusqlite::Row<'_>| {
        Ok(Request {
            at: count(row.get(2)?),
            id: row.get(0)?,
            run: row.get(1)?,
            session: row.get(3)?,
            payer: Payer { key: row.get(13)?, account: row.get(14)? },
            turn: count(row.get(4)?),
            upstream: row.get(5)?,
            path: row.get(6)?,
            model: row.get(7)?,
            rung: row.get(8)?,
            status: None,
            input: count(row.get(9)?),
            output: count(row.get(10)?),
            cache_read: 0,
            cache_write: 0,
            cost: row.get::<_, Option<i64>>(11)?.map(|cost| NanoUsd(count(cost))),
            millis: 0,
            remark: row.get(12)?,
            content: None,
        })
    };
    db.prepare(sql)?.query_map([most], request)?.collect()
}
