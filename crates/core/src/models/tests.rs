//! The generated table is in order and sane; names are found as people write them.

use super::table::{ALIASES, MODELS};
use super::*;
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;
use std::println;

extern crate std;

fn id(provider: Option<&str>, model: &str) -> Option<(&'static str, &'static str)> {
    find_model(provider, model).map(|row| (row.provider, row.id))
}

#[test]
fn the_table_is_sorted_and_without_duplicates() {
    assert!(all_models().len() > 500);
    assert!(MODELS.is_sorted_by(|a, b| (a.provider, a.id) < (b.provider, b.id)));
    assert!(ALIASES.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1)));
    for row in MODELS {
        assert_eq!(row.id, row.id.to_ascii_lowercase());
        assert_eq!(find_model(Some(row.provider), row.id), Some(row));
    }
    for (provider, alias, target) in ALIASES {
        assert_eq!(*alias, alias.to_ascii_lowercase());
        assert_eq!(id(Some(provider), alias), Some((*provider, *target)), "{alias}");
    }
    assert_eq!(TABLE_DATE.len(), "2026-11-21".len());
    assert!(TABLE_SOURCE.starts_with("genai-prices "));
}

#[test]
fn prices_are_sane() {
    for row in MODELS {
        let free = row.id.ends_with(":free");
        let p = row.price;
        assert!(free || p.input > 0 || p.output == 0, "{row:?}");
        assert!(row.tiers.is_sorted_by_key(|tier| tier.above));
        assert!(row.tiers.is_empty() || row.hours.is_empty(), "{row:?}");
        assert!(row.hours.iter().all(|h| h.from_minute < h.until_minute && h.until_minute <= 1440));
        // A thousand dollars per million tokens is a slip of the unit.
        assert!(p.output < 1_000_000_000, "{row:?}");
        if row.provider == "anthropic" {
            let written = [p.cache_write_5m, p.cache_write_1h];
            assert!(p.cache_read <= p.input && written.iter().all(|w| *w >= p.input), "{row:?}");
        }
        if let (Some(window), Some(output)) = (row.context_window, row.max_output) {
            assert!(output <= window, "{row:?}");
        }
    }
}

#[test]
fn known_prices() {
    let opus = find_model(Some("anthropic"), "claude-opus-5-5").unwrap();
    // $4 in, $20 out, reads at 0.05, 1.25 and 2 times for writes.
    assert_eq!(
        opus.price,
        Price {
            input: 4_000_000,
            output: 20_000_000,
            cache_read: 200_000,
            cache_write_5m: 5_000_000,
            cache_write_1h: 8_000_000,
        }
    );
    assert_eq!(opus.max_output, Some(128_000));
    assert_eq!(opus.context_window, Some(1_000_000));
    // A million input tokens and a thousand output tokens: $4.02.
    assert_eq!(opus.price.cost_nano(1_000_000, 1_000, 0, 0, 0), 4_020_000_000);
    let haiku = find_model(Some("anthropic"), "claude-haiku-5-5").unwrap();
    assert_eq!(haiku.price_for(100_000, None).input, 100_000);
    assert_eq!(haiku.price_for(100_001, None).input, 500_000);
    assert_eq!(haiku.highest_price(50_000).input, 100_000);
    assert_eq!(haiku.highest_price(200_000).output, 2_500_000);
    let night = find_model(Some("deepseek"), "deepseek-v4-flash").unwrap();
    assert_eq!(night.price_for(10, None).input, 150_000);
    assert_eq!(night.price_for(10, Some(59)).input, 150_000);
    assert_eq!(night.price_for(10, Some(60)).input, 300_000);
    assert_eq!(night.price_for(10, Some(240)).input, 150_000);
    assert_eq!(night.highest_price(10).input, 300_000);
}

#[test]
fn costs_round_up_once_and_saturate() {
    let price =
        Price { input: 37_500, output: 1, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };
    assert_eq!(price.cost_nano(0, 0, 0, 0, 0), 0);
    assert_eq!(price.cost_nano(1, 0, 0, 0, 0), 38);
    assert_eq!(price.cost_nano(2, 0, 0, 0, 0), 75);
    assert_eq!(price.cost_nano(1_000_000, 0, 0, 0, 0), 37_500_000);
    assert_eq!(price.cost_nano(0, 1, 0, 0, 0), 1);
    assert_eq!(price.cost_nano(u64::MAX, u64::MAX, 1, 1, 1), u64::MAX);
    assert_eq!(price.highest_input(true), 37_500);
}

#[test]
fn names_are_unwrapped() {
    let opus_4_5 = Some(("anthropic", "claude-opus-4-5"));
    for name in [
        "claude-opus-4-5",
        "claude-opus-4-5-20251101",
        "claude-opus-4-5@20251101",
        "Claude-Opus-4-5-latest",
        "claude-opus-4.5",
        "anthropic/claude-opus-4.5",
        "us.anthropic.claude-opus-4-5-20251101-v1:0",
        "bedrock/us.anthropic.claude-opus-4-5-20251101-v1:0",
        "anthropic.claude-opus-4-5",
        "vertex_ai/claude-opus-4-5@20251101",
        "claude-opus-4-5[1m]",
        " claude-opus-4-5 ",
    ] {
        for provider in [None, Some("anthropic"), Some("bedrock"), Some("mine")] {
            assert_eq!(id(provider, name), opus_4_5, "{provider:?} {name}");
        }
    }
    let sonnet = Some(("openrouter", "anthropic/claude-sonnet-4.5"));
    assert_eq!(id(Some("openrouter"), "anthropic/claude-sonnet-4.5"), sonnet);
    assert_eq!(id(Some("OpenRouter"), "anthropic/claude-sonnet-4.5:beta"), sonnet);
    assert_eq!(id(None, "openai/gpt-4o"), Some(("openai", "gpt-4o")));
    assert_eq!(id(Some("openai"), "gpt-4o-2024-08-06"), Some(("openai", "gpt-4o")));
    // A dated id with a price of its own keeps it.
    assert_eq!(id(Some("openai"), "gpt-4o-2024-05-13"), Some(("openai", "gpt-4o-2024-05-13")));
    assert_eq!(id(Some("openai"), "ft:gpt-4o-2024-08-06:org::abc"), Some(("openai", "ft:gpt-4o")));
    assert_eq!(id(Some("x-ai"), "grok-4.7"), Some(("xai", "grok-4.7")));
    assert_eq!(id(Some("xai"), "grok-4.7"), Some(("xai", "grok-4.7")));
    assert_eq!(id(None, "z-ai/glm-4.6"), Some(("openrouter", "z-ai/glm-4.6")));
}

#[test]
fn nothing_is_guessed() {
    for name in [
        "",
        "-20250929",
        "claude",
        "claude-opus",
        "claude-opus-6",
        "claude-opus-4-5-turbo",
        "claude-nonexistent-model-for-error-edge",
        "gpt-5-unheard-of",
        "openai/gpt-nonexistent-routed-model",
        "fake-model",
        "/",
        "anthropic/",
    ] {
        for provider in [None, Some("anthropic"), Some("openai"), Some("openrouter"), Some("groq")]
        {
            assert_eq!(id(provider, name), None, "{provider:?} {name}");
        }
    }
    // A host's prices are its own.
    assert_eq!(id(Some("groq"), "claude-opus-4-5"), None);
}

/// Every model that a recording of Anthropic's API names has a price, but the one that was
/// made up to get a 404.
#[test]
#[ignore = "reads recordings from ../shared"]
fn recorded_anthropic_models_are_found() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/recordings/anthropic");
    let files = std::fs::read_dir(root).unwrap();
    let mut names: Vec<String> = Vec::new();
    for file in files.flatten() {
        let text = std::fs::read_to_string(file.path()).unwrap();
        for part in text.split("\"model\":").skip(1) {
            let name = part.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
            names.extend(name.map(String::from));
        }
    }
    names.sort();
    names.dedup();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        let known = find_model(Some("anthropic"), &name).is_some();
        assert_eq!(known, !name.contains("nonexistent"), "{name}");
        if known {
            assert!(find_capability(Some("anthropic"), &name).listed, "{name}");
        }
    }
}

fn claudes() -> Vec<&'static Model> {
    MODELS.iter().filter(|row| row.provider == "anthropic").collect()
}

proptest! {
    #[test]
    fn any_name_is_looked_up_without_a_panic(name in ".{0,40}", provider in "[a-z-]{0,12}") {
        let found = find_model(Some(&provider), &name).or_else(|| find_model(None, &name));
        let blank = name.trim().is_empty();
        prop_assert!(!(blank && found.is_some()));
        prop_assert!(find_capability(Some(&provider), &name).cache_minimum > 0);
    }

    #[test]
    fn wrapping_a_name_does_not_change_the_model(
        row in proptest::sample::select(claudes()),
        date in "20[0-9]{6}",
        wrap in 0..4usize,
    ) {
        let wrapped = match wrap {
            0 => alloc::format!("{}-{date}", row.id),
            1 => alloc::format!("anthropic/{}", row.id),
            2 => alloc::format!("eu.anthropic.{}-v1:0", row.id),
            _ => row.id.to_ascii_uppercase(),
        };
        prop_assert_eq!(id(None, &wrapped), Some((row.provider, row.id)));
    }

    #[test]
    fn the_dearest_price_bounds_every_other(
        at in 0..MODELS.len(),
        tokens in 0u64..2_000_000,
        minute in proptest::option::of(0u16..1440),
    ) {
        let row = &MODELS[at];
        let (paid, bound) = (row.price_for(tokens, minute), row.highest_price(tokens));
        prop_assert_eq!(paid.max(bound), bound);
    }
}

/// As `tests/recordings_required.rs` does in the other crates, for a crate without the standard
/// library.
#[test]
#[expect(clippy::disallowed_methods, reason = "the environment and a child process of a test")]
fn tests_of_recordings_pass() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    if std::fs::read_dir(folder).is_err() {
        let required = std::env::var("SOFTLAND_RECORDINGS").is_ok_and(|value| value == "require");
        assert!(!required, "SOFTLAND_RECORDINGS=require is set, and there is no {folder}");
        println!("skipped: there is no {folder}");
        return;
    }
    let tests = std::env::current_exe().unwrap();
    let run = std::process::Command::new(tests).args(["--ignored", "record"]).output().unwrap();
    let shown = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && !shown.contains("running 0 tests"), "{shown}");
}
