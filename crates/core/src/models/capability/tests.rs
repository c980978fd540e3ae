//! The rows say what the sources say, and the safest row is safe.

use super::rows::ROWS;
use super::*;
use proptest::prelude::*;

extern crate std;

fn claude(model: &str) -> Capability {
    find_capability(Some("anthropic"), model)
}

#[test]
fn rows_have_sources_and_none_hides_another() {
    for (at, row) in ROWS.iter().enumerate() {
        assert!(row.source.len() > 3, "{}", row.pattern);
        assert!(row.capability.listed, "{}", row.pattern);
        assert!(row.capability.none, "{}", row.pattern);
        let earlier = ROWS.iter().take(at).find(|first| glob_matches(first.pattern, row.pattern));
        assert!(earlier.is_none(), "{} never counts", row.pattern);
        // Plain names have neither capitals nor dots.
        assert!(!row.pattern.contains('.') && row.pattern == row.pattern.to_ascii_lowercase());
    }
}

#[test]
fn every_priced_claude_from_3_on_is_listed() {
    let claudes = super::super::all_models().iter().filter(|row| row.provider == "anthropic");
    for row in claudes.filter(|row| !matches!(row.id, "claude-2" | "claude-v1")) {
        assert!(claude(row.id).listed, "{}", row.id);
    }
}

#[test]
fn forcing() {
    use Thinking::{Adaptive, Disabled, Enabled};
    // Never: `docs/governing.md` §14, fact 2.
    for model in [
        "claude-opus-5-5",
        "claude-fable-5-1",
        "claude-mythos-5-1",
        "claude-sonnet-5-5",
        "claude-fable-5",
    ] {
        for mode in [None, Some(Disabled), Some(Adaptive)] {
            assert!(!claude(model).may_force_tool(mode), "{model}");
        }
    }
    // Off or adaptive: fact 3 there.
    for model in ["claude-opus-5", "claude-opus-4-8", "claude-opus-4-6", "claude-sonnet-5"] {
        assert!(claude(model).may_force_tool(None), "{model}");
        assert!(claude(model).may_force_tool(Some(Adaptive)), "{model}");
        assert!(!claude(model).may_force_tool(Some(Enabled)), "{model}");
    }
    assert!(!claude("claude-sonnet-4-5-20250929").may_force_tool(Some(Enabled)));
    assert!(claude("claude-sonnet-4-5-20250929").may_force_tool(None));
    let deepseek = find_capability(Some("deepseek"), "deepseek-v4-flash");
    assert!(!deepseek.may_force_tool(None), "it thinks by default");
    assert!(deepseek.may_force_tool(Some(Disabled)));
    assert!(find_capability(Some("openai"), "gpt-5.6-sol").may_force_tool(None));
    assert!(
        !find_capability(Some("openrouter"), "anthropic/claude-sonnet-4.5").may_force_tool(None)
    );
    let bedrock = find_capability(Some("bedrock"), "us.anthropic.claude-sonnet-5-v1:0");
    assert!(bedrock.may_force_tool(Some(Disabled)) && !bedrock.may_force_tool(None));
}

#[test]
fn system_messages_binding_and_cache() {
    for model in [
        "claude-opus-4-8",
        "claude-opus-5",
        "claude-opus-5-5",
        "claude-fable-5",
        "claude-mythos-5-1",
    ] {
        assert!(claude(model).mid_system, "{model}");
    }
    for model in ["claude-sonnet-5", "claude-opus-4-7", "claude-haiku-4-5", "claude-sonnet-4-6"] {
        assert!(!claude(model).mid_system, "{model}");
    }
    for (model, bound) in [
        ("claude-opus-5-5", true),
        ("claude-fable-5-1", true),
        ("claude-sonnet-5-5", true),
        ("claude-opus-5", false),
        ("claude-fable-5", false),
    ] {
        assert_eq!(claude(model).prefix_bound, bound, "{model}");
    }
    for (model, tokens) in [
        ("claude-opus-5-5", 512),
        ("claude-fable-5", 512),
        ("claude-opus-4-8", 1024),
        ("claude-sonnet-5", 1024),
        ("claude-sonnet-4-6", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-opus-4-6", 4096),
        ("claude-opus-4-5-20251101", 4096),
        ("claude-haiku-4-5", 4096),
    ] {
        assert_eq!(claude(model).cache_minimum, tokens, "{model}");
    }
    assert_eq!(claude("claude-opus-5").none_cache, CacheEffect::Range);
    assert_eq!(claude("claude-opus-5").forced_cache, CacheEffect::Lost);
    assert_eq!(find_capability(Some("openai"), "gpt-5").none_cache, CacheEffect::Kept);
}

#[test]
fn thinking_modes() {
    // (disabled, enabled, adaptive, prefill): `docs/governing.md` §14, fact 6.
    for (model, modes) in [
        ("claude-opus-5-5", (false, false, true, false)),
        ("claude-fable-5", (false, false, true, false)),
        ("claude-sonnet-5-5", (false, false, true, false)),
        ("claude-haiku-5-5", (true, false, true, false)),
        ("claude-opus-5", (true, false, true, false)),
        ("claude-sonnet-5", (true, false, true, false)),
        ("claude-opus-4-7", (true, false, true, false)),
        ("claude-opus-4-6", (true, true, true, false)),
        ("claude-sonnet-4-6", (true, true, true, false)),
        ("claude-opus-4-5", (true, true, false, true)),
        ("claude-3-haiku-20240307", (true, false, false, true)),
    ] {
        let c = claude(model);
        let found = (c.thinking_disabled, c.thinking_enabled, c.thinking_adaptive, c.prefill);
        assert_eq!(found, modes, "{model}");
    }
}

#[test]
fn nudges() {
    use Thinking::{Disabled, Enabled};
    assert_eq!(claude("claude-opus-5").nudge_form(None, false), NudgeForm::MidSystem);
    assert_eq!(claude("claude-sonnet-5").nudge_form(None, false), NudgeForm::Pair);
    assert_eq!(claude("claude-sonnet-4-5").nudge_form(Some(Disabled), false), NudgeForm::Pair);
    assert_eq!(claude("claude-sonnet-4-5").nudge_form(Some(Enabled), false), NudgeForm::BareUser);
    assert_eq!(claude("claude-sonnet-4-5").nudge_form(Some(Enabled), true), NudgeForm::Pair);
    assert_eq!(Capability::SAFEST.nudge_form(Some(Enabled), false), NudgeForm::BareUser);
}

#[test]
fn unlisted_models_get_the_safest_row() {
    for model in ["", "fake-model", "claude-opus-6", "claude-opus-5-6", "my-llama"] {
        assert_eq!(claude(model), Capability::SAFEST, "{model}");
        assert!(!claude(model).may_force_tool(Some(Thinking::Disabled)));
    }
}

#[test]
fn globs() {
    for (pattern, text, fits) in [
        ("claude-*", "claude-opus-5", true),
        ("*", "", true),
        ("", "", true),
        ("", "x", false),
        ("a*c", "abbbc", true),
        ("a*c", "abbbd", false),
        ("*-latest", "X-LATEST", true),
        ("a*b*c", "a1b2b3c", true),
        ("a**", "a", true),
        ("claude-opus-5", "claude-opus-5-5", false),
    ] {
        assert_eq!(glob_matches(pattern, text), fits, "{pattern} {text}");
    }
}

/// The plain definition, exponential: `*` takes any number of bytes.
fn slow_match(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            slow_match(rest, text)
                || text.split_first().is_some_and(|(_, tail)| slow_match(pattern, tail))
        }
        (Some((a, pattern)), Some((b, text))) if a == b => slow_match(pattern, text),
        _ => false,
    }
}

proptest! {
    #[test]
    fn globs_are_what_they_are_defined_to_be(pattern in "[ab*]{0,7}", text in "[ab]{0,9}") {
        prop_assert_eq!(
            glob_matches(&pattern, &text),
            slow_match(pattern.as_bytes(), text.as_bytes())
        );
    }
}
