//! The only module that writes to the process's streams.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use softland_agent::Event;
use terminal_size::{Height, Width};

use super::pieces::{OutputStream, Piece, Style};
use super::progress::ProgressBar;
use super::status::{self, StatusLine};
use super::text::make_harmless;
use crate::failure::Failure;
use crate::platform;

/// The columns if there is no terminal.
const NO_TERMINAL: usize = 100;
/// The columns of a terminal that does not report its size.
const SILENT_TERMINAL: usize = 80;

/// The part of the output that standard output did not take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutputLoss {
    /// Nothing: everything was written.
    #[default]
    Nothing,
    /// The reader has closed the stream, which is the reader's own choice.
    Closed,
    /// The output could not be written, for example to a full disk. The error was reported on
    /// standard error.
    Failed,
}

/// The writer of standard output and standard error.
#[derive(Debug)]
pub(crate) struct Writer {
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    /// True if the terminal understands colours and movements of its cursor.
    able: bool,
    colour: bool,
    answer_colour: bool,
    lost: OutputLoss,
}

impl Writer {
    /// Creates a writer for the streams of this process.
    pub(crate) fn for_process() -> Self {
        let stderr_is_terminal = io::stderr().is_terminal();
        let stdout_is_terminal = io::stdout().is_terminal();
        let able = (stderr_is_terminal || stdout_is_terminal) && platform::prepare_terminal();
        let env = |name: &str| std::env::var(name).ok();
        Self {
            stdout_is_terminal,
            stderr_is_terminal,
            able,
            colour: wants_colour(stderr_is_terminal && able, &env),
            // An answer that is not written to a terminal keeps its bytes, even if colours are
            // forced.
            answer_colour: stdout_is_terminal && wants_colour(able, &env),
            lost: OutputLoss::Nothing,
        }
    }

    /// Returns true if standard output is a terminal.
    pub(crate) fn stdout_is_terminal(&self) -> bool {
        self.stdout_is_terminal
    }

    /// Returns true if standard error takes colours.
    pub(crate) fn colour(&self) -> bool {
        self.colour
    }

    /// Returns true if standard output is a terminal that takes colours.
    pub(crate) fn answer_colour(&self) -> bool {
        self.answer_colour
    }

    /// Returns a progress bar, if standard error is a terminal that can show one.
    pub(crate) fn progress_bar(&self) -> Option<ProgressBar> {
        let can = platform::moves_cursor(std::env::var("TERM").ok().as_deref());
        (self.stderr_is_terminal && self.able && can).then(|| ProgressBar::new(self.width()))
    }

    /// Returns the loss on standard output. After a loss nothing more is written there.
    pub(crate) fn output_loss(&self) -> OutputLoss {
        self.lost
    }

    /// Shows a status line, if standard error is a terminal that a person looks at.
    pub(crate) fn show_status(&self) -> Option<StatusLine> {
        let env = |name: &str| std::env::var(name).ok();
        wants_status(self.stderr_is_terminal && self.able, &env).then(|| {
            let remote = env("SSH_CONNECTION").or_else(|| env("SSH_TTY")).is_some();
            StatusLine::show_line(remote, || {
                terminal_columns(terminal_size::terminal_size_of(io::stderr()))
            })
        })
    }

    /// Returns the current columns of the terminal.
    pub(crate) fn width(&self) -> usize {
        let size = if self.stderr_is_terminal {
            terminal_size::terminal_size_of(io::stderr())
        } else if self.stdout_is_terminal {
            terminal_size::terminal_size_of(io::stdout())
        } else {
            return NO_TERMINAL;
        };
        terminal_columns(size)
    }

    /// Writes pieces in order, each to its stream.
    pub(crate) fn write_pieces(&mut self, pieces: &[Piece]) {
        for group in pieces.chunk_by(|a, b| a.to == b.to) {
            match group.first().map(|piece| piece.to) {
                Some(OutputStream::Answer) => {
                    let text = style_text(group, self.answer_colour);
                    self.write_stdout(text.as_bytes());
                }
                Some(OutputStream::Notes) => self.write_stderr(group),
                None => {}
            }
        }
    }

    /// Writes an event as a line of JSON.
    pub(crate) fn write_event(&mut self, event: &Event) {
        // Serialization cannot fail: the values are softland's own types, whose maps have texts as
        // keys.
        if let Ok(mut line) = serde_json::to_vec(event) {
            line.push(b'\n');
            self.write_stdout(&line);
        }
    }

    /// Writes a requested text to standard output.
    pub(crate) fn write_result(&mut self, text: &str) {
        self.write_stdout(text.as_bytes());
    }

    /// Writes a requested text to a terminal, with control characters made harmless.
    pub(crate) fn write_harmless_result(&mut self, text: &str) {
        self.write_stdout(make_harmless(text).as_bytes());
    }

    /// Writes a note to standard error.
    pub(crate) fn write_note(&self, text: &str) {
        self.write_stderr(&[Piece::note(Style::Plain, format!("{}\n", make_harmless(text)))]);
    }

    /// Writes a warning to standard error.
    pub(crate) fn write_warning(&self, text: &str) {
        self.write_stderr(&[
            Piece::note(Style::Bold, "warning: "),
            Piece::note(Style::Plain, format!("{}\n", make_harmless(text))),
        ]);
    }

    /// Reports the failure of a command, and returns its exit status.
    pub(crate) fn report_failure(&self, failure: &Failure) -> ExitCode {
        for message in &failure.messages {
            let message = make_harmless(message);
            let head = if failure.plain { "" } else { "error: " };
            let end = if message.ends_with('\n') { "" } else { "\n" };
            self.write_stderr(&[
                Piece::note(Style::Bad, head),
                Piece::note(Style::Plain, format!("{message}{end}")),
            ]);
        }
        failure.exit_code()
    }

    fn write_stdout(&mut self, bytes: &[u8]) {
        if self.lost != OutputLoss::Nothing {
            return;
        }
        // The notes are not held up by a slow reader of standard output that is not the terminal.
        let room = self.stdout_is_terminal.then(|| status::make_room(bytes));
        let mut out = io::stdout().lock();
        let written = out.write_all(bytes).and_then(|()| out.flush());
        drop(room);
        if let Err(error) = written {
            // A reader that closed the stream is not an error to report.
            if error.kind() == io::ErrorKind::BrokenPipe {
                self.lost = OutputLoss::Closed;
            } else {
                self.lost = OutputLoss::Failed;
                self.write_note(&format!("error: standard output cannot be written: {error}"));
            }
        }
    }

    fn write_stderr(&self, pieces: &[Piece]) {
        let text = style_text(pieces, self.colour);
        let _room = self.stderr_is_terminal.then(|| status::make_room(text.as_bytes()));
        // If standard error is gone, the error cannot be reported anywhere.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

fn terminal_columns(size: Option<(Width, Height)>) -> usize {
    match size {
        Some((Width(columns), _)) if columns > 0 => usize::from(columns),
        _ => SILENT_TERMINAL,
    }
}

/// Returns the text of pieces, with their styles if there are colours.
fn style_text(pieces: &[Piece], colour: bool) -> String {
    let mut text = String::new();
    for piece in pieces {
        match piece.style.sgr().filter(|_| colour && !piece.text.is_empty()) {
            Some(sgr) => {
                let end = piece.text.trim_end_matches('\n').len();
                let (body, newlines) = piece.text.split_at_checked(end).unwrap_or_default();
                text.push_str(&format!("\u{1b}[{sgr}m{body}\u{1b}[0m{newlines}"));
            }
            None => text.push_str(&piece.text),
        }
    }
    text
}

/// Returns true if a stream should have colours. `NO_COLOR` (no-color.org) takes precedence, then
/// `CLICOLOR_FORCE` (bixense.com/clicolors). Otherwise colours need a terminal that supports them
/// and a person who looks at it: in CI there is none.
fn wants_colour(is_terminal: bool, env: &dyn Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| env(name).is_some_and(|value| !value.is_empty());
    if set("NO_COLOR") {
        return false;
    }
    if set("CLICOLOR_FORCE") && env("CLICOLOR_FORCE").as_deref() != Some("0") {
        return true;
    }
    is_terminal && !set("CI") && env("TERM").is_none_or(|term| term != "dumb")
}

/// Returns true if a status line can be shown. It needs a terminal that moves its cursor and a
/// person who looks at it.
fn wants_status(is_terminal: bool, env: &dyn Fn(&str) -> Option<String>) -> bool {
    let in_ci = env("CI").is_some_and(|value| !value.is_empty());
    is_terminal && !in_ci && platform::moves_cursor(env("TERM").as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        for (terminal, vars, wanted) in [
            (true, &[][..], true),
            (false, &[][..], false),
            (true, &[("NO_COLOR", "1")][..], false),
            (true, &[("NO_COLOR", "")][..], true),
            (true, &[("TERM", "dumb")][..], false),
            (true, &[("TERM", "xterm")][..], true),
            (true, &[("CI", "true"), ("TERM", "xterm")][..], false),
            (false, &[("CLICOLOR_FORCE", "1")][..], true),
            (false, &[("CLICOLOR_FORCE", "0")][..], false),
            (true, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")][..], false),
        ] {
            let env = |name: &str| {
                vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(wants_colour(terminal, &env), wanted, "{terminal} {vars:?}");
        }
    }
}
