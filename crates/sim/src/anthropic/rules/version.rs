//! The API's versions, and what the newer one has removed. (platform.claude.com, "API versions",
//! read 2026-11-20)

use crate::anthropic::error::{AnthropicResult, ensure, refuse_with};
use crate::json::Json;
use crate::request::Request;

/// The version that SDKs send since October 2026.
const NEWER: &str = "2026-10-21";
const KNOWN: [&str; 2] = ["2023-06-01", NEWER];

/// Refuses a request without a version, or with one that does not exist.
pub(crate) fn check_version(request: &Request<'_>) -> AnthropicResult {
    let Some(version) = request.header("anthropic-version") else {
        return refuse_with("anthropic-version: header is required");
    };
    ensure(KNOWN.contains(&version.trim()), || {
        format!("anthropic-version: \"{version}\" is not a valid version")
    })
}

/// Refuses what the newer version no longer has: parameters of sampling, even at their defaults,
/// documents in the model's messages, and citations in a user's texts.
pub(super) fn check_removed(request: &Request<'_>, body: &Json) -> AnthropicResult {
    if request.header("anthropic-version").map(str::trim) != Some(NEWER) {
        return Ok(());
    }
    for key in ["temperature", "top_p", "top_k"] {
        ensure(body.get(key).is_none(), || format!("{key}: not supported in API version {NEWER}"))?;
    }
    for (at, message) in body.get("messages").map_or(&[][..], Json::items).iter().enumerate() {
        let role = message.str_at("role").unwrap_or("");
        for (n, block) in message.get("content").map_or(&[][..], Json::items).iter().enumerate() {
            let gone = match (role, block.str_at("type")) {
                ("assistant", Some("document")) => true,
                ("user", Some("text")) => {
                    block.get("citations").is_some_and(|list| !list.items().is_empty())
                }
                _ => false,
            };
            ensure(!gone, || {
                format!("messages.{at}.content.{n}: not supported in API version {NEWER}")
            })?;
        }
    }
    Ok(())
}
