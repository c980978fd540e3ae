//! The facts of a request that tell whose it is and how large it may become, before its history is
//! read.
//!
//! Nothing is decided here. A store finds a conversation again by these facts.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use softland_core::{Digest, identity, lines, tables};
use softland_wire::json::{Cursor, Error as JsonError, Str};
use softland_wire::request::{
    Block, BlockKind, Content, Message as RequestMessage, Request, ResultContent, Role,
    ThinkingMode,
};

use crate::sealed;
use crate::tags::flat;

/// The shortest length of a call id that may be unique. A shorter id, or one without a digit, is a
/// backend's counter and comes again elsewhere.
const TELLING_ID: usize = 12;

/// The most ids that are kept of calls which a history leaves out.
const UNSHOWN: usize = 1024;

/// The outline of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// True if the history opens with the summary of a compacted history: before its first model
    /// turn, or in that turn.
    pub opens_in_summary: bool,
    /// True if such a summary stands behind its last model turn.
    pub ends_in_summary: bool,
    /// The digest of all of its messages.
    pub here: Digest,
    /// Its model turns, in order.
    pub answered: Vec<ModelTurn>,
    /// The tool calls that the history shows, in order, and their results.
    pub calls: Vec<ShownCall>,
    /// Ids of calls that the history leaves out although it has their results. The client names the
    /// calls by what the provider keeps, or has cut them off. Ids that come again elsewhere are not
    /// among them.
    pub unshown: Vec<Digest>,
    /// The digests of the compacted contexts in it that only the provider can read, in order.
    pub sealed: Vec<Digest>,
    /// The digests of the texts behind the last model turn that may be a person's, in order.
    pub asks: Vec<Digest>,
    /// The digest of its tools' names.
    pub tools: Digest,
    /// The digest of its system prompt.
    pub system: Digest,
    /// True if the request declares tools or carries results of any.
    pub uses_tools: bool,
    /// True if the request carries more than text: images, documents, or unknown content.
    pub media: bool,
    /// Thinking tokens that it asks for within its output.
    pub thinking_budget: u64,
}

/// One model turn of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModelTurn {
    /// The digest of all messages before it.
    pub before: Digest,
    /// The digest of its calls: of their ids, where these tell it from every other turn, else of
    /// their names and arguments. Without calls, that of its compacted contexts, if it has any.
    pub calls: Option<Digest>,
    /// The digest of its calls by their names and arguments, as a client shows them that gives calls
    /// ids of its own. `None` for a turn without calls.
    pub content: Option<Digest>,
}

/// One tool call of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownCall {
    /// The number of its turn among the model's.
    pub turn: usize,
    /// The digest of its tool and its arguments, as the client writes them.
    pub call: Digest,
    /// The digest of its result, if that has come.
    pub result: Option<Digest>,
}

impl Outline {
    /// Reads the outline of a request. Cache marks, thinking and the order of blocks within a
    /// message make no difference; nor does it matter if a text stands alone or in a list.
    #[must_use]
    pub fn from_request(request: &Request<'_>) -> Self {
        let list = &request.messages.list;
        let mut outline = Self::from_declarations(request);
        let mut chain = Digest::EMPTY;
        let mut waiting = UnansweredCalls::default();
        for (at, message) in list.iter().enumerate() {
            match message.role {
                Role::User => {
                    outline.note_results(message, &mut waiting);
                    let sums_up = !outline.ends_in_summary && holds_summary(message);
                    outline.opens_in_summary |= sums_up && outline.answered.is_empty();
                    outline.ends_in_summary |= sums_up;
                }
                Role::Assistant => {
                    outline.opens_in_summary |=
                        outline.answered.is_empty() && holds_summary(message);
                    outline.ends_in_summary = false;
                    outline.note_calls(request, message, &mut waiting);
                    let flat = flat::ids_of(message, list.get(at + 1));
                    let told = ids_digest(call_ids(message).chain(flat));
                    let content = content_digest(message_calls(request, message));
                    let known = outline.sealed.len();
                    outline.sealed.extend(sealed::message_contexts(request, message));
                    let sealed = outline.sealed.get(known..).unwrap_or_default();
                    let calls = told.or(content).or_else(|| contexts_digest(sealed));
                    outline.answered.push(ModelTurn { before: chain, calls, content });
                }
                // A client may rewrite a system message in mid-conversation each time.
                Role::System if chain == Digest::EMPTY => {
                    outline.system = outline.system.followed_by(system_message_digest(message));
                }
                Role::System | Role::Other => {}
            }
            chain = extend_digest(chain, request, message);
            outline.note_content(message);
        }
        outline.here = chain;
        outline.asks = newest_asks(list);
        outline
    }

    /// Returns the digests of users' texts in a request, in order, each with the number of model
    /// turns before it. Texts that a harness says for itself are left out.
    pub fn user_asks<'r>(request: &'r Request<'_>) -> impl Iterator<Item = (usize, Digest)> + 'r {
        let mut turns = 0;
        request.messages.list.iter().flat_map(move |message| {
            turns += usize::from(message.role == Role::Assistant);
            message_asks(message).map(move |ask| (turns, ask)).collect::<Vec<_>>()
        })
    }

    /// Returns the digest of the messages before the first model turn: the beginning of the
    /// conversation, as far as the history shows it.
    #[must_use]
    pub fn opening_digest(&self) -> Digest {
        self.answered.first().map_or(self.here, |turn| turn.before)
    }

    /// Returns the digest by which later histories know a call, whatever stands before it; `None`
    /// if its id does not tell it from others.
    #[must_use]
    pub fn call_digest(id: &str, name: &str, input: &str) -> Option<Digest> {
        let id = ids_digest(std::iter::once(Cow::Borrowed(id)))?;
        let input = identity::digest_text(input, &|_| false);
        Some(id.followed_by(Digest::from_bytes(name.as_bytes())).followed_by(input))
    }

    /// Returns the digest of a call of which only the id is shown; `None` if the id does not tell
    /// it from others.
    #[must_use]
    pub fn id_digest(id: &str) -> Option<Digest> {
        ids_digest(std::iter::once(Cow::Borrowed(id)))
    }

    /// Returns the calls of a request whose ids tell them from others, in order, each with the
    /// number of its turn.
    pub fn unique_calls<'r>(
        request: &'r Request<'_>,
    ) -> impl DoubleEndedIterator<Item = (usize, Digest)> + 'r {
        let turns = request.messages.list.iter().filter(|message| message.role == Role::Assistant);
        let turns: Vec<_> = turns.enumerate().collect();
        turns.into_iter().flat_map(move |(turn, message)| {
            let told = message_calls(request, message)
                .filter_map(|(id, name, input)| Self::call_digest(&id, &name, &input));
            told.map(|call| (turn, call)).collect::<Vec<_>>()
        })
    }

    /// Returns the turn that a response to this request becomes in later histories. `calls`: the
    /// id, the name and the arguments of each of its calls. `sealed`: its compacted contexts.
    #[must_use]
    pub fn next_turn(&self, calls: &[(&str, &str, &str)], sealed: &[Digest]) -> ModelTurn {
        let told = ids_digest(calls.iter().map(|(id, ..)| Cow::Borrowed(*id)));
        let borrowed = |text| Cow::Borrowed(text);
        let content = content_digest(
            calls
                .iter()
                .map(|(id, name, input)| (borrowed(*id), borrowed(*name), borrowed(*input))),
        );
        let calls = told.or(content).or_else(|| contexts_digest(sealed));
        ModelTurn { before: self.here, calls, content }
    }

    fn from_declarations(request: &Request<'_>) -> Self {
        let tools = request.tools.as_ref().map(|tools| tools.list.as_slice()).unwrap_or_default();
        let names = tools.iter().fold(Digest::EMPTY, |sum, tool| {
            sum.combined_with(Digest::from_bytes(tool.name.raw().as_bytes()))
        });
        let thinking_budget = match request.thinking.mode {
            ThinkingMode::Enabled { budget } => budget,
            _ => 0,
        };
        Self {
            opens_in_summary: false,
            ends_in_summary: false,
            here: Digest::EMPTY,
            answered: Vec::new(),
            calls: Vec::new(),
            unshown: Vec::new(),
            sealed: Vec::new(),
            asks: Vec::new(),
            tools: names,
            system: system_digest(request),
            uses_tools: !tools.is_empty(),
            media: false,
            thinking_budget,
        }
    }

    /// Notes the calls of a turn. Calls of the earlier turn that have no result stay without one.
    fn note_calls(
        &mut self,
        request: &Request<'_>,
        message: &RequestMessage<'_>,
        waiting: &mut UnansweredCalls,
    ) {
        waiting.clear();
        let turn = self.answered.len();
        for block in message_blocks(message) {
            if let BlockKind::ToolUse { id, name, input, server: false, .. } = &block.kind {
                waiting
                    .entry(Digest::from_bytes(id.raw().as_bytes()))
                    .or_default()
                    .push_back(self.calls.len());
                let call = Digest::from_bytes(name.raw().as_bytes());
                let call =
                    call.followed_by(Digest::from_bytes(input.text_in(request.text).as_bytes()));
                self.calls.push(ShownCall { turn, call, result: None });
            }
        }
    }

    fn note_results(&mut self, message: &RequestMessage<'_>, waiting: &mut UnansweredCalls) {
        for block in message_blocks(message) {
            let BlockKind::ToolResult(result) = &block.kind else { continue };
            let id = Digest::from_bytes(result.tool_use_id.raw().as_bytes());
            let call = waiting.get_mut(&id).and_then(VecDeque::pop_front);
            if call.is_none() && self.unshown.len() < UNSHOWN {
                self.unshown.extend(Self::id_digest(&result.tool_use_id.unescape()));
            }
            if let Some(call) = call.and_then(|at| self.calls.get_mut(at)) {
                call.result = Some(result_digest(&result.content));
            }
        }
    }

    fn note_content(&mut self, message: &RequestMessage<'_>) {
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

/// The digests of the messages before given positions, which are asked for in ascending order.
#[derive(Debug)]
pub(crate) struct PrefixDigests<'r> {
    request: &'r Request<'r>,
    /// The first message that is not in the digest.
    next: usize,
    chain: Digest,
}

impl<'r> PrefixDigests<'r> {
    pub(crate) fn from_request(request: &'r Request<'r>) -> Self {
        Self { request, next: 0, chain: Digest::EMPTY }
    }

    /// Returns the digest of all messages before the one at `place`. `place` is behind the
    /// positions that were asked for before.
    pub(crate) fn digest_before(&mut self, place: usize) -> Digest {
        let list = self.request.messages.list.get(self.next..place).unwrap_or_default();
        for message in list {
            self.chain = extend_digest(self.chain, self.request, message);
        }
        self.next = self.next.max(place);
        self.chain
    }
}

/// Returns the digest of the messages so far, with one more.
fn extend_digest(chain: Digest, request: &Request<'_>, message: &RequestMessage<'_>) -> Digest {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        // A client may rewrite these messages each time.
        Role::System | Role::Other => return chain,
    };
    // The same goes for a harness's note of the moment, which is elsewhere in the next request.
    if chain != Digest::EMPTY && is_tags_only(message) {
        return chain;
    }
    chain
        .followed_by(Digest::from_bytes(role.as_bytes()))
        .followed_by(message_digest(request, message))
}

/// Returns the digest of a message, whatever the order of its blocks.
fn message_digest(request: &Request<'_>, message: &RequestMessage<'_>) -> Digest {
    let text =
        |text: &str| Digest::from_bytes(b"text").followed_by(Digest::from_bytes(text.as_bytes()));
    // A harness's tags around a user's text are left out, unless the message has nothing else.
    let bare = message.role == Role::User && !is_tags_only(message);
    let words = |said: &Str<'_>| match bare {
        true => {
            Some(tables::strip_harness_tags(&said.unescape())).filter(|w| !w.is_empty()).map(text)
        }
        false => Some(text(said.raw())),
    };
    match &message.content {
        Content::Text(said, _) => {
            words(said).map_or(Digest::EMPTY, |w| Digest::EMPTY.combined_with(w))
        }
        Content::Blocks { blocks, .. } => blocks.iter().fold(Digest::EMPTY, |sum, block| {
            sum.combined_with(match &block.kind {
                BlockKind::Text { text: said, .. } => match words(said) {
                    Some(words) => words,
                    None => return sum,
                },
                BlockKind::ToolUse { id, name, input, .. } => {
                    Digest::from_bytes(id.raw().as_bytes())
                        .followed_by(Digest::from_bytes(name.raw().as_bytes()))
                        .followed_by(Digest::from_bytes(input.text_in(request.text).as_bytes()))
                }
                BlockKind::ToolResult(result) => {
                    Digest::from_bytes(result.tool_use_id.raw().as_bytes())
                        .followed_by(result_digest(&result.content))
                }
                BlockKind::Thinking | BlockKind::RedactedThinking => return sum,
                // The block's bytes may carry a cache mark that moves on.
                BlockKind::Other { kind } => Digest::from_bytes(kind.raw().as_bytes()),
            })
        }),
    }
}

/// True if a user's message is nothing but a harness's tags.
pub(crate) fn is_tags_only(message: &RequestMessage<'_>) -> bool {
    let tags = |said: &Str<'_>| {
        // Most texts are no tags, which their first letters show.
        let raw = said.raw().trim_start();
        let may_be = raw.starts_with(['<', '\\']);
        may_be && tables::strip_harness_tags(&said.unescape()).is_empty()
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

fn result_digest(content: &ResultContent<'_>) -> Digest {
    match content {
        ResultContent::Absent(_) | ResultContent::Opaque(_) => Digest::EMPTY,
        ResultContent::Text(text, _) => {
            Digest::EMPTY.followed_by(Digest::from_bytes(text.raw().as_bytes()))
        }
        ResultContent::Parts { parts, .. } => parts.iter().fold(Digest::EMPTY, |sum, part| {
            let of = part.text.map_or(part.kind, |(text, _)| text);
            sum.followed_by(Digest::from_bytes(of.raw().as_bytes()))
        }),
    }
}

/// Calls of the newest turn that have no result yet, by id. A backend may give several calls one
/// id.
type UnansweredCalls = BTreeMap<Digest, VecDeque<usize>>;

fn message_blocks<'m, 'a>(message: &'m RequestMessage<'a>) -> &'m [Block<'a>] {
    match &message.content {
        Content::Blocks { blocks, .. } => blocks.as_slice(),
        Content::Text(..) => &[],
    }
}

/// Bytes at the beginning of a text that show if it is a summary.
const OPENING: usize = 256;

/// True if a message holds the summary of a compacted history.
fn holds_summary(message: &RequestMessage<'_>) -> bool {
    message.texts().any(|text| tables::is_compaction_summary(&text.unescape_head(OPENING)))
}

/// Returns the digests of the texts of a message that may be a person's.
fn message_asks(message: &RequestMessage<'_>) -> impl Iterator<Item = Digest> {
    let users = message.texts().filter(|_| message.role == Role::User);
    users.filter_map(|text| ask_digest(&text.unescape()))
}

/// Returns the digest of a text that may be a person's; `None` for any other text.
pub(crate) fn ask_digest(text: &str) -> Option<Digest> {
    let made = tables::is_harness_only(text)
        || tables::is_compaction_summary(text)
        || lines::is_own_message(text);
    (!made).then(|| Digest::from_bytes(tables::strip_harness_tags(text).as_bytes()))
}

/// Returns the digests of the texts behind the last model turn that may be a person's.
fn newest_asks(list: &[RequestMessage<'_>]) -> Vec<Digest> {
    let newest = list.iter().rposition(|message| message.role == Role::Assistant);
    list.iter().skip(newest.map_or(0, |at| at + 1)).flat_map(message_asks).collect()
}

fn system_message_digest(message: &RequestMessage<'_>) -> Digest {
    message
        .texts()
        .fold(Digest::EMPTY, |sum, text| sum.followed_by(Digest::from_bytes(text.raw().as_bytes())))
}

/// Returns the digest of a system prompt: of its texts, without marks beside them and without the
/// parts that a client writes anew for each conversation.
fn system_digest(request: &Request<'_>) -> Digest {
    let Some(span) = request.system else { return Digest::EMPTY };
    let text = span.slice_of(request.text);
    let mut sum = Digest::EMPTY;
    let mut cursor = Cursor::new(text);
    let read = cursor.read_elements(|cursor| {
        cursor.read_members(|cursor, member| {
            let told = cursor.read_string_or_skip()?.filter(|_| member.key.eq_str("text"));
            let told =
                told.filter(|(text, _)| !tables::is_volatile_system(&text.unescape_head(OPENING)));
            if let Some((text, _)) = told {
                sum = sum.followed_by(Digest::from_bytes(text.raw().as_bytes()));
            }
            Ok::<_, JsonError>(())
        })?;
        Ok::<_, JsonError>(())
    });
    // A prompt that is a string is one text.
    read.map_or_else(|_| Digest::from_bytes(text.as_bytes()), |_| sum)
}

/// Returns the id, the name and the arguments of each of a turn's calls.
fn message_calls<'m, 'a: 'm>(
    request: &'m Request<'a>,
    message: &'m RequestMessage<'a>,
) -> impl Iterator<Item = (Cow<'m, str>, Cow<'m, str>, Cow<'m, str>)> {
    message_blocks(message).iter().filter_map(move |block| match &block.kind {
        BlockKind::ToolUse { id, name, input, server: false, .. } => {
            Some((id.unescape(), name.unescape(), input.text_in(request.text)))
        }
        _ => None,
    })
}

/// Returns the digest of calls by their names and arguments; `None` without calls.
fn content_digest<'c>(
    calls: impl Iterator<Item = (Cow<'c, str>, Cow<'c, str>, Cow<'c, str>)>,
) -> Option<Digest> {
    calls.fold(None, |sum, (_, name, input)| {
        let call = Digest::from_bytes(name.as_bytes())
            .followed_by(identity::digest_text(&input, &|_| false));
        Some(sum.unwrap_or(Digest::EMPTY).combined_with(call))
    })
}

fn call_ids<'a>(message: &RequestMessage<'a>) -> impl Iterator<Item = Cow<'a, str>> {
    message_blocks(message).iter().filter_map(|block| match &block.kind {
        BlockKind::ToolUse { id, server: false, .. } => Some(id.unescape()),
        _ => None,
    })
}

/// Returns the digest of compacted contexts; `None` without any.
fn contexts_digest(sealed: &[Digest]) -> Option<Digest> {
    sealed.iter().copied().reduce(Digest::followed_by)
}

/// Returns the digest of the ids; `None` without ids, or if any of them comes again elsewhere.
fn ids_digest<'a>(ids: impl Iterator<Item = Cow<'a, str>>) -> Option<Digest> {
    let mut sum = None;
    for id in ids {
        if id.len() < TELLING_ID || !id.bytes().any(|byte| byte.is_ascii_digit()) {
            return None;
        }
        sum = Some(sum.unwrap_or(Digest::EMPTY).combined_with(Digest::from_bytes(id.as_bytes())));
    }
    sum
}
