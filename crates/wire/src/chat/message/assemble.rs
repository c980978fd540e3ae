//! Assembling the chunks of a stream into a message.

use super::{
    Finish, ResponseMessage, UnreadMembers,
    calls::CallAssembler,
    details::DetailAssembler,
    objects::ObjectAssembler,
    parts::{self, ResponsePart},
};
use crate::{
    bound::{AssembleError, SizeBound},
    chat::{
        chunk::{Choice, Chunk, Delta, Event},
        error::ApiError,
    },
    json::Str,
    tokens::Tokens,
};

/// Assembles chunks into a [`ResponseMessage`], within a size limit.
///
/// - The choice whose index comes first is the message. Pieces of other choices count in
///   [`Finished::others`].
/// - `id`, `model` and `created` are the first values that are not empty, because Azure's first
///   chunk has empty ones.
/// - A finish reason may be repeated, and content may follow it: the last reason applies, and the
///   content counts (OpenRouter, recorded).
/// - After an error only usage counts, after `[DONE]` nothing. Anything else counts in
///   [`Finished::strays`], as do pieces of calls that fit nowhere.
#[derive(Clone, Debug)]
pub struct Assembler {
    message: ResponseMessage,
    calls: CallAssembler,
    details: DetailAssembler,
    objects: ObjectAssembler,
    choice: Option<u32>,
    error: Option<Box<ApiError>>,
    done: bool,
    whole: bool,
    others: u32,
    strays: u32,
    /// The number of bytes that the model wrote.
    written: usize,
    bound: SizeBound,
}

/// The result of assembling a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The message, as far as it arrived.
    pub message: ResponseMessage,
    /// The end of the response.
    pub end: StreamEnd,
    /// The number of pieces that fit nowhere.
    pub strays: u32,
    /// The number of pieces of other choices (`n` above 1).
    pub others: u32,
}

/// The end of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Ended by `[DONE]` or, if that is missing, after a finish reason.
    Stop,
    /// Ended without either: the connection was cut.
    Cut,
    /// Ended by an error, whatever else arrived.
    Error(Box<ApiError>),
}

/// The memory cost of a call, a detail or a further member, beside its text.
const PIECE_COST: usize = 256;

impl Assembler {
    /// Creates an assembler for messages of at most `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            message: ResponseMessage::default(),
            calls: CallAssembler::default(),
            details: DetailAssembler::default(),
            objects: ObjectAssembler::default(),
            choice: None,
            error: None,
            done: false,
            whole: false,
            others: 0,
            strays: 0,
            written: 0,
            bound: SizeBound::new(limit_bytes),
        }
    }

    /// Creates an assembler for a whole response that is already in memory.
    pub(super) fn for_whole_response() -> Self {
        Self { whole: true, ..Self::new(usize::MAX) }
    }

    /// Adds the next event.
    ///
    /// # Errors
    /// Returns [`AssembleError`], and again at every later call. The message stays as it was
    /// before.
    pub fn push(&mut self, event: &Event<'_>) -> Result<(), AssembleError> {
        self.bound.check_failure()?;
        match event {
            Event::Done if self.done => self.strays += 1,
            Event::Done => self.done = true,
            Event::Chunk(_) if self.done => self.strays += 1,
            Event::Chunk(chunk) => self.apply_chunk(chunk)?,
        }
        Ok(())
    }

    /// Returns true if `[DONE]` or an error arrived.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.done || self.error.is_some()
    }

    /// Returns the tokens of the message so far, for a message that may never end: the tokens it
    /// reports or, while it reports none, one output token for each four bytes that arrived.
    #[must_use]
    pub fn tokens_so_far(&self) -> Tokens {
        if self.message.usage.present {
            return self.message.usage.billed_tokens();
        }
        Tokens { output: self.written as u64 / 4, ..self.message.usage.tokens }
    }

    /// Returns the positions of the calls to which the newest chunk's pieces were assigned. `None`
    /// for a piece that fits nowhere.
    #[must_use]
    pub fn placed_calls(&self) -> &[Option<usize>] {
        self.calls.placed_calls()
    }

    /// Returns the message as far as it arrived. Call this at the end of the stream, however it
    /// ended.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        let explained = self.error.is_some() || self.message.finish != Some(Finish::Error);
        let end = match self.error {
            Some(error) => StreamEnd::Error(error),
            None if !explained => StreamEnd::Error(Box::new(ApiError::new_unexplained())),
            None if self.done || self.message.finish.is_some() => StreamEnd::Stop,
            None => StreamEnd::Cut,
        };
        let cut = self.message.finish.as_ref().is_some_and(Finish::is_cut);
        self.message.calls = self.calls.into_calls(cut || end != StreamEnd::Stop);
        self.message.reasoning_details = self.details.into_details();
        self.objects.finish_into(&mut self.message.extra);
        Finished { message: self.message, end, strays: self.strays, others: self.others }
    }

    fn apply_chunk(&mut self, chunk: &Chunk<'_>) -> Result<(), AssembleError> {
        let sizes = chunk.choices.iter().map(|choice| measure_delta(&choice.delta));
        let (written, held) = sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
        self.bound.add_bytes(held)?;
        self.written = self.written.saturating_add(written);
        let message = &mut self.message;
        set_if_empty(&mut message.id, chunk.id);
        set_if_empty(&mut message.model, chunk.model);
        if message.created == 0 {
            message.created = chunk.created.unwrap_or(0);
        }
        if let Some(usage) = &chunk.usage {
            message.usage.apply_update(usage);
        }
        let served = &mut message.usage.tokens.beside.served;
        *served = (*served).max(chunk.served);
        for choice in &chunk.choices {
            self.apply_choice(choice);
        }
        if let (None, Some(error)) = (&self.error, &chunk.error) {
            self.error = Some(Box::new(ApiError::from_chunk(error)));
        }
        Ok(())
    }

    fn apply_choice(&mut self, choice: &Choice<'_>) {
        if *self.choice.get_or_insert(choice.index) != choice.index {
            self.others += 1;
            return;
        }
        if self.error.is_some() {
            self.strays += u32::from(measure_delta(&choice.delta).1 > 0);
            return;
        }
        self.apply_delta(&choice.delta);
        let message = &mut self.message;
        if let Some(reason) = choice.finish_reason {
            message.finish = Some(Finish::from_name(&reason.unescape()));
        }
        if let Some(native) = choice.native_finish_reason {
            message.native_finish = Some(native.unescape().into_owned());
        }
    }

    fn apply_delta(&mut self, delta: &Delta<'_>) {
        let message = &mut self.message;
        if let Some(more) = delta.content {
            more.push_to(&mut message.text);
            if !message.parts.is_empty() && !more.is_empty() {
                parts::push_part(
                    &mut message.parts,
                    ResponsePart::Text(more.unescape().into_owned()),
                );
            }
        }
        if let Some(list) = delta.parts {
            add_parts(message, list);
        }
        if let Some(more) = delta.refusal {
            // OpenAI opens every refused stream with an empty refusal, others open every stream
            // with one.
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
            self.details.add_details(list, self.whole);
        }
        for (name, value) in &delta.extra {
            // An object that arrives whole stays as it is.
            if value.starts_with('{') && !self.whole {
                message.extra.remove(&*name.unescape());
                self.objects.add_piece(name.unescape().into_owned(), value);
            } else {
                self.objects.remove(&name.unescape());
                merge_extra(&mut message.extra, *name, value);
            }
        }
        self.strays += self.calls.add_pieces(&delta.tool_calls);
        if let Some(call) = &delta.function_call {
            self.calls.add_legacy_piece(call);
        }
    }
}

fn set_if_empty(target: &mut String, value: Str<'_>) {
    if target.is_empty() {
        value.push_to(target);
    }
}

/// Adds a list of parts after any plain text that came before.
fn add_parts(message: &mut ResponseMessage, list: &str) {
    if message.parts.is_empty() && !message.text.is_empty() {
        message.parts.push(ResponsePart::Text(message.text.clone()));
    }
    for part in parts::read_parts(list) {
        match &part {
            ResponsePart::Text(text) => message.text.push_str(text),
            ResponsePart::Thinking(text) => message.reasoning.push_str(text),
            ResponsePart::Other(_) => {}
        }
        parts::push_part(&mut message.parts, part);
    }
}

/// Joins lists. Of anything else the later value wins.
fn merge_extra(extra: &mut UnreadMembers, name: Str<'_>, value: &str) {
    let slot = extra.entry(name.unescape().into_owned()).or_default();
    match (strip_brackets(slot), strip_brackets(value)) {
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

/// Returns the text between the brackets of a list.
fn strip_brackets(list: &str) -> Option<&str> {
    Some(list.strip_prefix('[')?.strip_suffix(']')?.trim())
}

/// Returns the bytes of a delta that the model wrote, and the bytes that it takes in memory.
fn measure_delta(delta: &Delta<'_>) -> (usize, usize) {
    let texts = [delta.content, delta.refusal, delta.reasoning, delta.reasoning_content];
    let mut written: usize = texts.into_iter().flatten().map(|text| text.raw().len()).sum();
    written += delta.parts.map_or(0, str::len);
    let mut beside = delta.parts.map_or(0, str::len);
    // A detail is stored twice while it consists of a single piece.
    beside += delta.reasoning_details.map_or(0, |list| 2 * list.len() + PIECE_COST);
    beside += extra_cost(&delta.extra);
    for call in delta.tool_calls.iter().chain(delta.function_call.as_deref()) {
        let texts = [call.id, call.name, call.arguments];
        written += texts.into_iter().flatten().map(|text| text.raw().len()).sum::<usize>();
        written += call.object.map_or(0, str::len);
        let begins = call.id.is_some() || call.name.is_some();
        beside += extra_cost(&call.extra) + usize::from(begins) * PIECE_COST;
    }
    (written, written + beside)
}

fn extra_cost(extra: &[(Str<'_>, &str)]) -> usize {
    extra.iter().map(|(name, value)| name.raw().len() + value.len() + PIECE_COST).sum()
}
