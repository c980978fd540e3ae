//! Properties of the shaper over generated texts.

use proptest::prelude::*;
use softland_wire::tags::parse_text;

use crate::support::cases;
use crate::tags::{
    body::{
        self, Seeded, cut, off,
        reference::{self, Got, joined},
        shaped as run, shapes, tags,
    },
    forwarded, texts,
};

fn any_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => prop::sample::select(texts::PARTS).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => "[ -~\n]{0,12}",
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(2000), ..ProptestConfig::default() })]

    #[test]
    fn any_text_however_cut_is_shaped_as_the_reference_says(
        text in any_text(),
        seed in any::<u64>(),
        which in 0..10_usize,
    ) {
        let shape = &shapes()[which];
        let chunks = cut(&text, &mut Seeded(seed));
        let (got, summary) = run(shape, chunks);
        prop_assert_eq!(&got, &joined(reference::shape(&text, shape)));
        let calls = got.iter().filter(|piece| matches!(piece, Got::Block { .. })).count();
        prop_assert_eq!(summary.calls as usize, calls);
        prop_assert!(got.iter().filter(|piece| matches!(piece, Got::Trimmed(_))).count() <= 1);
    }

    #[test]
    fn without_suppression_no_byte_is_lost_or_doubled(text in any_text(), seed in any::<u64>()) {
        let chunks = cut(&text, &mut Seeded(seed));
        let (got, summary) = run(&off(), chunks);
        prop_assert_eq!(forwarded(&got), text);
        prop_assert_eq!(summary.dropped_bytes, 0);
    }

    #[test]
    fn what_is_sent_and_what_is_dropped_add_up(text in any_text(), which in 0..10_usize) {
        body::adds_up(&text, &run(&shapes()[which], [text.as_str()]));
    }

    #[test]
    fn a_text_is_read_as_it_is_shaped(text in any_text()) {
        let reading = parse_text(&text, &tags());
        let (got, summary) = run(&off(), [text.as_str()]);
        let blocks: Vec<_> = got
            .iter()
            .filter_map(|piece| if let Got::Block { raw, .. } = piece { Some(raw.as_str()) } else { None })
            .collect();
        prop_assert_eq!(reading.blocks.iter().map(|found| found.block.raw).collect::<Vec<_>>(), blocks);
        prop_assert_eq!(reading.open.is_some(), summary.partial);
        prop_assert_eq!(reading.echo.is_some(), summary.echo);
        let mut spans = reading.texts.clone();
        spans.extend(reading.blocks.iter().map(|found| found.span));
        spans.extend(reading.open);
        spans.sort();
        let all: String = spans.iter().map(|span| span.slice_of(&text)).collect();
        prop_assert_eq!(all, text);
    }

    /// The body of the fuzz target.
    #[test]
    fn any_bytes_are_shaped(
        choice in any::<[u8; 2]>(),
        text in prop_oneof![any_text().prop_map(String::into_bytes), any::<Vec<u8>>()],
    ) {
        body::run(&[&choice[..], &text].concat());
    }
}
