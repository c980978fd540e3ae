//! The wait for the end of a run's time.

use std::future::{Future as _, pending, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::time::{Instant, sleep_until};

/// Waits until a deadline, forever without one. A deadline that has passed is noticed at once, before
/// the runtime's timers: a host may poll this for the first time after a wait of its own.
pub(super) async fn wait_until(deadline: Option<Instant>) {
    let Some(deadline) = deadline else { return pending().await };
    let mut timer = pin!(sleep_until(deadline));
    poll_fn(|cx| match Instant::now() >= deadline {
        true => Poll::Ready(()),
        false => timer.as_mut().poll(cx),
    })
    .await;
}
