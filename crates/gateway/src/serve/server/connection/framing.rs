//! Detects requests that state their end twice: with a `content-length` and a `transfer-encoding`.
//!
//! Such a request can smuggle another one past a server that reads it differently (RFC 9112 §6.1
//! and §11.2). The server library drops the length before other code sees it, so this module
//! inspects the heads before they reach the library. It follows heads and bodies as the library
//! does, and ignores what the library refuses by itself.

/// Bytes of a line that are inspected: a name, and a length with some space before it.
const LINE: usize = 64;

/// The position in a connection's bytes. At most [`LINE`] bytes are kept.
#[derive(Debug)]
pub(super) struct Framing {
    at: FramingState,
    line: [u8; LINE],
    /// Bytes of the line so far; only the first of them are in `line`.
    size: usize,
    length: Option<u64>,
    chunked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FramingState {
    /// Before or in the request line.
    Request,
    /// In the further lines of a head.
    Head,
    /// In a body, with that number of bytes to come.
    Body(u64),
    /// In the line of a chunk's size.
    Chunk,
    /// In a chunk, its line end included.
    Data(u64),
    /// In the lines behind the last chunk.
    Trailer,
}

/// A request that does not state its end exactly once and plainly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AmbiguousFraming;

impl Framing {
    pub(super) const fn new() -> Self {
        Self { at: FramingState::Request, line: [0; LINE], size: 0, length: None, chunked: false }
    }

    /// Follows the next bytes of the connection.
    ///
    /// # Errors
    /// Returns an error if a head ends in these bytes that states its request's end twice. The
    /// number is the count of bytes before that point; the line end is left out, so that no reader
    /// takes the head for complete. Nothing may be followed after an error.
    pub(super) fn follow_bytes(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match self.at {
                FramingState::Body(left) => {
                    self.skip_body(rest, left, FramingState::Body, FramingState::Request)
                }
                FramingState::Data(left) => {
                    self.skip_body(rest, left, FramingState::Data, FramingState::Chunk)
                }
                FramingState::Request
                | FramingState::Head
                | FramingState::Chunk
                | FramingState::Trailer => {
                    let line = bytes.len() - rest.len();
                    let end = memchr::memchr(b'\n', rest);
                    self.take_line(rest, end).map_err(|AmbiguousFraming| line + end.unwrap_or(0))?
                }
            };
        }
        Ok(())
    }

    fn skip_body<'a>(
        &mut self,
        bytes: &'a [u8],
        left: u64,
        on: fn(u64) -> FramingState,
        then: FramingState,
    ) -> &'a [u8] {
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left - size as u64;
        self.at = if left == 0 { then } else { on(left) };
        bytes.get(size..).unwrap_or_default()
    }

    fn take_line<'a>(
        &mut self,
        bytes: &'a [u8],
        end: Option<usize>,
    ) -> Result<&'a [u8], AmbiguousFraming> {
        let (part, rest) = match end {
            Some(end) => (bytes.get(..end), bytes.get(end + 1..)),
            None => (Some(bytes), None),
        };
        let part = part.unwrap_or_default();
        let room = self.line.get_mut(self.size..).unwrap_or_default();
        for (to, from) in room.iter_mut().zip(part) {
            *to = *from;
        }
        self.size = self.size.saturating_add(part.len());
        if end.is_some() {
            let whole = self.size <= LINE;
            let line = self.line;
            let line = line.get(..self.size.min(LINE)).unwrap_or_default();
            self.size = 0;
            self.at = self.next_state(line.strip_suffix(b"\r").unwrap_or(line), whole)?;
        }
        Ok(rest.unwrap_or_default())
    }

    /// Returns the state after a line. `whole` is false if only the beginning of the line was kept.
    fn next_state(&mut self, line: &[u8], whole: bool) -> Result<FramingState, AmbiguousFraming> {
        match self.at {
            // Empty lines before a request mean nothing.
            FramingState::Request if line.is_empty() => Ok(FramingState::Request),
            FramingState::Request => {
                (self.length, self.chunked) = (None, false);
                Ok(FramingState::Head)
            }
            FramingState::Head if line.is_empty() => match (self.length, self.chunked) {
                (Some(_), true) => Err(AmbiguousFraming),
                (_, true) => Ok(FramingState::Chunk),
                (None | Some(0), false) => Ok(FramingState::Request),
                (Some(length), false) => Ok(FramingState::Body(length)),
            },
            FramingState::Head => {
                if let Some(value) = value_of(line, b"content-length") {
                    // A value that is no plain number is refused as well.
                    let length = parse_decimal(value.trim_ascii()).filter(|_| whole);
                    self.length = Some(length.ok_or(AmbiguousFraming)?);
                } else if value_of(line, b"transfer-encoding").is_some() {
                    self.chunked = true;
                }
                Ok(FramingState::Head)
            }
            FramingState::Chunk => match parse_hexadecimal(line).ok_or(AmbiguousFraming)? {
                0 => Ok(FramingState::Trailer),
                size => Ok(FramingState::Data(size.checked_add(2).ok_or(AmbiguousFraming)?)),
            },
            FramingState::Trailer if line.is_empty() => Ok(FramingState::Request),
            at => Ok(at),
        }
    }
}

/// Returns the value of a header line, if the header has that name.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (had, rest) = line.split_at_checked(name.len())?;
    rest.strip_prefix(b":").filter(|_| had.eq_ignore_ascii_case(name))
}

fn parse_decimal(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

/// Parses the number that a chunk's line begins with; the rest of the line is an extension.
fn parse_hexadecimal(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let digits = std::str::from_utf8(line.get(..end)?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the position at which the bytes become ambiguous, fed in pieces of that size.
    fn fed(bytes: &[u8], piece: usize) -> bool {
        let mut framing = Framing::new();
        bytes.chunks(piece).any(|piece| framing.follow_bytes(piece).is_err())
    }

    const PLAIN: &str = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde";
    const CHUNKED: &str = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n\
        a;ext=1\r\n\r\ncontent-\r\n1C\r\nlength: 3\r\ntransfer-encoding\r\n0\r\nx: y\r\n\r\n";
    const NONE: &str = "\r\nGET / HTTP/1.1\nhost: x\n\n";

    #[test]
    fn two_framings_are_found_wherever_the_bytes_are_cut() {
        for both in [
            "content-length: 5\r\ntransfer-encoding: chunked",
            "Transfer-Encoding: chunked\r\nx: y\r\ncOnTeNt-LeNgTh:5",
            "transfer-encoding:\tchunked\ncontent-length: 0",
            "content-length: 0\r\ntransfer-encoding: chunked",
        ] {
            let bad = format!("POST / HTTP/1.1\r\n{both}\r\n\r\n");
            for before in [vec![], vec![PLAIN], vec![CHUNKED, NONE, PLAIN], vec![NONE, CHUNKED]] {
                let before = before.concat();
                let all = [&*before, &bad].concat();
                for piece in 1..=all.len() {
                    assert!(!fed(before.as_bytes(), piece), "{before:?} in {piece}");
                    assert!(fed(all.as_bytes(), piece), "{all:?} in {piece}");
                }
            }
        }
    }

    #[test]
    fn what_stands_in_bodies_and_chunks_is_no_head() {
        let inner = "POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n";
        let length = inner.len();
        let head = "POST / HTTP/1.1\r\n";
        let plain = format!("{head}content-length: {length}\r\n\r\n{inner}{NONE}");
        let chunked =
            format!("{head}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{inner}\r\n0\r\n\r\n");
        for all in [plain, chunked] {
            for piece in 1..=all.len() {
                assert!(!fed(all.as_bytes(), piece), "{all:?} in {piece}");
            }
        }
    }

    #[test]
    fn lengths_that_cannot_be_followed_are_refused() {
        let room = " ".repeat(LINE);
        for value in ["", "+5", "5x", "5, 5", "99999999999999999999", &format!("{room}5")] {
            let head = format!("POST / HTTP/1.1\r\ncontent-length: {value}\r\n\r\n");
            assert!(fed(head.as_bytes(), 7), "{value:?}");
        }
        for size in ["x", "", "-1", "fffffffffffffffff", "ffffffffffffffff"] {
            let body = format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{size}\r\n");
            assert!(fed(body.as_bytes(), 7), "{size:?}");
        }
        let long = format!("POST / HTTP/1.1\r\nx-content-length: {room}{room}\r\n\r\n");
        assert!(!fed(long.as_bytes(), 7));
    }
}
