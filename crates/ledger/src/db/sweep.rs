//! Deletion of runs, a few at a time, so that nobody waits long for the file.

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

/// The number of runs, or of requests without a run, that are deleted in one step.
pub(crate) const STEP: usize = 32;

/// The condition for runs whose last record is older than `?1`.
const OLD: &str = "started < ?1 AND last < ?1";
/// The condition for rows of the session `?1` and the key `?2`, each where it is given.
const NAMED: &str = "(?1 IS NULL OR session = ?1) AND (?2 IS NULL OR key = ?2)";

/// Returns the run with this id, if it is there.
pub(crate) fn find_run(db: &Connection, run: &str) -> rusqlite::Result<Vec<String>> {
    select_names(db, "run = ?1", params![run])
}

/// Returns the ids of the runs whose last record is older than `before`.
pub(crate) fn find_old(db: &Connection, before: u64) -> rusqlite::Result<Vec<String>> {
    select_names(db, OLD, params![i64::try_from(before).unwrap_or(i64::MAX)])
}

/// Returns the ids of the runs of this session and of this key, each where it is given.
pub(crate) fn find_of(
    db: &Connection,
    (session, key): (Option<&str>, Option<&str>),
) -> rusqlite::Result<Vec<String>> {
    select_names(db, NAMED, params![session, key])
}

fn select_names(
    db: &Connection,
    condition: &str,
    values: &[&dyn rusqlite::ToSql],
) -> rusqlite::Result<Vec<String>> {
    let mut rows = db.prepare(&format!("SELECT run FROM runs WHERE {condition}"))?;
    rows.query_map(values, |row| row.get(0))?.collect()
}

/// Deletes up to `most` runs, and up to `most` requests without a run, whose last record is older
/// than `before`. Returns the larger of the two numbers.
pub(crate) fn drop_old(db: &Connection, before: u64, most: usize) -> rusqlite::Result<usize> {
    let before = i64::try_from(before).unwrap_or(i64::MAX);
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let old = format!("SELECT id FROM runs WHERE {OLD} ORDER BY started LIMIT ?2");
    // Requests without a run are numbered by time: delete those before the first young one.
    let loose = "SELECT seq FROM requests WHERE run_id = 0 AND seq < coalesce((SELECT min(seq) \
                 FROM requests WHERE run_id = 0 AND at >= ?1), 9223372036854775807) \
                 ORDER BY seq LIMIT ?2";
    // The transaction begins by reading, and takes the write lock only if there is something to
    // delete. If another process has written in between, it fails and is tried again later.
    let transaction = Transaction::new_unchecked(db, TransactionBehavior::Deferred)?;
    let old = select_ids(&transaction, &old, before, limit)?;
    let loose = select_ids(&transaction, loose, before, limit)?;
    for id in &old {
        drop_rows(&transaction, *id)?;
    }
    drop_loose(&transaction, &loose)?;
    transaction.commit()?;
    Ok(old.len().max(loose.len()))
}

/// Deletes up to `most` runs, and up to `most` requests without a run, of this session and of this
/// key, each where it is given. Returns the larger of the two numbers.
pub(crate) fn drop_named(
    db: &Connection,
    (session, key): (Option<&str>, Option<&str>),
    most: usize,
) -> rusqlite::Result<usize> {
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let runs = format!("SELECT id FROM runs WHERE {NAMED} LIMIT ?3");
    let loose = format!("SELECT seq FROM requests WHERE run_id = 0 AND {NAMED} LIMIT ?3");
    let transaction = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    let select = |sql: &str| -> rusqlite::Result<Vec<i64>> {
        let mut rows = transaction.prepare_cached(sql)?;
        rows.query_map(params![session, key, limit], |row| row.get(0))?.collect()
    };
    let (runs, loose) = (select(&runs)?, select(&loose)?);
    for id in &runs {
        drop_rows(&transaction, *id)?;
    }
    drop_loose(&transaction, &loose)?;
    let open = format!("DELETE FROM open_requests WHERE {NAMED}");
    transaction.prepare_cached(&open)?.execute(params![session, key])?;
    transaction.commit()?;
    Ok(runs.len().max(loose.len()))
}

/// Deletes one run by its database id.
pub(crate) fn drop_run(db: &Connection, id: i64) -> rusqlite::Result<()> {
    let transaction = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    drop_rows(&transaction, id)?;
    transaction.commit()
}

fn select_ids(db: &Connection, sql: &str, before: i64, limit: i64) -> rusqlite::Result<Vec<i64>> {
    db.prepare_cached(sql)?.query_map(params![before, limit], |row| row.get(0))?.collect()
}

/// Deletes requests without a run, by their numbers.
fn drop_loose(db: &Connection, loose: &[i64]) -> rusqlite::Result<()> {
    for seq in loose {
        for table in ["requests", "contents"] {
            let sql = format!("DELETE FROM {table} WHERE run_id = 0 AND seq = ?1");
            db.prepare_cached(&sql)?.execute([seq])?;
        }
    }
    Ok(())
}

fn drop_rows(db: &Connection, id: i64) -> rusqlite::Result<()> {
    for table in ["events", "requests", "contents"] {
        let sql = format!("DELETE FROM {table} WHERE run_id = ?1");
        db.prepare_cached(&sql)?.execute([id])?;
    }
    let sql = "DELETE FROM open_requests WHERE run = (SELECT run FROM runs WHERE id = ?1)";
    db.prepare_cached(sql)?.execute([id])?;
    db.prepare_cached("DELETE FROM runs WHERE id = ?1")?.execute([id]).map(drop)
}
