//! opencode's database, only read. A message's parts are fetched one by one, so that of a session
//! nothing is kept but ids.

use std::collections::HashMap;

use rusqlite::{Connection, Statement};
use softland_session::core::Digest;

use super::session::Message;
use super::{Known, Session};
use crate::claude_code::Ids;
use crate::fields::Fields;
use crate::input::{GIVEN_UP, LONGEST};
use crate::out::Out;

/// Whether a database is opencode's.
pub(crate) fn is_its(connection: &Connection) -> rusqlite::Result<bool> {
    let tables = "SELECT count(*) FROM sqlite_master WHERE type = 'table'
                  AND name IN ('session', 'message', 'part')";
    if connection.query_row(tables, [], |row| row.get::<_, i64>(0))? < 3 {
        return Ok(false);
    }
    Ok(connection.prepare("SELECT id, message_id, data FROM part").is_ok()
        && connection.prepare("SELECT id, session_id, time_created, data FROM message").is_ok())
}

/// Reads a database; what it holds, so that the storage it was made from is not counted once more.
pub(crate) fn read(
    connection: &Connection,
    out: &mut Out<'_>,
    on: &(dyn Fn() -> bool + Sync),
) -> rusqlite::Result<Ids> {
    let mut known = Known::default();
    sessions(connection, &mut known)?;
    messages(connection, &mut known, out)?;
    let mut parts = parts(connection, &known)?;
    let mut part = connection.prepare("SELECT length(data), data FROM part WHERE rowid = ?")?;
    let mut by_session = known.by_session();
    for message in &known.messages {
        let Some(order) = by_session.remove(message.session.as_str()) else { continue };
        let mut session = known.begin(out, message);
        for at in order {
            if !on() {
                out.unreadable(None, GIVEN_UP);
                return Ok(ids(&known));
            }
            let Some(message) = known.messages.get(at) else { continue };
            for row in parts.remove(&at).unwrap_or_default() {
                if let Err(reason) = take(&mut part, row, &mut session, message)? {
                    out.unreadable(None, format!("part {row} of its table: {reason}"));
                }
            }
            session.over(out, message);
        }
        out.end(session.talk);
    }
    Ok(ids(&known))
}

fn ids(known: &Known) -> Ids {
    let messages = known.by_id.keys().map(|id| Digest::of(id.as_bytes())).collect();
    Ids { messages, ..Ids::default() }
}

fn sessions(connection: &Connection, known: &mut Known) -> rusqlite::Result<()> {
    // Databases of early versions may lack it.
    let Ok(mut statement) =
        connection.prepare("SELECT id, parent_id FROM session WHERE parent_id IS NOT NULL")
    else {
        return Ok(());
    };
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        known.parents.insert(row.get(0)?, row.get(1)?);
    }
    Ok(())
}

fn messages(connection: &Connection, known: &mut Known, out: &mut Out<'_>) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare("SELECT id, session_id, time_created, data FROM message ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut list = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let time = u64::try_from(row.get::<_, Option<i64>>(2)?.unwrap_or(-1)).ok();
        let data = row.get_ref(3)?.as_bytes_or_null()?.unwrap_or_default();
        let data = String::from_utf8_lossy(data);
        match Fields::of(&data) {
            Ok(data) => list.push((id, Message::of(row.get(1)?, time, &data))),
            Err(reason) => out.unreadable(None, format!("message {id}: {reason}")),
        }
    }
    known.take(list);
    Ok(())
}

/// Where the parts of each message are, in their order.
fn parts(connection: &Connection, known: &Known) -> rusqlite::Result<HashMap<usize, Vec<i64>>> {
    let mut statement = connection.prepare("SELECT message_id, rowid FROM part ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut parts: HashMap<usize, Vec<i64>> = HashMap::new();
    while let Some(row) = rows.next()? {
        if let Some(at) = known.by_id.get(row.get_ref(0)?.as_str()?) {
            parts.entry(*at).or_default().push(row.get(1)?);
        }
    }
    Ok(parts)
}

fn take(
    part: &mut Statement<'_>,
    row: i64,
    session: &mut Session,
    message: &Message,
) -> rusqlite::Result<Result<(), String>> {
    let mut rows = part.query([row])?;
    let Some(row) = rows.next()? else { return Ok(Ok(())) };
    if row.get::<_, Option<i64>>(0)?.unwrap_or(0) > LONGEST as i64 {
        return Ok(Err("longer than 64 MiB".to_owned()));
    }
    let data = String::from_utf8_lossy(row.get_ref(1)?.as_bytes_or_null()?.unwrap_or_default());
    Ok(Fields::of(&data).map(|data| session.part(message.assistant, &data)))
}
