//! Summaries of conversations: finds requests that ask for a summary, and finds a summary again in
//! later histories (`docs/governing.md` §7).

use softland_core::{Digest, tables};
use softland_wire::json::{Cursor, Error};
use softland_wire::request::{BlockKind, Content, Message, Request, ResultContent, Role};

use crate::outline::ask_digest;

/// Characters that tell a summary from any other text.
const ENOUGH: usize = 200;
/// The most passages of one text that are noted.
const PASSAGES: usize = 256;
/// The most passages of one text that are looked for. A summary may stand behind a long system
/// prompt.
const LOOKED_FOR: usize = 8192;
/// Characters of the shortest line that counts.
const SHORTEST: usize = 4;
/// Turns of a history in whose results a summary may stand.
const FIRST_TURNS: usize = 3;
/// Bytes of a tool's result that are looked at.
const RESULT: usize = 4 << 10;

/// True if a request asks for the summary of a conversation, as known clients do.
#[must_use]
pub fn asks_for_summary(request: &Request<'_>) -> bool {
    let list = &request.messages.list;
    let newest = list.iter().rev().find(|message| message.role != Role::System);
    let newest = newest.filter(|message| message.role == Role::User);
    newest.is_some_and(|message| message_texts(message).any(|text| tables::asks_for_summary(&text)))
}

/// Returns the passages of a text, each long enough to tell it from any other: some consecutive
/// lines, without the tags and labels around them.
#[must_use]
pub fn text_passages(text: &str) -> Vec<Digest> {
    first_passages(text, PASSAGES)
}

fn first_passages(text: &str, most: usize) -> Vec<Digest> {
    let lines: Vec<(Digest, usize)> = text.lines().filter_map(bare_line).take(2 * most).collect();
    let mut passages = Vec::new();
    for start in 0..lines.len().min(most) {
        let (mut sum, mut chars) = (Digest::EMPTY, 0);
        for (line, length) in lines.iter().skip(start) {
            (sum, chars) = (sum.followed_by(*line), chars + length);
            if chars >= ENOUGH {
                passages.push(sum);
                break;
            }
        }
    }
    passages
}

/// Returns the passages at places where a summary may stand in a history: in the system prompt,
/// before the first model turn, in that turn, or in the first results.
#[must_use]
pub fn opening_passages(request: &Request<'_>) -> Vec<Digest> {
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
    let all = spoken.flat_map(message_texts).chain(results).chain(system_texts(request));
    all.flat_map(|text| first_passages(&text, LOOKED_FOR)).collect()
}

/// Returns the digests of the texts behind the last model turn that may be a person's, without
/// those that hold `passage`.
#[must_use]
pub fn asks_beside(request: &Request<'_>, passage: Digest) -> Vec<Digest> {
    let list = request.messages.list.iter().rev();
    let newest = list.take_while(|message| message.role != Role::Assistant);
    let users = newest.filter(|message| message.role == Role::User).flat_map(message_texts);
    let beside = users.filter(|text| !text_passages(text).contains(&passage));
    beside.filter_map(|text| ask_digest(&text)).collect()
}

/// Returns the passages of all that users say in a request.
#[must_use]
pub fn user_passages(request: &Request<'_>) -> Vec<Digest> {
    let users = request.messages.list.iter().filter(|message| message.role == Role::User);
    users.flat_map(message_texts).flat_map(|text| text_passages(&text)).collect()
}

/// Returns the first passages of the results behind the last model turn: at most `each` passages of
/// each, and at most `each` results.
#[must_use]
pub fn result_passages(request: &Request<'_>, each: usize) -> Vec<Digest> {
    let list = request.messages.list.iter().rev();
    let newest = list.take_while(|message| message.role != Role::Assistant);
    let blocks = newest.flat_map(|message| match &message.content {
        Content::Blocks { blocks, .. } => blocks.as_slice(),
        Content::Text(..) => &[],
    });
    let results = blocks.filter_map(|block| match &block.kind {
        BlockKind::ToolResult(result) => match &result.content {
            ResultContent::Text(text, _) => Some(text.unescape_head(RESULT)),
            ResultContent::Parts { parts, .. } => {
                parts.iter().find_map(|part| part.text.map(|(text, _)| text.unescape_head(RESULT)))
            }
            ResultContent::Absent(_) | ResultContent::Opaque(_) => None,
        },
        _ => None,
    });
    results.take(each).flat_map(|text| text_passages(&text).into_iter().take(each)).collect()
}

/// Returns a line without the tags and labels around it, and its characters; `None` if it is short.
fn bare_line(line: &str) -> Option<(Digest, usize)> {
    let mut text = line.trim();
    loop {
        let bare = without_label(without_tags(text)).trim();
        if bare.len() == text.len() {
            break;
        }
        text = bare;
    }
    let chars = text.chars().count();
    (chars >= SHORTEST).then(|| (Digest::from_bytes(text.as_bytes()), chars))
}

/// The most bytes of a tag and of a label. No more of a line is searched for either: each is taken
/// off by itself, and a line may consist of them.
const TAG: usize = 64;
const LABEL: usize = 24;

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

    const LINE: &str = "The parser was read, its tests were run, and two of them fail for want of a \
                        table that somebody has taken out of the build.";

    #[test]
    fn a_summary_is_known_by_its_lines_whatever_stands_around_them() {
        let said =
            format!("<summary>\n{LINE}\n\n- {LINE} Again.\nWhat is left: the release.\n</summary>");
        let said = text_passages(&said);
        assert!(!said.is_empty());
        let held = |text: &str| text_passages(text).iter().any(|passage| said.contains(passage));
        assert!(held(&format!("This is what was done:\n\n{LINE}\n- {LINE} Again.\n\nGo on.")));
        assert!(held(&format!("<context><summary>{LINE}\n   - {LINE} Again.</summary></context>")));
        assert!(held(&format!("[Summary]: {LINE}\n- {LINE} Again.")));
        assert!(!held(&format!(
            "{LINE}\nIt is another text from here on, which nobody has said. {LINE}"
        )));
        assert!(!held(&format!("- {LINE} Again.\n{LINE}")), "in another order");
        assert!(!held(LINE), "too little of it");
    }

    #[test]
    fn passages_are_bounded() {
        for text in
            ["a line of some text\n".repeat(100_000), "x".repeat(1 << 20), "<".repeat(1 << 16)]
        {
            assert!(text_passages(&text).len() <= PASSAGES);
        }
    }
}
