//! Finds a table row by a name as people, routes and hosts write it.
//!
//! This knows the usual wrappings of model ids and nothing of prices. It never guesses between
//! models: the name that is left after unwrapping has to be an exact name of the table.

use super::Model;
use super::table::{ALIASES, MODELS};

/// Further names of the table's providers.
const PROVIDER_NAMES: &[(&str, &str)] = &[
    ("anthropic", "anthropic"),
    ("deepseek", "deepseek"),
    ("gemini", "google"),
    ("google", "google"),
    ("grok", "xai"),
    ("groq", "groq"),
    ("mistral", "mistral"),
    ("mistralai", "mistral"),
    ("openai", "openai"),
    ("openrouter", "openrouter"),
    ("x-ai", "xai"),
    ("xai", "xai"),
];

/// Beginnings of first-party ids, for names that come without a provider.
const VENDOR_OF: &[(&str, &str)] = &[
    ("claude", "anthropic"),
    ("gpt-", "openai"),
    ("chatgpt-", "openai"),
    ("codex-", "openai"),
    ("ft:gpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("deepseek-", "deepseek"),
    ("gemini-", "google"),
    ("grok-", "xai"),
    ("mistral-", "mistral"),
    ("ministral-", "mistral"),
    ("magistral-", "mistral"),
    ("codestral", "mistral"),
    ("devstral", "mistral"),
];

/// The parts that hosts and routers write before an id (Bedrock inference profiles, `LiteLLM`
/// routes, OpenRouter's `~` for moving names). They are taken off repeatedly, longest first.
const PREFIXES: &[&str] = &[
    "vertex_ai/",
    "anthropic.",
    "bedrock/",
    "converse/",
    "global.",
    "vertex/",
    "models/",
    "us-gov.",
    "azure/",
    "apac.",
    "au.",
    "eu.",
    "jp.",
    "us.",
    "~",
];

/// The parts that routes write behind an id. `:free` has rows of its own; the row without it costs
/// more, so falling back to it is safe.
const SUFFIXES: &[&str] = &[
    "-latest",
    ":beta",
    ":exacto",
    ":extended",
    ":floor",
    ":free",
    ":latest",
    ":nitro",
    ":online",
    ":thinking",
    "[1m]",
    "@default",
    "@latest",
];

pub(super) fn find_model(provider: Option<&str>, model: &str) -> Option<&'static Model> {
    // The table's names are in lower case, so the wanted name is made so once for all comparisons.
    let lower = model.bytes().any(|byte| byte.is_ascii_uppercase());
    let lower = lower.then(|| model.to_ascii_lowercase());
    let model = lower.as_deref().unwrap_or(model).trim();
    match provider.and_then(find_provider) {
        Some("openrouter") => find_at_provider("openrouter", model).or_else(|| find_by_name(model)),
        // A host has its own prices: another vendor's row would be a guess.
        Some("groq") => find_at_provider("groq", model),
        Some(known) => find_at_provider(known, model).or_else(|| find_by_name(model)),
        None => find_by_name(model),
    }
}

fn find_provider(name: &str) -> Option<&'static str> {
    let row = PROVIDER_NAMES.iter().find(|row| row.0.eq_ignore_ascii_case(name))?;
    Some(row.1)
}

/// Finds a model by its name alone: `VENDOR/ID`, a first-party id, or an OpenRouter id.
fn find_by_name(model: &str) -> Option<&'static Model> {
    let bare = without_prefixes(model);
    if let Some((vendor, rest)) = bare.split_once('/')
        && let Some(provider) = find_provider(vendor)
        && let Some(found) = find_at_provider(provider, rest)
    {
        return Some(found);
    }
    let last = bare.rsplit('/').next().unwrap_or(bare);
    let vendor = VENDOR_OF.iter().find(|row| starts_with(last, row.0));
    (vendor.and_then(|row| find_at_provider(row.1, last)))
        .or_else(|| model.contains('/').then(|| find_at_provider("openrouter", model)).flatten())
}

/// Finds the first exact name among shorter and shorter forms of `model`.
fn find_at_provider(provider: &str, model: &str) -> Option<&'static Model> {
    find_exact(provider, model)
        .or_else(|| find_barer(provider, model))
        .or_else(|| find_barer(provider, without_prefixes(model)))
        .or_else(|| {
            // `anthropic/claude-…` sent to Anthropic itself.
            let (vendor, rest) = without_prefixes(model).split_once('/')?;
            (find_provider(vendor)? == provider).then(|| find_barer(provider, rest))?
        })
}

fn find_barer(provider: &str, model: &str) -> Option<&'static Model> {
    let mut name = model;
    loop {
        if let Some(found) = find_exact(provider, name) {
            return Some(found);
        }
        name = without_one_suffix(name)?;
    }
}

fn find_exact(provider: &str, name: &str) -> Option<&'static Model> {
    find_by_id(provider, name).or_else(|| {
        let found = ALIASES.binary_search_by(|row| (row.0, row.1).cmp(&(provider, name))).ok()?;
        find_by_id(provider, ALIASES.get(found)?.2)
    })
}

fn find_by_id(provider: &str, id: &str) -> Option<&'static Model> {
    let found = MODELS.binary_search_by(|row| (row.provider, row.id).cmp(&(provider, id))).ok()?;
    MODELS.get(found)
}

/// Returns `model` without all parts that hosts write before an id.
pub(super) fn without_prefixes(model: &str) -> &str {
    let mut name = model;
    while let Some(prefix) = PREFIXES.iter().find(|prefix| starts_with(name, prefix)) {
        name = name.get(prefix.len()..).unwrap_or("");
    }
    name
}

/// Returns `model` without its last route mark or date; `None` if it has none.
pub(super) fn without_one_suffix(model: &str) -> Option<&str> {
    let marked = SUFFIXES.iter().find_map(|mark| strip_end(model, mark));
    let shorter = marked
        .or_else(|| without_bedrock_version(model))
        .or_else(|| without_tuned_part(model))
        .or_else(|| without_date(model))?;
    (!shorter.is_empty()).then_some(shorter)
}

/// Takes off `…-v1:0` and `…-v1` (Bedrock's version of an id).
fn without_bedrock_version(model: &str) -> Option<&str> {
    let (stem, version) = model.rsplit_once("-v")?;
    let plain = version.split_once(':').map_or(version, |(major, _)| major);
    let digits = version.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    (plain.len() == 1 && digits && stem.contains("claude")).then_some(stem)
}

/// Turns `ft:gpt-4o-mini-2024-07-18:org::id` into `ft:gpt-4o-mini-2024-07-18`.
fn without_tuned_part(model: &str) -> Option<&str> {
    let rest = model.strip_prefix("ft:")?;
    let base = rest.find(':')?;
    model.get(..base + "ft:".len())
}

/// Takes off a date at the end: `-20250929`, `@20250929`, `-2025-09-29`.
fn without_date(model: &str) -> Option<&str> {
    let shape = |tail: usize, pattern: &[u8]| {
        let start = model.len().checked_sub(tail)?;
        let (stem, date) = (model.get(..start)?, model.get(start..)?);
        let fits = date.bytes().zip(pattern).all(|(byte, want)| match want {
            b'd' => byte.is_ascii_digit(),
            b'-' => byte == b'-',
            _ => byte == b'-' || byte == b'@',
        });
        (fits && date.get(1..3) == Some("20")).then_some(stem)
    };
    shape(11, b"-dddd-dd-dd").or_else(|| shape(9, b"?dddddddd"))
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

fn strip_end<'a>(text: &'a str, end: &str) -> Option<&'a str> {
    let stem = text.get(..text.len().checked_sub(end.len())?)?;
    let tail = text.get(stem.len()..)?;
    tail.eq_ignore_ascii_case(end).then_some(stem)
}
