//! Loads that ask whether it holds rather than how fast it is: many streams at once, and many
//! requests while memory is watched.

use std::time::Duration;

use softland_bench_texts::answers::EVENTS;
use softland_bench_texts::requests::Kind;

use crate::drive::{self, Until};
use crate::figures::{each, mib, ms, percentile, shown};
use crate::stand::Stand;
use crate::table;
use crate::targets::Target;

/// Between two events of a stream: 20,000 events a second for 1,000 streams, which the mock and
/// the load tool can do on their one core.
const GAP: Duration = Duration::from_millis(50);
/// Requests between two looks at the memory.
const BATCH: u64 = 5_000;
/// Requests before memory has to be flat. softland remembers 4,096 conversations, here of 16
/// requests each: from the 65,536th request on it forgets as many as come.
const WARM: u64 = 75_000;
/// What the last fifth may have more than the first: a share, and MiB.
const MORE: (f64, f64) = (1.05, 1.0);
/// Beyond that, bytes for each further session. What it has spent is kept for 48 hours, in two
/// accounts of 57 bytes, in a table that is less than half full behind each time that it doubles,
/// and is there twice while it does.
const KEPT: f64 = 400.0;
/// Of a batch, one in so many is a stream.
const STREAMED: u64 = 5;

/// So many paced streams at once; a report, and whether all came to their end.
pub(crate) async fn streams(target: Target, count: usize) -> Result<String, String> {
    let mut stand = Stand::up(target).await?;
    stand.counts().await?;
    let idle = stand.process().pss();
    let before = stand.process().quiet_cpu().await;
    let (seen, peak) = table::paced(&mut stand, count, GAP).await?;
    let after = stand.process().quiet_cpu().await;
    stand.check_governed().await?;
    let runs = stand.down()?;
    let least = GAP.as_millis() * (EVENTS as u128 - 1);
    Ok(format!(
        "{}: {} streams at once, all came to their end\n\
         whole stream: p50 {} ms, p99 {} ms (at least {least} ms)\n\
         CPU {:.3} ms a stream; PSS {:.1} MiB idle, {:.1} MiB at most{}",
        target.name(),
        seen.answered,
        shown(percentile(&seen.whole, 50), 0),
        shown(percentile(&seen.whole, 99), 0),
        each(ms(after - before), seen.answered),
        mib(idle),
        mib(peak),
        listed(runs),
    ))
}

/// So many requests behind the warm-up, a part of them streamed; a report, and whether memory was
/// flat.
pub(crate) async fn soak(target: Target, requests: u64) -> Result<(String, bool), String> {
    let mut stand = Stand::up(target).await?;
    stand.counts().await?;
    let (plain, stream) = (stand.ask(Kind::Short), stand.ask(Kind::ShortStream));
    let numbers = stand.numbers.clone();
    let (mut answered, mut sizes, mut begun) = (0, Vec::new(), 0);
    while answered < WARM + requests {
        if answered <= WARM {
            begun = numbers.get();
        }
        for (ask, share) in [(&plain, BATCH - BATCH / STREAMED), (&stream, BATCH / STREAMED)] {
            let seen = drive::closed(ask, Until::Requests(share), &numbers).await.check()?;
            answered += seen.answered;
        }
        sizes.push(stand.process().rss());
        progress(answered, sizes.last().copied().unwrap_or_default());
    }
    stand.check_governed().await?;
    let runs = stand.down()?;
    let warm =
        sizes.split_off(usize::try_from(WARM / BATCH).unwrap_or(usize::MAX).min(sizes.len()));
    let (warming, (early, late)) = (sizes, fifths(&warm));
    let sessions = numbers.get() - begun;
    let kept = KEPT * sessions as f64 / f64::from(1 << 20);
    let flat = late <= early * MORE.0 + MORE.1 + kept;
    let word = if flat { "pass        " } else { "FAIL        " };
    let text = format!(
        "{}: {answered} requests without an error, {} of each {BATCH} streamed{}\n\
         RSS in MiB after each {BATCH}: warming up {}; then {}\n\
         {word} flat memory: {late:.1} MiB over the last fifth, {early:.1} MiB over the first behind \
         the first {WARM}; at most 5 % and 1 MiB more, and {kept:.1} MiB for {sessions} further \
         sessions",
        target.name(),
        BATCH / STREAMED,
        listed(runs),
        shown_sizes(&warming),
        shown_sizes(&warm),
    );
    Ok((text, flat))
}

fn shown_sizes(sizes: &[u64]) -> String {
    let shown: Vec<_> = sizes.iter().map(|size| format!("{:.1}", mib(*size))).collect();
    shown.join(" ")
}

#[expect(clippy::print_stderr, reason = "a load of minutes says where it is")]
fn progress(answered: u64, size: u64) {
    eprintln!("{answered} requests, RSS {:.1} MiB", mib(size));
}

fn listed(runs: Option<usize>) -> String {
    runs.map(|runs| format!("; {runs} runs in its ledger")).unwrap_or_default()
}

/// The mean sizes of the first fifth and of the last, in MiB.
fn fifths(sizes: &[u64]) -> (f64, f64) {
    let fifth = (sizes.len() / 5).max(1).min(sizes.len());
    let mean = |part: &[u64]| each(mib(part.iter().sum()), part.len() as u64);
    (mean(&sizes[..fifth]), mean(&sizes[sizes.len() - fifth..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_seen() {
        let flat = [20, 20, 21, 20, 20].map(|size| size * 1024);
        assert_eq!(fifths(&flat), (20.0, 20.0));
        let growing = [10, 20, 30, 40, 50].map(|size| size * 1024);
        assert_eq!(fifths(&growing), (10.0, 50.0));
        assert_eq!(fifths(&[1024]), (1.0, 1.0));
    }
}
