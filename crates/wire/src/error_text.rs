//! A provider's text, made fit to be shown: bounded, with keys masked and markup removed. The
//! module does not interpret the text.

#[cfg(test)]
mod tests;
mod words;

pub use words::find_error_words;
pub(crate) use words::find_words;

/// Longest message kept, in characters.
const MESSAGE_LIMIT: usize = 1000;

/// Longest quotation of a body that is not the API's JSON, in characters.
const QUOTED: usize = 200;

/// Prefixes of vendors' API keys: OpenAI, DeepSeek and OpenRouter, Groq, xAI, Google.
const KEYS: [&str; 4] = ["sk-", "gsk_", "xai-", "AIza"];

/// Describes a body that is not the API's JSON by its first words, without any markup.
pub(crate) fn describe_garbage(body: &[u8]) -> String {
    let readable: String = body
        .utf8_chunks()
        .map(|chunk| chunk.valid())
        .take(16)
        .collect::<String>()
        .chars()
        .take(4 * MESSAGE_LIMIT)
        .collect();
    // Keys are masked before the text is cut, so that no part of a key at the cut remains.
    let words = bound_message(&strip_tags(&readable));
    if words.is_empty() {
        return "the answer has no readable body".to_owned();
    }
    let start: String = words.chars().take(QUOTED).collect();
    format!("not an answer of the API: {start}")
}

/// Returns at most [`MESSAGE_LIMIT`] characters of the text, with keys masked.
pub(crate) fn bound_message(text: &str) -> String {
    let masked = KEYS.iter().fold(text.to_owned(), |text, key| mask_keys(&text, key));
    masked.chars().take(MESSAGE_LIMIT).collect()
}

/// Removes `<…>` from the text and collapses whitespace.
fn strip_tags(text: &str) -> String {
    let mut out = String::new();
    let mut in_tag = false;
    for c in text.chars() {
        match c {
            '<' => in_tag = true,
            '>' if in_tag => {
                in_tag = false;
                out.push(' ');
            }
            _ if in_tag => {}
            _ => out.push(c),
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Masks anything that looks like an API key with this prefix: providers quote the key they refuse.
fn mask_keys(text: &str, prefix: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(prefix) {
        let (before, key) = rest.split_at(at);
        let end = key
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '.')))
            .unwrap_or(key.len());
        let (key, after) = key.split_at(end);
        out.push_str(before);
        // Shorter words with these letters, such as "task-based", are not keys.
        let is_word = before.chars().next_back().is_some_and(char::is_alphanumeric);
        if key.len() > 8 && !is_word {
            out.push_str(prefix);
            out.push_str("[masked]");
        } else {
            out.push_str(key);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}
