//! Reads the lines of a file from its end.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

const CHUNK: u64 = 256 << 10;
/// The longest line, in bytes.
const LONGEST: usize = 64 << 20;

pub(super) struct BackwardLines {
    file: File,
    /// The end of the part that was not read yet.
    end: u64,
    /// The position where the rows begin.
    from: u64,
    /// Bytes that were read and not returned yet. They end with a line.
    rest: Vec<u8>,
    /// The number of the next line.
    number: u64,
}

impl BackwardLines {
    /// Opens the part of a file behind `from`, the end of the header.
    pub(super) fn new(path: &Path, from: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut chunk = vec![0; CHUNK as usize];
        let (mut lines, mut end, mut last) = (0, 0, b'\n');
        loop {
            let read = file.read(&mut chunk)?;
            let bytes = chunk.get(..read).unwrap_or_default();
            lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
            last = bytes.last().copied().unwrap_or(last);
            end += read as u64;
            if read == 0 {
                break;
            }
        }
        let number = lines + u64::from(last != b'\n');
        let mut this = Self { file, end, from, rest: Vec::new(), number };
        this.read_chunk()?;
        if this.rest.last() == Some(&b'\n') {
            this.rest.pop();
        }
        Ok(this)
    }

    /// Puts the bytes before the buffer in front of it; returns false if there are none.
    fn read_chunk(&mut self) -> io::Result<bool> {
        let start = self.end.saturating_sub(CHUNK).max(self.from);
        let length = self.end.saturating_sub(start);
        if length == 0 {
            return Ok(false);
        }
        if self.rest.len() > LONGEST {
            return Err(io::Error::other("a line is longer than 64 MiB"));
        }
        self.file.seek(SeekFrom::Start(start))?;
        let mut bytes = vec![0; length as usize];
        self.file.read_exact(&mut bytes)?;
        bytes.append(&mut self.rest);
        (self.rest, self.end) = (bytes, start);
        Ok(true)
    }

    /// Returns the line before, with its number.
    pub(super) fn next_line(&mut self) -> io::Result<Option<(u64, String)>> {
        loop {
            if let Some(at) = memchr::memrchr(b'\n', &self.rest) {
                let line = self.rest.split_off(at + 1);
                self.rest.pop();
                return Ok(Some(self.number_line(&line)));
            }
            if !self.read_chunk()? {
                let line = std::mem::take(&mut self.rest);
                return Ok((!line.is_empty()).then(|| self.number_line(&line)));
            }
        }
    }

    fn number_line(&mut self, bytes: &[u8]) -> (u64, String) {
        let number = self.number;
        self.number = self.number.saturating_sub(1);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        (number, String::from_utf8_lossy(bytes).into_owned())
    }
}
