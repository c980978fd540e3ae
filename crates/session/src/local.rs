//! The answer that softland gives where the model gives none. It says that it is softland's, which
//! limit was reached, what was done and what was gathered.

use softland_core::{Because, Digest, Millis, Quantity, Reason, Run, VisibleText, lines};
use softland_wire::Api;
use softland_wire::request::{BlockKind, Content, Request, ResultContent, Role};

use crate::tags::{TagCall, TagReader, WaitingCalls};

/// Characters of each result that are shown.
const EXCERPT: usize = 240;
/// Results that are shown, the newest ones.
const RESULTS: usize = 12;
/// Characters of the model's own words that are shown.
const SAID: usize = 2000;

/// Returns the prefix of the ids of softland's own responses.
pub(crate) const fn id_prefix(api: Api) -> &'static str {
    match api {
        Api::Anthropic => "msg_softland_",
        Api::Chat => "chatcmpl-softland-",
        Api::Responses => "resp_softland_",
    }
}

/// Returns the id of softland's own response with this text, in this run.
pub(crate) fn answer_id(api: Api, run: Option<Digest>, text: &str) -> String {
    let key = run.unwrap_or(Digest::EMPTY).followed_by(Digest::from_bytes(text.as_bytes()));
    format!("{}{key}", id_prefix(api))
}

/// Writes the local answer of a run, from its governed request. `turns` is the number of its turns.
pub(crate) fn write_answer(
    request: &Request<'_>,
    (run, turns): (&Run, u64),
    because: Option<&Because>,
    said: &str,
    reader: Option<&TagReader>,
) -> String {
    let mut text = format!("{}\n\n", lines::LOCAL_ANSWER);
    text.push_str(&explain_reason(because));
    let used = run.used();
    text.push_str(&format!(" Done so far: {}", format_count(used.calls, "tool call")));
    if !used.by_tool.is_empty() {
        let tools: Vec<_> =
            used.by_tool.iter().map(|(tool, calls)| format!("{tool} {calls}")).collect();
        text.push_str(&format!(" ({})", tools.join(", ")));
    }
    text.push_str(&format!(" in {}.", format_count(turns, "turn")));
    let said = said.replace(lines::NO_ANSWER, "");
    if !VisibleText::is_invisible_text(&said) {
        text.push_str("\n\nThe model's last words, incomplete:\n");
        text.push_str(&shorten_text(said.trim(), SAID));
    }
    let mut gathered = gathered_results(request, run);
    gathered.extend(gathered_texts(request, run, reader));
    if gathered.is_empty() {
        text.push_str("\n\nNothing was gathered.");
    } else {
        text.push_str("\n\nGathered, newest last:\n");
        text.push_str(&gathered.join("\n"));
    }
    text
}

fn explain_reason(because: Option<&Because>) -> String {
    let Some(Because { reason, used, limit, needed }) = because else {
        return "The model ended without an answer.".to_owned();
    };
    match reason {
        Reason::Empty => format!("The model's turns were empty ({used} in a row)."),
        Reason::Stale => {
            format!("The model gave {used} next to empty answers to the same context.")
        }
        Reason::Refusal => "The model refused and said nothing.".to_owned(),
        Reason::Truncated => "The model's output was cut before it said anything.".to_owned(),
        Reason::Provider => format!(
            "The model's newest turn was empty ({used} in a row), and the provider failed when it \
             was asked to go on."
        ),
        Reason::Repeat | Reason::Cycle | Reason::Errors => format!(
            "The run was caught in a loop ({reason}: {used} times, limit {limit}) and the model \
             gave no answer."
        ),
        reason => {
            let other = if *reason == Reason::Budget { BUDGET } else { "a limit" };
            let key = reason.policy_key().unwrap_or(other);
            let tool = match reason {
                Reason::Tool(tool) => format!(" of {tool}"),
                _ => String::new(),
            };
            if fits_no_more(reason, used, limit) {
                let amount = needed.map(|needed| format!(" ({needed})")).unwrap_or_default();
                let whose = if *reason == Reason::Budget { "the account's" } else { "the run's" };
                return format!(
                    "The most that one more request can use{amount} did not fit into {whose} \
                     limit ({key}: {} used), and the model had given no answer. A higher limit or \
                     a smaller max_tokens makes room.",
                    format_share(used, limit)
                );
            }
            let whose = if *reason == Reason::Budget { "the account's" } else { "its" };
            format!(
                "The run reached {whose} limit ({key}{tool}: {}), and the model gave no answer.",
                format_share(used, limit)
            )
        }
    }
}

/// Returns the answer of softland's own in a text that a model seems to have written, from its first
/// line on. Words that the model had shown before may stand in front of it.
#[must_use]
pub fn find_local_answer(text: &str) -> Option<&str> {
    let begins = |text: &str| {
        let rest = text.strip_prefix(lines::LOCAL_ANSWER);
        rest.is_some_and(|rest| rest.starts_with("\n\n"))
    };
    if begins(text) {
        return Some(text);
    }
    let mut places = text.match_indices(lines::LOCAL_ANSWER);
    places.find_map(|(at, _)| {
        let (before, answer) = text.split_at_checked(at)?;
        (before.ends_with("\n\n") && begins(answer)).then_some(answer)
    })
}

/// Returns the reason that an answer of softland's own gives, if it gives one.
#[must_use]
pub fn read_local_reason(answer: &str) -> Option<Reason> {
    let why = answer.strip_prefix(lines::LOCAL_ANSWER)?.trim_start();
    let opened = [
        ("The model's turns were empty", Reason::Empty),
        ("The model gave ", Reason::Stale),
        ("The model refused", Reason::Refusal),
        ("The model's output was cut", Reason::Truncated),
        ("The model's newest turn was empty", Reason::Provider),
    ];
    let of_turns = opened.into_iter().find(|(opening, _)| why.starts_with(opening));
    if let Some((_, reason)) = of_turns {
        return Some(reason);
    }
    let sentence = why.split("\n\n").next()?;
    if let Some((_, rest)) = sentence.split_once("caught in a loop (") {
        let word = rest.split_once(':')?.0;
        return Reason::ALL.iter().find(|reason| reason.to_string() == word).cloned();
    }
    let (_, rest) = sentence.split_once(" limit (")?;
    let named = rest.split_once(": ")?.0;
    if named == BUDGET {
        return Some(Reason::Budget);
    }
    let (key, tool) = named.split_once(" of ").unwrap_or((named, ""));
    let of_key = Reason::ALL.iter().find(|reason| reason.policy_key() == Some(key))?;
    Some(match of_key {
        Reason::Tool(_) => Reason::Tool(tool.to_owned()),
        reason => reason.clone(),
    })
}

/// The name of the limit of an account, which is no key of a policy.
const BUDGET: &str = "budget";

/// True if a limit of money or tokens is not used up, but too near for a further request.
fn fits_no_more(reason: &Reason, used: &Quantity, limit: &Quantity) -> bool {
    if !matches!(reason, Reason::Cost | Reason::SessionCost | Reason::Tokens | Reason::Budget) {
        return false;
    }
    match (used, limit) {
        (Quantity::Count(used), Quantity::Count(limit)) => used < limit,
        (Quantity::Money(used), Quantity::Money(limit)) => used < limit,
        _ => false,
    }
}

/// Returns what was used of a limit. A run that begins where the runs around it have no time left has
/// none.
fn format_share(used: &Quantity, limit: &Quantity) -> String {
    if *limit == Quantity::Time(Millis(0)) {
        return "no time was left".to_owned();
    }
    format!("{used} of {limit}")
}

fn format_count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Returns the results of this run, one item each: the call and the beginning of its result.
fn gathered_results(request: &Request<'_>, run: &Run) -> Vec<String> {
    let mut items = Vec::new();
    let mut calls: Vec<(String, String)> = Vec::new();
    let mut rounds = run.used().rounds;
    for message in request.messages.list.iter().rev() {
        let Content::Blocks { blocks, .. } = &message.content else { continue };
        let mut here = Vec::new();
        for block in blocks {
            match &block.kind {
                BlockKind::ToolResult(result) => {
                    here.push((
                        result.tool_use_id.unescape().into_owned(),
                        result_excerpt(&result.content),
                    ));
                }
                BlockKind::ToolUse { id, name, input, server: false, .. } => {
                    let input = shorten_text(&input.text_in(request.text), 100);
                    calls
                        .push((id.unescape().into_owned(), format!("{} {input}", name.unescape())));
                }
                _ => {}
            }
        }
        if here.is_empty() {
            label_results(&mut items, &mut calls);
            continue;
        }
        if rounds == 0 || items.len() >= RESULTS {
            break;
        }
        rounds -= 1;
        let room = RESULTS - items.len();
        items.extend(here.into_iter().rev().take(room).map(|(id, text)| (id, None, text)));
    }
    items
        .into_iter()
        .rev()
        .map(|(id, call, text)| format!("- {}: {text}", call.unwrap_or(id)))
        .collect()
}

/// Returns the same items for results that are written as text.
fn gathered_texts(request: &Request<'_>, run: &Run, reader: Option<&TagReader>) -> Vec<String> {
    let mut waiting = WaitingCalls::default();
    let mut calls = Vec::new();
    let mut rounds: Vec<Vec<String>> = Vec::new();
    let mut messages = request.messages.list.iter().peekable();
    while let Some(message) = messages.next() {
        match message.role {
            Role::Assistant => {
                calls = waiting.await_results(reader, message, messages.peek().copied())
            }
            Role::User if !waiting.is_empty() => {
                let said: Vec<_> = message.texts().map(|text| text.unescape()).collect();
                let said: Vec<_> = said.iter().map(|text| &**text).collect();
                let given = waiting.take_results(reader, &said);
                let item = |(call, (_, text)): (&TagCall, &(String, String))| {
                    let input = shorten_text(&call.input, 100);
                    format!("- {} {input}: {}", call.name, line_of(text))
                };
                rounds.push(calls.iter().zip(&given.results).map(item).collect());
            }
            Role::User | Role::System | Role::Other => {}
        }
    }
    let own = usize::try_from(run.used().rounds).unwrap_or(usize::MAX);
    let items: Vec<_> = rounds.split_off(rounds.len().saturating_sub(own)).concat();
    let most = items.len().saturating_sub(RESULTS);
    items.into_iter().skip(most).collect()
}

/// Gives results the labels of the calls that they stand behind.
fn label_results(
    items: &mut [(String, Option<String>, String)],
    calls: &mut Vec<(String, String)>,
) {
    for (id, call, _) in items.iter_mut().filter(|(_, call, _)| call.is_none()) {
        *call = calls.iter().find(|(known, _)| known == id).map(|(_, label)| label.clone());
    }
    calls.clear();
}

fn result_excerpt(content: &ResultContent<'_>) -> String {
    let text = match content {
        ResultContent::Absent(_) | ResultContent::Opaque(_) => None,
        ResultContent::Text(text, _) => Some(*text),
        ResultContent::Parts { parts, .. } => {
            parts.iter().find_map(|part| part.text.map(|(text, _)| text))
        }
    };
    let text: String = text.map(|t| t.iter().take(EXCERPT + 1).collect()).unwrap_or_default();
    line_of(&text)
}

fn line_of(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "(nothing)".to_owned() } else { shorten_text(&line, EXCERPT) }
}

fn shorten_text(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use softland_core::NanoUsd;

    use super::*;

    #[test]
    fn a_local_answer_is_found_again_with_its_reason() {
        let mut becauses: Vec<Because> = Reason::ALL
            .iter()
            .filter(|reason| {
                !matches!(reason, Reason::Final | Reason::User | Reason::Journal | Reason::Setup)
            })
            .map(|reason| Because::from_counts(reason.clone(), 3, 3))
            .collect();
        becauses.push(Because::from_counts(Reason::Tool("a of b".into()), 5, 5));
        let money = |nano| Quantity::Money(NanoUsd(nano));
        becauses.push(Because {
            needed: Some(NanoUsd(7)),
            ..Because::new(Reason::Cost, money(1), money(2))
        });
        for because in becauses {
            let why = explain_reason(Some(&because));
            let answer = format!("{}\n\n{why} Done so far: 1 tool call.", lines::LOCAL_ANSWER);
            for before in ["", "I will look.\n\n"] {
                let text = format!("{before}{answer}");
                assert_eq!(find_local_answer(&text), Some(&*answer));
            }
            assert_eq!(read_local_reason(&answer), Some(because.reason), "{why}");
        }
        let unknown = format!("{}\n\n{}", lines::LOCAL_ANSWER, explain_reason(None));
        assert_eq!(find_local_answer(&unknown), Some(&*unknown));
        assert_eq!(read_local_reason(&unknown), None);
        for quoted in [
            format!("It says {}\n\nand stops.", lines::LOCAL_ANSWER),
            format!("{} is its first line.", lines::LOCAL_ANSWER),
            lines::LOCAL_ANSWER.to_owned(),
        ] {
            assert_eq!(find_local_answer(&quoted), None, "{quoted}");
        }
    }
}
