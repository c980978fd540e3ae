//! Opens files, and recognizes compressed ones by their first bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The reason listed for the rest of a file after the caller gave up.
pub(crate) const GIVEN_UP: &str = "not read from here on: reading was given up";

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// A reader that counts the bytes read from disk.
struct CountingReader<'c> {
    inner: File,
    count: &'c AtomicU64,
    tell: &'c (dyn Fn() -> bool + Sync),
}

impl Read for CountingReader<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if !(self.tell)() {
            return Err(io::Error::other(GIVEN_UP));
        }
        let read = self.inner.read(room)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Opens a file; also returns true if it is compressed.
pub(crate) fn open_file<'c>(
    path: &Path,
    count: &'c AtomicU64,
    tell: &'c (dyn Fn() -> bool + Sync),
) -> io::Result<(Box<dyn Read + 'c>, bool)> {
    let counted = CountingReader { inner: File::open(path)?, count, tell };
    let mut reader = BufReader::with_capacity(128 << 10, counted);
    let head = reader.fill_buf()?;
    if head.starts_with(GZIP) {
        return Ok((Box::new(flate2::bufread::MultiGzDecoder::new(reader)), true));
    }
    if head.starts_with(ZSTD) {
        return Ok((Box::new(zstd::stream::read::Decoder::with_buffer(reader)?), true));
    }
    Ok((Box::new(reader), false))
}
