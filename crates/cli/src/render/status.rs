//! The line that says what is waited for, and how long already, below all else on a terminal.
//!
//! It is drawn when nothing was printed for a moment, and taken away before anything is: what was
//! printed stays as if it had never been there.

use std::io::{self, Write as _};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use softland_agent::Event;

use board::Board;

mod board;

/// How often it is drawn.
const TICK: Duration = Duration::from_millis(120);
/// The same where each time goes over a network.
const TICK_REMOTE: Duration = Duration::from_millis(500);
/// How long nothing was printed before it is.
const QUIET: Duration = Duration::from_millis(250);

/// The terminal of this process, where a status line is shown: its streams meet there, whoever
/// writes to them.
static SCREEN: Mutex<Option<Screen>> = Mutex::new(None);
/// Wakes the thread that draws when there is nothing more to draw.
static OVER: Condvar = Condvar::new();

pub(super) struct Screen {
    board: Board,
    /// The line is there.
    drawn: bool,
    /// The cursor stands where a line begins.
    at_start: bool,
    written: Instant,
    frame: usize,
}

impl Screen {
    fn draw(&mut self, width: usize) {
        let now = Instant::now();
        if !self.at_start || now.duration_since(self.written) < QUIET {
            return;
        }
        // A character in the last column would make some terminals begin another line.
        match self.board.line(self.frame, now, width.saturating_sub(1)) {
            Some(line) => {
                put(&format!("\r{line}\u{1b}[K"));
                self.drawn = true;
                self.frame = self.frame.wrapping_add(1);
            }
            None => self.clear(),
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            put("\r\u{1b}[K");
        }
    }
}

/// Where standard error is gone, nobody sees a status.
fn put(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// A status line is shown as long as this lives.
pub(crate) struct Status {
    drawing: Option<JoinHandle<()>>,
}

impl Status {
    /// Shows one on standard error, a terminal. `width`: its columns, now.
    pub(super) fn begin(remote: bool, width: impl Fn() -> usize + Send + 'static) -> Self {
        let (board, written) = (Board::default(), Instant::now());
        let screen = Screen { board, drawn: false, at_start: true, written, frame: 0 };
        *screen_now() = Some(screen);
        let tick = if remote { TICK_REMOTE } else { TICK };
        let drawing = std::thread::Builder::new().name("status".to_owned());
        // Without a thread there is no status, and all else is as it is.
        Self { drawing: drawing.spawn(move || draw(tick, width)).ok() }
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        if let Some(mut screen) = screen_now().take() {
            screen.clear();
        }
        OVER.notify_all();
        if let Some(drawing) = self.drawing.take() {
            let _ = drawing.join();
        }
    }
}

fn draw(tick: Duration, width: impl Fn() -> usize) {
    let mut screen = screen_now();
    while let Some(shown) = screen.as_mut() {
        shown.draw(width());
        let waited = OVER.wait_timeout(screen, tick);
        screen = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Hears an event, where a status line is shown.
pub(crate) fn hear(event: &Event) {
    if let Some(screen) = screen_now().as_mut() {
        screen.board.event(event, Instant::now());
    }
}

/// Before these bytes are written to the terminal: the line makes room, and stays away as long as
/// the guard is held.
pub(super) fn make_room(bytes: &[u8]) -> MutexGuard<'static, Option<Screen>> {
    let mut guard = screen_now();
    if let Some(screen) = guard.as_mut().filter(|_| !bytes.is_empty()) {
        screen.clear();
        screen.at_start = bytes.ends_with(b"\n");
        screen.written = Instant::now();
    }
    guard
}

fn screen_now() -> MutexGuard<'static, Option<Screen>> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}
