//! The summary that `wrap` prints at the end: the money spent, how the runs ended and why, and what
//! the ledger lacks.

use softland_agent::core::{NanoUsd, Outcome, Reason};
use softland_gateway::{INTERVENTIONS, LedgerPlace, ObservedSummary, RecapRun, Summary};

use crate::render::format_count;
use crate::runs::format_dollars;

/// The most runs that are named.
const NAMED: usize = 5;

/// The wrapped program, and the ledger that was written.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) program: &'a str,
    pub(super) ledger: Option<&'a LedgerPlace>,
}

/// Summarizes a program's requests in lines.
pub(super) fn summary_lines(summary: &Summary, place: Place<'_>) -> Vec<String> {
    if summary.requests == 0 {
        return vec![format!(
            "softland: `{}` sent no request through softland. It was given ANTHROPIC_BASE_URL, \
             OPENAI_BASE_URL and OPENAI_API_BASE; a program with settings of its own may not read \
             them",
            place.program
        )];
    }
    let mut lines = vec![describe_total(summary)];
    lines.extend(describe_unknown(summary));
    lines.extend(describe_runs(summary));
    lines.extend((summary.would.runs > 0).then(|| describe_observed(&summary.would)));
    lines.extend(describe_ledger(summary, place));
    lines.into_iter().map(|line| format!("softland: {line}")).collect()
}

/// Describes the money, the requests, and how many runs ended how.
fn describe_total(summary: &Summary) -> String {
    let Summary { requests, spend, answered, landed, stopped, failed, cancelled, .. } = *summary;
    let ends = [
        (answered, "answered"),
        (landed, "landed"),
        (stopped, "stopped"),
        (failed, "failed"),
        (cancelled, "cancelled"),
    ];
    let runs = count_runs(summary);
    // Landed and stopped runs are the numbers that users look for, so zeros are shown, too.
    let ends: Vec<String> = ends
        .iter()
        .filter(|(count, end)| *count > 0 || matches!(*end, "landed" | "stopped"))
        .map(|(count, end)| format!("{count} {end}"))
        .collect();
    let ends =
        if runs == 0 { "no request with tools was answered".to_owned() } else { ends.join(", ") };
    let spent = match (spend, summary.recap.unpriced_requests) {
        (_, 0) => format_dollars(spend),
        (NanoUsd::ZERO, _) => "?".to_owned(),
        (_, _) => format!("{} + ?", format_dollars(spend)),
    };
    format!(
        "{spent} spent on {}; {}: {ends}",
        format_count(requests, "request"),
        format_count(runs, "run"),
    )
}

/// Explains the `?` of the total, if there is one.
fn describe_unknown(summary: &Summary) -> Option<String> {
    let recap = &summary.recap;
    let models = match recap.unpriced_models.as_slice() {
        [] => String::new(),
        models => format!(" of {}", models.join(", ")),
    };
    (recap.unpriced_requests > 0).then(|| {
        format!(
            "? is the cost of {}{models}: softland knows no price, or got no token counts; \
             [[price]] in a config sets a price",
            format_count(recap.unpriced_requests, "request")
        )
    })
}

/// Names the runs, those that did not end by themselves first.
fn describe_runs(summary: &Summary) -> Vec<String> {
    let runs = &summary.recap.runs;
    let mut lines: Vec<String> = runs.iter().take(NAMED).map(describe_run).collect();
    let more = count_runs(summary).saturating_sub(lines.len() as u64);
    if more > 0 && !lines.is_empty() {
        lines.push(format!("and {}", format_count(more, "more run")));
    }
    lines
}

fn count_runs(summary: &Summary) -> u64 {
    let Summary { answered, landed, stopped, failed, cancelled, .. } = *summary;
    [answered, landed, stopped, failed, cancelled].iter().sum()
}

fn describe_run(run: &RecapRun) -> String {
    let ended = &run.ended;
    let why = match (&ended.limit, &ended.value, ended.needed) {
        (Some(limit), Some(value), Some(needed)) => {
            let needed = format_dollars(needed);
            format!("{limit} {value} left too little for one more request (up to {needed})")
        }
        (Some(limit), Some(value), None) => format!("{limit} {value} was reached"),
        _ => explain_reason(&ended.reason),
    };
    let agent = run.agent.as_ref().map(|agent| format!(" ({agent})")).unwrap_or_default();
    let local = if run.local && ended.outcome != Outcome::Failed {
        "; softland answered in the model's place"
    } else {
        ""
    };
    let said = run.said.as_ref().filter(|_| ended.reason == Reason::Provider);
    let said = said.map(|words| format!(" ({words})")).unwrap_or_default();
    format!(
        "{}{agent} {}: {why}{said}; {}, {}, {}{local}",
        run.run,
        ended.outcome.word(),
        format_count(run.turns, "turn"),
        format_count(run.tool_calls, "tool call"),
        run.cost.map_or_else(|| "?".to_owned(), format_dollars),
    )
}

/// Explains the end of a run that no limit caused.
fn explain_reason(reason: &Reason) -> String {
    match reason {
        Reason::Final => "the model ended by itself".to_owned(),
        Reason::Refusal => "the model refused".to_owned(),
        Reason::Truncated => "the output was cut off repeatedly".to_owned(),
        Reason::Provider => "the provider gave no answer".to_owned(),
        Reason::User => "the program or a person ended it".to_owned(),
        reason => reason.to_string(),
    }
}

/// Names the command that shows more, or what the ledger lacks.
fn describe_ledger(summary: &Summary, place: Place<'_>) -> Option<String> {
    let ledger = place.ledger?;
    if summary.lost_records > 0 {
        let why = summary.ledger_fault.as_deref().unwrap_or("it was not written in time");
        return Some(format!(
            "the ledger lacks {} of this program: {why}",
            format_count(summary.lost_records, "record")
        ));
    }
    let runs = count_runs(summary);
    Some(match (runs, summary.recap.runs.as_slice()) {
        (0, _) => format!("softland runs lists what was spent ({ledger})"),
        // Another program may have written a newer run meanwhile.
        (1, [run]) => format!(
            "softland show {} shows it step by step; softland pages shows all runs in a browser",
            run.run
        ),
        _ => "softland show last shows the last run step by step; softland pages shows all runs \
              in a browser"
            .to_owned(),
    })
}

/// Describes the interventions that would have been made in runs that were only observed.
fn describe_observed(would: &ObservedSummary) -> String {
    let done = INTERVENTIONS.iter().zip(would.times).filter(|(_, times)| *times > 0);
    let done: Vec<String> = done.map(|(word, times)| format!("{times} × {word}")).collect();
    let what = if done.is_empty() { "none".to_owned() } else { done.join(", ") };
    format!(
        "nothing was changed. Of {} observed, {} would have landed and {} would have been \
         stopped; interventions that would have been made: {what}",
        format_count(would.runs, "run"),
        would.landed,
        would.stopped,
    )
}

#[cfg(test)]
mod tests {
    use softland_agent::core::{Because, RunEnding, Rung};
    use softland_gateway::Recap;

    use super::*;

    fn lines(summary: &Summary) -> Vec<String> {
        summary_lines(summary, Place { program: "claude", ledger: None })
    }

    fn ended(run: &str, ended: RunEnding, cost: Option<NanoUsd>) -> RecapRun {
        let run = run.to_owned();
        let said = Some("not_found_error (HTTP 404): no model `m`".to_owned());
        RecapRun { run, agent: None, ended, local: false, turns: 31, tool_calls: 30, cost, said }
    }

    fn landed() -> RunEnding {
        let because = Because::from_counts(Reason::ToolCalls, 30, 30);
        RunEnding::from_because(Outcome::Landed, &because, Some(Rung::Ask))
    }

    #[test]
    fn money_and_ends_are_told() {
        let summary = Summary {
            requests: 12,
            spend: NanoUsd(11_400_000),
            answered: 1,
            landed: 2,
            failed: 1,
            ..Summary::default()
        };
        assert_eq!(
            lines(&summary),
            ["softland: $0.0114 spent on 12 requests; 4 runs: 1 answered, 2 landed, 0 stopped, 1 \
              failed"]
        );
        let summary = Summary { requests: 1, stopped: 1, ..Summary::default() };
        assert_eq!(
            lines(&summary),
            ["softland: $0.0000 spent on 1 request; 1 run: 0 landed, 1 stopped"]
        );
    }

    fn kept_ledger() -> LedgerPlace {
        std::path::Path::new("/x/softland.db").into()
    }

    #[test]
    fn runs_are_named_with_limits_and_reasons() {
        let mut stopped =
            ended("run-2", RunEnding::without_limit(Outcome::Stopped, Reason::Repeat), None);
        (stopped.local, stopped.agent) = (true, Some("tester".to_owned()));
        let runs = vec![ended("run-1", landed(), Some(NanoUsd(10_000_000))), stopped];
        let recap = Recap { runs, ..Recap::default() };
        let summary = Summary { requests: 9, landed: 1, stopped: 2, recap, ..Summary::default() };
        let ledger = kept_ledger();
        let place = Place { program: "claude", ledger: Some(&ledger) };
        let said = summary_lines(&summary, place);
        assert_eq!(
            said[1..4],
            [
                "softland: run-1 landed: tool_calls_limit 30 was reached; 31 turns, 30 tool \
                 calls, $0.0100",
                "softland: run-2 (tester) stopped: repeat; 31 turns, 30 tool calls, ?; softland \
                 answered in the model's place",
                "softland: and 1 more run",
            ]
        );
        assert!(said[4].contains("softland show last"), "{said:?}");
    }

    #[test]
    fn d11_a_refusal_is_told_in_the_providers_words() {
        let failed = RunEnding::without_limit(Outcome::Failed, Reason::Provider);
        let told = describe_run(&ended("run-1", failed, None));
        let wanted = "run-1 failed: the provider gave no answer (not_found_error (HTTP 404): no \
                      model `m`); 31 turns, 30 tool calls, ?";
        assert_eq!(told, wanted);
        // A run that went on all the same has not ended by it.
        assert!(!describe_run(&ended("run-1", landed(), None)).contains("404"));
    }

    #[test]
    fn a_single_run_is_named_by_its_id() {
        let answered = RunEnding::without_limit(Outcome::Answered, Reason::Final);
        let runs = vec![ended("run-1", answered, Some(NanoUsd(10_000_000)))];
        let recap = Recap { runs, ..Recap::default() };
        let summary = Summary { requests: 9, answered: 1, recap, ..Summary::default() };
        let ledger = kept_ledger();
        let place = Place { program: "claude", ledger: Some(&ledger) };
        let said = summary_lines(&summary, place);
        let wanted = "softland: run-1 answered: the model ended by itself; 31 turns, ";
        assert!(said[1].starts_with(wanted), "{said:?}");
        assert!(said[2].starts_with("softland: softland show run-1 shows it step by step; "));
    }

    #[test]
    fn unknown_money_is_no_zero() {
        let recap = Recap {
            unpriced_requests: 2,
            unpriced_models: vec!["qwen3-coder-local".to_owned()],
            ..Recap::default()
        };
        let mut summary = Summary { requests: 2, cancelled: 1, recap, ..Summary::default() };
        let said = lines(&summary);
        assert!(said[0].starts_with("softland: ? spent on 2 requests; "), "{said:?}");
        assert!(said[1].contains("2 requests of qwen3-coder-local: "), "{said:?}");
        summary.spend = NanoUsd(1_500_000_000);
        assert!(lines(&summary)[0].starts_with("softland: $1.50 + ? spent on"), "{said:?}");
    }

    #[test]
    fn a_ledger_that_lacks_records_is_named() {
        let summary = Summary {
            requests: 1,
            answered: 1,
            lost_records: 3,
            ledger_fault: Some("/x/softland.db: database or disk is full".to_owned()),
            ..Summary::default()
        };
        let ledger = kept_ledger();
        let place = Place { program: "claude", ledger: Some(&ledger) };
        let said = summary_lines(&summary, place).join("\n");
        assert!(said.contains("the ledger lacks 3 records of this program: /x/softland.db: "));
        assert!(said.contains("disk is full") && !said.contains("show last"), "{said}");
    }

    #[test]
    fn what_would_have_been_done_is_told() {
        let mut would =
            ObservedSummary { runs: 3, landed: 2, stopped: 0, times: Default::default() };
        let mut said = |times: &[(&str, u64)]| {
            for (word, times) in times {
                let at = INTERVENTIONS.iter().position(|known| known == word).unwrap();
                would.times[at] = *times;
            }
            let summary = Summary { requests: 20, cancelled: 3, would, ..Summary::default() };
            lines(&summary).join("\n")
        };
        assert_eq!(
            said(&[]),
            "softland: $0.0000 spent on 20 requests; 3 runs: 0 landed, 0 stopped, 3 cancelled\n\
             softland: nothing was changed. Of 3 runs observed, 2 would have landed and 0 would \
             have been stopped; interventions that would have been made: none"
        );
        let said = said(&[("ask", 2), ("countdown", 12)]);
        assert!(said.ends_with("would have been made: 12 × countdown, 2 × ask"), "{said}");
    }

    #[test]
    fn requests_without_a_run_are_not_hidden() {
        let summary = Summary { requests: 20, ..Summary::default() };
        let said = lines(&summary).join("\n");
        let runs = "0 runs: no request with tools was answered";
        assert_eq!(said, format!("softland: $0.0000 spent on 20 requests; {runs}"));
    }

    #[test]
    fn a_program_that_went_elsewhere_is_named() {
        let said = lines(&Summary::default()).join("\n");
        assert!(said.contains("`claude` sent no request through softland"), "{said}");
    }
}
