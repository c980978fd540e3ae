//! Finds the end of a JSON value, piece by piece and without decoding the value.

use memchr::memchr2;

use super::Broken;

/// The position within a value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scan {
    depth: u32,
    within: Within,
    escaped: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Start,
    Structure,
    Text,
    Word,
}

impl Scan {
    /// Finds the end of the value in `bytes`, of which the first `from` were scanned before.
    /// Returns `None` if more bytes are needed.
    pub(crate) fn end(&mut self, bytes: &[u8], from: usize) -> Result<Option<usize>, Broken> {
        let mut at = from;
        while let Some(&byte) = bytes.get(at) {
            match self.within {
                Within::Text if self.escaped => {
                    self.escaped = false;
                    at += 1;
                }
                Within::Text => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    let Some(mark) = memchr2(b'"', b'\\', rest) else { return Ok(None) };
                    at += mark + 1;
                    if rest.get(mark) == Some(&b'\\') {
                        self.escaped = true;
                    } else {
                        self.within = Within::Structure;
                        if self.depth == 0 {
                            return Ok(Some(at));
                        }
                    }
                }
                Within::Word => {
                    if matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace() {
                        return Ok(Some(at));
                    }
                    at += 1;
                }
                Within::Start | Within::Structure => {
                    at += 1;
                    match byte {
                        b'"' => self.within = Within::Text,
                        b'{' | b'[' => {
                            self.depth += 1;
                            self.within = Within::Structure;
                        }
                        b'}' | b']' if self.depth == 0 => return Err(Broken::Malformed),
                        b'}' | b']' => {
                            self.depth -= 1;
                            if self.depth == 0 {
                                return Ok(Some(at));
                            }
                        }
                        b'-' | b'0'..=b'9' | b'a'..=b'z' if self.within == Within::Start => {
                            self.within = Within::Word;
                        }
                        _ if self.within == Within::Start => return Err(Broken::Malformed),
                        _ => {}
                    }
                }
            }
        }
        Ok(None)
    }

    /// Returns the end of the value if no more bytes follow.
    pub(crate) fn at_end(self, seen: usize) -> Result<usize, Broken> {
        if self.within == Within::Word { Ok(seen) } else { Err(Broken::Cut) }
    }
}
