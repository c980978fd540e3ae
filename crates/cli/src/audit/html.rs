//! The report as an HTML page: sums, charts, findings, and runs with their steps. The page fetches
//! nothing, and the text of a recording is never interpreted as markup. Its script draws the charts
//! from `figures.rs`, for all runs or for those that a person chooses.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use softland_import::report::Report;

use crate::render::{format_count, group_digits, harmless_char};

mod figures;
mod found;
mod outcomes;
mod runs;

pub(super) use runs::RunSource;

/// The most runs that are shown with their steps, and the most problems that are listed.
const SHOWN: usize = 50;
/// The most characters that are shown of one text of a recording.
const TEXT: usize = 400;

/// A remark on what does not follow a choice of runs.
const OF_ALL: &str = "<p class=\"soft of-all\" hidden>Of all runs, not of the chosen ones.</p>\n";

const PAGE_STYLE: &str = include_str!("../../assets/audit/page.css");
const STYLE: &str = include_str!("../../assets/audit/report.css");
const SCRIPT: &str = include_str!("../../assets/audit/report.js");

/// Renders the complete page.
pub(super) fn render_page(report: &Report) -> String {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         script-src 'unsafe-inline'; style-src 'unsafe-inline'\">\n\
         <title>softland audit</title>\n",
    );
    push_format(&mut page, format_args!("<style>{PAGE_STYLE}{STYLE}</style>\n</head>\n<body>\n"));
    push_format(&mut page, format_args!("<main class=\"report\">\n<h1>softland audit</h1>\n"));
    page += &render_body(report, RunSource::Files);
    push_format(
        &mut page,
        format_args!("</main>\n<script>{SCRIPT}softlandReport();</script>\n</body>\n</html>\n"),
    );
    page
}

/// Renders the body of the report, for a page of its own or a gateway's page, with the data for the
/// script that draws the charts.
pub(super) fn render_body(report: &Report, of: RunSource) -> String {
    let shown = runs::choose_runs(report);
    let mut text = figures::render_figures(report);
    text += &found::render_findings(report);
    text += &runs::render_runs(report, &shown, of);
    text += &outcomes::render_outcomes(report, of);
    text += &render_policy(report);
    text += &render_sources(report);
    let data = escape_script(&figures::collect_data(report, of).to_string());
    push_format(
        &mut text,
        format_args!("<script type=\"application/json\" id=\"data\">{data}</script>\n"),
    );
    text
}

/// Renders a report without runs: the sources that were read, and the problems found in them.
pub(super) fn render_empty(report: &Report) -> String {
    let known = report.sources.iter().any(|source| source.kind.is_some());
    let what = match known {
        true => "There is no run in it.",
        false => "Nothing in it could be read as a session of an agent.",
    };
    format!("<p class=\"none\">{what}</p>\n{}", render_sources(report))
}

/// Returns the content type and content of a file that a gateway's page needs in order to show the
/// report's body. The report's own page has these files inline.
pub(super) fn find_file(path: &str) -> Option<(&'static str, &'static [u8])> {
    let (style, script) = ("text/css; charset=utf-8", "text/javascript; charset=utf-8");
    Some(match path {
        "report.js" => (script, SCRIPT.as_bytes()),
        "report.css" => (style, STYLE.as_bytes()),
        _ => return None,
    })
}

/// Appends formatted text. Writing into a string cannot fail.
fn push_format(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(text);
}

/// Shortens a text of a recording and escapes it for HTML.
fn escape_text(text: &str) -> String {
    let mut safe = String::new();
    for c in clean_text(text).chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            c => safe.push(c),
        }
    }
    safe
}

/// Shortens a text of a recording. Invisible and bidirectional control characters are replaced.
fn clean_text(text: &str) -> String {
    let mut clean = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == TEXT {
            clean.push('…');
            break;
        }
        clean.push(match c {
            // These marks change the direction of the text beside them, or hide it.
            '\u{200e}' | '\u{200f}' | '\u{061c}' => '\u{fffd}',
            c => harmless_char(c),
        });
    }
    clean
}

/// Escapes JSON for use inside a `<script>` element.
fn escape_script(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<'
            | '>'
            | '&'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{061c}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                push_format(&mut safe, format_args!("\\u{:04x}", u32::from(c)));
            }
            c => safe.push(c),
        }
    }
    safe
}

fn render_policy(report: &Report) -> String {
    let toml = report.suggested_policy.to_toml();
    let toml: String = toml.lines().map(|line| escape_line(line) + "\n").collect();
    format!(
        "<section>\n<h2>A policy that fits these runs</h2>\n{OF_ALL}\
         <div class=\"part\" hidden><h3>Tool calls per run</h3>\
         <div id=\"calls\" class=\"chart\" role=\"img\" \
         aria-label=\"How many runs have how many tool calls, with the suggested limit\"></div></div>\n\
         <pre tabindex=\"0\">{toml}</pre>\n</section>\n"
    )
}

/// Escapes a line that softland wrote itself, without shortening it.
fn escape_line(line: &str) -> String {
    line.replace('&', "&amp;").replace('<', "&lt;")
}

fn render_sources(report: &Report) -> String {
    let mut text = String::from("<section>\n<h2>What was read</h2>\n<ul>\n");
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for source in &report.sources {
        let kind = kinds.entry(source.kind.unwrap_or("not known")).or_default();
        kind.0 += 1;
        kind.1 += source.bytes;
    }
    for (kind, (files, bytes)) in kinds {
        let files = format_count(files, "file");
        push_format(
            &mut text,
            format_args!("<li>{kind}: {files}, {} bytes</li>\n", group_digits(bytes)),
        );
    }
    text += "</ul>\n";
    if !report.unreadable.is_empty() {
        let parts = format_count(report.unreadable.len() as u64, "part");
        let open = if report.runs.is_empty() { " open" } else { "" };
        push_format(
            &mut text,
            format_args!("<details{open}><summary>{parts} could not be read</summary><ul>\n"),
        );
        for one in report.unreadable.iter().take(SHOWN) {
            let line = one.line.map(|line| format!(":{line}")).unwrap_or_default();
            push_format(
                &mut text,
                format_args!(
                    "<li><bdi>{}{line}</bdi>: {}</li>\n",
                    escape_text(&one.path),
                    escape_text(&one.reason)
                ),
            );
        }
        text += "</ul></details>\n";
    }
    text + "</section>\n"
}
