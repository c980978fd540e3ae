use super::*;
use softland_agent::UsageTotal;
use softland_agent::core::{Reason, RunEnding};

#[test]
fn every_outcome_has_its_status() {
    for (outcome, answered_by, wanted) in [
        (Outcome::Answered, Some(AnsweredBy::Model), 0),
        (Outcome::Landed, Some(AnsweredBy::Model), 0),
        (Outcome::Stopped, Some(AnsweredBy::Local), 3),
        (Outcome::Failed, None, 4),
        (Outcome::Cancelled, None, 130),
    ] {
        let report = Report {
            ended: RunEnding::without_limit(outcome, Reason::Final),
            answer: None,
            answered_by,
            turns: 1,
            tool_calls: 0,
            usage: UsageTotal::default(),
            cost_usd: None,
            resume: None,
            failure: None,
        };
        assert_eq!(exit_status(&report, OutputLoss::Nothing), wanted, "{outcome:?}");
        let failed = outcome == Outcome::Failed;
        assert_eq!(
            exit_status(&report, OutputLoss::Failed),
            if failed { 4 } else { 2 },
            "{outcome:?}"
        );
        assert_eq!(
            exit_status(&report, OutputLoss::Closed),
            if failed { 4 } else { 130 },
            "{outcome:?}"
        );
    }
}
