//! Ids and seals of OpenAI's protocols. An id names its response and the reasoning that belongs to
//! it. A seal proves that reasoning comes back unchanged. Seals are digests, not cryptography.

use crate::digest::Digest;

/// Seals and verifies reasoning for one simulator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealer {
    pub(crate) seed: u64,
}

/// The result of verifying a seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SealStatus {
    /// Issued by this simulator over this text.
    Good,
    /// Issued by this simulator, but changed, or issued over another text.
    Changed,
    /// Not issued by this simulator.
    Foreign,
}

impl Sealer {
    /// Seals the reasoning with index `at` of response `number`.
    pub(crate) fn make_token(&self, number: u64, at: usize, text: &str) -> String {
        format!("simr.{number:x}.{at:x}.{:016x}", self.token_digest(number, at, text))
    }

    pub(crate) fn verify_token(&self, token: &str, text: &str) -> SealStatus {
        let Some(rest) = token.strip_prefix("simr.") else { return SealStatus::Foreign };
        let mut parts = rest.split('.').map(|p| u64::from_str_radix(p, 16).ok());
        let mut next = || parts.next().flatten();
        match (next(), next().and_then(|at| usize::try_from(at).ok()), next()) {
            (Some(number), Some(at), Some(digest))
                if digest == self.token_digest(number, at, text) =>
            {
                SealStatus::Good
            }
            _ => SealStatus::Changed,
        }
    }

    fn token_digest(&self, number: u64, at: usize, text: &str) -> u64 {
        let mut digest = Digest::new(self.seed);
        digest.add_word(number);
        digest.add_word(at as u64);
        digest.add_field(text);
        digest.finish_short()
    }
}

/// An id of this simulator: `PREFIX_simNUMBERrREASONINGiINDEX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IssuedId {
    pub(crate) number: u64,
    /// The index of the reasoning that it needs.
    pub(crate) reasoning: Option<usize>,
    pub(crate) index: usize,
}

impl IssuedId {
    pub(crate) fn id_with(&self, prefix: &str) -> String {
        let reasoning = self.reasoning.map_or_else(|| "x".to_owned(), |r| r.to_string());
        format!("{prefix}_sim{:08x}r{reasoning}i{}", self.number, self.index)
    }

    /// Parses an id, or returns `None` for a foreign id.
    pub(crate) fn from_id(id: &str) -> Option<Self> {
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
            let issued = IssuedId { number: 0xabc, reasoning, index: 3 };
            assert_eq!(IssuedId::from_id(&issued.id_with("call")), Some(issued));
        }
        for id in ["", "call_1", "call_simr0i0", "call_sim1rxi", "call_sim1", "fc_simzrxi0"] {
            assert_eq!(IssuedId::from_id(id), None, "{id}");
        }
    }

    #[test]
    fn seals_hold_for_their_text_only() {
        let seal = Sealer { seed: 7 };
        let token = seal.make_token(3, 1, "thought");
        assert_eq!(seal.verify_token(&token, "thought"), SealStatus::Good);
        assert_eq!(seal.verify_token(&token, "thoughts"), SealStatus::Changed);
        assert_eq!(
            seal.verify_token(&token.replace("simr.3", "simr.4"), "thought"),
            SealStatus::Changed
        );
        assert_eq!(seal.verify_token("simr.", ""), SealStatus::Changed);
        assert_eq!(seal.verify_token("gAAAA", ""), SealStatus::Foreign);
        assert_eq!(Sealer { seed: 8 }.verify_token(&token, "thought"), SealStatus::Changed);
    }
}
