//! The events of a response stream, typed and borrowed.
//!
//! [`Event::from_data`] reads the data of a server-sent event in one pass over its bytes, with keys
//! in any order. Strings stay as they are in the JSON until they are requested. Members that this
//! module does not know are passed on, never errors. This module keeps no state: the
//! [`Assembler`](super::Assembler) combines chunks.

mod delta;
#[cfg(test)]
mod tests;

pub(super) use delta::read_call;
pub use delta::{CallDelta, Choice, Delta};

use super::usage::Usage;
use crate::{
    ServiceTier,
    json::{Cursor, Error, Kind, MemberKey, Str},
};

/// An event of a response stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A chunk, or an error in its place.
    Chunk(Chunk<'a>),
    /// `[DONE]`: nothing follows.
    Done,
}

/// A chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// `id`; empty where absent, and in Azure's first chunk.
    pub id: Str<'a>,
    /// `created`, in seconds since 1970.
    pub created: Option<u64>,
    /// `model`; empty where absent, and in Azure's first chunk.
    pub model: Str<'a>,
    /// The choices; none in OpenAI's usage chunk and in Azure's first.
    pub choices: Vec<Choice<'a>>,
    /// The usage, if the chunk reports it: as `usage`, as Groq's `x_groq.usage`, or within a choice
    /// (Moonshot).
    pub usage: Option<Box<Usage>>,
    /// `service_tier`
    pub served: ServiceTier,
    /// The error, if there is one. Only usage is relevant after it.
    pub error: Option<Box<StreamError<'a>>>,
}

/// An error within a stream, or in a whole response with status 200.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamError<'a> {
    /// `type`; empty where absent.
    pub kind: Str<'a>,
    /// `code`: a word, or the digits of a number. Empty where absent.
    pub code: Str<'a>,
    /// `message`; empty where absent.
    pub message: Str<'a>,
    /// `metadata.raw` (OpenRouter): the message of the vendor behind it. Empty where absent.
    pub detail: Str<'a>,
    /// The HTTP status stated by the error itself, as `code` or `status_code`.
    pub status: Option<u16>,
    /// `request_id`
    pub request_id: Option<Str<'a>>,
}

impl<'a> Event<'a> {
    /// Reads an event. `name` is the frame's `event:` value. An event named `error` (Groq) is an
    /// error, whatever its data.
    ///
    /// # Errors
    /// Fails if the data is neither `[DONE]` nor a JSON object.
    pub fn from_data(name: &str, data: &'a str) -> Result<Self, Error> {
        if data.trim_ascii() == "[DONE]" {
            return Ok(Self::Done);
        }
        Chunk::from_data(data, name == "error").map(Self::Chunk)
    }
}

impl<'a> Chunk<'a> {
    /// Reads a chunk, or a whole response, which has `message` in place of `delta`.
    pub(super) fn from_data(data: &'a str, is_error: bool) -> Result<Self, Error> {
        let mut cursor = Cursor::new(data);
        let mut chunk = Self::default();
        if cursor.peek()? == Kind::Array {
            // Gemini's layer: `[{"error":…}]`.
            let error = StreamError::from_cursor(&mut cursor)?;
            chunk.error = (!error.message.is_empty()).then(|| Box::new(error));
            return Ok(chunk);
        }
        let mut form = ChunkForm { error: is_error, ..ChunkForm::default() };
        cursor.read_members(|cursor, member| chunk.read_member(cursor, member, &mut form))?;
        cursor.expect_end()?;
        // Only words: FastAPI's `{"detail":…}`, `{"message":…}` of proxies.
        let flat_error = form.error || (form.words && !form.chunk);
        if flat_error && chunk.error.is_none() {
            chunk.error = Some(Box::new(StreamError::from_cursor(&mut Cursor::new(data))?));
        }
        Ok(chunk)
    }

    #[inline]
    fn read_member(
        &mut self,
        cursor: &mut Cursor<'a>,
        member: MemberKey<'a>,
        form: &mut ChunkForm,
    ) -> Result<(), Error> {
        let key = member.key.unescape();
        match &*key {
            "message" | "detail" | "msg" | "errors" => form.words |= cursor.peek()? != Kind::Null,
            _ => form.chunk |= matches!(&*key, "id" | "object" | "choices" | "usage" | "model"),
        }
        match &*key {
            "id" => self.id = cursor.read_text_or_skip()?.unwrap_or_default(),
            "created" => self.created = cursor.read_uint_or_skip()?,
            "model" => self.model = cursor.read_text_or_skip()?.unwrap_or_default(),
            "choices" => self.read_choices(cursor)?,
            "usage" => {
                let usage = Usage::from_cursor(cursor)?.map(Box::new);
                self.usage = usage.or_else(|| self.usage.take());
            }
            "service_tier" => {
                let tier = cursor.read_text_or_skip()?.unwrap_or_default();
                self.served = ServiceTier::from_tier(&tier.unescape(), false);
            }
            "x_groq" => self.read_groq(cursor)?,
            "error" => self.error = read_error_member(cursor)?,
            // Baidu: `{"error_code","error_msg","id"}`.
            "error_msg" | "error_message" => {
                form.error |= cursor.read_text_or_skip()?.is_some_and(|words| !words.is_blank())
            }
            "base_resp" => form.error |= tells_failure(cursor)?,
            // Mistral and vLLM: `{"object":"error","message":…}`.
            "object" => {
                form.error |= cursor.read_text_or_skip()?.is_some_and(|object| object == "error")
            }
            _ => {}
        }
        Ok(())
    }

    fn read_choices(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Array {
            return Ok(());
        }
        self.choices.clear();
        cursor.read_elements(|cursor| {
            if cursor.peek()? == Kind::Object {
                let (choice, usage, error) = delta::read_choice(cursor)?;
                self.choices.push(choice);
                self.usage = self.usage.take().or(usage);
                self.error = self.error.take().or(error);
            }
            Ok::<_, Error>(())
        })?;
        Ok(())
    }

    fn read_groq(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Object {
            return Ok(());
        }
        cursor.read_members(|cursor, member| {
            if member.key == "usage" {
                let usage = Usage::from_cursor(cursor)?.map(Box::new);
                self.usage = self.usage.take().or(usage);
            }
            Ok::<_, Error>(())
        })?;
        Ok(())
    }
}

/// The form of a chunk's data, as its members show it.
#[derive(Default)]
struct ChunkForm {
    /// True if the data says that it is an error.
    error: bool,
    /// True if it has words of its own, as errors have.
    words: bool,
    /// True if it has a member of a chunk.
    chunk: bool,
}

/// Reads MiniMax's `base_resp`, which every response has: true if its `status_code` is not 0.
fn tells_failure(cursor: &mut Cursor<'_>) -> Result<bool, Error> {
    let mut fails = false;
    if cursor.peek()? != Kind::Object {
        cursor.skip_value()?;
        return Ok(false);
    }
    cursor.read_members(|cursor, member| {
        match member.key == "status_code" {
            true => fails = cursor.read_uint_or_skip()?.is_some_and(|code| code != 0),
            false => drop(cursor.skip_value()?),
        }
        Ok::<_, Error>(())
    })?;
    Ok(fails)
}

/// Reads an `error` member: an object, or a bare string. Null is not an error.
fn read_error_member<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Box<StreamError<'a>>>, Error> {
    match cursor.peek()? {
        Kind::Object | Kind::String => Ok(Some(Box::new(StreamError::from_error_member(cursor)?))),
        Kind::Array | Kind::Number | Kind::Bool | Kind::Null => {
            cursor.skip_value()?;
            Ok(None)
        }
    }
}
