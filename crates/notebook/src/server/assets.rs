//! The files of the page, which are part of the program.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::header::HeaderMap;
use axum::response::Response;
use softland_agent::core::policy::KEYS;
use softland_pages::{AllowedStyles, HTML, SCRIPT, STYLE, render_page};

static PAGE: LazyLock<String> =
    LazyLock::new(|| render_page(include_str!("../../page/index.html")));

/// The units of the limits by their keys, for one and for many, from the table of the limits.
static LIMITS: LazyLock<String> = LazyLock::new(|| {
    let units = KEYS.iter().filter_map(|key| {
        key.limit.as_ref().map(|limit| (key.name.to_owned(), limit.unit.as_slice().into()))
    });
    let units: serde_json::Map<String, serde_json::Value> = units.collect();
    format!("export const LIMITS = {};\n", serde_json::Value::Object(units))
});

/// The page's own files: path, type and content.
const FILES: [(&str, &str, &[u8]); 6] = [
    ("/app.css", STYLE, include_bytes!("../../page/app.css")),
    ("/app.js", SCRIPT, include_bytes!("../../page/app.js")),
    ("/cells.js", SCRIPT, include_bytes!("../../page/cells.js")),
    ("/outputs.js", SCRIPT, include_bytes!("../../page/outputs.js")),
    ("/chat.js", SCRIPT, include_bytes!("../../page/chat.js")),
    ("/link.js", SCRIPT, include_bytes!("../../page/link.js")),
];

/// Returns the type and the content at a path.
fn find_content(path: &str) -> Option<(&'static str, &'static [u8])> {
    match path {
        "/" => return Some((HTML, PAGE.as_bytes())),
        "/limits.js" => return Some((SCRIPT, LIMITS.as_bytes())),
        _ => {}
    }
    let own = FILES.iter().find(|(name, ..)| *name == path);
    own.map(|(_, kind, bytes)| (*kind, *bytes)).or_else(|| softland_pages::find_file(path))
}

/// Returns the response for a path.
pub(super) fn find_response(path: &str) -> Option<Response> {
    let (kind, bytes) = find_content(path)?;
    let mut response = Response::new(Body::from(bytes));
    softland_pages::set_content_type(response.headers_mut(), kind);
    Some(response)
}

/// Adds the security headers of every response. Styles within a cell's HTML are allowed, since the
/// frame that shows it is under this policy, too; the frame allows nothing else.
pub(super) fn set_security_headers(headers: &mut HeaderMap) {
    softland_pages::set_security_headers(headers, AllowedStyles::Framed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_asks_nobody_else() {
        let shared = [
            "/",
            "/base.css",
            "/text.js",
            "/markdown.js",
            "/blocks.js",
            "/token.js",
            "/icon.svg",
            "/limits.js",
        ];
        let paths: Vec<&str> = FILES.iter().map(|(path, ..)| *path).chain(shared).collect();
        let sizes = paths.iter().map(|path| find_content(path).unwrap().1.len());
        assert!(sizes.sum::<usize>() < 300_000);
        for path in paths {
            let text = std::str::from_utf8(find_content(path).unwrap().1).unwrap();
            let own = text.replace("http://www.w3.org/2000/svg", "");
            for foreign in ["src=\"http", "href=\"http", "url(http", "from \"http", "innerHTML"] {
                assert!(!own.contains(foreign), "{path}: {foreign}");
            }
        }
    }

    #[test]
    fn limits_have_their_units() {
        let (_, text) = find_content("/limits.js").unwrap();
        let text = std::str::from_utf8(text).unwrap();
        for row in [
            r#""turns_limit":["turn","turns"]"#,
            r#""result_chars_limit":["character of results","characters of results"]"#,
            r#""cost_limit_usd":["dollar","dollars"]"#,
            r#""time_limit":["",""]"#,
        ] {
            assert!(text.contains(row), "{text}");
        }
    }
}
