//! Rows that several lines of a run share: inserting a row costs more than its contents. The view
//! `lines` (`3.sql`) lists each line by itself.

use std::borrow::Cow;

use crate::registry::{LINES, NumberedLine};

/// The event name of signals. Queries select them by this name, so each has a row of its own.
const SIGNAL: &str = "signal";
/// The maximum size of the fields that lines share, in bytes. SQLite moves the end of a row with
/// more than 1,002 bytes to overflow pages.
const MOST: usize = 900;
/// The maximum size of a line apart from its fields, in bytes, for the event names in use.
const FRAME: usize = 90;

/// Packs ordered lines into rows. Each row is created on demand: the rows of a whole batch would
/// fill the CPU caches.
pub(super) fn pack_rows<'b>(
    lines: impl IntoIterator<Item = NumberedLine<'b>>,
) -> impl Iterator<Item = NumberedLine<'b>> {
    let mut lines = lines.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut row = lines.next()?;
        while let Some(line) = lines.next_if(|line| has_room(&row, line)) {
            join_line(&mut row, &line);
        }
        Some(row)
    })
}

fn has_room(row: &NumberedLine<'_>, line: &NumberedLine<'_>) -> bool {
    let bytes = row.fields.len() + line.fields.len() + 2 * FRAME;
    row.id == line.id && row.event != SIGNAL && line.event != SIGNAL && bytes <= MOST
}

fn join_line(row: &mut NumberedLine<'_>, line: &NumberedLine<'_>) {
    let mut fields = String::new();
    if row.event == LINES {
        fields = std::mem::take(&mut row.fields).into_owned();
        fields.pop();
    } else {
        fields.reserve(MOST);
        fields.push('[');
        push_line(&mut fields, row);
        row.event = LINES;
    }
    fields.push(',');
    push_line(&mut fields, line);
    fields.push(']');
    row.fields = Cow::Owned(fields);
}

fn push_line(to: &mut String, line: &NumberedLine<'_>) {
    to.push('[');
    for number in [line.seq, line.at, line.turn] {
        to.push_str(itoa::Buffer::new().format(number));
        to.push(',');
    }
    // Event names contain nothing that needs escaping.
    to.extend(["\"", line.event, "\",", &line.fields, "]"]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: i64, seq: u64, event: &'static str, fields: &str) -> NumberedLine<'static> {
        NumberedLine {
            id,
            seq,
            at: 100 + seq,
            turn: 2,
            event,
            fields: Cow::Owned(fields.to_owned()),
        }
    }

    fn texts(lines: Vec<NumberedLine<'static>>) -> Vec<(i64, u64, &'static str, String)> {
        let text =
            |row: NumberedLine<'static>| (row.id, row.seq, row.event, row.fields.into_owned());
        pack_rows(lines).map(text).collect()
    }

    #[test]
    fn lines_of_one_run_share_a_row() {
        let shared = texts(vec![
            line(1, 0, "run_start", "{\"a\":1}"),
            line(1, 2, "turn_start", "{}"),
            line(1, 3, "intervention", "{\"b\":\"]\"}"),
            line(2, 3, "turn_start", "{}"),
        ]);
        let first = "[[0,100,2,\"run_start\",{\"a\":1}],[2,102,2,\"turn_start\",{}],\
                     [3,103,2,\"intervention\",{\"b\":\"]\"}]]";
        assert_eq!(
            shared,
            [(1, 0, LINES, first.to_owned()), (2, 3, "turn_start", "{}".to_owned())]
        );
    }

    #[test]
    fn a_signal_and_what_is_long_have_rows_of_their_own() {
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(MOST));
        let alone = [(0, "signal", "{}"), (1, "turn_start", &long), (2, "signal", "{}")];
        let lines = alone.map(|(seq, event, fields)| line(1, seq, event, fields));
        let rows = texts(lines.into());
        assert_eq!(rows.len(), 3);
        assert!(rows.iter().all(|row| row.2 != LINES));
    }

    #[test]
    fn no_row_that_lines_share_is_too_long_for_its_page() {
        for bytes in [2, 40, 100, 300, 700] {
            let fields = format!("{{\"a\":\"{}\"}}", "x".repeat(bytes));
            let lines = (0..50).map(|seq| line(i64::MAX, (1 << 63) + seq, "turn_start", &fields));
            let rows: Vec<_> = pack_rows(lines).collect();
            let shared = rows.iter().filter(|row| row.event == LINES);
            assert!(shared.clone().all(|row| row.fields.len() <= MOST));
            assert!(shared.count() > 0 || bytes > 300);
        }
    }
}
