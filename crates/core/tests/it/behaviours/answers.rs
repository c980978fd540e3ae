//! Calls by which a client takes its answer: they do not count, unless something comes back for
//! them and the run goes on.

use softland_core::policy::Policy;
use softland_core::{Call, Role, Stop, UserMessage, UserText};

use super::support::{Talk, input, limited, result};

const WRONG: &str = "Output does not match required schema: root: must have required property 'a'";

fn talk(policy: Policy) -> Talk {
    let mut talk = Talk::of(Role::Gateway, policy);
    talk.transcript.set_answer_tools(vec!["submit".to_owned(), "Out".to_owned()], false);
    talk.say("What is it?");
    talk
}

fn answer(talk: &mut Talk, tool: &str, id: &str) {
    talk.model("", vec![Call { id, name: tool, input: "{}", server: false }], Stop::Natural);
}

fn counts(talk: &Talk, tool: &str) -> (u64, u64, bool) {
    let run = talk.transcript.current_run().unwrap();
    let of_tool = run.used().by_tool.get(tool).copied().unwrap_or(0);
    (run.used().calls, of_tool, run.is_answer_tool(tool))
}

#[test]
fn c30_a_call_counts_once_something_comes_back_for_it() {
    for policy in [limited(9), Policy::default()] {
        let mut talk = talk(policy);
        talk.one("shell", input(1), "one");
        answer(&mut talk, "submit", "s1");
        assert_eq!(counts(&talk, "submit"), (1, 0, true), "nothing came back");
        let results = vec![result("s1", "accepted, go on", false)];
        talk.transcript.add_user_message(&UserMessage { results, ..UserMessage::default() }, None);
        assert_eq!(counts(&talk, "submit"), (2, 1, false), "it was work");
        talk.one("submit", input(2), "accepted");
        assert_eq!(counts(&talk, "submit"), (3, 2, false), "and is from now on");
        assert_eq!(counts(&talk, "Out"), (3, 0, true), "which says nothing of another tool");
    }
}

/// A client asks again for an object of the wrong form, but only a few times.
#[test]
fn c30_an_answer_that_is_sent_back_does_not_count() {
    let mut talk = talk(limited(9));
    talk.one("shell", input(1), "one");
    for attempt in 1..=5_u64 {
        talk.one("Out", input(attempt), WRONG);
        let (calls, of_tool, answers) = counts(&talk, "Out");
        let counted = attempt.saturating_sub(3);
        assert_eq!((calls, of_tool), (1 + counted, counted), "attempt {attempt}");
        assert_eq!(answers, attempt < 3, "attempt {attempt}");
    }
    let step = talk.say("What else is there?");
    assert!(!step.starts_run, "the round is open");
}

/// A call that did not work has run, and may be tried again.
#[test]
fn a_failed_answer_counts() {
    let mut talk = talk(limited(9));
    talk.round(&[("submit", input(1), "it does not build", true)]);
    assert_eq!(counts(&talk, "submit"), (1, 1, true));
}

/// A tool that the policy names is never counted, whatever comes back.
#[test]
fn a_tool_that_the_policy_names_is_never_counted() {
    let named = Policy { answer_tool: vec!["a".into(), "submit".into()], ..limited(3) };
    let mut talk = talk(named);
    for n in 0..5 {
        talk.one("submit", input(n), "go on");
    }
    assert_eq!(counts(&talk, "submit"), (0, 0, true));
}

/// The next question may stand beside the result of the answer, or in a message behind it.
#[test]
fn c31_the_next_question_begins_a_run_and_the_answer_stays_one() {
    for beside in [true, false] {
        let mut talk = talk(limited(1));
        answer(&mut talk, "submit", "s1");
        let texts = vec![UserText::new("And what is next?")];
        let mut user =
            UserMessage { results: vec![result("s1", "done", false)], ..UserMessage::default() };
        if beside {
            user.texts.clone_from(&texts);
        } else {
            user.spoken_after = true;
        }
        let mut step = talk.transcript.add_user_message(&user, None);
        if !beside {
            assert!(!step.starts_run && step.additions.is_empty(), "{:?}", step.additions);
            assert_eq!(counts(&talk, "submit"), (0, 0, true));
            step = talk
                .transcript
                .add_user_message(&UserMessage { texts, ..UserMessage::default() }, None);
        }
        assert!(step.starts_run && step.additions.is_empty(), "{:?}", step.additions);
        assert_eq!(talk.transcript.run_count(), 2);
    }
    // A reminder of the client's is no question, and a call that failed has to be made again.
    for (text, failed) in
        [("<system-reminder>Be brief.</system-reminder>", false), ("Do it again.", true)]
    {
        let mut talk = talk(limited(9));
        answer(&mut talk, "submit", "s1");
        let results = vec![result("s1", "done", failed)];
        let user =
            UserMessage { results, texts: vec![UserText::new(text)], ..UserMessage::default() };
        assert!(!talk.transcript.add_user_message(&user, None).starts_run, "{text}");
        assert_eq!(counts(&talk, "submit").0, 1, "{text}");
    }
}

/// A tool that has worked in one run works in the next run, too.
#[test]
fn what_is_known_of_a_tool_holds_for_later_runs() {
    let mut talk = talk(limited(9));
    talk.one("submit", input(1), "accepted");
    talk.model("All is accepted.", vec![], Stop::Natural);
    assert!(talk.say("Another one, please.").starts_run);
    assert_eq!(counts(&talk, "submit"), (0, 0, false));
}

/// Returned answers count before the limit is checked, wherever they stand among other results.
#[test]
fn what_came_back_counts_before_the_limit_is_looked_at() {
    let mut talk = talk(limited(3));
    talk.round(&[("shell", input(1), "one", false), ("submit", input(1), "two", false)]);
    assert_eq!(counts(&talk, "submit").0, 2);
    assert!(!talk.lands());
    talk.round(&[("submit", input(2), "three", false), ("shell", input(2), "four", false)]);
    assert!(talk.lands(), "4 of 3");
}
