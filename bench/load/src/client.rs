//! An HTTP/1.1 client for loads: one connection, one request at a time, prepared bytes out, as
//! little work as possible per answer. It follows no redirect and speaks no TLS.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memchr::memmem;
use softland_bench_texts::STAMP;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes of an answer's end that are kept.
const TAIL: usize = 96;

/// A connection that is opened when it is needed.
pub(crate) struct Client {
    address: SocketAddr,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Bytes of the body.
    pub(crate) bytes: usize,
    /// From the request's first byte to the body's first.
    pub(crate) first: Duration,
    /// From the request's first byte to the end.
    pub(crate) whole: Duration,
    /// From when the upstream wrote its head event to when it was read here.
    pub(crate) forwarded: Option<Duration>,
    /// The body's last bytes.
    tail: Vec<u8>,
}

impl Answer {
    /// The body, where it is short.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.tail).into_owned()
    }

    /// Whether the body's end has these words: an answer that was not cut.
    pub(crate) fn ends_with(&self, words: &str) -> bool {
        memmem::find(&self.tail, words.as_bytes()).is_some()
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, stream: None, buffer: vec![0; 64 << 10] }
    }

    /// Opens the connection now.
    pub(crate) async fn connect(&mut self) -> io::Result<()> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        self.stream = Some(stream);
        Ok(())
    }

    /// Sends a whole HTTP request and reads its answer, which must be a 200.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        if self.stream.is_none() {
            self.connect().await?;
        }
        let Some(mut stream) = self.stream.take() else { return Err(invalid("no connection")) };
        let since = Instant::now();
        stream.write_all(request).await?;
        let (head, mut seen) = self.head(&mut stream, since).await?;
        let mut body = head.body;
        while !body.is_done() {
            let read = stream.read(&mut self.buffer).await?;
            if read == 0 && !body.may_close() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if read == 0 {
                break;
            }
            body.take(&self.buffer[..read], &mut |piece| seen.take(piece))?;
        }
        if head.status != 200 {
            let text = String::from_utf8_lossy(&seen.tail).into_owned();
            return Err(invalid(&format!("status {}: {text}", head.status)));
        }
        if head.keeps {
            self.stream = Some(stream);
        }
        Ok(seen.answer())
    }

    async fn head(&mut self, stream: &mut TcpStream, since: Instant) -> io::Result<(Head, Seen)> {
        let mut bytes = Vec::new();
        loop {
            let read = stream.read(&mut self.buffer).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(&self.buffer[..read]);
            let Some((mut head, length)) = Head::parse(&bytes)? else { continue };
            let mut seen = Seen::new(since);
            head.body.take(&bytes[length..], &mut |piece| seen.take(piece))?;
            return Ok((head, seen));
        }
    }
}

struct Head {
    status: u16,
    keeps: bool,
    body: Body,
}

impl Head {
    /// The head of an answer and its length, once it is there.
    fn parse(bytes: &[u8]) -> io::Result<Option<(Self, usize)>> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(bytes).map_err(|error| invalid(&error.to_string()))?;
        let httparse::Status::Complete(length) = parsed else { return Ok(None) };
        let (mut keeps, mut body) = (true, Body::Close);
        for header in response.headers.iter() {
            let value = std::str::from_utf8(header.value).unwrap_or_default();
            if header.name.eq_ignore_ascii_case("content-length") {
                body = Body::Length(value.parse().map_err(|_| invalid("content-length"))?);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                body = Body::Chunks(Chunks::default());
            } else if header.name.eq_ignore_ascii_case("connection") {
                keeps = !value.eq_ignore_ascii_case("close");
            }
        }
        keeps &= !matches!(body, Body::Close);
        Ok(Some((Self { status: response.code.unwrap_or(0), keeps, body }, length)))
    }
}

enum Body {
    Length(usize),
    Chunks(Chunks),
    Close,
}

impl Body {
    fn take(&mut self, bytes: &[u8], seen: &mut impl FnMut(&[u8])) -> io::Result<()> {
        match self {
            Self::Length(left) => {
                let here = bytes.len().min(*left);
                *left -= here;
                seen(&bytes[..here]);
                Ok(())
            }
            Self::Chunks(chunks) => chunks.take(bytes, seen),
            Self::Close => {
                seen(bytes);
                Ok(())
            }
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunks(chunks) => chunks.done,
            Self::Close => false,
        }
    }

    fn may_close(&self) -> bool {
        matches!(self, Self::Close)
    }
}

/// A reader of the chunked coding.
#[derive(Default)]
struct Chunks {
    /// Bytes of the chunk's data that are still to come.
    left: usize,
    /// Its size line, as far as it has come.
    line: Vec<u8>,
    /// The line break behind a chunk's data is to come.
    closing: bool,
    /// The last chunk has come; its trailers are read.
    last: bool,
    done: bool,
}

impl Chunks {
    fn take(&mut self, mut bytes: &[u8], seen: &mut impl FnMut(&[u8])) -> io::Result<()> {
        while !bytes.is_empty() && !self.done {
            if self.left > 0 {
                let here = bytes.len().min(self.left);
                seen(&bytes[..here]);
                self.left -= here;
                self.closing = self.left == 0;
                bytes = &bytes[here..];
                continue;
            }
            let Some(end) = memchr::memchr(b'\n', bytes) else {
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            self.line()?;
        }
        Ok(())
    }

    fn line(&mut self) -> io::Result<()> {
        let line = self.line.trim_ascii();
        match (self.last, self.closing, line.is_empty()) {
            (true, _, empty) => self.done = empty,
            (false, true, true) => self.closing = false,
            (false, false, false) => {
                let digits = line.split(|byte| *byte == b';').next().unwrap_or(line);
                let text = std::str::from_utf8(digits).unwrap_or_default().trim();
                self.left = usize::from_str_radix(text, 16).map_err(|_| invalid("chunk size"))?;
                self.last = self.left == 0;
            }
            (false, ..) => return Err(invalid("chunk")),
        }
        self.line.clear();
        Ok(())
    }
}

/// What is kept of a body while it comes.
struct Seen {
    since: Instant,
    first: Option<Duration>,
    bytes: usize,
    forwarded: Option<Duration>,
    tail: Vec<u8>,
}

impl Seen {
    fn new(since: Instant) -> Self {
        Self { since, first: None, bytes: 0, forwarded: None, tail: Vec::new() }
    }

    fn take(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        if self.first.is_none() {
            self.first = Some(self.since.elapsed());
        }
        if self.forwarded.is_none() && self.bytes < 1024 {
            self.forwarded = stamp(piece).map(|written| now().saturating_sub(written));
        }
        self.bytes += piece.len();
        let kept = piece.len().min(TAIL);
        self.tail.extend_from_slice(&piece[piece.len() - kept..]);
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }

    fn answer(self) -> Answer {
        let whole = self.since.elapsed();
        let first = self.first.unwrap_or(whole);
        Answer { bytes: self.bytes, first, whole, forwarded: self.forwarded, tail: self.tail }
    }
}

/// The machine's clock, which the mock reads too.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// When the mock wrote this piece, where it says so.
fn stamp(piece: &[u8]) -> Option<Duration> {
    let at = memmem::find(piece, STAMP.as_bytes())? + STAMP.len();
    let digits = piece.get(at..)?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    let nanos: u64 = std::str::from_utf8(&digits[..end]).ok()?.parse().ok()?;
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_read_wherever_they_are_cut() {
        let coded = b"5\r\nhello\r\n1a;x=y\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nt: v\r\n\r\n";
        for cut in 0..=coded.len() {
            let (mut chunks, mut body) = (Chunks::default(), Vec::new());
            for part in [&coded[..cut], &coded[cut..]] {
                chunks.take(part, &mut |piece| body.extend_from_slice(piece)).expect("chunks");
            }
            assert_eq!(body, b"helloabcdefghijklmnopqrstuvwxyz", "cut at {cut}");
            assert!(chunks.done);
        }
        assert!(Chunks::default().take(b"zz\r\n", &mut |_| {}).is_err());
    }

    #[test]
    fn a_cut_answer_is_not_done() {
        let mut chunks = Chunks::default();
        chunks.take(b"5\r\nhel", &mut |_| {}).expect("chunks");
        assert!(!chunks.done);
        let (head, length) = Head::parse(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab")
            .expect("a head")
            .expect("whole");
        let mut body = head.body;
        body.take(&b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab"[length..], &mut |_| {})
            .expect("a body");
        assert!(!body.is_done() && head.keeps);
    }

    #[test]
    fn a_stamp_is_found() {
        assert_eq!(stamp(b"\"id\":\"msg_bench_1700\","), Some(Duration::from_nanos(1700)));
        assert_eq!(stamp(b"\"id\":\"msg_bench_0\","), None);
        assert_eq!(stamp(b"\"id\":\"msg_1\","), None);
    }
}
