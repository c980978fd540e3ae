//! Ids and seals of OpenAI's protocols. An id names its response and the reasoning that belongs to
//! it. A seal proves that reasoning comes back unchanged. Seals are digests, not cryptography.

use crate::digest::Digest;

/// Seals and verifies reasoning for one simulator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seal {
    pub(crate) seed: u64,
}

/// The result of verifying a seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Issued by this simulator over this text.
    Good,
    /// Issued by this simulator, but changed, or issued over another text.
    Changed,
    /// Not issued by this simulator.
    Foreign,
}

impl Seal {
    /// Seals the reasoning with index `at` of response `number`.
    pub(crate) fn token(&self, number: u64, at: usize, text: &str) -> String {
        format!("simr.{number:x}.{at:x}.{:016x}", self.digest(number, at, text))
    }

    pub(crate) fn verify(&self, token: &str, text: &str) -> Found {
        let Some(rest) = token.strip_prefix("simr.") else { return Found::Foreign };
        let mut parts = rest.split('.').map(|p| u64::from_str_radix(p, 16).ok());
        let mut next = || parts.next().flatten();
        match (next(), next().and_then(|at| usize::try_from(at).ok()), next()) {
            (Some(number), Some(at), Some(digest)) if digest == self.digest(number, at, text) => {
                Found::Good
            }
            _ => Found::Changed,
        }
    }

    fn digest(&self, number: u64, at: usize, text: &str) -> u64 {
        let mut digest = Digest::new(self.seed);
        digest.word(number);
        digest.word(at as u64);
        digest.field(text);
        digest.short()
    }
}

/// An id of this simulator: `PREFIX_simNUMBERrREASONINGiINDEX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Issued {
    pub(crate) number: u64,
    /// The index of the reasoning that it needs.
    pub(crate) reasoning: Option<usize>,
    pub(crate) index: usize,
}

impl Issued {
    pub(crate) fn id(&self, prefix: &str) -> String {
        let reasoning = self.reasoning.map_or_else(|| "x".to_owned(), |r| r.to_string());
        format!("{prefix}_sim{:08x}r{reasoning}i{}", self.number, self.index)
    }

    /// Parses an id, or returns `None` for a foreign id.
    pub(crate) fn read(id: &str) -> Option<Self> {
        let (_, rest) = id.split_once("_sim")?;
        let (number, rest) = rest.split_once('r')?;
        let (reasoning, index) = rest.split_once('i')?;
        Some(Self {
            number: u64::from_str_radix(number, 16).ok()?,
            reasoning: if reasoning == "x" { None } else { Some(reasoning.parse().ok()?) },
            index: index.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_others_are_nobodys() {
        for reasoning in [None, Some(0), Some(12)] {
            let issued = Issued { number: 0xabc, reasoning, index: 3 };
            assert_eq!(Issued::read(&issued.id("call")), Some(issued));
        }
        for id in ["", "call_1", "call_simr0i0", "call_sim1rxi", "call_sim1", "fc_simzrxi0"] {
            assert_eq!(Issued::read(id), None, "{id}");
        }
    }

    #[test]
    fn seals_hold_for_their_text_only() {
        let seal = Seal { seed: 7 };
        let token = seal.token(3, 1, "thought");
        assert_eq!(seal.verify(&token, "thought"), Found::Good);
        assert_eq!(seal.verify(&token, "thoughts"), Found::Changed);
        assert_eq!(seal.verify(&token.replace("simr.3", "simr.4"), "thought"), Found::Changed);
        assert_eq!(seal.verify("simr.", ""), Found::Changed);
        assert_eq!(seal.verify("gAAAA", ""), Found::Foreign);
        assert_eq!(Seal { seed: 8 }.verify(&token, "thought"), Found::Changed);
    }
}
