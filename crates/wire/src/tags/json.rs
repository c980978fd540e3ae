//! A JSON scanner that only tracks strings and the end of the value.
//!
//! It checks structure, but not scalars and escapes: the content of a block is parsed again,
//! strictly, once it is complete. Line breaks inside strings pass, since models write them.

use memchr::memchr2;

use super::markup::{View, count_examined};
use crate::json::MAX_DEPTH;

/// The result of scanning a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonProgress {
    /// The text ends before the value does.
    More,
    /// The text is not JSON. The next byte is the invalid one.
    Bad,
    /// The value has ended. The next byte is the first one after it.
    Done,
}

/// An object or array that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonScanner {
    /// The open brackets, innermost last: 1 for an object.
    stack: u128,
    depth: usize,
    phase: JsonState,
}

#[derive(Clone, Copy, Debug)]
enum JsonState {
    Value,
    /// After `[`.
    ValueOrEnd,
    Key,
    /// After `{`.
    KeyOrEnd,
    Colon,
    /// After a value.
    Next,
    Scalar,
    String {
        key: bool,
    },
    Escape {
        key: bool,
    },
}

// One bit of the stack per level.
const _: () = assert!(MAX_DEPTH <= 128, "the stack has 128 bits");

impl JsonScanner {
    pub(super) const fn new() -> Self {
        Self { stack: 0, depth: 0, phase: JsonState::Value }
    }

    pub(super) fn feed_view(&mut self, view: View<'_>, pos: &mut usize) -> JsonProgress {
        loop {
            if let JsonState::String { key } = self.phase {
                let rest = view.bytes(*pos);
                let Some(found) = memchr2(b'"', b'\\', rest) else {
                    count_examined(rest.len());
                    *pos = view.end();
                    return JsonProgress::More;
                };
                let quote = rest.get(found) == Some(&b'"');
                self.phase = match (quote, key) {
                    (false, _) => JsonState::Escape { key },
                    (true, true) => JsonState::Colon,
                    (true, false) => JsonState::Next,
                };
                count_examined(found + 1);
                *pos += found + 1;
                continue;
            }
            let Some(byte) = view.byte(*pos) else { return JsonProgress::More };
            count_examined(1);
            if !self.step_byte(byte) {
                return JsonProgress::Bad;
            }
            *pos += 1;
            if self.depth == 0 {
                return JsonProgress::Done;
            }
        }
    }

    /// Consumes a byte outside of a string's content. Returns false if it is invalid here.
    fn step_byte(&mut self, byte: u8) -> bool {
        use JsonState::{Colon, Escape, Key, KeyOrEnd, Next, Scalar, String, Value, ValueOrEnd};
        let space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        let object = self.stack & 1 == 1;
        self.phase = match (self.phase, byte) {
            (Escape { key }, _) => String { key },
            (Scalar, _) if is_scalar_byte(byte) => Scalar,
            (Scalar | Next, b',') => {
                if object {
                    Key
                } else {
                    Value
                }
            }
            (Scalar | Next | KeyOrEnd, b'}') if object => self.close_container(),
            (Scalar | Next | ValueOrEnd, b']') if !object => self.close_container(),
            (Scalar, _) if space => Next,
            (phase, _) if space => phase,
            (Key | KeyOrEnd, b'"') => String { key: true },
            (Colon, b':') => Value,
            (Value | ValueOrEnd, b'"') => String { key: false },
            (Value | ValueOrEnd, b'{' | b'[') if self.depth < MAX_DEPTH => {
                self.open_container(byte)
            }
            (Value | ValueOrEnd, _) if is_scalar_byte(byte) => Scalar,
            _ => return false,
        };
        true
    }

    const fn open_container(&mut self, byte: u8) -> JsonState {
        let object = byte == b'{';
        self.stack = self.stack << 1 | object as u128;
        self.depth += 1;
        if object { JsonState::KeyOrEnd } else { JsonState::ValueOrEnd }
    }

    const fn close_container(&mut self) -> JsonState {
        self.stack >>= 1;
        self.depth -= 1;
        JsonState::Next
    }
}

const fn is_scalar_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}
