//! The tools by which a client takes its answers, as far as its requests show them, and what the
//! history says against that. A call of such a tool is the answer until something comes back for
//! it and the run goes on: then it was work like any other, and counts.
//!
//! Tools that the policy names are not looked at here: they are answer tools whatever comes back.

use alloc::string::String;
use alloc::vec::Vec;

use crate::event::Call;
use crate::tables;

/// Tools that one client may take its answers by.
const MOST: usize = 16;
/// Times that a client may send the answers of one tool back within a run, before the tool is one
/// that works.
const ATTEMPTS: u32 = 3;

/// The answer tools that a client's requests show, and commands that are known to end a client's
/// run: what they do is not known before they are called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// Whether anybody's answers are looked for.
    looks: bool,
    shown: Vec<Shown>,
}

#[derive(Clone, Debug)]
struct Shown {
    name: String,
    /// How many of its answers came back for another attempt.
    sent_back: u32,
    /// Its result was taken, and the run went on.
    works: bool,
}

impl Shown {
    fn new(name: String) -> Self {
        Self { name, sent_back: 0, works: false }
    }

    fn holds(&self) -> bool {
        !self.works && self.sent_back < ATTEMPTS
    }
}

impl Answers {
    /// Tools that the client's request shows for answer tools.
    pub(crate) fn shown(tools: Vec<String>) -> Self {
        Self { looks: true, shown: tools.into_iter().take(MOST).map(Shown::new).collect() }
    }

    /// Whether calls of this tool are the answer, by all that is known so far.
    pub(crate) fn has_tool(&self, tool: &str) -> bool {
        self.shown.iter().any(|shown| shown.name == tool && shown.holds())
    }

    /// Whether this call is the answer.
    pub(crate) fn has(&self, call: &Call<'_>) -> bool {
        let ends = || tables::ending_command(call.name, call.input);
        let holds = |name: &str| {
            self.shown.iter().find(|shown| shown.name == name).is_none_or(Shown::holds)
        };
        self.has_tool(call.name) || (self.looks && ends().is_some_and(holds))
    }

    /// A result came back of a tool, or of an ending command. `failed`: it is to be called again, or
    /// did not work.
    pub(crate) fn came_back(&mut self, name: &str, failed: bool) {
        let at = self.shown.iter().position(|shown| shown.name == name);
        let at = at.unwrap_or_else(|| {
            self.shown.push(Shown::new(String::from(name)));
            self.shown.len() - 1
        });
        if let Some(shown) = self.shown.get_mut(at) {
            shown.works |= !failed;
            shown.sent_back += u32::from(failed);
        }
    }

    /// The same for the client's next run: what works goes on working.
    pub(crate) fn of_next_run(mut self) -> Self {
        for shown in &mut self.shown {
            shown.sent_back = 0;
        }
        self
    }
}
