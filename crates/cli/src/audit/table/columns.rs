//! Columns of figures, as wide as their widest cell. Figures are never cut: columns that leave no
//! room for words beside them are left out, the last first.

use unicode_width::UnicodeWidthStr as _;

use crate::render::MIN_WIDTH;

pub(super) struct Columns {
    widths: Vec<usize>,
    shown: usize,
}

impl Columns {
    pub(super) fn fit(heads: &[&str], rows: &[Vec<String>], width: usize) -> Self {
        let widest = |at: usize| {
            let cells = rows.iter().filter_map(|cells| cells.get(at)).map(|cell| cell.width());
            cells.max().unwrap_or(0).max(heads.get(at).map_or(0, |head| head.len()))
        };
        let widths: Vec<usize> = (0..heads.len()).map(widest).collect();
        let taken = |shown: usize| widths.iter().take(shown).map(|width| width + 2).sum::<usize>();
        let mut shown = widths.len();
        while shown > 1 && taken(shown) + MIN_WIDTH > width {
            shown -= 1;
        }
        Self { widths, shown }
    }

    /// Aligns one row to the right.
    pub(super) fn align(&self, cells: &[impl AsRef<str>]) -> String {
        let cells = cells.iter().zip(&self.widths).take(self.shown);
        let padded = cells.map(|(cell, width)| {
            let cell = cell.as_ref();
            format!("{}{cell}", " ".repeat(width.saturating_sub(cell.width())))
        });
        padded.collect::<Vec<_>>().join("  ")
    }
}
