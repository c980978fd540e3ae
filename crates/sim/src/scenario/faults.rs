//! Models that call wrongly, and providers that fail. Where a fault passes, `reader` goes on.

use super::reader::reader;
use super::{Parameter, View};
use crate::turn::{Fault, Part, Turn};

/// A broken input, then a whole one, then the answer.
pub(super) fn bad_json(view: &View<'_>, _: Option<Parameter>) -> Turn {
    after_a_slip(view, |view| {
        let mut turn = view.call(1);
        for part in &mut turn.parts {
            if let Part::Tool { input, .. } = part {
                *input = "{\"path\": \"notes.md\", \"pattern\": ".to_owned();
            }
        }
        turn
    })
}

/// A tool that nobody declared, then a declared one, then the answer.
pub(super) fn unknown_tool(view: &View<'_>, _: Option<Parameter>) -> Turn {
    after_a_slip(view, |_| Turn::call("consult_oracle", "{\"question\":\"what now\"}"))
}

fn after_a_slip(view: &View<'_>, slip: impl Fn(&View<'_>) -> Turn) -> Turn {
    match view.rounds.len() {
        _ if view.must_answer() => view.answer("My first call was wrong, and I was cut short."),
        0 => slip(view),
        1 => view.call(1),
        _ => view.answer("My first call was wrong. The second one worked, and this is the answer."),
    }
}

/// Too busy at first.
pub(super) fn overloaded(view: &View<'_>, parameter: Option<Parameter>) -> Turn {
    if lasts(view, parameter, 2) { Turn::fail(529, Some(1)) } else { reader(view, None) }
}

/// An error event while the answer is being written.
pub(super) fn midstream(view: &View<'_>, parameter: Option<Parameter>) -> Turn {
    fails_with(view, parameter, Fault::ErrorEvent { after: 6 })
}

/// A connection that breaks while the answer is being written.
pub(super) fn cut(view: &View<'_>, parameter: Option<Parameter>) -> Turn {
    fails_with(view, parameter, Fault::Cut { after: 6 })
}

fn fails_with(view: &View<'_>, parameter: Option<Parameter>, fault: Fault) -> Turn {
    if !lasts(view, parameter, u64::MAX) {
        return reader(view, None);
    }
    let text = "What I found so far is a long list, and the most important thing on it, the one \
                that you asked about in the first place and that everything else hangs on, is";
    Turn::say(text).failing(fault)
}

fn lasts(view: &View<'_>, parameter: Option<Parameter>, default: u64) -> bool {
    let times = match parameter {
        Some(Parameter::Number(n)) => n,
        Some(Parameter::Always) => u64::MAX,
        Some(Parameter::Never) => 0,
        _ => default,
    };
    view.attempt < times
}

/// Late to begin and slow to go on.
pub(super) fn slow(view: &View<'_>, parameter: Option<Parameter>) -> Turn {
    let first_delay_ms = match parameter {
        Some(Parameter::Number(ms)) => ms,
        _ => 1500,
    };
    Turn { first_delay_ms, delta_delay_ms: first_delay_ms / 10, ..reader(view, None) }
}
