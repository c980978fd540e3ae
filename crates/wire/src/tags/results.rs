//! The results that a client's message gives to text calls, as far as they can be separated.
//!
//! Results can be separated if they are in tags with a result's name, or follow lines that name
//! their tool. In any other form the whole message is a single result: its text holds them all.
//! Results answer calls in order. A name is returned if the form has one.

use super::{
    Tags,
    body::{find_next_element, split_elements},
    call::{NAMES, element_name},
    marks::{is_result_tag, parse_named_line},
    markup::{View, split_attributes},
};
use crate::json::Span;

/// Elements within a result's tag that hold the result itself.
const CONTENTS: &[&str] = &["result", "output", "stdout", "content", "response"];

/// Result tags that hold several results.
const LISTS: &[&str] = &["function_results", "tool_results", "fnr"];

/// A result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextResult<'t> {
    /// The tool's name, if given.
    pub name: Option<&'t str>,
    /// The result's text, without its name and its wrapping.
    pub content: &'t str,
}

/// The results in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedResults<'t> {
    /// The results in order, at least one.
    pub answers: Vec<TextResult<'t>>,
    /// True if the results were separated. Otherwise there is one, the whole message.
    pub apart: bool,
    /// Offset at which a line for the model is added: the end of the message.
    pub line_at: usize,
    /// Text outside of the results that is not only whitespace. It may be written by a human.
    pub beside: Vec<Span>,
}

/// Reads the message that follows a turn with text calls.
#[must_use]
pub fn parse_results<'t>(text: &'t str, tags: &Tags) -> ParsedResults<'t> {
    let mut found =
        ParsedResults { answers: Vec::new(), apart: true, line_at: text.len(), beside: vec![] };
    find_tagged(text, tags, &mut found);
    if found.answers.is_empty() {
        found.beside.clear();
        find_named_lines(text, &mut found);
    }
    if found.answers.is_empty() {
        found.apart = false;
        found.beside.clear();
        found.answers.push(TextResult { name: None, content: text });
    }
    found
}

/// Finds results in tags, anywhere in the text.
fn find_tagged<'t>(text: &'t str, tags: &Tags, found: &mut ParsedResults<'t>) {
    let view = View { text, base: 0 };
    let (mut pos, mut from) = (0, 0);
    while let Some(element) = find_next_element(view, &mut pos, |name| is_result_tag(name, tags)) {
        push_text_beside(text, from, element.start, found);
        from = pos;
        let opening = view.get(element.start, element.opened);
        let content = view.get(element.opened, element.closing);
        if LISTS.contains(&tag_name(opening)) && read_result_list(content, tags, found) {
            continue;
        }
        found.answers.push(read_result(opening, content, tags));
    }
    push_text_beside(text, from, text.len(), found);
}

/// Reads the results of a tag that holds several. Returns true if there are any.
fn read_result_list<'t>(content: &'t str, tags: &Tags, found: &mut ParsedResults<'t>) -> bool {
    let before = found.answers.len();
    let view = View { text: content, base: 0 };
    let mut pos = 0;
    let wanted = |name: &str| name == "result" || is_result_tag(name, tags);
    while let Some(element) = find_next_element(view, &mut pos, wanted) {
        let opening = view.get(element.start, element.opened);
        found.answers.push(read_result(opening, view.get(element.opened, element.closing), tags));
    }
    found.answers.len() > before
}

fn read_result<'t>(opening: &'t str, content: &'t str, tags: &Tags) -> TextResult<'t> {
    let mut parts = split_elements(content, tags).unwrap_or_default();
    let inside = parts.iter().position(|(opening, _)| NAMES.contains(&element_name(opening)));
    let name = inside.map(|at| parts.remove(at).1.trim());
    let named = split_attributes(opening).find(|(key, _)| NAMES.contains(key));
    let name = name.or_else(|| named.map(|(_, value)| value));
    let content = match parts.as_slice() {
        [(opening, only)] if CONTENTS.contains(&element_name(opening)) => only,
        _ => content,
    };
    TextResult { name, content: content.trim_ascii() }
}

fn tag_name(opening: &str) -> &str {
    let rest = opening.get(1..).unwrap_or_default();
    rest.split(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/').next().unwrap_or_default()
}

/// Finds results after lines that name the tool: `Tool 'name' result: …`, each up to the next.
fn find_named_lines<'t>(text: &'t str, found: &mut ParsedResults<'t>) {
    let mut open: Option<(&str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some((name, length)) = parse_named_line(line) {
            match open {
                Some(earlier) => push_result(text, earlier, at, found),
                None => push_text_beside(text, 0, at, found),
            }
            open = Some((name, at + length));
        }
        at += line.len();
    }
    if let Some(last) = open {
        push_result(text, last, at, found);
    }
}

fn push_result<'t>(
    text: &'t str,
    (name, from): (&'t str, usize),
    to: usize,
    found: &mut ParsedResults<'t>,
) {
    let content = text.get(from..to).unwrap_or_default().trim_ascii();
    found.answers.push(TextResult { name: Some(name), content });
}

fn push_text_beside(text: &str, from: usize, to: usize, found: &mut ParsedResults<'_>) {
    let span = Span::new(from, to);
    if !span.slice_of(text).trim().is_empty() {
        found.beside.push(span);
    }
}
