//! Silences put into healthy sessions: as many as the limit must be found where they stand, one
//! fewer must not, and nor must anything in the session as it was.

use crate::read::{Message, Session, Turn};
use crate::replay::{self, Limits, Until};

/// How one kind of silence was found.
pub(crate) struct Injected {
    pub(crate) kind: &'static str,
    pub(crate) sessions: usize,
    /// Found at the turn that made the row full.
    pub(crate) found: usize,
    /// Flagged although one too few were put in.
    pub(crate) wrong: usize,
}

const KINDS: [(&str, &str); 4] = [
    ("empty", ""),
    ("white space", " \n\t\n"),
    ("characters that show nothing", "\u{200b}\u{feff}"),
    ("placeholder", "[no answer]"),
];

/// Every kind, in the middle of every healthy session that has results.
pub(crate) fn all(sessions: &mut [Session]) -> Vec<Injected> {
    let limits = Limits::default();
    let limit = limits.empty as usize;
    let mut kinds = Vec::new();
    for (kind, text) in KINDS {
        let mut injected = Injected { kind, sessions: 0, found: 0, wrong: 0 };
        for session in sessions.iter_mut() {
            let results = |m: &Message| matches!(m, Message::Results(_));
            let middle = session.messages.len() / 2;
            let Some(at) = session.messages.iter().skip(middle).position(results) else { continue };
            let at = middle + at + 1;
            injected.sessions += 1;
            put(session, at, text, limit);
            let before = session.messages[..at].iter();
            let turn = before.filter(|m| matches!(m, Message::Model(_))).count() + limit;
            let flag = replay::flag(session, limits, Until::Seen);
            let here = flag.is_some_and(|flag| flag.rule == "empty" && flag.turn == turn);
            injected.found += usize::from(here);
            session.messages.remove(at);
            injected.wrong += usize::from(replay::flag(session, limits, Until::Seen).is_some());
            session.messages.drain(at..at + limit - 1);
        }
        kinds.push(injected);
    }
    let mut stale = Injected { kind: "stale", sessions: 0, found: 0, wrong: 0 };
    for session in sessions.iter().filter(|session| session.turns() > 1) {
        stale.sessions += 1;
        let at = replay::stale_at(session);
        stale.found += usize::from(at == Some(3));
        stale.wrong += usize::from(at.is_some_and(|at| at < 3));
    }
    kinds.push(stale);
    kinds
}

fn put(session: &mut Session, at: usize, text: &str, times: usize) {
    let turn = || Message::Model(Turn { text: text.to_owned(), calls: Vec::new() });
    session.messages.splice(at..at, (0..times).map(|_| turn()));
}
