//! OpenRouter's activity: rows of numbers, with columns in any order, newest first or last. No
//! session is recorded. Rows of the same key, app and model are put into chains in which prompts
//! grow.

mod backwards;
mod chains;
mod columns;
mod entry;

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::claude_code::RecordIds;
use crate::input::Input;
use crate::step_output::StepOutput;
use backwards::BackwardLines;
use chains::Chains;
use columns::Columns;
pub(crate) use columns::is_header;
use entry::Entry;

/// Bytes at the end of a file in which its last row is looked for.
const TAIL: u64 = 64 << 10;
/// The longest row, in bytes.
const LONGEST: usize = 1 << 20;
/// Rows of a compressed file from which the order is derived.
const TOLD_BY: usize = 1000;

/// Reads a file. `plain` is its path if it is not compressed, so that it can be read backwards.
/// Rows whose ids are `known` were read before, in another export.
pub(crate) fn read_recording(
    input: &mut Input<'_>,
    out: &mut StepOutput<'_>,
    plain: Option<&Path>,
    known: &RecordIds,
) -> RecordIds {
    let mut reader = Reader { known, ids: RecordIds::default(), chains: Chains::default() };
    reader.read_file(input, out, plain);
    reader.chains.place_waiting_rows(out);
    reader.ids
}

struct Reader<'x> {
    /// The ids of the files before this one.
    known: &'x RecordIds,
    ids: RecordIds,
    chains: Chains,
}

impl Reader<'_> {
    fn read_file(&mut self, input: &mut Input<'_>, out: &mut StepOutput<'_>, plain: Option<&Path>) {
        let Some(header) = read_record(input, out) else { return };
        let behind = input.position();
        let columns = match Columns::from_header(&header.1) {
            Ok(columns) => columns,
            Err(missing) => {
                out.list_unreadable(Some(header.0), missing);
                return;
            }
        };
        if let Some(missing) = columns.missing_columns() {
            out.list_unreadable(Some(header.0), missing);
        }
        if columns.index_of("created_at").is_none() {
            let order = "no `created_at`: the rows are taken for oldest first";
            out.list_unreadable(Some(header.0), order);
        }
        let Some((number, first)) = read_record(input, out) else { return };
        let newest = columns.record_time(&first);
        let oldest = plain.and_then(|path| last_time(path, &columns, behind));
        match (plain, newest, oldest) {
            (Some(path), Some(newest), Some(oldest)) if newest > oldest => {
                if let Err(error) = self.read_backwards(path, behind, &columns, out) {
                    out.list_unreadable(None, error.to_string());
                }
            }
            (None, Some(_), _) => self.read_compressed(input, out, &columns, (number, first)),
            _ => {
                self.take_record(out, &columns, &first, number);
                while let Some((number, text)) = read_record(input, out) {
                    self.take_record(out, &columns, &text, number);
                }
            }
        }
    }

    /// Reads a compressed file. Rows wait as numbers until their order is known; if the newest come
    /// first, all rows wait.
    fn read_compressed(
        &mut self,
        input: &mut Input<'_>,
        out: &mut StepOutput<'_>,
        columns: &Columns,
        first: (u64, String),
    ) {
        let mut rows: Vec<Entry> = Vec::new();
        let mut oldest_first = None;
        let mut next = Some(first);
        while let Some((number, text)) = next {
            if let Some(row) = self.parse_entry(out, columns, &text, number) {
                rows.push(row);
            }
            if oldest_first.is_none() && rows.len() >= TOLD_BY {
                oldest_first = find_order(&rows);
            }
            if oldest_first == Some(true) {
                rows.drain(..).for_each(|row| self.chains.take_row(out, row));
            }
            next = read_record(input, out);
        }
        if find_order(&rows) == Some(false) {
            rows.reverse();
        }
        rows.into_iter().for_each(|row| self.chains.take_row(out, row));
    }

    fn read_backwards(
        &mut self,
        path: &Path,
        behind: u64,
        columns: &Columns,
        out: &mut StepOutput<'_>,
    ) -> std::io::Result<()> {
        let mut lines = BackwardLines::new(path, behind)?;
        let mut record: Option<String> = None;
        while let Some((number, line)) = lines.next_line()? {
            if record.is_none() && line.trim().is_empty() {
                continue;
            }
            let whole = match record.take() {
                Some(rest) => format!("{line}\n{rest}"),
                None => line,
            };
            if is_closed(&whole) || whole.len() > LONGEST {
                self.take_record(out, columns, &whole, number);
            } else {
                record = Some(whole);
            }
        }
        if let Some(rest) = record {
            self.take_record(out, columns, &rest, 2);
        }
        Ok(())
    }

    fn take_record(
        &mut self,
        out: &mut StepOutput<'_>,
        columns: &Columns,
        text: &str,
        number: u64,
    ) {
        if let Some(row) = self.parse_entry(out, columns, text, number) {
            self.chains.take_row(out, row);
        }
    }

    /// Parses a record; returns `None` if it cannot be read or was read before.
    fn parse_entry(
        &mut self,
        out: &mut StepOutput<'_>,
        columns: &Columns,
        text: &str,
        number: u64,
    ) -> Option<Entry> {
        let read = entry::read_entry(columns, text, number, &mut self.chains, &mut |reason| {
            out.list_unreadable(Some(number), reason);
        });
        let (entry, id) = match read {
            Ok(read) => read,
            Err(reason) => {
                out.list_unreadable(Some(number), reason);
                return None;
            }
        };
        let again =
            id.is_some_and(|id| self.known.messages.contains(&id) || !self.ids.messages.insert(id));
        (!again).then_some(entry)
    }
}

/// Returns true if rows come oldest first, if their times tell.
fn find_order(rows: &[Entry]) -> Option<bool> {
    let (first, last) = (rows.first()?.time?, rows.iter().rev().find_map(|row| row.time)?);
    (first != last).then_some(first < last)
}

/// Takes one record, up to the line that closes its last quote. Returns it with the number of its
/// first line.
fn read_record(input: &mut Input<'_>, out: &mut StepOutput<'_>) -> Option<(u64, String)> {
    let mut whole = String::new();
    let mut first = None;
    loop {
        match input.take_line() {
            None => return first.map(|line| (line, whole)),
            Some(Err(line)) => out.list_unreadable(Some(line), "longer than 64 MiB"),
            Some(Ok(piece)) => {
                out.list_mended(&piece);
                if first.is_none() && piece.text.trim().is_empty() {
                    continue;
                }
                let line = *first.get_or_insert(piece.line);
                if !whole.is_empty() {
                    whole.push('\n');
                }
                whole.push_str(&piece.text);
                if is_closed(&whole) || whole.len() > LONGEST {
                    return Some((line, whole));
                }
            }
        }
    }
}

/// Returns true if every quote of a record is closed.
fn is_closed(text: &str) -> bool {
    memchr::memchr_iter(b'"', text.as_bytes()).count().is_multiple_of(2)
}

/// Returns the time of the last row.
fn last_time(path: &Path, columns: &Columns, behind: u64) -> Option<u64> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL).max(behind))).ok()?;
    let mut bytes = Vec::new();
    file.take(2 * TAIL).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().find_map(|line| columns.record_time(line))
}
