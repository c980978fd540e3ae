//! Models that make bad calls, and providers that fail. When a fault has passed, `reader`
//! continues.

use super::reader::reader;
use super::{Parameter, View};
use crate::turn::{Fault, Part, Turn};

/// Makes a call with broken input, then a valid one, then answers.
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

/// Calls an undeclared tool, then a declared one, then answers.
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

/// Is overloaded at first.
pub(super) fn overloaded(view: &View<'_>, parameter: Option<Parameter>) -> Turn {
    if lasts(view, parameter, 2) { Turn::fail(529, Some(1)) } else { reader(view, None) }
}

/// Sends an error event in the middle of the answer.
pub(super) fn midstream(view: &View<'_>, parameter: Option<Parameter>) -> Turn {
    fails_with(view, parameter, Fault::ErrorEvent { after: 6 })
}

/// Breaks the connection in the middle of the answer.
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

/// Begins late and continues slowly.
pub(super) fn slow(view: &View<'_>, parameter: Option<Parameter>) -> Turn {
    let first_delay_ms = match parameter {
        Some(Parameter::Number(ms)) => ms,
        _ => 1500,
    };
    Turn { first_delay_ms, delta_delay_ms: first_delay_ms / 10, ..reader(view, None) }
}
