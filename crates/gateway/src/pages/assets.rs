//! The files of the pages, which are part of the program.

use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::body::Body;

/// What a page may do: nothing but what is served here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (HeaderName::from_static("content-security-policy"), POLICY),
    (HeaderName::from_static("x-content-type-options"), "nosniff"),
    (HeaderName::from_static("referrer-policy"), "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// A file by its path.
pub(super) fn find(path: &str) -> Option<Response<Body>> {
    let (kind, bytes): (_, &'static [u8]) = match path {
        "/" => ("text/html; charset=utf-8", include_bytes!("../../pages/index.html")),
        "/app.css" => ("text/css; charset=utf-8", include_bytes!("../../pages/app.css")),
        "/app.js" => ("text/javascript; charset=utf-8", include_bytes!("../../pages/app.js")),
        "/view.js" => ("text/javascript; charset=utf-8", include_bytes!("../../pages/view.js")),
        "/feed.js" => ("text/javascript; charset=utf-8", include_bytes!("../../pages/feed.js")),
        "/audit" => ("text/html; charset=utf-8", include_bytes!("../../pages/audit.html")),
        "/audit.js" => ("text/javascript; charset=utf-8", include_bytes!("../../pages/audit.js")),
        "/icon.svg" => ("image/svg+xml", include_bytes!("../../pages/icon.svg")),
        _ => return None,
    };
    let mut response = Response::new(Body::full(bytes));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Some(response)
}

/// Adds what every response of the pages says to browsers.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}
