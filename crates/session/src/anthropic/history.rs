//! A request's history, read into the core's fold, and the lines that the fold asks for, as
//! edits of the original bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use softland_core::{
    Addition, Call, Digest, Facts, Finished, Here, Place, Run, Step, Stop, ToolResult, Transcript,
    User, UserText, lines,
};
use softland_wire::json::Span;
use softland_wire::request::{
    Block as RequestBlock, BlockKind, Content, Message as RequestMessage, Request, ResultContent,
    Role, ToolResult as WireResult,
};
use softland_wire::{Api, Splice};

use super::rewrite;
use crate::facts::{ResultRead, TextRead};
use crate::outline::{Prefix, is_tags};
use crate::past::Traces;
use crate::remembered::{KeptTail, Remembered, Seen, place_of};
use crate::tags::{self, Reader, TagCall, Waiting};

/// A history read up to its newest message.
#[derive(Debug)]
pub(crate) struct Fold<'a> {
    api: Api,
    pub(crate) transcript: Transcript,
    /// The lines, as edits; empty where the run's policy only observes.
    pub(crate) splice: Splice,
    /// Remembered results, for those that the client has cleared since.
    results: Cow<'a, BTreeMap<Digest, Seen>>,
    /// Results that are not remembered yet; `None` without a store.
    pub(crate) fresh: Option<Vec<(Digest, Seen)>>,
    /// The newest message, if it is a user's. The facts hold for this message.
    newest: Option<(&'a RequestMessage<'a>, Said<'a>)>,
    /// The position of the newest message.
    pub(crate) here: Option<Here>,
    /// The traces that the history shows of the conversation's past.
    pub(crate) traces: Traces,
    /// The reader of calls that are written as text, if there are any, and the calls that still
    /// wait for results.
    reader: Option<Reader>,
    waiting: Waiting,
}

impl<'a> Fold<'a> {
    /// Folds a request's messages except the newest, if that is a user's. `remembered` is `None`
    /// where there is no store.
    pub(crate) fn new(
        request: &'a Request<'a>,
        transcript: Transcript,
        remembered: Option<Remembered<'a>>,
        reader: Option<Reader>,
    ) -> Self {
        let list = &request.messages.list;
        let newest = newest(list);
        let open = newest.filter(|at| list.get(*at).is_some_and(|m| m.role == Role::User));
        let fresh = remembered.as_ref().map(|_| Vec::new());
        let Remembered { tails, results, past, named, arrival } = remembered.unwrap_or_default();
        let (api, splice) = (request.api, Splice::new());
        let mut fold = Self {
            api,
            transcript,
            splice,
            results,
            fresh,
            newest: None,
            here: None,
            traces: past.as_ref().map(Traces::of).unwrap_or_default(),
            reader,
            waiting: Waiting::default(),
        };
        if let Some(begun) = named {
            fold.transcript.named(begun);
        }
        let arrives = list.iter().rposition(|m| m.role == Role::Assistant);
        let mut prefix = Prefix::of(request);
        let mut told = list.iter().filter(|m| matches!(m.role, Role::User | Role::Assistant));
        told.next();
        for (at, message) in list.iter().enumerate().take(open.unwrap_or(list.len())) {
            let next = match message.role {
                Role::User | Role::Assistant => told.next(),
                Role::System | Role::Other => None,
            };
            match message.role {
                Role::User => {
                    let mut said = fold.said(message);
                    said.user.spoken_after = fold.is_spoken_after(&said, next);
                    fold.user(message, &said, None);
                }
                Role::Assistant => {
                    let (reader, next) = (fold.reader.as_ref(), list.get(at + 1));
                    let written = fold.waiting.wait(reader, message, next);
                    fold.repair(request, message, &written, &tails, || prefix.before(at));
                    assistant(request, message, &written, &mut fold.transcript);
                    fold.traces.turn(&fold.transcript);
                }
                Role::System | Role::Other => {}
            }
            if arrives == Some(at) {
                fold.transcript.arrives(arrival);
            }
        }
        if let Some(message) = open.and_then(|at| list.get(at)) {
            let said = fold.said(message);
            fold.here = Some(fold.transcript.here(&said.user));
            fold.newest = Some((message, said));
        }
        fold
    }

    /// True if the results in a message may close an answer and a person's message follows
    /// directly.
    fn is_spoken_after(&self, said: &Said<'_>, next: Option<&RequestMessage<'_>>) -> bool {
        let awaits = || self.transcript.run().is_some_and(Run::awaits_answer);
        let next = next.filter(|next| next.role == Role::User);
        !said.user.results.is_empty()
            && awaits()
            && next.is_some_and(|next| Transcript::is_spoken(&Said::by(next).user))
    }

    /// Folds the newest message with the facts that hold for it.
    pub(crate) fn newest(&mut self, facts: &Facts) -> Step {
        let newest = self.newest.take();
        newest.map(|(message, said)| self.user(message, &said, Some(facts))).unwrap_or_default()
    }

    /// Reads a user's message, with the results that it gives to calls written as text.
    fn said(&mut self, message: &RequestMessage<'a>) -> Said<'a> {
        let mut said = Said::by(message);
        if !self.waiting.is_empty() {
            let texts: Vec<_> = said.user.texts.iter().map(UserText::text).collect();
            let given = self.waiting.take(self.reader.as_ref(), &texts);
            said.give(given);
        }
        said.recall(&self.results, self.transcript.place());
        said
    }

    fn user(
        &mut self,
        message: &RequestMessage<'_>,
        said: &Said<'_>,
        facts: Option<&Facts>,
    ) -> Step {
        self.note_results(&said.user);
        let mut step = self.transcript.user(&said.user, facts);
        step.additions = said.one_line(step.additions);
        if self.transcript.run().is_some_and(|run| !run.policy().observes()) {
            add_lines(&mut self.splice, self.api, message, said, &step);
        }
        step
    }

    /// Notes the results of a message that are not remembered yet. Does nothing without a store.
    fn note_results(&mut self, user: &User<'_>) {
        let (Some(fresh), place) = (&mut self.fresh, self.transcript.place()) else { return };
        for result in user.results.iter().filter(|result| !result.cleared) {
            let ToolResult { digest, chars, failed, sent_back, unfinished, .. } = *result;
            let place = place_of(place, &result.id);
            if !self.results.contains_key(&place) {
                fresh.push((place, Seen { digest, chars, failed, sent_back, unfinished }));
            }
        }
    }

    /// Puts back the tail that this turn stands behind, and moves into it the blocks that were
    /// shown before it. Leaves out the tail's thinking where the client has edited the history
    /// before it.
    fn repair(
        &mut self,
        request: &Request<'_>,
        message: &RequestMessage<'_>,
        written: &[TagCall],
        tails: &BTreeMap<Digest, KeptTail>,
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
        let place = first.map(|id| place_of(self.transcript.place(), &id));
        let Some(tail) = place.and_then(|place| tails.get(&place)) else { return };
        let observes = self.transcript.run().is_some_and(|run| run.policy().observes());
        if observes {
            return;
        }
        let (shown, thinks) = still_shown(&tail.shown, blocks);
        let thinks = thinks && before() == tail.before;
        let bare = if thinks { None } else { rewrite::without_thinking(self.api, &tail.messages) };
        let mut inserted = bare.unwrap_or_else(|| tail.messages.clone()).into_bytes();
        inserted.push(b',');
        self.splice.insert(message.span.start, inserted);
        if self.api == Api::Chat {
            // In this protocol the reasoning before and after the tail has run together.
            if let Some(own) = &tail.own {
                rewrite::own_reasoning(&mut self.splice, request.text, message.span, own);
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
fn newest(list: &[RequestMessage<'_>]) -> Option<usize> {
    let speaks =
        |message: &RequestMessage<'_>| matches!(message.role, Role::User | Role::Assistant);
    let mut spoken =
        list.iter().enumerate().rev().filter(|(_, message)| speaks(message)).peekable();
    while let Some((at, message)) = spoken.next() {
        let behind_user = spoken.peek().is_some_and(|(_, before)| before.role == Role::User);
        if !(behind_user && is_tags(message)) {
            return Some(at);
        }
    }
    None
}

/// Returns the number of a turn's blocks that were shown before its tail, and true if their
/// thinking is still among them. Clients drop thinking, and then none of that time may go back.
fn still_shown(letters: &str, blocks: &[RequestBlock<'_>]) -> (usize, bool) {
    let (mut shown, mut thinks) = (0, true);
    for kind in letters.bytes() {
        match blocks.get(shown) {
            Some(block) if letter(&block.kind) == kind => shown += 1,
            _ if kind == b'k' => thinks = false,
            _ => break,
        }
    }
    (shown, thinks)
}

/// Returns the letter of a block's kind in [`KeptTail::shown`].
fn letter(kind: &BlockKind<'_>) -> u8 {
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
    said: &Said<'_>,
    step: &Step,
) {
    let results: Vec<_> = results(message).collect();
    for addition in &step.additions {
        match addition.place {
            Place::Result(index) if !said.is_written(index) => {
                if let Some(block) = results.get(index) {
                    splice.append_to_result(api, block, &addition.text);
                }
            }
            Place::End | Place::Result(_) => {
                splice.append_to_message(api, message, &addition.text);
            }
        }
    }
}

/// Returns the tool results of a message, in order.
fn results<'m, 'a>(
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
struct Said<'a> {
    /// The message in the core's words.
    user: User<'a>,
    /// The number of results that are written as text: the last ones.
    written: usize,
}

impl<'a> Said<'a> {
    fn by(message: &RequestMessage<'a>) -> Self {
        let name = message.name.map(|name| name.unescape());
        let mut user = User { name, ..User::default() };
        match &message.content {
            Content::Text(text, _) => user.texts.push(UserText::of(text.unescape())),
            Content::Blocks { blocks, .. } => {
                for block in blocks {
                    match &block.kind {
                        BlockKind::ToolResult(result) => {
                            let id = result.tool_use_id.unescape();
                            user.results.push(ToolResult { id, ..result_facts(result) });
                        }
                        BlockKind::Text { text, .. } => {
                            user.texts.push(UserText::of(text.unescape()));
                        }
                        _ => user.media = true,
                    }
                }
            }
        }
        Self { user, written: 0 }
    }

    /// Adds the results of calls that were written as text.
    fn give(&mut self, given: tags::Given) {
        let lined = self.user.texts.last().is_some_and(|text| lines::ends_in_line(text.text()));
        self.written = given.results.len();
        for (at, (id, text)) in given.results.into_iter().enumerate() {
            let mut read = ResultRead::default();
            tags::with_str(&text, |text| read.text(text));
            let lined = lined && at + 1 == self.written;
            let facts = read.facts();
            let failed = facts.failed || given.failed;
            self.user.results.push(ToolResult { id: Cow::Owned(id), lined, failed, ..facts });
        }
        if self.written > 0 {
            self.user.texts = given.beside.into_iter().map(UserText::of).collect();
        }
    }

    /// Fills in what is remembered of the results in this place that the client has cleared since.
    fn recall(&mut self, remembered: &BTreeMap<Digest, Seen>, place: Digest) {
        for result in self.user.results.iter_mut().filter(|result| result.cleared) {
            let Some(seen) = remembered.get(&place_of(place, &result.id)) else { continue };
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
    fn one_line(&self, additions: Vec<Addition>) -> Vec<Addition> {
        if self.written == 0 {
            return additions;
        }
        let written = |addition: &Addition| match addition.place {
            Place::End => false,
            Place::Result(index) => self.is_written(index),
        };
        let (among, mut others): (Vec<_>, Vec<_>) = additions.into_iter().partition(written);
        others.extend(tags::most_important(among));
        others
    }
}

/// Reads the facts that the rules need of a result. The caller fills in its id.
fn result_facts(result: &WireResult<'_>) -> ToolResult<'static> {
    let mut read = ResultRead::default();
    match &result.content {
        ResultContent::Absent(_) => {}
        ResultContent::Opaque => read.media(),
        ResultContent::Text(text, _) => read.text(*text),
        ResultContent::Parts { parts, .. } => {
            for part in parts {
                match part.text {
                    Some((text, _)) => read.text(text),
                    // An image or a document: its bytes are not read.
                    None => read.media(),
                }
            }
        }
    }
    let facts = read.facts();
    ToolResult { failed: result.is_error || facts.failed, ..facts }
}

fn assistant(
    request: &Request<'_>,
    message: &RequestMessage<'_>,
    written: &[TagCall],
    transcript: &mut Transcript,
) {
    let mut texts = TextRead::default();
    let mut named = Vec::new();
    let mut hidden = false;
    match &message.content {
        Content::Text(text, _) => texts.add(*text),
        Content::Blocks { blocks, .. } => {
            for block in blocks {
                match &block.kind {
                    BlockKind::Text { text, .. } => texts.add(*text),
                    BlockKind::ToolUse { id, name, input, server } => {
                        named.push((
                            id.unescape(),
                            name.unescape(),
                            input.of(request.text),
                            *server,
                        ));
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
    let calls = written.iter().map(TagCall::call).chain(named).collect();
    transcript.model(&Finished {
        text: texts.finish(),
        calls,
        cut_call: false,
        hidden,
        // A history is read for its calls. An image or sound ends a run just as text does.
        gives: false,
        stop: Stop::Unknown,
        output_tokens: None,
    });
}
