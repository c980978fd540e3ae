//! Models that write calls as text, for clients and gateways that read them there. Their state is
//! in their last text.

use super::{Parameter, View};
use crate::turn::Turn;

/// The beginning of every answer of these scenarios: a later question is a new one.
const DONE: &str = "Here is what I found:";

/// Writes a call in a block, and after it words that pretend to know its result.
pub(super) fn tail(view: &View<'_>, _: Option<Parameter>) -> Turn {
    if view.told || !is_fresh(view) {
        return done(view);
    }
    view.answer(format!(
        "Let me look at the notes.\n{}\nThe notes say that everything is fine, I would think. \
         While that runs I can already tell you that nothing is amiss.",
        block(view)
    ))
}

/// Writes a block that breaks off, then the whole block, then an answer.
pub(super) fn partial_tag(view: &View<'_>, _: Option<Parameter>) -> Turn {
    let said = &view.last_words;
    let begun = said.contains("<use_tool>") && !said.contains("</use_tool>");
    if view.told {
        return done(view);
    }
    if is_fresh(view) {
        let block = block(view);
        let half = block.split("\"input\"").next().unwrap_or("");
        return view.answer(format!("Let me look at the notes.\n{half}"));
    }
    if begun { view.answer(block(view)) } else { done(view) }
}

fn is_fresh(view: &View<'_>) -> bool {
    view.last_words.is_empty() || view.last_words.starts_with(DONE)
}

fn done(view: &View<'_>) -> Turn {
    view.answer(format!("{DONE} the notes hold what was asked for, as far as I could see."))
}

fn block(view: &View<'_>) -> String {
    let name = view.any_tool().map_or("read_file", |tool| tool.name);
    format!(
        "<use_tool>\n{{\"name\": \"{name}\", \"input\": {{\"path\": \"notes.md\"}}}}\n</use_tool>"
    )
}
