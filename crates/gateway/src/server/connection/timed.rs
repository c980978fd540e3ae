//! A client's socket with a limit on the time for a request's head, and on the time without any.
//!
//! The server library has one such limit for both, and says nothing to the client when it is over.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

const NEW: u8 = 0;
const HEAD: u8 = 1;
const BUSY: u8 = 2;
const IDLE: u8 = 3;

/// What a connection is at, as those know who handle its requests.
#[derive(Debug, Default)]
pub(crate) struct Pulse(AtomicU8);

impl Pulse {
    /// A request's head is there.
    pub(crate) fn busy(&self) {
        self.0.store(BUSY, Ordering::Relaxed);
    }

    /// A response is over.
    pub(crate) fn idle(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }
}

/// What was too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// The rest of a head that had begun.
    Head,
    /// Any byte.
    Idle,
}

/// A client's socket.
#[derive(Debug)]
pub(super) struct Timed {
    stream: TcpStream,
    pulse: Arc<Pulse>,
    head: Duration,
    idle: Duration,
    timer: Pin<Box<Sleep>>,
    /// What the timer runs for.
    armed: u8,
    late: Option<Late>,
}

impl Timed {
    pub(super) fn new(
        stream: TcpStream,
        pulse: Arc<Pulse>,
        head: Duration,
        idle: Duration,
    ) -> Self {
        let timer = Box::pin(tokio::time::sleep(head));
        Self { stream, pulse, head, idle, timer, armed: NEW, late: None }
    }

    /// What ended the connection, if time did.
    pub(super) fn late(&self) -> Option<Late> {
        self.late
    }

    pub(super) fn into_inner(self) -> TcpStream {
        self.stream
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = self.pulse.0.load(Ordering::Relaxed);
        if state == BUSY {
            self.armed = BUSY;
            return Poll::Pending;
        }
        if self.armed != state {
            let limit = if state == IDLE { self.idle } else { self.head };
            self.timer.as_mut().reset(Instant::now() + limit);
            self.armed = state;
        }
        ready!(self.timer.as_mut().poll(cx));
        self.late = Some(if state == HEAD { Late::Head } else { Late::Idle });
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Timed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Pending => self.poll_timer(cx),
            Poll::Ready(Ok(())) => {
                let state = &self.pulse.0;
                if buf.filled().len() > before && state.load(Ordering::Relaxed) != BUSY {
                    state.store(HEAD, Ordering::Relaxed);
                }
                Poll::Ready(Ok(()))
            }
            failed @ Poll::Ready(Err(_)) => failed,
        }
    }
}

impl AsyncWrite for Timed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}
