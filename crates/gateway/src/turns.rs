//! The order in which requests that are ready are worked on: stage by stage, not one after another.
//!
//! What a request runs through is more code than the processor's nearest caches hold, so that each
//! one finds them filled with the end of the one before. Under load many are ready at once. Those
//! wait for each other between two stages (read, looked up, decided, sent…): then each stage is
//! still there for the next of them, what they write goes out together, and the reader at the other
//! end is woken once for several.
//!
//! Nobody waits for what is not ready, and who is alone on its thread does not wait at all, but
//! for one look at what else has come.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

thread_local! {
    /// How many wait on this thread for their next stage.
    static WAITING: Arc<AtomicUsize> = Arc::default();
}

/// One that waits; it is counted where it began to, whichever thread goes on with it.
#[derive(Debug)]
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn here() -> Self {
        let here = WAITING.with(Arc::clone);
        here.fetch_add(1, Ordering::Relaxed);
        Self(here)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Before the first stage: lets all that is ready come as far.
pub(crate) async fn gather() {
    if is_alone() {
        // Looks what else has come, and whether it still is.
        let _waiting = Waiting::here();
        tokio::task::yield_now().await;
    } else {
        behind_the_others().await;
    }
}

/// Before a further stage: lets those come as far who wait on this thread.
pub(crate) async fn next() {
    if !is_alone() {
        behind_the_others().await;
    }
}

fn is_alone() -> bool {
    WAITING.with(|here| here.load(Ordering::Relaxed)) == 0
}

/// Waits at the end of the thread's queue.
async fn behind_the_others() {
    let mut turn = Turn::default();
    poll_fn(|cx| turn.poll(cx)).await;
}

/// A place in the line, for what is polled.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    waits: Option<Waiting>,
    come: bool,
}

impl Turn {
    /// Pending once where others wait on this thread, until they have come as far; from then on
    /// ready, until it is [`over`](Self::over).
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        self.waits = None;
        if self.come || is_alone() {
            self.come = true;
            return Poll::Ready(());
        }
        self.come = true;
        self.waits = Some(Waiting::here());
        // At the end of the queue. `yield_now` would wait for a look at what has come, too.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The next stage has a turn of its own.
    pub(crate) fn over(&mut self) {
        self.come = false;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::task::LocalSet;

    use super::*;

    /// Runs so many through their stages, and says who was at which, in order.
    async fn stages(of: usize, stages: usize) -> Vec<(usize, usize)> {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let all = LocalSet::new();
        for one in 0..of {
            let seen = Rc::clone(&seen);
            all.spawn_local(async move {
                gather().await;
                for stage in 0..stages {
                    seen.borrow_mut().push((stage, one));
                    next().await;
                }
            });
        }
        all.await;
        seen.take()
    }

    #[tokio::test]
    async fn those_who_are_ready_go_stage_by_stage() {
        // The first has looked for others, and comes behind them.
        let seen = stages(5, 4).await;
        let of_stage = |stage| seen.iter().position(|seen| *seen == (stage, 1));
        for (stage, one) in (0..4).flat_map(|stage| (1..5).map(move |one| (stage, one))) {
            let at = seen.iter().position(|seen| *seen == (stage, one));
            assert!(at < of_stage(stage + 1) || stage == 3, "{seen:?}");
        }
        assert_eq!(seen.len(), 20);
        assert!(is_alone(), "somebody is still counted");
    }

    #[tokio::test]
    async fn who_is_alone_does_not_wait() {
        let alone = async {
            next().await;
            next().await;
        };
        let mut alone = std::pin::pin!(alone);
        let polled = poll_fn(|cx| Poll::Ready(alone.as_mut().poll(cx).is_ready())).await;
        assert!(polled);
    }

    #[tokio::test]
    async fn who_goes_while_waiting_is_not_counted() {
        let (mut one, mut other) = (Box::pin(gather()), Box::pin(next()));
        let polled = poll_fn(|cx| {
            Poll::Ready((one.as_mut().poll(cx).is_ready(), other.as_mut().poll(cx).is_ready()))
        });
        assert_eq!(polled.await, (false, false), "both wait for each other");
        drop(one);
        assert!(!is_alone(), "the other waits");
        drop(other);
        assert!(is_alone());
    }
}
