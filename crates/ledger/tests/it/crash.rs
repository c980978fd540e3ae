//! Processes that are killed in mid-batch, or that meet a file-size limit as they would a full
//! disk. The child process is this test binary again, chosen by a variable.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use softland_core::{Outcome, Reason};
use softland_ledger::{Ledger, Query};

use crate::support::*;

const FOLDER: &str = "SOFTLAND_LEDGER_TEST_FOLDER";

/// Not a test by itself: the process that the other tests start and kill.
#[ignore = "started by the other tests, with an environment"]
#[test]
fn child_that_writes() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let place = Place::new();
    let mut options = place.options.clone();
    options.place = Some(Path::new(&folder).join("ledger.db").into());
    options.events_path = Some(Path::new(&folder).join("events.ndjson"));
    options.gather = Duration::from_millis(1);
    options.queue_records = 512;
    let ledger = Ledger::open(options, place.clock()).unwrap();
    for turn in 0.. {
        for run in 0..5 {
            ledger.record(request(Some(&format!("{}-{run}", std::process::id())), turn));
            ledger.record(request(Some("all"), turn));
        }
        if turn % 10 == 0 {
            println!("lost {}", ledger.lost_records());
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

fn child(folder: &Path, shell: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            &format!("{shell} exec \"$0\" --exact crash::child_that_writes --ignored --nocapture"),
        ])
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

#[cfg(unix)]
#[test]
fn a_killed_process_leaves_whole_batches() {
    let place = Place::new();
    for round in 0..8_u64 {
        let mut child = child(place.folder(), "").spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.by_ref().map(Result::unwrap).find(|line| line.contains("lost"));
        std::thread::sleep(Duration::from_millis(20 + round * 13));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // The next process to open it adds the missing lines to the log.
    place.write(vec![request(Some("all"), 1)]);
    let db = rusqlite::Connection::open(place.db()).unwrap();
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let log = place.lines();
    let runs = place.reader().list_runs(&Query::default()).unwrap();
    assert!(runs.len() > 8, "every child has written");
    for run in runs {
        let of: Vec<_> = log.iter().filter(|line| line["run"] == run.run).cloned().collect();
        check_lines(&of);
        assert_eq!(run.requests as usize, of.len(), "sums and lines are of the same batches");
        assert_eq!(place.steps(&run.run), of, "{}", run.run);
    }
}

#[cfg(unix)]
#[test]
fn what_a_killed_process_left_open_is_ended_by_the_next_one_alone() {
    let mut place = Place::new();
    let mut child = child(place.folder(), "").spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.by_ref().map(Result::unwrap).find(|line| line.contains("lost"));
    place.options.end_left_open = true;
    let open = || {
        place
            .reader()
            .list_runs(&Query { state: Some("open".to_owned()), ..Query::default() })
            .unwrap()
    };
    // While its process lives, no other process ends its runs.
    place.write(Vec::new());
    let deadline = Instant::now() + LONG;
    while open().len() < 6 {
        assert!(Instant::now() < deadline, "the child's runs are open");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = open();
    place.write(vec![start("new"), request(Some("new"), 1)]);
    let after = place.reader().list_runs(&Query::default()).unwrap();
    for run in before {
        let now = after.iter().find(|had| had.run == run.run).unwrap();
        let end = now.end.as_ref().unwrap();
        assert_eq!((end.outcome, &end.reason), (Outcome::Cancelled, &Reason::User));
        assert_eq!(now.ended, Some(run.last), "it ended when it was last heard of");
        assert_eq!((now.cost, now.usage, now.turns), (run.cost, run.usage, run.turns));
        assert_eq!((now.requests, now.tool_calls), (run.requests, None));
        let steps = place.steps(&run.run);
        check_lines(&steps);
        assert_eq!(steps.last().unwrap()["event"], "error");
        assert_eq!(steps.last().unwrap()["tool_calls"], serde_json::Value::Null);
    }
    let new = after.iter().find(|run| run.run == "new").unwrap();
    assert!(new.end.is_none(), "what comes after is open");
}

/// A limit on file sizes fails like a full disk, and needs no special rights.
#[cfg(unix)]
#[test]
fn a_full_disk_is_a_counted_loss() {
    let place = Place::new();
    // Blocks have 512 bytes: 250 KB for each file.
    let mut child = child(place.folder(), "trap '' XFSZ; ulimit -f 500;").spawn().unwrap();
    let until = Instant::now() + LONG;
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lost = lines.map(Result::unwrap).filter_map(|line| {
        line.split_once("lost ").and_then(|(_, number)| number.trim().parse::<u64>().ok())
    });
    let seen = lost.find(|lost| *lost > 1000 || Instant::now() > until);
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(seen.is_some_and(|lost| lost > 1000), "{seen:?}");
    // With room again, it continues without a gap.
    place.write(vec![request(Some("all"), 1)]);
    let log = place.lines();
    let of: Vec<_> = log.iter().filter(|line| line["run"] == "all").cloned().collect();
    check_lines(&of);
    assert_eq!(place.steps("all"), of);
    assert!(of.len() > 10);
}
