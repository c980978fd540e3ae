//! What `wrap` says at the end: what was spent, landed and stopped.

use softland_gateway::Summary;

use crate::runs::dollars;

/// The account of a program's requests, in lines.
pub(super) fn lines(summary: &Summary, program: &str) -> Vec<String> {
    let Summary { requests, spend, answered, landed, stopped, failed, cancelled } = *summary;
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
    // Landed and stopped are what one looks for, so a zero is said too.
    let ends: Vec<String> = ends
        .iter()
        .filter(|(count, end)| *count > 0 || matches!(*end, "landed" | "stopped"))
        .map(|(count, end)| format!("{count} {end}"))
        .collect();
    vec![format!(
        "softland: {} spent on {}; {}: {}",
        dollars(spend),
        counted(requests, "request"),
        counted(runs, "run"),
        ends.join(", ")
    )]
}

fn counted(count: u64, what: &str) -> String {
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
            lines(&summary, "claude"),
            ["softland: $0.0114 spent on 12 requests; 4 runs: 1 answered, 2 landed, 0 \
              stopped, 1 failed"]
        );
        let summary = Summary { requests: 1, stopped: 1, ..Summary::default() };
        assert_eq!(
            lines(&summary, "claude"),
            ["softland: $0.0000 spent on 1 request; 1 run: 0 landed, 1 stopped"]
        );
    }

    #[test]
    fn a_program_that_went_elsewhere_is_named() {
        let said = lines(&Summary::default(), "other").join("\n");
        assert!(said.contains("no request came by") && said.contains("`other`"), "{said}");
    }
}
