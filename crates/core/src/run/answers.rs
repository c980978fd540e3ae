//! The tools whose calls a client takes as answers, as far as its requests show, and what the
//! history says against that. A call of such a tool is the answer until something comes back for it
//! and the run goes on. Then the call was ordinary work, and it counts.
//!
//! Tools that the policy names are not handled here: they are answer tools whatever comes back.

use alloc::string::String;
use alloc::vec::Vec;

use crate::event::Call;
use crate::tables;

/// The most answer tools of one client.
const MOST: usize = 16;
/// The number of times that a client may send the answers of one tool back within a run. After
/// that, the tool counts as a working tool.
const ATTEMPTS: u32 = 3;

/// The answer tools that a client's requests show, and the commands that are known to end a
/// client's run. A command shows what it does only when it is called.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerTools {
    /// True if the client's answers are looked for at all.
    looks: bool,
    shown: Vec<AnswerTool>,
}

#[derive(Clone, Debug)]
struct AnswerTool {
    name: String,
    /// The number of its answers that came back for another attempt.
    sent_back: u32,
    /// True if its result was taken and the run went on.
    works: bool,
}

impl AnswerTool {
    fn new(name: String) -> Self {
        Self { name, sent_back: 0, works: false }
    }

    fn takes_answers(&self) -> bool {
        !self.works && self.sent_back < ATTEMPTS
    }
}

impl AnswerTools {
    /// Creates the set from the tools that the client's request shows as answer tools.
    pub(crate) fn from_shown(tools: Vec<String>) -> Self {
        Self { looks: true, shown: tools.into_iter().take(MOST).map(AnswerTool::new).collect() }
    }

    /// Returns true if calls of this tool are the answer, by all that is known so far.
    pub(crate) fn has_tool(&self, tool: &str) -> bool {
        self.shown.iter().any(|shown| shown.name == tool && shown.takes_answers())
    }

    /// Returns true if this call is the answer.
    pub(crate) fn has_call(&self, call: &Call<'_>) -> bool {
        let ends = || tables::ending_command(call.name, call.input);
        let holds = |name: &str| {
            self.shown.iter().find(|shown| shown.name == name).is_none_or(AnswerTool::takes_answers)
        };
        self.has_tool(call.name) || (self.looks && ends().is_some_and(holds))
    }

    /// Records a result of a tool or of an ending command. `failed` is true if the call has to be
    /// made again, or did not work.
    pub(crate) fn record_result(&mut self, name: &str, failed: bool) {
        let at = self.shown.iter().position(|shown| shown.name == name);
        let at = at.unwrap_or_else(|| {
            self.shown.push(AnswerTool::new(String::from(name)));
            self.shown.len() - 1
        });
        if let Some(shown) = self.shown.get_mut(at) {
            shown.works |= !failed;
            shown.sent_back += u32::from(failed);
        }
    }

    /// Returns the same tools for the client's next run: a working tool remains one.
    pub(crate) fn for_next_run(mut self) -> Self {
        for shown in &mut self.shown {
            shown.sent_back = 0;
        }
        self
    }
}
