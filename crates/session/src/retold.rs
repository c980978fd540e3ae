//! Histories that a client tells as texts in a form of its own: the model called tools through the
//! API, and in later requests its calls stand in the words of a message (`docs/governing.md` §7).
//!
//! The form is not known, but what was called is. A text that mentions a call which the model made
//! at that place of the conversation, or behind that beginning, goes on from it. A call is mentioned
//! by its telling id, by its tool and the words of an argument, or by an argument that opens a line.

use std::borrow::Cow;
use std::collections::BTreeSet;

use softland_core::Digest;
use softland_wire::json::{Cursor, Error, Kind};
use softland_wire::request::{Message, Request, Role};

use crate::outline::Outline;

/// The lengths, in bytes, to which the words of an argument are compared. An argument with fewer
/// words than the first tells nothing.
const LENGTHS: [usize; 3] = [8, 16, 24];
/// The shortest argument that tells its call without the tool's name.
const BARE: usize = 16;
/// Bytes at each end of a text that are searched. A client that tells its history puts the oldest
/// call behind the question and the newest call at the end.
const EDGE: usize = 64 << 10;
/// Names of tools, and openings of lines, that are looked at: the newest and the oldest ones.
const NEWEST: usize = 32;
const OLDEST: usize = 8;
/// The words behind a tool's name at which an argument may begin.
const REACH: usize = 10;
/// The lines between the old beginning and the first new call.
const LINES: usize = 4;
/// The most digests that are looked for.
const MOST: usize = 4096;
/// The calls of a turn that are noted, and the ids of a text that are looked at.
const CALLS: usize = 4;
const IDS: usize = 256;

/// The places of a request's history at which later histories may tell of the next turn's calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallPlaces {
    /// The place of the turn.
    flat: Option<Digest>,
    /// The places in the opening.
    opening: Vec<Digest>,
    /// Calls that the opening itself mentions. There they tell nothing.
    known: BTreeSet<Digest>,
}

impl CallPlaces {
    /// Reads the places of a request. Where a history shows calls as such, later ones do, too, or
    /// tell of the first calls.
    #[must_use]
    pub fn from_request(request: &Request<'_>, outline: &Outline) -> Self {
        let tools = tool_words(request);
        if tools.is_empty() || !outline.calls.is_empty() {
            return Self::default();
        }
        let opening = Opening::from_request(request, outline);
        let known = find_mentions(&opening.text, &tools);
        let whole = opening.lines.last().map(|whole| whole_place(outline, *whole));
        Self {
            flat: Some(flat_place(outline.here)),
            opening: opening.ends_place(outline).into_iter().chain(whole).collect(),
            known: known.into_iter().map(|found| found.call).collect(),
        }
    }

    /// Returns the digests by which later histories tell of these calls: the id, the name and the
    /// arguments of each.
    #[must_use]
    pub fn retold_digests(&self, calls: &[(&str, &str, &str)]) -> Vec<Digest> {
        let told = calls.iter().take(CALLS).flat_map(call_mentions);
        let at = |call: Digest| {
            let new = !self.known.contains(&call);
            let opening = self.opening.iter().filter(move |_| new);
            self.flat.iter().chain(opening).map(move |place| place.followed_by(call))
        };
        told.flat_map(at).collect()
    }
}

/// Returns the digests of the calls that a history tells of in texts, the newest first.
#[must_use]
pub fn find_retold_calls(request: &Request<'_>, outline: &Outline) -> Vec<Digest> {
    let tools = tool_words(request);
    if tools.is_empty() || !outline.calls.is_empty() {
        return Vec::new();
    }
    let mut told = Vec::new();
    // In the turn in whose place they were made, or in the message that answers it.
    let turns = request.messages.list.iter().enumerate().rev();
    let turns = turns.filter(|(_, message)| message.role == Role::Assistant);
    for ((at, turn), shown) in turns.zip(outline.answered.iter().rev()) {
        if shown.calls.is_some() || told.len() >= NEWEST * LENGTHS.len() * REACH {
            continue;
        }
        let answers = request.messages.list.get(at + 1).filter(|next| next.role == Role::User);
        for text in answers.into_iter().chain([turn]).flat_map(message_texts) {
            let found = find_mentions(&text, &tools);
            let place = flat_place(shown.before);
            told.extend(found.into_iter().map(|found| place.followed_by(found.call)));
        }
    }
    let opening = Opening::from_request(request, outline);
    let found = find_mentions(&opening.text, &tools);
    if let Some(place) = opening.ends_place(outline) {
        told.extend(found.iter().map(|found| place.followed_by(found.call)));
    }
    for found in &found {
        let before = opening.lines.get(..=found.line).unwrap_or(&opening.lines);
        let nearest = before.iter().rev().take(LINES + 1);
        told.extend(nearest.map(|line| whole_place(outline, *line).followed_by(found.call)));
    }
    told.truncate(MOST);
    told
}

fn flat_place(before: Digest) -> Digest {
    Digest::from_bytes(b"flat").followed_by(before)
}

fn whole_place(outline: &Outline, lines: Digest) -> Digest {
    Digest::from_bytes(b"whole").followed_by(outline.tools).followed_by(lines)
}

/// What users say before the first model turn.
struct Opening {
    text: String,
    /// The digest of all lines up to each, without numbers.
    lines: Vec<Digest>,
    first: Option<Digest>,
    last: Option<Digest>,
}

impl Opening {
    fn from_request(request: &Request<'_>, outline: &Outline) -> Self {
        // The model's first turn may tell of its own calls.
        let before = request.messages.list.iter().take_while(|m| m.role != Role::Assistant);
        let users = before.filter(|message| message.role == Role::User);
        let text = match outline.answered.len() {
            0 | 1 => users.flat_map(message_texts).collect::<Vec<_>>().join("\n"),
            // A later history grows at its end.
            _ => String::new(),
        };
        let digests = text.lines().map(line_digest);
        let mut said = digests.clone().flatten();
        let (first, last) = (said.next(), said.next_back());
        let mut chain = Digest::EMPTY;
        let lines = digests.map(|line| {
            chain = line.map_or(chain, |line| chain.followed_by(line));
            chain
        });
        Self { lines: lines.collect(), first, last: last.or(first), text }
    }

    /// Returns the place between the first line and the last.
    fn ends_place(&self, outline: &Outline) -> Option<Digest> {
        let ends = Digest::from_bytes(b"ends").followed_by(outline.tools);
        Some(ends.followed_by(self.first?).followed_by(self.last?))
    }
}

/// Returns the digest of a line without its numbers; `None` if nothing is left.
fn line_digest(line: &str) -> Option<Digest> {
    let kept: String = line.trim().chars().filter(|c| !c.is_numeric()).collect();
    (!kept.is_empty()).then(|| Digest::from_bytes(kept.as_bytes()))
}

/// Returns the first word of each tool's name.
fn tool_words<'r>(request: &'r Request<'_>) -> BTreeSet<&'r str> {
    let tools = request.tools.as_ref().map(|tools| tools.list.as_slice()).unwrap_or_default();
    tools.iter().filter_map(|tool| words_of(tool.name.raw()).next().map(|(_, word)| word)).collect()
}

/// A call that a text mentions.
struct Mention {
    call: Digest,
    /// The number of the line.
    line: usize,
}

/// Returns the digests by which a call may be mentioned.
fn call_mentions((id, name, input): &(&str, &str, &str)) -> Vec<Digest> {
    let mut told = Vec::new();
    if Outline::id_digest(id).is_some() {
        told.push(id_mention(id));
    }
    let Some(value) = first_value(input) else { return told };
    let lengths = || word_digests(words_of(&value).map(|(_, word)| word));
    if let (Some((_, words)), Some((_, tool))) = (lengths().last(), words_of(name).next()) {
        told.push(named_mention(tool, words));
    }
    let bare = lengths().filter(|(length, _)| *length >= BARE).last();
    told.extend(bare.map(|(_, words)| bare_mention(words)));
    told
}

fn id_mention(id: &str) -> Digest {
    Digest::from_bytes(b"id").followed_by(Digest::from_bytes(id.as_bytes()))
}

fn named_mention(tool: &str, words: Digest) -> Digest {
    Digest::from_bytes(b"named").followed_by(Digest::from_bytes(tool.as_bytes())).followed_by(words)
}

fn bare_mention(words: Digest) -> Digest {
    Digest::from_bytes(b"bare").followed_by(words)
}

/// Returns the first value among a call's arguments that has enough words. Arguments that are no
/// JSON are one value.
fn first_value(input: &str) -> Option<Cow<'_, str>> {
    let telling =
        |text: &str| words_of(text).map(|(_, word)| word.len()).sum::<usize>() >= LENGTHS[0];
    let mut found = None;
    let mut cursor = Cursor::new(input);
    let read = find_value(&mut cursor, &telling, &mut found, 0);
    match read {
        Ok(()) => found,
        Err(_) => Some(Cow::Borrowed(input)).filter(|text| telling(text)),
    }
}

/// The levels of arguments that are searched.
const DEPTH: usize = 4;

fn find_value<'a>(
    cursor: &mut Cursor<'a>,
    telling: &impl Fn(&str) -> bool,
    found: &mut Option<Cow<'a, str>>,
    depth: usize,
) -> Result<(), Error> {
    match cursor.peek()? {
        Kind::Object if depth < DEPTH && found.is_none() => {
            cursor.read_members(|cursor, _| find_value(cursor, telling, found, depth + 1))?;
        }
        Kind::Array if depth < DEPTH && found.is_none() => {
            cursor.read_elements(|cursor| find_value(cursor, telling, found, depth + 1))?;
        }
        Kind::String if found.is_none() => {
            let (text, _) = cursor.read_string()?;
            *found = Some(text.unescape()).filter(|text| telling(text));
        }
        _ => {
            cursor.skip_value()?;
        }
    }
    Ok(())
}

/// Returns the words of a text with their places.
fn words_of(text: &str) -> impl Iterator<Item = (usize, &str)> + Clone {
    let start = text.as_ptr() as usize;
    let apart = |c: char| !(c.is_alphanumeric() || c == '_');
    let words = text.split(apart).filter(|word| !word.is_empty());
    words.map(move |word| ((word.as_ptr() as usize).saturating_sub(start), word))
}

/// Returns the digest of the first words to each of the lengths, as far as there are words.
fn word_digests<'w>(words: impl Iterator<Item = &'w str>) -> impl Iterator<Item = (usize, Digest)> {
    let mut lengths = LENGTHS.into_iter().peekable();
    let (mut sum, mut bytes) = (Digest::EMPTY, 0);
    words
        .map(move |word| {
            (sum, bytes) =
                (sum.followed_by(Digest::from_bytes(word.as_bytes())), bytes + word.len());
            let mut reached = None;
            while let Some(length) = lengths.next_if(|length| bytes >= *length) {
                reached = Some(length);
            }
            (reached, sum)
        })
        .take(LENGTHS.iter().sum())
        .filter_map(|(reached, sum)| Some((reached?, sum)))
}

/// Returns the calls that a text mentions, the newest first.
fn find_mentions(text: &str, tools: &BTreeSet<&str>) -> Vec<Mention> {
    let words = edge_words(text);
    let lines = LineNumbers::of(text);
    let mut places: Vec<(usize, bool)> = Vec::new();
    let mut ids = Vec::new();
    let mut line = usize::MAX;
    for (at, (place, word)) in words.iter().enumerate() {
        let new = lines.number_at(*place);
        let opens = std::mem::replace(&mut line, new) != new;
        if opens || tools.contains(word) {
            places.push((at, opens));
        }
    }
    for (place, id) in ids_of(text) {
        ids.push(Mention { call: id_mention(id), line: lines.number_at(place) });
    }
    let newest = places.len().saturating_sub(NEWEST);
    let oldest = places.iter().take(newest.min(OLDEST));
    let chosen = places.iter().skip(newest).rev().chain(oldest.rev());
    let mut found: Vec<Mention> = ids.into_iter().rev().take(IDS).collect();
    for (at, opens) in chosen {
        let rest = words.get(*at..).unwrap_or_default();
        let Some((place, word)) = rest.first() else { continue };
        let line = lines.number_at(*place);
        let from = |skip: usize| word_digests(rest.iter().skip(skip).map(|(_, word)| *word));
        if *opens {
            let bare = from(0).filter(|(length, _)| *length >= BARE);
            found.extend(bare.map(|(_, words)| Mention { call: bare_mention(words), line }));
        }
        if tools.contains(word) {
            let named = (1..=REACH).flat_map(from);
            found
                .extend(named.map(|(_, words)| Mention { call: named_mention(word, words), line }));
        }
    }
    found
}

/// Returns the words at both ends of a text.
fn edge_words(text: &str) -> Vec<(usize, &str)> {
    let (head, tail) = edges(text);
    let behind = text.len() - tail.len();
    words_of(head).chain(words_of(tail).map(|(at, word)| (at + behind, word))).collect()
}

/// Returns the two ends of a text that are searched. The second is empty for a short text.
fn edges(text: &str) -> (&str, &str) {
    if text.len() <= 2 * EDGE {
        return (text, "");
    }
    let head = text.get(..text.floor_char_boundary(EDGE)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len() - EDGE)..).unwrap_or_default();
    (head, tail)
}

/// Returns the words of a text that may be a call's id, with their places.
fn ids_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = text.as_ptr() as usize;
    let (head, tail) = edges(text);
    let apart = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let words = head.split(apart).chain(tail.split(apart));
    let words = words.filter(|word| Outline::id_digest(word).is_some());
    words.map(move |word| ((word.as_ptr() as usize).saturating_sub(start), word))
}

/// The numbers of a text's lines.
struct LineNumbers(Vec<usize>);

impl LineNumbers {
    fn of(text: &str) -> Self {
        Self(
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect(),
        )
    }

    fn number_at(&self, place: usize) -> usize {
        self.0.partition_point(|end| *end < place)
    }
}

fn message_texts<'a>(message: &Message<'a>) -> impl Iterator<Item = Cow<'a, str>> {
    message.texts().map(|text| text.unescape())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mentions(text: &str) -> Vec<Digest> {
        let tools = BTreeSet::from(["read_file", "shell"]);
        find_mentions(text, &tools).into_iter().map(|found| found.call).collect()
    }

    #[test]
    fn a_call_is_found_in_whatever_form_it_is_told() {
        let path = r#"{"path":"notes/of/2026/walks.md","offset":3}"#;
        let told = |id, name, input, text: &str| {
            let found = mentions(text);
            call_mentions(&(id, name, input)).iter().any(|call| found.contains(call))
        };
        for text in [
            "I call read_file(path='notes/of/2026/walks.md', offset=3) now",
            r#"Calls: [{"name": "read_file", "arguments": "{\"path\": \"notes/of/2026/walks.md\"}"}]"#,
            "<read_file>\n<path>notes/of/2026/walks.md</path>\n</read_file>",
            "It was asked:\n  - notes/of/2026/walks.md",
        ] {
            assert!(told("call_0", "read_file", path, text), "{text}");
        }
        for text in [
            "I call shell(path='notes/of/2026/walks.md') now",
            "read_file was used for notes/of/2025/walks.md",
            "Who wrote the notes/of/2026/walks.md?",
            "",
        ] {
            assert!(!told("call_0", "read_file", path, text), "{text}");
        }
        assert!(told("toolu_0000000017", "x", "{}", "as of toolu_0000000017: nothing"));
        assert!(!told("call_0", "shell", r#"{"command":"pwd"}"#, "shell pwd"), "it is too short");
        assert!(told("call_0", "shell", r#"{"cmd":["ls -la /tmp/x"]}"#, "$ shell: ls -la /tmp/x"));
    }

    #[test]
    fn what_is_looked_for_is_bounded() {
        for text in ["read_file ".repeat(100_000), "toolu_00000000001 ".repeat(50_000)] {
            assert!(mentions(&text).len() <= (NEWEST + OLDEST) * LENGTHS.len() * (REACH + 1) + IDS);
        }
        assert!(mentions(&"a line of words\n".repeat(100_000)).len() <= 200);
        assert!(call_mentions(&("", "x", &"[".repeat(100_000))).is_empty());
    }
}
