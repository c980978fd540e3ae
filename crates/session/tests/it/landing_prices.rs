//! What landing costs, as `examples/landing_prices.rs` runs it: the orderings that the ladder is
//! built on, not the dollars.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

#[path = "../../examples/landing_prices.rs"]
mod example;

use example::{MODELS, Price, Way, prices};
use softland_core::Rung;

/// Every model's prices, by way.
fn each(check: impl Fn(&str, &dyn Fn(Way) -> Price)) {
    for (model, _) in MODELS {
        let prices = prices(model).unwrap();
        let of = |way| prices.iter().find(|price| price.way == way).unwrap().clone();
        check(model, &of);
    }
}

#[test]
fn nothing_that_softland_sends_is_refused() {
    each(|model, of| {
        for way in [Way::Ask, Way::Refuse, Way::None, Way::Respond, Way::Local] {
            assert_eq!(of(way).refused, Vec::<String>::new(), "{model} {way:?}");
        }
        assert_eq!(of(Way::Ask).rung, Some(Rung::Ask), "{model}");
        assert_eq!(of(Way::Refuse).rung, Some(Rung::Refuse), "{model}");
        assert_eq!(of(Way::None).rung, Some(Rung::None), "{model}");
        assert_eq!((of(Way::Local).requests, of(Way::Local).cost_nano), (0, 0), "{model}");
    });
}

#[test]
fn the_run_has_a_hundred_thousand_tokens_and_asking_reads_nearly_all_of_them() {
    each(|model, of| {
        let usage = of(Way::Ask).usage;
        let total = usage.total_input();
        assert!((95_000..110_000).contains(&total), "{model}: {total}");
        assert!(usage.cache_read * 100 > total * 94, "{model}: {usage:?}");
        assert_eq!(of(Way::None).usage.total_input(), total, "{model}: the same request");
    });
}

#[test]
fn asking_is_the_cheapest_rung_that_can_answer() {
    each(|model, of| {
        let ask = of(Way::Ask).cost_nano;
        for way in [Way::Refuse, Way::None, Way::Respond] {
            assert!(ask < of(way).cost_nano, "{model} {way:?}");
        }
        assert!(ask <= of(Way::NoneKept).cost_nano, "{model}");
        // Even where the model calls once more first, it is cheaper than to lose the cache.
        assert!(of(Way::Refuse).cost_nano < of(Way::None).cost_nano, "{model}");
    });
}

#[test]
fn what_others_do_is_refused_or_costs_several_times_the_input() {
    each(|model, of| {
        let input = |price: &Price| {
            let output = softland_sim::find_model(model).unwrap().output_nano * price.usage.output;
            price.cost_nano - output
        };
        for way in [Way::DropTools, Way::ForceTool] {
            let price = of(way);
            let refused = !price.refused.is_empty();
            assert!(refused || input(&price) > 4 * input(&of(Way::Ask)), "{model} {way:?}");
        }
        let never_forced = softland_sim::find_model(model).unwrap().forced;
        let forbidden = never_forced == softland_sim::Forced::Never;
        assert_eq!(!of(Way::ForceTool).refused.is_empty(), forbidden, "{model}");
    });
}

#[test]
fn the_page_has_every_line_of_the_table() {
    example::main().unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/landing.md");
    let page = std::fs::read_to_string(page).unwrap();
    for (model, class) in MODELS {
        assert!(page.contains(class), "{model}: {class}");
        for way in Way::ALL {
            let start = format!("| {model} | {} |", way.label());
            assert!(page.contains(&start), "docs/landing.md lacks `{start}`");
        }
    }
}
