use super::*;
use softland_agent::core::{Because, Evidence, Reason, RunEnding};
use softland_agent::{AnsweredBy, UsageTotal};

fn event(turn: u64, kind: EventKind) -> Event {
    Event { v: 1, seq: 0, ts: String::new(), run: String::new(), turn, replayed: false, kind }
}

fn begin(limit: Option<u64>) -> EventKind {
    let policy = Policy { tool_calls_limit: limit, ..Policy::default() };
    let (agent, model) = ("tester".to_owned(), "sim/reader".to_owned());
    EventKind::RunStart { agent, model, policy: Box::new(policy) }
}

fn turn() -> EventKind {
    stands(0, None, "silent")
}

fn stands(tool_calls: u64, tool_calls_limit: Option<u64>, phase: &'static str) -> EventKind {
    EventKind::TurnStart { turns_limit: None, tool_calls, tool_calls_limit, phase }
}

fn text(text: &str) -> Vec<EventKind> {
    vec![
        EventKind::TextStart,
        EventKind::TextDelta { text: text.to_owned() },
        EventKind::BlockStop { index: 0 },
    ]
}

fn call(name: &str, input: &str) -> Vec<EventKind> {
    let id = name.to_owned();
    vec![
        EventKind::ToolStart { id: id.clone(), name: name.to_owned() },
        EventKind::ToolInputDelta { id, partial_json: input.to_owned() },
        EventKind::BlockStop { index: 1 },
    ]
}

fn ran(name: &str, ok: bool, content: &str) -> Vec<EventKind> {
    let (id, name) = (name.to_owned(), name.to_owned());
    let input = serde_json::Value::Null;
    vec![
        EventKind::ToolExecute { id: id.clone(), name: name.clone(), input },
        EventKind::ToolResult { id, name, ok, content: content.to_owned(), ms: 7 },
    ]
}

fn did(intervention: &'static str, used: u64, text: &str) -> EventKind {
    let because = Some(Because::from_counts(Reason::ToolCalls, used, 2));
    EventKind::Intervention { intervention, because, text: Some(text.to_owned()), observed: false }
}

fn report(outcome: Outcome, answer: Option<&str>) -> Box<Report> {
    Box::new(Report {
        ended: RunEnding::without_limit(outcome, Reason::Final),
        answer: answer.map(str::to_owned),
        answered_by: answer.map(|_| AnsweredBy::Model),
        turns: 1,
        tool_calls: 0,
        usage: UsageTotal::default(),
        cost_usd: None,
        resume: None,
        failure: None,
    })
}

fn done(answer: &str) -> EventKind {
    EventKind::Done { report: report(Outcome::Answered, Some(answer)) }
}

/// Renders both streams as one terminal shows them.
fn terminal(show: ViewOptions, width: usize, kinds: Vec<EventKind>) -> String {
    all(show, width, kinds).into_iter().map(|piece| piece.text).collect()
}

fn all(show: ViewOptions, width: usize, kinds: Vec<EventKind>) -> Vec<Piece> {
    let mut view = RunView::new(show, width);
    kinds.into_iter().flat_map(|kind| view.render_event(&event(1, kind))).collect()
}

fn of(to: OutputStream, pieces: &[Piece]) -> String {
    pieces.iter().filter(|piece| piece.to == to).map(|piece| piece.text.as_str()).collect()
}

const STREAM: ViewOptions =
    ViewOptions { stream_text: true, markdown: false, thinking: false, verbose: 0, nested: false };
const PIPED: ViewOptions =
    ViewOptions { stream_text: false, markdown: false, thinking: false, verbose: 0, nested: false };

fn a_run() -> Vec<EventKind> {
    [
        vec![begin(Some(2)), stands(0, Some(2), "silent")],
        text("I will look."),
        call("grep", "{\"pattern\":\"x\"}"),
        call("list_dir", "{\"path\":\".\"}"),
        ran("grep", true, "a:1:x\nb:2:x\nc:3:x\nd:4:x\ne:5:x\nf:6:x\n"),
        ran("list_dir", false, "`.` is not a folder"),
        vec![
            did("countdown", 1, "1 tool call remaining"),
            did("ask", 2, "Tool call limit reached (2 of 2). Answer now."),
            stands(2, Some(2), "landing"),
        ],
        text("It is x."),
        vec![done("It is x.")],
    ]
    .concat()
}

#[test]
fn a_terminal_shows_everything_in_block_order() {
    assert_eq!(
        terminal(STREAM, 60, a_run()),
        "\
tester · sim/reader · tool_calls_limit 2
turn 1 · 0 of 2 tool calls
I will look.
→ grep {\"pattern\":\"x\"}
→ list_dir {\"path\":\".\"}
  grep · 7 ms
  │ a:1:x
  │ b:2:x
  │ c:3:x
  │ d:4:x
  … 2 more lines
  list_dir failed · 7 ms
  │ `.` is not a folder
  » countdown [tool_calls: 1 of 2] 1 tool call remaining
  » ask [tool_calls: 2 of 2] Tool call limit reached (2 of …
turn 1 · landing · 2 of 2 tool calls
It is x.
"
    );
}

#[test]
fn a_pipe_gets_the_answer_alone_and_the_notes_get_the_rest() {
    let pieces = all(PIPED, 60, a_run());
    assert_eq!(of(OutputStream::Answer, &pieces), "It is x.\n");
    let notes = of(OutputStream::Notes, &pieces);
    assert!(notes.contains("\nI will look.\n→ grep "), "{notes}");
    assert!(!notes.contains("It is x"), "{notes}");
}

#[test]
fn no_note_is_wider_than_a_narrow_terminal() {
    for width in [0, 20, 33, 47, 60] {
        let pieces = all(PIPED, width, a_run());
        for line in of(OutputStream::Notes, &pieces).lines() {
            assert!(line.width() <= width.max(MIN_WIDTH), "{width}: {line}");
        }
    }
    let narrow = terminal(STREAM, 24, a_run());
    assert!(narrow.contains("\n  » countdown 1 tool ca…\n"), "{narrow}");
    assert!(narrow.contains("\nturn 1 · landing\n2 of 2 tool calls\n"), "{narrow}");
}

#[test]
fn escapes_of_models_and_tools_reach_no_terminal() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J";
    let kinds = [
        vec![begin(None), turn()],
        text(evil),
        call(evil, evil),
        ran(evil, true, evil),
        vec![
            EventKind::Signal {
                signal: "repeat",
                evidence: Evidence { call: Some(evil.to_owned()), ..Evidence::default() },
            },
            EventKind::Error { message: evil.to_owned(), report: report(Outcome::Failed, None) },
        ],
    ]
    .concat();
    for show in [STREAM, PIPED] {
        let shown = terminal(show, 80, kinds.clone());
        assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
        assert!(shown.contains("␛]0;owned␇"), "{shown}");
    }
}

#[test]
fn a_pipe_gets_the_answers_own_bytes() {
    let answer = "a\u{1b}[1mb\tc\r\nd";
    let pieces =
        all(PIPED, 80, [vec![begin(None), turn()], text(answer), vec![done(answer)]].concat());
    assert_eq!(of(OutputStream::Answer, &pieces), format!("{answer}\n"));
}

#[test]
fn text_before_a_call_ends_its_line() {
    let kinds = [
        vec![begin(None), turn()],
        text("now"),
        call("grep", ""),
        text("then"),
        vec![done("then")],
    ];
    let shown = terminal(STREAM, 80, kinds.concat());
    assert!(shown.ends_with("turn 1\nnow\n→ grep {}\nthen\n"), "{shown}");
}

#[test]
fn blank_lines_stay_within_a_text_and_go_before_it() {
    let deltas =
        ["\n", "\nfirst\n", "\nsecond"].map(|text| EventKind::TextDelta { text: text.to_owned() });
    let answer = "first\n\nsecond";
    let kinds =
        [vec![begin(None), turn(), EventKind::TextStart], deltas.to_vec(), vec![done(answer)]];
    let shown = terminal(STREAM, 80, kinds.concat());
    assert!(shown.ends_with("turn 1\nfirst\n\nsecond\n"), "{shown:?}");
}

#[test]
fn an_answer_that_was_no_text_is_shown_all_the_same() {
    let kinds =
        [vec![begin(None), turn()], call("respond", "{\"answer\":\"42\"}"), vec![done("42")]];
    let shown = terminal(STREAM, 80, kinds.concat());
    assert!(shown.ends_with("→ respond {\"answer\":\"42\"}\n42\n"), "{shown}");
}

#[test]
fn a_failed_run_marks_its_text_as_partial() {
    let failure = EventKind::Error {
        message: "the connection broke".to_owned(),
        report: report(Outcome::Failed, None),
    };
    let kinds = [vec![begin(None), turn()], text("half an ans"), vec![failure]].concat();
    let wanted =
        "half an ans\nthe text above is partial, not an answer\nerror: the connection broke\n";
    assert!(terminal(STREAM, 80, kinds.clone()).ends_with(wanted));
    let pieces = all(PIPED, 80, kinds);
    assert_eq!(of(OutputStream::Answer, &pieces), "");
    assert!(of(OutputStream::Notes, &pieces).ends_with(wanted));
}

#[test]
fn a_cancelled_run_is_no_error() {
    let cancelled = EventKind::Error {
        message: "cancelled".to_owned(),
        report: report(Outcome::Cancelled, None),
    };
    let shown = terminal(STREAM, 80, vec![begin(None), turn(), cancelled]);
    assert!(shown.ends_with("\nturn 1\n"), "{shown}");
}

#[test]
fn a_call_that_was_cut_shows_what_arrived_of_it() {
    for (arrived, wanted) in [("", "→ grep (cut off)\n"), ("{\"pa", "→ grep (cut off) {\"pa\n")]
    {
        let mut kinds = [vec![begin(None), turn()], call("grep", arrived)].concat();
        // The block never stops.
        kinds.pop();
        kinds.push(EventKind::Error {
            message: "cancelled".to_owned(),
            report: report(Outcome::Cancelled, None),
        });
        let shown = terminal(STREAM, 80, kinds);
        assert!(shown.ends_with(wanted), "{shown}");
    }
}

#[test]
fn thinking_is_shown_when_asked_for_and_ends_its_line() {
    let thinking = vec![
        EventKind::ThinkingStart,
        EventKind::ThinkingDelta { text: "let me".to_owned() },
        EventKind::ThinkingDelta { text: " see".to_owned() },
        EventKind::BlockStop { index: 0 },
    ];
    let kinds = [vec![begin(None), turn()], thinking, text("yes"), vec![done("yes")]].concat();
    let shown = terminal(ViewOptions { thinking: true, ..STREAM }, 80, kinds.clone());
    assert!(shown.ends_with("turn 1\nthinking: let me see\nyes\n"), "{shown}");
    assert!(!terminal(STREAM, 80, kinds).contains("let me"));
}

#[test]
fn long_inputs_and_results_are_bounded() {
    let long = "x".repeat(1 << 20);
    let kinds = [vec![begin(None), turn()], call("grep", &long), ran("grep", true, &long)].concat();
    let shown = terminal(STREAM, 80, kinds);
    assert!(shown.len() < 600, "{} bytes", shown.len());
    assert!(shown.lines().all(|line| line.width() <= 80));
}

fn lines(number: usize) -> String {
    (1..=number).map(|n| format!("line {n}\n")).collect()
}

#[test]
fn a_folded_result_says_how_to_see_it() {
    let kinds = [
        vec![begin(None), turn()],
        call("list_dir", "{}"),
        call("grep", "{}"),
        ran("grep", true, &lines(9)),
    ]
    .concat();
    let shown = |width| {
        let mut view = RunView::new(STREAM, width);
        view.set_locator(Some(CallLocator { run: "run-7".to_owned(), within: "3.1/".to_owned() }));
        let pieces = kinds.iter().flat_map(|kind| view.render_event(&event(1, kind.clone())));
        pieces.map(|piece| piece.text).collect::<String>()
    };
    let wide = shown(80);
    assert!(wide.ends_with("  … 5 more lines: softland show run-7 --call 3.1/1.2\n"), "{wide}");
    assert!(shown(40).ends_with("  … 5 more lines (--call 3.1/1.2)\n"));
    assert!(shown(24).ends_with("  … 5 more lines\n"));
}

#[test]
fn a_sub_agents_answer_that_is_kept_nowhere_is_shown_whole() {
    let kinds = [vec![begin(None), turn()], call("agent", "{}"), ran("agent", true, &lines(60))];
    let shown = terminal(STREAM, 80, kinds.concat());
    assert!(shown.contains("  │ line 60\n") && !shown.contains("more lines"), "{shown}");
}

#[test]
fn verbose_shows_phases_contexts_and_odd_turns() {
    let usage = |output| EventKind::Usage {
        input: 1000,
        output,
        cache_read: 200,
        cache_write: 0,
        cost_usd: None,
        request_id: Some("req-9".to_owned()),
    };
    let evidence =
        Evidence { turns: vec![1, 2], call: Some("grep".to_owned()), ..Evidence::default() };
    let kinds = [
        vec![begin(None), turn()],
        text("long enough to be an answer"),
        vec![usage(34), stands(1, None, "countdown")],
        text("."),
        vec![usage(1), EventKind::Signal { signal: "repeat", evidence }, turn(), usage(0)],
        vec![turn()],
    ]
    .concat();
    let shown = terminal(ViewOptions { verbose: 1, ..STREAM }, 80, kinds.clone());
    for wanted in [
        "turn 1 · silent\n",
        "turn 1 · countdown · 1 tool call\n",
        "  » usage: 1,000 in, 200 from cache, 0 to cache, 34 out · context 1,234 tokens\n",
        "  » odd turn 1: 1 character and no tool call, 1 token out\n",
        "  » odd turn 1: no text and no tool call, 0 tokens out\n",
        "  » signal repeat [turns 1, 2]: call grep\n",
    ] {
        assert!(shown.contains(wanted), "no {wanted} in\n{shown}");
    }
    assert_eq!(shown.matches("odd turn").count(), 2);
    assert!(!shown.contains("req-9"));
    let twice = terminal(ViewOptions { verbose: 2, ..STREAM }, 80, kinds.clone());
    assert!(twice.contains("    request req-9\n"), "{twice}");
    assert!(!terminal(STREAM, 80, kinds).contains("odd turn"));
}

#[test]
fn twice_verbose_leaves_nothing_out() {
    let long = "x".repeat(500);
    let input = format!("{{\"pattern\":\"{long}\"}}");
    let kinds = [
        vec![begin(None), turn()],
        call("grep", &input),
        ran("grep", true, &format!("{}{long}", lines(99))),
    ]
    .concat();
    let shown = terminal(ViewOptions { verbose: 2, ..STREAM }, 80, kinds);
    let bare: String = shown.lines().filter_map(|line| line.strip_prefix("  │ ")).collect();
    assert!(bare.starts_with(&input) && bare.ends_with(&long), "{shown}");
    assert!(shown.contains("  │ line 99\n") && !shown.contains("more lines"));
    assert!(shown.lines().all(|line| line.width() <= 80));
}

#[test]
fn a_sub_agents_error_is_wrapped_whole() {
    let message = "the provider said no ".repeat(12);
    let failed = EventKind::Error { message, report: report(Outcome::Failed, None) };
    let nested = ViewOptions { nested: true, ..PIPED };
    let shown = terminal(nested, 40, vec![begin(None), turn(), failed]);
    assert!(shown.lines().all(|line| line.width() <= 40), "{shown}");
    assert_eq!(shown.matches("said").count(), 12);
    // The same holds for its text before a call.
    let words = "I will look for that. ".repeat(6) + "\n\nNow.";
    let kinds = [vec![begin(None), turn()], text(&words), call("grep", "{}")].concat();
    let shown = terminal(nested, 20, kinds);
    assert!(shown.lines().all(|line| line.width() <= 20), "{shown}");
    assert!(shown.matches("look").count() == 6 && shown.contains("\n\nNow.\n"), "{shown}");
}

#[test]
fn markdown_is_rendered_between_the_notes() {
    let kinds = [
        vec![begin(None), turn()],
        text("I *will* look."),
        call("grep", "{}"),
        text("**Found**:\n\n- a\n- b"),
        vec![done("**Found**:\n\n- a\n- b")],
    ]
    .concat();
    let shown = terminal(ViewOptions { markdown: true, ..STREAM }, 80, kinds);
    assert!(shown.ends_with("turn 1\nI will look.\n→ grep {}\nFound:\n\n• a\n• b\n"), "{shown}");
    let respond = [vec![begin(None), turn()], call("respond", "{}"), vec![done("a **b**")]];
    let shown = terminal(ViewOptions { markdown: true, ..STREAM }, 80, respond.concat());
    assert!(shown.ends_with("→ respond {}\na b\n"), "{shown}");
}

#[test]
fn c87_a_table_is_no_json_and_what_servers_say_is_no_setting() {
    use softland_agent::core::policy::{LoopKey, LoopKind};
    let mut policy = Policy::default();
    let reads = || LoopKey::Kind(LoopKind::Reads);
    for n in 0..40 {
        policy.loop_keys.insert(format!("mcp__server__tool{n}"), reads());
    }
    assert_eq!(changed_keys(&policy), []);
    policy.loop_keys.insert("status".to_owned(), LoopKey::Kind(LoopKind::Polls));
    policy.loop_keys.insert("look".to_owned(), reads());
    policy.tool_limits.insert("grep".to_owned(), 5);
    let wanted = [("loop_keys", "look=reads, status=polls"), ("tool_limits", "grep=5")];
    assert_eq!(changed_keys(&policy), wanted.map(|(key, shown)| (key.into(), shown.into())));
    policy.loop_keys.extend((0..40).map(|n| (format!("tool{n}"), reads())));
    assert_eq!(changed_keys(&policy)[0].1, "for 42 tools");
}
