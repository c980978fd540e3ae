//! The files of the pages, which are part of the program.

use std::sync::LazyLock;

use http::Response;
use http::header::HeaderMap;
use softland_pages::{AllowedStyles, HTML, SCRIPT, STYLE, render_page};

use crate::body::Body;

static RUNS: LazyLock<String> =
    LazyLock::new(|| render_page(include_str!("../../pages/index.html")));
static AUDIT: LazyLock<String> =
    LazyLock::new(|| render_page(include_str!("../../pages/audit.html")));

/// Returns a file of the pages by its path.
pub(super) fn find_asset(path: &str) -> Option<Response<Body>> {
    let (kind, bytes): (_, &'static [u8]) = match path {
        "/" => (HTML, RUNS.as_bytes()),
        "/app.css" => (STYLE, include_bytes!("../../pages/app.css")),
        "/app.js" => (SCRIPT, include_bytes!("../../pages/app.js")),
        "/view.js" => (SCRIPT, include_bytes!("../../pages/view.js")),
        "/feed.js" => (SCRIPT, include_bytes!("../../pages/feed.js")),
        "/trouble.js" => (SCRIPT, include_bytes!("../../pages/trouble.js")),
        "/audit" => (HTML, AUDIT.as_bytes()),
        "/audit.js" => (SCRIPT, include_bytes!("../../pages/audit.js")),
        _ => softland_pages::find_file(path)?,
    };
    let mut response = Response::new(Body::from_bytes(bytes));
    softland_pages::set_content_type(response.headers_mut(), kind);
    Some(response)
}

/// Adds the security headers that every response of the pages has.
pub(super) fn protect_response(headers: &mut HeaderMap) {
    softland_pages::set_security_headers(headers, AllowedStyles::Own);
}
