//! The summary at the end of a run: its outcome, its reason and its usage.

use std::time::Duration;

use softland_agent::core::{Outcome, Reason};
use softland_agent::{AnsweredBy, Report};

use super::pieces::{Piece, Style};
use super::text::{MIN_WIDTH, flow_items, format_count, format_token_sums};

/// Renders the summary in lines of at most `width` columns. `simulated` is true if no money was
/// paid.
pub(crate) fn render_summary(
    report: &Report,
    took: Duration,
    simulated: bool,
    width: usize,
) -> Vec<Piece> {
    let style = if report.ended.outcome.is_done() { Style::Bold } else { Style::Bad };
    let width = width.max(MIN_WIDTH);
    let mut pieces = Vec::new();
    for (style, items) in
        [(style, vec![describe_end(report)]), (Style::Dim, list_usage(report, took, simulated))]
    {
        for text in flow_items(&items, width) {
            pieces.push(Piece::note(style, text));
            pieces.push(Piece::note(Style::Plain, "\n"));
        }
    }
    pieces
}

/// Describes the outcome and its reason in a sentence.
fn describe_end(report: &Report) -> String {
    let ended = &report.ended;
    let word = ended.outcome.word();
    let why = describe_reason(report);
    let whose = match (report.answered_by, ended.outcome, ended.rung) {
        (Some(AnsweredBy::Local), ..) => {
            "; the model gave no answer; the one above is softland's".to_owned()
        }
        (_, Outcome::Landed, Some(rung)) => format!("; the model answered (rung {})", rung.word()),
        (_, Outcome::Landed, None) => "; the model answered".to_owned(),
        _ => String::new(),
    };
    format!("{word}: {why}{whose}")
}

fn describe_reason(report: &Report) -> String {
    let ended = &report.ended;
    let limit = match (&ended.limit, &ended.value) {
        (Some(key), Some(value)) => Some(format!("{key} {value}")),
        _ => None,
    };
    let limit = limit.unwrap_or_else(|| ended.reason.to_string());
    match (&ended.reason, ended.reason.limit()) {
        (Reason::Empty, _) => format!("the model's turns were empty ({limit})"),
        (Reason::Tool(tool), _) => format!("the limit of {tool} was reached ({limit})"),
        (_, Some(row)) if row.bounds_usage() => format!("a limit was reached ({limit})"),
        (reason, Some(_)) => format!("the run was in a loop ({reason}: {limit})"),
        (Reason::Final, None) => "the model ended by itself".to_owned(),
        (Reason::Refusal, None) => "the model refused".to_owned(),
        (Reason::Truncated, None) => "the output was cut off repeatedly".to_owned(),
        (Reason::Provider, None) => "the provider gave no answer".to_owned(),
        (Reason::User, None) if report.is_ended_by_engine() => "the engine ended it".to_owned(),
        (Reason::User, None) => "by you".to_owned(),
        (Reason::Budget, None) => "the budget of its account was used up".to_owned(),
        (Reason::Journal, None) => "the journal could not be written".to_owned(),
        (Reason::Setup, None) => "the run could not begin".to_owned(),
        (reason, None) => reason.to_string(),
    }
}

/// Lists the turns, calls, tokens, cost and time of the run.
fn list_usage(report: &Report, took: Duration, simulated: bool) -> Vec<String> {
    let usage = report.usage;
    let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    vec![
        format_count(report.turns, "turn"),
        format_count(report.tool_calls, "tool call"),
        format_token_sums(input, usage.cache_read, usage.output),
        format_cost(report, simulated),
        format_time(took),
    ]
}

fn format_time(took: Duration) -> String {
    if took < Duration::from_secs(1) {
        format!("{} ms", took.as_millis())
    } else {
        format!("{:.1} s", took.as_secs_f64())
    }
}

/// The words behind the cost of a run whose models are simulated.
pub(crate) const SIMULATED: &str = " simulated, nothing was paid";

fn format_cost(report: &Report, simulated: bool) -> String {
    let amount = match report.cost_usd {
        None if report.is_ended_by_engine() => {
            return "cost unknown (the engine ended the run, which told none)".to_owned();
        }
        None => return "cost unknown (no price for this model)".to_owned(),
        Some(cost) if cost > 0.0 && cost < 0.0001 => "under $0.0001".to_owned(),
        Some(cost) if cost < 1.0 => format!("${cost:.4}"),
        Some(cost) => format!("${cost:.2}"),
    };
    if simulated { amount + SIMULATED } else { amount }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softland_agent::core::{Because, RunEnding, Rung};
    use softland_agent::durable::OpenRuns;
    use softland_agent::{EventKind, UsageTotal};

    fn report(ended: RunEnding, answered_by: Option<AnsweredBy>) -> Report {
        Report {
            ended,
            answer: answered_by.map(|_| "an answer".to_owned()),
            answered_by,
            turns: 5,
            tool_calls: 8,
            usage: UsageTotal { input: 1000, output: 345, cache_read: 9000, cache_write: 2000 },
            cost_usd: Some(0.0123),
            resume: None,
            failure: None,
        }
    }

    fn shown(report: &Report, simulated: bool, width: usize) -> String {
        let pieces = render_summary(report, Duration::from_millis(1240), simulated, width);
        pieces.into_iter().map(|piece| piece.text).collect()
    }

    #[test]
    fn a_landing_says_which_limit_and_how() {
        let because = Because::from_counts(Reason::ToolCalls, 8, 8);
        let landed = RunEnding::from_because(Outcome::Landed, &because, Some(Rung::Ask));
        let report = report(landed, Some(AnsweredBy::Model));
        assert_eq!(
            shown(&report, true, 120),
            "landed: a limit was reached (tool_calls_limit 8); the model answered (rung ask)\n\
             5 turns · 8 tool calls · 12,000 tokens in (75% cached), 345 out · \
             $0.0123 simulated, nothing was paid · 1.2 s\n"
        );
        for text in shown(&report, false, 24).lines() {
            assert!(text.chars().count() <= 24, "{text}");
        }
    }

    #[test]
    fn every_end_says_whose_answer_it_is() {
        let by = Because::from_counts(Reason::Repeat, 3, 3);
        let cases = [
            (
                RunEnding::without_limit(Outcome::Answered, Reason::Final),
                Some(AnsweredBy::Model),
                "answered: the model ended by itself\n",
            ),
            (
                RunEnding::from_because(Outcome::Stopped, &by, None),
                Some(AnsweredBy::Local),
                "stopped: the run was in a loop (repeat: repeat_limit 3); the model gave no answer; the one above is softland's\n",
            ),
            (
                RunEnding::without_limit(Outcome::Failed, Reason::Provider),
                None,
                "failed: the provider gave no answer\n",
            ),
            (
                RunEnding::without_limit(Outcome::Cancelled, Reason::User),
                None,
                "cancelled: by you\n",
            ),
        ];
        for (ended, answered_by, first) in cases {
            let text = shown(&report(ended, answered_by), false, 120);
            assert!(text.starts_with(first), "{text}");
        }
    }

    #[test]
    fn every_reason_has_words_of_its_own() {
        for reason in Reason::ALL {
            let report = report(RunEnding::without_limit(Outcome::Stopped, reason.clone()), None);
            assert_ne!(describe_reason(&report), reason.to_string());
        }
    }

    #[test]
    fn e22_the_cost_of_a_run_that_an_engine_ended_is_unknown_for_that_reason() {
        let mut open = OpenRuns::default();
        let usage = r#"{"v":1,"seq":0,"ts":"2026-11-29T10:00:00Z","run":"r","turn":1,"event":"usage",
            "input":1,"output":1,"cache_read":0,"cache_write":0,"cost_usd":0.1,"request_id":null}"#;
        open.push_event(&serde_json::from_str(usage).unwrap());
        let ends = open.cancelled_ends("r");
        let EventKind::Error { report, .. } = &ends[0].kind else { panic!("{ends:?}") };
        let text = shown(report, false, 200);
        assert!(text.starts_with("cancelled: the engine ended it\n"), "{text}");
        assert!(
            text.contains("cost unknown (the engine ended the run, which told none)"),
            "{text}"
        );
    }

    #[test]
    fn small_and_unknown_costs() {
        for (amount, text) in [
            (None, "cost unknown (no price for this model)"),
            (Some(0.0), "$0.0000"),
            (Some(0.000_01), "under $0.0001"),
            (Some(12.345), "$12.35"),
        ] {
            let ended = RunEnding::without_limit(Outcome::Answered, Reason::Final);
            let report = Report { cost_usd: amount, ..report(ended, None) };
            assert_eq!(format_cost(&report, false), text);
        }
    }
}
