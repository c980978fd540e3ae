//! Folding the chunks of a stream into a message.

use super::{
    Extra, Finish, Message,
    calls::Calls,
    details::Details,
    objects::Objects,
    parts::{self, Part},
};
use crate::{
    bound::{AssembleError, Bound},
    chat::{
        chunk::{Choice, Chunk, Delta, Event},
        error::ApiError,
    },
    json::Str,
    tokens::Tokens,
};

/// Folds chunks into a [`Message`], within a bound.
///
/// - The choice whose index comes first is the message; what comes for others counts in
///   [`Finished::others`].
/// - `id`, `model` and `created` are the first that are not empty: Azure's first chunk is.
/// - A finish reason may come again, and content behind it: the last reason holds, the content
///   counts (OpenRouter, recorded).
/// - Behind an error only usage counts, behind `[DONE]` nothing; the rest counts in
///   [`Finished::strays`], with pieces of calls that fit nowhere.
#[derive(Clone, Debug)]
pub struct Assembler {
    message: Message,
    calls: Calls,
    details: Details,
    objects: Objects,
    choice: Option<u32>,
    error: Option<Box<ApiError>>,
    done: bool,
    whole: bool,
    others: u32,
    strays: u32,
    /// Bytes that the model wrote.
    written: usize,
    bound: Bound,
}

/// A response folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The message, as far as it came.
    pub message: Message,
    /// How the response ended.
    pub end: End,
    /// How many pieces had no place.
    pub strays: u32,
    /// How many pieces were of other choices (`n` above 1).
    pub others: u32,
}

/// How a response ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With `[DONE]`, or, where that is missing, behind a finish reason.
    Stop,
    /// Without either: the connection was cut.
    Cut,
    /// With an error, whatever came besides.
    Error(Box<ApiError>),
}

/// What a call, a detail or a further member costs in memory beside its text.
const PIECE_COST: usize = 256;

impl Assembler {
    /// An assembler for messages of at most `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            message: Message::default(),
            calls: Calls::default(),
            details: Details::default(),
            objects: Objects::default(),
            choice: None,
            error: None,
            done: false,
            whole: false,
            others: 0,
            strays: 0,
            written: 0,
            bound: Bound::new(limit_bytes),
        }
    }

    /// One for a response that comes whole and is in memory already.
    pub(super) fn whole() -> Self {
        Self { whole: true, ..Self::new(usize::MAX) }
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// [`AssembleError`], again at every later call; the message stays as it was before.
    pub fn push(&mut self, event: &Event<'_>) -> Result<(), AssembleError> {
        self.bound.check()?;
        match event {
            Event::Done if self.done => self.strays += 1,
            Event::Done => self.done = true,
            Event::Chunk(_) if self.done => self.strays += 1,
            Event::Chunk(chunk) => self.chunk(chunk)?,
        }
        Ok(())
    }

    /// Whether `[DONE]` or an error came.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.done || self.error.is_some()
    }

    /// What the message has cost so far, for one that may never end: the tokens it reports, or, as
    /// long as it reports none, an output token for four bytes that came.
    #[must_use]
    pub fn so_far(&self) -> Tokens {
        if self.message.usage.present {
            return self.message.usage.billed();
        }
        Tokens { output: self.written as u64 / 4, ..self.message.usage.tokens }
    }

    /// Which calls the newest chunk's pieces went to, by their places among the calls; `None` for a
    /// piece that fits nowhere.
    #[must_use]
    pub fn placed(&self) -> &[Option<usize>] {
        self.calls.placed()
    }

    /// The message as far as it came. To be called at the end of the stream, however it ended.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        let explained = self.error.is_some() || self.message.finish != Some(Finish::Error);
        let end = match self.error {
            Some(error) => End::Error(error),
            None if !explained => End::Error(Box::new(ApiError::unexplained())),
            None if self.done || self.message.finish.is_some() => End::Stop,
            None => End::Cut,
        };
        let cut = self.message.finish.as_ref().is_some_and(Finish::is_cut);
        self.message.calls = self.calls.finish(cut || end != End::Stop);
        self.message.reasoning_details = self.details.finish();
        self.objects.finish(&mut self.message.extra);
        Finished { message: self.message, end, strays: self.strays, others: self.others }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>) -> Result<(), AssembleError> {
        let sizes = chunk.choices.iter().map(|choice| size(&choice.delta));
        let (written, held) = sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
        self.bound.grow(held)?;
        self.written = self.written.saturating_add(written);
        let message = &mut self.message;
        set_first(&mut message.id, chunk.id);
        set_first(&mut message.model, chunk.model);
        if message.created == 0 {
            message.created = chunk.created.unwrap_or(0);
        }
        if let Some(usage) = &chunk.usage {
            message.usage.update(usage);
        }
        let served = &mut message.usage.tokens.beside.served;
        *served = (*served).max(chunk.served);
        for choice in &chunk.choices {
            self.choice(choice);
        }
        if let (None, Some(error)) = (&self.error, &chunk.error) {
            self.error = Some(Box::new(ApiError::from_chunk(error)));
        }
        Ok(())
    }

    fn choice(&mut self, choice: &Choice<'_>) {
        if *self.choice.get_or_insert(choice.index) != choice.index {
            self.others += 1;
            return;
        }
        if self.error.is_some() {
            self.strays += u32::from(size(&choice.delta).1 > 0);
            return;
        }
        self.delta(&choice.delta);
        let message = &mut self.message;
        if let Some(reason) = choice.finish_reason {
            message.finish = Some(Finish::named(&reason.unescape()));
        }
        if let Some(native) = choice.native_finish_reason {
            message.native_finish = Some(native.unescape().into_owned());
        }
    }

    fn delta(&mut self, delta: &Delta<'_>) {
        let message = &mut self.message;
        if let Some(more) = delta.content {
            more.push_to(&mut message.text);
            if !message.parts.is_empty() && !more.is_empty() {
                parts::push(&mut message.parts, Part::Text(more.unescape().into_owned()));
            }
        }
        if let Some(list) = delta.parts {
            add_parts(message, list);
        }
        if let Some(more) = delta.refusal {
            // OpenAI opens every refused stream with an empty one, others every stream.
            if !more.is_empty() {
                more.push_to(message.refusal.get_or_insert_default());
            }
        }
        if let Some(more) = delta.reasoning {
            more.push_to(&mut message.reasoning);
        }
        if let Some(more) = delta.reasoning_content {
            more.push_to(message.reasoning_content.get_or_insert_default());
        }
        if let Some(list) = delta.reasoning_details {
            self.details.add(list, self.whole);
        }
        for (name, value) in &delta.extra {
            // An object that comes whole stays as it is.
            if value.starts_with('{') && !self.whole {
                message.extra.remove(&*name.unescape());
                self.objects.add(name.unescape().into_owned(), value);
            } else {
                self.objects.remove(&name.unescape());
                add_extra(&mut message.extra, *name, value);
            }
        }
        self.strays += self.calls.add(&delta.tool_calls);
        if let Some(call) = &delta.function_call {
            self.calls.add_legacy(call);
        }
    }
}

fn set_first(target: &mut String, value: Str<'_>) {
    if target.is_empty() {
        value.push_to(target);
    }
}

/// Adds a list of parts, behind text that came as such before.
fn add_parts(message: &mut Message, list: &str) {
    if message.parts.is_empty() && !message.text.is_empty() {
        message.parts.push(Part::Text(message.text.clone()));
    }
    for part in parts::read(list) {
        match &part {
            Part::Text(text) => message.text.push_str(text),
            Part::Thinking(text) => message.reasoning.push_str(text),
            Part::Other(_) => {}
        }
        parts::push(&mut message.parts, part);
    }
}

/// Joins lists; of anything else the later value stands.
fn add_extra(extra: &mut Extra, name: Str<'_>, value: &str) {
    let slot = extra.entry(name.unescape().into_owned()).or_default();
    match (elements(slot), elements(value)) {
        (Some(old), Some(more)) if !old.is_empty() && !more.is_empty() => {
            slot.pop();
            slot.push(',');
            slot.push_str(more);
            slot.push(']');
        }
        (Some(_), Some("")) => {}
        _ => value.clone_into(slot),
    }
}

/// What stands between the brackets of a list.
fn elements(list: &str) -> Option<&str> {
    Some(list.strip_prefix('[')?.strip_suffix(']')?.trim())
}

/// What a delta adds: what the model wrote, in bytes, and what it takes in memory.
fn size(delta: &Delta<'_>) -> (usize, usize) {
    let texts = [delta.content, delta.refusal, delta.reasoning, delta.reasoning_content];
    let mut written: usize = texts.into_iter().flatten().map(|text| text.raw().len()).sum();
    written += delta.parts.map_or(0, str::len);
    let mut beside = delta.parts.map_or(0, str::len);
    // A detail is kept twice as long as it is of one piece.
    beside += delta.reasoning_details.map_or(0, |list| 2 * list.len() + PIECE_COST);
    beside += extras(&delta.extra);
    for call in delta.tool_calls.iter().chain(delta.function_call.as_deref()) {
        let texts = [call.id, call.name, call.arguments];
        written += texts.into_iter().flatten().map(|text| text.raw().len()).sum::<usize>();
        written += call.object.map_or(0, str::len);
        let begins = call.id.is_some() || call.name.is_some();
        beside += extras(&call.extra) + usize::from(begins) * PIECE_COST;
    }
    (written, written + beside)
}

fn extras(extra: &[(Str<'_>, &str)]) -> usize {
    extra.iter().map(|(name, value)| name.raw().len() + value.len() + PIECE_COST).sum()
}
