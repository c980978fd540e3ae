//! Loads: a closed loop, a steady rate, streams side by side. What fails is counted and the first
//! failure kept; a load with failures gives no figures.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use softland_bench_texts::requests::Template;
use tokio::task::JoinSet;

use crate::client::{Answer, Client};

/// Connections of a closed loop.
pub(crate) const CONNECTIONS: usize = 16;
/// Requests of one run, the last of which is answered finally.
const RUN: u64 = 2;
/// A single answer that takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is asked, where, and what a complete answer's end has.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) address: SocketAddr,
    pub(crate) template: Template,
    pub(crate) end: &'static str,
}

/// When a closed loop ends.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    After(Duration),
    Requests(u64),
}

/// What a load saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) problem: Option<String>,
    pub(crate) wall: Duration,
    pub(crate) whole: Vec<Duration>,
    pub(crate) first: Vec<Duration>,
    pub(crate) forwarded: Vec<Duration>,
}

impl Seen {
    fn take(&mut self, answer: io::Result<Answer>, end: &str, keep: bool) {
        match answer {
            Ok(answer) if answer.bytes > 0 && answer.ends_with(end) => {
                self.answered += 1;
                if keep {
                    self.whole.push(answer.whole);
                    self.first.push(answer.first);
                    self.forwarded.extend(answer.forwarded);
                }
            }
            Ok(answer) => self.fail(format!("an answer of {} bytes without its end", answer.bytes)),
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn fail(&mut self, problem: String) {
        self.failed += 1;
        self.problem.get_or_insert(problem);
    }

    /// That nothing failed and something was done.
    pub(crate) fn check(self) -> Result<Self, String> {
        match (self.failed, self.answered) {
            (0, 1..) => Ok(self),
            (0, 0) => Err("nothing was answered".to_owned()),
            (failed, answered) => {
                let problem = self.problem.unwrap_or_default();
                Err(format!("{failed} of {} failed: {problem}", failed + answered))
            }
        }
    }
}

/// Each connection asks again as soon as it was answered. `numbers` gives each run its number.
pub(crate) async fn closed(ask: &Ask, until: Until, numbers: &Rc<Cell<u64>>) -> Seen {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let left = Rc::new(Cell::new(match until {
        Until::Requests(count) => count,
        Until::After(_) => u64::MAX,
    }));
    let since = Instant::now();
    let end = match until {
        Until::After(time) => Some(since + time),
        Until::Requests(_) => None,
    };
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (ask, seen, left) = (ask.clone(), Rc::clone(&seen), Rc::clone(&left));
        let numbers = Rc::clone(numbers);
        tasks.spawn_local(async move {
            let mut client = Client::new(ask.address);
            let mut template = ask.template;
            let (mut run, mut turn) = (0, RUN);
            while left.get() > 0 && end.is_none_or(|end| Instant::now() < end) {
                left.set(left.get() - 1);
                if turn == RUN {
                    (run, turn) = (numbers.replace(numbers.get() + 1), 0);
                }
                turn += 1;
                template.set(run, turn == RUN);
                let answer = patient(client.ask(template.bytes())).await;
                let failed = answer.is_err();
                seen.borrow_mut().take(answer, ask.end, false);
                if failed {
                    // A gateway that refuses must not be hammered.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    let mut seen = seen.take();
    seen.wall = since.elapsed();
    seen
}

/// One after another on one connection, begun at a rate; a slow one delays the next.
pub(crate) async fn steady(ask: &Ask, count: u32, gap: Duration, numbers: &Cell<u64>) -> Seen {
    let mut seen = Seen::default();
    let mut client = Client::new(ask.address);
    let mut template = ask.template.clone();
    let since = Instant::now();
    for n in 0..count {
        tokio::time::sleep_until((since + gap * n).into()).await;
        let run = numbers.replace(numbers.get() + 1);
        template.set(run, true);
        let answer = patient(client.ask(template.bytes())).await;
        seen.take(answer, ask.end, true);
        if seen.failed > 3 {
            break;
        }
    }
    seen.wall = since.elapsed();
    seen
}

/// So many streams at the same time, each on its own connection.
pub(crate) async fn side_by_side(ask: &Ask, count: usize, numbers: &Cell<u64>) -> Seen {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let mut tasks = JoinSet::new();
    let since = Instant::now();
    for _ in 0..count {
        let (ask, seen) = (ask.clone(), Rc::clone(&seen));
        let run = numbers.replace(numbers.get() + 1);
        tasks.spawn_local(async move {
            let mut client = Client::new(ask.address);
            let mut template = ask.template;
            template.set(run, true);
            let answer = patient(client.ask(template.bytes())).await;
            seen.borrow_mut().take(answer, ask.end, true);
        });
    }
    while tasks.join_next().await.is_some() {}
    let mut seen = seen.take();
    seen.wall = since.elapsed();
    seen
}

async fn patient(answer: impl Future<Output = io::Result<Answer>>) -> io::Result<Answer> {
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
