//! Rules for `temperature`, `top_p`, `top_k`.

use crate::anthropic::error::{AnthropicResult, ensure};
use crate::anthropic::request::{Prompt, Thinking};
use crate::json::Json;

pub(super) fn check_sampling(prompt: &Prompt<'_>) -> AnthropicResult {
    let number = |key: &str| prompt.body.get(key).and_then(Json::as_f64);
    for key in ["temperature", "top_p"] {
        ensure(number(key).is_none_or(|x| (0.0..=1.0).contains(&x)), || {
            format!("{key}: range: 0..1")
        })?;
    }
    let set = |key: &str, default: Option<f64>| {
        number(key).is_some_and(|x| default.is_none_or(|d| (x - d).abs() > f64::EPSILON))
    };
    let changed = [("temperature", Some(1.0)), ("top_p", Some(1.0)), ("top_k", None)]
        .into_iter()
        .find(|(key, default)| set(key, *default));
    let Some((key, _)) = changed else { return Ok(()) };
    ensure(prompt.model.sampling, || {
        format!("{key}: only the default value is supported for this model")
    })?;
    let thinking = prompt.thinking != Thinking::Off;
    ensure(!(thinking && key == "temperature"), || {
        "`temperature` may only be set to 1 when thinking is enabled.".to_owned()
    })?;
    ensure(!(thinking && key == "top_k"), || {
        "`top_k` must be unset when thinking is enabled.".to_owned()
    })
}
