//! Tables, laid out as columns side by side if they fit, or else as a line for each cell.

use super::super::pieces::Style;
use super::words::{Words, count_columns};
use super::{Span, StyledLine};

/// A table that is being received.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<StyledLine>>,
}

impl Table {
    pub(super) fn start_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn push_cell(&mut self, words: Words) {
        if let Some(row) = self.rows.last_mut() {
            row.push(words.into_line());
        }
    }

    pub(super) fn into_lines(self, width: usize) -> Vec<StyledLine> {
        let number = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let wide = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| count_columns(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..number).map(wide).collect();
        let total = widths.iter().sum::<usize>() + number.saturating_sub(1) * 3;
        if total <= width {
            side_by_side(self.rows, &widths)
        } else {
            one_by_one(&self.rows, width)
        }
    }
}

fn side_by_side(rows: Vec<Vec<StyledLine>>, widths: &[usize]) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    for (at, mut row) in rows.into_iter().enumerate() {
        row.resize(widths.len(), StyledLine::new());
        let mut line = StyledLine::new();
        for (nth, (cell, width)) in row.into_iter().zip(widths).enumerate() {
            if nth > 0 {
                line.push(Span::new(Style::Dim, " │ "));
            }
            let gap = width.saturating_sub(count_columns(&cell));
            line.extend(cell);
            if nth + 1 < widths.len() {
                line.push(Span::new(Style::Plain, " ".repeat(gap)));
            }
        }
        lines.push(line);
        if at == 0 {
            let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            lines.push(vec![Span::new(Style::Dim, rules.join("─┼─"))]);
        }
    }
    lines
}

/// Lays out each row as lines of `heading: cell`.
fn one_by_one(rows: &[Vec<StyledLine>], width: usize) -> Vec<StyledLine> {
    let Some((head, rows)) = rows.split_first() else { return Vec::new() };
    let mut lines = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            lines.push(StyledLine::new());
        }
        for (nth, cell) in row.iter().enumerate() {
            let mut words = Words::default();
            for span in head.get(nth).into_iter().flatten() {
                words.push(span.style, &span.text);
            }
            words.push(Style::Plain, ": ");
            for span in cell {
                words.push(span.style, &span.text);
            }
            lines.extend(words.wrap_lines(width));
        }
    }
    lines
}
