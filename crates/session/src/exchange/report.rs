//! Reports to an observer of what an exchange sees and does.

use softland_core::{
    Admission, Because, Call, MessageEffects, Reason, Run, Rung, Signal, SignalKind, TurnClass,
};

use crate::out::{Event, Intervention, Output};

/// Reports what would have been done about an empty turn.
pub(super) fn report_observed(run: &Run, class: TurnClass, out: &mut Output) {
    if class != TurnClass::Empty {
        return;
    }
    let (empties, limit) = (run.empty_in_row() + 1, run.policy().empty_limit.max(1));
    let because = Because::from_counts(Reason::Empty, empties, limit);
    let turn = run.used().turns + 1;
    if empties < limit {
        return report_empty(turn, &because, out);
    }
    let signal = Signal::from_turn(SignalKind::Empty, turn, Some(because.clone()));
    out.events.push(Event::Signal(signal));
    report_rung(Rung::LocalAnswer, Some(&because), None, out);
}

/// Reports what the newest message led to. Lines that no request carries are not reported.
pub(super) fn report_effects(newest: MessageEffects, sent: bool, out: &mut Output) {
    out.events.extend(newest.signals.into_iter().map(Event::Signal));
    if !sent {
        return;
    }
    out.events.extend(newest.additions.into_iter().map(|addition| Event::Intervention {
        intervention: addition.kind.into(),
        because: addition.because,
        text: Some(addition.text),
    }));
}

/// Reports a note that stands behind the history.
pub(super) fn report_ask(because: &Because, out: &mut Output) {
    out.events.push(Event::Intervention {
        intervention: Intervention::Ask,
        because: Some(because.clone()),
        text: Some(softland_core::lines::format_ask(because)),
    });
}

pub(super) fn report_rung(
    rung: Rung,
    because: Option<&Because>,
    advice: Option<String>,
    out: &mut Output,
) {
    let intervention = Intervention::from(rung);
    out.events.extend(advice.clone().map(Event::Advice));
    out.events.push(Event::Intervention { intervention, because: because.cloned(), text: advice });
}

/// Reports calls that are taken out of a turn which goes on: once for each limit that refuses some
/// of them.
pub(super) fn report_taken_out(calls: &[Call<'_>], admissions: &[Admission], out: &mut Output) {
    let mut taken: Vec<(&Because, Vec<&str>)> = Vec::new();
    for (call, admission) in calls.iter().zip(admissions) {
        let (Admission::Refused(because) | Admission::ToolRefused(because)) = admission else {
            continue;
        };
        match taken.iter_mut().find(|(known, _)| known.reason == because.reason) {
            Some((_, names)) => names.push(call.name),
            None => taken.push((because, vec![call.name])),
        }
    }
    for (because, names) in taken {
        out.events.push(Event::Intervention {
            intervention: Intervention::Refuse,
            because: Some(because.clone()),
            text: Some(format!("taken out of the turn: {}", names.join(", "))),
        });
    }
}

/// Reports an empty turn that is nudged.
pub(super) fn report_empty(turn: u64, because: &Because, out: &mut Output) {
    out.events.push(Event::Signal(Signal::from_turn(
        SignalKind::Empty,
        turn,
        Some(because.clone()),
    )));
    out.events.push(Event::Intervention {
        intervention: Intervention::Nudge,
        because: Some(because.clone()),
        text: Some(softland_core::lines::NUDGE.to_owned()),
    });
}
