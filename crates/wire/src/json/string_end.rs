//! The search for the end of a JSON string. Escapes are checked on the way.
//!
//! There are two methods, by length. Keys and other short strings end within their first words. In
//! longer strings (source text, JSON within JSON) escapes come every few bytes, and a search that
//! stops at each of them pays for a mispredicted branch each time. So a block is examined as a
//! whole first, and its escapes are then taken from a bit mask. If a block has none, the vectorised
//! search takes over.

use memchr::memchr2;

use super::{Error, JsonErrorKind};

/// Bytes examined at once: one bit each.
const BLOCK: usize = 64;
/// Bytes at the start of a string that are examined word by word.
const SHORT: usize = 16;

/// Bytes that follow the backslash in an escape of two bytes.
const SIMPLE: &[u8; 8] = b"\"\\/bfnrt";

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

/// Returns the offset of the closing quote of the string whose first byte is at `from`, and the
/// number of escapes before it.
#[inline]
pub(super) fn find_string_end(bytes: &[u8], from: usize) -> Result<(usize, usize), Error> {
    let mut at = from;
    while at < from + SHORT {
        let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) else { break };
        let word = u64::from_le_bytes(*word);
        let hits = mark_equal_bytes(word, b'"') | mark_equal_bytes(word, b'\\');
        if hits != 0 {
            at += hits.trailing_zeros() as usize / 8;
            if bytes.get(at) == Some(&b'"') {
                return Ok((at, 0));
            }
            break;
        }
        at += 8;
    }
    find_long_end(bytes, at)
}

fn find_long_end(bytes: &[u8], mut at: usize) -> Result<(usize, usize), Error> {
    let mut escapes = 0;
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        let mut marks = mark_delimiters(block);
        if marks == 0 {
            let rest = bytes.get(at + BLOCK..).unwrap_or_default();
            at += BLOCK + memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
            continue;
        }
        let mut next = at + BLOCK;
        while marks != 0 {
            let hit = at + marks.trailing_zeros() as usize;
            if bytes.get(hit) == Some(&b'"') {
                return Ok((hit, escapes));
            }
            escapes += 1;
            let end = find_escape_end(bytes, hit)?;
            // The bytes of the escape itself do not count as marks.
            marks &= u64::MAX.checked_shl((end - at) as u32).unwrap_or(0);
            next = next.max(end);
        }
        at = next;
    }
    find_short_end(bytes, at, escapes)
}

/// Finds the end of a string in the last bytes of the text.
fn find_short_end(
    bytes: &[u8],
    mut at: usize,
    mut escapes: usize,
) -> Result<(usize, usize), Error> {
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok((at, escapes)),
            Some(b'\\') => {
                escapes += 1;
                at = find_escape_end(bytes, at)?;
            }
            Some(_) => at += 1,
            None => return Err(Error { kind: JsonErrorKind::UnclosedString, at: bytes.len() }),
        }
    }
}

#[inline]
fn find_escape_end(bytes: &[u8], backslash: usize) -> Result<usize, Error> {
    // A table, because the jumps of a compiled match are mispredicted.
    static SHORT: [bool; 256] = {
        let mut short = [false; 256];
        let mut n = 0;
        while n < SIMPLE.len() {
            short[SIMPLE[n] as usize] = true;
            n += 1;
        }
        short
    };
    match bytes.get(backslash + 1) {
        Some(&byte) if SHORT.get(usize::from(byte)) == Some(&true) => Ok(backslash + 2),
        _ => find_unicode_end(bytes, backslash),
    }
}

#[cold]
#[inline(never)]
fn find_unicode_end(bytes: &[u8], backslash: usize) -> Result<usize, Error> {
    let hex = bytes.get(backslash + 2..backslash + 6);
    match bytes.get(backslash + 1) {
        Some(b'u') if hex.is_some_and(|h| h.iter().all(u8::is_ascii_hexdigit)) => Ok(backslash + 6),
        _ => Err(Error { kind: JsonErrorKind::Escape, at: backslash }),
    }
}

/// Returns a bit for each byte of a block that is `"` or `\`.
#[inline]
fn mark_delimiters(block: &[u8; BLOCK]) -> u64 {
    // Compiles to vector comparisons.
    let marked = block.map(|byte| u8::from((byte == b'"') | (byte == b'\\')));
    let (words, _) = marked.as_chunks::<8>();
    words.iter().zip((0..).step_by(8)).fold(0, |marks, (word, shift)| {
        // Gathers the lowest bits of eight bytes in the highest byte.
        let bits = u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        marks | bits << shift
    })
}

/// Returns a word whose lowest set bit marks the first byte of `word` that equals `byte`.
#[inline]
pub(super) const fn mark_equal_bytes(word: u64, byte: u8) -> u64 {
    let differs = word ^ (ONES * byte as u64);
    differs.wrapping_sub(ONES) & !differs & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seeded generator, so that the texts are the same everywhere.
    fn seeded(seed: &mut u64, below: usize) -> usize {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*seed >> 33) as usize % below
    }

    #[test]
    fn a_block_has_a_bit_for_each_quote_and_backslash() {
        let mut seed = 1;
        for _ in 0..2000 {
            let mut block = [0_u8; BLOCK];
            for byte in &mut block {
                *byte = match seeded(&mut seed, 4) {
                    0 => b'"',
                    1 => b'\\',
                    // Neighbours of both, with and without the highest bit, and arbitrary bytes.
                    2 => [b'!', b'#', b'[', b']', 0xa2, 0xdc, 0, 0xff][seeded(&mut seed, 8)],
                    _ => seeded(&mut seed, 256) as u8,
                };
            }
            let plain = block
                .iter()
                .rev()
                .fold(0, |marks: u64, byte| marks << 1 | u64::from(matches!(byte, b'"' | b'\\')));
            assert_eq!(mark_delimiters(&block), plain, "{block:?}");
        }
    }

    #[test]
    fn however_long_a_string_is_it_ends_where_it_ends_byte_by_byte() {
        let mut seed = 2;
        for round in 0..6000 {
            let mut text = Vec::new();
            let dense = [2, 8, 40, 200][round % 4];
            for _ in 0..seeded(&mut seed, 400) {
                let escapes: [&[u8]; 8] =
                    [b"\\n", b"\\\"", b"\\\\", b"\\u00e9", b"\\/", b"\\x", b"\\u12", b"\\"];
                match seeded(&mut seed, dense) {
                    // The last three escapes are invalid, and rare.
                    0 if seeded(&mut seed, 60) == 0 => {
                        text.extend_from_slice(escapes[5 + seeded(&mut seed, 3)]);
                    }
                    0 => text.extend_from_slice(escapes[seeded(&mut seed, 5)]),
                    _ => text.push(b'a' + (seeded(&mut seed, 26) as u8)),
                }
            }
            if !round.is_multiple_of(7) {
                text.extend_from_slice(b"\" and what follows it: \"x\\n\"");
            }
            assert_eq!(
                find_string_end(&text, 0),
                find_short_end(&text, 0, 0),
                "{}",
                text.escape_ascii()
            );
        }
    }
}
