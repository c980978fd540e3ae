//! The order in which requests that are ready are worked on: stage by stage, not one after another.
//!
//! What a request runs through is more code than the processor's nearest caches hold, so that each
//! one finds them filled with the end of the one before. Under load many are ready at once. Those
//! wait for each other between two stages (read, decided, answered…): then each stage is still there
//! for the next of them. Who only has to write waits for all the others: what they write goes out
//! together, and the reader at the other end is woken once for several.
//!
//! Nobody waits for what is not ready, and who is alone on its thread does not wait at all, but
//! for one look at what else has come.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

/// How often one who only has to write lets others go first: work that comes while it waits must not
/// keep it for ever.
const PATIENCE: u8 = 8;

thread_local! {
    static HERE: Arc<Here> = Arc::default();
}

/// Who waits on a thread.
#[derive(Debug, Default)]
struct Here {
    /// For a further stage.
    staged: AtomicUsize,
    /// For a look at what else has come.
    looking: AtomicUsize,
    /// To write to an upstream.
    sending: AtomicUsize,
}

impl Here {
    fn has(count: fn(&Self) -> &AtomicUsize) -> bool {
        HERE.with(|here| count(here).load(Ordering::Relaxed) > 0)
    }

    fn staged() -> bool {
        Self::has(|here| &here.staged)
    }

    fn anybody() -> bool {
        Self::staged() || Self::has(|here| &here.looking)
    }
}

/// One that waits; it is counted where it began to, whichever thread goes on with it.
#[derive(Debug)]
struct Waiting(Arc<Here>, fn(&Here) -> &AtomicUsize);

impl Waiting {
    fn for_what(count: fn(&Here) -> &AtomicUsize) -> Self {
        let here = HERE.with(Arc::clone);
        count(&here).fetch_add(1, Ordering::Relaxed);
        Self(here, count)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Self(here, count) = self;
        count(here).fetch_sub(1, Ordering::Relaxed);
    }
}

/// Before a stage: lets all that is ready come as far.
pub(crate) async fn gather() {
    if Here::anybody() {
        behind_the_others().await;
    } else {
        // Looks what else has come, and whether it still is.
        let _waiting = Waiting::for_what(|here| &here.looking);
        tokio::task::yield_now().await;
    }
}

/// Before a client is answered, when there is nothing left to do but to write: lets all the others
/// come as far, and those first who write to upstreams, so that each reader gets its own in one go.
pub(crate) async fn last() {
    let mut waited = 0;
    poll_fn(|cx| {
        if waited == PATIENCE || !(Here::staged() || Here::has(|here| &here.sending)) {
            return Poll::Ready(());
        }
        waited += 1;
        behind(cx)
    })
    .await;
}

/// Waits at the end of the thread's queue.
async fn behind_the_others() {
    let mut waiting = None;
    poll_fn(|cx| {
        if waiting.take().is_some() {
            return Poll::Ready(());
        }
        waiting = Some(Waiting::for_what(|here| &here.staged));
        behind(cx)
    })
    .await;
}

/// At the end of the queue. `yield_now` would wait for a look at what has come, too.
fn behind(cx: &Context<'_>) -> Poll<()> {
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// The turn of one who only has to write to an upstream: once all others on this thread have come as
/// far. What they write then goes out together.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    waits: Option<Waiting>,
    waited: u8,
}

impl Turn {
    /// Pending while others wait on this thread for a stage; then ready, until it is
    /// [`over`](Self::over).
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        self.waits = None;
        if self.waited == PATIENCE || !Here::staged() {
            self.waited = PATIENCE;
            return Poll::Ready(());
        }
        self.waited += 1;
        self.waits = Some(Waiting::for_what(|here| &here.sending));
        behind(cx)
    }

    /// What is written next has a turn of its own.
    pub(crate) fn over(&mut self) {
        self.waited = 0;
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
                for stage in 0..stages {
                    gather().await;
                    seen.borrow_mut().push((stage, one));
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
        assert!(!Here::anybody(), "somebody is still counted");
    }

    #[tokio::test]
    async fn who_is_alone_writes_at_once() {
        let alone = async {
            last().await;
            last().await;
        };
        let mut alone = std::pin::pin!(alone);
        let polled = poll_fn(|cx| Poll::Ready(alone.as_mut().poll(cx).is_ready())).await;
        assert!(polled);
    }

    #[tokio::test]
    async fn who_goes_while_waiting_is_not_counted() {
        let (mut one, mut other) = (Box::pin(gather()), Box::pin(gather()));
        let polled = poll_fn(|cx| {
            Poll::Ready((one.as_mut().poll(cx).is_ready(), other.as_mut().poll(cx).is_ready()))
        });
        assert_eq!(polled.await, (false, false), "both wait for each other");
        drop(one);
        assert!(Here::anybody(), "the other waits");
        drop(other);
        assert!(!Here::anybody());
    }

    #[tokio::test]
    async fn who_only_writes_goes_behind_all_work_but_not_for_ever() {
        let mut turn = Turn::default();
        let polled = async |turn: &mut Turn| poll_fn(|cx| Poll::Ready(turn.poll(cx))).await;
        assert!(polled(&mut turn).await.is_ready(), "nobody works");
        turn.over();
        let mut looks = Box::pin(gather());
        let mut works = Box::pin(gather());
        poll_fn(|cx| Poll::Ready(looks.as_mut().poll(cx).is_ready())).await;
        assert!(polled(&mut turn).await.is_ready(), "who looks around has no work yet");
        turn.over();
        poll_fn(|cx| Poll::Ready(works.as_mut().poll(cx).is_ready())).await;
        assert!(polled(&mut turn).await.is_pending(), "somebody works");
        drop(works);
        let mut answers = Box::pin(last());
        let waits = poll_fn(|cx| Poll::Ready(answers.as_mut().poll(cx).is_pending())).await;
        assert!(waits, "another one has to send first");
        assert!(polled(&mut turn).await.is_ready(), "nobody works any more");
        let answers = poll_fn(|cx| Poll::Ready(answers.as_mut().poll(cx).is_ready())).await;
        assert!(answers, "nobody has to send any more");
        turn.over();
        let _works = Waiting::for_what(|here| &here.staged);
        for _ in 0..PATIENCE {
            assert!(polled(&mut turn).await.is_pending());
        }
        assert!(polled(&mut turn).await.is_ready(), "it has waited long enough");
        assert!(polled(&mut turn).await.is_ready(), "what is written in pieces waits once");
    }
}
