//! The summary that `wrap` prints at the end: the money spent, and the runs that were landed and
//! stopped, or would have been.

use softland_gateway::{INTERVENTIONS, ObservedSummary, Summary};

use crate::runs::format_dollars;

/// Summarizes a program's requests in lines.
pub(super) fn summary_lines(summary: &Summary, program: &str) -> Vec<String> {
    let Summary { requests, spend, answered, landed, stopped, failed, cancelled, would } = *summary;
    if requests == 0 {
        return vec![format!(
            "softland: no request came by; `{program}` was given ANTHROPIC_BASE_URL, \
             OPENAI_BASE_URL and OPENAI_API_BASE and did not use them (has it settings of its \
             own?)"
        )];
    }
    let ends = [
        (answered, "answered"),
        (landed, "landed"),
        (stopped, "stopped"),
        (failed, "failed"),
        (cancelled, "cancelled"),
    ];
    let runs: u64 = ends.iter().map(|(count, _)| count).sum();
    // Landed and stopped runs are the numbers that users look for, so zeros are shown, too.
    let ends: Vec<String> = ends
        .iter()
        .filter(|(count, end)| *count > 0 || matches!(*end, "landed" | "stopped"))
        .map(|(count, end)| format!("{count} {end}"))
        .collect();
    let ends = if runs == 0 { "none of them had tools".to_owned() } else { ends.join(", ") };
    let mut lines = vec![format!(
        "softland: {} spent on {}; {}: {ends}",
        format_dollars(spend),
        format_count(requests, "request"),
        format_count(runs, "run"),
    )];
    lines.extend((would.runs > 0).then(|| describe_observed(&would)));
    lines
}

/// Describes the interventions that would have been made in runs that were only observed.
fn describe_observed(would: &ObservedSummary) -> String {
    let done = INTERVENTIONS.iter().zip(would.times).filter(|(_, times)| *times > 0);
    let done: Vec<String> = done.map(|(word, times)| format!("{times} × {word}")).collect();
    let what = if done.is_empty() { "nothing".to_owned() } else { done.join(", ") };
    format!(
        "softland: nothing was changed; of {} observed, {} would have landed, {} been stopped; \
         what would have been done: {what}",
        format_count(would.runs, "run"),
        would.landed,
        would.stopped,
    )
}

fn format_count(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use softland_agent::core::NanoUsd;

    use super::*;

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
            summary_lines(&summary, "claude"),
            ["softland: $0.0114 spent on 12 requests; 4 runs: 1 answered, 2 landed, 0 \
              stopped, 1 failed"]
        );
        let summary = Summary { requests: 1, stopped: 1, ..Summary::default() };
        assert_eq!(
            summary_lines(&summary, "claude"),
            ["softland: $0.0000 spent on 1 request; 1 run: 0 landed, 1 stopped"]
        );
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
            summary_lines(&summary, "claude").join("\n")
        };
        assert_eq!(
            said(&[]),
            "softland: $0.0000 spent on 20 requests; 3 runs: 0 landed, 0 stopped, 3 cancelled\n\
             softland: nothing was changed; of 3 runs observed, 2 would have landed, 0 been \
             stopped; what would have been done: nothing"
        );
        let said = said(&[("ask", 2), ("countdown", 12)]);
        assert!(said.ends_with("what would have been done: 12 × countdown, 2 × ask"), "{said}");
    }

    #[test]
    fn requests_without_a_run_are_not_hidden() {
        let summary = Summary { requests: 20, ..Summary::default() };
        let said = summary_lines(&summary, "claude").join("\n");
        assert_eq!(said, "softland: $0.0000 spent on 20 requests; 0 runs: none of them had tools");
    }

    #[test]
    fn a_program_that_went_elsewhere_is_named() {
        let said = summary_lines(&Summary::default(), "other").join("\n");
        assert!(said.contains("no request came by") && said.contains("`other`"), "{said}");
    }
}
