//! Contents and numbers in the forms that many recordings share: a text or a list of parts, and
//! dollars.

use softland_session::ResultReader;
use softland_session::core::{Digest, NanoUsd, ToolResult};
use softland_session::wire::json::Str;

use crate::fields::{Fields, array_elements, decode_string};

/// Calls `take` with each text of a content, which is a text or a list of texts and parts. Returns
/// the digest of everything else that it holds, if there is any.
pub(crate) fn each_text<'a>(content: &'a str, take: &mut dyn FnMut(Str<'a>)) -> Option<Digest> {
    if let Some(text) = decode_string(content) {
        take(text);
        return None;
    }
    let mut media = None;
    for part in array_elements(content) {
        let text = decode_string(part).or_else(|| {
            let part = Fields::from_json(part).ok()?;
            part.str("text").or_else(|| part.str("content"))
        });
        match text {
            Some(text) => take(text),
            None => add_media(&mut media, part),
        }
    }
    media
}

/// Adds a part that is no text to the digest of such parts.
pub(crate) fn add_media(media: &mut Option<Digest>, part: &str) {
    let before = media.unwrap_or(Digest::EMPTY);
    *media = Some(before.followed_by(Digest::from_bytes(part.as_bytes())));
}

/// Returns the texts of a content, and the digest of everything else that it holds, if there is any.
pub(crate) fn collect_texts(content: &str) -> (Vec<String>, Option<Digest>) {
    let mut texts = Vec::new();
    let media = each_text(content, &mut |text| texts.push(text.unescape().into_owned()));
    (texts, media)
}

/// Reads the content of a result, which is a text, a list of parts, or any other value.
pub(crate) fn read_result(content: &str, failed: bool) -> ToolResult<'static> {
    let mut read = ResultReader::default();
    if content.starts_with(['"', '[']) {
        if each_text(content, &mut |text| read.add_text(text)).is_some() {
            read.add_media(content);
        }
    } else if !matches!(content, "" | "null") {
        crate::fields::with_str(content, |text| read.add_text(text));
    }
    let facts = read.to_facts();
    ToolResult { failed: failed || facts.failed, ..facts }
}

/// Returns an amount of dollars.
pub(crate) fn parse_dollars(fields: &Fields<'_>, key: &str) -> Option<NanoUsd> {
    let raw = fields.raw(key)?;
    raw.trim_matches('"').parse::<f64>().ok().and_then(NanoUsd::from_dollars)
}

/// Returns the arguments of a call: as written, or as the JSON in a text.
pub(crate) fn read_arguments(raw: Option<&str>) -> String {
    match raw.and_then(decode_string) {
        Some(text) => text.unescape().into_owned(),
        None => raw.unwrap_or("{}").to_owned(),
    }
}
