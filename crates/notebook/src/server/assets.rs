//! The files of the page, which are part of the program.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

/// What the page may do: nothing but what is served here. Styles of a cell's own HTML are allowed,
/// since the frame that shows it stands under this policy, too; the frame allows nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (HeaderName::from_static("content-security-policy"), POLICY),
    (HeaderName::from_static("x-content-type-options"), "nosniff"),
    (HeaderName::from_static("referrer-policy"), "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Each file: its path, its type, what is in it.
const FILES: [(&str, &str, &[u8]); 9] = [
    ("/", "text/html; charset=utf-8", include_bytes!("../../page/index.html")),
    ("/app.css", "text/css; charset=utf-8", include_bytes!("../../page/app.css")),
    ("/app.js", SCRIPT, include_bytes!("../../page/app.js")),
    ("/cells.js", SCRIPT, include_bytes!("../../page/cells.js")),
    ("/outputs.js", SCRIPT, include_bytes!("../../page/outputs.js")),
    ("/chat.js", SCRIPT, include_bytes!("../../page/chat.js")),
    ("/text.js", SCRIPT, include_bytes!("../../page/text.js")),
    ("/link.js", SCRIPT, include_bytes!("../../page/link.js")),
    ("/icon.svg", "image/svg+xml", include_bytes!("../../page/icon.svg")),
];

/// A file by its path.
pub(super) fn find(path: &str) -> Option<Response> {
    let (_, kind, bytes) = FILES.iter().find(|(name, ..)| *name == path)?;
    let mut response = Response::new(Body::from(*bytes));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Some(response)
}

/// Adds what every response says to browsers.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_asks_nobody_else() {
        assert!(FILES.iter().map(|(.., bytes)| bytes.len()).sum::<usize>() < 300_000);
        for (path, _, bytes) in FILES {
            let text = std::str::from_utf8(bytes).unwrap();
            let own = text.replace("http://www.w3.org/2000/svg", "");
            for foreign in ["src=\"http", "href=\"http", "url(http", "from \"http", "innerHTML"] {
                assert!(!own.contains(foreign), "{path}: {foreign}");
            }
        }
    }
}
