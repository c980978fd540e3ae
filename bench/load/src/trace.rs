//! The loads of the table, few of each, with softland under Callgrind: which of its code serving
//! executes. `bench/order` reads what it writes.

use std::path::Path;
use std::time::Duration;

use softland_bench_texts::requests::Kind;

use crate::drive::{self, Until};
use crate::stand::Stand;
use crate::table;
use crate::targets::Target;

/// Requests of each closed loop.
const REQUESTS: u64 = 160;
/// Streams at the same time.
const OPEN: usize = 50;
/// Requests of 1 MB.
const LONG: u32 = 4;

/// One file for each target, in that folder.
pub(crate) async fn trace(targets: &[Target], folder: &Path) -> Result<String, String> {
    for (n, target) in targets.iter().enumerate() {
        let out = folder.join(format!("callgrind.{n}"));
        let file = format!("--callgrind-out-file={}", out.display());
        let log = format!("--log-file={}", folder.join("log").display());
        let under = ["valgrind", "--tool=callgrind", "--dump-instr=yes", &file, &log];
        let mut stand = Stand::under(*target, &under).await?;
        loads(&mut stand).await.map_err(|problem| format!("{}: {problem}", target.name()))?;
        stand.down()?;
        if !out.exists() {
            return Err(format!("Callgrind wrote nothing of {}", target.name()));
        }
    }
    Ok(format!("{} programs traced", targets.len()))
}

async fn loads(stand: &mut Stand) -> Result<(), String> {
    let (numbers, until) = (stand.numbers.clone(), Until::Requests(REQUESTS));
    for kind in [Kind::Short, Kind::ShortStream] {
        drive::closed(&stand.ask(kind), until, &numbers).await.check()?;
    }
    table::paced(stand, OPEN, Duration::from_millis(5)).await?;
    if stand.target.has_long() {
        let ask = stand.ask(Kind::Long);
        // Its history has no number: they are all one run.
        let before = numbers.get();
        drive::steady(&ask, LONG, Duration::ZERO, &numbers).await.check()?;
        numbers.set(before + 1);
    }
    // What it does when nobody asks is serving, too.
    tokio::time::sleep(Duration::from_secs(2)).await;
    stand.process().quiet_cpu().await;
    Ok(())
}
