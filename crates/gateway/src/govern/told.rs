//! What a request under way is told by others. It is asked for each time the request goes on, which
//! one waker and one number make cheap.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;

use futures_util::task::AtomicWaker;

/// What one task waits for, and any may say. Who waits last hears it.
#[derive(Debug, Default)]
pub(crate) struct Told {
    said: AtomicU8,
    waker: AtomicWaker,
}

/// What there is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// A stream has been silent for long enough.
    Loud = 1,
    /// Somebody cancels its run.
    Stop = 2,
}

impl Told {
    pub(crate) fn say(&self, word: Word) {
        self.said.fetch_or(word as u8, Ordering::Release);
        self.waker.wake();
    }

    /// Waits for the first word; of both, the one that ends it.
    pub(crate) async fn any(&self) -> Word {
        self.until(|told| [Word::Stop, Word::Loud].into_iter().find(|word| told.has(*word))).await
    }

    /// Waits for the word that ends it.
    pub(crate) async fn stop(&self) {
        self.until(|told| told.has(Word::Stop).then_some(())).await;
    }

    fn has(&self, word: Word) -> bool {
        self.said.load(Ordering::Acquire) & word as u8 != 0
    }

    async fn until<T>(&self, said: impl Fn(&Self) -> Option<T>) -> T {
        poll_fn(|cx| {
            // Before it is looked at: what is said in between wakes.
            self.waker.register(cx.waker());
            said(self).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_waits_hears_it_whenever_it_is_said() {
        for n in 0..200 {
            let told = Arc::new(Told::default());
            let teller = Arc::clone(&told);
            let waiting = tokio::spawn(async move { told.any().await });
            if n % 2 == 0 {
                tokio::task::yield_now().await;
            }
            let word = if n % 3 == 0 { Word::Loud } else { Word::Stop };
            teller.say(word);
            let heard = tokio::time::timeout(Duration::from_secs(20), waiting).await;
            assert_eq!(heard.expect("it is heard").expect("no panic"), word);
        }
    }

    #[tokio::test]
    async fn what_ends_it_goes_first_and_the_other_does_not_end_it() {
        let told = Told::default();
        told.say(Word::Loud);
        assert_eq!(told.any().await, Word::Loud);
        let mut stop = std::pin::pin!(told.stop());
        assert!(futures_util::poll!(&mut stop).is_pending());
        told.say(Word::Stop);
        stop.await;
        assert_eq!(told.any().await, Word::Stop);
    }
}
