//! Signals to a running request. They are checked each time the request's task is polled, which is
//! cheap: one waker and one number.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;

use futures_util::task::AtomicWaker;

/// Signals for one waiting task, which any task may send. Only the newest waiting task is woken.
#[derive(Debug, Default)]
pub struct RequestSignals {
    sent: AtomicU8,
    waker: AtomicWaker,
}

/// A signal to a running request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestSignal {
    /// A stream has been silent for long enough that keepalives must begin.
    EndSilence = 1,
    /// The run was cancelled.
    Stop = 2,
}

impl RequestSignals {
    /// Sends a signal.
    pub fn send_signal(&self, signal: RequestSignal) {
        self.sent.fetch_or(signal as u8, Ordering::Release);
        self.waker.wake();
    }

    /// Waits for the first signal; of both, [`RequestSignal::Stop`] comes first.
    pub async fn wait_any(&self) -> RequestSignal {
        self.wait_until(|signals| {
            [RequestSignal::Stop, RequestSignal::EndSilence]
                .into_iter()
                .find(|signal| signals.has_signal(*signal))
        })
        .await
    }

    /// Waits for the signal that ends the request.
    pub async fn wait_stop(&self) {
        self.wait_until(|signals| signals.has_signal(RequestSignal::Stop).then_some(())).await;
    }

    fn has_signal(&self, signal: RequestSignal) -> bool {
        self.sent.load(Ordering::Acquire) & signal as u8 != 0
    }

    async fn wait_until<T>(&self, find: impl Fn(&Self) -> Option<T>) -> T {
        poll_fn(|cx| {
            // Registered before the check, so that a signal in between wakes the task.
            self.waker.register(cx.waker());
            find(self).map_or(Poll::Pending, Poll::Ready)
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
            let signals = Arc::new(RequestSignals::default());
            let sender = Arc::clone(&signals);
            let waiting = tokio::spawn(async move { signals.wait_any().await });
            if n % 2 == 0 {
                tokio::task::yield_now().await;
            }
            let signal = if n % 3 == 0 { RequestSignal::EndSilence } else { RequestSignal::Stop };
            sender.send_signal(signal);
            let heard = tokio::time::timeout(Duration::from_secs(20), waiting).await;
            assert_eq!(heard.expect("the signal arrives").expect("no panic"), signal);
        }
    }

    #[tokio::test]
    async fn what_ends_it_goes_first_and_the_other_does_not_end_it() {
        let signals = RequestSignals::default();
        signals.send_signal(RequestSignal::EndSilence);
        assert_eq!(signals.wait_any().await, RequestSignal::EndSilence);
        let mut stop = std::pin::pin!(signals.wait_stop());
        assert!(futures_util::poll!(&mut stop).is_pending());
        signals.send_signal(RequestSignal::Stop);
        stop.await;
        assert_eq!(signals.wait_any().await, RequestSignal::Stop);
    }
}
