//! Loops, and useful work that resembles them.

use serde_json::Value;
use softland_agent::ToolOutput;
use softland_agent::core::policy::{OnLoop, Policy};
use softland_sim::Turn;

use crate::behaviours::support::{Answer, Case, grep, play};
use crate::common::{interventions, signals};

/// The nth turn of the work.
type Nth = fn(u64) -> Turn;

fn read(path: &str, n: u64) -> Turn {
    Turn::from_call("read_file", format!(r#"{{"path":"{path}","offset":{n}}}"#))
}

#[tokio::test]
async fn b36_the_same_calls_with_the_same_results_are_noted_and_then_landed() {
    let mut case = Case::new(Policy::default(), (0..9).map(|_| grep(0)).collect());
    case.answer = |_, _| ToolOutput::ok("nothing found");
    let ran = case.run().await;
    let note = "The same call has returned the same result 3 times. Try something else, or answer \
                with what you have.";
    assert_eq!(ran.lines(2), ["nothing found"]);
    assert_eq!(ran.lines(3), [note]);
    assert!(
        ran.lines(4)[0].contains("4 times. Answer now with what you have"),
        "{:?}",
        ran.lines(4)
    );
    assert_eq!(interventions(&ran.events)[..2], ["note", "ask"]);
    assert_eq!(ran.executed, 4);
    assert_eq!(ran.report.ended.reason.to_string(), "repeat");
    // Key order and presentation are no difference.
    let shapes = [r#"{"a":1,"b":2}"#, r#"{"b":2, "a":1}"#, r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#];
    let turns = shapes.iter().map(|input| Turn::from_call("grep", *input)).collect();
    let mut case = Case::new(Policy { on_loop: OnLoop::Observe, ..Policy::default() }, turns);
    case.answer = |_, _| ToolOutput::ok("nothing found");
    assert_eq!(signals(&case.run().await.events), ["repeat"; 2]);
}

#[tokio::test]
async fn b36_work_that_moves_is_left_alone_over_any_number_of_turns() {
    let same: Answer = |_, _| ToolOutput::ok("ok");
    let moving: Answer = |n, _| ToolOutput::ok(format!("{n} % done"));
    let work: [(&str, Answer, Nth); 4] = [
        ("other arguments", same, |n| grep(n)),
        ("other ranges of one file", same, |n| read("a.md", n * 100)),
        ("one question whose answer changes", moving, |_| grep(0)),
        ("one batch whose answers change", moving, |_| crate::behaviours::support::batch(0..3)),
    ];
    for (what, answer, turn) in work {
        let mut case = Case::new(
            Policy::default(),
            (0..60).map(turn).chain([Turn::from_text("So.")]).collect(),
        );
        case.answer = answer;
        let ran = case.run().await;
        assert_eq!(ran.answer(), "So.", "{what}");
        assert_eq!(interventions(&ran.events), Vec::<&str>::new(), "{what}");
    }
}

#[tokio::test]
async fn b37_the_same_text_with_other_results_goes_on_and_abab_with_the_same_stops() {
    let says = |n: u64| {
        let mut turn = grep(n % 2);
        turn.parts.insert(0, softland_sim::Part::text("Let me check again."));
        turn
    };
    let changing =
        play(Policy::default(), (0..30).map(says).chain([Turn::from_text("So.")]).collect()).await;
    assert_eq!((changing.answer(), interventions(&changing.events).len()), ("So.", 0));
    // A, B, A, B with the same results: noted, then landed.
    let policy = Policy { repeat_limit: 0, ..Policy::default() };
    let mut case = Case::new(policy, (0..30).map(says).collect());
    case.answer = |_, input: &Value| ToolOutput::ok(format!("always {}", input["pattern"]));
    let ran = case.run().await;
    assert_eq!(ran.report.ended.reason.to_string(), "cycle");
    assert_eq!(interventions(&ran.events)[..2], ["note", "ask"]);
    assert_eq!(ran.executed, 7, "noted after the third A, B and landed at the next turn");
    assert!(ran.report.ended.outcome.is_done());
}
