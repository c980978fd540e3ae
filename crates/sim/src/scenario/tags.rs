//! Models that write calls as text, for clients and gateways that read them there. Their state is
//! in their last text.

use super::{Parameter, RequestView};
use crate::turn::Turn;

/// The beginning of every answer of these scenarios: a later question is a new one.
const DONE: &str = "Here is what I found:";

/// Writes a call in a block, and after it words that pretend to know its result.
pub(super) fn play_tail(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    if view.told || !is_fresh(view) {
        return finish_answer(view);
    }
    view.answer_with(format!(
        "Let me look at the notes.\n{}\nThe notes say that everything is fine, I would think. \
         While that runs I can already tell you that nothing is amiss.",
        call_block(view)
    ))
}

/// Writes a block that breaks off, then the whole block, then an answer.
pub(super) fn play_partial_tag(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    let said = &view.last_words;
    let begun = said.contains("<use_tool>") && !said.contains("</use_tool>");
    if view.told {
        return finish_answer(view);
    }
    if is_fresh(view) {
        let block = call_block(view);
        let half = block.split("\"input\"").next().unwrap_or("");
        return view.answer_with(format!("Let me look at the notes.\n{half}"));
    }
    if begun { view.answer_with(call_block(view)) } else { finish_answer(view) }
}

fn is_fresh(view: &RequestView<'_>) -> bool {
    view.last_words.is_empty() || view.last_words.starts_with(DONE)
}

fn finish_answer(view: &RequestView<'_>) -> Turn {
    view.answer_with(format!("{DONE} the notes hold what was asked for, as far as I could see."))
}

fn call_block(view: &RequestView<'_>) -> String {
    let name = view.any_tool().map_or("read_file", |tool| tool.name);
    format!(
        "<use_tool>\n{{\"name\": \"{name}\", \"input\": {{\"path\": \"notes.md\"}}}}\n</use_tool>"
    )
}
