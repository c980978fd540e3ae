//! The body of a block: its end, and its parameter elements.
//!
//! A body has one of three forms, identified by its first byte other than whitespace: JSON (`{`,
//! `[`), parameter elements (`<`), or anything else. In the first two forms, the structure
//! determines which closing tags belong to the body. Once a body violates its form, the next
//! closing tag ends it, and no call can be made of it.

use memchr::{memchr, memmem};

use super::{
    MAX_TAG, Tags,
    json::{self, JsonScanner},
    markup::{TagProgress, TagReader, View, count_examined},
};

/// The next part found in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyPart {
    /// A parameter element.
    Child {
        /// From the `<` of the opening tag to its end.
        opening: (usize, usize),
        /// The content between the tags.
        content: (usize, usize),
    },
    /// The closing tag.
    Closed {
        /// Offset of its start.
        at: usize,
        /// Offset of its end.
        end: usize,
    },
}

/// A body that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockBody {
    scan: BodyState,
    /// True if there is text between parameter elements.
    pub(super) stray: bool,
}

#[derive(Clone, Copy, Debug)]
enum BodyState {
    /// Before the first byte other than whitespace.
    Begin,
    Json(JsonScanner),
    /// Only the closing tag matters.
    Free,
    FreeTag(TagReader),
    /// Between parameter elements.
    Between,
    BetweenTag(TagReader),
    Child(ChildElement),
}

/// An open parameter element.
#[derive(Clone, Copy, Debug)]
struct ChildElement {
    opening: (usize, usize),
    name: (usize, usize),
    /// The number of open elements with this name, including this one.
    depth: usize,
    content: ChildState,
}

#[derive(Clone, Copy, Debug)]
enum ChildState {
    /// Before the first byte other than whitespace.
    Begin,
    Json(JsonScanner),
    Cdata,
    Text,
    Tag(TagReader),
}

const CDATA: &str = "<![CDATA[";

impl BlockBody {
    pub(super) const fn new() -> Self {
        Self { scan: BodyState::Begin, stray: false }
    }

    /// Returns the next part, or `None` at the end of the text. `name` is the name of the block's
    /// tag.
    pub(super) fn next_part(
        &mut self,
        view: View<'_>,
        pos: &mut usize,
        name: &str,
        tags: &Tags,
    ) -> Option<BodyPart> {
        loop {
            match &mut self.scan {
                BodyState::Begin => self.begin_body(view, pos)?,
                BodyState::Json(json) => match json.feed_view(view, pos) {
                    json::JsonProgress::More => return None,
                    json::JsonProgress::Bad | json::JsonProgress::Done => {
                        self.scan = BodyState::Free
                    }
                },
                BodyState::Free => self.scan = BodyState::FreeTag(find_next_tag(view, pos)?),
                BodyState::FreeTag(tag) => {
                    let wanted = |found: &str, whole: bool| matches_name(found, whole, name);
                    match tag.feed_view(view, pos, wanted) {
                        TagProgress::More => return None,
                        TagProgress::Close => {
                            return Some(BodyPart::Closed { at: tag.start, end: *pos });
                        }
                        TagProgress::Not | TagProgress::Open { .. } => {
                            *pos = tag.start + 1;
                            self.scan = BodyState::Free;
                        }
                    }
                }
                BodyState::Between => self.scan_between(view, pos)?,
                BodyState::BetweenTag(tag) => {
                    let fed = tag.feed_view(view, pos, |_, _| true);
                    let tag = *tag;
                    if fed == TagProgress::More {
                        return None;
                    }
                    if let Some(part) = self.handle_tag(tag, fed, view, pos, name, tags) {
                        return Some(part);
                    }
                }
                BodyState::Child(child) => {
                    let part = child.next_part(view, pos)?;
                    self.scan = BodyState::Between;
                    return Some(part);
                }
            }
        }
    }

    fn begin_body(&mut self, view: View<'_>, pos: &mut usize) -> Option<()> {
        self.scan = match skip_space(view, pos)? {
            b'{' | b'[' => BodyState::Json(JsonScanner::new()),
            b'<' => BodyState::Between,
            _ => BodyState::Free,
        };
        Some(())
    }

    fn scan_between(&mut self, view: View<'_>, pos: &mut usize) -> Option<()> {
        if skip_space(view, pos)? == b'<' {
            self.scan = BodyState::BetweenTag(TagReader::new(*pos));
            *pos += 1;
        } else {
            self.stray = true;
            let rest = view.bytes(*pos);
            let length = memchr(b'<', rest).unwrap_or(rest.len());
            count_examined(length);
            *pos += length;
        }
        Some(())
    }

    /// Handles a complete tag between parameter elements.
    fn handle_tag(
        &mut self,
        tag: TagReader,
        fed: TagProgress,
        view: View<'_>,
        pos: &mut usize,
        name: &str,
        tags: &Tags,
    ) -> Option<BodyPart> {
        let found = tag.name(view);
        self.scan = BodyState::Between;
        let named = found.starts_with(|c: char| c.is_alphabetic() || c == '_');
        match fed {
            TagProgress::Close if found == name => {
                return Some(BodyPart::Closed { at: tag.start, end: *pos });
            }
            TagProgress::Open { empty } if named && !tags.has_name(found) => {
                let opening = (tag.start, *pos);
                if empty {
                    return Some(BodyPart::Child { opening, content: (*pos, *pos) });
                }
                let name = tag.name_range();
                let content = ChildState::Begin;
                self.scan = BodyState::Child(ChildElement { opening, name, depth: 1, content });
            }
            _ => {
                self.stray = true;
                *pos = tag.start + 1;
            }
        }
        None
    }
}

impl ChildElement {
    /// Returns the whole element once its closing tag is read.
    fn next_part(&mut self, view: View<'_>, pos: &mut usize) -> Option<BodyPart> {
        let name = view.get(self.name.0, self.name.1);
        loop {
            match &mut self.content {
                ChildState::Begin => self.content = begin_child_content(view, pos)?,
                ChildState::Json(json) => match json.feed_view(view, pos) {
                    json::JsonProgress::More => return None,
                    json::JsonProgress::Done => self.content = ChildState::Text,
                    // The text only began like JSON: it is read again as text, from its beginning.
                    json::JsonProgress::Bad => {
                        *pos = self.opening.1;
                        self.content = ChildState::Text;
                    }
                },
                ChildState::Cdata => {
                    let rest = view.bytes(*pos);
                    let found = memmem::find(rest, b"]]>");
                    count_examined(found.unwrap_or(rest.len()));
                    let Some(end) = found else {
                        // The last two bytes may be the start of the end marker.
                        *pos = view.end().saturating_sub(2).max(*pos);
                        return None;
                    };
                    *pos += end + 3;
                    self.content = ChildState::Text;
                }
                ChildState::Text => self.content = ChildState::Tag(find_next_tag(view, pos)?),
                ChildState::Tag(tag) => {
                    let wanted = |found: &str, whole: bool| matches_name(found, whole, name);
                    match tag.feed_view(view, pos, wanted) {
                        TagProgress::More => return None,
                        TagProgress::Not => *pos = tag.start + 1,
                        TagProgress::Open { empty } => self.depth += usize::from(!empty),
                        TagProgress::Close if self.depth > 1 => self.depth -= 1,
                        TagProgress::Close => {
                            let content = (self.opening.1, tag.start);
                            return Some(BodyPart::Child { opening: self.opening, content });
                        }
                    }
                    self.content = ChildState::Text;
                }
            }
        }
    }
}

fn begin_child_content(view: View<'_>, pos: &mut usize) -> Option<ChildState> {
    Some(match skip_space(view, pos)? {
        b'{' | b'[' => ChildState::Json(JsonScanner::new()),
        b'<' => {
            let rest = view.bytes(*pos);
            let shown = rest.get(..CDATA.len()).unwrap_or(rest);
            if !CDATA.as_bytes().starts_with(shown) {
                ChildState::Text
            } else if shown.len() < CDATA.len() {
                return None;
            } else {
                *pos += CDATA.len();
                ChildState::Cdata
            }
        }
        _ => ChildState::Text,
    })
}

/// Finds the next possible tag and moves `pos` after its `<`.
fn find_next_tag(view: View<'_>, pos: &mut usize) -> Option<TagReader> {
    let rest = view.bytes(*pos);
    let Some(found) = memchr(b'<', rest) else {
        count_examined(rest.len());
        *pos = view.end();
        return None;
    };
    count_examined(found + 1);
    let start = *pos + found;
    *pos = start + 1;
    Some(TagReader::new(start))
}

/// Skips whitespace and returns the byte after it.
fn skip_space(view: View<'_>, pos: &mut usize) -> Option<u8> {
    for &byte in view.bytes(*pos) {
        count_examined(1);
        if !byte.is_ascii_whitespace() {
            return Some(byte);
        }
        *pos += 1;
    }
    None
}

fn matches_name(found: &str, whole: bool, name: &str) -> bool {
    if whole { found == name } else { name.starts_with(found) }
}

/// Counts the opening tags of `tags` in a text, by their first characters.
pub(super) fn count_nested_openings(text: &str, tags: &Tags) -> usize {
    let opens = |at: usize| {
        let rest = text.get(at + 1..).unwrap_or_default();
        tags.names().iter().any(|name| {
            let after = rest.strip_prefix(name.as_str()).and_then(|rest| rest.bytes().next());
            after.is_some_and(|b| b == b'>' || b == b'/' || b.is_ascii_whitespace())
        })
    };
    memchr::memchr_iter(b'<', text.as_bytes()).filter(|&at| opens(at)).count()
}

/// Splits a text into its elements, each with opening tag and content. Returns `None` if the text
/// contains anything else.
pub(super) fn split_elements<'t>(text: &'t str, tags: &Tags) -> Option<Vec<(&'t str, &'t str)>> {
    let view = View { text, base: 0 };
    let (mut body, mut pos) = (BlockBody::new(), 0);
    let mut found = Vec::new();
    // No tag has an empty name, so nothing in the text closes the body.
    while let Some(part) = body.next_part(view, &mut pos, "", tags) {
        if let BodyPart::Child { opening, content } = part {
            found.push((view.get(opening.0, opening.1), view.get(content.0, content.1)));
        }
    }
    let ended = matches!(body.scan, BodyState::Between | BodyState::Begin);
    (ended && !body.stray).then_some(found)
}

/// An element of a text, as offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub(super) start: usize,
    /// The end of the opening tag.
    pub(super) opened: usize,
    /// The start of the closing tag.
    pub(super) closing: usize,
}

/// Finds the next element with a wanted name, wherever it begins, and moves `pos` after it. After
/// an element that is not closed, nothing more is found.
pub(super) fn find_next_element(
    view: View<'_>,
    pos: &mut usize,
    wanted: impl Fn(&str) -> bool,
) -> Option<Element> {
    loop {
        let mut tag = find_next_tag(view, pos)?;
        let start = tag.start;
        let fed = tag.feed_view(view, pos, |name, whole| !whole || wanted(name));
        let opening = (start, *pos);
        match fed {
            TagProgress::Open { empty: true } => {
                return Some(Element { start, opened: *pos, closing: *pos });
            }
            TagProgress::Open { empty: false } => {
                let (name, content) = (tag.name_range(), ChildState::Begin);
                let mut child = ChildElement { opening, name, depth: 1, content };
                let found = child.next_part(view, pos).or_else(|| {
                    // The text only began like JSON and was cut within it, so it is text.
                    *pos = opening.1;
                    ChildElement { opening, name, depth: 1, content: ChildState::Text }
                        .next_part(view, pos)
                });
                let BodyPart::Child { content, .. } = found? else { return None };
                return Some(Element { start, opened: opening.1, closing: content.1 });
            }
            TagProgress::More | TagProgress::Not | TagProgress::Close => *pos = start + 1,
        }
    }
}

const _: () = assert!(MAX_TAG > super::MAX_NAME + 16, "a bare tag always fits");
