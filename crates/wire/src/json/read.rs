//! Cursor methods for the protocol readers: each reads a value of a known kind, or skips it.

use super::{Cursor, Error, Kind, Span, Str};

impl<'a> Cursor<'a> {
    /// Reads a string, or skips a value of another kind.
    #[inline]
    pub(crate) fn read_text_or_skip(&mut self) -> Result<Option<Str<'a>>, Error> {
        Ok(self.read_string_or_skip()?.map(|(text, _)| text))
    }

    /// Reads an index, or skips any other value.
    #[inline]
    pub(crate) fn read_index_or_skip(&mut self) -> Result<Option<u32>, Error> {
        Ok(self.read_uint_or_skip()?.and_then(|index| u32::try_from(index).ok()))
    }

    /// Reads an object with `read`, or skips a value of another kind.
    #[inline]
    pub(crate) fn read_object_or_skip<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if self.peek()? == Kind::Object {
            return read(self).map(Some);
        }
        self.skip_value()?;
        Ok(None)
    }

    /// Skips a value. Returns its span unless the value is `null`.
    pub(crate) fn skip_unless_null(&mut self) -> Result<Option<Span>, Error> {
        let kind = self.peek()?;
        let span = self.skip_value()?;
        Ok((kind != Kind::Null).then_some(span))
    }

    /// Reads the string member `name` of an object. Returns `None` for any other value.
    pub(crate) fn read_member_text_or_skip(
        &mut self,
        name: &str,
    ) -> Result<Option<Str<'a>>, Error> {
        let found = self.read_object_or_skip(|cursor| {
            let mut found = None;
            cursor.read_members(|cursor, member| {
                if member.key.eq_str(name) {
                    found = cursor.read_text_or_skip()?;
                }
                Ok::<_, Error>(())
            })?;
            Ok(found)
        })?;
        Ok(found.flatten())
    }
}

impl Str<'_> {
    /// Returns the unescaped string.
    pub(crate) fn into_string(self) -> String {
        self.unescape().into_owned()
    }
}
