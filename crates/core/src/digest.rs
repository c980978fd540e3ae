//! A fast digest for telling texts apart. It is not cryptographic: a client that chooses both texts
//! can make their digests equal, and would only hide a loop of its own.

use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The digest of a text, in 128 bits. Written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u64, u64);

const SEEDS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03, 0x8cb9_2ba7_2f3d_8dd7, 0xeb44_acca_b455_d165];

impl Digest {
    /// The digest of no text, where a chain begins.
    pub const EMPTY: Self = Self(SEEDS[0], SEEDS[1]);

    /// Returns the digest of these bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut a = SEEDS[0] ^ bytes.len() as u64;
        let mut b = SEEDS[1];
        let (words, tail) = bytes.as_chunks::<16>();
        for word in words {
            let (x, y) = split_halves(*word);
            a = fold_product(a ^ x, SEEDS[2] ^ y);
            b = fold_product(b ^ y, SEEDS[3] ^ x.rotate_left(32));
        }
        let (x, y) = padded_halves(tail);
        Self(fold_product(a ^ x, SEEDS[2] ^ y), fold_product(b ^ y, SEEDS[3] ^ x.rotate_left(32)))
    }

    /// Returns the digest of this digest and then another. Order matters.
    #[must_use]
    pub fn followed_by(self, next: Self) -> Self {
        Self(
            fold_product(self.0 ^ next.0, SEEDS[1] ^ next.1),
            fold_product(self.1 ^ next.1, SEEDS[2] ^ next.0.rotate_left(32)),
        )
    }

    /// Returns the digest of both digests, in any order.
    #[must_use]
    pub fn combined_with(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0), self.1.wrapping_add(other.1))
    }
}

/// Returns the halves of fewer than 16 bytes with zeros behind them. Most texts are keys, names
/// and numbers, for which copying the bytes costs more than the digest.
fn padded_halves(bytes: &[u8]) -> (u64, u64) {
    let (first, last) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>());
    if let (Some(first), Some(last)) = (first, last) {
        // The last bytes repeat some of the first; those are shifted out.
        let again = 8 * (16 - bytes.len() as u32);
        let last = u64::from_le_bytes(*last).checked_shr(again).unwrap_or(0);
        return (u64::from_le_bytes(*first), last);
    }
    let (first, last) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>());
    if let (Some(first), Some(last)) = (first, last) {
        let [first, last] = [first, last].map(|half| u64::from(u32::from_le_bytes(*half)));
        return (first | last << (8 * (bytes.len() - 4)), 0);
    }
    (bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0)
}

fn split_halves(word: [u8; 16]) -> (u64, u64) {
    let whole = u128::from_le_bytes(word);
    (whole as u64, (whole >> 64) as u64)
}

fn fold_product(x: u64, y: u64) -> u64 {
    let product = u128::from(x) * u128::from(y);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Default for Digest {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0, self.1)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = alloc::string::String::deserialize(from)?;
        let half = |part: Option<&str>| u64::from_str_radix(part?, 16).ok();
        match (half(text.get(..16)), half(text.get(16..))) {
            (Some(a), Some(b)) if text.len() == 32 => Ok(Self(a, b)),
            _ => Err(serde::de::Error::custom("a digest is 32 hexadecimal digits")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    #[test]
    fn every_byte_and_the_length_count() {
        let mut seen = BTreeSet::new();
        for len in 0..70 {
            let mut bytes: Vec<u8> = (0..len).collect();
            assert!(seen.insert(Digest::from_bytes(&bytes)), "length {len}");
            for at in 0..bytes.len() {
                bytes[at] ^= 0x80;
                assert!(seen.insert(Digest::from_bytes(&bytes)), "byte {at} of {len}");
                bytes[at] ^= 0x80;
            }
        }
        assert_ne!(Digest::from_bytes(b""), Digest::from_bytes(b"\0"));
    }

    #[test]
    fn the_last_bytes_are_filled_with_zeros() {
        let bytes: Vec<u8> = (1..16).map(|n| n * 17).collect();
        for len in 0..16 {
            let mut whole = [0; 16];
            whole[..len].copy_from_slice(&bytes[..len]);
            assert_eq!(padded_halves(&bytes[..len]), split_halves(whole), "{len} bytes");
        }
    }

    #[test]
    fn then_is_ordered_and_with_is_not() {
        let (a, b) = (Digest::from_bytes(b"a"), Digest::from_bytes(b"b"));
        assert_ne!(a.followed_by(b), b.followed_by(a));
        assert_eq!(a.combined_with(b), b.combined_with(a));
        assert_ne!(a.combined_with(b), a);
    }
}
