//! Reads opencode's database, and never writes it. A message's parts are fetched one by one, so
//! that only ids of a session are held.

use std::collections::HashMap;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Statement};
use softland_session::core::Digest;

use super::session::MessageInfo;
use super::{KnownMessages, Session};
use crate::claude_code::RecordIds;
use crate::fields::Fields;
use crate::input::{GIVEN_UP, LONGEST};
use crate::step_output::StepOutput;

/// Returns true if a database is opencode's.
pub(crate) fn is_opencode(connection: &Connection) -> rusqlite::Result<bool> {
    let tables = "SELECT count(*) FROM sqlite_master WHERE type = 'table'
                  AND name IN ('session', 'message', 'part')";
    if connection.query_row(tables, [], |row| row.get::<_, i64>(0))? < 3 {
        return Ok(false);
    }
    Ok(connection.prepare("SELECT id, message_id, data FROM part").is_ok()
        && connection.prepare("SELECT id, session_id, time_created, data FROM message").is_ok())
}

/// Reads a database, and lists what is damaged. Returns the ids in it, so that the storage folder
/// from which it was made is not counted again.
pub(crate) fn read_database(
    connection: &Connection,
    out: &mut StepOutput<'_>,
    on: &(dyn Fn() -> bool + Sync),
) -> RecordIds {
    let mut known = KnownMessages::default();
    let (mut list, mut parts) = (Vec::new(), HashMap::new());
    // Databases of early versions may lack this column.
    let parents = "SELECT id, parent_id FROM session WHERE parent_id IS NOT NULL";
    query_rows(connection, parents, &mut |row| {
        known.parents.extend(column_text(row, 0).zip(column_text(row, 1)));
        Ok(())
    })
    .ok();
    query_rows(connection, "SELECT id, directory FROM session", &mut |row| {
        known.folders.extend(column_text(row, 0).zip(column_text(row, 1)));
        Ok(())
    })
    .ok();
    let messages = "SELECT id, session_id, time_created, data FROM message ORDER BY id";
    let read = query_rows(connection, messages, &mut |row| {
        let id = column_text(row, 0).unwrap_or_default();
        let data = column_text(row, 3).ok_or_else(|| format!("message {id}: no `data`"));
        match data
            .and_then(|data| read_message(row, &data).map_err(|why| format!("message {id}: {why}")))
        {
            Ok(message) => list.push((id, message)),
            Err(reason) => out.list_unreadable(None, reason),
        }
        Ok(())
    });
    list_error(out, read);
    known.add_messages(list);
    let read =
        query_rows(connection, "SELECT message_id, rowid FROM part ORDER BY id", &mut |row| {
            if let Some(at) = column_text(row, 0).and_then(|id| known.by_id.get(&id)) {
                parts.entry(*at).or_insert_with(Vec::new).push(row.get(1)?);
            }
            Ok(())
        });
    list_error(out, read);
    let read = emit_sessions(connection, &known, parts, out, on);
    list_error(out, read);
    let messages = known.by_id.keys().map(|id| Digest::from_bytes(id.as_bytes())).collect();
    RecordIds { messages, ..RecordIds::default() }
}

/// Hands on the sessions, one after the other.
fn emit_sessions(
    connection: &Connection,
    known: &KnownMessages,
    mut parts: HashMap<usize, Vec<i64>>,
    out: &mut StepOutput<'_>,
    on: &(dyn Fn() -> bool + Sync),
) -> rusqlite::Result<()> {
    let mut part = connection.prepare("SELECT length(data), data FROM part WHERE rowid = ?")?;
    let mut by_session = known.by_session();
    for message in &known.messages {
        let Some(order) = by_session.remove(message.session.as_str()) else { continue };
        let mut session = known.begin_session(out, message);
        for at in order {
            if !on() {
                out.list_unreadable(None, GIVEN_UP);
                return Ok(());
            }
            let Some(message) = known.messages.get(at) else { continue };
            for row in parts.remove(&at).unwrap_or_default() {
                let taken = read_part(&mut part, row, &mut session, message);
                if let Err(reason) = taken.unwrap_or_else(|error| Err(error.to_string())) {
                    out.list_unreadable(None, format!("row {row} of `part`: {reason}"));
                }
            }
            session.finish_message(out, message);
        }
        out.end_conversation(session.talk);
    }
    Ok(())
}

fn list_error(out: &mut StepOutput<'_>, read: rusqlite::Result<()>) {
    if let Err(error) = read {
        out.list_unreadable(None, error.to_string());
    }
}

/// Calls `take` with every row.
fn query_rows(
    connection: &Connection,
    query: &str,
    take: &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(())
}

/// Returns a column that is a text, whatever its bytes.
fn column_text(row: &Row<'_>, at: usize) -> Option<String> {
    match row.get_ref(at).ok()? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
        _ => None,
    }
}

fn read_message(row: &Row<'_>, data: &str) -> Result<MessageInfo, String> {
    let time = row.get_ref(2).ok().and_then(|time| time.as_i64().ok());
    let time = time.and_then(|time| u64::try_from(time).ok());
    let session = column_text(row, 1).ok_or("it is of no session")?;
    Ok(MessageInfo::from_fields(session, time, &Fields::from_json(data)?))
}

fn read_part(
    part: &mut Statement<'_>,
    row: i64,
    session: &mut Session,
    message: &MessageInfo,
) -> rusqlite::Result<Result<(), String>> {
    let mut rows = part.query([row])?;
    let Some(row) = rows.next()? else { return Ok(Ok(())) };
    if row.get::<_, Option<i64>>(0)?.unwrap_or(0) > LONGEST as i64 {
        return Ok(Err("longer than 64 MiB".to_owned()));
    }
    let Some(data) = column_text(row, 1) else { return Ok(Err("no `data`".to_owned())) };
    Ok(Fields::from_json(&data).map(|data| session.take_part(message.assistant, &data)))
}
