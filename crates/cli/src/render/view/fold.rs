//! Long results: their first lines, and the command that shows the rest.

use softland_agent::AGENT_TOOL;
use unicode_width::UnicodeWidthStr as _;

use super::super::pieces::Style;
use super::super::text::{group_digits, split_chunks};
use super::RunView;

/// The lines of a result that are shown, without and with `-v`.
const FOLD: usize = 4;
const FOLD_VERBOSE: usize = 40;

/// The arguments with which `softland show` finds the calls of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallLocator {
    /// The run's id, or the path of its journal.
    pub(crate) run: String,
    /// The position of the call that a sub-agent's run answers, followed by a slash.
    pub(crate) within: String,
}

impl RunView {
    /// Sets the arguments with which the run's calls are looked up.
    pub(crate) fn set_locator(&mut self, kept: Option<CallLocator>) {
        self.kept = kept;
    }

    /// Returns the arguments with which the calls of a sub-agent's run are looked up.
    pub(crate) fn locator_within(&self, id: &str) -> Option<CallLocator> {
        let CallLocator { run, within } = self.kept.clone()?;
        let at = self.calls.iter().position(|(known, answered)| known == id && !answered)?;
        Some(CallLocator { run, within: format!("{within}{}.{}/", self.turn, at + 1) })
    }

    pub(super) fn show_result(
        &mut self,
        (id, name): (&str, &str),
        ok: bool,
        content: &str,
        ms: u64,
    ) {
        let at = self.calls.iter().position(|(known, answered)| known == id && !answered);
        if let Some((_, answered)) = at.and_then(|at| self.calls.get_mut(at)) {
            *answered = true;
        }
        let style = if ok { Style::Dim } else { Style::Bad };
        if self.calls.len() > 1 || !ok {
            let failed = if ok { "" } else { " failed" };
            self.push_note(style, &format!("  {name}{failed} · {ms} ms"));
        }
        let content = content.trim_end();
        if self.show.verbose > 1 {
            return self.show_whole(style, content);
        }
        let fold = match (self.show.verbose, &self.kept) {
            // The answer of a sub-agent is shown nowhere else.
            (_, None) if name == AGENT_TOOL => usize::MAX - 1,
            (0, _) => FOLD,
            _ => FOLD_VERBOSE,
        };
        let total = content.lines().count();
        let shown = if total <= fold + 1 { total } else { fold };
        for text in content.lines().take(shown) {
            self.push_note(style, &format!("  │ {text}"));
        }
        if shown < total {
            let more = format!("  … {} more lines", group_digits((total - shown) as u64));
            let how = self.format_show_command(at, self.width.saturating_sub(more.width()));
            self.push_note(style, &(more + &how));
        }
    }

    /// Returns the command that shows the whole call, shortened to fit `room` columns.
    fn format_show_command(&self, at: Option<usize>, room: usize) -> String {
        let (Some(CallLocator { run, within }), Some(at)) = (&self.kept, at) else {
            return String::new();
        };
        let place = format!("--call {within}{}.{}", self.turn, at + 1);
        [format!(": softland show {run} {place}"), format!(" ({place})")]
            .into_iter()
            .find(|how| how.width() <= room)
            .unwrap_or_default()
    }

    /// Shows every line, wrapped as needed.
    pub(super) fn show_whole(&mut self, style: Style, content: &str) {
        for text in content.lines() {
            for part in split_chunks(text, self.width.saturating_sub(4)) {
                self.push_note(style, &format!("  │ {part}"));
            }
        }
    }
}
