//! The tables, as Markdown.

use std::collections::{BTreeMap, BTreeSet};

use crate::baselines::{BASELINES, Rule};
use crate::choose::{self, Bound, Found};
use crate::group::Share;
use crate::inject;
use crate::read::Session;
use crate::replay::{self, Flag, Limits, Until};

/// All tables.
pub(crate) fn print(mut sessions: Vec<Session>) {
    rules(&sessions);
    by_model(&sessions);
    kinds(&sessions);
    unlabelled(&sessions);
    varied(&sessions);
    chosen(&sessions);
    sessions.retain(|session| session.good == Some(true) && !intercode(session));
    injected(&mut sessions);
}

/// The flagged sessions that are no failures, with what was seen.
pub(crate) fn list(sessions: &[Session]) {
    for session in sessions.iter().filter(|session| session.good != Some(false)) {
        if let Some(Flag { turn, rule, evidence }) = seen(session) {
            let Session { source, model, id, origin, .. } = session;
            let turns = session.turns();
            println!(
                "{source} {model} {id} {origin}: {rule} at turn {turn} of {turns}: {evidence}"
            );
        }
    }
}

fn seen(session: &Session) -> Option<Flag> {
    replay::flag(session, Limits::default(), Until::Seen)
}

fn landed(session: &Session) -> Option<Flag> {
    replay::flag(session, Limits::default(), Until::Landed)
}

fn intercode(session: &Session) -> bool {
    session.source.starts_with("InterCode")
}

fn every_rule() -> Vec<(&'static str, Rule)> {
    let own: [(&str, Rule); 2] = [("softland: seen", seen), ("softland: landed", landed)];
    own.into_iter().chain(BASELINES).collect()
}

fn heading(title: &str, columns: &str) {
    let line: String = columns.chars().map(|c| if c == '|' { '|' } else { '-' }).collect();
    println!("\n### {title}\n\n{columns}\n{line}");
}

fn rules(sessions: &[Session]) {
    for (title, older) in [("InterCode, models of 2023", true), ("Newer models", false)] {
        heading(
            title,
            "| rule | failures flagged | successes flagged | tokens after it, failures | successes |",
        );
        for (name, rule) in every_rule() {
            let of = |good| {
                let group = sessions.iter().filter(move |s| s.good == Some(good));
                Share::of(group.filter(|s| intercode(s) == older), rule)
            };
            let (bad, good) = (of(false), of(true));
            let after = (bad.after(), good.after());
            println!("| {name} | {} | {} | {} | {} |", bad.text(), good.text(), after.0, after.1);
        }
    }
}

fn by_model(sessions: &[Session]) {
    heading(
        "By source and model: successes flagged, failures flagged",
        "| source, model | softland | tokens after it, failures | OpenHands | gemini-cli |",
    );
    let labelled = || sessions.iter().filter(|session| session.good.is_some());
    let groups: BTreeSet<_> = labelled().map(|s| (&s.source, &s.model)).collect();
    for group in groups {
        let share = |rule: Rule, good| {
            let of = |s: &&Session| (&s.source, &s.model) == group && s.good == Some(good);
            Share::of(sessions.iter().filter(of), rule)
        };
        let both = |rule: Rule| {
            let (good, bad) = (share(rule, true), share(rule, false));
            format!("{}; {}", good.text(), bad.text())
        };
        let baseline = |wanted: &str| {
            let rule = BASELINES.iter().find(|(name, _)| *name == wanted);
            rule.map_or_else(String::new, |(_, rule)| both(*rule))
        };
        let (own, after) = (both(seen), share(seen, false).after());
        let (hands, gemini) = (baseline("OpenHands"), baseline("gemini-cli"));
        println!("| {}, {} | {own} | {after} | {hands} | {gemini} |", group.0, group.1);
    }
}

fn kinds(sessions: &[Session]) {
    heading("What was seen first", "| signal | failures | successes |");
    let mut kinds: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for session in sessions {
        if let (Some(good), Some(flag)) = (session.good, seen(session)) {
            let counts = kinds.entry(flag.rule).or_default();
            counts.0 += usize::from(!good);
            counts.1 += usize::from(good);
        }
    }
    for (kind, (bad, good)) in kinds {
        println!("| `{kind}` | {bad} | {good} |");
    }
}

fn unlabelled(sessions: &[Session]) {
    heading("Sessions without labels: flagged", "| rule | Claude Code | Codex |");
    for (name, rule) in every_rule() {
        let of = |source: &str| {
            Share::of(sessions.iter().filter(|session| session.source == source), rule).text()
        };
        println!("| {name} | {} | {} |", of("claude-code"), of("codex"));
    }
}

fn varied(sessions: &[Session]) {
    heading(
        "Each limit varied, the others at their defaults",
        "| limit | InterCode failures | InterCode successes | newer failures | newer successes |",
    );
    let default = Limits::default();
    let mut rows = Vec::new();
    rows.extend((2..=6).map(|n| (format!("`repeat_limit` {n}"), Limits { repeat: n, ..default })));
    rows.extend((2..=4).map(|n| (format!("`cycle_limit` {n}"), Limits { cycle: n, ..default })));
    rows.extend((2..=7).map(|n| (format!("`error_limit` {n}"), Limits { errors: n, ..default })));
    rows.extend((1..=4).map(|n| (format!("`empty_limit` {n}"), Limits { empty: n, ..default })));
    let windows = [3, 6, 12, replay::WINDOW];
    rows.extend(windows.map(|n| (format!("window of {n} calls"), Limits { window: n, ..default })));
    let all: Vec<&Session> = sessions.iter().collect();
    for (name, limits) in rows {
        let rule = |session: &&Session| replay::flag(session, limits, Until::Seen).is_some();
        let flags: Vec<bool> = all.iter().map(rule).collect();
        let older = choose::count(&all, &flags, intercode);
        let newer = choose::count(&all, &flags, |session| !intercode(session));
        let mark = if limits == default { " (default)" } else { "" };
        println!("| {name}{mark} | {} | {} |", older.cells(), newer.cells());
    }
}

fn chosen(sessions: &[Session]) {
    let sessions: Vec<&Session> = sessions.iter().filter(|session| intercode(session)).collect();
    let grid = choose::grid(&sessions);
    let name = |limits: Limits| {
        format!("repeat {}, cycle {}, errors {}", limits.repeat, limits.cycle, limits.errors)
    };
    heading(
        "The frontier on InterCode: no other choice flags more failures and no more successes",
        "| limits | failures flagged | successes flagged |",
    );
    let mut all: Vec<_> = grid.iter().map(|c| (c.limits, c.found(&sessions, |_| true))).collect();
    all.sort_by_key(|(_, found)| (found.good.0, usize::MAX - found.bad.0));
    let mut most = 0;
    for (limits, found) in all {
        if found.bad.0 > most {
            most = found.bad.0;
            println!("| {} | {} |", name(limits), found.cells());
        }
    }
    heading(
        "Chosen on the other models, measured on the one left out",
        "| successes of the others that may be flagged | chosen | failures flagged | successes flagged |",
    );
    let like = |baseline: &str| {
        let rule = BASELINES.iter().find(|(name, _)| *name == baseline).map(|(_, rule)| *rule);
        rule.map_or_else(Vec::new, |rule| choose::flags(&sessions, rule))
    };
    let row = |name_of_bound: &str, bound: Bound<'_>| {
        let (chosen, found): (_, Found) = choose::leave_one_out(&sessions, &grid, bound);
        let chosen = chosen.iter().map(|(model, c)| format!("{model}: {}", name(c.limits)));
        let chosen = chosen.collect::<Vec<_>>().join("; ");
        println!("| {name_of_bound} | {chosen} | {} |", found.cells());
    };
    for baseline in ["gemini-cli", "OpenHands"] {
        let flags = like(baseline);
        row(&format!("as many as by {baseline}"), &|of| {
            choose::count(&sessions, &flags, of).good_percent()
        });
    }
    for percent in [0.5, 0.75] {
        row(&format!("{percent} %"), &|_| percent);
    }
}

fn injected(healthy: &mut [Session]) {
    heading(
        "Silences put into the newer successes",
        "| put in | sessions | found where they stand | flagged with one too few |",
    );
    for inject::Injected { kind, sessions, found, wrong } in inject::all(healthy) {
        println!("| {kind} | {sessions} | {found} | {wrong} |");
    }
}
