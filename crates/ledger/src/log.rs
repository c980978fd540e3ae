//! The event log: lines appended to a file, which is renamed when it has grown.
//!
//! A line that is only partly written is removed again. Several processes may append to one log.
//! Others may rename or delete the file at any time; a new one is then begun.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::blank::DELETED;
use crate::fields;
use crate::platform::{self, FileIdentity, open_or_create};
use crate::registry::{RowEnd, RunRow};

/// The number of bytes at the end of an existing log that are read at the start.
const TAIL: u64 = 16 << 20;

/// The identity of a line: its run and its number.
pub(crate) type LineId = (Arc<str>, u64);

/// An event log.
#[derive(Debug)]
pub(crate) struct EventLog {
    path: PathBuf,
    max: u64,
    keep: u32,
    file: Option<(File, Option<FileIdentity>)>,
}

impl EventLog {
    /// Opens or creates a log. A partial line of a process that died is cut off, unless another
    /// process writes to the log. Returns the log, and true if no other process writes to it.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened or created, or is not an event log.
    pub(crate) fn open(path: &Path, max: u64, keep: u32) -> io::Result<(Self, bool)> {
        let mut log = Self { path: path.to_owned(), max, keep, file: None };
        let may_be_alone = platform::may_be_unused(path);
        let file = log.current_file()?;
        let alone = may_be_alone && platform::try_claim(file);
        if alone {
            cut_torn_line(file)?;
            platform::release_claim(file)?;
        }
        platform::mark_in_use(file);
        Ok((log, alone))
    }

    /// Appends whole lines, and removes the written ones from `text`.
    ///
    /// # Errors
    /// Returns an error if not all lines could be written; `text` then holds the others.
    pub(crate) fn append_lines(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let (max, size) = (self.max, text.len() as u64);
        let length = self.current_file()?.metadata()?.len();
        if length > 0 && length.saturating_add(size) > max {
            self.rotate_files()?;
        }
        let file = self.current_file()?;
        let before = file.metadata()?.len();
        let (written, result) = write_some(file, text);
        let whole =
            text.iter().take(written).rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if written > whole {
            let after = before.saturating_add(written as u64);
            // If another process has written since, its lines must not be cut off.
            if file.metadata()?.len() == after {
                file.set_len(before.saturating_add(whole as u64))?;
            } else {
                file.write_all(b"\n")?;
            }
        }
        text.drain(..whole);
        result
    }

    /// Returns the file at the path. Opens it anew if it is not the same file as before.
    fn current_file(&mut self) -> io::Result<&mut File> {
        let now = FileIdentity::from_path(&self.path);
        let stale = self.file.as_ref().is_none_or(|(_, known)| now.is_none() || *known != now);
        if stale {
            self.file = None;
            let mut file = open_or_create(&self.path, true)?;
            if !is_event_log(&mut file)? {
                let what = "is not an event log of softland; it is left as it is";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            platform::restrict_to_owner(&file)?;
            platform::mark_in_use(&file);
            let identity = Some(FileIdentity::from_file(&file)?);
            return Ok(&mut self.file.insert((file, identity)).0);
        }
        match &mut self.file {
            Some((file, _)) => Ok(file),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Renames `NAME` to `NAME.1`, that to `NAME.2`, and so on. The oldest file is dropped.
    fn rotate_files(&mut self) -> io::Result<()> {
        self.file = None;
        for number in (1..self.keep).rev() {
            rename_if_there(&self.numbered_path(number), &self.numbered_path(number + 1))?;
        }
        match self.keep {
            0 => fs::remove_file(&self.path),
            _ => rename_if_there(&self.path, &self.numbered_path(1)),
        }
    }

    fn numbered_path(&self, number: u32) -> PathBuf {
        numbered_path(&self.path, number)
    }

    /// Reads the identities of the lines at the end of the log.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub(crate) fn read_recent_ids(&mut self) -> io::Result<HashSet<LineId>> {
        let standings = read_tail(self.current_file()?)?;
        Ok(standings.into_iter().map(|line| (line.run.into(), line.seq)).collect())
    }

    /// Reads the states of runs from the lines at the end of the log, for use without a database.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub(crate) fn read_run_rows(&mut self) -> io::Result<HashMap<Arc<str>, RunRow>> {
        let mut rows = HashMap::new();
        for line in read_tail(self.current_file()?)? {
            let mut row = RunRow::with_next_seq(&line.run, line.seq.saturating_add(1));
            if line.event == "done" || line.event == "error" {
                let nothing = String::new;
                row.end = Some(RowEnd {
                    at: 0,
                    seq: line.seq,
                    outcome: nothing(),
                    reason: nothing(),
                    local: false,
                    ended: nothing(),
                });
            }
            rows.insert(Arc::clone(&row.run), row);
        }
        Ok(rows)
    }
}

/// True if the beginning of the file matches that of an event log, or the file is empty.
pub(crate) fn is_event_log(file: &mut File) -> io::Result<bool> {
    if !file.metadata()?.is_file() {
        return Ok(true);
    }
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    (&*file).take(fields::HEAD.len() as u64).read_to_end(&mut head)?;
    Ok(fields::HEAD.as_bytes().starts_with(&head))
}

/// Writes as much of `text` as possible. Returns the number of bytes written, and any error.
fn write_some(file: &mut File, text: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    loop {
        match text.get(written..) {
            None | Some([]) => return (written, Ok(())),
            Some(rest) => match file.write(rest) {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(size) => written += size,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Err(error)),
            },
        }
    }
}

/// Returns the name of an older file of the log at this path.
pub(crate) fn numbered_path(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Cuts off a partial line at the end of the file.
fn cut_torn_line(file: &mut File) -> io::Result<()> {
    const CHUNK: u64 = 64 << 10;
    let mut end = file.metadata()?.len();
    let whole = end;
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        let mut chunk = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        (&*file).take(end - start).read_to_end(&mut chunk)?;
        if let Some(at) = chunk.iter().rposition(|byte| *byte == b'\n') {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    if end < whole { file.set_len(end) } else { Ok(()) }
}

/// Reads the headers of the lines within the last [`TAIL`] bytes.
fn read_tail(file: &mut File) -> io::Result<Vec<fields::LineHeader>> {
    let start = file.metadata()?.len().saturating_sub(TAIL);
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    (&*file).take(TAIL).read_to_end(&mut text)?;
    let lines = text.split(|byte| *byte == b'\n').filter_map(fields::read_header);
    Ok(lines.filter(|line| line.event != DELETED).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(run: &str, seq: u64, event: &str) -> Vec<u8> {
        let mut text = Vec::new();
        let envelope = fields::Envelope { seq, at: 0, run, turn: 1, event };
        fields::write_line(&mut text, &envelope, "{}");
        text
    }

    #[test]
    fn a_log_is_renamed_before_it_grows_too_large() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("e.ndjson");
        let size = line("r", 0, "usage").len() as u64;
        let (mut log, alone) = EventLog::open(&path, size * 2, 2).unwrap();
        assert!(alone);
        for seq in 0..9 {
            log.append_lines(&mut line("r", seq, "usage")).unwrap();
        }
        let seqs = |path: &Path| -> Vec<u64> {
            let text = fs::read(path).unwrap();
            text.split(|b| *b == b'\n').filter_map(fields::read_header).map(|l| l.seq).collect()
        };
        assert_eq!(seqs(&path), [8]);
        assert_eq!(seqs(&log.numbered_path(1)), [6, 7]);
        assert_eq!(seqs(&log.numbered_path(2)), [4, 5]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_batch_larger_than_a_log_may_be_is_still_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("e.ndjson");
        let (mut log, _) = EventLog::open(&path, 10, 0).unwrap();
        for seq in 0..3 {
            log.append_lines(&mut line("r", seq, "usage")).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), line("r", 2, "usage"));
    }

    #[test]
    fn what_is_left_of_a_line_is_cut_off_and_others_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("e.ndjson");
        let whole = line("r", 0, "usage");
        for torn in ["{\"v\":1,\"seq\":1", &"x".repeat(200_000)] {
            fs::write(&path, [&whole, torn.as_bytes()].concat()).unwrap();
            drop(EventLog::open(&path, 1 << 20, 1).unwrap());
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
        let (mut log, _) = EventLog::open(&path, 1 << 20, 1).unwrap();
        fs::rename(&path, folder.path().join("away")).unwrap();
        log.append_lines(&mut line("r", 1, "usage")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), line("r", 1, "usage"));
    }

    #[test]
    fn a_second_process_cuts_nothing_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("e.ndjson");
        let first = EventLog::open(&path, 1 << 20, 1).unwrap();
        let half = r#"{"v":1,"seq":0,"t"#;
        fs::write(&path, half).unwrap();
        let (_, alone) = EventLog::open(&path, 1 << 20, 1).unwrap();
        assert!(!alone && fs::read(&path).unwrap() == half.as_bytes());
        drop(first);
    }

    #[test]
    fn a_foreign_file_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        for text in ["notes without a line end", "[1]\n{\"v\":1,\"seq\":0}", "\n"] {
            fs::write(&path, text).unwrap();
            let error = EventLog::open(&path, 1 << 20, 1).unwrap_err();
            assert!(error.to_string().contains("not an event log"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        for torn in ["", "{", r#"{"v":1,"#] {
            fs::write(&path, torn).unwrap();
            drop(EventLog::open(&path, 1 << 20, 1).unwrap());
            assert_eq!(fs::read_to_string(&path).unwrap(), "", "what is left of a first line");
        }
    }

    #[test]
    fn runs_are_known_again_by_their_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("e.ndjson");
        let (mut log, _) = EventLog::open(&path, 1 << 20, 1).unwrap();
        let mut text =
            [line("a", 0, "run_start"), line("b", 4, "usage"), line("a", 1, "done")].concat();
        log.append_lines(&mut text).unwrap();
        let rows = log.read_run_rows().unwrap();
        let of = |run: &str| (rows[run].next_seq, rows[run].end.is_some());
        assert_eq!((of("a"), of("b")), ((2, true), (5, false)));
        assert!(log.read_recent_ids().unwrap().contains(&("b".into(), 4)));
    }
}
