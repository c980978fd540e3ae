//! A progress bar for long work, on one line of the terminal that is removed at the end.

use std::io::{self, Write as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time after which work shows a bar.
const QUICK: Duration = Duration::from_millis(400);
/// The least time between two updates.
const OFTEN: Duration = Duration::from_millis(100);

/// A progress bar that any thread may update.
#[derive(Debug)]
pub(crate) struct ProgressBar {
    began: Instant,
    width: usize,
    /// The time of the last update, if the bar was drawn.
    drawn: Mutex<Option<Instant>>,
}

impl ProgressBar {
    pub(super) fn new(width: usize) -> Self {
        Self { began: Instant::now(), width, drawn: Mutex::new(None) }
    }

    /// Shows the progress, in bytes.
    pub(crate) fn show_progress(&self, done: u64, total: u64) {
        let now = Instant::now();
        let Ok(mut drawn) = self.drawn.try_lock() else { return };
        let soon = drawn.is_some_and(|last| now.duration_since(last) < OFTEN);
        if soon || now.duration_since(self.began) < QUICK {
            return;
        }
        *drawn = Some(now);
        let line = format_bar(done, total, self.width);
        let _ = write!(io::stderr().lock(), "\r{line}");
    }

    /// Removes the bar.
    pub(crate) fn clear(self) {
        if self.drawn.into_inner().is_ok_and(|drawn| drawn.is_some()) {
            let _ = write!(io::stderr().lock(), "\r{:width$}\r", "", width = self.width - 1);
        }
    }
}

/// Formats `reading [####    ]  50%  1.2 of 2.4 GB`, one column narrower than the terminal.
fn format_bar(done: u64, total: u64, width: usize) -> String {
    let done = done.min(total);
    let percent = (done * 100).checked_div(total).unwrap_or(100);
    let (unit, name) =
        if total >= 1_000_000_000 { (1_000_000_000.0, "GB") } else { (1_000_000.0, "MB") };
    let end =
        format!("] {percent:3}%  {:.1} of {:.1} {name}", done as f64 / unit, total as f64 / unit);
    let room = width.saturating_sub(end.len() + "reading [".len() + 1).min(40);
    let full = usize::try_from(done * room as u64 / total.max(1)).unwrap_or(0);
    let bar = format!("reading [{}{}{end}", "#".repeat(full), " ".repeat(room - full));
    bar.chars().take(width.saturating_sub(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::format_bar;

    #[test]
    fn a_bar_fits_its_terminal() {
        for width in [1, 20, 40, 80, 200] {
            for (done, total) in [(0, 0), (5, 10), (10, 10), (3_000_000_000, 2_000_000_000)] {
                assert!(format_bar(done, total, width).len() < width.max(1), "{width}");
            }
        }
        assert!(format_bar(5_000_000, 10_000_000, 80).contains("]  50%  5.0 of 10.0 MB"));
    }
}
