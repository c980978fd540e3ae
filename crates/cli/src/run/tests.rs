use super::*;
use softland_agent::UsageTotal;
use softland_agent::core::{Ended, Reason};

fn event(seq: u64, kind: EventKind) -> Event {
    Event { v: 1, seq, ts: String::new(), run: "run-1".to_owned(), turn: 1, kind }
}

fn stream() -> Vec<Event> {
    [
        EventKind::TurnStart { turns_limit: None },
        EventKind::ThinkingStart,
        EventKind::ThinkingDelta { text: "hm".to_owned() },
        EventKind::BlockStop { index: 0 },
        EventKind::TextStart,
        EventKind::TextDelta { text: "yes".to_owned() },
        EventKind::BlockStop { index: 1 },
    ]
    .into_iter()
    .enumerate()
    .map(|(seq, kind)| event(seq as u64, kind))
    .collect()
}

#[test]
fn hidden_thinking_leaves_no_gap() {
    let mut lines = Lines::new(false);
    let shown: Vec<Event> = stream().iter().filter_map(|event| lines.next(event)).collect();
    let names: Vec<String> = shown
        .iter()
        .map(|event| serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["turn_start", "text_start", "text_delta", "block_stop"]);
    assert_eq!(shown.iter().map(|event| event.seq).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn shown_thinking_is_all_there() {
    let mut lines = Lines::new(true);
    assert_eq!(stream().iter().filter_map(|event| lines.next(event)).count(), 7);
}

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
            ended: Ended::plain(outcome, Reason::Final),
            answer: None,
            answered_by,
            turns: 1,
            tool_calls: 0,
            usage: UsageTotal::default(),
            cost_usd: None,
            failure: None,
        };
        assert_eq!(exit_status(&report, Lost::Nothing), wanted, "{outcome:?}");
        let failed = outcome == Outcome::Failed;
        assert_eq!(exit_status(&report, Lost::Failed), if failed { 4 } else { 2 }, "{outcome:?}");
        assert_eq!(exit_status(&report, Lost::Closed), if failed { 4 } else { 130 }, "{outcome:?}");
    }
}
