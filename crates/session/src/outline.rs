//! What a request says of whose it is and how large it may become, before its history is read.
//!
//! It decides nothing: who keeps a store finds a conversation again by what is here.

use std::borrow::Cow;

use softland_core::{Digest, tables};
use softland_wire::json::Str;
use softland_wire::request::{
    Block, BlockKind, Content, Message as RequestMessage, Request, ResultContent, Role,
    ThinkingMode,
};

use crate::tags::flat;

/// A call id that is shorter, or has no digit, is a backend's counter: it comes again elsewhere.
const TELLING_ID: usize = 12;

/// The outline of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The digest of its first user message.
    pub first: Digest,
    /// Whether that message is the summary of a compacted history.
    pub summary: bool,
    /// The digest of all of its messages.
    pub here: Digest,
    /// Its model turns, in order.
    pub answered: Vec<Answered>,
    /// The digest of its tools' names.
    pub tools: Digest,
    /// Whether it declares tools or carries results of any.
    pub uses_tools: bool,
    /// Whether it carries more than text: images, documents, what is not known.
    pub media: bool,
    /// Thinking tokens that it asks for within its output.
    pub thinking_budget: u64,
}

/// One model turn of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answered {
    /// The digest of all messages before it.
    pub before: Digest,
    /// The digest of its call ids, where they tell it from every other turn.
    pub calls: Option<Digest>,
}

impl Outline {
    /// The outline of a request. Cache marks, thinking, the order of blocks within a message, and
    /// whether a text stands alone or in a list make no difference.
    #[must_use]
    pub fn of(request: &Request<'_>) -> Self {
        let list = &request.messages.list;
        let mut outline = Self::empty(request);
        let mut chain = Digest::EMPTY;
        for (at, message) in list.iter().enumerate() {
            match message.role {
                Role::User if chain == Digest::EMPTY => {
                    outline.first = digest(request, message);
                    outline.summary = is_summary(message);
                }
                Role::Assistant => {
                    let flat = flat::ids_of(message, list.get(at + 1));
                    let calls = telling(ids(message).chain(flat));
                    outline.answered.push(Answered { before: chain, calls });
                }
                Role::User | Role::System | Role::Other => {}
            }
            chain = link(chain, request, message);
            outline.look(message);
        }
        outline.here = chain;
        outline
    }

    /// What a response's calls will be known by in later histories.
    #[must_use]
    pub fn calls_of(ids: &[&str]) -> Option<Digest> {
        telling(ids.iter().map(|id| Cow::Borrowed(*id)))
    }

    fn empty(request: &Request<'_>) -> Self {
        let tools = request.tools.as_ref().map(|tools| tools.list.as_slice()).unwrap_or_default();
        let names = tools
            .iter()
            .fold(Digest::EMPTY, |sum, tool| sum.with(Digest::of(tool.name.raw().as_bytes())));
        let thinking_budget = match request.thinking.mode {
            ThinkingMode::Enabled { budget } => budget,
            _ => 0,
        };
        Self {
            first: Digest::EMPTY,
            summary: false,
            here: Digest::EMPTY,
            answered: Vec::new(),
            tools: names,
            uses_tools: !tools.is_empty(),
            media: false,
            thinking_budget,
        }
    }

    fn look(&mut self, message: &RequestMessage<'_>) {
        let Content::Blocks { blocks, .. } = &message.content else { return };
        for block in blocks {
            match &block.kind {
                BlockKind::ToolResult(result) => {
                    self.uses_tools = true;
                    if let ResultContent::Parts { parts, .. } = &result.content {
                        self.media |= parts.iter().any(|part| part.text.is_none());
                    }
                }
                BlockKind::Other { .. } => self.media = true,
                _ => {}
            }
        }
    }
}

/// The digests of the messages before each of those that are asked for, in their order.
#[derive(Debug)]
pub(crate) struct Prefix<'r> {
    request: &'r Request<'r>,
    /// The first message that is not in the digest.
    next: usize,
    chain: Digest,
}

impl<'r> Prefix<'r> {
    pub(crate) fn of(request: &'r Request<'r>) -> Self {
        Self { request, next: 0, chain: Digest::EMPTY }
    }

    /// The digest of all messages before the one at this place, which is behind those that were
    /// asked for.
    pub(crate) fn before(&mut self, place: usize) -> Digest {
        let list = self.request.messages.list.get(self.next..place).unwrap_or_default();
        for message in list {
            self.chain = link(self.chain, self.request, message);
        }
        self.next = self.next.max(place);
        self.chain
    }
}

/// The digest of the messages so far, with one more.
fn link(chain: Digest, request: &Request<'_>, message: &RequestMessage<'_>) -> Digest {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        // A client may write these anew each time.
        Role::System | Role::Other => return chain,
    };
    // Nor does a harness's note of the moment, which is elsewhere in the next request.
    if chain != Digest::EMPTY && is_tags(message) {
        return chain;
    }
    chain.then(Digest::of(role.as_bytes())).then(digest(request, message))
}

/// The digest of a message, whatever the order of its blocks.
fn digest(request: &Request<'_>, message: &RequestMessage<'_>) -> Digest {
    let text = |text: &str| Digest::of(b"text").then(Digest::of(text.as_bytes()));
    // Of a user's text the harness's tags around it are left out; a message of nothing else is one.
    let bare = message.role == Role::User && !is_tags(message);
    let words = |said: &Str<'_>| match bare {
        true => Some(tables::own_words(&said.unescape())).filter(|w| !w.is_empty()).map(text),
        false => Some(text(said.raw())),
    };
    match &message.content {
        Content::Text(said, _) => words(said).map_or(Digest::EMPTY, |w| Digest::EMPTY.with(w)),
        Content::Blocks { blocks, .. } => blocks.iter().fold(Digest::EMPTY, |sum, block| {
            sum.with(match &block.kind {
                BlockKind::Text { text: said, .. } => match words(said) {
                    Some(words) => words,
                    None => return sum,
                },
                BlockKind::ToolUse { id, name, input, .. } => Digest::of(id.raw().as_bytes())
                    .then(Digest::of(name.raw().as_bytes()))
                    .then(Digest::of(input.of(request.text).as_bytes())),
                BlockKind::ToolResult(result) => {
                    Digest::of(result.tool_use_id.raw().as_bytes()).then(said(&result.content))
                }
                BlockKind::Thinking | BlockKind::RedactedThinking => return sum,
                // Its bytes may carry a cache mark that moves on.
                BlockKind::Other { kind } => Digest::of(kind.raw().as_bytes()),
            })
        }),
    }
}

/// Whether a user's message is nothing but a harness's tags.
pub(crate) fn is_tags(message: &RequestMessage<'_>) -> bool {
    let tags = |said: &Str<'_>| {
        // Most texts are no tags, which their first letters show.
        let raw = said.raw().trim_start();
        let may_be = raw.starts_with(['<', '\\']);
        may_be && tables::own_words(&said.unescape()).is_empty()
    };
    message.role == Role::User
        && match &message.content {
            Content::Text(said, _) => tags(said),
            Content::Blocks { blocks, .. } => {
                let tags = |block: &Block<'_>| match &block.kind {
                    BlockKind::Text { text, .. } => tags(text),
                    _ => false,
                };
                !blocks.is_empty() && blocks.iter().all(tags)
            }
        }
}

fn said(content: &ResultContent<'_>) -> Digest {
    match content {
        ResultContent::Absent(_) | ResultContent::Opaque => Digest::EMPTY,
        ResultContent::Text(text, _) => Digest::EMPTY.then(Digest::of(text.raw().as_bytes())),
        ResultContent::Parts { parts, .. } => parts.iter().fold(Digest::EMPTY, |sum, part| {
            let of = part.text.map_or(part.kind, |(text, _)| text);
            sum.then(Digest::of(of.raw().as_bytes()))
        }),
    }
}

fn ids<'a>(message: &RequestMessage<'a>) -> impl Iterator<Item = Cow<'a, str>> {
    let blocks = match &message.content {
        Content::Blocks { blocks, .. } => blocks.as_slice(),
        Content::Text(..) => &[],
    };
    blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::ToolUse { id, server: false, .. } => Some(id.unescape()),
        _ => None,
    })
}

/// The digest of the ids, where there are any and each tells.
fn telling<'a>(ids: impl Iterator<Item = Cow<'a, str>>) -> Option<Digest> {
    let mut sum = None;
    for id in ids {
        if id.len() < TELLING_ID || !id.bytes().any(|byte| byte.is_ascii_digit()) {
            return None;
        }
        sum = Some(sum.unwrap_or(Digest::EMPTY).with(Digest::of(id.as_bytes())));
    }
    sum
}

fn is_summary(message: &RequestMessage<'_>) -> bool {
    match &message.content {
        Content::Text(text, _) => tables::is_compaction_summary(&text.unescape()),
        Content::Blocks { blocks, .. } => blocks.iter().any(|block| match &block.kind {
            BlockKind::Text { text, .. } => tables::is_compaction_summary(&text.unescape()),
            _ => false,
        }),
    }
}
