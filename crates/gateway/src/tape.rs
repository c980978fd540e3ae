//! The events of a run while somebody watches it: numbered lines that any number of readers read at
//! their own pace.
//!
//! A run that nobody watches has no tape, and no text is made for it. A tape outlives its last
//! reader by some time, so that a reader who comes back gets every line once. Writing never waits:
//! a reader who is too slow finds that the oldest lines are gone.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use softland_ledger::{Record, Step};
use tokio::sync::Notify;

/// The time for which a tape without readers is kept.
const KEPT: Duration = Duration::from_secs(90);
/// The number of runs that are watched at once.
const MOST: usize = 1024;
/// The bytes of all tapes, and of one tape.
const BYTES_OF_ALL: usize = 256 << 20;
const BYTES_OF_ONE: usize = 16 << 20;
/// The number of turns whose times are remembered.
const TIMES: usize = 1024;

/// The tapes of the runs that are watched.
#[derive(Debug, Default)]
pub(crate) struct Tapes {
    /// The number of tapes: it is read often, and is zero most of the time.
    count: AtomicUsize,
    made: AtomicUsize,
    tapes: Mutex<HashMap<String, Arc<Tape>>>,
}

/// The events of one run.
#[derive(Debug)]
pub(crate) struct Tape {
    /// Distinguishes it from other tapes of the same run.
    name: usize,
    run: String,
    most: usize,
    state: Mutex<TapeState>,
    changed: Notify,
}

#[derive(Debug)]
struct TapeState {
    /// The number of the first line that is still present.
    base: u64,
    lines: VecDeque<Bytes>,
    bytes: usize,
    /// Lines that wait until the tape's beginning has been read; `None` after that.
    waiting: Option<Vec<Step>>,
    /// The turn up to which all texts are on the tape. `results` is the same for results.
    whole: u64,
    results: u64,
    /// True if the run's question is on the tape.
    asked: bool,
    /// The time of the newest line of each turn.
    times: BTreeMap<u64, u64>,
    /// True if the run has ended, so that no more lines come.
    over: bool,
    readers: usize,
    left: Instant,
}

/// The result of a read.
pub(crate) enum TapeRead {
    /// Lines from this number on.
    Lines(u64, Vec<Bytes>),
    /// No new lines yet.
    Nothing,
    /// The next lines that the reader wants are gone.
    Lost,
    /// The reader has read everything.
    Over,
}

impl Tapes {
    /// Returns the tape of a run, if somebody watches it.
    pub(crate) fn find_tape(&self, run: &str) -> Option<Arc<Tape>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.lock().get(run).cloned()
    }

    /// Opens the tape of a run for one more reader. The flag is true if the tape is new. `None` if
    /// too many runs are watched.
    pub(crate) fn open_tape(&self, run: &str) -> Option<(Arc<Tape>, bool)> {
        let mut tapes = self.lock();
        if let Some(tape) = tapes.get(run) {
            tape.lock_state().readers += 1;
            return Some((Arc::clone(tape), false));
        }
        if tapes.len() >= MOST {
            return None;
        }
        let most = (BYTES_OF_ALL / (tapes.len() + 1)).clamp(1 << 20, BYTES_OF_ONE);
        let name = self.made.fetch_add(1, Ordering::Relaxed);
        let tape = Arc::new(Tape::new(name, run, most));
        tapes.insert(run.to_owned(), Arc::clone(&tape));
        self.count.store(tapes.len(), Ordering::Relaxed);
        Some((tape, true))
    }

    /// Writes a record to the tape of its run, if there is one.
    pub(crate) fn write_record(&self, record: &Record) {
        if let Some((run, step)) = record.to_step(true)
            && let Some(tape) = self.find_tape(run)
        {
            let over = matches!(record, Record::RunEnd(_));
            tape.write_step(step);
            if over {
                tape.end_tape();
            }
        }
    }

    /// Returns true if no run is watched.
    pub(crate) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Drops tapes that have had no reader for some time.
    pub(crate) fn sweep_unread(&self) {
        if self.is_idle() {
            return;
        }
        let mut tapes = self.lock();
        tapes.retain(|_, tape| {
            let state = tape.lock_state();
            state.readers > 0 || state.left.elapsed() < KEPT
        });
        self.count.store(tapes.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Tape>>> {
        self.tapes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tape {
    fn new(name: usize, run: &str, most: usize) -> Self {
        let state = TapeState {
            base: 0,
            lines: VecDeque::new(),
            bytes: 0,
            waiting: Some(Vec::new()),
            whole: 0,
            results: 0,
            asked: false,
            times: BTreeMap::new(),
            over: false,
            readers: 1,
            left: Instant::now(),
        };
        let (run, changed) = (run.to_owned(), Notify::new());
        Self { name, run, most, state: Mutex::new(state), changed }
    }

    /// Creates a complete tape of a run that has ended.
    pub(crate) fn from_steps(name: usize, run: &str, steps: Vec<Step>) -> Self {
        let tape = Self::new(name, run, usize::MAX);
        tape.set_beginning(steps, (0, 0));
        tape.end_tape();
        tape
    }

    /// Returns the name by which a returning reader recognizes the tape.
    pub(crate) fn name(&self) -> usize {
        self.name
    }

    /// Writes the beginning of the tape: `steps` from the ledger and the history. Lines that
    /// arrived in the meantime are not written twice. `turns` are the turns up to which the texts
    /// and the results are complete.
    pub(crate) fn set_beginning(&self, steps: Vec<Step>, turns: (u64, u64)) {
        let mut state = self.lock_state();
        let waiting = state.waiting.take().unwrap_or_default();
        (state.whole, state.results) = (state.whole.max(turns.0), state.results.max(turns.1));
        let mut had: HashMap<_, usize> = HashMap::new();
        if !waiting.is_empty() {
            for step in &steps {
                *had.entry(identity_of(step)).or_default() += 1;
            }
        }
        for step in steps {
            self.push_step(&mut state, step);
        }
        for step in waiting {
            match had.get_mut(&identity_of(&step)).filter(|left| **left > 0) {
                Some(left) => *left -= 1,
                None => self.push_step(&mut state, step),
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Writes one more line.
    pub(crate) fn write_step(&self, step: Step) {
        let mut state = self.lock_state();
        match &mut state.waiting {
            Some(waiting) => waiting.push(step),
            None => self.push_step(&mut state, step),
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Notes that the tape is complete up to this turn.
    pub(crate) fn mark_whole_to(&self, turn: u64) {
        let mut state = self.lock_state();
        state.whole = state.whole.max(turn);
    }

    /// Returns the turns up to which texts and results are complete, and notes that results are now
    /// complete up to `turn`.
    pub(crate) fn mark_results_to(&self, turn: u64) -> (u64, u64) {
        let mut state = self.lock_state();
        let had = (state.whole, state.results);
        state.whole = state.whole.max(turn);
        state.results = state.results.max(turn);
        had
    }

    /// Returns the time of the newest line of a turn.
    pub(crate) fn find_time(&self, turn: u64) -> Option<u64> {
        self.lock_state().times.get(&turn).copied()
    }

    /// Ends the tape: no more lines come.
    pub(crate) fn end_tape(&self) {
        self.lock_state().over = true;
        self.changed.notify_waiters();
    }

    /// Returns the lines from this number on: at most `most` bytes, but at least one line.
    pub(crate) fn read_lines(&self, from: u64, most: usize) -> TapeRead {
        let state = self.lock_state();
        if state.waiting.is_some() {
            return TapeRead::Nothing;
        }
        let Some(skip) = from.checked_sub(state.base) else { return TapeRead::Lost };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let lines = state.lines.iter().skip(skip).take_while(|line| {
            let fits = bytes == 0 || bytes + line.len() <= most;
            bytes += line.len();
            fits
        });
        let lines: Vec<Bytes> = lines.cloned().collect();
        match lines.is_empty() {
            false => TapeRead::Lines(from, lines),
            true if state.over => TapeRead::Over,
            true => TapeRead::Nothing,
        }
    }

    /// Returns the first number that is still present, and the next number to be written.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        let state = self.lock_state();
        (state.base, state.base + state.lines.len() as u64)
    }

    /// Returns true if this tape has all lines of the other one, and perhaps more behind them.
    pub(crate) fn begins_with(&self, other: &Self) -> bool {
        let own = self.lock_state().lines.clone();
        let other = &other.lock_state().lines;
        own.len() >= other.len() && own.iter().zip(other).all(|(a, b)| a == b)
    }

    /// Resolves when there may be more to read. Create it before reading.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Removes a reader.
    pub(crate) fn remove_reader(&self) {
        let mut state = self.lock_state();
        state.readers = state.readers.saturating_sub(1);
        state.left = Instant::now();
    }

    fn push_step(&self, state: &mut TapeState, step: Step) {
        // Every request carries the question.
        if step.event == "question" && std::mem::replace(&mut state.asked, true) {
            return;
        }
        let time = state.times.entry(step.turn).or_default();
        *time = step.at.max(*time);
        if state.times.len() > TIMES {
            state.times.pop_first();
        }
        let seq = state.base + state.lines.len() as u64;
        let line = Bytes::from(Step { seq, ..step }.to_json(&self.run));
        state.bytes = state.bytes.saturating_add(line.len());
        state.lines.push_back(line);
        while state.bytes > self.most && state.lines.len() > 1 {
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len();
                state.base += 1;
            }
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, TapeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the fields that identify a step. Its number is not among them: two sources of the same
/// step number it differently.
fn identity_of(step: &Step) -> (u64, u64, String, String) {
    (step.at, step.turn, step.event.clone(), step.fields.clone())
}
