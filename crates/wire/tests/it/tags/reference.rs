//! A shaper that can only read whole texts: recursive, quadratic, and written from the rules
//! rather than from the machine it checks.

use std::collections::BTreeSet;

use softland_wire::json::MAX_DEPTH;
use softland_wire::tags::{PartialBlocks, RESULT_TAGS, Shape, StopAfter, StopReason};

/// A piece that owns its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    Text(String),
    Opened(String),
    Block { raw: String, inner: String, nested: usize },
    Repeated(String),
    Partial { raw: String, nested: usize, passed: bool },
    Echo(String),
    Stop(StopReason),
    Trimmed(u64),
}

/// An element of a text, in order.
#[derive(Clone, Debug)]
enum Item {
    Block { start: usize, inner: (usize, usize), end: usize, name: String },
    Open { start: usize, inner: usize, name: String },
    Mark { start: usize, end: usize },
}

/// All pieces of a text.
pub(crate) fn shape(text: &str, shape: &Shape) -> Vec<Got> {
    let mut out = Vec::new();
    let mut seen = BTreeSet::new();
    let (mut sent, mut calls, mut closed) = (0, 0, false);
    let mut stop = None;
    let tags = shape.tags.names();
    let send = |out: &mut Vec<Got>, from: usize, to: usize| {
        if from < to {
            out.push(Got::Text(text[from..to].to_owned()));
        }
    };
    for item in outline(text, tags) {
        let tail = shape.suppress_tail && closed;
        match item {
            Item::Block { start, inner, end, name } => {
                if !tail {
                    send(&mut out, sent, start);
                    sent = start;
                }
                out.push(Got::Opened(name));
                send(&mut out, sent, start);
                sent = end;
                closed = true;
                let raw = text[start..end].to_owned();
                if shape.drop_repeated && !seen.insert(raw.clone()) {
                    out.push(Got::Repeated(raw));
                    continue;
                }
                let inner = text[inner.0..inner.1].to_owned();
                let nested = nested(&inner, tags);
                out.push(Got::Block { raw, inner, nested });
                calls += 1;
                if shape.stop_after == StopAfter::First {
                    stop = Some(StopReason::First);
                } else if shape.max_tools.is_some_and(|max| calls == max.get()) {
                    stop = Some(StopReason::MaxTools);
                }
            }
            Item::Open { start, inner, name } => {
                if !tail {
                    send(&mut out, sent, start);
                    sent = start;
                }
                out.push(Got::Opened(name));
                let passed = !tail && shape.partial == PartialBlocks::Pass;
                let nested = nested(&text[inner..], tags);
                out.push(Got::Partial { raw: text[start..].to_owned(), nested, passed });
                if passed {
                    sent = text.len();
                }
                if sent < text.len() {
                    out.push(Got::Trimmed((text.len() - sent) as u64));
                }
                return out;
            }
            Item::Mark { start, end } => {
                if !tail {
                    send(&mut out, sent, start);
                    sent = start;
                }
                out.push(Got::Echo(text[start..end].to_owned()));
                if shape.stop_at_echo {
                    stop = Some(StopReason::Echo);
                }
            }
        }
        if let Some(reason) = stop {
            out.push(Got::Stop(reason));
            break;
        }
    }
    if stop.is_none() && !(shape.suppress_tail && closed) {
        send(&mut out, sent, text.len());
        sent = text.len();
    }
    if sent < text.len() {
        out.push(Got::Trimmed((text.len() - sent) as u64));
    }
    out
}

/// Joins neighbouring texts.
pub(crate) fn joined(pieces: Vec<Got>) -> Vec<Got> {
    let mut out: Vec<Got> = Vec::new();
    for piece in pieces {
        match (out.last_mut(), piece) {
            (Some(Got::Text(text)), Got::Text(more)) => text.push_str(&more),
            (_, piece) => out.push(piece),
        }
    }
    out
}

fn nested(text: &str, tags: &[String]) -> usize {
    let opens = |at: usize| {
        tags.iter().any(|tag| {
            [">", "/", " ", "\t", "\n", "\r", "\u{c}"]
                .iter()
                .any(|end| text[at..].starts_with(&format!("<{tag}{end}")))
        })
    };
    text.match_indices('<').filter(|(at, _)| opens(*at)).count()
}

fn outline(text: &str, tags: &[String]) -> Vec<Item> {
    let mut items = Vec::new();
    let (mut at, mut beginning, mut fresh) = (0, true, true);
    let (mut watch, mut told) = (false, false);
    while at < text.len() {
        if beginning {
            beginning = false;
            let spaces = text[at..].chars().take(3).take_while(|c| *c == ' ').count();
            at += spaces;
            let rest = &text[at..];
            if let Some(end) = fence(rest).filter(|_| fresh) {
                at += end;
                (beginning, fresh) = (true, true);
                continue;
            }
            if let Some(end) = thinking(rest) {
                at += end;
                (beginning, fresh) = (true, false);
                continue;
            }
            let ticked = fresh && rest.starts_with(['`', '~']);
            let empty = rest.is_empty() || rest.starts_with('\n');
            if watch
                && !told
                && !ticked
                && !empty
                && let Some(length) = mark(rest, tags)
            {
                told = true;
                items.push(Item::Mark { start: at, end: at + length });
            }
            continue;
        }
        let rest = &text[at..];
        if let Some(tag) = opening(rest).filter(|tag| tags.contains(&tag.name)) {
            let (start, name) = (at, tag.name.clone());
            at += tag.length;
            let end = if tag.empty { Some((at, at)) } else { body(text, at, &name, tags) };
            let Some((close, end)) = end else {
                items.push(Item::Open { start, inner: at, name });
                return items;
            };
            items.push(Item::Block { start, inner: (at, close), end, name });
            at = end;
            (beginning, fresh, watch) = (true, false, true);
            continue;
        }
        if rest.starts_with('\n') {
            (beginning, fresh) = (true, true);
        }
        at += rest.chars().next().map_or(1, char::len_utf8);
    }
    items
}

/// Returns the end of a fence that opens here.
fn fence(text: &str) -> Option<usize> {
    let mark = text.chars().next().filter(|c| "`~".contains(*c))?;
    let run = text.len() - text.trim_start_matches(mark).len();
    let info = &text[run..];
    if run < 3 || info.is_empty() {
        return None;
    }
    if mark == '`' {
        let end = info.find(['\n', '`']).unwrap_or(info.len());
        if end >= 1024 || info[end..].starts_with('`') {
            return None;
        }
    }
    let mut at = 0;
    for (n, line) in text.split_inclusive('\n').enumerate() {
        at += line.len();
        let inside = line.trim_start_matches(' ');
        let indent = line.len() - inside.len();
        let ticks = inside.len() - inside.trim_start_matches(mark).len();
        let only = inside[ticks..].trim_matches([' ', '\t', '\r', '\n']).is_empty();
        if n > 0 && indent <= 3 && ticks >= run && only && line.ends_with('\n') {
            return Some(at);
        }
    }
    Some(text.len())
}

fn thinking(text: &str) -> Option<usize> {
    for (open, close) in [("<think>", "</think>"), ("<thinking>", "</thinking>")] {
        if text.starts_with(open) {
            return Some(text.find(close).map_or(text.len(), |at| at + close.len()));
        }
    }
    None
}

/// Returns the length of the shortest beginning that looks like a result.
fn mark(text: &str, tags: &[String]) -> Option<usize> {
    let line: String = text.split('\n').next().unwrap_or_default().to_owned();
    let bare = line.trim_start_matches(['*', '#', '>', '_', ' ', '\t']);
    let decorated = line.len() - bare.len();
    let mut marks: Vec<String> = LINES.iter().map(|mark| (*mark).to_owned()).collect();
    let names: Vec<&str> = RESULT_TAGS.iter().map(|(name, _)| *name).collect();
    let mut tag =
        |name: String| marks.extend([">", " ", "\t", "/"].map(|end| format!("<{name}{end}")));
    for name in names {
        tag(name.to_owned());
    }
    for name in tags {
        for ending in ["_result", "_results", "_response", "_output"] {
            tag(format!("{name}{ending}"));
        }
    }
    (1..=128_usize.saturating_sub(decorated))
        .filter(|n| *n <= bare.len() && bare.is_char_boundary(*n))
        .find(|n| marks.iter().any(|mark| is(mark, &bare[..*n])))
        .map(|n| n + decorated)
}

/// Returns true if a text matches a mark, in which `*` matches 1 to 64 bytes.
fn is(mark: &str, text: &str) -> bool {
    let Some((head, tail)) = mark.split_once('*') else { return text.eq_ignore_ascii_case(mark) };
    let Some(start) = text.get(..head.len()) else { return false };
    start.eq_ignore_ascii_case(head)
        && (head.len() + 1..=(head.len() + 64).min(text.len())).any(|n| {
            text.is_char_boundary(n) && !text[head.len()..n].contains('<') && is(tail, &text[n..])
        })
}

const LINES: &[&str] = &[
    "[tool result]",
    "[tool result:",
    "[tool result for ",
    "[tool results]",
    "[tool_result]",
    "[function result]",
    "[* for '*'] result:",
    "tool '*' result:",
    "tool result:",
    "tool results:",
    "tool output:",
    "tool response:",
    "function result:",
    "function return:",
    "observation:",
    "<|tool_outputs_begin|>",
    "<|tool_output_begin|>",
    "<｜tool▁outputs▁begin｜>",
    "<｜tool▁output▁begin｜>",
    "<|observation|>",
    "<|im_start|>tool",
];

struct Tag {
    name: String,
    empty: bool,
    length: usize,
}

const ENDS_NAME: &[char] = &['<', '>', '/', '=', '"', '\'', '`'];

fn word(text: &str) -> &str {
    let end = text.find(|c: char| c <= ' ' || ENDS_NAME.contains(&c)).unwrap_or(text.len());
    &text[..end]
}

fn opening(text: &str) -> Option<Tag> {
    let name = word(text.strip_prefix('<')?);
    let mut rest = &text[1 + name.len()..];
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let close = rest.strip_prefix("/>").map(|rest| (rest, true));
        if let Some((after, empty)) =
            close.or_else(|| rest.strip_prefix('>').map(|rest| (rest, false)))
        {
            let length = text.len() - after.len();
            let name = name.to_owned();
            return (!name.is_empty() && length <= 1024).then_some(Tag { name, empty, length });
        }
        let key = word(rest);
        if key.is_empty() {
            return None;
        }
        rest = rest[key.len()..].trim_start_matches(|c: char| c.is_ascii_whitespace());
        rest = rest.strip_prefix('=')?.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let quoted = rest.chars().next().filter(|c| "\"'".contains(*c));
        if let Some(quote) = quoted {
            let (value, after) = rest[1..].split_once(quote)?;
            if value.contains('<') {
                return None;
            }
            rest = after;
        } else {
            let value = word(rest);
            let after = &rest[value.len()..];
            let ends = after.starts_with(|c: char| c.is_ascii_whitespace() || "/>".contains(c));
            if value.is_empty() || !ends {
                return None;
            }
            rest = after;
        }
    }
}

/// The length of a closing tag of this name.
fn closing(text: &str, name: &str) -> Option<usize> {
    let rest = text.strip_prefix("</")?.strip_prefix(name)?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace()).strip_prefix('>')?;
    let length = text.len() - rest.len();
    (length <= 1024).then_some(length)
}

/// Returns the start and end of the closing tag of a block whose body begins at `at`.
fn body(text: &str, at: usize, name: &str, tags: &[String]) -> Option<(usize, usize)> {
    let at = at + space(&text[at..]);
    match text[at..].chars().next()? {
        '{' | '[' => match json(text, at) {
            Ok(end) | Err(Some(end)) => free(text, end, name),
            Err(None) => None,
        },
        '<' => between(text, at, name, tags),
        _ => free(text, at, name),
    }
}

fn space(text: &str) -> usize {
    text.len() - text.trim_start_matches(|c: char| c.is_ascii_whitespace()).len()
}

fn free(text: &str, from: usize, name: &str) -> Option<(usize, usize)> {
    let tags = text.match_indices('<').map(|(at, _)| at).filter(|at| *at >= from);
    tags.into_iter().find_map(|at| Some((at, at + closing(&text[at..], name)?)))
}

fn between(text: &str, from: usize, name: &str, tags: &[String]) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        at += text[at..].find('<')?;
        let rest = &text[at..];
        if let Some(length) = closing(rest, name) {
            return Some((at, at + length));
        }
        let tag = opening(rest).filter(|tag| !tags.contains(&tag.name));
        match tag.filter(|tag| tag.name.starts_with(|c: char| c.is_alphabetic() || c == '_')) {
            Some(tag) if tag.empty => at += tag.length,
            Some(tag) => at = child(text, at + tag.length, &tag.name)?,
            None => at += 1,
        }
    }
}

/// The end of an element whose content begins at `from`.
fn child(text: &str, from: usize, name: &str) -> Option<usize> {
    let begin = from + space(&text[from..]);
    let rest = &text[begin..];
    let mut at = match rest.chars().next()? {
        '{' | '[' => match json(text, begin) {
            Ok(end) => end,
            Err(Some(_)) => from,
            Err(None) => return None,
        },
        _ if rest.starts_with("<![CDATA[") => begin + 9 + rest[9..].find("]]>")? + 3,
        _ => from,
    };
    let mut depth = 1;
    loop {
        at += text[at..].find('<')?;
        let rest = &text[at..];
        if let Some(length) = closing(rest, name) {
            depth -= 1;
            at += length;
            if depth == 0 {
                return Some(at);
            }
        } else if let Some(tag) = opening(rest).filter(|tag| tag.name == name) {
            depth += usize::from(!tag.empty);
            at += tag.length;
        } else {
            at += 1;
        }
    }
}

/// Returns the end of a JSON value or the position of an error, or nothing if the text ends.
fn json(text: &str, at: usize) -> Result<usize, Option<usize>> {
    Json { bytes: text.as_bytes() }.value(at, 0)
}

struct Json<'t> {
    bytes: &'t [u8],
}

type Parsed = Result<usize, Option<usize>>;

impl Json<'_> {
    fn space(&self, mut at: usize) -> Result<(usize, u8), Option<usize>> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(at) {
            at += 1;
        }
        self.bytes.get(at).map(|byte| (at, *byte)).ok_or(None)
    }

    fn value(&self, at: usize, depth: usize) -> Parsed {
        let (at, byte) = self.space(at)?;
        match byte {
            b'"' => self.string(at),
            b'{' if depth < MAX_DEPTH => self.list(at + 1, b'}', depth, |json, at| {
                let (at, byte) = json.space(at)?;
                if byte != b'"' {
                    return Err(Some(at));
                }
                let (at, byte) = json.space(json.string(at)?)?;
                if byte != b':' {
                    return Err(Some(at));
                }
                json.value(at + 1, depth + 1)
            }),
            b'[' if depth < MAX_DEPTH => {
                self.list(at + 1, b']', depth, |json, at| json.value(at, depth + 1))
            }
            _ if scalar(byte) => {
                let rest = &self.bytes[at..];
                Ok(at + rest.iter().take_while(|b| scalar(**b)).count())
            }
            _ => Err(Some(at)),
        }
    }

    fn list(
        &self,
        at: usize,
        end: u8,
        _depth: usize,
        item: impl Fn(&Self, usize) -> Parsed,
    ) -> Parsed {
        let (mut at, byte) = self.space(at)?;
        if byte == end {
            return Ok(at + 1);
        }
        loop {
            let (next, byte) = self.space(item(self, at)?)?;
            at = next + 1;
            match byte {
                b',' => {}
                _ if byte == end => return Ok(at),
                _ => return Err(Some(next)),
            }
        }
    }

    fn string(&self, at: usize) -> Parsed {
        let mut at = at + 1;
        loop {
            match self.bytes.get(at) {
                None => return Err(None),
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
            }
        }
    }
}

fn scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}
