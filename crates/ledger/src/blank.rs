//! Deletion of runs from event logs, also while gateways append to them.
//!
//! Each line of a run is overwritten in its place by a line of the same length that says nothing. So
//! no file is renamed or shortened below a gateway, and what was said is no longer on the disk.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use serde::Deserialize;

use crate::fields;
use crate::log::{is_event_log, numbered_path};

/// The event of a line whose run was deleted.
pub(crate) const DELETED: &str = "deleted";

/// Overwrites all lines of these runs in an event log and in the older files beside it (`NAME.1` …).
/// Returns the number of lines. A log that does not exist has none.
///
/// # Errors
/// Returns an error if a file cannot be read or written, or is not an event log. What was overwritten
/// stays so.
pub fn blank_log_lines(path: &Path, runs: &HashSet<String>) -> io::Result<u64> {
    let mut blanked = 0;
    // A gateway may rename files meanwhile, to higher numbers only. So none is missed.
    for number in 0.. {
        let file = match number {
            0 => path.to_owned(),
            number => numbered_path(path, number),
        };
        match OpenOptions::new().read(true).write(true).open(&file) {
            Ok(mut opened) => blanked += blank_lines(&mut opened, runs)?,
            // A new log is begun with the next line.
            Err(error) if error.kind() == io::ErrorKind::NotFound && number == 0 => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        }
    }
    Ok(blanked)
}

/// The members of a line that its deletion needs.
#[derive(Deserialize)]
struct LineOfRun {
    run: String,
    ts: String,
}

fn blank_lines(file: &mut File, runs: &HashSet<String>) -> io::Result<u64> {
    if !is_event_log(file)? {
        let what = "is not an event log of softland; it is left as it is";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    let mut doomed = Vec::new();
    let (mut line, mut at) = (Vec::new(), 0);
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::new(&*file);
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)?;
        // What comes after the last line end is still being written.
        if line.pop() != Some(b'\n') {
            break;
        }
        if let Ok(known) = serde_json::from_slice::<LineOfRun>(&line)
            && runs.contains(&known.run)
        {
            doomed.push((at, blank_line(&known.ts, line.len())));
        }
        at += length as u64;
    }
    for (at, blank) in &doomed {
        file.seek(SeekFrom::Start(*at))?;
        file.write_all(blank)?;
    }
    file.sync_data()?;
    Ok(doomed.len() as u64)
}

/// Returns a line without a line end, of this length, that says only when something was.
fn blank_line(ts: &str, length: usize) -> Vec<u8> {
    let mut line = Vec::with_capacity(length);
    let envelope = fields::Envelope { seq: 0, at: 0, run: "", turn: 0, event: DELETED };
    fields::write_line_at(&mut line, &envelope, ts, "{}");
    // Without the line end and the brace, which come last.
    line.truncate(line.len().saturating_sub(2));
    // A line of a run is longer: it has a name of a run. If not, nothing of it may stay.
    if line.len() >= length {
        return vec![b' '; length];
    }
    line.resize(length - 1, b' ');
    line.push(b'}');
    line
}
