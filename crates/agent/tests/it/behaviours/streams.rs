//! Reading streams, and the events that are emitted for them.

use serde_json::{Value, json};
use softland_agent::core::policy::Policy;
use softland_agent::{Event, EventKind};
use softland_sim::{Fault, Part, Stop, Turn};

use crate::behaviours::canned::{self, Canned, Reply};
use crate::behaviours::support::{
    Case, agent_on, batch, call, calls_then, executed, grep, one_end, play, streamed,
};

fn kinds(events: &[Event]) -> Vec<String> {
    let kind =
        |event: &Event| serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned();
    events.iter().map(kind).collect()
}

#[tokio::test]
async fn b43_events_come_in_block_order_with_one_end() {
    let mixed = Turn::from_parts(vec![Part::text("First."), call(0), Part::text("Then."), call(1)]);
    let ran = play(Policy::default(), vec![mixed, Turn::from_text("Twelve.")]).await;
    let wanted = [
        "run_start",
        "turn_start",
        "text_start",
        "text_delta",
        "block_stop",
        "tool_start",
        "tool_input_delta",
        "block_stop",
        "text_start",
        "text_delta",
        "block_stop",
        "tool_start",
        "tool_input_delta",
        "block_stop",
        "usage",
        "tool_execute",
        "tool_execute",
        "tool_result",
        "tool_result",
        "turn_start",
        "text_start",
        "text_delta",
        "block_stop",
        "usage",
        "done",
    ];
    let mut shown = kinds(&ran.events);
    // The provider decides how many deltas a block has.
    shown.dedup_by(|a, b| a == b && a.ends_with("_delta"));
    assert_eq!(shown, wanted);
    // One end, whatever happens on the way.
    let broken = |fault| vec![grep(0), Turn::from_text("It was").with_fault(fault)];
    let overloaded = || vec![Turn::from_status(529, None); 5];
    for (limit, turns) in [
        (9, calls_then(2, "Twelve.")),
        (1, (0..9).map(grep).collect()),
        (0, vec![Turn::default(); 5]),
        (9, broken(Fault::ErrorEvent { after: 5 })),
        (9, broken(Fault::Cut { after: 5 })),
        (9, broken(Fault::Cut { after: 0 })),
        (9, overloaded()),
        (9, vec![Turn::default().with_stop(Stop::Refusal)]),
        (9, vec![Turn::default(); 5]),
        (2, vec![batch(0..5), batch(5..9), batch(9..12)]),
    ] {
        let ran = play(Policy { tool_calls_limit: Some(limit), ..Policy::default() }, turns).await;
        one_end(&ran.events);
        let calls = executed(&ran.events).len();
        let results = kinds(&ran.events).iter().filter(|kind| *kind == "tool_result").count();
        assert_eq!(calls, results, "a call without its result");
        let turns = kinds(&ran.events).iter().filter(|kind| *kind == "turn_start").count();
        assert_eq!(turns as u64, ran.report.turns);
    }
}

#[tokio::test]
async fn b44_the_input_is_whole_however_it_comes() {
    let whole = json!({"pattern": "a \"b\" \u{6771}"});
    let text = whole.to_string();
    let chars: Vec<String> = text.chars().map(String::from).collect();
    let chars: Vec<&str> = chars.iter().map(String::as_str).collect();
    let mut after_empty = vec!["", ""];
    after_empty.extend(&chars);
    let in_start = |input: &Value, pieces: &[&str]| {
        let (mut start, deltas) = canned::tool("t", "grep", pieces);
        start["input"] = input.clone();
        (start, deltas)
    };
    for (block, wanted) in [
        (canned::tool("t", "grep", &[&text]), whole.clone()),
        (canned::tool("t", "grep", &chars), whole.clone()),
        (canned::tool("t", "grep", &after_empty), whole.clone()),
        (canned::tool("t", "grep", &[]), json!({})),
        (canned::tool("t", "grep", &[""]), json!({})),
        (in_start(&whole, &[]), whole.clone()),
        (in_start(&whole, &[""]), whole.clone()),
    ] {
        let what = format!("{block:?}");
        let transport = Canned::new([
            canned::reply(&[block], "tool_use"),
            canned::reply(&[canned::text("So.")], "end_turn"),
        ]);
        let (agent, ran) = agent_on(transport.clone());
        let (_, events) = crate::common::run(&agent, "What?").await;
        assert_eq!(ran.load(std::sync::atomic::Ordering::Relaxed), 1, "{what}");
        let given = events.iter().find_map(|event| match &event.kind {
            EventKind::ToolExecute { input, .. } => Some(input.clone()),
            _ => None,
        });
        assert_eq!(given, Some(wanted.clone()), "{what}");
        let back = &transport.requests()[1]["messages"][1]["content"][0];
        assert_eq!(back["input"], wanted, "{what}: another one went back");
    }
}

#[tokio::test]
async fn b45_two_calls_of_one_tool_are_told_apart_by_id() {
    // Their deltas come interleaved.
    let calls = [canned::tool("a1", "grep", &[]), canned::tool("b2", "grep", &[])];
    let mut events = canned::events(&calls, "tool_use");
    let delta = |index: u64, piece: &str| {
        json!({"type": "content_block_delta", "index": index,
            "delta": {"type": "input_json_delta", "partial_json": piece}})
    };
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let start =
        |n: usize| json!({"type": "content_block_start", "index": n, "content_block": calls[n].0});
    let middle = [
        start(0),
        start(1),
        delta(1, r#"{"pattern""#),
        delta(0, r#"{"pattern":"#),
        delta(1, r#":"B"}"#),
        delta(0, r#""A"}"#),
        stop(1),
        stop(0),
    ];
    events.splice(1..5, middle);
    let transport = Canned::new([
        Reply::Stream(canned::stream(&events), 11),
        canned::reply(&[canned::text("So.")], "end_turn"),
    ]);
    let (agent, _) = agent_on(transport.clone());
    let (_, events) = crate::common::run(&agent, "What?").await;
    for (wanted, pattern) in [("a1", "A"), ("b2", "B")] {
        let mut typed = String::new();
        let (mut starts, mut runs, mut results) = (0, 0, 0);
        for event in &events {
            match &event.kind {
                EventKind::ToolStart { id, .. } if id == wanted => starts += 1,
                EventKind::ToolInputDelta { id, partial_json } if id == wanted => {
                    typed += partial_json
                }
                EventKind::ToolExecute { id, input, .. } if id == wanted => {
                    runs += 1;
                    assert_eq!(input["pattern"], pattern);
                }
                EventKind::ToolResult { id, .. } if id == wanted => results += 1,
                _ => {}
            }
        }
        assert_eq!((starts, runs, results), (1, 1, 1), "{wanted}");
        assert_eq!(typed, format!(r#"{{"pattern":"{pattern}"}}"#));
    }
    let answered = &transport.requests()[1]["messages"][2]["content"];
    assert_eq!(answered[0]["tool_use_id"], "a1");
    assert_eq!(answered[1]["tool_use_id"], "b2");
}

#[tokio::test]
async fn b46_events_are_read_once_complete_wherever_they_are_cut() {
    let said = "Zwölf — 十二 \u{1f600}";
    let blocks = [canned::text(said), canned::tool("t", "grep", &[r#"{"pattern":"東京"}"#])];
    let plain = canned::stream(&canned::events(&blocks, "tool_use"));
    let several: String = canned::events(&blocks, "tool_use")
        .iter()
        .map(|event| {
            // A `data:` of several lines: JSON may break between its tokens.
            let data = event.to_string().replacen(',', ",\ndata: ", 1);
            format!(
                ": a comment\nid: 7\nevent: {}\ndata: {data}\n\n",
                event["type"].as_str().unwrap()
            )
        })
        .collect();
    let crlf = plain.replace('\n', "\r\n");
    let unended = plain.trim_end().to_owned();
    let mut seen: Option<(Vec<String>, String)> = None;
    for text in [&plain, &several, &crlf, &unended] {
        for size in [1, 2, 3, 5, 17, 1 << 20] {
            let transport = Canned::new([
                Reply::Stream(text.clone(), size),
                canned::reply(&[canned::text("So.")], "end_turn"),
            ]);
            let (agent, _) = agent_on(transport.clone());
            let (report, events) = crate::common::run(&agent, "What?").await;
            assert_eq!(report.answer.as_deref(), Some("So."));
            assert_eq!(streamed(&events), format!("{said}So."), "pieces of {size}");
            let now = (kinds(&events), transport.requests()[1]["messages"].to_string());
            assert!(now.1.contains("東京"));
            assert_eq!(seen.get_or_insert_with(|| now.clone()), &now, "pieces of {size}: {text}");
        }
    }
}

#[tokio::test]
async fn b48_the_answer_is_all_visible_text_and_never_thinking() {
    let think = |text: &str| Part::Thinking(text.into());
    let turn = Turn::from_parts(vec![
        think("secret"),
        Part::text("Nine "),
        think("secret"),
        Part::text("and three."),
    ]);
    let mut case = Case::new(Policy::default(), vec![turn]);
    case.thinking = true;
    let ran = case.run().await;
    assert_eq!(ran.answer(), "Nine and three.");
    assert_eq!(streamed(&ran.events), "Nine and three.");
    assert!(kinds(&ran.events).contains(&"thinking_delta".to_owned()), "nothing was tested");
    // Thinking alone is no answer, at no rung.
    for limit in [0, 1, 9] {
        let mut turns: Vec<_> = (0..6).map(|_| Turn::from_parts(vec![think("secret")])).collect();
        turns[0] = Turn::from_parts(vec![think("secret"), call(0)]);
        let policy = Policy { tool_calls_limit: Some(limit), ..Policy::default() };
        let mut case = Case::new(policy, turns);
        case.thinking = true;
        let ran = case.run().await;
        assert_eq!(ran.report.ended.outcome.word(), "stopped", "{limit}");
        assert!(!ran.answer().contains("secret"), "{}", ran.answer());
        ran.nothing_refused();
    }
}
