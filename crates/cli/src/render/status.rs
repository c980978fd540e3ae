//! The status line, which shows on a terminal what the runs are waiting for and for how long, below
//! all other output.
//!
//! The line is drawn when nothing was printed for a moment, and erased before anything is printed,
//! so that it leaves no trace in the output.

use std::io::{self, Write as _};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use softland_agent::Event;

use active_runs::ActiveRuns;

mod active_runs;

/// The time between two frames.
const TICK: Duration = Duration::from_millis(120);
/// The time between two frames if the terminal is reached over a network.
const TICK_REMOTE: Duration = Duration::from_millis(500);
/// The time without output after which the line is drawn.
const QUIET: Duration = Duration::from_millis(250);

/// The terminal of this process, if it shows a status line. Both streams end up there, whichever
/// thread writes.
static SCREEN: Mutex<Option<Screen>> = Mutex::new(None);
/// Wakes the drawing thread when there is nothing more to draw.
static OVER: Condvar = Condvar::new();

pub(super) struct Screen {
    board: ActiveRuns,
    /// True if the line is drawn.
    drawn: bool,
    /// True if the cursor is at the beginning of a line.
    at_start: bool,
    written: Instant,
    frame: usize,
}

impl Screen {
    fn draw_line(&mut self, width: usize) {
        let now = Instant::now();
        if !self.at_start || now.duration_since(self.written) < QUIET {
            return;
        }
        // On some terminals a character in the last column would begin another line.
        match self.board.status_line(self.frame, now, width.saturating_sub(1)) {
            Some(line) => {
                write_terminal(&format!("\r{line}\u{1b}[K"));
                self.drawn = true;
                self.frame = self.frame.wrapping_add(1);
            }
            None => self.clear_line(),
        }
    }

    fn clear_line(&mut self) {
        if std::mem::take(&mut self.drawn) {
            write_terminal("\r\u{1b}[K");
        }
    }
}

/// Writes to standard error. Errors are ignored, since nobody would see the status.
fn write_terminal(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// A handle to the status line, which is shown until this is dropped.
pub(crate) struct StatusLine {
    drawing: Option<JoinHandle<()>>,
}

impl StatusLine {
    /// Shows a status line on standard error, which must be a terminal; `width` returns its current
    /// columns.
    pub(super) fn show_line(remote: bool, width: impl Fn() -> usize + Send + 'static) -> Self {
        let (board, written) = (ActiveRuns::default(), Instant::now());
        let screen = Screen { board, drawn: false, at_start: true, written, frame: 0 };
        *lock_screen() = Some(screen);
        let tick = if remote { TICK_REMOTE } else { TICK };
        let drawing = std::thread::Builder::new().name("status".to_owned());
        // Without a thread there is no status line, and everything else works.
        Self { drawing: drawing.spawn(move || draw_until_over(tick, width)).ok() }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if let Some(mut screen) = lock_screen().take() {
            screen.clear_line();
        }
        OVER.notify_all();
        if let Some(drawing) = self.drawing.take() {
            let _ = drawing.join();
        }
    }
}

fn draw_until_over(tick: Duration, width: impl Fn() -> usize) {
    let mut screen = lock_screen();
    while let Some(shown) = screen.as_mut() {
        shown.draw_line(width());
        let waited = OVER.wait_timeout(screen, tick);
        screen = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Updates the status line, if there is one, with an event.
pub(crate) fn update_status(event: &Event) {
    if let Some(screen) = lock_screen().as_mut() {
        screen.board.apply_event(event, Instant::now());
    }
}

/// Erases the status line before these bytes are written to the terminal. The line stays erased for
/// as long as the guard is held.
pub(super) fn make_room(bytes: &[u8]) -> MutexGuard<'static, Option<Screen>> {
    let mut guard = lock_screen();
    if let Some(screen) = guard.as_mut().filter(|_| !bytes.is_empty()) {
        screen.clear_line();
        screen.at_start = bytes.ends_with(b"\n");
        screen.written = Instant::now();
    }
    guard
}

fn lock_screen() -> MutexGuard<'static, Option<Screen>> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}
