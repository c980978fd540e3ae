//! The loads of the table without their measuring. Few of each, with softland under Callgrind, tell which
//! of its code serving executes (`bench/order`). More, with a program that counts what it executes, tell
//! the compiler what is hot (`scripts/release`).

use std::path::Path;
use std::time::Duration;

use softland_bench_texts::requests::Kind;

use crate::drive::{self, Until};
use crate::stand::Stand;
use crate::table;
use crate::targets::Target;

/// How much of each load.
struct Amount {
    /// Requests of each closed loop.
    requests: u64,
    /// Streams at the same time.
    open: usize,
    /// Requests of 1 MB.
    long: u32,
}

const TRACED: Amount = Amount { requests: 160, open: 50, long: 4 };
/// So many that what happens once, at the start, is rare among it.
const TRAINED: Amount = Amount { requests: 10_000, open: 200, long: 20 };

/// A program that has one core serves on one thread; with more it executes other code.
const CORES: [&[&str]; 2] = [&[], &["taskset", "-c", "0,1"]];

/// One file for each target on one core and on two, in that folder.
pub(crate) async fn trace(targets: &[Target], folder: &Path) -> Result<String, String> {
    for (n, target) in targets.iter().enumerate() {
        for (cores, spread) in CORES.iter().enumerate() {
            let out = folder.join(format!("callgrind.{}", n * CORES.len() + cores));
            let file = format!("--callgrind-out-file={}", out.display());
            let log = format!("--log-file={}", folder.join("log").display());
            let watch = ["valgrind", "--tool=callgrind", "--dump-instr=yes", &file, &log];
            under(*target, &[*spread, &watch].concat(), &TRACED).await?;
            if !out.exists() {
                return Err(format!("Callgrind wrote nothing of {}", target.name()));
            }
        }
    }
    Ok(format!("{} programs traced", targets.len()))
}

/// For a program that writes down itself, at its end, what it did.
pub(crate) async fn train(targets: &[Target]) -> Result<String, String> {
    for target in targets {
        for spread in CORES {
            under(*target, spread, &TRAINED).await?;
        }
    }
    Ok(format!("{} programs trained", targets.len()))
}

async fn under(target: Target, watcher: &[&str], amount: &Amount) -> Result<(), String> {
    let mut stand = Stand::under(target, watcher).await?;
    let done = loads(&mut stand, amount).await;
    done.map_err(|problem| format!("{}: {problem}", target.name()))?;
    stand.down().map(|_| ())
}

async fn loads(stand: &mut Stand, amount: &Amount) -> Result<(), String> {
    let (numbers, until) = (stand.numbers.clone(), Until::Requests(amount.requests));
    for kind in [Kind::Short, Kind::ShortStream] {
        drive::closed(&stand.ask(kind), until, &numbers).await.check()?;
    }
    table::paced(stand, amount.open, Duration::from_millis(5)).await?;
    if stand.target.has_long() {
        let ask = stand.ask(Kind::Long);
        // Its history has no number: they are all one run.
        let before = numbers.get();
        drive::steady(&ask, amount.long, Duration::ZERO, &numbers).await.check()?;
        numbers.set(before + 1);
    }
    // What it does when nobody asks is serving, too.
    tokio::time::sleep(Duration::from_secs(2)).await;
    stand.process().quiet_cpu().await;
    Ok(())
}
