//! Summaries of conversations: finds requests that ask for a summary, and finds a summary again in
//! later histories (`docs/governing.md` §7).

use std::collections::{BTreeMap, BTreeSet};

use softland_core::{Digest, tables};
use softland_wire::json::{Cursor, Error};
use softland_wire::request::{BlockKind, Content, Message, Request, ResultContent, Role};

use crate::outline::ask_digest;
use crate::passages::{every_passage, find_heads, find_passages, head_digest, short_digest};

/// The most passages of one summary that are noted.
const NOTED: usize = 128;
/// Turns of a history in whose results a summary may stand.
const FIRST_TURNS: usize = 3;
/// Bytes of a tool's result that are looked at.
const RESULT: usize = 4 << 10;
/// The most heads of a request that are looked for.
const QUOTED: usize = 2048;
/// Results of a round of which passages are noted, and passages of each.
const PASSAGES: usize = 2;
/// Results of a round whose heads are noted.
const HEADS: usize = 8;
/// Lines and paragraphs of a text that are looked at as short summaries.
const UNITS: usize = 512;

/// The sign by which a request asks for a summary of its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The words of a known client.
    Known,
    /// Plain words, which a person may write, too.
    Plainly,
}

/// Returns how a request asks for the summary of its conversation, if its newest message does.
#[must_use]
pub fn asks_for_summary(request: &Request<'_>) -> Option<Asked> {
    let list = &request.messages.list;
    let newest = list.iter().rev().find(|message| message.role != Role::System);
    let newest = newest.filter(|message| message.role == Role::User);
    let asks = |asks: fn(&str) -> bool| newest.is_some_and(|m| message_texts(m).any(|t| asks(&t)));
    let plainly = || asks(tables::asks_plainly_for_summary).then_some(Asked::Plainly);
    asks(tables::asks_for_summary).then_some(Asked::Known).or_else(plainly)
}

/// Returns the passages by which a summary is found again: those that `request`, which asked for
/// it, does not show. A summary quotes the question, and so does another conversation that asks the
/// same.
#[must_use]
pub fn summary_passages(summary: &str, request: &Request<'_>) -> Vec<Digest> {
    let short = [summary, bare_text(summary)].into_iter().filter_map(short_digest);
    let mut quoted: BTreeMap<Digest, bool> =
        short.chain(find_passages(summary)).map(|passage| (passage, false)).collect();
    let list = request.messages.list.iter();
    let texts = list.flat_map(|message| message_texts(message).chain(result_texts(message)));
    for text in texts.chain(system_texts(request)) {
        for passage in every_passage(&text).into_iter().chain(short_parts(&text)) {
            quoted.entry(passage).and_modify(|quoted| *quoted = true);
        }
    }
    quoted.retain(|_, quoted| !*quoted);
    // All over a long summary, since a client may keep a part of it.
    let step = quoted.len().div_ceil(NOTED).max(1);
    quoted.into_keys().step_by(step).collect()
}

/// Returns the first passages of a text, at most so many.
#[must_use]
pub fn first_passages(text: &str, most: usize) -> Vec<Digest> {
    let mut passages = find_passages(bare_text(text));
    passages.truncate(most);
    passages
}

/// Returns the head of an answer, by which a text that quotes its beginning is known.
#[must_use]
pub fn answer_head(text: &str) -> Option<Digest> {
    head_digest(bare_text(text))
}

/// The passages at places where a summary may stand in a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpeningPassages {
    /// Before the first model turn, in that turn, or in the first results.
    pub told: Vec<Digest>,
    /// In the system prompt.
    pub prompted: Vec<Digest>,
}

/// Returns the passages at places where a summary may stand in a history.
#[must_use]
pub fn opening_passages(request: &Request<'_>) -> OpeningPassages {
    let list = &request.messages.list;
    let first = list.iter().position(|message| message.role == Role::Assistant);
    let (before, behind) = list.split_at(first.map_or(list.len(), |first| first + 1));
    let spoken = before.iter().filter(|message| message.role != Role::Other);
    let mut turns = 1;
    let answers = behind.iter().take_while(|message| {
        turns += usize::from(message.role == Role::Assistant);
        turns <= FIRST_TURNS
    });
    // A client may write its summary as what a tool of its own brought.
    let results = answers.flat_map(result_texts);
    let told = spoken.flat_map(message_texts).chain(results);
    OpeningPassages {
        told: told.flat_map(|text| told_passages(&text)).collect(),
        prompted: system_texts(request).iter().flat_map(|text| told_passages(text)).collect(),
    }
}

/// Returns the passages of a text, and its parts that may be short summaries.
fn told_passages(text: &str) -> Vec<Digest> {
    find_passages(text).into_iter().chain(short_parts(text)).collect()
}

/// Returns the digests of the text, its paragraphs and its lines, where these are short.
fn short_parts(text: &str) -> impl Iterator<Item = Digest> {
    let paragraphs = text.split("\n\n").filter(|one| one.len() < text.len());
    let lines = text.lines().filter(|one| one.len() < text.len());
    let parts = [text].into_iter().chain(paragraphs.chain(lines).take(UNITS));
    parts.map(bare_text).filter_map(short_digest)
}

/// Returns the digests of the texts behind the last model turn that may be a person's, without
/// those that hold `passage`.
#[must_use]
pub fn find_other_questions(request: &Request<'_>, passage: Digest) -> Vec<Digest> {
    let list = request.messages.list.iter().rev();
    let newest = list.take_while(|message| message.role != Role::Assistant);
    let users = newest.filter(|message| message.role == Role::User).flat_map(message_texts);
    let beside = users.filter(|text| !told_passages(text).contains(&passage));
    beside.filter_map(|text| ask_digest(&text)).collect()
}

/// Returns the passages of all that users say in a request.
#[must_use]
pub fn user_passages(request: &Request<'_>) -> Vec<Digest> {
    user_texts(request).flat_map(|text| find_passages(&text)).collect()
}

/// Returns the heads of texts that users quote in a request, each once.
#[must_use]
pub fn user_heads(request: &Request<'_>) -> Vec<Digest> {
    let mut known = BTreeSet::new();
    let heads = user_texts(request).flat_map(|text| find_heads(&text));
    heads.filter(|head| known.insert(*head)).take(QUOTED).collect()
}

fn user_texts(request: &Request<'_>) -> impl Iterator<Item = String> {
    let users = request.messages.list.iter().filter(|message| message.role == Role::User);
    users.flat_map(message_texts)
}

/// What is noted of the results behind the last model turn, so that a request that quotes them is
/// known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotedResults {
    /// The first passages of the first results.
    pub passages: Vec<Digest>,
    /// The heads of results.
    pub heads: Vec<Digest>,
}

impl NotedResults {
    /// Notes the newest results of a request.
    #[must_use]
    pub fn from_request(request: &Request<'_>) -> Self {
        let mut noted = Self::default();
        for (index, text) in newest_results(request).take(HEADS).enumerate() {
            noted.heads.extend(head_digest(&text));
            if index < PASSAGES {
                noted.passages.extend(find_passages(&text).into_iter().take(PASSAGES));
            }
        }
        noted
    }
}

/// Returns the beginnings of the results behind the last model turn.
fn newest_results(request: &Request<'_>) -> impl Iterator<Item = String> {
    let list = request.messages.list.iter().rev();
    let newest = list.take_while(|message| message.role != Role::Assistant);
    let blocks = newest.flat_map(|message| match &message.content {
        Content::Blocks { blocks, .. } => blocks.as_slice(),
        Content::Text(..) => &[],
    });
    blocks.filter_map(|block| match &block.kind {
        BlockKind::ToolResult(result) => match &result.content {
            ResultContent::Text(text, _) => Some(text.unescape_head(RESULT)),
            ResultContent::Parts { parts, .. } => {
                parts.iter().find_map(|part| part.text.map(|(text, _)| text.unescape_head(RESULT)))
            }
            ResultContent::Absent(_) | ResultContent::Opaque(_) => None,
        },
        _ => None,
    })
}

/// Returns a text without the tags and labels around it.
fn bare_text(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        let bare = without_label(without_tags(text)).trim();
        if bare.len() == text.len() {
            return text;
        }
        text = bare;
    }
}

/// The most bytes of a tag and of a label. No more of a line is searched for either: each is taken
/// off by itself, and a line may consist of them.
const TAG: usize = 64;
const LABEL: usize = 64;

fn without_tags(text: &str) -> &str {
    let opened = text.strip_prefix('<').and_then(|rest| {
        let end = rest.bytes().take(TAG + 1).position(|byte| matches!(byte, b'<' | b'>'))?;
        rest.get(end..)?.strip_prefix('>')
    });
    let text = opened.unwrap_or(text);
    let closed = text.strip_suffix('>').and_then(|rest| {
        let mut last = rest.bytes().rev().take(TAG + 1);
        let tag = last.position(|byte| matches!(byte, b'<' | b'>'))?;
        rest.get(..rest.len() - tag)?.strip_suffix('<')
    });
    closed.unwrap_or(text)
}

/// Returns the text behind a label such as `[Tool result]:` or `user:`.
fn without_label(text: &str) -> &str {
    let start = text.as_bytes().get(..text.len().min(LABEL + 2)).unwrap_or_default();
    let end = start.windows(2).position(|pair| pair == b": ");
    end.and_then(|end| text.get(end + 2..)).unwrap_or(text)
}

/// Returns the texts of the system prompt.
fn system_texts(request: &Request<'_>) -> Vec<String> {
    let Some(span) = request.system else { return Vec::new() };
    let mut texts = Vec::new();
    let mut cursor = Cursor::new(span.slice_of(request.text));
    let read = cursor.read_elements(|cursor| {
        cursor.read_members(|cursor, member| {
            if let Some((text, _)) =
                cursor.read_string_or_skip()?.filter(|_| member.key.eq_str("text"))
            {
                texts.push(text.unescape().into_owned());
            }
            Ok::<_, Error>(())
        })?;
        Ok::<_, Error>(())
    });
    if read.is_err() {
        // A prompt may be one string.
        let text = Cursor::new(span.slice_of(request.text)).read_string();
        texts = text.map(|(text, _)| text.unescape().into_owned()).into_iter().collect();
    }
    texts
}

/// Returns the texts of the results in a message.
fn result_texts(message: &Message<'_>) -> Vec<String> {
    let blocks = match &message.content {
        Content::Blocks { blocks, .. } => blocks.as_slice(),
        Content::Text(..) => &[],
    };
    let mut texts = Vec::new();
    for block in blocks {
        let BlockKind::ToolResult(result) = &block.kind else { continue };
        match &result.content {
            ResultContent::Text(text, _) => texts.push(text.unescape().into_owned()),
            ResultContent::Parts { parts, .. } => {
                let told = parts.iter().filter_map(|part| part.text);
                texts.extend(told.map(|(text, _)| text.unescape().into_owned()));
            }
            ResultContent::Absent(_) | ResultContent::Opaque(_) => {}
        }
    }
    texts
}

fn message_texts<'a>(message: &Message<'a>) -> impl Iterator<Item = String> {
    message.texts().map(|text| text.unescape().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use softland_wire::Api;

    const SUMMARY: &str = "The parser was read, its tests were run, and two of them fail for want of \
                           a table that somebody has taken out of the build. What is left is the \
                           release, for which three people wait since the last week of October.";

    fn passages_beside(summary: &str, question: &str) -> Vec<Digest> {
        let body = serde_json::json!({"model": "m", "max_tokens": 9,
            "messages": [{"role": "user", "content": question}]});
        let body = body.to_string();
        summary_passages(summary, &Request::from_body(Api::Anthropic, body.as_bytes()).unwrap())
    }

    #[test]
    fn a_summary_is_known_by_what_is_new_in_it() {
        assert!(!passages_beside(SUMMARY, "How is it?").is_empty());
        assert_eq!(passages_beside(SUMMARY, &format!("Is it true? {SUMMARY} I ask you.")), []);
        let quoting = format!("It was asked: {SUMMARY} Nothing was done so far.");
        let asked = told_passages(&format!("{SUMMARY} Begin with the last."));
        let known = passages_beside(&quoting, SUMMARY);
        assert!(!known.iter().any(|passage| asked.contains(passage)));
        let long: String = (0..9000).map(|n| format!("{n} is followed by {} ", n * 7)).collect();
        let known = passages_beside(&long, "Why?").len();
        assert!((NOTED / 2..=NOTED).contains(&known), "{known}");
    }

    #[test]
    fn a_short_summary_is_known_by_a_whole_part_of_a_text() {
        let short = "Two notes were read.\nBoth tell of the river.";
        let passages = passages_beside(&format!("<summary>\n{short}\n</summary>"), "And?");
        let found = |text: &str| told_passages(text).iter().any(|part| passages.contains(part));
        assert!(found(short));
        assert!(found(&format!("This is where we stand:\n\n{short}\n\nGo on.")));
        assert!(found(&format!("What was done: {short}")));
        assert!(found(&format!("<context><summary>{short}</summary></context>")));
        assert!(!found("Two notes were read.\n\nBoth tell of the sea."));
    }
}
