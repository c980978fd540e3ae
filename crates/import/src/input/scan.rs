//! Finds the end of a JSON value, piece by piece and without decoding the value.

use memchr::memchr2;

use super::JsonError;

/// The position within a value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scan {
    depth: u32,
    within: ScanState,
    escaped: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ScanState {
    #[default]
    Start,
    Structure,
    Text,
    Word,
}

impl Scan {
    /// Finds the end of the value in `bytes`, of which the first `from` were scanned before.
    /// Returns `None` if more bytes are needed.
    pub(crate) fn find_end(
        &mut self,
        bytes: &[u8],
        from: usize,
    ) -> Result<Option<usize>, JsonError> {
        let mut at = from;
        while let Some(&byte) = bytes.get(at) {
            match self.within {
                ScanState::Text if self.escaped => {
                    self.escaped = false;
                    at += 1;
                }
                ScanState::Text => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    let Some(mark) = memchr2(b'"', b'\\', rest) else { return Ok(None) };
                    at += mark + 1;
                    if rest.get(mark) == Some(&b'\\') {
                        self.escaped = true;
                    } else {
                        self.within = ScanState::Structure;
                        if self.depth == 0 {
                            return Ok(Some(at));
                        }
                    }
                }
                ScanState::Word => {
                    if matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace() {
                        return Ok(Some(at));
                    }
                    at += 1;
                }
                ScanState::Start | ScanState::Structure => {
                    at += 1;
                    match byte {
                        b'"' => self.within = ScanState::Text,
                        b'{' | b'[' => {
                            self.depth += 1;
                            self.within = ScanState::Structure;
                        }
                        b'}' | b']' if self.depth == 0 => return Err(JsonError::Malformed),
                        b'}' | b']' => {
                            self.depth -= 1;
                            if self.depth == 0 {
                                return Ok(Some(at));
                            }
                        }
                        b'-' | b'0'..=b'9' | b'a'..=b'z' if self.within == ScanState::Start => {
                            self.within = ScanState::Word;
                        }
                        _ if self.within == ScanState::Start => return Err(JsonError::Malformed),
                        _ => {}
                    }
                }
            }
        }
        Ok(None)
    }

    /// Returns the end of the value if no more bytes follow.
    pub(crate) fn at_end(self, seen: usize) -> Result<usize, JsonError> {
        if self.within == ScanState::Word { Ok(seen) } else { Err(JsonError::Cut) }
    }
}
