//! Models that do not end by themselves. All but `stubborn` and `mute` obey when told to answer. No
//! real model can call a tool where `tool_choice` is `none`.

use super::{Parameter, RequestView};
use crate::turn::{Part, Turn};

const TOLD: &str = "I was told to answer now. I went in circles and have nothing better than this: \
                    the calls I made kept giving the same.";

/// Repeats the same call with the same arguments.
pub(super) fn play_looper(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    if view.must_answer() { view.answer_with(TOLD) } else { view.call_any(1) }
}

/// Alternates between two calls.
pub(super) fn play_alternator(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    let n = 1 + (view.rounds.len() as u64 % 2);
    if view.must_answer() { view.answer_with(TOLD) } else { view.call_any(n) }
}

/// Calls one tool with new arguments each time.
pub(super) fn play_sweeper(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    if view.must_answer() {
        return view.answer_with(format!(
            "I went through {} places one by one and was told to answer before the end.",
            view.rounds.len()
        ));
    }
    view.call_any(1 + view.rounds.len() as u64)
}

/// Asks for the same state again and again, and ends when the state changes.
pub(super) fn play_poller(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    let results: Vec<&str> = view.calls().map(|c| c.result.as_str()).collect();
    let changed = results.windows(2).any(|pair| matches!(pair, [a, b] if a != b));
    if view.must_answer() || changed {
        let state = results.last().map_or("nothing", |last| last.lines().next().unwrap_or(""));
        return view.answer_with(format!("After {} looks the state is: {state}", results.len()));
    }
    let input = |tool: &crate::history::Tool<'_>| Turn::from_call(tool.name, tool.example_input(0));
    let polls = ["status", "wait", "poll", "check", "list"];
    view.tool_like(&polls).map_or_else(|| view.call_any(1), input)
}

/// Makes six calls at once, three times.
pub(super) fn play_parallel(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    if view.must_answer() || view.rounds.len() >= 3 {
        let (calls, failed) = (view.calls().count(), view.calls().filter(|c| c.failed).count());
        return view.answer_with(format!(
            "I made {calls} calls in {} batches; {failed} of them failed.",
            view.rounds.len()
        ));
    }
    let first = 1 + 6 * view.rounds.len() as u64;
    Turn::from_parts((first..first + 6).flat_map(|n| view.call_any(n).parts).collect())
}

/// Goes on calling, whatever it is told.
pub(super) fn play_stubborn(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    if view.can_call() {
        return view.call_any(1 + view.rounds.len() as u64);
    }
    view.answer_with("Without tools I can only say that I was not finished.")
}

/// Goes on calling, and says nothing without tools.
pub(super) fn play_mute(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    if view.can_call() {
        return view.call_any(1 + view.rounds.len() as u64);
    }
    Turn::from_parts(Vec::<Part>::new())
}
