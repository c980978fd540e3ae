//! The queue of log lines. A thread of its own writes the lines, so that nothing waits for a full
//! pipe or a disk that hangs. The queue is bounded; the log counts the lines that were lost beyond
//! that.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// The most text that the queue holds, in bytes.
const MOST: usize = 1 << 20;
/// The most capacity that an empty buffer keeps, in bytes.
const KEPT: usize = 64 << 10;
/// The most time for which the end of the process waits for the last lines.
const LAST: Duration = Duration::from_secs(1);

/// The input of the queue, which never waits.
pub(super) struct LineQueue(Arc<SharedQueue>);

/// A writer that adds one line at a time to the queue.
pub(super) struct QueueWriter<'a>(&'a SharedQueue);

/// A handle to a log that is being written. Dropping it waits a limited time for the last lines.
#[must_use = "what it has not written yet is lost without it"]
pub(crate) struct LogGuard(Arc<SharedQueue>);

#[derive(Default)]
struct SharedQueue {
    state: Mutex<QueueState>,
    /// Notified when there are lines; the writer waits for it.
    work: Condvar,
    /// Notified when lines were written; the end of the process waits for it.
    done: Condvar,
}

#[derive(Default)]
struct QueueState {
    text: Vec<u8>,
    /// The lines for which there was no room since the last count in the log.
    lost: u64,
    /// True if the writer has taken lines and is not done with them.
    writing: bool,
}

/// Starts a thread that writes lines to `out`.
///
/// # Errors
/// Returns an error if the thread cannot be started.
pub(super) fn start_writer(out: impl Write + Send + 'static) -> io::Result<(LineQueue, LogGuard)> {
    let shared = Arc::<SharedQueue>::default();
    let writer = Arc::clone(&shared);
    std::thread::Builder::new().name("log".to_owned()).spawn(move || writer.write_lines(out))?;
    Ok((LineQueue(Arc::clone(&shared)), LogGuard(shared)))
}

impl<'a> MakeWriter<'a> for LineQueue {
    type Writer = QueueWriter<'a>;

    fn make_writer(&'a self) -> QueueWriter<'a> {
        QueueWriter(&self.0)
    }
}

/// The subscriber writes each event with one call.
impl Write for QueueWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock_state();
        if state.text.len() + line.len() > MOST {
            state.lost += 1;
        } else {
            state.text.extend_from_slice(line);
        }
        drop(state);
        self.0.work.notify_one();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SharedQueue {
    /// Writes lines for as long as the process lives. An error is ignored: a log that cannot be
    /// written is written nowhere else.
    fn write_lines(&self, mut out: impl Write) {
        let mut text = Vec::new();
        loop {
            let lost = self.take_lines(&mut text);
            let _ = out.write_all(&text);
            if lost > 0 {
                let _ = writeln!(
                    out,
                    "softland: {lost} lines of this log were lost, because nothing read it"
                );
            }
            let _ = out.flush();
            text.clear();
            text.shrink_to(KEPT);
            self.lock_state().writing = false;
            self.done.notify_all();
        }
    }

    /// Waits for lines and swaps them with the empty `text`. Returns the number of lines that were
    /// lost after them.
    fn take_lines(&self, text: &mut Vec<u8>) -> u64 {
        let mut state = self.lock_state();
        while state.is_idle() {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.writing = true;
        mem::swap(&mut state.text, text);
        mem::take(&mut state.lost)
    }

    /// Locks the state. A panic leaves the state consistent, since nothing is called while it is
    /// locked.
    fn lock_state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn is_idle(&self) -> bool {
        self.text.is_empty() && self.lost == 0
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        let until = Instant::now() + LAST;
        let mut state = self.0.lock_state();
        while state.writing || !state.is_idle() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.0.done.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A writer that waits for permission to write, and then sends on its input.
    struct Slow {
        let_go: Receiver<()>,
        to: Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let _ = self.let_go.recv();
            let _ = self.to.send(text.to_owned());
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_logs_does_not_wait_and_what_is_lost_is_counted() {
        let (go, let_go) = channel();
        let (to, read) = channel();
        let (lines, log) = start_writer(Slow { let_go, to }).unwrap();
        let line = |size: usize| {
            let text = [vec![b'x'; size - 1], vec![b'\n']].concat();
            lines.make_writer().write_all(&text).unwrap();
        };
        line(10);
        while !log.0.lock_state().writing {
            std::thread::yield_now();
        }
        for _ in 0..20 {
            line(MOST / 16);
        }
        drop(go);
        drop(log);
        let written: Vec<u8> = read.try_iter().flatten().collect();
        let written = String::from_utf8(written).unwrap();
        assert_eq!(written.lines().count(), 1 + 16 + 1);
        let said = written.lines().last().unwrap();
        assert_eq!(said, "softland: 4 lines of this log were lost, because nothing read it");
    }

    #[test]
    fn a_reader_who_never_reads_does_not_hold_up_the_end() {
        let (_go, let_go) = channel();
        let (lines, log) = start_writer(Slow { let_go, to: channel().0 }).unwrap();
        lines.make_writer().write_all(b"a line\n").unwrap();
        let began = Instant::now();
        drop(log);
        assert!(began.elapsed() >= LAST);
    }
}
