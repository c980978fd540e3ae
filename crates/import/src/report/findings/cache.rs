//! Findings about the prompt cache, by the cause of the loss.

use std::collections::BTreeMap;

use softland_session::core::{LossCause, NanoUsd};

use super::{Finding, FindingPlace, count, digits, dollars, keep_dearest, parts_by, percent, span};
use crate::report::spending::{LossEvent, format_time};
use crate::report::{Report, RunReport};

const HOUR: u64 = 3_600_000;

/// Lists the losses, one finding for each cause.
pub(super) fn find_losses(report: &Report) -> Vec<Finding> {
    LossCause::ALL.into_iter().filter_map(|cause| find_loss(report, cause)).collect()
}

fn find_loss(report: &Report, cause: LossCause) -> Option<Finding> {
    let lost = |run: &&RunReport| run.spending.r#where.lost_to_cause(cause) > NanoUsd::ZERO;
    let runs: Vec<&RunReport> = report.runs.iter().filter(lost).collect();
    let usd: NanoUsd = runs.iter().map(|run| run.spending.r#where.lost_to_cause(cause)).sum();
    let sums = || runs.iter().filter_map(|run| run.spending.losses.get(cause as usize));
    let (turns, tokens) = (sums().map(|sum| sum.turns).sum(), sums().map(|sum| sum.tokens).sum());
    if usd == NanoUsd::ZERO {
        return None;
    }
    let events: Vec<(&RunReport, &LossEvent)> = runs
        .iter()
        .flat_map(|run| run.spending.dearest_losses.iter().map(move |event| (*run, event)))
        .filter(|(_, event)| event.cause == cause)
        .collect();
    let mut evidence: Vec<FindingPlace> =
        events.iter().map(|(run, event)| describe_event(run, event)).collect();
    keep_dearest(&mut evidence);
    let mut found = Finding {
        kind: match cause {
            LossCause::Model => "lost_model",
            LossCause::Compaction => "lost_compaction",
            LossCause::Idle => "lost_idle",
            LossCause::Edited => "lost_edited",
            LossCause::Unknown => "lost_unknown",
        },
        usd: Some(usd),
        tokens,
        runs: runs.len() as u64,
        evidence,
        parts: parts_by(runs.iter().copied(), |run| run.spending.r#where.lost_to_cause(cause)),
        ..Finding::default()
    };
    let again = format!("{} tokens again", digits(tokens));
    match cause {
        LossCause::Idle => describe_idle(&mut found, &events, turns, report),
        LossCause::Edited => describe_edited(&mut found, &events, turns),
        LossCause::Model => {
            found.what =
                format!("{} of the model within a conversation sent {again}", switches(turns));
            found.saves_at_most_usd = Some(usd);
            found.advice = format!(
                "Choose the model before the first message, or give the other model's part to a \
                 sub-agent: that would have saved at most {}.",
                dollars(usd)
            );
        }
        LossCause::Compaction => {
            found.what =
                format!("{} rebuilt the context and wrote {again}", count(turns, "compaction"));
        }
        LossCause::Unknown => {
            found.what = format!(
                "{} sent {again} that had been cached; the recording does not tell why",
                count(turns, "turn")
            );
            found.advice = advise_unknown(&events);
        }
    }
    Some(found)
}

fn switches(number: u64) -> String {
    format!("{} {}", digits(number), if number == 1 { "switch" } else { "switches" })
}

/// Advice where the provider states no time to live. Most forget a prompt within minutes.
fn advise_unknown(events: &[(&RunReport, &LossEvent)]) -> String {
    const MINUTES: u64 = 5 * 60_000;
    let late = events.iter().filter(|(_, event)| event.pause_ms.is_some_and(|ms| ms > MINUTES));
    let late: NanoUsd = late.map(|(_, event)| event.usd).sum();
    let mut advice = String::new();
    if late > NanoUsd::ZERO {
        advice = format!(
            "{} of it came more than five minutes after the turn before: providers that state no \
             time to live mostly forget a prompt within minutes, so a new session costs less than \
             to go on with a long one. ",
            dollars(late)
        );
    }
    advice + "Where a router picks the provider, pin one: caches are not shared between providers."
}

fn describe_event(run: &RunReport, event: &LossEvent) -> FindingPlace {
    let pause = event.pause_ms.map(|pause| format!("{} after the turn before", span(pause)));
    let message = event.new_message.map(|new| match new {
        true => "with a new message".to_owned(),
        false => "with results of tools".to_owned(),
    });
    let still = format!("{} tokens were still read", digits(event.still_read));
    let seen: Vec<String> = pause.into_iter().chain(message).chain([still]).collect();
    FindingPlace {
        run: run.run.clone(),
        turn: Some(event.turn),
        time: event.time.map(format_time),
        usd: Some(event.usd),
        tokens: event.tokens,
        what: seen.join(", "),
    }
}

/// A pause: what a compaction before it, or a cache of an hour, would have saved at most.
fn describe_idle(
    found: &mut Finding,
    events: &[(&RunReport, &LossEvent)],
    turns: u64,
    report: &Report,
) {
    found.what = format!(
        "{} longer than the cache keeps a prompt wrote {} tokens again",
        count(turns, "pause"),
        digits(found.tokens)
    );
    // A compacted context has the system prompt and the tools at least.
    let beyond = |(run, event): &(&RunReport, &LossEvent)| {
        let fixed = run.spending.system_tokens.saturating_sub(event.still_read);
        share(event.usd, event.tokens.saturating_sub(fixed), event.tokens)
    };
    let saved: NanoUsd = events.iter().map(beyond).sum();
    found.saves_at_most_usd = Some(saved);
    found.advice = format!(
        "`/compact`, or a new session, before a pause would have saved at most {}.",
        dollars(saved)
    );
    // Writing for an hour costs 2 instead of 1.25 times the input's price.
    let kept_short = |event: &LossEvent| event.kept_ms == Some(5 * 60_000);
    let within = |event: &LossEvent| event.pause_ms.is_some_and(|pause| pause <= HOUR);
    let within_hour: NanoUsd = events
        .iter()
        .filter(|(_, event)| kept_short(event) && within(event))
        .map(|(_, event)| event.usd)
        .sum();
    let written: NanoUsd = report.runs.iter().map(|run| run.spending.written_5m_usd).sum();
    let gain = within_hour.saturating_sub(share(written, 75, 125));
    if gain > NanoUsd::ZERO {
        found.advice += &format!(
            " Caches of one hour instead of five minutes would have saved at most {}.",
            dollars(gain)
        );
    }
}

/// Something earlier had changed: where, and when.
fn describe_edited(found: &mut Finding, events: &[(&RunReport, &LossEvent)], turns: u64) {
    let usd = |events: &[&LossEvent]| events.iter().map(|event| event.usd).sum::<NanoUsd>();
    let all: Vec<&LossEvent> = events.iter().map(|(_, event)| *event).collect();
    let asked: Vec<&LossEvent> =
        all.iter().filter(|event| event.new_message == Some(true)).copied().collect();
    let of_asked = usd(&asked);
    found.what = format!(
        "{} wrote {} tokens again that the cache still held: something earlier in the request had \
         changed",
        count(turns, "turn"),
        digits(found.tokens)
    );
    let mut advice = format!(
        "{} of this money was lost as a new message came in.",
        percent(of_asked, usd(&all))
    );
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    for event in &all {
        *sizes.entry(event.still_read).or_insert(0) += 1;
    }
    let common = sizes.iter().max_by_key(|(size, times)| (**times, **size));
    if let Some((size, times)) = common.filter(|(_, times)| **times > 1) {
        advice += &match size {
            0 => format!(
                " In {times} cases nothing was read any more: the system prompt or the tools had \
                 changed (a clock in the prompt, a server that connects late)."
            ),
            size => format!(
                " In {times} cases the first {} tokens were still read: the change is in the \
                 messages right behind them (the client drops earlier thinking, or puts a \
                 reminder, a skill or a changed file in front).",
                digits(*size)
            ),
        };
    }
    if of_asked > NanoUsd::ZERO {
        found.saves_at_most_usd = Some(of_asked);
        advice += &format!(
            " A new session (`/clear`) for each new task would have saved at most {}.",
            dollars(of_asked)
        );
    }
    found.advice = advice;
}

/// Returns `amount` × `part` / `whole`.
pub(super) fn share(amount: NanoUsd, part: u64, whole: u64) -> NanoUsd {
    let nano = u128::from(amount.0) * u128::from(part) / u128::from(whole.max(1));
    NanoUsd(u64::try_from(nano).unwrap_or(u64::MAX))
}
