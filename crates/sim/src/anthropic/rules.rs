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

pub(crate) use signatures::{Issuer, Verified, wants_drop};

use crate::anthropic::error::Checked;
use crate::anthropic::request::Prompt;
use crate::json::Json;
use crate::models::Model;
use crate::request::Request;

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
pub(crate) fn check<'a>(
    request: &Request<'_>,
    endpoint: Endpoint,
    body: &'a Json,
    model: &'static Model,
) -> Checked<Prompt<'a>> {
    shape::check(request, endpoint, body, model)?;
    blocks::check(request, body)?;
    let prompt = Prompt::read(body, model)?;
    sampling::check(&prompt)?;
    marks::check(&prompt)?;
    tools::check(&prompt)?;
    thinking::check(request, &prompt)?;
    turns::check(&prompt)?;
    Ok(prompt)
}

/// Refuses an unknown field with 400.
fn extra<T>(path: &str) -> Checked<T> {
    crate::anthropic::error::bad(format!("{path}: Extra inputs are not permitted"))
}

/// Refuses with 400 unless every key of `json` is one of `known`.
fn only(json: &Json, path: &str, known: &[&str]) -> Checked {
    match json.entries().iter().find(|(key, _)| !known.contains(&key.as_str())) {
        Some((key, _)) if path.is_empty() => extra(key),
        Some((key, _)) => extra(&format!("{path}.{key}")),
        None => Ok(()),
    }
}
