//! `softland run` from outside, as a shell starts it: a run of 20 tool calls against the simulator
//! in its own process, over the notes of `examples/`. Wall time, processor time and peak memory of
//! the whole process; the aims are 150 ms and 30 MB.
//!
//! Memory is what GNU time (`/usr/bin/time`) says, processor time what Linux says of children;
//! elsewhere they are left out. There is no baseline: nothing else does the same work.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and may stop")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const SOFTLAND: &str = env!("CARGO_BIN_EXE_softland");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const TIME: &str = "/usr/bin/time";
const RUNS: usize = 50;
/// The clock ticks of `/proc/self/stat`, in milliseconds: 100 a second on every Linux.
const TICK: f64 = 10.0;

fn main() {
    // Once before, so that the files are in memory; and to see that it does what it should.
    let output = output(&mut softland(SOFTLAND, &[]));
    let shown = String::from_utf8(output.stderr).unwrap();
    assert!(shown.contains("20 of 20 tool calls"), "{shown}");
    assert!(!output.stdout.is_empty());

    let before = children();
    let mut walls: Vec<_> = (0..RUNS).map(|_| wall(&mut softland(SOFTLAND, &[]))).collect();
    let after = children();
    walls.sort_unstable();
    let wall = |at: usize| walls[at].as_secs_f64() * 1e3;
    println!("run, 20 tool calls, {RUNS} times");
    println!("  wall       fastest {:.1} ms, median {:.1} ms", wall(0), wall(RUNS / 2));
    println!("             slowest {:.1} ms (aim: 150 ms)", wall(RUNS - 1));
    match before.zip(after) {
        Some((before, after)) => {
            println!("  processor  mean {:.1} ms", (after - before) * TICK / RUNS as f64);
        }
        None => println!("  processor  not known here"),
    }
    match peak() {
        Some(most) => println!("  memory     peak {:.1} MB (aim: 30 MB)", most / 1e6),
        None => println!("  memory     not known here: no GNU time at {TIME}"),
    }
}

fn softland(program: &str, before: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(before).args(["run", "examples/analyst.md", "What did we decide about pricing?"]);
    command.args(["--root", "examples/notes", "--model", "sim/sweeper"]);
    command.args(["--tool-calls-limit", "20"]).current_dir(ROOT);
    command
}

fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn wall(command: &mut Command) -> Duration {
    let since = Instant::now();
    output(command);
    since.elapsed()
}

/// The most memory that a process of several runs had resident, in bytes.
fn peak() -> Option<f64> {
    if !Path::new(TIME).exists() {
        return None;
    }
    let kib = |_| {
        let output = output(&mut softland(TIME, &["-f", "%M", SOFTLAND]));
        // The last line is what `time` adds.
        String::from_utf8(output.stderr).ok()?.lines().last()?.parse::<f64>().ok()
    };
    let runs: Option<Vec<f64>> = (0..10).map(kib).collect();
    runs?.into_iter().reduce(f64::max).map(|kib| kib * 1024.0)
}

/// Processor time of this process's children that have ended, in ticks.
fn children() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the program's name in brackets; `cutime` and `cstime` are fields 16 and 17.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some(ticks(13)? + ticks(14)?)
}
