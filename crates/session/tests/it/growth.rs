//! The work with an input grows as the input does, whatever it is made of. `bench/instructions`
//! says the same more exactly, by the instructions of twice as much.

#![expect(
    clippy::panic,
    clippy::disallowed_methods,
    reason = "in a test, a failed step is a failed test; the time that a thread used is read at run time"
)]

mod shapes;

use std::time::{Duration, Instant};

use shapes::{Kind, SHAPES, Work};

/// The lengths that are compared, and how much more work the longer one may be: where each part
/// looks at all parts it is sixteen times as much.
const SHORT: usize = 1500;
const LONG: usize = 4 * SHORT;
const MOST: u32 = 8;
/// A time that is long enough to be measured.
const ENOUGH: Duration = Duration::from_millis(20);

#[test]
fn work_grows_as_its_input_does() {
    let grown: Vec<String> = SHAPES.iter().filter_map(|shape| grows_faster(*shape)).collect();
    assert!(grown.is_empty(), "{}", grown.join("\n"));
}

/// What an input costs that does not grow as it should. Other work on the machine can lengthen one
/// measurement, so it is measured again before it is said.
fn grows_faster((name, what, make): Kind) -> Option<String> {
    let (short, long) = (make(SHORT), make(LONG));
    let mut times = (Duration::MAX, Duration::MAX);
    for _ in 0..6 {
        times = (times.0.min(time(&short, name)), times.1.min(time(&long, name)));
        if times.1 <= times.0 * MOST {
            return None;
        }
    }
    Some(format!("{name} ({what}): {:?} for {SHORT}, {:?} for {LONG}", times.0, times.1))
}

/// The processor time of the work, once. The system counts it in steps, so the work is done until
/// there are enough of them.
fn time(work: &Work, name: &str) -> Duration {
    let (begun, before) = (Instant::now(), used());
    for times in 1.. {
        work().unwrap_or_else(|error| panic!("{name}: {error}"));
        let spent = match (before, used()) {
            (Some(before), Some(after)) => after - before,
            _ => begun.elapsed(),
        };
        if spent >= ENOUGH {
            return spent / times;
        }
    }
    Duration::MAX
}

/// The processor time that this thread has used, where the system says.
fn used() -> Option<Duration> {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    said.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
