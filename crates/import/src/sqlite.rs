//! Reads SQLite files and recognizes their kind. Nothing is written beside them.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use rusqlite::{Connection, OpenFlags};
use tempfile::NamedTempFile;

use crate::claude_code::RecordIds;
use crate::input;
use crate::step_output::StepOutput;
use crate::{goose, opencode, softland};

/// The most bytes that a compressed database may unpack to: the size it claims is not trusted with
/// the whole disk.
const MOST: u64 = 8 << 30;

/// A check that returns false once the caller has given up.
type ContinueCheck<'o> = &'o (dyn Fn() -> bool + Sync);

/// The program that a database belongs to.
pub(crate) enum DatabaseOwner {
    Softland,
    /// opencode's, with the ids in it.
    OpenCode(RecordIds),
    Goose,
    Others,
}

/// Unpacks a compressed database into a temporary file, which is removed with the returned value.
pub(crate) fn unpack_database(path: &Path, on: ContinueCheck<'_>) -> io::Result<NamedTempFile> {
    let counted = AtomicU64::new(0);
    let (inner, _) = input::open_file(path, &counted, on)?;
    let mut file = NamedTempFile::new()?;
    if io::copy(&mut inner.take(MOST + 1), &mut file)? > MOST {
        return Err(io::Error::other("it unpacks to more than 8 GiB"));
    }
    Ok(file)
}

/// Reads a database.
pub(crate) fn read_database(
    path: &Path,
    out: &mut StepOutput<'_>,
    on: ContinueCheck<'_>,
) -> DatabaseOwner {
    let shared = sibling_path(path, "-shm");
    let (log, there) = (sibling_path(path, "-wal"), shared.exists());
    let waiting = std::fs::metadata(&log).is_ok_and(|log| log.len() > 0);
    let read = if waiting {
        let read =
            open_database(path, false).and_then(|connection| read_by_owner(&connection, out, on));
        if !there {
            // Reading made this file; a program that writes the database would have made it before.
            let _ = std::fs::remove_file(&shared);
        }
        read.or_else(|_| {
            out.list_unreadable(None, "what is in its -wal file was not read");
            open_database(path, true).and_then(|connection| read_by_owner(&connection, out, on))
        })
    } else {
        open_database(path, true).and_then(|connection| read_by_owner(&connection, out, on))
    };
    if matches!(read, Ok(DatabaseOwner::Others)) {
        out.list_unreadable(None, "a SQLite file of another program");
    }
    read.unwrap_or_else(|error| {
        let damaged = error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase);
        let reason = if damaged { "no SQLite file".to_owned() } else { error.to_string() };
        out.list_unreadable(None, reason);
        if damaged { DatabaseOwner::Others } else { DatabaseOwner::Softland }
    })
}

fn read_by_owner(
    connection: &Connection,
    out: &mut StepOutput<'_>,
    on: ContinueCheck<'_>,
) -> rusqlite::Result<DatabaseOwner> {
    if softland::is_ledger(connection)? {
        softland::ledger(connection, out, on)?;
        return Ok(DatabaseOwner::Softland);
    }
    if opencode::is_opencode(connection)? {
        return Ok(DatabaseOwner::OpenCode(opencode::database(connection, out, on)));
    }
    if goose::is_goose(connection) {
        goose::read_database(connection, out, on)?;
        return Ok(DatabaseOwner::Goose);
    }
    Ok(DatabaseOwner::Others)
}

fn sibling_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Opens a database. With `still`, no program writes it, so that no lock and no file beside it is
/// needed.
fn open_database(path: &Path, still: bool) -> rusqlite::Result<Connection> {
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
