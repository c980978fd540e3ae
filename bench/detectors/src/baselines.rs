//! Rules of other projects, written anew from what they publish, to compare with. Only their
//! deterministic parts: gemini-cli's third check asks a model.
//!
//! - gemini-cli `loopDetectionService.ts` (5411f11): the newest calls are a cycle of 1 to 5 calls,
//!   five times, within a history of 25; results do not count. Or a text in which a piece of 50
//!   characters comes 10 times, on average at most 250 characters apart, with at most 5 different
//!   distances. A person's message starts afresh.
//! - OpenHands SDK `stuck_detector.py` (611629e): the newest 20 events since the last user message;
//!   the same call with the same result 4 times; the same call failed 3 times; 3 messages of the
//!   agent without a call between; two calls with their results in turns, 6 in all. Calls are equal
//!   only with the text beside them.
//! - opencode `processor.ts`: the last 3 parts of one turn are the same call. As it is written, it
//!   sees nothing across turns; `across` is the same rule without that bound.

use std::collections::HashMap;

use crate::read::{Answer, Message, Session, Turn};
use crate::replay::Flag;

/// A rule by name.
pub(crate) type Rule = fn(&Session) -> Option<Flag>;

/// The baselines.
pub(crate) const BASELINES: [(&str, Rule); 4] = [
    ("gemini-cli", gemini),
    ("OpenHands", openhands),
    ("opencode, as written", |session| opencode(session, false)),
    ("opencode, across turns", |session| opencode(session, true)),
];

fn gemini(session: &Session) -> Option<Flag> {
    const TIMES: usize = 5;
    const HISTORY: usize = 25;
    let mut keys: Vec<String> = Vec::new();
    let mut turn = 0;
    for message in &session.messages {
        match message {
            Message::User(_) => keys.clear(),
            Message::Results(_) => {}
            Message::Model(said) => {
                turn += 1;
                if chants(&said.text) {
                    return flag(turn, "chanting", &said.text);
                }
                for call in &said.calls {
                    keys.push([&*call.name, " ", &call.input].concat());
                    let recent = &keys[keys.len().saturating_sub(HISTORY)..];
                    if (1..=5).any(|period| cycles(recent, period, period * TIMES)) {
                        return flag(turn, "calls", &call.input);
                    }
                }
            }
        }
    }
    None
}

/// Whether the last `span` of these repeat with this period.
fn cycles<T: PartialEq>(list: &[T], period: usize, span: usize) -> bool {
    let Some(start) = list.len().checked_sub(span) else { return false };
    let tail = &list[start..];
    tail.iter().zip(tail.iter().skip(period)).all(|(a, b)| a == b)
}

fn chants(text: &str) -> bool {
    const PIECE: usize = 50;
    const TIMES: usize = 10;
    let all: Vec<char> = text.chars().collect();
    // Code, tables, lists and headings are no prose: the published rule starts afresh there.
    if text.contains("```") || all.len() < PIECE + TIMES {
        return false;
    }
    let mut places: HashMap<&[char], Vec<usize>> = HashMap::new();
    for (at, piece) in all.windows(PIECE).enumerate() {
        let seen = places.entry(piece).or_default();
        seen.push(at);
        if let Some(start) = seen.len().checked_sub(TIMES) {
            let newest = &seen[start..];
            let gaps: Vec<usize> = newest.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let mut different = gaps.clone();
            different.sort_unstable();
            different.dedup();
            let mean = gaps.iter().sum::<usize>() / gaps.len();
            if mean <= PIECE * 5 && different.len() <= 5 {
                return true;
            }
        }
    }
    false
}

/// One event of OpenHands' window.
#[derive(Clone, PartialEq)]
enum Event<'a> {
    Says,
    Acts(&'a str, &'a str, &'a str),
    Sees(&'a str, bool),
}

fn openhands(session: &Session) -> Option<Flag> {
    const WINDOW: usize = 20;
    let mut events: Vec<Event<'_>> = Vec::new();
    let mut turn = 0;
    for message in &session.messages {
        match message {
            Message::User(_) => events.clear(),
            Message::Results(answers) => {
                events.extend(
                    answers.iter().map(|Answer { text, read, .. }| Event::Sees(text, read.failed)),
                );
            }
            Message::Model(Turn { text, calls }) => {
                turn += 1;
                if calls.is_empty() {
                    events.push(Event::Says);
                }
                let acts = calls.iter().map(|call| Event::Acts(text, &call.name, &call.input));
                events.extend(acts);
            }
        }
        let recent = &events[events.len().saturating_sub(WINDOW)..];
        if let Some(rule) = stuck(recent) {
            return flag(turn, rule, "");
        }
    }
    None
}

fn stuck(events: &[Event<'_>]) -> Option<&'static str> {
    let says = events.iter().rev().take_while(|event| **event == Event::Says).count();
    if says >= 3 {
        return Some("monologue");
    }
    let acts: Vec<_> = events.iter().filter(|e| matches!(e, Event::Acts(..))).collect();
    let sees: Vec<_> = events.iter().filter(|e| matches!(e, Event::Sees(..))).collect();
    let failed = |e: &&Event<'_>| matches!(e, Event::Sees(_, true));
    let last_failed = sees.iter().rev().take(3).filter(|e| failed(e)).count() == 3;
    if cycles(&acts, 1, 4) && cycles(&sees, 1, 4) {
        Some("same call, same result")
    } else if cycles(&acts, 1, 3) && last_failed {
        Some("same call failed")
    } else if cycles(&acts, 2, 6) && cycles(&sees, 2, 6) {
        Some("alternation")
    } else {
        None
    }
}

fn opencode(session: &Session, across: bool) -> Option<Flag> {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    let mut turn = 0;
    for message in &session.messages {
        match message {
            Message::User(_) => keys.clear(),
            Message::Results(_) => {}
            Message::Model(said) => {
                turn += 1;
                if !across {
                    keys.clear();
                }
                keys.extend(said.calls.iter().map(|call| (&*call.name, &*call.input)));
                if cycles(&keys, 1, 3) {
                    return flag(turn, "doom loop", "");
                }
            }
        }
    }
    None
}

fn flag(turn: usize, rule: &'static str, evidence: &str) -> Option<Flag> {
    Some(Flag { turn, rule, evidence: evidence.chars().take(80).collect() })
}

#[cfg(test)]
mod tests {
    use softland_session::read_result;

    use super::*;
    use crate::read::Call;
    use crate::replay::{self, Limits, Until};

    /// A session of one call a turn: (arguments, result, whether it failed).
    fn session(rounds: &[(&str, &str, bool)]) -> Session {
        let mut messages = vec![Message::User("Count them.".to_owned())];
        for (input, result, failed) in rounds {
            let call = Call {
                id: "c".to_owned(),
                name: "sql".to_owned(),
                input: format!(r#"{{"query":"{input}"}}"#),
            };
            messages.push(Message::Model(Turn { text: String::new(), calls: vec![call] }));
            messages.push(Message::Results(vec![Answer {
                id: "c".to_owned(),
                text: (*result).to_owned(),
                read: read_result(result, *failed),
            }]));
        }
        let name = String::new;
        let (id, source, model, origin) = (name(), name(), name(), name());
        Session { id, source, model, origin, good: None, messages }
    }

    fn turns(rounds: &[(&str, &str, bool)]) -> [Option<usize>; 4] {
        let session = session(rounds);
        let own = |session: &Session| replay::flag(session, Limits::default(), Until::Seen);
        let rules: [Rule; 4] = [own, openhands, gemini, |s| opencode(s, true)];
        rules.map(|rule| rule(&session).map(|flag| flag.turn))
    }

    #[test]
    fn each_rule_fires_where_it_is_published_to() {
        assert_eq!(turns(&[("a", "1", false); 6]), [Some(3), Some(4), Some(5), Some(3)]);
        assert_eq!(turns(&[("a", "no", true); 6]), [Some(3), Some(3), Some(5), Some(3)]);
        let pair = [("a", "1", true), ("b", "2", true)];
        assert_eq!(turns(&pair.repeat(5)), [Some(5), Some(6), Some(10), None]);
        let moving = [("a", "1", false), ("a", "2", false), ("a", "3", false), ("a", "4", false)];
        assert_eq!(turns(&moving), [None, None, None, Some(3)]);
        assert_eq!(turns(&[("a", "1", false), ("b", "1", false)]), [None; 4]);
    }

    #[test]
    fn chanting_is_one_piece_close_together() {
        let piece = "The quick brown fox jumps over the lazy dog, and then it sleeps. ";
        assert!(chants(&piece.repeat(12)));
        assert!(!chants(&piece.repeat(5)));
        assert!(!chants(&format!("```\n{}\n```", piece.repeat(12))));
        let other = |n: u64| (0..80).map(|k| format!("{} ", n * 1000 + k)).collect::<String>();
        let spread: Vec<String> = (0..12).map(|n| [piece, &other(n)].concat()).collect();
        assert!(!chants(&spread.concat()));
    }
}
