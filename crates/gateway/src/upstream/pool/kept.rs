//! The connections of a pool that are there for a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::client::conn::{http1, http2};

use crate::body::Outgoing;

/// Unused connections of HTTP/1.1 kept to one origin.
const SIZE: usize = 1024;

/// A connection, for one request.
#[derive(Debug)]
pub(super) enum Line {
    Single(Single),
    Shared(Shared),
}

/// One of HTTP/1.1: whoever has it has it alone.
pub(super) type Single = http1::SendRequest<Outgoing>;

/// One of HTTP/2: each has its own of this.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) sender: http2::SendRequest<Outgoing>,
    /// As many as have it, and another one for each connection.
    users: Arc<()>,
    /// Requests that the other side takes at once.
    most: Arc<AtomicUsize>,
}

impl Shared {
    pub(super) fn new(sender: http2::SendRequest<Outgoing>, most: Arc<AtomicUsize>) -> Self {
        Self { sender, users: Arc::default(), most }
    }

    /// Of one that is kept: whether another request may go over it. What is more than the other side
    /// takes would wait where nobody can take it back.
    fn has_room(&self) -> bool {
        let users = Arc::strong_count(&self.users) - 1;
        self.sender.is_ready() && users < self.most.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The newest last.
    single: Vec<Unused<Single>>,
    shared: Option<Unused<Shared>>,
    /// Requests that wait for one.
    pub(super) waiting: usize,
}

#[derive(Debug)]
struct Unused<T> {
    line: T,
    /// A look has found it unused already.
    found: bool,
}

impl Kept {
    /// One for a request. Of those for one request alone, the one that was used last.
    pub(super) fn take(&mut self) -> Option<Line> {
        while let Some(unused) = self.single.pop() {
            // The others were closed meanwhile.
            if unused.line.is_ready() {
                return Some(Line::Single(unused.line));
            }
        }
        let unused = self.shared.as_mut().filter(|unused| unused.line.has_room())?;
        unused.found = false;
        Some(Line::Shared(unused.line.clone()))
    }

    /// Keeps one that is free, where there is room.
    pub(super) fn put(&mut self, line: Single) {
        if self.single.len() < SIZE {
            self.single.push(Unused { line, found: false });
        }
    }

    /// Keeps one for all; the one that does that already, if there is one with room. One without is
    /// closed once those that have it are done.
    pub(super) fn share(&mut self, line: &Shared) -> Option<Shared> {
        match &self.shared {
            Some(first) if first.line.has_room() => Some(first.line.clone()),
            _ => {
                self.shared = Some(Unused { line: line.clone(), found: false });
                None
            }
        }
    }

    /// This one sends nothing any more; another one may have come in its place.
    pub(super) fn forget(&mut self, line: &Shared) {
        self.shared.take_if(|kept| Arc::ptr_eq(&kept.line.users, &line.users));
    }

    /// A look at those that are unused: the second that finds one so lets it go.
    pub(super) fn sweep(&mut self) {
        self.single.retain_mut(|unused| !unused.line.is_closed() && !unused.is_found_again());
        self.shared.take_if(|unused| {
            if Arc::strong_count(&unused.line.users) > 1 {
                unused.found = false;
            }
            unused.line.sender.is_closed()
                || Arc::strong_count(&unused.line.users) == 1 && unused.is_found_again()
        });
    }
}

impl<T> Unused<T> {
    fn is_found_again(&mut self) -> bool {
        std::mem::replace(&mut self.found, true)
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::JoinHandle;

    use super::*;

    /// What works for the connection, and its other end.
    type Ends = (JoinHandle<hyper::Result<()>>, DuplexStream);

    async fn single() -> (Single, Ends) {
        let (near, far) = duplex(1024);
        let (mut sender, connection) = http1::handshake(TokioIo::new(near)).await.expect("one");
        let works = tokio::spawn(connection);
        sender.ready().await.expect("it is ready");
        (sender, (works, far))
    }

    async fn shared() -> (Shared, Ends) {
        let (near, far) = duplex(1024);
        let io = TokioIo::new(near);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.expect("one");
        (Shared::new(sender, Arc::new(3.into())), (tokio::spawn(connection), far))
    }

    fn is(taken: Option<Line>, line: &Shared) -> bool {
        matches!(taken, Some(Line::Shared(taken)) if Arc::ptr_eq(&taken.users, &line.users))
    }

    #[tokio::test]
    async fn what_was_closed_meanwhile_is_passed_over() {
        let mut kept = Kept::default();
        let (live, _live) = single().await;
        kept.put(live);
        for _ in 0..3 {
            let (closed, (works, far)) = single().await;
            kept.put(closed);
            drop(far);
            let _ = works.await.expect("no panic");
        }
        assert!(matches!(kept.take(), Some(Line::Single(line)) if line.is_ready()));
        assert!(kept.take().is_none() && kept.single.is_empty());
    }

    #[tokio::test]
    async fn no_more_are_kept_than_there_is_room_for() {
        let mut kept = Kept::default();
        let mut ends = Vec::new();
        for _ in 0..SIZE + 5 {
            let (line, end) = single().await;
            kept.put(line);
            ends.push(end);
        }
        assert_eq!(kept.single.len(), SIZE);
    }

    #[tokio::test]
    async fn the_second_look_lets_go_what_was_not_used_in_between() {
        let mut kept = Kept::default();
        let (line, _ends) = single().await;
        kept.put(line);
        kept.sweep();
        let Some(Line::Single(line)) = kept.take() else { panic!("it is kept") };
        kept.put(line);
        kept.sweep();
        assert_eq!(kept.single.len(), 1, "it was used");
        kept.sweep();
        assert!(kept.take().is_none());
    }

    #[tokio::test]
    async fn one_that_is_shared_is_kept_while_a_response_comes_over_it() {
        let mut kept = Kept::default();
        let (line, _ends) = shared().await;
        assert!(kept.share(&line).is_none());
        drop(line);
        let user = kept.take();
        for _ in 0..5 {
            kept.sweep();
        }
        drop(user);
        kept.sweep();
        assert!(kept.take().is_some(), "its user has only just gone");
        kept.sweep();
        kept.sweep();
        assert!(kept.take().is_none());
    }

    #[tokio::test]
    async fn no_more_share_one_than_the_other_side_takes() {
        let mut kept = Kept::default();
        let ((first, _first), (second, _second)) = (shared().await, shared().await);
        assert!(kept.share(&first).is_none());
        let most = Arc::clone(&first.most);
        let own = Arc::clone(&first.users);
        drop(first);
        let mut users: Vec<_> = std::iter::from_fn(|| kept.take()).collect();
        assert_eq!(users.len(), 2, "this test holds the third");
        drop(own);
        users.extend(kept.take());
        assert!(users.len() == 3 && kept.take().is_none());
        users.pop();
        assert!(kept.take().is_some());
        most.store(2, Ordering::Relaxed);
        assert!(kept.take().is_none());
        assert!(kept.share(&second).is_none(), "it comes in the place of the full one");
        assert!(is(kept.take(), &second));
    }

    #[tokio::test]
    async fn of_two_that_could_be_shared_the_first_is_until_it_is_forgotten() {
        let mut kept = Kept::default();
        let ((first, _first), (second, _second)) = (shared().await, shared().await);
        assert!(kept.share(&first).is_none());
        assert!(is(kept.share(&second).map(Line::Shared), &first));
        kept.forget(&second);
        assert!(is(kept.take(), &first), "it is another one that sends nothing more");
        kept.forget(&first);
        assert!(kept.take().is_none());
        assert!(kept.share(&second).is_none());
        assert!(is(kept.take(), &second));
    }
}
