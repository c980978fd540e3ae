//! The parts that all pages of softland share, whichever crate serves them: the head of their HTML,
//! their style, the display of text and runs, and the headers of every response.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

/// The type of a page.
pub const HTML: &str = "text/html; charset=utf-8";
/// The type of a style sheet.
pub const STYLE: &str = "text/css; charset=utf-8";
/// The type of a script.
pub const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The mark at the beginning of a page's head; [`render_page`] replaces it with the shared lines.
const MARK: &str = "<!-- head -->\n";
const HEAD: &str = include_str!("../assets/head.html");

/// The content policy of a page: it may use nothing but the files served beside it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";
/// The content policy with styles within HTML, for a frame that shows foreign HTML and allows
/// nothing else.
const POLICY_STYLED: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                             connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                             form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("x-content-type-options"), "nosniff"),
    (HeaderName::from_static("referrer-policy"), "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The styles that a page may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedStyles {
    /// The styles of its own files.
    Own,
    /// Also the styles of HTML that it shows in a frame: the frame is under the page's policy.
    Framed,
}

/// Returns a file that every page needs, by its path: its type and its content.
#[must_use]
pub fn find_file(path: &str) -> Option<(&'static str, &'static [u8])> {
    Some(match path {
        "/base.css" => (STYLE, include_bytes!("../assets/base.css")),
        "/text.js" => (SCRIPT, include_bytes!("../assets/text.js")),
        "/markdown.js" => (SCRIPT, include_bytes!("../assets/markdown.js")),
        "/blocks.js" => (SCRIPT, include_bytes!("../assets/blocks.js")),
        "/token.js" => (SCRIPT, include_bytes!("../assets/token.js")),
        "/icon.svg" => ("image/svg+xml", include_bytes!("../assets/icon.svg")),
        _ => return None,
    })
}

/// Returns a page's HTML with the shared head.
#[must_use]
pub fn render_page(html: &str) -> String {
    html.replacen(MARK, HEAD, 1)
}

/// Sets the content type of a response.
pub fn set_content_type(headers: &mut HeaderMap, kind: &'static str) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
}

/// Adds the security headers of every response.
pub fn set_security_headers(headers: &mut HeaderMap, styles: AllowedStyles) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let policy = match styles {
        AllowedStyles::Own => POLICY,
        AllowedStyles::Framed => POLICY_STYLED,
    };
    let name = HeaderName::from_static("content-security-policy");
    headers.insert(name, HeaderValue::from_static(policy));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_head_once_and_its_files_are_there() {
        let made = render_page("<head>\n<!-- head -->\n<title>a</title>\n</head>\n<!-- head -->\n");
        assert_eq!(made.matches("charset").count(), 1);
        assert!(made.starts_with("<head>\n<meta charset=\"utf-8\">"));
        for part in made.split("href=\"").skip(1) {
            let path = part.split('"').next().unwrap();
            assert!(find_file(path).is_some(), "{path}");
        }
        assert!(find_file("/nothing").is_none());
    }

    #[test]
    fn the_policies_differ_in_styles_alone() {
        assert_eq!(POLICY_STYLED.replace(" 'unsafe-inline'", ""), POLICY);
    }
}
