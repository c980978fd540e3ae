//! A request's history, read into the core's fold, and the lines that the fold asks for, as
//! edits of the original bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use softland_core::{
    Addition, Call, Digest, Facts, FinishedTurn, LinePlace, LineRoom, MessageEffects,
    MessagePosition, Run, Stop, ToolResult, Transcript, UserMessage, UserText, lines,
};
use softland_wire::json::Span;
use softland_wire::request::{
    Block as RequestBlock, BlockKind, Content, Message as RequestMessage, Request, ResultContent,
    Role, TextRoom, ToolResult as WireResult,
};
use softland_wire::{Api, Splice};

use crate::facts::{ResultReader, TextReader};
use crate::media::digest_media;
use crate::outline::{PrefixDigests, is_tags_only};
use crate::past::PastTraces;
use crate::remembered::{SeenResult, StoredConversation, StoredTail, place_after_item};
use crate::rewrite;
use crate::tags::{self, TagCall, TagReader, WaitingCalls};

/// A history read up to its newest message.
#[derive(Debug)]
pub(crate) struct FoldedHistory<'a> {
    api: Api,
    /// The body of the request.
    text: &'a str,
    pub(crate) transcript: Transcript,
    /// The lines, as edits; empty where the run's policy only observes.
    pub(crate) splice: Splice,
    /// Remembered results, for those that the client has cleared since.
    results: Cow<'a, BTreeMap<Digest, SeenResult>>,
    /// Results that are not remembered yet; `None` without a store.
    pub(crate) fresh: Option<Vec<(Digest, SeenResult)>>,
    /// The newest message, if it is a user's. The facts hold for this message.
    newest: Option<(&'a RequestMessage<'a>, FoldedMessage<'a>)>,
    /// The effects of the messages between the newest turn and the newest message.
    earlier: MessageEffects,
    /// The position of the newest message.
    pub(crate) here: Option<MessagePosition>,
    /// The traces that the history shows of the conversation's past.
    pub(crate) traces: PastTraces,
    /// The reader of calls that are written as text, if there are any, and the calls that still
    /// wait for results.
    reader: Option<TagReader>,
    waiting: WaitingCalls,
}

impl<'a> FoldedHistory<'a> {
    /// Folds a request's messages except the newest, if that is a user's. `remembered` is `None`
    /// where there is no store.
    pub(crate) fn new(
        request: &'a Request<'a>,
        transcript: Transcript,
        remembered: Option<StoredConversation<'a>>,
        reader: Option<TagReader>,
    ) -> Self {
        let list = &request.messages.list;
        let newest = newest_index(list);
        let open = newest.filter(|at| list.get(*at).is_some_and(|m| m.role == Role::User));
        let fresh = remembered.as_ref().map(|_| Vec::new());
        let StoredConversation { tails, results, past, named, arrival } =
            remembered.unwrap_or_default();
        let (api, splice) = (request.api, Splice::new());
        let mut fold = Self {
            api,
            text: request.text,
            transcript,
            splice,
            results,
            fresh,
            newest: None,
            earlier: MessageEffects::default(),
            here: None,
            traces: past.as_ref().map(PastTraces::from_past).unwrap_or_default(),
            reader,
            waiting: WaitingCalls::default(),
        };
        if let Some(begun) = named {
            fold.transcript.set_named_runs(begun);
        }
        let arrives = list.iter().rposition(|m| m.role == Role::Assistant);
        let mut prefix = PrefixDigests::from_request(request);
        let mut told = list.iter().filter(|m| matches!(m.role, Role::User | Role::Assistant));
        told.next();
        for (at, message) in list.iter().enumerate().take(open.unwrap_or(list.len())) {
            let next = match message.role {
                Role::User | Role::Assistant => told.next(),
                Role::System | Role::Other => None,
            };
            match message.role {
                Role::User => {
                    let mut said = fold.read_user_message(message);
                    said.user.spoken_after = fold.is_spoken_after(&said, next);
                    let step = fold.fold_user_message(message, &said, None);
                    fold.earlier.extend_with(step);
                }
                Role::Assistant => {
                    fold.earlier = MessageEffects::default();
                    let (reader, next) = (fold.reader.as_ref(), list.get(at + 1));
                    let written = fold.waiting.await_results(reader, message, next);
                    fold.restore_tail(request, message, &written, &tails, || {
                        prefix.digest_before(at)
                    });
                    fold_assistant_turn(request, message, &written, &mut fold.transcript);
                    fold.traces.note_turn(&fold.transcript);
                }
                Role::System | Role::Other => {}
            }
            if arrives == Some(at) {
                fold.transcript.set_arrival(arrival);
            }
        }
        if let Some(message) = open.and_then(|at| list.get(at)) {
            let said = fold.read_user_message(message);
            fold.here = Some(fold.transcript.locate_message(&said.user));
            fold.newest = Some((message, said));
        }
        fold
    }

    /// True if the results in a message may close an answer and a person's message follows
    /// directly.
    fn is_spoken_after(&self, said: &FoldedMessage<'_>, next: Option<&RequestMessage<'_>>) -> bool {
        let awaits = || self.transcript.current_run().is_some_and(Run::awaits_answer);
        let next = next.filter(|next| next.role == Role::User);
        !said.user.results.is_empty()
            && awaits()
            && next.is_some_and(|next| {
                Transcript::is_spoken(&FoldedMessage::from_message(next, self.text).user)
            })
    }

    /// Folds the newest message with the facts that hold for it. Returns its effects, and those of
    /// the messages between the newest turn and it: they too are new in this request.
    pub(crate) fn fold_newest(&mut self, facts: &Facts) -> MessageEffects {
        let Some((message, said)) = self.newest.take() else { return MessageEffects::default() };
        let mut effects = std::mem::take(&mut self.earlier);
        effects.extend_with(self.fold_user_message(message, &said, Some(facts)));
        effects
    }

    /// Reads a user's message, with the results that it gives to calls written as text.
    fn read_user_message(&mut self, message: &RequestMessage<'a>) -> FoldedMessage<'a> {
        let mut said = FoldedMessage::from_message(message, self.text);
        if !self.waiting.is_empty() {
            let texts: Vec<_> = said.user.texts.iter().map(UserText::text).collect();
            let given = self.waiting.take_results(self.reader.as_ref(), &texts);
            said.add_results(given);
        }
        said.recall_results(&self.results, self.transcript.history_digest());
        said
    }

    fn fold_user_message(
        &mut self,
        message: &RequestMessage<'_>,
        said: &FoldedMessage<'_>,
        facts: Option<&Facts>,
    ) -> MessageEffects {
        self.note_results(&said.user);
        let mut step = self.transcript.add_user_message(&said.user, facts);
        step.additions = said.keep_one_line(step.additions);
        if self.transcript.current_run().is_some_and(|run| !run.policy().is_observing()) {
            add_lines(&mut self.splice, self.api, message, said, &step);
        }
        step
    }

    /// Notes the results of a message that are not remembered yet. Does nothing without a store.
    fn note_results(&mut self, user: &UserMessage<'_>) {
        let (Some(fresh), place) = (&mut self.fresh, self.transcript.history_digest()) else {
            return;
        };
        for result in user.results.iter().filter(|result| !result.cleared) {
            let ToolResult { digest, chars, failed, sent_back, unfinished, .. } = *result;
            let place = place_after_item(place, &result.id);
            if !self.results.contains_key(&place) {
                fresh.push((place, SeenResult { digest, chars, failed, sent_back, unfinished }));
            }
        }
    }

    /// Puts back the tail that this turn stands behind, and moves into it the blocks that were
    /// shown before it. Leaves out the tail's thinking where the client has edited the history
    /// before it.
    fn restore_tail(
        &mut self,
        request: &Request<'_>,
        message: &RequestMessage<'_>,
        written: &[TagCall],
        tails: &BTreeMap<Digest, StoredTail>,
        before: impl FnOnce() -> Digest,
    ) {
        if tails.is_empty() {
            return;
        }
        let blocks = match &message.content {
            Content::Blocks { blocks, .. } => blocks.as_slice(),
            Content::Text(..) if written.is_empty() => return,
            Content::Text(..) => &[],
        };
        let first = blocks.iter().find_map(|block| match &block.kind {
            BlockKind::ToolUse { id, server: false, .. } => Some(id.unescape()),
            _ => None,
        });
        let first = written.first().map(|call| Cow::Borrowed(call.id.as_str())).or(first);
        let place = first.map(|id| place_after_item(self.transcript.history_digest(), &id));
        let Some(tail) = place.and_then(|place| tails.get(&place)) else { return };
        let observes = self.transcript.current_run().is_some_and(|run| run.policy().is_observing());
        if observes {
            return;
        }
        let (shown, thinks) = count_still_shown(&tail.shown, blocks);
        let thinks = thinks && before() == tail.before;
        let bare = if thinks { None } else { rewrite::without_thinking(self.api, &tail.messages) };
        let mut inserted = bare.unwrap_or_else(|| tail.messages.clone()).into_bytes();
        inserted.push(b',');
        self.splice.insert(message.span.start, inserted);
        if self.api == Api::Chat {
            // In this protocol the reasoning before and after the tail has run together.
            if let Some(own) = &tail.own {
                rewrite::replace_reasoning(&mut self.splice, request.text, message.span, own);
            }
            return;
        }
        if let (Some(first), Some(next)) = (blocks.first(), blocks.get(shown))
            && shown > 0
        {
            self.splice.replace(Span::new(first.span.start, next.span.start), Vec::new());
        }
    }
}

/// Returns the index of the newest message of the user or the model. A system message or a
/// harness's note that a client puts behind it does not count.
fn newest_index(list: &[RequestMessage<'_>]) -> Option<usize> {
    let speaks =
        |message: &RequestMessage<'_>| matches!(message.role, Role::User | Role::Assistant);
    let mut spoken =
        list.iter().enumerate().rev().filter(|(_, message)| speaks(message)).peekable();
    while let Some((at, message)) = spoken.next() {
        let behind_user = spoken.peek().is_some_and(|(_, before)| before.role == Role::User);
        if !(behind_user && is_tags_only(message)) {
            return Some(at);
        }
    }
    None
}

/// Returns the number of a turn's blocks that were shown before its tail, and true if their
/// thinking is still among them. Clients drop thinking, and then none of that time may go back.
fn count_still_shown(letters: &str, blocks: &[RequestBlock<'_>]) -> (usize, bool) {
    let (mut shown, mut thinks) = (0, true);
    for kind in letters.bytes() {
        match blocks.get(shown) {
            Some(block) if kind_letter(&block.kind) == kind => shown += 1,
            _ if kind == b'k' => thinks = false,
            _ => break,
        }
    }
    (shown, thinks)
}

/// Returns the letter of a block's kind in [`StoredTail::shown`].
fn kind_letter(kind: &BlockKind<'_>) -> u8 {
    match kind {
        BlockKind::Text { .. } => b't',
        BlockKind::Thinking | BlockKind::RedactedThinking => b'k',
        BlockKind::ToolUse { .. } => b'c',
        BlockKind::ToolResult(_) | BlockKind::Other { .. } => b'o',
    }
}

fn add_lines(
    splice: &mut Splice,
    api: Api,
    message: &RequestMessage<'_>,
    said: &FoldedMessage<'_>,
    step: &MessageEffects,
) {
    let results: Vec<_> = result_blocks(message).collect();
    for addition in &step.additions {
        match addition.place {
            LinePlace::Result(index) if !said.is_written(index) => {
                if let Some(block) = results.get(index) {
                    splice.append_to_result(api, block, &addition.text);
                }
            }
            LinePlace::End | LinePlace::Result(_) => {
                splice.append_to_message(api, message, &addition.text);
            }
        }
    }
}

/// Returns the tool results of a message, in order.
fn result_blocks<'m, 'a>(
    message: &'m RequestMessage<'a>,
) -> impl Iterator<Item = &'m RequestBlock<'a>> + use<'m, 'a> {
    let blocks = match &message.content {
        Content::Text(..) => &[][..],
        Content::Blocks { blocks, .. } => blocks,
    };
    blocks.iter().filter(|block| matches!(block.kind, BlockKind::ToolResult(_)))
}

/// A user message as it was read.
#[derive(Debug, Default)]
struct FoldedMessage<'a> {
    /// The message in the core's words.
    user: UserMessage<'a>,
    /// The number of results that are written as text: the last ones.
    written: usize,
}

impl<'a> FoldedMessage<'a> {
    /// Reads a message of a request with this body.
    fn from_message(message: &RequestMessage<'a>, body: &str) -> Self {
        let name = message.name.map(|name| name.unescape());
        let mut user = UserMessage { name, ..UserMessage::default() };
        match &message.content {
            Content::Text(text, _) => user.texts.push(UserText::new(text.unescape())),
            Content::Blocks { blocks, .. } => {
                for block in blocks {
                    match &block.kind {
                        BlockKind::ToolResult(result) => {
                            let id = result.tool_use_id.unescape();
                            user.results.push(ToolResult { id, ..result_facts(result, body) });
                        }
                        BlockKind::Text { text, .. } => {
                            user.texts.push(UserText::new(text.unescape()));
                        }
                        _ => {
                            let media = digest_media(block.span.slice_of(body));
                            let before = user.media.unwrap_or(Digest::EMPTY);
                            user.media = Some(before.followed_by(media));
                        }
                    }
                }
            }
        }
        Self { user, written: 0 }
    }

    /// Adds the results of calls that were written as text.
    fn add_results(&mut self, given: tags::GivenAnswers) {
        let lined = self.user.texts.last().is_some_and(|text| lines::ends_in_line(text.text()));
        self.written = given.results.len();
        for (at, (id, text)) in given.results.into_iter().enumerate() {
            let mut read = ResultReader::default();
            tags::with_str(&text, |text| read.add_text(text));
            let lined = lined && at + 1 == self.written;
            let facts = read.to_facts();
            let failed = facts.failed || given.failed;
            self.user.results.push(ToolResult { id: Cow::Owned(id), lined, failed, ..facts });
        }
        if self.written > 0 {
            self.user.texts = given.beside.into_iter().map(UserText::new).collect();
        }
    }

    /// Fills in what is remembered of the results in this place that the client has cleared since.
    fn recall_results(&mut self, remembered: &BTreeMap<Digest, SeenResult>, place: Digest) {
        for result in self.user.results.iter_mut().filter(|result| result.cleared) {
            let Some(seen) = remembered.get(&place_after_item(place, &result.id)) else { continue };
            result.digest = seen.digest;
            result.chars = seen.chars;
            result.failed |= seen.failed;
            result.sent_back |= seen.sent_back;
            result.unfinished |= seen.unfinished;
            result.cleared = false;
        }
    }

    /// True if the result at this index is written as text.
    fn is_written(&self, index: usize) -> bool {
        self.written > 0 && index + self.written >= self.user.results.len()
    }

    /// Keeps a single line for all results that are written as text, at the end of their message.
    fn keep_one_line(&self, additions: Vec<Addition>) -> Vec<Addition> {
        if self.written == 0 {
            return additions;
        }
        let written = |addition: &Addition| match addition.place {
            LinePlace::End => false,
            LinePlace::Result(index) => self.is_written(index),
        };
        let (among, mut others): (Vec<_>, Vec<_>) = additions.into_iter().partition(written);
        others.extend(tags::most_important(among));
        others
    }
}

/// Reads the facts that the rules need of a result in this body. The caller fills in its id.
fn result_facts(result: &WireResult<'_>, body: &str) -> ToolResult<'static> {
    let mut read = ResultReader::new(result.is_error);
    match &result.content {
        ResultContent::Absent(_) => {}
        ResultContent::Opaque(span) => read.add_media(span.slice_of(body)),
        ResultContent::Text(text, _) => read.add_text(*text),
        ResultContent::Parts { parts, .. } => {
            for part in parts {
                let json = part.span.slice_of(body);
                match part.text {
                    Some(_) if part.kind.is_empty() => read.add_command_output(json),
                    Some((text, _)) => read.add_text(text),
                    None => read.add_media(json),
                }
            }
        }
    }
    let facts = read.to_facts();
    let room = match result.room {
        TextRoom::Text => LineRoom::Text,
        TextRoom::Closed => LineRoom::Closed,
    };
    ToolResult { room, ..facts }
}

fn fold_assistant_turn(
    request: &Request<'_>,
    message: &RequestMessage<'_>,
    written: &[TagCall],
    transcript: &mut Transcript,
) {
    let mut texts = TextReader::default();
    let mut named = Vec::new();
    let (mut hidden, mut stop) = (false, Stop::Unknown);
    match &message.content {
        Content::Text(text, _) => texts.add_text(*text),
        Content::Blocks { blocks, .. } => {
            for block in blocks {
                match &block.kind {
                    BlockKind::Text { text, .. } => texts.add_text(*text),
                    BlockKind::ToolUse { id, name, input, server, .. } => {
                        named.push((
                            id.unescape(),
                            name.unescape(),
                            input.text_in(request.text),
                            *server,
                        ));
                    }
                    BlockKind::Other { kind } if kind.eq_str("compaction") => {
                        // The provider stopped behind its summary, and the client went on.
                        (hidden, stop) = (true, Stop::Other);
                    }
                    BlockKind::ToolResult(_)
                    | BlockKind::Thinking
                    | BlockKind::RedactedThinking
                    | BlockKind::Other { .. } => hidden = true,
                }
            }
        }
    }
    let named =
        named.iter().map(|(id, name, input, server)| Call { id, name, input, server: *server });
    let calls = written.iter().map(TagCall::as_call).chain(named).collect();
    transcript.add_turn(&FinishedTurn {
        text: texts.into_text(),
        calls,
        cut_call: false,
        hidden,
        // A history is read for its calls. An image or sound ends a run just as text does.
        gives: false,
        stop,
        output_tokens: None,
    });
}
