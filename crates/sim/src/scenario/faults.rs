//! Models that make bad calls, and providers that fail. When a fault has passed, `reader`
//! continues.

use super::reader::play_reader;
use super::{Parameter, RequestView};
use crate::turn::{Fault, Part, Turn};

/// Makes a call with broken input, then a valid one, then answers.
pub(super) fn play_bad_json(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    after_a_slip(view, |view| {
        let mut turn = view.call_any(1);
        for part in &mut turn.parts {
            if let Part::Tool { input, .. } = part {
                *input = "{\"path\": \"notes.md\", \"pattern\": ".to_owned();
            }
        }
        turn
    })
}

/// Calls an undeclared tool, then a declared one, then answers.
pub(super) fn play_unknown_tool(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    after_a_slip(view, |_| Turn::from_call("consult_oracle", "{\"question\":\"what now\"}"))
}

fn after_a_slip(view: &RequestView<'_>, slip: impl Fn(&RequestView<'_>) -> Turn) -> Turn {
    match view.rounds.len() {
        _ if view.must_answer() => {
            view.answer_with("My first call was wrong, and I was cut short.")
        }
        0 => slip(view),
        1 => view.call_any(1),
        _ => view
            .answer_with("My first call was wrong. The second one worked, and this is the answer."),
    }
}

/// Is overloaded at first.
pub(super) fn play_overloaded(view: &RequestView<'_>, parameter: Option<Parameter>) -> Turn {
    if fault_lasts(view, parameter, 2) {
        Turn::from_status(529, Some(1))
    } else {
        play_reader(view, None)
    }
}

/// Sends an error event in the middle of the answer.
pub(super) fn play_midstream_error(view: &RequestView<'_>, parameter: Option<Parameter>) -> Turn {
    fails_with(view, parameter, Fault::ErrorEvent { after: 6 })
}

/// Breaks the connection in the middle of the answer.
pub(super) fn play_cut(view: &RequestView<'_>, parameter: Option<Parameter>) -> Turn {
    fails_with(view, parameter, Fault::Cut { after: 6 })
}

fn fails_with(view: &RequestView<'_>, parameter: Option<Parameter>, fault: Fault) -> Turn {
    if !fault_lasts(view, parameter, u64::MAX) {
        return play_reader(view, None);
    }
    let text = "What I found so far is a long list, and the most important thing on it, the one \
                that you asked about in the first place and that everything else hangs on, is";
    Turn::from_text(text).with_fault(fault)
}

fn fault_lasts(view: &RequestView<'_>, parameter: Option<Parameter>, default: u64) -> bool {
    let times = match parameter {
        Some(Parameter::Number(n)) => n,
        Some(Parameter::Always) => u64::MAX,
        Some(Parameter::Never) => 0,
        _ => default,
    };
    view.attempt < times
}

/// Begins late and continues slowly.
pub(super) fn play_slow(view: &RequestView<'_>, parameter: Option<Parameter>) -> Turn {
    let first_delay_ms = match parameter {
        Some(Parameter::Number(ms)) => ms,
        _ => 1500,
    };
    Turn { first_delay_ms, delta_delay_ms: first_delay_ms / 10, ..play_reader(view, None) }
}
