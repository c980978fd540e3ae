//! The program that `wrap` runs. Ctrl-C and the end of the console reach it without help, as they
//! reach every process of the console; this process waits for it.

use std::io;
use std::process::ExitStatus;

use tokio::process::Child;

use super::Signals;

/// The exit code of a program that Ctrl-C has ended (STATUS_CONTROL_C_EXIT), and the status that
/// shells on other systems report for it.
const ENDED_BY_CTRL_C: u32 = 0xC000_013A;
const BY_SIGINT: u8 = 130;

/// A listener that keeps Ctrl-C from ending this process before the program.
pub(crate) struct SignalListener(Signals);

impl SignalListener {
    /// Begins to listen.
    ///
    /// # Errors
    /// Returns an error if the system does not let the process listen.
    pub(crate) fn listen() -> io::Result<Self> {
        Signals::listen().map(Self)
    }
}

/// Waits for the program's end.
///
/// # Errors
/// Returns an error if the system cannot tell how the program ended.
pub(crate) async fn wait_for_end(
    mut program: Child,
    mut heard: SignalListener,
) -> io::Result<ExitStatus> {
    loop {
        tokio::select! {
            ended = program.wait() => return ended,
            () = heard.0.next() => {}
        }
    }
}

/// Returns the exit status that reports the program's end. Codes that do not fit are 1.
pub(crate) fn exit_status(ended: ExitStatus) -> u8 {
    let code = ended.code().map_or(1, i32::cast_unsigned);
    if code == ENDED_BY_CTRL_C { BY_SIGINT } else { u8::try_from(code).unwrap_or(1) }
}

#[cfg(test)]
mod tests {
    use std::os::windows::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn statuses_fit_into_a_byte() {
        for (raw, wanted) in [(0, 0), (3, 3), (255, 255), (256, 1), (9009, 1), (0xC000_013A, 130)] {
            assert_eq!(exit_status(ExitStatus::from_raw(raw)), wanted, "{raw}");
        }
    }
}
