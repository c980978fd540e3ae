//! Token counts as the API reports them, converted to softland's units.
//!
//! The API's `input_tokens` include the tokens read from and written to the cache.
//! [`Tokens::input`] is the rest. This module knows no prices.

use crate::{
    Tokens,
    json::{Cursor, Error, Kind},
    tokens::read_token_count,
};

/// The usage of a response. It arrives only with the terminal event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The tokens. Cache writes count as written for five minutes, because the API knows only one
    /// kind.
    pub tokens: Tokens,
    /// `output_tokens_details.reasoning_tokens`; part of the output.
    pub reasoning: u64,
}

impl Usage {
    /// Reads a `usage` object. Returns `None` for any other value.
    ///
    /// # Errors
    /// Fails if the value is not JSON.
    pub fn from_cursor(cursor: &mut Cursor<'_>) -> Result<Option<Self>, Error> {
        if cursor.peek()? != Kind::Object {
            cursor.skip_value()?;
            return Ok(None);
        }
        let mut counts = UsageReport::default();
        cursor.read_members(|cursor, member| match &*member.key.unescape() {
            "input_tokens_details" | "output_tokens_details" => counts.read_details(cursor),
            key => counts.read_member(key, cursor),
        })?;
        Ok(Some(counts.into_usage()))
    }

    /// Returns the members that state the output: a JSON object to lay over a usage as received.
    pub(super) fn output_members(&self) -> String {
        let (output, reasoning) = (self.tokens.output, self.reasoning);
        let total = self.tokens.input_total().saturating_add(output);
        let details = match reasoning {
            0 => String::new(),
            _ => format!(r#","output_tokens_details":{{"reasoning_tokens":{reasoning}}}"#),
        };
        format!(r#"{{"output_tokens":{output}{details},"total_tokens":{total}}}"#)
    }

    /// Appends the JSON object that the API would send.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let tokens = &self.tokens;
        let written = tokens.cache_write_5m.saturating_add(tokens.cache_write_1h);
        let input = tokens.input_total();
        let text = format!(
            concat!(
                r#"{{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{},"#,
                r#""cache_write_tokens":{}}},"output_tokens":{},"#,
                r#""output_tokens_details":{{"reasoning_tokens":{}}},"total_tokens":{}}}"#
            ),
            input,
            tokens.cache_read,
            written,
            tokens.output,
            self.reasoning,
            input.saturating_add(tokens.output)
        );
        out.extend_from_slice(text.as_bytes());
    }
}

/// The counts as written in the object.
#[derive(Default)]
struct UsageReport {
    input: u64,
    output: u64,
    cached: u64,
    written: u64,
    reasoning: u64,
}

impl UsageReport {
    fn read_member(&mut self, key: &str, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let target = match key {
            "input_tokens" => &mut self.input,
            "output_tokens" => &mut self.output,
            "cached_tokens" => &mut self.cached,
            "cache_write_tokens" => &mut self.written,
            "reasoning_tokens" => &mut self.reasoning,
            _ => return Ok(()),
        };
        *target = read_token_count(cursor)?.unwrap_or_default();
        Ok(())
    }

    fn read_details(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? == Kind::Object {
            cursor
                .read_members(|cursor, member| self.read_member(&member.key.unescape(), cursor))?;
        }
        Ok(())
    }

    fn into_usage(self) -> Usage {
        let tokens = Tokens {
            input: self.input.saturating_sub(self.cached).saturating_sub(self.written),
            output: self.output,
            cache_read: self.cached,
            cache_write_5m: self.written,
            cache_write_1h: 0,
            beside: Default::default(),
        };
        Usage { tokens, reasoning: self.reasoning }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Usage> {
        Usage::from_cursor(&mut Cursor::new(text)).unwrap()
    }

    #[test]
    fn cached_and_written_input_is_taken_out_of_the_input() {
        let usage = read(
            r#"{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},
                "output_tokens":9,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":109}"#,
        )
        .unwrap();
        let tokens = Tokens {
            input: 10,
            output: 9,
            cache_read: 60,
            cache_write_5m: 30,
            ..Tokens::default()
        };
        assert_eq!(usage, Usage { tokens, reasoning: 4 });
        let mut out = Vec::new();
        usage.write_json(&mut out);
        let text = std::str::from_utf8(&out).unwrap();
        assert!(text.contains(r#""input_tokens":100"#) && text.ends_with(r#""total_tokens":109}"#));
        assert_eq!(read(text), Some(usage));
    }

    #[test]
    fn counts_that_contradict_each_other_do_not_wrap() {
        let usage = read(r#"{"input_tokens":5,"input_tokens_details":{"cached_tokens":9}}"#);
        let usage = usage.unwrap();
        assert_eq!((usage.tokens.input, usage.tokens.cache_read), (0, 9));
    }

    #[test]
    fn what_is_no_object_says_nothing() {
        for text in ["null", "3", r#""x""#, "[]"] {
            assert_eq!(read(text), None, "{text}");
        }
        let odd = r#"{"input_tokens":-1,"output_tokens":"x","input_tokens_details":null}"#;
        assert_eq!(read(odd), Some(Usage::default()));
    }
}
