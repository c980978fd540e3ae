//! Models that say nothing, too little, half of it, or something that is not an answer.

use super::{Parameter, RequestView};
use crate::json::Json;
use crate::turn::{Part, Stop, Turn};

const RECOVERED: &str = "Sorry, I had stopped without a word. What the tools gave is all I found, \
                         and it answers the question as far as I can tell.";

/// Calls once, then is silent until nudged.
pub(super) fn play_empty(view: &RequestView<'_>, parameter: Option<Parameter>) -> Turn {
    play_silence(view, parameter, Turn::default())
}

/// Calls once, then says only white space until nudged.
pub(super) fn play_whitespace(view: &RequestView<'_>, parameter: Option<Parameter>) -> Turn {
    play_silence(view, parameter, Turn::from_text("\n\n  "))
}

fn play_silence(view: &RequestView<'_>, parameter: Option<Parameter>, silence: Turn) -> Turn {
    if view.nudged && parameter != Some(Parameter::Never) {
        return view.answer_with(RECOVERED);
    }
    let first = view.rounds.is_empty() && view.can_call() && !view.nudged;
    if first { view.call_any(1) } else { silence }
}

/// Calls once, then gives a trivial answer.
pub(super) fn play_trivial(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    if view.rounds.is_empty() && !view.must_answer() {
        view.call_any(1)
    } else {
        view.answer_with("OK.")
    }
}

/// Writes a call as text and invents its result. Makes no real calls.
pub(super) fn play_echo(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    if view.attempt > 0 {
        return view.answer_with("I had invented that result. I have not looked at anything yet.");
    }
    let name = view.any_tool().map_or("read_file", |tool| tool.name);
    view.answer_with(format!(
        "<use_tool>\n{{\"name\": \"{name}\", \"input\": {{\"path\": \"notes.md\"}}}}\n</use_tool>\n\
         [Tool Result]\nThe notes say that everything is fine.\n\nEverything is fine."
    ))
}

/// Gives a cut text, then a cut call, then the whole call, then an answer.
pub(super) fn play_truncator(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    let long = "The first part of what I found is this: the notes begin with a list, and the list \
                goes on until it stops in the middle of a";
    let rest = " sentence, which ends here. That is all there is.";
    match view.attempt {
        _ if view.told => view.answer_with("It ends here, cut short by the limit."),
        0 if view.can_call() => cut_call(view),
        1 if view.rounds.is_empty() && view.can_call() => view.call_any(1),
        0 | 2 => Turn::from_text(long).with_stop(Stop::MaxTokens),
        _ => view.answer_with(rest),
    }
}

fn cut_call(view: &RequestView<'_>) -> Turn {
    let mut turn = view.call_any(1).with_stop(Stop::MaxTokens);
    for part in &mut turn.parts {
        if let Part::Tool { input, .. } = part {
            let half = (0..=input.len() / 2).rev().find(|at| input.is_char_boundary(*at));
            input.truncate(half.unwrap_or(0));
        }
    }
    turn
}

/// Pauses in a search of the provider's: twice, or as often as the parameter says.
pub(super) fn play_pause(view: &RequestView<'_>, parameter: Option<Parameter>) -> Turn {
    let times = match parameter {
        Some(Parameter::Number(n)) => usize::try_from(n).unwrap_or(usize::MAX),
        Some(Parameter::Always) => usize::MAX,
        _ => 2,
    };
    let result = || Part::ServerResult {
        kind: "web_search_tool_result".to_owned(),
        content: Json::List(Vec::new()).to_text(),
    };
    let open: Vec<Part> = (view.paused > 0).then(result).into_iter().collect();
    if view.paused >= times || view.told {
        let answer = view.answer_with("The search is through; it found nothing of use.");
        return Turn::from_parts(open.into_iter().chain(answer.parts).collect());
    }
    let query = format!("{{\"query\":\"search {}\"}}", view.paused + 1);
    let search = Part::ServerTool { name: "web_search".to_owned(), input: query };
    let text = Part::text("Let me search for that.");
    let first = (view.paused == 0).then_some(text);
    Turn::from_parts(open.into_iter().chain(first).chain([search]).collect())
        .with_stop(Stop::PauseTurn)
}

/// Refuses, with or without a text.
pub(super) fn play_refuser(_: &RequestView<'_>, parameter: Option<Parameter>) -> Turn {
    let turn = match parameter {
        Some(Parameter::Text) => Turn::from_text("I can not help with that."),
        _ => Turn::default(),
    };
    turn.with_stop(Stop::Refusal)
}
