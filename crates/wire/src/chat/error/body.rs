//! The members of an error, in the forms that the vendors use:
//!
//! - `{"error":{"message","type","code","param"}}`: OpenAI, Azure, DeepSeek, Groq, OpenRouter
//!   (with a number as code and `metadata.raw`), z.ai (digits as code)
//! - `[{"error":{…}}]`: Gemini's layer
//! - `{"code":"…","error":"…"}`: xAI
//! - `{"object":"error","message","type","code"}`, `{"detail":[{"msg":…}]}`: Mistral, vLLM
//! - `{"message":…}`, `{"code","msg"}`: the front doors of Azure and z.ai
//! - any other, by the names of its members

use crate::{
    chat::chunk::StreamError,
    error_text::find_words,
    json::{Cursor, Error, Kind, Str},
};

impl<'a> StreamError<'a> {
    /// Reads an error response. Members that it lacks stay empty.
    pub(in crate::chat) fn from_cursor(cursor: &mut Cursor<'a>) -> Result<Self, Error> {
        let mut body = Self::default();
        if cursor.peek()? == Kind::Array {
            cursor.read_elements(|cursor| {
                if cursor.peek()? == Kind::Object && body == Self::default() {
                    body.read_members(cursor)?;
                }
                Ok::<_, Error>(())
            })?;
        } else {
            body.read_members(cursor)?;
        }
        cursor.expect_end()?;
        if body.message.is_empty() {
            body.message = find_words(&mut Cursor::new(cursor.text())).unwrap_or_default();
        }
        Ok(body)
    }

    /// Reads the value of an `error` member: an object, or a bare string.
    pub(in crate::chat) fn from_error_member(cursor: &mut Cursor<'a>) -> Result<Self, Error> {
        let mut body = Self::default();
        body.read_value(cursor)?;
        Ok(body)
    }

    fn read_value(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        match cursor.peek()? {
            Kind::Object => self.read_members(cursor),
            Kind::String => {
                self.message = cursor.read_string()?.0;
                Ok(())
            }
            Kind::Array | Kind::Number | Kind::Bool | Kind::Null => cursor.skip_value().map(|_| ()),
        }
    }

    fn read_members(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        cursor.read_members(|cursor, member| {
            match &*member.key.unescape() {
                "error" => self.read_value(cursor)?,
                "message" | "msg" => {
                    self.message = cursor.read_text_or_skip()?.unwrap_or(self.message)
                }
                "detail" => self.read_detail(cursor)?,
                "type" => self.kind = cursor.read_text_or_skip()?.unwrap_or(self.kind),
                "code" => self.read_code(cursor)?,
                "status_code" => self.status = read_status(cursor)?.or(self.status),
                "request_id" => self.request_id = cursor.read_text_or_skip()?,
                "metadata" => self.read_metadata(cursor)?,
                _ => {}
            }
            Ok::<_, Error>(())
        })?;
        Ok(())
    }

    fn read_code(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        if cursor.peek()? == Kind::Number {
            self.status = read_status(&mut cursor.clone())?.or(self.status);
            let digits = cursor.skip_value()?.slice_of(cursor.text());
            self.code = Str::from_plain(digits).unwrap_or_default();
        } else {
            self.code = cursor.read_text_or_skip()?.unwrap_or(self.code);
        }
        Ok(())
    }

    /// Reads FastAPI's `detail`: a string, or a list of objects with `msg`.
    fn read_detail(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Array {
            self.message = cursor.read_text_or_skip()?.unwrap_or(self.message);
            return Ok(());
        }
        cursor.read_elements(|cursor| {
            if cursor.peek()? == Kind::Object && self.message.is_empty() {
                cursor.read_members(|cursor, member| {
                    if member.key == "msg" {
                        self.message = cursor.read_text_or_skip()?.unwrap_or_default();
                    }
                    Ok::<_, Error>(())
                })?;
            }
            Ok::<_, Error>(())
        })?;
        Ok(())
    }

    /// Reads OpenRouter's `metadata`: the message of the vendor behind it.
    fn read_metadata(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Object {
            return Ok(());
        }
        cursor.read_members(|cursor, member| {
            if member.key == "raw" {
                self.detail = cursor.read_text_or_skip()?.unwrap_or_default();
            }
            Ok::<_, Error>(())
        })?;
        Ok(())
    }
}

/// Reads a number that is the HTTP status of an error.
fn read_status(cursor: &mut Cursor<'_>) -> Result<Option<u16>, Error> {
    let number = cursor.read_uint_or_skip()?.and_then(|number| u16::try_from(number).ok());
    Ok(number.filter(|number| (400..=599).contains(number)))
}
