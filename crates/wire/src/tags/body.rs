//! The body of a block: its end, and its parameter elements.
//!
//! A body has one of three forms, identified by its first byte other than whitespace: JSON (`{`,
//! `[`), parameter elements (`<`), or anything else. In the first two forms, the structure
//! determines which closing tags belong to the body. Once a body violates its form, the next
//! closing tag ends it, and no call can be made of it.

use memchr::{memchr, memmem};

use super::{
    MAX_TAG, Tags,
    json::{self, Json},
    markup::{Fed, Markup, View, looked},
};

/// The next part found in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
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
pub(super) struct Body {
    scan: Scan,
    /// True if there is text between parameter elements.
    pub(super) stray: bool,
}

#[derive(Clone, Copy, Debug)]
enum Scan {
    /// Before the first byte other than whitespace.
    Begin,
    Json(Json),
    /// Only the closing tag matters.
    Free,
    FreeTag(Markup),
    /// Between parameter elements.
    Between,
    BetweenTag(Markup),
    Child(Child),
}

/// An open parameter element.
#[derive(Clone, Copy, Debug)]
struct Child {
    opening: (usize, usize),
    name: (usize, usize),
    /// The number of open elements with this name, including this one.
    depth: usize,
    content: Content,
}

#[derive(Clone, Copy, Debug)]
enum Content {
    /// Before the first byte other than whitespace.
    Begin,
    Json(Json),
    Cdata,
    Text,
    Tag(Markup),
}

const CDATA: &str = "<![CDATA[";

impl Body {
    pub(super) const fn new() -> Self {
        Self { scan: Scan::Begin, stray: false }
    }

    /// Returns the next part, or `None` at the end of the text. `name` is the name of the block's
    /// tag.
    pub(super) fn next(
        &mut self,
        view: View<'_>,
        pos: &mut usize,
        name: &str,
        tags: &Tags,
    ) -> Option<Part> {
        loop {
            match &mut self.scan {
                Scan::Begin => self.begin(view, pos)?,
                Scan::Json(json) => match json.feed(view, pos) {
                    json::Fed::More => return None,
                    json::Fed::Bad | json::Fed::Done => self.scan = Scan::Free,
                },
                Scan::Free => self.scan = Scan::FreeTag(next_tag(view, pos)?),
                Scan::FreeTag(tag) => {
                    let wanted = |found: &str, whole: bool| fits(found, whole, name);
                    match tag.feed(view, pos, wanted) {
                        Fed::More => return None,
                        Fed::Close => return Some(Part::Closed { at: tag.start, end: *pos }),
                        Fed::Not | Fed::Open { .. } => {
                            *pos = tag.start + 1;
                            self.scan = Scan::Free;
                        }
                    }
                }
                Scan::Between => self.between(view, pos)?,
                Scan::BetweenTag(tag) => {
                    let fed = tag.feed(view, pos, |_, _| true);
                    let tag = *tag;
                    if fed == Fed::More {
                        return None;
                    }
                    if let Some(part) = self.at_tag(tag, fed, view, pos, name, tags) {
                        return Some(part);
                    }
                }
                Scan::Child(child) => {
                    let part = child.next(view, pos)?;
                    self.scan = Scan::Between;
                    return Some(part);
                }
            }
        }
    }

    fn begin(&mut self, view: View<'_>, pos: &mut usize) -> Option<()> {
        self.scan = match skip_space(view, pos)? {
            b'{' | b'[' => Scan::Json(Json::new()),
            b'<' => Scan::Between,
            _ => Scan::Free,
        };
        Some(())
    }

    fn between(&mut self, view: View<'_>, pos: &mut usize) -> Option<()> {
        if skip_space(view, pos)? == b'<' {
            self.scan = Scan::BetweenTag(Markup::new(*pos));
            *pos += 1;
        } else {
            self.stray = true;
            let rest = view.bytes(*pos);
            let length = memchr(b'<', rest).unwrap_or(rest.len());
            looked(length);
            *pos += length;
        }
        Some(())
    }

    /// Handles a complete tag between parameter elements.
    fn at_tag(
        &mut self,
        tag: Markup,
        fed: Fed,
        view: View<'_>,
        pos: &mut usize,
        name: &str,
        tags: &Tags,
    ) -> Option<Part> {
        let found = tag.name(view);
        self.scan = Scan::Between;
        let named = found.starts_with(|c: char| c.is_alphabetic() || c == '_');
        match fed {
            Fed::Close if found == name => {
                return Some(Part::Closed { at: tag.start, end: *pos });
            }
            Fed::Open { empty } if named && !tags.has(found) => {
                let opening = (tag.start, *pos);
                if empty {
                    return Some(Part::Child { opening, content: (*pos, *pos) });
                }
                let name = tag.name_at();
                let content = Content::Begin;
                self.scan = Scan::Child(Child { opening, name, depth: 1, content });
            }
            _ => {
                self.stray = true;
                *pos = tag.start + 1;
            }
        }
        None
    }
}

impl Child {
    /// Returns the whole element once its closing tag is read.
    fn next(&mut self, view: View<'_>, pos: &mut usize) -> Option<Part> {
        let name = view.get(self.name.0, self.name.1);
        loop {
            match &mut self.content {
                Content::Begin => self.content = begin_content(view, pos)?,
                Content::Json(json) => match json.feed(view, pos) {
                    json::Fed::More => return None,
                    json::Fed::Done => self.content = Content::Text,
                    // The text only began like JSON: it is read again as text, from its beginning.
                    json::Fed::Bad => {
                        *pos = self.opening.1;
                        self.content = Content::Text;
                    }
                },
                Content::Cdata => {
                    let rest = view.bytes(*pos);
                    let found = memmem::find(rest, b"]]>");
                    looked(found.unwrap_or(rest.len()));
                    let Some(end) = found else {
                        // The last two bytes may be the start of the end marker.
                        *pos = view.end().saturating_sub(2).max(*pos);
                        return None;
                    };
                    *pos += end + 3;
                    self.content = Content::Text;
                }
                Content::Text => self.content = Content::Tag(next_tag(view, pos)?),
                Content::Tag(tag) => {
                    let wanted = |found: &str, whole: bool| fits(found, whole, name);
                    match tag.feed(view, pos, wanted) {
                        Fed::More => return None,
                        Fed::Not => *pos = tag.start + 1,
                        Fed::Open { empty } => self.depth += usize::from(!empty),
                        Fed::Close if self.depth > 1 => self.depth -= 1,
                        Fed::Close => {
                            let content = (self.opening.1, tag.start);
                            return Some(Part::Child { opening: self.opening, content });
                        }
                    }
                    self.content = Content::Text;
                }
            }
        }
    }
}

fn begin_content(view: View<'_>, pos: &mut usize) -> Option<Content> {
    Some(match skip_space(view, pos)? {
        b'{' | b'[' => Content::Json(Json::new()),
        b'<' => {
            let rest = view.bytes(*pos);
            let shown = rest.get(..CDATA.len()).unwrap_or(rest);
            if !CDATA.as_bytes().starts_with(shown) {
                Content::Text
            } else if shown.len() < CDATA.len() {
                return None;
            } else {
                *pos += CDATA.len();
                Content::Cdata
            }
        }
        _ => Content::Text,
    })
}

/// Finds the next possible tag and moves `pos` after its `<`.
fn next_tag(view: View<'_>, pos: &mut usize) -> Option<Markup> {
    let rest = view.bytes(*pos);
    let Some(found) = memchr(b'<', rest) else {
        looked(rest.len());
        *pos = view.end();
        return None;
    };
    looked(found + 1);
    let start = *pos + found;
    *pos = start + 1;
    Some(Markup::new(start))
}

/// Skips whitespace and returns the byte after it.
fn skip_space(view: View<'_>, pos: &mut usize) -> Option<u8> {
    for &byte in view.bytes(*pos) {
        looked(1);
        if !byte.is_ascii_whitespace() {
            return Some(byte);
        }
        *pos += 1;
    }
    None
}

fn fits(found: &str, whole: bool, name: &str) -> bool {
    if whole { found == name } else { name.starts_with(found) }
}

/// Counts the opening tags of `tags` in a text, by their first characters.
pub(super) fn nested_openings(text: &str, tags: &Tags) -> usize {
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
pub(super) fn elements<'t>(text: &'t str, tags: &Tags) -> Option<Vec<(&'t str, &'t str)>> {
    let view = View { text, base: 0 };
    let (mut body, mut pos) = (Body::new(), 0);
    let mut found = Vec::new();
    // No tag has an empty name, so nothing in the text closes the body.
    while let Some(part) = body.next(view, &mut pos, "", tags) {
        if let Part::Child { opening, content } = part {
            found.push((view.get(opening.0, opening.1), view.get(content.0, content.1)));
        }
    }
    let ended = matches!(body.scan, Scan::Between | Scan::Begin);
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
pub(super) fn next_element(
    view: View<'_>,
    pos: &mut usize,
    wanted: impl Fn(&str) -> bool,
) -> Option<Element> {
    loop {
        let mut tag = next_tag(view, pos)?;
        let start = tag.start;
        let fed = tag.feed(view, pos, |name, whole| !whole || wanted(name));
        let opening = (start, *pos);
        match fed {
            Fed::Open { empty: true } => {
                return Some(Element { start, opened: *pos, closing: *pos });
            }
            Fed::Open { empty: false } => {
                let (name, content) = (tag.name_at(), Content::Begin);
                let mut child = Child { opening, name, depth: 1, content };
                let found = child.next(view, pos).or_else(|| {
                    // The text only began like JSON and was cut within it, so it is text.
                    *pos = opening.1;
                    Child { opening, name, depth: 1, content: Content::Text }.next(view, pos)
                });
                let Part::Child { content, .. } = found? else { return None };
                return Some(Element { start, opened: opening.1, closing: content.1 });
            }
            Fed::More | Fed::Not | Fed::Close => *pos = start + 1,
        }
    }
}

const _: () = assert!(MAX_TAG > super::MAX_NAME + 16, "a bare tag always fits");
