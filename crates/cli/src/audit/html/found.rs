//! The findings of an HTML report: each with its price and what to do, and its evidence to unfold.

use softland_import::report::Report;
use softland_import::report::findings::{Finding, FindingPlace};

use super::super::worst::{describe_savings, format_money, format_tokens};
use super::{escape_line, escape_text, push_format};

/// Renders all findings, the dearest first.
pub(super) fn render_findings(report: &Report) -> String {
    let found = report.find();
    if found.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<section class=\"found\">\n<h2>What stands out</h2>\n<p class=\"soft of-all\" hidden>The \
         first amount is of the chosen runs, the words are of all.</p>\n",
    );
    if let Some(saved) = describe_savings(&found) {
        push_format(&mut text, format_args!("<p>{}.</p>\n", escape_line(&saved)));
    }
    text += "<ol>\n";
    for (at, one) in found.iter().enumerate() {
        text += &render_finding(at, one);
    }
    text + "</ol>\n</section>\n"
}

fn render_finding(at: usize, one: &Finding) -> String {
    let price = match one.usd {
        Some(usd) => format_money(Some(usd)),
        None => format_tokens(Some(one.tokens)),
    };
    let mut text = format!(
        "<li class=\"finding\" id=\"finding-{at}\"><div class=\"price\">{price}</div><div><p>{}.</p>\n",
        mark_code(&escape_text(&one.what))
    );
    for line in split_advice(&one.advice) {
        match line {
            Advice::Words(words) => {
                push_format(
                    &mut text,
                    format_args!("<p class=\"soft\">{}</p>\n", mark_code(&escape_line(words))),
                );
            }
            Advice::Entries(entries) => {
                push_format(
                    &mut text,
                    format_args!("<pre tabindex=\"0\">{}</pre>\n", escape_line(entries)),
                );
            }
        }
    }
    if !one.evidence.is_empty() {
        text += &render_places(&one.evidence);
    }
    text + "</div></li>\n"
}

/// Sets what stands between backquotes as code. The text is HTML already.
fn mark_code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return text.to_owned();
    }
    let mark = |(at, part): (usize, &&str)| match at % 2 {
        0 => (*part).to_owned(),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(mark).collect()
}

/// The parts of an advice: a sentence, and entries for a config behind it.
enum Advice<'a> {
    Words(&'a str),
    Entries(&'a str),
}

fn split_advice(advice: &str) -> Vec<Advice<'_>> {
    match advice.split_once('\n') {
        _ if advice.is_empty() => Vec::new(),
        None => vec![Advice::Words(advice)],
        Some((words, entries)) => {
            vec![Advice::Words(words), Advice::Entries(entries.trim_end())]
        }
    }
}

fn render_places(places: &[FindingPlace]) -> String {
    let head = match places.len() {
        1 => "The place".to_owned(),
        many => format!("The dearest {many} places"),
    };
    let mut text =
        format!("<details><summary>{head}</summary><div class=\"wide\"><table><tbody>\n");
    for place in places {
        let turn = place.turn.map(|turn| format!(", turn {turn}")).unwrap_or_default();
        let time = place.time.as_deref().unwrap_or_default().replace('T', " ").replace('Z', "");
        push_format(
            &mut text,
            format_args!(
                "<tr><td>{}</td><td>{}</td><td><bdi>{}</bdi>{turn}<br>{}{}<bdi>{}</bdi></td></tr>\n",
                format_money(place.usd),
                format_tokens(Some(place.tokens)),
                escape_text(&place.run),
                escape_text(&time),
                if time.is_empty() || place.what.is_empty() { "" } else { ": " },
                escape_text(&place.what)
            ),
        );
    }
    text + "</tbody></table></div></details>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_what_stands_between_two_backquotes() {
        assert_eq!(
            mark_code("ask `Read` or `a&lt;b`"),
            "ask <code>Read</code> or <code>a&lt;b</code>"
        );
        assert_eq!(mark_code("one ` alone"), "one ` alone");
        assert_eq!(mark_code("none"), "none");
    }
}
