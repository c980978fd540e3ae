//! A notebook's page from a browser's side: what it is told, what it may ask for, and how a run of
//! the assistant looks from there. No kernel: cells are refused to run, and that is a result, too.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use serde_json::{Value, json};
use softland_notebook::{Actor, CellType, Edit};

mod support;

use support::{LONG, Place, Setup, calls, changes, events, kind};

fn create(source: &str) -> Value {
    json!({"do": "create_cell", "index": null, "type": "code", "source": source})
}

#[tokio::test]
async fn two_pages_see_every_change_once_and_in_order() {
    let place = Place::new();
    let served = place.serve(Setup::default()).await;
    let ((mut one, _), (mut two, first)) = (served.page().await, served.page().await);
    let mut seen = Vec::new();
    for n in 0..20 {
        let came = one.wish(create(&format!("x = {n}"))).await;
        assert_eq!(came.last().unwrap()["ok"]["cell"]["source"], format!("x = {n}"));
        seen.extend(changes(&came));
    }
    let id = seen[3]["cell"]["id"].clone();
    seen.extend(changes(&one.wish(json!({"do": "move_cell", "id": id, "index": 0})).await));
    let rev = seen[3]["cell"]["rev"].clone();
    seen.extend(changes(&one.wish(json!({"do": "delete_cell", "id": id, "rev": rev})).await));
    let came = two.until(|message| message["change"]["change"] == "cell_deleted").await;
    assert_eq!(changes(&came), seen);
    let revs: Vec<u64> = seen.iter().map(|change| change["rev"].as_u64().unwrap()).collect();
    let begin = first["state"]["rev"].as_u64().unwrap();
    assert_eq!(revs, (begin + 1..=begin + 22).collect::<Vec<_>>());
    served.end().await;
}

#[tokio::test]
async fn who_is_behind_is_told_and_shown_the_cell_as_it_is() {
    let place = Place::new();
    let served = place.serve(Setup::default()).await;
    let ((mut one, _), (mut two, _)) = (served.page().await, served.page().await);
    let made = one.wish(create("mine")).await.pop().unwrap()["ok"]["cell"].clone();
    let update = |source: &str| json!({"do": "update_cell", "id": made["id"], "rev": made["rev"], "source": source});
    assert!(one.wish(update("ours")).await.last().unwrap()["ok"].is_object());
    let refused = two.wish(update("theirs")).await.pop().unwrap()["refused"].clone();
    assert_eq!(refused["code"], "conflict");
    assert_eq!(refused["cell"]["source"], "ours");
    for (wish, code) in [
        (json!({"do": "delete_cell", "id": "none", "rev": 1}), "no_such_cell"),
        (json!({"do": "dance"}), "invalid"),
        (json!({"do": "ask", "text": "  "}), "invalid"),
        (json!({"do": "run_cell", "id": made["id"]}), "kernel"),
    ] {
        let refused = two.wish(wish.clone()).await.pop().unwrap()["refused"].clone();
        assert_eq!(refused["code"], code, "{wish}: {refused}");
    }
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cells_are_begun_in_the_order_in_which_they_were_asked_for() {
    let place = Place::new();
    let served = place.serve(Setup::default()).await;
    let (mut page, _) = served.page().await;
    let made = page.wish(create("1")).await.pop().unwrap()["ok"]["cell"]["id"].clone();
    for round in 0..20_u64 {
        let asked: Vec<u64> = (0..6).map(|n| 1000 + round * 6 + n).collect();
        for n in &asked {
            page.send(&json!({"n": n, "do": "run_cell", "id": made})).await;
        }
        let mut begun = Vec::new();
        while begun.len() < asked.len() {
            begun.extend(page.next().await.unwrap()["reply"].as_u64());
        }
        assert_eq!(begun, asked, "without a kernel each is refused as its turn comes");
    }
    served.end().await;
}

#[tokio::test]
async fn only_who_may_is_told_anything() {
    let place = Place::new();
    let served = place.serve(Setup::default()).await;
    for headers in [
        [("origin", "https://evil.example")],
        [("origin", "null")],
        [("host", "evil.example")],
        [("sec-fetch-site", "cross-site")],
    ] {
        let refused = served.stranger(&headers).await.err().unwrap().to_string();
        assert!(refused.contains("403"), "{headers:?}: {refused}");
    }
    let own = format!("http://{}", served.host());
    assert!(served.stranger(&[("origin", &own)]).await.is_ok());
    for message in [json!({"token": "wrong"}), json!({"n": 1, "do": "stop"}), json!([])] {
        let mut page = served.stranger(&[]).await.unwrap();
        page.send(&message).await;
        assert_eq!(page.next().await, None, "{message}");
        let closed = page.closed.unwrap();
        assert_eq!(u16::from(closed.code), 1008);
        assert!(closed.reason.contains("token"), "{}", closed.reason);
    }
    served.end().await;
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_its_socket_and_nothing_else() {
    let place = Place::new();
    let served = place.serve(Setup::default()).await;
    let ((mut one, _), (mut two, _)) = (served.page().await, served.page().await);
    one.send(&create(&"x".repeat(5 << 20))).await;
    while one.next().await.is_some() {}
    let made = two.wish(create("small")).await.pop().unwrap();
    assert_eq!(made["ok"]["index"], 0, "nothing was made of the other");
    served.end().await;
}

#[tokio::test]
async fn a_page_that_reads_too_slowly_is_told_all_anew() {
    let place = Place::new();
    let served = place.serve(Setup::default()).await;
    let (mut slow, first) = served.page().await;
    let created = Edit::CreateCell { index: None, kind: CellType::Code, source: "0".to_owned() };
    let cell = served.room.apply_edit(created, Actor::Human).await.unwrap().cell.unwrap();
    let mut rev = cell.rev;
    for n in 0..1600 {
        let source = format!("{n}{}", " ".repeat(64 << 10));
        let edit = Edit::UpdateCell { id: cell.id.clone(), rev, source };
        rev = served.room.apply_edit(edit, Actor::Human).await.unwrap().rev;
    }
    let mut next = first["state"]["rev"].as_u64().unwrap() + 1;
    let mut anew = 0;
    while next <= rev {
        let message = slow.next().await.unwrap();
        if message["state"].is_object() {
            anew += 1;
            next = message["state"]["rev"].as_u64().unwrap() + 1;
        } else if message["change"].is_object() {
            assert_eq!(message["change"]["rev"], next, "none is missed unseen");
            next += 1;
        }
    }
    assert!(anew > 0, "it was never behind");
    served.end().await;
}

const STEPS: [(&str, bool); 5] = [
    ("get_notebook_state", true),
    ("create_cell", true),
    // There is no kernel.
    ("run_cell", false),
    ("update_cell", true),
    ("run_cell", false),
];

fn steps(n: usize) -> Vec<(String, bool)> {
    STEPS.iter().take(n).map(|(name, ok)| ((*name).to_owned(), *ok)).collect()
}

#[tokio::test]
async fn b47_a_run_is_seen_step_by_step_and_what_it_changes_once() {
    let place = Place::new();
    let served = place.serve(Setup { limits: &[("turns_limit", 10)], ..Setup::default() }).await;
    let ((mut one, _), (mut two, _)) = (served.page().await, served.page().await);
    one.send(&json!({"n": 1, "do": "ask", "text": "What is the mean?"})).await;
    let (came, other) = (one.run().await, two.run().await);
    let told = events(&came);
    assert_eq!(told, events(&other), "both hear the same");
    assert_eq!(told[0]["event"], "question");
    assert_eq!(calls(&told), steps(5));
    let seqs: Vec<u64> = told.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>(), "no gap");
    let turns = told.iter().filter(|event| event["event"] == "turn_start");
    assert!(turns.clone().all(|turn| turn["turns_limit"] == 10));
    assert_eq!(turns.count(), 6);
    let end = told.last().unwrap();
    assert_eq!((&end["event"], &end["outcome"]), (&json!("done"), &json!("answered")));
    // Each successful edit was announced once, and failed edits were not.
    let made: Vec<_> = changes(&other).iter().map(|change| change["change"].clone()).collect();
    assert_eq!(made.iter().filter(|what| **what == "cell_created").count(), 1);
    assert_eq!(made.iter().filter(|what| **what == "cell_updated").count(), 1);
    served.end().await;
}

#[tokio::test]
async fn at_a_limit_it_lands_with_the_limits_name_and_value() {
    let place = Place::new();
    let served =
        place.serve(Setup { limits: &[("tool_calls_limit", 2)], ..Setup::default() }).await;
    let (mut page, _) = served.page().await;
    page.send(&json!({"n": 1, "do": "ask", "text": "What is the mean?"})).await;
    let told = events(&page.run().await);
    assert_eq!(calls(&told), steps(2));
    let end = told.last().unwrap();
    assert_eq!(end["outcome"], "landed");
    assert_eq!((&end["limit"], &end["value"]), (&json!("tool_calls_limit"), &json!(2)));
    assert!(end["answer"].as_str().unwrap().contains("I have written cell"), "{end}");
    served.end().await;
}

#[tokio::test]
async fn what_is_said_in_the_last_round_is_heard_and_the_model_lands() {
    let place = Place::new();
    let limits = &[("tool_calls_limit", 2)];
    let served = place.serve(Setup { limits, answers: 1, ..Setup::default() }).await;
    let (mut page, _) = served.page().await;
    page.send(&json!({"n": 1, "do": "ask", "text": "What is the mean?"})).await;
    page.until(|message| kind(message) == "turn_start" && message["event"]["turn"] == 2).await;
    let joined = page.wish(json!({"do": "ask", "text": "In metres, please."})).await;
    assert_eq!(joined.last().unwrap()["ok"]["joined"], true);
    served.answers.add_permits(100);
    let told = events(&page.run().await);
    let end = told.last().unwrap();
    assert_eq!(
        (&end["outcome"], &end["answered_by"]),
        (&json!("landed"), &json!("model")),
        "{end}"
    );
    assert!(end["answer"].as_str().unwrap().contains("I have written cell"), "{end}");
    assert!(told.iter().all(|event| event["intervention"] != "nudge"), "{told:#?}");
    served.end().await;
}

#[tokio::test]
async fn a_stopped_run_leaves_a_conversation_that_goes_on() {
    let place = Place::new();
    let served = place.serve(Setup { scenario: "notebook:always", ..Setup::default() }).await;
    let (mut page, _) = served.page().await;
    for _ in 0..2 {
        page.send(&json!({"n": 100, "do": "ask", "text": "Go on for ever."})).await;
        page.until(|message| kind(message) == "tool_result").await;
        // One run at a time: what is said meanwhile joins it.
        let joined = page.wish(json!({"do": "ask", "text": "Mind the units."})).await;
        assert_eq!(joined.last().unwrap()["ok"]["joined"], true);
        page.send(&json!({"n": 101, "do": "stop"})).await;
        let end = page.run().await.pop().unwrap();
        assert_eq!(end["event"]["outcome"], "cancelled", "{end}");
        assert_eq!(end["event"]["stopped_by"], "user", "{end}");
        page.until(|message| message["reply"] == 101).await;
        assert!(!served.chat.is_running());
    }
    served.end().await;
}

#[tokio::test]
async fn what_is_said_too_late_opens_the_next_run() {
    let place = Place::new();
    let served = place.serve(Setup { answers: 5, ..Setup::default() }).await;
    let (mut page, _) = served.page().await;
    page.send(&json!({"n": 1, "do": "ask", "text": "What is the mean?"})).await;
    // The answer is under way: no round follows that could carry it.
    page.until(|message| {
        message["event"]["event"] == "turn_start" && message["event"]["turn"] == 6
    })
    .await;
    served.chat.ask_question("And the median?").unwrap();
    served.answers.add_permits(100);
    let rest = page.run().await;
    let joined = rest.iter().any(|message| message["event"]["steers"] == true);
    assert!(joined, "the run was over before it was asked: {rest:?}");
    let next = page.until(|message| kind(message) == "run_start").await;
    assert!(next.iter().all(|message| kind(message) != "question"), "it is shown once");
    served.end().await;
}

#[tokio::test]
async fn where_nobody_looks_the_spending_ends() {
    let place = Place::new();
    let grace = Duration::from_millis(50);
    let setup = Setup { scenario: "notebook:always", grace, ..Setup::default() };
    let served = place.serve(setup).await;
    let ((mut one, _), (two, _)) = (served.page().await, served.page().await);
    one.wish(json!({"do": "ask", "text": "Go on for ever."})).await;
    drop(two);
    one.until(|message| kind(message) == "tool_result").await;
    assert!(served.chat.is_running(), "one page is enough");
    drop(one);
    tokio::time::timeout(LONG, served.chat.wait_until_idle()).await.unwrap();
    let last = |first: &Value| first["chat"].as_array().unwrap().last().unwrap().clone();
    let (_, first) = served.page().await;
    assert_eq!(last(&first)["outcome"], "cancelled");
    assert_eq!(last(&first)["stopped_by"], "left", "nobody has stopped it");
    served.end().await;
    let served = place.serve(Setup::default()).await;
    let (_, first) = served.page().await;
    assert_eq!(last(&first)["stopped_by"], "left");
    assert!(last(&first)["message"].as_str().unwrap().contains("no page was open"));
    served.end().await;
}

#[tokio::test]
async fn a_page_that_answers_no_ping_is_gone() {
    let place = Place::new();
    let (grace, beat) = (Duration::from_millis(50), Duration::from_millis(100));
    // One answer, so that there is little to send: it is not for full buffers that it ends.
    let setup = Setup { answers: 1, grace, beat, ..Setup::default() };
    let served = place.serve(setup).await;
    let (mut asleep, _) = served.page().await;
    // Nothing is read from here on, as by a browser on a machine that sleeps.
    asleep.send(&json!({"n": 1, "do": "ask", "text": "What is the mean?"})).await;
    tokio::time::timeout(LONG, served.answers_are_taken()).await.unwrap();
    tokio::time::timeout(LONG, served.chat.wait_until_idle()).await.unwrap();
    let (_, first) = served.page().await;
    assert_eq!(first["chat"].as_array().unwrap().last().unwrap()["stopped_by"], "left");
    served.end().await;
}

#[tokio::test]
async fn a_page_that_answers_pings_stays_though_it_asks_for_nothing() {
    let place = Place::new();
    let setup = Setup { beat: Duration::from_secs(1), ..Setup::default() };
    let served = place.serve(setup).await;
    let (mut page, _) = served.page().await;
    assert!(page.hears_pings(6).await, "it was closed: {:?}", page.closed);
    served.end().await;
}

/// The events that a page is shown at its beginning, without what joins pieces.
fn shown(first: &Value) -> Vec<Value> {
    let told = first["chat"].as_array().unwrap().iter();
    told.filter(|event| !event["event"].as_str().unwrap().ends_with("delta")).cloned().collect()
}

#[tokio::test]
async fn a_conversation_survives_reload_and_restart() {
    let place = Place::new();
    let served = place.serve(Setup::default()).await;
    let (mut page, _) = served.page().await;
    page.send(&json!({"n": 1, "do": "ask", "text": "What is the mean?"})).await;
    let told = events(&page.run().await);
    let (_, reloaded) = served.page().await;
    assert_eq!(calls(&shown(&reloaded)), calls(&told));
    served.end().await;
    let served = place.serve(Setup::default()).await;
    let (mut page, restarted) = served.page().await;
    assert_eq!(calls(&shown(&restarted)), calls(&told));
    assert_eq!(shown(&restarted)[0]["text"], "What is the mean?");
    assert_eq!(shown(&restarted).len(), shown(&reloaded).len());
    // The simulator refuses a conversation that is not whole.
    page.send(&json!({"n": 1, "do": "ask", "text": "Once more."})).await;
    let told = events(&page.run().await);
    assert_eq!(told.last().unwrap()["outcome"], "answered", "{told:#?}");
    served.end().await;
}

#[test]
fn a_run_whose_process_was_killed_is_ended_and_gone_on_behind() {
    let place = Place::new();
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let first = runtime();
    first.block_on(async {
        let served = place.serve(Setup { answers: 3, ..Setup::default() }).await;
        let (mut page, _) = served.page().await;
        page.send(&json!({"n": 1, "do": "ask", "text": "What is the mean?"})).await;
        page.until(|message| kind(message) == "turn_start" && message["event"]["turn"] == 4).await;
    });
    // Nothing of it ends by itself.
    first.shutdown_timeout(LONG);
    runtime().block_on(async {
        let served = place.serve(Setup::default()).await;
        let (mut page, first) = served.page().await;
        assert_eq!(first["asked"], false);
        assert_eq!(calls(&shown(&first)), steps(3));
        let end = shown(&first).pop().unwrap();
        assert_eq!((&end["outcome"], &end["stopped_by"]), (&json!("cancelled"), &json!("killed")));
        // A request was under way: nobody knows what it has cost.
        assert_eq!(end["estimated"], true, "{end}");
        let usage: Vec<bool> = shown(&first)
            .iter()
            .filter(|event| event["event"] == "usage")
            .map(|event| event["estimated"] == true)
            .collect();
        assert_eq!(usage, [false, false, false, true]);
        page.send(&json!({"n": 1, "do": "ask", "text": "Once more."})).await;
        let told = events(&page.run().await);
        assert_eq!(told.last().unwrap()["outcome"], "answered", "{told:#?}");
        served.end().await;
    });
}

/// The texts of the questions that a page is shown at its beginning.
fn questions(first: &Value) -> Vec<String> {
    let asked = shown(first).into_iter().filter(|event| event["event"] == "question");
    asked.map(|event| event["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_conversation_belongs_to_the_notebook_and_not_to_its_path() {
    let place = Place::new();
    let ask = |text: &'static str, begun: &'static [&'static str]| {
        let place = &place;
        async move {
            let served = place.serve(Setup::default()).await;
            let (mut page, first) = served.page().await;
            assert_eq!(questions(&first), begun);
            page.send(&json!({"n": 1, "do": "ask", "text": text})).await;
            page.run().await;
            served.end().await;
        }
    };
    ask("First?", &[]).await;
    ask("Second?", &["First?"]).await;
    // It goes with the file, also where it is put elsewhere.
    let old = place.file().with_file_name("old.ipynb");
    std::fs::rename(place.file(), &old).unwrap();
    ask("New?", &[]).await;
    ask("Newer?", &["New?"]).await;
    std::fs::remove_file(place.file()).unwrap();
    ask("Newest?", &[]).await;
    std::fs::rename(&old, place.file()).unwrap();
    ask("Third?", &["First?", "Second?"]).await;
    // Another program has put another notebook there.
    let other = json!({"cells": [{"cell_type": "raw", "id": "other", "metadata": {}, "source": []}],
        "metadata": {}, "nbformat": 4, "nbformat_minor": 5});
    std::fs::write(place.file(), other.to_string()).unwrap();
    ask("Fourth?", &[]).await;
}

#[tokio::test]
async fn a_new_conversation_is_told_to_all_and_stays_new() {
    let place = Place::new();
    let served = place.serve(Setup { answers: 1, ..Setup::default() }).await;
    let ((mut one, _), (mut two, _)) = (served.page().await, served.page().await);
    one.send(&json!({"n": 1, "do": "ask", "text": "What is the mean?"})).await;
    one.until(|message| kind(message) == "tool_result").await;
    let refused = one.wish(json!({"do": "new_conversation"})).await.pop().unwrap();
    assert!(refused["refused"]["message"].as_str().unwrap().contains("under way"), "{refused}");
    served.answers.add_permits(100);
    one.run().await;
    two.run().await;
    assert_eq!(one.wish(json!({"do": "new_conversation"})).await.pop().unwrap()["ok"], json!({}));
    two.until(|message| kind(message) == "new_conversation").await;
    assert_eq!(served.page().await.1["chat"], json!([]));
    // The model is shown nothing of it: it begins with a look, as with any new conversation.
    one.send(&json!({"n": 90, "do": "ask", "text": "Anew?"})).await;
    assert_eq!(calls(&events(&one.run().await)), steps(5));
    served.end().await;
    let served = place.serve(Setup::default()).await;
    assert_eq!(questions(&served.page().await.1), ["Anew?"]);
    served.end().await;
}

#[tokio::test]
async fn a_file_that_others_remove_is_told_and_written_on_request_only() {
    let place = Place::new();
    let served = place.serve(Setup::default()).await;
    let ((mut one, first), (mut two, _)) = (served.page().await, served.page().await);
    assert_eq!(first["state"]["trouble"], Value::Null);
    one.wish(create("mine")).await;
    let refused = one.wish(json!({"do": "write_anew"})).await.pop().unwrap();
    assert_eq!(refused["refused"]["code"], "invalid", "there is no need: {refused}");
    let whole = std::fs::read_to_string(place.file()).unwrap();
    for broken in [None, Some("{ half")] {
        match broken {
            None => std::fs::remove_file(place.file()).unwrap(),
            Some(text) => std::fs::write(place.file(), text).unwrap(),
        }
        let told = |message: &Value| message["change"]["trouble"].is_string();
        // Nobody changes anything.
        two.until(told).await;
        one.until(told).await;
        assert_eq!(std::fs::read_to_string(place.file()).ok().as_deref(), broken);
        let (_, state) = served.page().await;
        assert!(state["state"]["trouble"].as_str().unwrap().contains("cannot be read"));
        assert!(one.wish(json!({"do": "write_anew"})).await.pop().unwrap()["ok"].is_object());
        assert_eq!(std::fs::read_to_string(place.file()).unwrap(), whole);
        let well = |message: &Value| {
            message["change"]["change"] == "file" && message["change"]["trouble"].is_null()
        };
        two.until(well).await;
    }
    served.end().await;
}
