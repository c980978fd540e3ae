//! What a request costs that does not depend on what else the machine does: calls of the kernel and
//! waits of threads, instructions, allocations. Each is the difference of a longer and a shorter
//! closed loop, so that neither start nor end is in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use softland_bench_texts::requests::Kind;
use tempfile::TempDir;

use crate::drive::{self, Until};
use crate::figures::each;
use crate::stand::Stand;
use crate::targets::Target;

/// Requests before anything is counted: connections and threads are there then.
const WARM: u64 = 640;
/// Requests of the shorter loop under Valgrind.
const FEW: u64 = 320;
/// Kernel calls that are named; the rest are summed.
const NAMED: usize = 7;

/// Its calls by name; page faults and thread switches.
type Kernel = (BTreeMap<String, f64>, [f64; 2]);

/// What the kernel and the processor have to do with a request: a line for each target.
pub(crate) async fn costs(targets: &[Target], requests: u64) -> Result<String, String> {
    let columns = ["kernel calls", "page faults", "thread switches", "instructions"];
    let (mut lines, mut named) = (vec![head(&columns)], Vec::new());
    for target in but_direct(targets) {
        let (calls, [faults, switches]) = kernel(target, requests).await?;
        let all: f64 = calls.values().sum();
        let instructions = valgrind(target, requests, "callgrind", instructions).await?;
        let instructions = instructions.first().copied();
        let figures = [(Some(all), 1), (Some(faults), 2), (Some(switches), 1), (instructions, 0)];
        lines.push(line(target, &figures));
        named.push(format!("{}: {}", target.name(), most(&calls)));
    }
    Ok(format!("{}\n\nKernel calls a request:\n{}", lines.join("\n"), named.join("\n")))
}

/// What a request allocates: a line for each target. It is counted where the C library's allocator
/// is called.
pub(crate) async fn allocated(targets: &[Target], requests: u64) -> Result<String, String> {
    let mut lines = vec![head(&["allocations", "bytes allocated"])];
    for target in but_direct(targets) {
        let blocks = valgrind(target, requests, "dhat", allocations).await?;
        let figures = [(blocks.first().copied(), 1), (blocks.get(1).copied(), 0)];
        lines.push(line(target, &figures));
    }
    Ok(lines.join("\n"))
}

fn but_direct(targets: &[Target]) -> impl Iterator<Item = Target> {
    targets.iter().copied().filter(|target| *target != Target::Direct)
}

fn head(columns: &[&str]) -> String {
    let rule = "--:|".repeat(columns.len());
    format!("| a request of 1.5 KB | {} |\n|---|{rule}", columns.join(" | "))
}

/// Its figures, each with so many digits behind the point.
fn line(target: Target, figures: &[(Option<f64>, usize)]) -> String {
    let cells: Vec<_> = figures
        .iter()
        .map(|(figure, digits)| figure.map_or("–".to_owned(), |f| format!("{f:.digits$}")))
        .collect();
    format!("| {} | {} |", target.name(), cells.join(" | "))
}

/// The calls that are made most.
fn most(calls: &BTreeMap<String, f64>) -> String {
    let mut calls: Vec<_> = calls.iter().collect();
    calls.sort_by(|a, b| b.1.total_cmp(a.1));
    // The sum of none would be -0.
    let rest = calls.iter().skip(NAMED).fold(0.0, |sum, (_, count)| sum + **count);
    let named = calls.iter().take(NAMED).map(|(name, count)| format!("{name} {count:.2}"));
    named.chain([format!("others {rest:.2}")]).collect::<Vec<_>>().join(", ")
}

async fn asked(stand: &Stand, requests: u64) -> Result<(), String> {
    let ask = stand.ask(Kind::Short);
    drive::closed(&ask, Until::Requests(requests), &stand.numbers).await.check().map(drop)
}

/// Kernel calls by strace, the rest without it.
async fn kernel(target: Target, requests: u64) -> Result<Kernel, String> {
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    let out = folder.path().join("calls");
    let mut stand = Stand::up(target).await?;
    asked(&stand, WARM).await?;
    let before = (stand.process().faults(), stand.process().switches());
    asked(&stand, requests).await?;
    stand.process().quiet_cpu().await;
    let process = stand.process();
    let more = [process.faults() - before.0, process.switches().saturating_sub(before.1)];
    let pid = stand.process().child().id().to_string();
    let mut strace = Command::new("strace")
        .args(["-f", "-c", "-U", "name,calls", "-o"])
        .arg(&out)
        .args(["-p", &pid])
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("strace: {error}"))?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    asked(&stand, requests).await?;
    stand.process().quiet_cpu().await;
    let _ = Command::new("kill").args(["-INT", &strace.id().to_string()]).status();
    strace.wait().map_err(|error| format!("strace: {error}"))?;
    stand.down()?;
    let text = fs::read_to_string(&out).map_err(|error| format!("strace: {error}"))?;
    Ok((calls(&text, requests), more.map(|count| each(count as f64, requests))))
}

/// What strace says, by request.
fn calls(text: &str, requests: u64) -> BTreeMap<String, f64> {
    let line = |line: &str| {
        let (name, count) = line.trim().split_once(char::is_whitespace)?;
        let count: u64 = count.trim().parse().ok()?;
        (name != "total").then(|| (name.to_owned(), each(count as f64, requests)))
    };
    text.lines().filter_map(line).collect()
}

/// What a tool of Valgrind's counted for each request.
async fn valgrind(
    target: Target,
    requests: u64,
    tool: &str,
    read: fn(&Path) -> Option<Vec<f64>>,
) -> Result<Vec<f64>, String> {
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    let mut counted = Vec::new();
    for requests in [FEW, FEW + requests] {
        let (out, log) = (folder.path().join("out"), folder.path().join("log"));
        let option = format!("--{tool}-out-file={}", out.display());
        let log_option = format!("--log-file={}", log.display());
        let under = ["valgrind", &format!("--tool={tool}"), &option, &log_option];
        let stand = Stand::under(target, &under).await?;
        asked(&stand, requests).await?;
        stand.down()?;
        let said = if tool == "dhat" { &log } else { &out };
        let found =
            read(said).ok_or_else(|| format!("{tool} said nothing of {}", target.name()))?;
        counted.push(found);
    }
    let [few, many] = counted.as_slice() else { return Ok(Vec::new()) };
    Ok(many.iter().zip(few).map(|(many, few)| each(many - few, requests)).collect())
}

/// Callgrind's sum.
fn instructions(out: &Path) -> Option<Vec<f64>> {
    let text = fs::read_to_string(out).ok()?;
    let sum = |key| text.lines().rev().find_map(|line| line.strip_prefix(key))?.trim().parse().ok();
    Some(vec![sum("totals:").or_else(|| sum("summary:"))?])
}

/// DHAT's blocks and bytes.
fn allocations(log: &Path) -> Option<Vec<f64>> {
    let text = fs::read_to_string(log).ok()?;
    let line = text.lines().find(|line| line.contains("Total:"))?.replace(',', "");
    let numbers: Vec<f64> = line.split(' ').skip(1).filter_map(|word| word.parse().ok()).collect();
    let [bytes, blocks] = numbers.as_slice() else { return None };
    Some(vec![*blocks, *bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_as_strace_writes_them() {
        let text = "syscall      calls\n------- ---------\nwritev         400\n\
                    epoll_wait     100\n------- ---------\ntotal          500\n";
        let calls = calls(text, 200);
        assert_eq!(most(&calls), "writev 2.00, epoll_wait 0.50, others 0.00");
    }
}
