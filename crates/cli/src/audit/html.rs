//! The report as an HTML page: sums, charts, and the worst runs with their steps. The page fetches
//! nothing, and the text of a recording is never interpreted as markup.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use softland_import::is_good_run;
use softland_import::report::{Report, RunReport};

use super::worst::{describe_ended_runs, describe_simulated, format_partial_money};
use crate::render::{format_count, group_digits, harmless_char};

mod runs;

pub(super) use runs::RunSource;

/// The most runs that are shown with their steps, and the most problems that are listed.
const SHOWN: usize = 50;
/// The most characters that are shown of one text of a recording.
const TEXT: usize = 400;
/// The most columns of a chart.
const COLUMNS: u64 = 60;
/// The possible widths of a column of the spending chart, in hours.
const SPANS: [u64; 6] = [1, 6, 24, 168, 720, 8760];

const CHARTS: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
const CHARTS_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const CHARTS_LICENCE: &str = include_str!("../../assets/uplot/LICENSE");
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
    let charts = chart_script();
    push_format(&mut page, format_args!("<!-- The charts: uPlot 1.6.32.\n{CHARTS_LICENCE}-->\n"));
    push_format(
        &mut page,
        format_args!("<style>{CHARTS_STYLE}{PAGE_STYLE}{STYLE}</style>\n</head>\n<body>\n"),
    );
    push_format(&mut page, format_args!("<main class=\"report\">\n<h1>softland audit</h1>\n"));
    page += &render_body(report, RunSource::Files);
    push_format(&mut page, format_args!("</main>\n<script>{charts}</script>\n"));
    push_format(
        &mut page,
        format_args!("<script>{SCRIPT}softlandReport();</script>\n</body>\n</html>\n"),
    );
    page
}

/// Renders the body of the report, for a page of its own or a gateway's page, with the data for the
/// script that draws the charts.
pub(super) fn render_body(report: &Report, of: RunSource) -> String {
    let mut text = render_sums(report);
    text += &render_charts(report);
    text += &render_outcomes(report, of);
    text += &runs::render_runs(report, of);
    text += &render_policy(report);
    text += &render_sources(report);
    let data = escape_script(&chart_data(report).to_string());
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
        "charts.js" => (script, chart_script().as_bytes()),
        "charts.css" => (style, CHARTS_STYLE.as_bytes()),
        "report.js" => (script, SCRIPT.as_bytes()),
        "report.css" => (style, STYLE.as_bytes()),
        "LICENSE" => ("text/plain; charset=utf-8", CHARTS_LICENCE.as_bytes()),
        _ => return None,
    })
}

/// Returns the chart script without its first line, which names an address. Its licence is shipped
/// with it in full.
fn chart_script() -> &'static str {
    CHARTS.split_once('\n').map_or(CHARTS, |(_, rest)| rest)
}

/// Appends formatted text. Writing into a string cannot fail.
fn push_format(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(text);
}

/// Shortens a text of a recording and escapes it for HTML. Invisible and bidirectional control
/// characters are replaced.
fn escape_text(text: &str) -> String {
    let mut safe = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == TEXT {
            safe.push('…');
            break;
        }
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            // These marks change the direction of the text beside them, or hide it.
            '\u{200e}' | '\u{200f}' | '\u{061c}' => safe.push('\u{fffd}'),
            c => safe.push(harmless_char(c)),
        }
    }
    safe
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

fn render_sums(report: &Report) -> String {
    let totals = &report.totals;
    let unpriced = report.runs.iter().map(|run| run.beside.wasted_unpriced).sum();
    let share = match (totals.wasted_usd, totals.cost_usd) {
        (Some(wasted), Some(cost)) if cost.0 > 0 && unpriced == 0 => {
            format!("{:.1}% of the money", wasted.to_dollars() * 100.0 / cost.to_dollars())
        }
        _ => format_count(totals.wasted_turns, "turn"),
    };
    let priced = match totals.unpriced_turns {
        0 => "every turn has a price".to_owned(),
        turns => format!("{} without a known price", format_count(turns, "turn")),
    };
    let priced = match describe_simulated(totals.simulated_usd) {
        Some(simulated) => format!("{simulated}; {priced}"),
        None => priced,
    };
    let cards = [
        ("Spent", format_partial_money(totals.cost_usd, totals.unpriced_turns), priced),
        ("Wasted", format_partial_money(totals.wasted_usd, unpriced), share),
        (
            "Runs",
            group_digits(totals.runs),
            format!("in {}", format_count(report.sources.len() as u64, "file")),
        ),
        ("Turns", group_digits(totals.turns), format_count(totals.tool_calls, "tool call")),
        (
            "Tokens",
            group_digits(totals.usage.recorded_tokens()),
            format!("{} out", group_digits(totals.usage.output)),
        ),
    ];
    let mut text = String::from("<dl class=\"cards\">\n");
    for (name, value, more) in cards {
        push_format(
            &mut text,
            format_args!(
                "<div><dt>{name}</dt><dd>{}</dd><dd class=\"more\">{}</dd></div>\n",
                escape_text(&value),
                escape_text(&more)
            ),
        );
    }
    text + "</dl>\n"
}

fn render_charts(report: &Report) -> String {
    let mut text = String::from("<section>\n<h2>Spend over time</h2>\n");
    if report.runs.iter().all(|run| run.beside.hours.is_empty()) {
        text += "<p>These recordings hold no times, or no money.</p>\n</section>\n";
    } else {
        text += "<div id=\"spend\" class=\"chart\" role=\"img\" \
                 aria-label=\"Money spent over time, with the wasted share\"></div>\n\
                 <p class=\"key\"><span class=\"all\"></span> spent \
                 <span class=\"waste\"></span> of it wasted</p>\n";
        text += "<details><summary>As a table</summary>";
        text += &render_spend_table(report);
        text += "</details>\n</section>\n";
    }
    text += "<section>\n<h2>Tool calls per run</h2>\n";
    let limit = match report.suggested_policy.tool_calls_limit {
        Some(limit) => format!("; the line is the suggested limit, {}", group_digits(limit)),
        None => String::new(),
    };
    push_format(
        &mut text,
        format_args!(
            "<div id=\"calls\" class=\"chart\" role=\"img\" aria-label=\"How many runs have how \
             many tool calls{limit}\"></div>\n<p class=\"key\"><span class=\"all\"></span> \
             runs{limit}</p>\n</section>\n"
        ),
    );
    text
}

/// Returns the hours per column and, by the hour since 1970 at which each column begins, the
/// dollars spent and wasted.
fn spend_columns(report: &Report) -> (u64, BTreeMap<u64, (f64, f64)>) {
    let hours = || report.runs.iter().flat_map(|run| run.beside.hours.iter());
    let first = hours().map(|(hour, ..)| *hour).min().unwrap_or(0);
    let last = hours().map(|(hour, ..)| *hour).max().unwrap_or(0);
    let fits = |span: &&u64| (last - first) / **span < COLUMNS;
    let span = *SPANS.iter().find(fits).unwrap_or(&8760);
    let mut columns: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for (hour, cost, wasted) in hours() {
        let column = columns.entry(hour / span * span).or_default();
        column.0 += cost.to_dollars();
        column.1 += wasted.to_dollars();
    }
    (span, columns)
}

fn render_spend_table(report: &Report) -> String {
    let mut text = String::from(
        "<table><thead><tr><th>From (UTC)</th><th>Spent</th><th>Wasted</th></tr></thead><tbody>\n",
    );
    for (hour, (spent, wasted)) in spend_columns(report).1 {
        let from = softland_ledger::format_timestamp(hour.saturating_mul(3_600_000));
        let from: String = from.chars().take(16).map(|c| if c == 'T' { ' ' } else { c }).collect();
        push_format(
            &mut text,
            format_args!("<tr><td>{from}</td><td>${spent:.4}</td><td>${wasted:.4}</td></tr>\n"),
        );
    }
    text + "</tbody></table>"
}

/// Returns the data that the script draws.
fn chart_data(report: &Report) -> serde_json::Value {
    let (span, columns) = spend_columns(report);
    let at: Vec<u64> = columns.keys().map(|hour| hour * 3600).collect();
    let spent: Vec<f64> = columns.values().map(|(spent, _)| *spent).collect();
    // A column without waste has no bar.
    let some = |wasted: f64| (wasted > 0.0).then_some(wasted);
    let wasted: Vec<Option<f64>> = columns.values().map(|(_, wasted)| some(*wasted)).collect();
    let limit = report.suggested_policy.tool_calls_limit;
    // Runs that are rows of numbers do not record their calls.
    let counted = || report.runs.iter().filter(|run| !run.beside.rows).map(|run| run.tool_calls);
    let most = counted().max().unwrap_or(0);
    let width = (most.max(limit.unwrap_or(0)) / COLUMNS + 1).max(1);
    let mut runs: BTreeMap<u64, u64> = BTreeMap::new();
    for calls in counted() {
        *runs.entry(calls / width * width).or_insert(0) += 1;
    }
    json!({
        "spend": {"hours": span, "at": at, "spent": spent, "wasted": wasted},
        "calls": {
            "width": width,
            "at": runs.keys().collect::<Vec<_>>(),
            "runs": runs.values().collect::<Vec<_>>(),
            "limit": limit,
        },
    })
}

fn render_outcomes(report: &Report, of: RunSource) -> String {
    let mut rows: Vec<(String, u64)> = Vec::new();
    let number = |of: &dyn Fn(&&RunReport) -> bool| report.runs.iter().filter(of).count() as u64;
    rows.push(("a final answer, no signal".to_owned(), number(&|run| is_good_run(run))));
    let answered = |run: &&RunReport| run.beside.answered && !is_good_run(run);
    rows.push(("a final answer, with signals".to_owned(), number(&answered)));
    let other = |run: &&RunReport| !run.beside.answered && !run.beside.rows;
    rows.push(("no final answer".to_owned(), number(&other)));
    rows.push(("not recorded (rows of numbers)".to_owned(), number(&|run| run.beside.rows)));
    let mut signals: BTreeMap<&str, u64> = BTreeMap::new();
    for run in &report.runs {
        let kinds: std::collections::BTreeSet<&str> =
            run.signals.iter().map(|listed| listed.signal.word()).collect();
        for kind in kinds {
            *signals.entry(kind).or_insert(0) += 1;
        }
    }
    let ended = number(&|run| run.what_if.as_ref().is_some_and(|w| w.ended_at_turn.is_some()));
    let mut text = String::from("<section>\n<h2>Runs by outcome</h2>\n");
    rows.retain(|(_, runs)| *runs > 0);
    text += &render_bars(&rows, report.totals.runs);
    if let Some(ended) = describe_ended_runs(report) {
        push_format(&mut text, format_args!("<p>{}.</p>\n", escape_text(&ended)));
    }
    text += "<h3>Runs with a signal</h3>\n";
    let rows: Vec<_> = signals.into_iter().map(|(kind, runs)| (kind.to_owned(), runs)).collect();
    text += &render_bars(&rows, report.totals.runs);
    // A ledger records the real outcomes of its runs, but no single calls to which a policy could
    // be applied.
    let asked = match of {
        RunSource::Ledger => {
            "Asked of counts and costs alone, since a ledger keeps no single calls, the policy"
        }
        RunSource::Files | RunSource::Recording => "The policy",
    };
    push_format(
        &mut text,
        format_args!(
            "<p>{asked} would have ended {} of {}.</p>\n</section>\n",
            format_count(ended, "run"),
            group_digits(report.totals.runs)
        ),
    );
    text
}

fn render_bars(rows: &[(String, u64)], of: u64) -> String {
    if rows.is_empty() {
        return "<p>None.</p>\n".to_owned();
    }
    let mut text = String::from("<table class=\"bars\"><tbody>\n");
    for (name, runs) in rows {
        let share = (runs * 1000 / of.max(1)).max(4);
        push_format(
            &mut text,
            format_args!(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"bar\"><svg viewBox=\"0 0 1000 \
                 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"{share}\" \
                 height=\"10\"></rect></svg></td></tr>\n",
                escape_text(name),
                group_digits(*runs)
            ),
        );
    }
    text + "</tbody></table>\n"
}

fn render_policy(report: &Report) -> String {
    format!(
        "<section>\n<h2>A policy that fits these runs</h2>\n<pre tabindex=\"0\">{}</pre>\n</section>\n",
        report
            .suggested_policy
            .to_toml()
            .lines()
            .map(|line| escape_line(line) + "\n")
            .collect::<String>()
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
