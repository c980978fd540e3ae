//! A JSON scanner that only tracks strings and the end of the value.
//!
//! It checks structure, but not scalars and escapes: the content of a block is parsed again,
//! strictly, once it is complete. Line breaks inside strings pass, since models write them.

use memchr::memchr2;

use super::markup::{View, looked};
use crate::json::MAX_DEPTH;

/// The result of scanning a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fed {
    /// The text ends before the value does.
    More,
    /// The text is not JSON. The next byte is the invalid one.
    Bad,
    /// The value has ended. The next byte is the first one after it.
    Done,
}

/// An object or array that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Json {
    /// The open brackets, innermost last: 1 for an object.
    stack: u128,
    depth: usize,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
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

impl Json {
    pub(super) const fn new() -> Self {
        Self { stack: 0, depth: 0, phase: Phase::Value }
    }

    pub(super) fn feed(&mut self, view: View<'_>, pos: &mut usize) -> Fed {
        loop {
            if let Phase::String { key } = self.phase {
                let rest = view.bytes(*pos);
                let Some(found) = memchr2(b'"', b'\\', rest) else {
                    looked(rest.len());
                    *pos = view.end();
                    return Fed::More;
                };
                let quote = rest.get(found) == Some(&b'"');
                self.phase = match (quote, key) {
                    (false, _) => Phase::Escape { key },
                    (true, true) => Phase::Colon,
                    (true, false) => Phase::Next,
                };
                looked(found + 1);
                *pos += found + 1;
                continue;
            }
            let Some(byte) = view.byte(*pos) else { return Fed::More };
            looked(1);
            if !self.step(byte) {
                return Fed::Bad;
            }
            *pos += 1;
            if self.depth == 0 {
                return Fed::Done;
            }
        }
    }

    /// Consumes a byte outside of a string's content. Returns false if it is invalid here.
    fn step(&mut self, byte: u8) -> bool {
        use Phase::{Colon, Escape, Key, KeyOrEnd, Next, Scalar, String, Value, ValueOrEnd};
        let space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        let object = self.stack & 1 == 1;
        self.phase = match (self.phase, byte) {
            (Escape { key }, _) => String { key },
            (Scalar, _) if in_scalar(byte) => Scalar,
            (Scalar | Next, b',') => {
                if object {
                    Key
                } else {
                    Value
                }
            }
            (Scalar | Next | KeyOrEnd, b'}') if object => self.close(),
            (Scalar | Next | ValueOrEnd, b']') if !object => self.close(),
            (Scalar, _) if space => Next,
            (phase, _) if space => phase,
            (Key | KeyOrEnd, b'"') => String { key: true },
            (Colon, b':') => Value,
            (Value | ValueOrEnd, b'"') => String { key: false },
            (Value | ValueOrEnd, b'{' | b'[') if self.depth < MAX_DEPTH => self.open(byte),
            (Value | ValueOrEnd, _) if in_scalar(byte) => Scalar,
            _ => return false,
        };
        true
    }

    const fn open(&mut self, byte: u8) -> Phase {
        let object = byte == b'{';
        self.stack = self.stack << 1 | object as u128;
        self.depth += 1;
        if object { Phase::KeyOrEnd } else { Phase::ValueOrEnd }
    }

    const fn close(&mut self) -> Phase {
        self.stack >>= 1;
        self.depth -= 1;
        Phase::Next
    }
}

const fn in_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}
