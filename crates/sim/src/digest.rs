//! A small fixed 128-bit digest for cache keys and simulated signatures. It is the same in all
//! releases and on all machines. It is **not** cryptographic: a simulated signature proves only
//! that a client returned what it received.

/// A running digest. A copy is a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    a: u64,
    b: u64,
}

const K1: u64 = 0x9E37_79B9_7F4A_7C15;
const K2: u64 = 0xC2B2_AE3D_27D4_EB4F;

impl Digest {
    pub(crate) fn new(seed: u64) -> Self {
        let mut digest = Self { a: K1, b: K2 };
        digest.add_word(seed);
        digest
    }

    /// Adds a length-prefixed text, so that adjacent fields never run together.
    pub(crate) fn add_field(&mut self, text: &str) {
        self.add_bytes(text.as_bytes());
    }

    /// Adds length-prefixed bytes.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.add_word(bytes.len() as u64);
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0_u8; 8];
            word.copy_from_slice(chunk);
            self.add_word(u64::from_le_bytes(word));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut word = [0_u8; 8];
            for (to, from) in word.iter_mut().zip(rest) {
                *to = *from;
            }
            self.add_word(u64::from_le_bytes(word));
        }
    }

    pub(crate) fn add_word(&mut self, word: u64) {
        self.a = (self.a ^ word).wrapping_mul(K1).rotate_left(29).wrapping_add(self.b);
        self.b = self.b.wrapping_add(word).wrapping_mul(K2).rotate_left(31) ^ self.a;
    }

    /// Returns the digest of everything added so far.
    pub(crate) fn finish(self) -> u128 {
        (u128::from(mix_bits(self.a)) << 64) | u128::from(mix_bits(self.b.wrapping_add(self.a)))
    }

    /// Returns 64 bits of the digest.
    pub(crate) fn finish_short(self) -> u64 {
        mix_bits(self.a ^ self.b.rotate_left(17))
    }
}

fn mix_bits(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(K1);
    x ^= x >> 29;
    x = x.wrapping_mul(K2);
    x ^ (x >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn fields_do_not_run_together_and_small_changes_show() {
        let of = |fields: &[&str]| {
            let mut digest = Digest::new(1);
            for field in fields {
                digest.add_field(field);
            }
            digest.finish()
        };
        let all: BTreeSet<u128> = [
            of(&["ab", "c"]),
            of(&["a", "bc"]),
            of(&["abc"]),
            of(&["abc", ""]),
            of(&["abcdefgh"]),
            of(&["abcdefgi"]),
            of(&[]),
        ]
        .into();
        assert_eq!(all.len(), 7);
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
    }
}
