//! The files of the pages, which are part of the program.

use std::sync::LazyLock;

use softland_pages::{HTML, SCRIPT, STYLE, render_page};

static RUNS: LazyLock<String> = LazyLock::new(|| render_page(include_str!("../pages/index.html")));
static AUDIT: LazyLock<String> = LazyLock::new(|| render_page(include_str!("../pages/audit.html")));

/// Returns a file of the pages by its path.
pub(crate) fn find_file(path: &str) -> Option<(&'static str, &'static [u8])> {
    Some(match path {
        "/" => (HTML, RUNS.as_bytes()),
        "/app.css" => (STYLE, include_bytes!("../pages/app.css")),
        "/app.js" => (SCRIPT, include_bytes!("../pages/app.js")),
        "/view.js" => (SCRIPT, include_bytes!("../pages/view.js")),
        "/budgets.js" => (SCRIPT, include_bytes!("../pages/budgets.js")),
        "/charts.js" => (SCRIPT, include_bytes!("../pages/charts.js")),
        "/feed.js" => (SCRIPT, include_bytes!("../pages/feed.js")),
        "/trouble.js" => (SCRIPT, include_bytes!("../pages/trouble.js")),
        "/audit" => (HTML, AUDIT.as_bytes()),
        "/audit.js" => (SCRIPT, include_bytes!("../pages/audit.js")),
        _ => softland_pages::find_file(path)?,
    })
}

/// Returns true if a path belongs to the pages.
pub(crate) fn is_page_path(path: &str) -> bool {
    path.starts_with("/api/") || path.starts_with("/audit/") || find_file(path).is_some()
}
