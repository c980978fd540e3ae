//! Reads SQLite files and recognizes their kind. Nothing is written beside them.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use rusqlite::{Connection, OpenFlags};
use tempfile::NamedTempFile;

use crate::claude_code::Ids;
use crate::input;
use crate::out::Out;
use crate::{opencode, softland};

/// The most bytes that a compressed database may unpack to: the size it claims is not trusted with
/// the whole disk.
const MOST: u64 = 8 << 30;

/// A check that returns false once the caller has given up.
type On<'o> = &'o (dyn Fn() -> bool + Sync);

/// The program that a database belongs to.
pub(crate) enum Whose {
    Softland,
    /// opencode's, with the ids in it.
    OpenCode(Ids),
    Others,
}

/// Unpacks a compressed database into a temporary file, which is removed with the returned value.
pub(crate) fn unpacked(path: &Path, on: On<'_>) -> io::Result<NamedTempFile> {
    let counted = AtomicU64::new(0);
    let (inner, _) = input::open(path, &counted, on)?;
    let mut file = NamedTempFile::new()?;
    if io::copy(&mut inner.take(MOST + 1), &mut file)? > MOST {
        return Err(io::Error::other("it unpacks to more than 8 GiB"));
    }
    Ok(file)
}

/// Reads a database.
pub(crate) fn read(path: &Path, out: &mut Out<'_>, on: On<'_>) -> Whose {
    let shared = beside(path, "-shm");
    let (log, there) = (beside(path, "-wal"), shared.exists());
    let waiting = std::fs::metadata(&log).is_ok_and(|log| log.len() > 0);
    let read = if waiting {
        let read = open(path, false).and_then(|connection| told(&connection, out, on));
        if !there {
            // Reading made this file; a program that writes the database would have made it before.
            let _ = std::fs::remove_file(&shared);
        }
        read.or_else(|_| {
            out.unreadable(None, "what is in its -wal file was not read");
            open(path, true).and_then(|connection| told(&connection, out, on))
        })
    } else {
        open(path, true).and_then(|connection| told(&connection, out, on))
    };
    if matches!(read, Ok(Whose::Others)) {
        out.unreadable(None, "a SQLite file of another program");
    }
    read.unwrap_or_else(|error| {
        let damaged = error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase);
        let reason = if damaged { "no SQLite file".to_owned() } else { error.to_string() };
        out.unreadable(None, reason);
        if damaged { Whose::Others } else { Whose::Softland }
    })
}

fn told(connection: &Connection, out: &mut Out<'_>, on: On<'_>) -> rusqlite::Result<Whose> {
    if softland::is_its(connection)? {
        softland::ledger(connection, out, on)?;
        return Ok(Whose::Softland);
    }
    if opencode::is_its(connection)? {
        return Ok(Whose::OpenCode(opencode::database(connection, out, on)));
    }
    Ok(Whose::Others)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Opens a database. With `still`, no program writes it, so that no lock and no file beside it is
/// needed.
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
