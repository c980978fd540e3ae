use alloc::string::ToString as _;

use proptest::prelude::*;

use super::*;
use crate::pinned::PinnedRecord;
use crate::policy::{Mode, Policy};
use crate::run::{AnswerTools, Role};

const NAMES: [&str; 4] = ["a", "b", "c", "respond"];

fn run(limit: Option<u64>, batch: Batch, own: Option<u64>, observes: bool) -> Run {
    let mut policy = Policy {
        tool_calls_limit: limit,
        batch,
        mode: if observes { Mode::Observe } else { Mode::Enforce },
        ..Policy::default()
    };
    policy.tool_limits.extend(own.map(|own| ("a".to_string(), own)));
    let mut run = Run::begin_unplaced(PinnedRecord::new(policy), Role::Gateway, None);
    run.set_answer_tools(AnswerTools::from_shown(alloc::vec!["respond".to_string()]));
    run
}

proptest! {
    /// The relay decides on a call that streams as it would on the whole turn, as far as the turn
    /// has come.
    #[test]
    fn calls_are_admitted_one_by_one_as_together(
        limit in prop::option::of(1u64..6),
        batch in prop::sample::select(alloc::vec![Batch::First, Batch::All, Batch::None]),
        own in prop::option::of(0u64..4),
        observes in any::<bool>(),
        names in prop::collection::vec((0..NAMES.len(), any::<bool>()), 0..12),
    ) {
        let run = run(limit, batch, own, observes);
        let calls: Vec<_> = names
            .iter()
            .map(|(name, server)| Call { id: "", name: NAMES[*name], input: "{}", server: *server })
            .collect();
        let mut before = AdmittedCalls::default();
        for end in 1..=calls.len() {
            let together = run.admit_calls(&calls[..end]);
            let next = run.admit_next(&calls[end - 1], &mut before);
            prop_assert_eq!(together.last(), Some(&next));
        }
    }
}
