//! A session through the core's fold, as the gateway would read it; nothing is changed by it.

use std::collections::BTreeMap;

use softland_session::core::policy::{Mode, Policy};
use softland_session::core::{
    Call, Facts, FinishedTurn, Phase, Role, Signal, SignalKind, Stop, ToolResult, Transcript,
    UserMessage, UserText, VisibleText,
};

use crate::read::{Message, Session, Turn};

/// What was seen first.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    /// The turn of the session after which it was seen, from 1.
    pub(crate) turn: usize,
    pub(crate) rule: &'static str,
    /// What a person can check it by.
    pub(crate) evidence: String,
}

/// The limits that are varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) repeat: u64,
    pub(crate) cycle: u64,
    pub(crate) errors: u64,
    pub(crate) empty: u64,
    /// Calls within which the members of a repeat stand; the core's own window is 24.
    pub(crate) window: u64,
}

/// The core's window.
pub(crate) const WINDOW: u64 = 24;

impl Default for Limits {
    fn default() -> Self {
        let policy = Policy::default();
        Self {
            repeat: policy.repeat_limit,
            cycle: policy.cycle_limit,
            errors: policy.error_limit,
            empty: policy.empty_limit,
            window: WINDOW,
        }
    }
}

/// How far a run is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// To the first signal that has reached its limit: it is listed, and the model is told.
    Seen,
    /// To where the run would have been landed or stopped, had the model gone on as it did.
    Landed,
}

/// Where a session is flagged, if it is.
pub(crate) fn flag(session: &Session, limits: Limits, until: Until) -> Option<Flag> {
    let policy = Policy {
        mode: if until == Until::Seen { Mode::Observe } else { Mode::Enforce },
        repeat_limit: limits.repeat,
        cycle_limit: limits.cycle,
        error_limit: limits.errors,
        empty_limit: limits.empty,
        ..Policy::default()
    };
    let mut transcript = Transcript::new(Role::Gateway, policy, BTreeMap::new());
    // Calls of the run before each of its turns, as the window counts them.
    let mut before = vec![0];
    let mut turn = 0;
    let mut messages = session.messages.iter().peekable();
    while let Some(message) = messages.next() {
        let (results, mut texts) = match message {
            Message::Model(said) => {
                turn += 1;
                model(&mut transcript, said);
                if let Some(run) = transcript.current_run() {
                    let empty = run.empty_in_row();
                    if empty >= limits.empty.max(1) {
                        let evidence = format!("{empty} empty turns in a row");
                        return Some(Flag { turn, rule: "empty", evidence });
                    }
                    before.resize(run.used().turns as usize + 1, run.used().calls);
                }
                continue;
            }
            Message::User(text) => (&[][..], vec![UserText::new(text)]),
            Message::Results(answers) => (answers.as_slice(), Vec::new()),
        };
        if !results.is_empty()
            && let Some(Message::User(text)) = messages.peek()
        {
            texts.push(UserText::new(text));
            messages.next();
        }
        let results = results.iter().map(|a| ToolResult { id: (&a.id).into(), ..a.read }).collect();
        let step = transcript.add_user_message(&UserMessage { results, texts, ..UserMessage::default() }, None);
        if step.starts_run {
            before = vec![0];
        }
        let open = transcript.current_run().is_none_or(|run| *run.phase() == Phase::Open);
        let listed = |signal: &&Signal| {
            let far_enough = until == Until::Seen || !open;
            signal.because.is_some() && far_enough && within(signal, limits, &before)
        };
        if let Some(signal) = step.signals.iter().find(listed) {
            return Some(Flag { turn, rule: signal.signal.word(), evidence: told(signal) });
        }
    }
    None
}

/// How often one context must be answered in vain for `stale`, at the middle of a session: the store
/// counts the answers, so the count comes in as a fact.
pub(crate) fn stale_at(session: &Session) -> Option<u64> {
    let policy = Policy { mode: Mode::Observe, ..Policy::default() };
    let mut transcript = Transcript::new(Role::Gateway, policy, BTreeMap::new());
    let middle = session.messages.len() / 2;
    for (at, message) in session.messages.iter().enumerate() {
        let user = match message {
            Message::Model(said) => {
                model(&mut transcript, said);
                continue;
            }
            Message::User(text) => UserMessage { texts: vec![UserText::new(text)], ..UserMessage::default() },
            Message::Results(answers) => {
                let results =
                    answers.iter().map(|a| ToolResult { id: (&a.id).into(), ..a.read }).collect();
                UserMessage { results, ..UserMessage::default() }
            }
        };
        if at < middle {
            transcript.add_user_message(&user, None);
            continue;
        }
        return (0..10).find(|stale| {
            let facts = Facts { stale: *stale, ..Facts::default() };
            let step = transcript.clone().add_user_message(&user, Some(&facts));
            step.signals.iter().any(|signal| signal.signal == SignalKind::Stale)
        });
    }
    None
}

/// Whether enough members of a repeat stand within the window, where that is narrower than the core's.
fn within(signal: &Signal, limits: Limits, before: &[u64]) -> bool {
    if signal.signal != SignalKind::Repeat || limits.window >= WINDOW {
        return true;
    }
    let calls = |turn: &u64| before.get((*turn as usize).saturating_sub(1)).copied().unwrap_or(0);
    let now = signal.evidence.turns.last().map_or(0, calls);
    let near = signal.evidence.turns.iter().filter(|turn| calls(turn) + limits.window > now);
    near.count() as u64 >= limits.repeat
}

fn told(signal: &Signal) -> String {
    let because = signal.because.as_ref().map(|because| format!("{because:?}"));
    let call = signal.evidence.call.as_deref().or(signal.evidence.text.as_deref());
    format!(
        "turns {:?}, {}, {}",
        signal.evidence.turns,
        call.unwrap_or(""),
        because.unwrap_or_default()
    )
}

fn model(transcript: &mut Transcript, said: &Turn) {
    let calls = said.calls.iter().map(|call| Call {
        id: &call.id,
        name: &call.name,
        input: &call.input,
        server: false,
    });
    transcript.add_turn(&FinishedTurn {
        text: VisibleText::from_text(&said.text),
        calls: calls.collect(),
        cut_call: false,
        hidden: false,
        gives: false,
        stop: Stop::Unknown,
        output_tokens: None,
    });
}
