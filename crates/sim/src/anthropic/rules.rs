//! The provider's rules, one file per family, written from facts about the API and apart from the
//! code that has to obey them. Each rule is a function from a request to nothing or a refusal. The
//! first refusal wins, in the order below.
//!
//! Error texts are the provider's if one is recorded or documented. Other texts name the problem
//! and its place in the same manner.

mod blocks;
mod marks;
mod sampling;
mod shape;
mod signatures;
mod thinking;
mod tools;
mod turns;
mod version;

pub(crate) use signatures::{Issuer, VerifiedThinking, wants_drop};

use crate::anthropic::error::AnthropicResult;
use crate::anthropic::request::Prompt;
use crate::json::Json;
use crate::models::Model;
use crate::request::Request;

pub(crate) use version::check_version;

/// The endpoint to which a body was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Messages,
    CountTokens,
}

/// Checks everything that needs no memory of earlier requests.
///
/// # Errors
/// Returns the first refusal.
pub(crate) fn check_request<'a>(
    request: &Request<'_>,
    endpoint: Endpoint,
    body: &'a Json,
    model: &'static Model,
) -> AnthropicResult<Prompt<'a>> {
    shape::check_shape(request, endpoint, body, model)?;
    blocks::check_blocks(request, body)?;
    let prompt = Prompt::from_body(body, model)?;
    sampling::check_sampling(&prompt)?;
    version::check_removed(request, body)?;
    marks::check_marks(&prompt)?;
    tools::check_tools(&prompt)?;
    thinking::check_thinking(request, &prompt)?;
    turns::check_turns(&prompt)?;
    Ok(prompt)
}

/// Refuses an unknown field with 400.
fn refuse_extra<T>(path: &str) -> AnthropicResult<T> {
    crate::anthropic::error::refuse_with(format!("{path}: Extra inputs are not permitted"))
}

/// Refuses with 400 unless every key of `json` is one of `known`.
fn allow_only(json: &Json, path: &str, known: &[&str]) -> AnthropicResult {
    match json.entries().iter().find(|(key, _)| !known.contains(&key.as_str())) {
        Some((key, _)) if path.is_empty() => refuse_extra(key),
        Some((key, _)) => refuse_extra(&format!("{path}.{key}")),
        None => Ok(()),
    }
}
