//! The sender of a message (`docs/gateway.md`, "Where a run begins"): a person's message begins a
//! run, a program's goes on with one.

use std::borrow::Cow;

use softland_core::policy::Policy;
use softland_core::{
    Arrival, MessageEffects, Millis, Role, Stop, Transcript, UserMessage, UserText,
};

use super::support::{Talk, input, limited};

/// A message with its texts, its name and its arrival.
#[derive(Clone, Copy, Default)]
struct Message<'a> {
    texts: &'a [&'a str],
    name: Option<&'a str>,
    arrival: Option<Arrival>,
}

fn say(talk: &mut Talk, message: Message<'_>) -> MessageEffects {
    talk.transcript.set_arrival(message.arrival);
    let texts = message.texts.iter().map(|text| UserText::new(*text)).collect();
    let user =
        UserMessage { texts, name: message.name.map(Cow::Borrowed), ..UserMessage::default() };
    let here = talk.transcript.locate_message(&user);
    let step = talk.transcript.add_user_message(&user, Some(&talk.facts));
    assert_eq!(here.starts, step.starts_run, "what is told before and after taking it");
    assert_eq!(Some(here.run), talk.transcript.run_key());
    step
}

fn message<'a>(texts: &'a [&'a str], arrival: Option<Arrival>) -> Message<'a> {
    Message { texts, arrival, name: None }
}

fn at_once(landed: bool) -> Option<Arrival> {
    Some(Arrival { pause: Millis(40), landed })
}

fn later(landed: bool) -> Option<Arrival> {
    Some(Arrival { pause: Millis(2_001), landed })
}

fn answers(talk: &mut Talk) {
    talk.model("Here is what I found.", Vec::new(), Stop::Natural);
}

/// A conversation whose first question is answered.
fn answered() -> Talk {
    let mut talk = Talk::new(Role::Gateway, Policy::default());
    answers(&mut talk);
    talk
}

/// One row for each kind of message behind an answer, and its honest neighbour.
#[test]
fn c10_a_message_behind_an_answer_is_a_persons_unless_a_program_shows() {
    let cline = "[ERROR] You did not use a tool in your previous response! Please retry.";
    let gptme = "<system>No tool call detected in last message. Did you mean to finish?</system>";
    let qwen = "The connection dropped mid-response. Resume directly — no recap.";
    let details = "<environment_details>\n12:04\n</environment_details>";
    for (texts, starts) in [
        (&["And what of the other file?"][..], true),
        (&[cline], false),
        (&[cline, details], false),
        (&[cline, "Use read_file."], true),
        (&["Why does Cline say \"[ERROR] You did not use a tool\"?"], true),
        (&[gptme], false),
        (&["What does <system> mean?"], true),
        (&[qwen], false),
        (&["The connection dropped again."], true),
        (&["[structured-output-enforce] You MUST call the StructuredOutput tool."], false),
        (&["Stop hook feedback:\n- the tests fail"], false),
        (&[details], false),
        (&["<info-msg>\nIt is 10:00\n</info-msg>"], false),
        (&["Go on\n<info-msg>\nIt is 10:00\n</info-msg>"], true),
        (&["This session is being continued from a previous conversation that ran out."], false),
        // A person may write these, and takes a while to do so.
        (&["continue"], true),
        (&["Please continue."], true),
        (&["It seems that you have not completed the task."], true),
    ] {
        for arrival in [None, later(false)] {
            let message = Message { texts, arrival, name: None };
            assert_eq!(say(&mut answered(), message).starts_run, starts, "{texts:?}");
        }
    }
    for texts in [&["continue"][..], &["Please continue."], &["Continue", details]] {
        let message = Message { texts, arrival: at_once(false), name: None };
        assert!(!say(&mut answered(), message).starts_run, "{texts:?} at once");
    }
}

/// Other speakers of a group have other names. The person has the name of the first message, or a
/// name that stands for a person.
#[test]
fn c10_other_speakers_go_on_with_the_run() {
    for (opener, name, starts) in [
        (Some("user"), Some("critic"), false),
        (None, Some("critic"), false),
        (Some("user"), Some("user"), true),
        (Some("user"), Some("user_proxy"), true),
        (Some("ana"), Some("ana"), true),
        (Some("ana"), None, true),
        (None, None, true),
    ] {
        let transcript = Transcript::new(Role::Gateway, Policy::default(), [].into());
        let mut talk = Talk { transcript, role: Role::Gateway, ids: 0, facts: Default::default() };
        say(&mut talk, Message { texts: &["Write it"], name: opener, arrival: None });
        answers(&mut talk);
        let message = Message { texts: &["Looks good to me"], name, arrival: None };
        assert_eq!(say(&mut talk, message).starts_run, starts, "{opener:?}, {name:?}");
    }
}

/// Terse speakers of a group are no run that goes on by itself.
#[test]
fn c10_terse_speakers_are_not_trivial() {
    let mut talk = Talk::new(Role::Gateway, Policy::default());
    for _ in 0..9 {
        talk.model("APPROVE", Vec::new(), Stop::Natural);
        let message = Message { texts: &["Again"], name: Some("critic"), arrival: None };
        let step = say(&mut talk, message);
        assert!(!step.starts_run && step.signals.is_empty());
    }
}

/// A message that repeats the same words, apart from numbers and times, is a program's if it comes
/// at once, and a person's after a while.
#[test]
fn c11_what_is_said_again_at_once_is_a_programs() {
    let mut talk = answered();
    let nudge = |n: u64| format!("No file was written (attempt {n}, 12:0{n}:11). Write it.");
    let first = nudge(1);
    assert!(say(&mut talk, message(&[&first], at_once(false))).starts_run, "for the first time");
    for n in 2..6 {
        answers(&mut talk);
        assert!(!say(&mut talk, message(&[&nudge(n)], at_once(false))).starts_run, "again, {n}");
    }
    answers(&mut talk);
    assert!(say(&mut talk, message(&[&nudge(7)], later(false))).starts_run, "after a while");
    answers(&mut talk);
    assert!(say(&mut talk, message(&[&nudge(8)], None)).starts_run, "nobody knows when");
}

#[test]
fn c11_ten_different_questions_at_once_are_ten_runs() {
    let mut talk = answered();
    let things = ["dog", "cat", "cow", "hen", "owl", "bee", "ant", "elk", "yak", "cod"];
    for thing in things {
        let question = format!("How long does a {thing} live?");
        let message = Message { texts: &[&question], arrival: at_once(false), name: None };
        assert!(say(&mut talk, message).starts_run, "{thing}");
        answers(&mut talk);
    }
    assert_eq!(talk.transcript.run_count(), 11);
}

/// A client that takes turns with its nudges is a program: each of them begins a run at most once.
#[test]
fn c38_nudges_that_take_turns_are_a_programs() {
    let nudges =
        ["Write the file now.", "You are not done yet.", "Use a tool, or say that it is done."];
    let mut talk = answered();
    for nudge in nudges {
        assert!(say(&mut talk, message(&[nudge], at_once(false))).starts_run, "{nudge}");
        answers(&mut talk);
    }
    for nudge in nudges.iter().cycle().take(9) {
        assert!(!say(&mut talk, message(&[nudge], at_once(false))).starts_run, "{nudge}");
        answers(&mut talk);
    }
    assert!(say(&mut talk, message(&[nudges[1]], later(false))).starts_run, "after a while");
}

/// Questions that differ in nothing but a number are different questions, where the number is what is
/// asked about or the conversation opened with one like them.
#[test]
fn c11_a_number_makes_another_question() {
    for question in ["What does note # say?", "Read chapter #", "What is # + 4?", "Task #: go on"] {
        let transcript = Transcript::new(Role::Gateway, limited(1), [].into());
        let mut talk = Talk { transcript, role: Role::Gateway, ids: 0, facts: Default::default() };
        for n in 1..=10 {
            let asked = question.replace('#', &n.to_string());
            assert!(say(&mut talk, message(&[&asked], at_once(false))).starts_run, "{asked}");
            answers(&mut talk);
        }
        assert_eq!(talk.transcript.run_count(), 10, "{question}");
        let last = question.replace('#', "10");
        assert!(!say(&mut talk, message(&[&last], at_once(false))).starts_run, "the same again");
    }
    let mut talk = answered();
    for n in 1..=10 {
        let asked = format!("What does note {n} say?");
        assert!(say(&mut talk, message(&[&asked], at_once(false))).starts_run, "{asked}");
        answers(&mut talk);
    }
}

/// Behind a landing, one message at once is a program's. A second, different message never is.
#[test]
fn c12_a_run_that_has_landed_can_go_on() {
    let landed = || {
        let mut talk = Talk::new(Role::Gateway, limited(1));
        talk.one("grep", input(1), "found");
        assert!(talk.lands());
        answers(&mut talk);
        talk
    };
    let mut talk = landed();
    assert!(say(&mut talk, message(&["And the other?"], later(true))).starts_run, "a person");
    assert_eq!(talk.calls(), 0, "with a count of its own");
    assert!(say(&mut landed(), message(&["And the other?"], None)).starts_run, "no time known");
    let mut talk = landed();
    for _ in 0..3 {
        assert!(!say(&mut talk, message(&["Go and write it"], at_once(true))).starts_run);
        assert!(talk.lands(), "the limit still holds");
        answers(&mut talk);
    }
    assert!(say(&mut talk, message(&["And the other?"], at_once(true))).starts_run, "another");
    assert_eq!(talk.calls(), 0);
    // Known nudges are not the one message that a program may send, and they are not different
    // messages.
    let mut talk = landed();
    assert!(!say(&mut talk, message(&["continue"], at_once(true))).starts_run);
    answers(&mut talk);
    assert!(say(&mut talk, message(&["And the other?"], at_once(true))).starts_run);
}

/// A decision on time is made once, and repeated from the record.
#[test]
fn c11_what_time_has_told_is_repeated_from_the_record() {
    let texts = ["Write it now"];
    let history = |records, arrival: Option<Arrival>| {
        let transcript = Transcript::new(Role::Gateway, limited(1), records);
        let mut talk = Talk { transcript, role: Role::Gateway, ids: 0, facts: Default::default() };
        talk.say("What is it?");
        talk.one("grep", input(1), "found");
        answers(&mut talk);
        let step = say(&mut talk, Message { texts: &texts, arrival, name: None });
        (step.starts_run, talk)
    };
    let (starts, talk) = history([].into(), at_once(true));
    assert!(!starts);
    let (_, _, records) = talk.transcript.into_parts();
    let (starts, mut talk) = history(records.clone(), None);
    assert!(!starts, "an hour later, read again");
    answers(&mut talk);
    assert!(
        say(&mut talk, Message { texts: &["And?"], arrival: at_once(true), name: None }).starts_run
    );
    let (starts, _) = history([].into(), None);
    assert!(starts, "without the record");
    let written = serde_json::to_string(&records.values().collect::<Vec<_>>()).unwrap();
    let read: Vec<softland_core::PinnedRecord> = serde_json::from_str(&written).unwrap();
    assert_eq!(
        records.values().map(|pinned| &**pinned).collect::<Vec<_>>(),
        read.iter().collect::<Vec<_>>()
    );
}

/// A note of the moment that moves from one message to the next changes no place.
#[test]
fn c13_a_note_that_moves_changes_no_place() {
    let note = |n: u64| format!("<info-msg>\nIt is 10:0{n}\n</info-msg>");
    let key = |question: &[&str], behind: Option<&str>| {
        let transcript = Transcript::new(Role::Gateway, Policy::default(), [].into());
        let mut talk = Talk { transcript, role: Role::Gateway, ids: 0, facts: Default::default() };
        say(&mut talk, Message { texts: question, ..Message::default() });
        talk.one("grep", input(1), "found");
        if let Some(note) = behind {
            say(&mut talk, Message { texts: &[note], ..Message::default() });
        }
        (talk.transcript.run_key(), talk.transcript.history_digest())
    };
    let bare = key(&["Read it"], None);
    let inside = format!("Read it\n{}", note(1));
    assert_eq!(key(&[&inside], None), bare);
    assert_eq!(key(&["Read it", &note(2)], None), bare);
    assert_eq!(key(&["Read it"], Some(&note(3))), bare);
    assert_ne!(key(&["Read that"], None), bare);
    assert_ne!(key(&[&note(1)], None), key(&[&note(2)], None), "nothing else stands first");
}

/// A text beside the result of the answer tool is no steering: the round is over.
#[test]
fn c14_a_question_beside_the_result_of_an_answer_is_a_persons() {
    let policy = Policy { answer_tool: vec!["final".into()], ..limited(3) };
    let mut talk = Talk::new(Role::Gateway, policy);
    assert!(!talk.round_with(&[("grep", input(1), "found", false)], "look there").starts_run);
    let step = talk.round_with(&[("final", "{}".into(), "taken", false)], "And the other?");
    assert!(step.starts_run);
    assert!(!talk.one("final", "{}", "taken").starts_run, "nobody said anything");
}
