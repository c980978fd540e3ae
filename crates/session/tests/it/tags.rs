//! Calls that are written as text, in a gateway: what the client gets of a response however it is
//! cut, and what of a history is counted, told and landed. Over the three protocols.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod runs;
mod wire;

use std::num::NonZeroU32;
use std::sync::Arc;

use proptest::prelude::*;
use softland_core::policy::{Batch, Landing, Mode, Policy};
use softland_core::{Outcome, Role, Rung};
use softland_session::wire::Api;
use softland_session::wire::tags::{PartialBlocks, Shape, ShapedPiece, Shaper, StopAfter, Tags};
use softland_session::{Context, Done, Event, Exchange, Intervention, Output, ShapeNote, Step};

use wire::{APIS, Ends, Read, read, request, stream, whole};

fn tags() -> Tags {
    Tags::new(["use_tool"]).unwrap()
}

fn on() -> Shape {
    Shape { suppress_tail: true, ..Shape::watch_only(tags()) }
}

fn shapes() -> Vec<Shape> {
    let burst = StopAfter::Burst { burst_ms: 1000 };
    vec![
        Shape::watch_only(tags()),
        on(),
        Shape { partial: PartialBlocks::Drop, ..on() },
        Shape { drop_repeated: true, ..on() },
        Shape { stop_after: StopAfter::First, ..on() },
        Shape { stop_after: burst, ..Shape::watch_only(tags()) },
        Shape { max_tools: NonZeroU32::new(2), ..Shape::watch_only(tags()) },
    ]
}

fn block(name: &str) -> String {
    format!(
        "<use_tool>\n{{\"name\": \"{name}\", \"input\": {{\"path\": \"a <b> {{\"}}}}\n</use_tool>"
    )
}

fn context(api: Api, policy: Policy, shape: Option<Shape>) -> Context {
    let mut context = Context::new(Role::Gateway, policy, None, "claude-sonnet-4-5");
    context.api = api;
    context.shape = shape.map(Arc::new);
    context
}

fn begin(body: Vec<u8>, context: Context) -> (Exchange, Vec<u8>) {
    let mut exchange = Exchange::from_request(body, context, &mut Output::default()).unwrap();
    let Step::Send(sent) = exchange.next_step().unwrap() else { panic!("nothing is sent") };
    (exchange, sent.to_vec())
}

/// What came of one response.
struct Came {
    out: Output,
    done: Option<Box<Done>>,
    /// Whether softland ended it early.
    stopped: bool,
}

impl Came {
    fn read(&self, api: Api, streams: bool) -> Read {
        read(api, streams, &self.out.bytes)
    }

    fn calls(&self) -> Vec<(String, String)> {
        let calls = self.done.iter().flat_map(|done| &done.calls);
        calls.map(|call| (call.name.clone(), call.input.clone())).collect()
    }

    fn notes(&self) -> Vec<ShapeNote> {
        let notes = self.out.events.iter().filter_map(|event| match event {
            Event::Shaped(note) => Some(*note),
            _ => None,
        });
        notes.collect()
    }

    fn trimmed(&self) -> Vec<String> {
        let told = self.out.events.iter().filter_map(|event| match event {
            Event::Intervention { intervention: Intervention::TrimTail, text, .. } => text.clone(),
            _ => None,
        });
        told.collect()
    }
}

/// Feeds a stream in these pieces, as far as it is wanted.
fn feed<'p>(mut exchange: Exchange, pieces: impl IntoIterator<Item = &'p [u8]>) -> Came {
    let mut out = Output::default();
    for piece in pieces {
        exchange.push_bytes(piece, &mut out).unwrap();
        if exchange.is_stopped() {
            break;
        }
    }
    let stopped = exchange.is_stopped();
    exchange.finish_response(&mut out).unwrap();
    let done = match exchange.next_step().unwrap() {
        Step::Done(done) => Some(done),
        Step::Send(_) => None,
    };
    Came { out, done, stopped }
}

const ASKED: &[(&str, &str)] = &[("user", "What do the notes say?")];

fn streamed(api: Api, shape: &Shape, deltas: &[&str], ends: Ends, cut: usize) -> Came {
    let (exchange, _) =
        begin(request(api, true, ASKED), context(api, Policy::default(), Some(shape.clone())));
    let bytes = stream(api, deltas, ends);
    feed(exchange, bytes.chunks(cut.max(1)))
}

fn unstreamed(api: Api, shape: &Shape, text: &str, ends: Ends) -> Came {
    let (mut exchange, _) =
        begin(request(api, false, ASKED), context(api, Policy::default(), Some(shape.clone())));
    let mut out = Output::default();
    exchange.push_whole(&whole(api, text, ends), &mut out).unwrap();
    let stopped = exchange.is_stopped();
    let Step::Done(done) = exchange.next_step().unwrap() else { panic!("nothing more is sent") };
    Came { out, done: Some(done), stopped }
}

/// What the shaper alone makes of the whole text.
fn shaped(shape: &Shape, text: &str) -> String {
    let mut shaper = Shaper::new(Shape { stop_at_echo: true, ..shape.clone() });
    let mut sent = String::new();
    let mut take = |piece: ShapedPiece<'_>| sent.push_str(piece.forward_text().unwrap_or_default());
    shaper.push(text, &mut take).unwrap();
    shaper.finish(&mut take).unwrap();
    sent
}

/// Texts made of what matters in them.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        Just(block("ls")),
        Just(block("grep")),
        Just("<use_tool><name>x</name><path>a</use_tool></path></use_tool>".to_owned()),
        Just("<use_tool>\n{\"name\": ".to_owned()),
        Just("</use_tool>".to_owned()),
        Just("<use".to_owned()),
        Just("\n```\n".to_owned()),
        Just("\n[Tool Result]\nfine\n".to_owned()),
        Just("<tool_result>made up</tool_result>\n".to_owned()),
        Just("<think>hm</think>".to_owned()),
        Just("haha é 😀 \"quoted\" \\n".to_owned()),
        Just("\n\n".to_owned()),
        Just(" ".to_owned()),
        "[a-z<>/\\n\"{} ]{0,12}",
    ];
    // A blank answer is no answer: it is nudged, in a text or not.
    prop::collection::vec(pieces, 0..8).prop_map(|pieces| format!("I see. {}", pieces.concat()))
}

fn deltas<'t>(text: &'t str, cuts: &[usize]) -> Vec<&'t str> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
    at.extend([0, text.len()]);
    at.retain(|at| text.is_char_boundary(*at));
    at.sort_unstable();
    at.dedup();
    at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However a text is cut, its client gets what it gets of the whole: without streaming, and as
    /// the shaper says.
    #[test]
    fn b52_b55_the_client_gets_the_same_however_the_text_is_cut(
        text in texts(),
        cuts in prop::collection::vec(0..400_usize, 0..24),
        bytes in 1..90_usize,
        length in any::<bool>(),
    ) {
        let ends = if length { Ends::Length } else { Ends::Natural };
        for shape in shapes() {
            let wanted = shaped(&shape, &text);
            for api in APIS {
                let came = streamed(api, &shape, &deltas(&text, &cuts), ends, bytes);
                let alone = unstreamed(api, &shape, &text, ends);
                let (a, b) = (came.read(api, true), alone.read(api, false));
                prop_assert_eq!(&a.text, &wanted, "{:?} {:?}", api, shape);
                prop_assert_eq!(&a, &b, "{:?} {:?}", api, shape);
                prop_assert_eq!(came.calls(), alone.calls());
                prop_assert_eq!(came.notes(), alone.notes());
                if !came.stopped {
                    prop_assert_eq!(came.trimmed(), alone.trimmed());
                }
                prop_assert!(a.ends.is_some(), "{:?} ends as the protocol ends", api);
            }
        }
    }

    /// Of what softland shapes nothing is left out but what the shape says, and what is not shaped
    /// is the other side's bytes.
    #[test]
    fn b49_b57_what_is_not_changed_keeps_its_bytes(
        text in texts(),
        cuts in prop::collection::vec(0..400_usize, 0..24),
        bytes in 1..90_usize,
    ) {
        for api in APIS {
            let deltas = deltas(&text, &cuts);
            let sent = stream(api, &deltas, Ends::Natural);
            let (exchange, _) = begin(request(api, true, ASKED), context(api, Policy::default(), None));
            let plain = feed(exchange, sent.chunks(bytes));
            prop_assert!(plain.out.bytes == sent, "{:?} without a shape", api);
            for shape in [Shape::watch_only(tags()), Shape { drop_repeated: true, ..Shape::watch_only(tags()) }] {
                if shaped(&shape, &text) == text {
                    let came = streamed(api, &shape, &deltas, Ends::Natural, bytes);
                    prop_assert!(came.out.bytes == sent, "{:?} {:?}", api, shape);
                }
            }
        }
    }
}

#[test]
fn b49_off_passes_all_and_on_passes_up_to_the_last_block() {
    let text = format!("Well. {} and then some", block("ls"));
    for api in APIS {
        let off = streamed(api, &Shape::watch_only(tags()), &[&text], Ends::Natural, 4096);
        assert!(off.out.bytes == stream(api, &[&text], Ends::Natural), "{api:?}: byte for byte");
        let on = streamed(api, &on(), &[&text], Ends::Natural, 4096);
        let wanted = Read { text: format!("Well. {}", block("ls")), ends: Some(Ends::Natural) };
        assert_eq!(on.read(api, true), wanted);
    }
}

#[test]
fn b50_without_a_block_all_passes_byte_for_byte() {
    for text in ["Just an answer <", "ends in <use", "a <b>c</b> <use_tool", "so:\n```rust"] {
        for api in APIS {
            for shape in shapes() {
                let came = streamed(api, &shape, &[text], Ends::Natural, 7);
                let wanted = shaped(&shape, text);
                assert_eq!(came.read(api, true).text, wanted, "{api:?} {shape:?}");
                if wanted == text {
                    assert!(
                        came.out.bytes == stream(api, &[text], Ends::Natural),
                        "{api:?} {shape:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn b51_b61_preamble_burst_and_fences() {
    let fenced = format!("```\n{}\n```\n", block("no"));
    let text = format!("{fenced}First. {}\nThen {}\nso.", block("a"), block("b"));
    for api in APIS {
        let came = streamed(api, &on(), &[&text], Ends::Natural, 50);
        let wanted = format!("{fenced}First. {}\nThen {}", block("a"), block("b"));
        assert_eq!(came.read(api, true).text, wanted);
        let names: Vec<_> = came.calls().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b"], "what stands in a fence is text");
        assert_eq!(came.calls()[0].1, "{\"path\": \"a <b> {\"}", "b60: the argument is whole");
    }
}

#[test]
fn b53_b54_what_is_dropped_is_said_once() {
    let text = format!("{} tail {}", block("a"), "<use_tool> <use_tool> half");
    for api in APIS {
        let came = streamed(api, &on(), &[&text], Ends::Natural, 64);
        let dropped = text.len() - block("a").len();
        assert_eq!(came.trimmed(), [format!("{dropped} bytes dropped")], "{api:?}");
        let partial = ShapeNote::Partial { bytes: 26, passed: false, nested: 1 };
        assert_eq!(came.notes(), [partial], "{api:?}");
        let whole = streamed(api, &on(), &[&block("a")], Ends::Natural, 64);
        assert!(whole.trimmed().is_empty() && whole.notes().is_empty());
        // Open at the end, and no call before it: as the policy says.
        let open = "So <use_tool> half";
        let passed = streamed(api, &on(), &[open], Ends::Natural, 64);
        assert_eq!(passed.read(api, true).text, open);
        let drop = Shape { partial: PartialBlocks::Drop, ..on() };
        let dropped = streamed(api, &drop, &[open], Ends::Natural, 64);
        assert_eq!(dropped.read(api, true).text, "So ");
        assert_eq!(dropped.trimmed(), ["15 bytes dropped"]);
    }
}

#[test]
fn b56_first_and_max_tools_end_the_stream_and_say_so() {
    let text = format!("One {} two {} three {}", block("a"), block("b"), block("c"));
    for api in APIS {
        for (shape, passes, reason) in [
            (Shape { stop_after: StopAfter::First, ..on() }, 1, "first"),
            (Shape { max_tools: NonZeroU32::new(2), ..on() }, 2, "max_tools"),
        ] {
            let pieces: Vec<&str> = text.split_inclusive(' ').collect();
            let came = streamed(api, &shape, &pieces, Ends::Length, 40);
            assert!(came.stopped, "{api:?}: the upstream is to be given up");
            let got = came.read(api, true);
            assert_eq!(got.ends, Some(Ends::Natural), "{api:?}: it ends with stop");
            assert_eq!(came.calls().len(), passes);
            assert!(got.text.ends_with("</use_tool>"));
            let said: Vec<String> = came.notes().iter().map(ToString::to_string).collect();
            assert_eq!(said, [format!("the response was ended early: {reason}")]);
            // What was received until then is what it costs.
            assert!(came.done.unwrap().spent.output > 0, "{api:?}");
        }
    }
}

#[test]
fn b55_without_streaming_a_text_is_shaped_alike() {
    let text = format!("So. {} tail", block("a"));
    for api in APIS {
        let came = unstreamed(api, &on(), &text, Ends::Length);
        let wanted = Read { text: format!("So. {}", block("a")), ends: Some(Ends::Natural) };
        assert_eq!(came.read(api, false), wanted, "{api:?}");
        assert_eq!((came.calls().len(), came.trimmed().len()), (1, 1));
        let plain = unstreamed(api, &on(), "Just words <use", Ends::Natural);
        assert!(plain.out.bytes == whole(api, "Just words <use", Ends::Natural), "{api:?}");
    }
}

#[test]
fn b62_held_text_is_told_of_so_that_its_client_can_be_kept_alive() {
    for api in APIS {
        let (mut exchange, _) =
            begin(request(api, true, ASKED), context(api, Policy::default(), Some(on())));
        let bytes = stream(api, &["Well, ", &block("a"), " and so on"], Ends::Natural);
        let at = bytes.windows(6).position(|w| w == b"Well, ").unwrap();
        let mut out = Output::default();
        exchange.push_bytes(&bytes[..at], &mut out).unwrap();
        assert!(!exchange.holds_text(), "{api:?}: there is no text yet");
        let end = bytes.windows(9).position(|w| w == b"and so on").unwrap();
        let frame = bytes[end..].windows(2).position(|w| w == b"\n\n").unwrap() + 2;
        exchange.push_bytes(&bytes[at..end + frame], &mut out).unwrap();
        assert!(exchange.holds_text(), "{api:?}");
    }
}

#[test]
fn b56_a_burst_ends_when_no_further_call_begins_in_time() {
    let shape = Shape { stop_after: StopAfter::Burst { burst_ms: 500 }, ..on() };
    for api in APIS {
        let (mut exchange, _) =
            begin(request(api, true, ASKED), context(api, Policy::default(), Some(shape.clone())));
        let bytes = stream(api, &[&block("a"), " and", " so", " on"], Ends::Natural);
        let at = bytes.windows(3).position(|w| w == b" so").unwrap();
        let mut out = Output::default();
        exchange.advance_clock(1000, &mut out);
        assert_eq!(exchange.shape_deadline_ms(), None);
        exchange.push_bytes(&bytes[..at - 30], &mut out).unwrap();
        assert!(exchange.holds_text(), "b62: the client needs a sign of life");
        assert_eq!(exchange.shape_deadline_ms(), Some(1500), "{api:?}");
        exchange.advance_clock(1400, &mut out);
        assert!(!exchange.is_stopped());
        exchange.advance_clock(1500, &mut out);
        assert!(exchange.is_stopped(), "{api:?}");
        exchange.finish_response(&mut out).unwrap();
        assert!(matches!(exchange.next_step().unwrap(), Step::Done(_)));
        let wanted = Read { text: block("a"), ends: Some(Ends::Natural) };
        assert_eq!(read(api, true, &out.bytes), wanted, "{api:?}");
    }
}

#[test]
fn b57_only_whole_repetitions_are_taken_out() {
    let shape = Shape { drop_repeated: true, ..Shape::watch_only(tags()) };
    let text = format!("haha {}\n{}\n{} haha", block("a"), block("a"), block("b"));
    for api in APIS {
        let came = streamed(api, &shape, &[&text], Ends::Natural, 33);
        let wanted = format!("haha {}\n\n{} haha", block("a"), block("b"));
        assert_eq!(came.read(api, true).text, wanted);
        assert_eq!(came.calls().len(), 2);
    }
}

#[test]
fn b39_what_follows_a_call_with_an_invented_result_is_dropped() {
    let text = format!("I look. {}\n[Tool Result]\nAll is well.", block("a"));
    for api in APIS {
        for streams in [true, false] {
            let came = match streams {
                true => streamed(api, &on(), &[&text], Ends::Natural, 20),
                false => unstreamed(api, &on(), &text, Ends::Natural),
            };
            assert_eq!(came.read(api, streams).text, format!("I look. {}", block("a")));
            assert_eq!(came.calls().len(), 1, "the client runs it, and gets a result that is one");
            let echo = |event: &Event| matches!(event, Event::Signal(signal) if signal.signal.word() == "echo");
            assert!(came.out.events.iter().any(echo));
        }
    }
}

#[test]
fn observed_only_the_bytes_stay_and_the_calls_are_seen() {
    let policy = Policy { mode: Mode::Observe, ..Policy::default() };
    let text = format!("{} tail\n[Tool Result]\n{}", block("a"), block("a"));
    for api in APIS {
        let shape = Shape { drop_repeated: true, stop_after: StopAfter::First, ..on() };
        let (exchange, _) =
            begin(request(api, true, ASKED), context(api, policy.clone(), Some(shape)));
        let sent = stream(api, &[&text], Ends::Natural);
        let came = feed(exchange, [sent.as_slice()]);
        assert!(came.out.bytes == sent, "{api:?}");
        assert_eq!(came.calls().len(), 2);
    }
}
