//! Refusals in the shape of OpenAI's errors, and in that of other vendors with its protocols. This
//! module knows statuses and shapes, not rules.

use crate::bodies::whole_response;
use crate::json::{Json, json_object};
use crate::models::open::Dialect;
use crate::reply::Response;

/// The reason why a request was refused.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OpenAiRefusal {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    param: Option<String>,
    code: Option<&'static str>,
    shape: ErrorShape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorShape {
    OpenAi,
    DeepSeek,
    OpenRouter,
    /// The error of the provider behind OpenRouter.
    Upstream,
    Zai,
}

pub(crate) type OpenAiResult<T = ()> = Result<T, OpenAiRefusal>;

impl OpenAiRefusal {
    pub(crate) fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, kind, message, param: None, code: None, shape: ErrorShape::OpenAi }
    }

    /// Creates a 400 `invalid_request_error`.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    /// Creates a 400 of a Claude behind another vendor.
    pub(crate) fn from_upstream(message: impl Into<String>) -> Self {
        Self { shape: ErrorShape::Upstream, ..Self::bad_request(message) }
    }

    /// Creates the refusal of an unlisted model.
    pub(crate) fn unlisted_model(id: &str) -> Self {
        if id.contains('/') {
            let message = format!("{id} is not a valid model ID");
            return Self { shape: ErrorShape::OpenRouter, ..Self::bad_request(message) };
        }
        let message = format!("The model `{id}` does not exist or you do not have access to it.");
        Self::new(404, "invalid_request_error", message).with_code("model_not_found")
    }

    /// Creates the refusal of an unknown scenario, requested as a model.
    pub(crate) fn unknown_scenario(message: String) -> Self {
        Self::new(404, "invalid_request_error", message).with_code("model_not_found")
    }

    pub(crate) fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn with_param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// Returns the `error` object in OpenAI's own shape.
    pub(crate) fn error_json(&self) -> Json {
        let text = |t: Option<&str>| t.map_or(Json::Null, Json::from);
        json_object([
            ("message", self.message.as_str().into()),
            ("type", self.kind.into()),
            ("param", text(self.param.as_deref())),
            ("code", text(self.code)),
        ])
    }

    pub(crate) fn to_body(&self) -> Vec<u8> {
        let number = u64::from(self.status);
        let error = match self.shape {
            ErrorShape::OpenAi => self.error_json(),
            ErrorShape::DeepSeek => json_object([
                ("message", self.message.as_str().into()),
                ("type", self.kind.into()),
                ("param", Json::Null),
                ("code", self.code.unwrap_or("invalid_request_error").into()),
            ]),
            ErrorShape::OpenRouter => {
                json_object([("message", self.message.as_str().into()), ("code", number.into())])
            }
            ErrorShape::Upstream => json_object([
                ("message", "Provider returned error".into()),
                ("code", number.into()),
                ("metadata", self.upstream_metadata()),
            ]),
            // Z.ai has its own error codes; this one is for a wrong parameter.
            ErrorShape::Zai => {
                json_object([("code", "1210".into()), ("message", self.message.as_str().into())])
            }
        };
        let mut body = vec![("error".to_owned(), error)];
        if matches!(self.shape, ErrorShape::OpenRouter | ErrorShape::Upstream) {
            body.push(("user_id".to_owned(), "user_sim".into()));
        }
        Json::Map(body).to_text().into_bytes()
    }

    fn upstream_metadata(&self) -> Json {
        let error =
            json_object([("type", self.kind.into()), ("message", self.message.as_str().into())]);
        let raw = json_object([("type", "error".into()), ("error", error)]).to_text();
        json_object([("raw", raw.into()), ("provider_name", "Anthropic".into())])
    }
}

/// Gives a refusal the shape of a vendor's errors.
pub(crate) fn in_dialect(refusal: OpenAiRefusal, dialect: Dialect) -> OpenAiRefusal {
    let shape = match (dialect, refusal.shape) {
        (Dialect::OpenRouter, ErrorShape::Upstream) => ErrorShape::Upstream,
        (Dialect::OpenRouter, _) => ErrorShape::OpenRouter,
        (Dialect::DeepSeek, _) => ErrorShape::DeepSeek,
        (Dialect::Zai, _) => ErrorShape::Zai,
        _ => ErrorShape::OpenAi,
    };
    OpenAiRefusal { shape, ..refusal }
}

/// Refuses with a 400 `invalid_request_error`.
pub(crate) fn refuse_with<T>(message: impl Into<String>) -> OpenAiResult<T> {
    Err(OpenAiRefusal::bad_request(message))
}

/// Returns the refusal unless `ok`. It is created only when needed.
pub(crate) fn ensure(ok: bool, refusal: impl FnOnce() -> OpenAiRefusal) -> OpenAiResult {
    if ok { Ok(()) } else { Err(refusal()) }
}

/// Creates a failure that a scenario asks for. These vendors never send 529: it becomes 503.
pub(crate) fn fault_response(
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
    let mut refusal = OpenAiRefusal::new(status, kind, message);
    refusal.code = code;
    let mut response = whole_response(status, delay_ms, in_dialect(refusal, dialect).to_body());
    if let Some(seconds) = retry_after {
        response.headers.push(("retry-after".to_owned(), seconds.to_string()));
    }
    response
}
