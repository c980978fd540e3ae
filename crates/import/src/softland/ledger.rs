//! A ledger, only read: nothing is written beside it.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row};

use super::{Event, Run};
use crate::fields::Fields;
use crate::input::GIVEN_UP;
use crate::out::Out;

/// What is read of a ledger, run by run in the order in which they began, each in order.
const EVENTS: &str = "
    SELECT r.run, r.session, r.agent, r.model, e.at, e.turn, e.event, e.fields, r.id, e.seq,
           NULL, NULL, NULL, NULL, NULL, NULL
      FROM runs r JOIN events e ON e.run_id = r.id
    UNION ALL
    SELECT r.run, r.session, r.agent, r.model, q.at, q.turn, 'usage', NULL, r.id, q.seq,
           q.input, q.output, q.cache_read, q.cache_write, q.cost, q.model
      FROM runs r JOIN requests q ON q.run_id = r.id
    ORDER BY 9, 10";

/// Whether whoever asked still wants to know.
type On<'o> = &'o (dyn Fn() -> bool + Sync);

/// "soft", in SQLite's field for telling applications apart.
const APPLICATION: i64 = 0x736f_6674;

/// Reads a ledger; false where the database is another program's.
pub(crate) fn read(path: &Path, out: &mut Out<'_>, on: On<'_>) -> bool {
    let shared = beside(path, "-shm");
    let (log, there) = (beside(path, "-wal"), shared.exists());
    let waiting = std::fs::metadata(&log).is_ok_and(|log| log.len() > 0);
    let read = if waiting {
        let read = open(path, false).and_then(|connection| ours(&connection, out, on));
        if !there {
            // Made by reading; whoever writes the ledger would have made it before.
            let _ = std::fs::remove_file(&shared);
        }
        read.or_else(|_| {
            out.unreadable(None, "what is in its -wal file was not read");
            open(path, true).and_then(|connection| ours(&connection, out, on))
        })
    } else {
        open(path, true).and_then(|connection| ours(&connection, out, on))
    };
    if matches!(read, Ok(false)) {
        out.unreadable(None, "a SQLite file that is no ledger");
    }
    read.unwrap_or_else(|error| {
        let damaged = error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase);
        let reason = if damaged { "no SQLite file".to_owned() } else { error.to_string() };
        out.unreadable(None, reason);
        !damaged
    })
}

fn ours(connection: &Connection, out: &mut Out<'_>, on: On<'_>) -> rusqlite::Result<bool> {
    let found: i64 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if found == APPLICATION {
        runs(connection, out, on)?;
    }
    Ok(found == APPLICATION)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// `still`: nobody writes it, so that no lock and no file beside it is needed.
fn open(path: &Path, still: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if !still {
        return Connection::open_with_flags(path, flags);
    }
    let mut uri = String::from("file:");
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for byte in absolute.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
}

fn runs(connection: &Connection, out: &mut Out<'_>, on: On<'_>) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(EVENTS)?;
    let mut rows = statement.query([])?;
    let mut open: Option<(String, Run)> = None;
    while let Some(row) = rows.next()? {
        if !on() {
            out.unreadable(None, GIVEN_UP);
            break;
        }
        let name: String = row.get(0)?;
        if open.as_ref().is_none_or(|(known, _)| *known != name) {
            if let Some((_, mut run)) = open.take() {
                run.end(out);
            }
            open = Some((name.clone(), begin(row, &name, out)?));
        }
        let Some((_, run)) = &mut open else { continue };
        let event: String = row.get(6)?;
        let text = match row.get::<_, Option<String>>(7)? {
            Some(fields) => fields,
            None => usage(row)?,
        };
        let at = u64::try_from(row.get::<_, i64>(4)?).ok();
        let turn = u64::try_from(row.get::<_, i64>(5)?).unwrap_or(0);
        match Fields::of(&text) {
            Ok(fields) if event != "run_start" => {
                run.event(out, &name, &Event { event: &event, turn, at, line: None }, &fields);
            }
            Ok(_) => {}
            Err(reason) => out.unreadable(None, format!("an event of {name}: {reason}")),
        }
    }
    if let Some((_, mut run)) = open {
        run.end(out);
    }
    Ok(())
}

fn begin(row: &Row<'_>, name: &str, out: &mut Out<'_>) -> rusqlite::Result<Run> {
    let mut run = Run { model: row.get(3)?, ..Run::default() };
    let (session, agent): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
    run.talk(out, name, session.as_deref(), agent.as_deref(), None);
    Ok(run)
}

/// A request's numbers, as its event line has them.
fn usage(row: &Row<'_>) -> rusqlite::Result<String> {
    let count = |at: usize| row.get::<_, Option<i64>>(at).map(|count| count.unwrap_or(0).max(0));
    let (input, output, read, written) = (count(10)?, count(11)?, count(12)?, count(13)?);
    let cost: Option<i64> = row.get(14)?;
    let cost =
        cost.map_or_else(|| "null".to_owned(), |nano| format!("{}", nano.max(0) as f64 / 1e9));
    let mut text = format!(
        r#"{{"input":{input},"output":{output},"cache_read":{read},"cache_write":{written},"cost_usd":{cost}"#
    )
    .into_bytes();
    if let Some(model) = row.get::<_, Option<String>>(15)? {
        text.extend_from_slice(b",\"model\":");
        softland_session::wire::json::write_str(&mut text, &model);
    }
    text.push(b'}');
    Ok(String::from_utf8(text).unwrap_or_default())
}
