//! The table: every load against every target, round by round, each time in fresh processes.

use std::time::Duration;

use softland_bench_texts::requests::Kind;

use crate::drive::{self, Seen, Until};
use crate::figures::{Figure, Figures, each, mib, ms, percentile};
use crate::mock::Pace;
use crate::stand::Stand;
use crate::targets::Target;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) rounds: usize,
    /// Of a closed loop.
    pub(crate) time: Duration,
    /// Requests of a steady load.
    pub(crate) steady: u32,
    /// Requests of 1 MB.
    pub(crate) long: u32,
    /// Only the closed loop of short requests answered whole.
    pub(crate) plain: bool,
    /// Both ends of a closed loop stay awake.
    pub(crate) awake: bool,
}

impl Amount {
    pub(crate) const FULL: Self = Self {
        rounds: 3,
        time: Duration::from_secs(3),
        steady: 400,
        long: 100,
        plain: false,
        awake: true,
    };

    /// Shorter loads, one round of them.
    pub(crate) fn quick(self) -> Self {
        Self { rounds: 1, time: Duration::from_secs(1), steady: 100, long: 30, ..self }
    }
}

/// Streams that are open at the same time.
const OPEN: usize = 200;
/// Between two events of a paced stream.
const GAP: Duration = Duration::from_millis(5);

#[derive(Clone, Copy)]
enum Load {
    Plain,
    Stream,
    Open,
    Long,
}

/// Measures, and says on standard error what it is at. What cannot be measured is in the second.
pub(crate) async fn measure(targets: &[Target], amount: Amount) -> (Figures, Vec<String>) {
    let (mut figures, mut problems) = (Figures::default(), Vec::new());
    for round in 0..amount.rounds {
        let loads = [Load::Plain, Load::Stream, Load::Open, Load::Long];
        for load in loads.into_iter().take(if amount.plain { 1 } else { loads.len() }) {
            for target in targets.iter().filter(|t| !matches!(load, Load::Long) || t.has_long()) {
                say(round, amount.rounds, load, *target);
                let mut note = |figure, value| figures.add(figure, *target, round, value);
                if let Err(problem) = one(*target, load, amount, &mut note).await {
                    problems.push(format!("round {}: {problem}", round + 1));
                }
            }
        }
    }
    (figures, problems)
}

#[expect(clippy::print_stderr, reason = "a measurement of minutes says where it is")]
fn say(round: usize, rounds: usize, load: Load, target: Target) {
    let load = match load {
        Load::Plain => "1.5 KB, whole",
        Load::Stream => "1.5 KB, streamed",
        Load::Open => "200 open streams",
        Load::Long => "1 MB",
    };
    eprintln!("round {} of {rounds}: {load}: {}", round + 1, target.name());
}

async fn one(
    target: Target,
    load: Load,
    amount: Amount,
    note: &mut impl FnMut(Figure, f64),
) -> Result<(), String> {
    let mut stand = Stand::up(target).await?;
    if target != Target::Direct {
        note(Figure::Start, ms(stand.started));
    }
    stand.counts().await?;
    let measured = match load {
        Load::Plain => plain(&mut stand, amount, note).await,
        Load::Stream => stream(&mut stand, amount, note).await,
        Load::Open => open(&mut stand, note).await,
        Load::Long => long(&mut stand, amount, note).await,
    };
    measured.map_err(|problem| format!("{}: {problem}", target.name()))?;
    stand.check_governed().await?;
    stand.down().map(|_| ())
}

/// A closed loop: processor time of each, and how many a second.
async fn busy(stand: &mut Stand, kind: Kind, amount: Amount) -> Result<(f64, f64), String> {
    let (ask, numbers, time) = (stand.ask(kind), stand.numbers.clone(), amount.time);
    stand.keep_awake(amount.awake).await?;
    drive::closed(&ask, Until::After(time / 5), &numbers).await.check()?;
    let before = stand.process().quiet_cpu().await;
    let seen = drive::closed(&ask, Until::After(time), &numbers).await.check()?;
    let after = stand.process().quiet_cpu().await;
    stand.keep_awake(false).await?;
    let rate = 1000.0 / each(ms(seen.wall), seen.answered);
    Ok((each(ms(after - before), seen.answered), rate))
}

async fn plain(
    stand: &mut Stand,
    amount: Amount,
    note: &mut impl FnMut(Figure, f64),
) -> Result<(), String> {
    note(Figure::IdlePss, mib(stand.process().pss()));
    let (cpu, rate) = busy(stand, Kind::Short, amount).await?;
    note(Figure::PlainCpu, cpu);
    note(Figure::PlainRate, rate);
    let ask = stand.ask(Kind::Short);
    let gap = Duration::from_millis(10);
    let seen = drive::steady(&ask, amount.steady, gap, &stand.numbers).await.check()?;
    percentiles(&seen.whole, Figure::PlainP50, Figure::PlainP99, note);
    Ok(())
}

async fn stream(
    stand: &mut Stand,
    amount: Amount,
    note: &mut impl FnMut(Figure, f64),
) -> Result<(), String> {
    let (cpu, rate) = busy(stand, Kind::ShortStream, amount).await?;
    note(Figure::StreamCpu, cpu);
    note(Figure::StreamRate, rate);
    // The head event comes by itself, when nothing else is under way.
    let lone = Duration::from_millis(3);
    stand.pace(Pace { gap: lone, lead: lone, joined: true }).await?;
    let ask = stand.ask(Kind::ShortStream);
    let gap = Duration::from_millis(10);
    let seen = drive::steady(&ask, amount.steady, gap, &stand.numbers).await.check()?;
    if seen.forwarded.len() < seen.whole.len() / 2 {
        return Err("head events came without their time".to_owned());
    }
    percentiles(&seen.forwarded, Figure::HeadP50, Figure::HeadP99, note);
    Ok(())
}

async fn open(stand: &mut Stand, note: &mut impl FnMut(Figure, f64)) -> Result<(), String> {
    let before = stand.process().quiet_cpu().await;
    let (seen, peak) = paced(stand, OPEN, GAP).await?;
    let after = stand.process().quiet_cpu().await;
    note(Figure::OpenCpu, each(ms(after - before), seen.answered));
    note(Figure::OpenPss, mib(peak));
    note(Figure::OpenTotal, percentile(&seen.whole, 50).unwrap_or_default());
    Ok(())
}

/// So many paced streams side by side; what they saw and the most memory meanwhile, in KiB.
pub(crate) async fn paced(
    stand: &mut Stand,
    count: usize,
    gap: Duration,
) -> Result<(Seen, u64), String> {
    stand.pace(Pace { gap, lead: Duration::ZERO, joined: false }).await?;
    let (ask, numbers) = (stand.ask(Kind::ShortStream), stand.numbers.clone());
    let process = stand.process();
    let mut load = std::pin::pin!(drive::side_by_side(&ask, count, &numbers));
    let mut peak = 0;
    let seen = loop {
        tokio::select! {
            seen = &mut load => break seen,
            () = tokio::time::sleep(Duration::from_millis(25)) => peak = peak.max(process.pss()),
        }
    };
    Ok((seen.check()?, peak))
}

async fn long(
    stand: &mut Stand,
    amount: Amount,
    note: &mut impl FnMut(Figure, f64),
) -> Result<(), String> {
    let (ask, gap) = (stand.ask(Kind::Long), Duration::from_millis(25));
    let numbers = stand.numbers.clone();
    drive::steady(&ask, amount.long / 10, gap, &numbers).await.check()?;
    let before = stand.process().quiet_cpu().await;
    let seen = drive::steady(&ask, amount.long, gap, &numbers).await.check()?;
    let after = stand.process().quiet_cpu().await;
    note(Figure::LongCpu, each(ms(after - before), seen.answered));
    percentiles(&seen.whole, Figure::LongP50, Figure::LongP99, note);
    // Its history has no number: they are all one run.
    numbers.set(1);
    Ok(())
}

fn percentiles(
    times: &[Duration],
    half: Figure,
    nearly_all: Figure,
    note: &mut impl FnMut(Figure, f64),
) {
    for (figure, percent) in [(half, 50), (nearly_all, 99)] {
        if let Some(value) = percentile(times, percent) {
            note(figure, value);
        }
    }
}
