//! Refusals in the shape of OpenAI's errors, and in that of other vendors with its protocols. This
//! module knows statuses and shapes, not rules.

use crate::bodies::whole;
use crate::json::{Json, map};
use crate::models::open::Dialect;
use crate::reply::Response;

/// The reason why a request was refused.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    param: Option<String>,
    code: Option<&'static str>,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    OpenAi,
    DeepSeek,
    OpenRouter,
    /// The error of the provider behind OpenRouter.
    Upstream,
    Zai,
}

pub(crate) type Checked<T = ()> = Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, kind, message, param: None, code: None, shape: Shape::OpenAi }
    }

    /// Creates a 400 `invalid_request_error`.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    /// Creates a 400 of a Claude behind another vendor.
    pub(crate) fn upstream(message: impl Into<String>) -> Self {
        Self { shape: Shape::Upstream, ..Self::bad(message) }
    }

    /// Creates the refusal of an unlisted model.
    pub(crate) fn unlisted(id: &str) -> Self {
        if id.contains('/') {
            let message = format!("{id} is not a valid model ID");
            return Self { shape: Shape::OpenRouter, ..Self::bad(message) };
        }
        let message = format!("The model `{id}` does not exist or you do not have access to it.");
        Self::new(404, "invalid_request_error", message).code("model_not_found")
    }

    /// Creates the refusal of an unknown scenario, requested as a model.
    pub(crate) fn no_scenario(message: String) -> Self {
        Self::new(404, "invalid_request_error", message).code("model_not_found")
    }

    pub(crate) fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn at(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// Returns the `error` object in OpenAI's own shape.
    pub(crate) fn error(&self) -> Json {
        let text = |t: Option<&str>| t.map_or(Json::Null, Json::from);
        map([
            ("message", self.message.as_str().into()),
            ("type", self.kind.into()),
            ("param", text(self.param.as_deref())),
            ("code", text(self.code)),
        ])
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let number = u64::from(self.status);
        let error = match self.shape {
            Shape::OpenAi => self.error(),
            Shape::DeepSeek => map([
                ("message", self.message.as_str().into()),
                ("type", self.kind.into()),
                ("param", Json::Null),
                ("code", self.code.unwrap_or("invalid_request_error").into()),
            ]),
            Shape::OpenRouter => {
                map([("message", self.message.as_str().into()), ("code", number.into())])
            }
            Shape::Upstream => map([
                ("message", "Provider returned error".into()),
                ("code", number.into()),
                ("metadata", self.raw()),
            ]),
            // Z.ai has its own error codes; this one is for a wrong parameter.
            Shape::Zai => map([("code", "1210".into()), ("message", self.message.as_str().into())]),
        };
        let mut body = vec![("error".to_owned(), error)];
        if matches!(self.shape, Shape::OpenRouter | Shape::Upstream) {
            body.push(("user_id".to_owned(), "user_sim".into()));
        }
        Json::Map(body).text().into_bytes()
    }

    fn raw(&self) -> Json {
        let error = map([("type", self.kind.into()), ("message", self.message.as_str().into())]);
        let raw = map([("type", "error".into()), ("error", error)]).text();
        map([("raw", raw.into()), ("provider_name", "Anthropic".into())])
    }
}

/// Gives a refusal the shape of a vendor's errors.
pub(crate) fn in_dialect(refusal: Refusal, dialect: Dialect) -> Refusal {
    let shape = match (dialect, refusal.shape) {
        (Dialect::OpenRouter, Shape::Upstream) => Shape::Upstream,
        (Dialect::OpenRouter, _) => Shape::OpenRouter,
        (Dialect::DeepSeek, _) => Shape::DeepSeek,
        (Dialect::Zai, _) => Shape::Zai,
        _ => Shape::OpenAi,
    };
    Refusal { shape, ..refusal }
}

/// Refuses with a 400 `invalid_request_error`.
pub(crate) fn bad<T>(message: impl Into<String>) -> Checked<T> {
    Err(Refusal::bad(message))
}

/// Returns the refusal unless `ok`. It is created only when needed.
pub(crate) fn ensure(ok: bool, refusal: impl FnOnce() -> Refusal) -> Checked {
    if ok { Ok(()) } else { Err(refusal()) }
}

/// Creates a failure that a scenario asks for. These vendors never send 529: it becomes 503.
pub(crate) fn fault(
    status: u16,
    retry_after: Option<u64>,
    delay_ms: u64,
    dialect: Dialect,
) -> Response {
    let status = if status == 529 { 503 } else { status };
    let (kind, code, message) = match status {
        401 => ("invalid_request_error", Some("invalid_api_key"), "Incorrect API key provided."),
        403 => ("invalid_request_error", None, "You are not allowed to do this."),
        404 => ("invalid_request_error", None, "Not found"),
        429 => ("requests", Some("rate_limit_exceeded"), "Rate limit reached. Please try again."),
        400..=499 => ("invalid_request_error", None, "The scenario refuses this request."),
        503 => (
            "service_unavailable_error",
            None,
            "The engine is currently overloaded, please try again later",
        ),
        _ => (
            "server_error",
            None,
            "The server had an error while processing your request. Sorry about that!",
        ),
    };
    let mut refusal = Refusal::new(status, kind, message);
    refusal.code = code;
    let mut response = whole(status, delay_ms, in_dialect(refusal, dialect).body());
    if let Some(seconds) = retry_after {
        response.headers.push(("retry-after".to_owned(), seconds.to_string()));
    }
    response
}
