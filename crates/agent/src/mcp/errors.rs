//! The words for what goes wrong between softland and a server: what happened, without the names
//! of types, and what is not supported.

use std::error::Error;
use std::process::ExitStatus;

use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpError,
};

use crate::tool::cut_line;

const LOGIN: &str = "it asks for a login. OAuth is not supported; a token can be given in \
                     `headers`, as \"Authorization\": \"Bearer …\"";
const NO_POST: &str = "it takes no message there. The older transport, HTTP with SSE, is not \
                       supported; the address of Streamable HTTP often ends in /mcp";

/// The most characters of a failure's own words.
const WORDS: usize = 400;

/// Describes why a server could not be started. `ended` is set if its program has ended.
pub(super) fn start_error(error: &ClientInitializeError, ended: Option<ExitStatus>) -> String {
    match (error, ended) {
        (ClientInitializeError::JsonRpcError(error), _) => {
            format!("initialize: error {}: {}", error.code.0, cut_line(&error.message, WORDS))
        }
        (ClientInitializeError::ExpectedInitResult(_), _) => {
            "initialize: the answer has no protocolVersion, capabilities and serverInfo".to_owned()
        }
        (ClientInitializeError::NoCompatibleProtocolVersion { .. }, _) => {
            format!("speaks no protocol version that is known; known are {}", known_versions())
        }
        (_, Some(status)) => format!("ended before it was initialised ({status})"),
        (ClientInitializeError::TransportError { error, .. }, None) => {
            format!("initialize: {}", describe_transport(error.error.as_ref()))
        }
        (ClientInitializeError::ConnectionClosed(_), None) => {
            "initialize: the connection was closed before an answer came".to_owned()
        }
        (
            ClientInitializeError::ExpectedInitResponse(_)
            | ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. },
            None,
        ) => "initialize: the first message is not the answer to it".to_owned(),
        (error, None) => format!("initialize: {}", describe_chain(error)),
    }
}

/// Describes the failure of a request.
pub(super) fn describe_error(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => describe_transport(error.error.as_ref()),
        ServiceError::TransportClosed => "the connection is closed".to_owned(),
        ServiceError::UnexpectedResponse => "the answer is of another kind".to_owned(),
        error => describe_chain(error),
    }
}

/// Returns the versions of the protocol that are known.
pub(super) fn known_versions() -> String {
    let names: Vec<String> =
        ProtocolVersion::KNOWN_VERSIONS.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// Joins an error and its causes, each once.
pub(super) fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Describes a failure of the transport.
fn describe_transport(error: &(dyn Error + 'static)) -> String {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<AuthRequiredError>() || error.is::<InsufficientScopeError>() {
            return LOGIN.to_owned();
        }
        if let Some(HttpStatusError { status, .. }) = error.downcast_ref() {
            return describe_status(*status, "");
        }
        match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(
                StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_),
            ) => {
                return LOGIN.to_owned();
            }
            Some(StreamableHttpError::HttpStatus(failed)) => {
                return describe_status(failed.status, "");
            }
            Some(StreamableHttpError::UnexpectedContentType(kind)) => {
                let kind = kind.as_deref().unwrap_or("of no type");
                return format!(
                    "its answer is {}, and neither JSON nor an event stream: is this the address \
                     of an MCP server?",
                    cut_line(kind, 80)
                );
            }
            Some(StreamableHttpError::ServerDoesNotSupportSse) => return NO_POST.to_owned(),
            _ => {}
        }
        next = error.source();
    }
    describe_chain(error)
}

/// Describes an error by its own words, and by what they say of an HTTP status.
fn describe_chain(error: &dyn Error) -> String {
    let text = without_types(&error_chain(error));
    if text.contains("Auth required") {
        return LOGIN.to_owned();
    }
    match find_status(&text) {
        Some((status, words)) => describe_status(status, words),
        None => cut_line(&text, WORDS),
    }
}

/// Returns the status that a message names (`HTTP 405 Method Not Allowed: …`), and what follows it.
fn find_status(text: &str) -> Option<(u16, &str)> {
    let (_, rest) = text.split_once("HTTP ")?;
    let digits = rest.get(..3)?;
    let status = digits.parse().ok().filter(|status| (400..600).contains(status))?;
    Some((status, rest.split_once(": ").map_or("", |(_, words)| words)))
}

fn describe_status(status: u16, words: &str) -> String {
    match status {
        401 | 403 => format!("status {status}: {LOGIN}"),
        404 | 405 => format!("status {status}: {NO_POST}"),
        _ if words.trim().is_empty() => format!("status {status}"),
        _ => format!("status {status}: {}", cut_line(words, WORDS)),
    }
}

/// Returns a text without the paths of types in it, and without the brackets around them.
fn without_types(text: &str) -> String {
    let text = text.strip_prefix("Transport ").filter(|text| text.starts_with('[')).unwrap_or(text);
    let text = text.replace(" as ServerJsonRpcMessage", "");
    let words = text.split(' ').filter(|word| !word.contains("::"));
    words.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Said(&'static str);

    impl std::fmt::Display for Said {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Said {}

    #[test]
    fn c88_what_is_not_supported_is_named_and_types_are_not() {
        for (said, wanted) in [
            ("Auth required", LOGIN),
            ("unexpected server response: HTTP 401 Unauthorized: no", "status 401: it asks for a"),
            ("unexpected server response: HTTP 403 Forbidden", "status 403: it asks for a login"),
            ("unexpected server response: HTTP 405 Method Not Allowed: no", "status 405: it takes"),
            ("unexpected server response: HTTP 404 Not Found", "status 404: it takes no message"),
            ("unexpected server response: HTTP 500 Oh: it is down", "status 500: it is down"),
            ("unexpected server response: HTTP 503 Oh", "status 503"),
            (
                "Transport [rmcp::transport::worker::WorkerTransport<a::B<c::D>>] error: refused",
                "refused",
            ),
            ("no JSON response as ServerJsonRpcMessage: {}", "no JSON response: {}"),
            ("client error: HTTP 2 is not spoken", "client error: HTTP 2 is not spoken"),
        ] {
            let told = describe_transport(&Said(said));
            let typed = told.contains("::") || told.contains("JsonRpc");
            assert!(told.starts_with(wanted) && !typed, "{said}: {told}");
        }
    }

    #[test]
    fn c88_typed_failures_are_named_too() {
        type Failure = StreamableHttpError<reqwest::Error>;
        let html = Failure::UnexpectedContentType(Some("text/html".to_owned()));
        assert!(describe_transport(&html).starts_with("its answer is text/html, and neither"));
        let login = Failure::AuthRequired(AuthRequiredError::new("Bearer".to_owned()));
        assert_eq!(describe_transport(&login), LOGIN);
        let failed = Failure::HttpStatus(HttpStatusError::new(502, None));
        assert_eq!(describe_transport(&failed), "status 502");
        let closed = start_error(&ClientInitializeError::ConnectionClosed("x::Y".to_owned()), None);
        assert_eq!(closed, "initialize: the connection was closed before an answer came");
    }
}
