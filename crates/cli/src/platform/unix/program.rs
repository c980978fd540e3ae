//! The program that `wrap` runs: it receives every signal, and is waited for.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::{Handle, SignalsInfo};
use signal_hook::low_level::siginfo::{Cause, Origin};
use tokio::process::Child;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The signals that are passed on to the program.
const PASSED_ON: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// A listener for signals to the program. Once it exists, the signals no longer end this process by
/// themselves.
pub(crate) struct SignalListener {
    signals: UnboundedReceiver<Origin>,
    handle: Handle,
}

impl SignalListener {
    /// Begins to listen.
    ///
    /// # Errors
    /// Returns an error if the system does not let the process listen.
    pub(crate) fn listen() -> io::Result<Self> {
        let mut signals = SignalsInfo::<WithOrigin>::new(PASSED_ON)?;
        let handle = signals.handle();
        // The channel may be unbounded: people and supervisors send few signals.
        let (to, from) = unbounded_channel();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for origin in signals.forever() {
                if to.send(origin).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { signals: from, handle })
    }
}

impl Drop for SignalListener {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// Waits for the program's end and passes signals on to it.
///
/// # Errors
/// Returns an error if the system cannot tell how the program ended.
pub(crate) async fn wait_for_end(
    mut program: Child,
    mut heard: SignalListener,
) -> io::Result<ExitStatus> {
    let mut open = true;
    loop {
        tokio::select! {
            ended = program.wait() => return ended,
            origin = heard.signals.recv(), if open => match origin {
                Some(origin) => pass_signal(&program, &origin),
                None => open = false,
            },
        }
    }
}

/// Sends a signal to the program, unless the program has received it already.
fn pass_signal(program: &Child, origin: &Origin) {
    // A program that was waited for has no id: the id may belong to another process by then.
    let Some(id) = program.id().and_then(|id| i32::try_from(id).ok()) else { return };
    let sender = origin.process.as_ref().map(|sender| sender.pid);
    if has_received(origin.cause, sender, id) {
        return;
    }
    if let (Some(id), Some(signal)) = (Pid::from_raw(id), Signal::from_named_raw(origin.signal)) {
        // The program may have ended just now.
        let _ = kill_process(id, signal);
    }
}

/// Returns true if the program has received the signal already. Keys of the terminal (Ctrl-C) reach
/// every process in the foreground, and some programs treat a repeated signal differently. The same
/// holds for a signal that the program sent itself.
fn has_received(cause: Cause, sender: Option<i32>, program: i32) -> bool {
    cause == Cause::Kernel || sender == Some(program)
}

/// Returns the exit status that reports the program's end: its own, or 128 and the signal that
/// ended it.
pub(crate) fn exit_status(ended: ExitStatus) -> u8 {
    let code = ended.code().or_else(|| ended.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use signal_hook::low_level::siginfo::Sent;

    use super::*;

    #[test]
    fn keys_of_the_terminal_are_not_sent_twice() {
        let kill = Cause::Sent(Sent::User);
        for (cause, sender, wanted) in [
            (Cause::Kernel, None, true),
            (kill, Some(7), true),
            (kill, Some(8), false),
            (Cause::Sent(Sent::Queue), Some(8), false),
            (Cause::Unknown, None, false),
        ] {
            assert_eq!(has_received(cause, sender, 7), wanted, "{cause:?} {sender:?}");
        }
    }

    #[test]
    fn statuses_are_a_shells() {
        for (raw, wanted) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, 137), (15, 143), (2, 130)] {
            assert_eq!(exit_status(ExitStatus::from_raw(raw)), wanted, "{raw}");
        }
    }
}
