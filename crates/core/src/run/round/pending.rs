//! The match of results to the calls of a round. Histories hold rounds of any size, with results in
//! any order and ids that stand for several calls.

use alloc::vec::Vec;

use crate::digest::Digest;

/// The calls of a round that have no result yet.
#[derive(Clone, Debug)]
pub(super) struct PendingResults {
    /// Sorted by id, then by call.
    calls: Vec<PendingResult>,
    left: usize,
}

#[derive(Clone, Copy, Debug)]
struct PendingResult {
    id: Digest,
    /// The index of the call in the round.
    call: usize,
    /// In the first entry of an id: the number of results that came for that id.
    came: usize,
}

impl PendingResults {
    /// Creates the set from the ids of the calls.
    pub(super) fn new<'a>(ids: impl Iterator<Item = &'a str>) -> Self {
        let expected = |(call, id): (usize, &str)| PendingResult {
            id: Digest::from_bytes(id.as_bytes()),
            call,
            came: 0,
        };
        let mut calls: Vec<_> = ids.enumerate().map(expected).collect();
        calls.sort_unstable_by_key(|expected| (expected.id, expected.call));
        Self { left: calls.len(), calls }
    }

    /// Takes the first call of this id that has no result yet, and returns its index.
    pub(super) fn take_call(&mut self, id: &str) -> Option<usize> {
        let id = Digest::from_bytes(id.as_bytes());
        let first = self.calls.partition_point(|expected| expected.id < id);
        let came = self.calls.get(first).filter(|expected| expected.id == id)?.came;
        let call = self.calls.get(first + came).filter(|expected| expected.id == id)?.call;
        self.calls.get_mut(first)?.came += 1;
        self.left -= 1;
        Some(call)
    }

    /// Returns true if every result has come.
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_round_of_any_size_is_taken_in() {
        // Searching all calls for each result would take minutes.
        let id = |n: usize| (n / 2).to_string();
        let ids: Vec<_> = (0..200_000).map(id).collect();
        let mut waiting = PendingResults::new(ids.iter().map(|id| &**id));
        assert!(ids.iter().rev().all(|id| waiting.take_call(id).is_some()));
        assert!(waiting.is_empty());
    }

    proptest! {
        #[test]
        fn a_result_is_of_the_first_call_with_its_id_that_has_none(
            calls in prop::collection::vec("[abc]{0,2}", 0..12),
            results in prop::collection::vec("[abc]{0,2}", 0..24),
        ) {
            let mut waiting = PendingResults::new(calls.iter().map(|id| &**id));
            let mut plain: Vec<_> = calls.iter().map(Some).collect();
            for id in &results {
                let first = plain.iter().position(|call| *call == Some(id));
                prop_assert_eq!(waiting.take_call(id), first);
                if let Some(first) = first {
                    plain[first] = None;
                }
                prop_assert_eq!(waiting.is_empty(), plain.iter().all(Option::is_none));
            }
        }
    }
}
