//! A client's socket with time limits: for a request's head, for the time without a request, and
//! for the time that the client leaves a response unread. It also ends connections with a request
//! that states its end twice.
//!
//! The server library has one limit for the first two and none for the third, and tells the client
//! nothing when a limit is reached.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::framing::Framing;
use crate::serve::activity::{BUSY, ConnectionActivity, HEAD, IDLE, NEW};
use crate::serve::tls::ClientConnection;

/// The deadline that was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissedDeadline {
    /// The rest of a request's head did not come.
    Head,
    /// No byte of a request came.
    Idle,
    /// The client did not read the response.
    Stall,
}

/// The time limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionTimeouts {
    /// For a request's head, from its first byte.
    pub(super) head: Duration,
    /// Without a request, and up to a fifth more.
    pub(super) idle: Duration,
    /// Without a byte of the response being read.
    pub(super) stall: Duration,
}

/// A client's socket.
#[derive(Debug)]
pub(super) struct TimedStream {
    stream: ClientConnection,
    activity: Arc<ConnectionActivity>,
    times: ConnectionTimeouts,
    timer: Pin<Box<Sleep>>,
    /// The activity for which the timer runs.
    armed: u8,
    /// True if the timer wakes the connection's task when it runs out.
    ticks: bool,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
    late: Option<MissedDeadline>,
    framing: Framing,
    /// True if the bytes state a request's end twice; nothing is read behind that.
    refused: bool,
    /// True if that ended the connection while no other request was running.
    ambiguous: bool,
}

impl TimedStream {
    pub(super) fn new(
        stream: ClientConnection,
        activity: Arc<ConnectionActivity>,
        times: ConnectionTimeouts,
    ) -> Self {
        let timer = Box::pin(tokio::time::sleep(times.head));
        let framing = Framing::new();
        let (stalled, late, armed, ticks) = (None, None, NEW, false);
        let (refused, ambiguous) = (false, false);
        Self {
            stream,
            activity,
            times,
            timer,
            armed,
            ticks,
            stalled,
            late,
            framing,
            refused,
            ambiguous,
        }
    }

    /// Returns the deadline whose miss ended the connection, if any.
    pub(super) fn missed_deadline(&self) -> Option<MissedDeadline> {
        self.late
    }

    /// Returns true if a request that states its end twice ended the connection.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.ambiguous
    }

    pub(super) fn into_inner(self) -> ClientConnection {
        self.stream
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = self.activity.state();
        if state == BUSY {
            // The end of the response does not wake this task. The timer does so at intervals, and
            // the time without a request counts from there.
            if self.armed != BUSY || !self.ticks || self.timer.is_elapsed() {
                self.timer.as_mut().reset(Instant::now() + self.times.idle / 5);
                self.ticks = self.timer.as_mut().poll(cx).is_pending();
            }
            self.armed = BUSY;
            return Poll::Pending;
        }
        if self.armed != state {
            let limit = if state == IDLE { self.times.idle } else { self.times.head };
            self.timer.as_mut().reset(Instant::now() + limit);
            self.armed = state;
        }
        self.ticks = true;
        ready!(self.timer.as_mut().poll(cx));
        self.late = Some(if state == HEAD { MissedDeadline::Head } else { MissedDeadline::Idle });
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Returns the error that ends a connection on which a request was ambiguous.
    fn ambiguity_error(&mut self) -> io::Error {
        self.ambiguous = self.activity.state() != BUSY;
        io::ErrorKind::InvalidData.into()
    }

    /// Passes on the result of a write, or an error if the write has been pending for too long.
    fn check_write(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.times.stall;
        let timer = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(timer.as_mut().poll(cx));
        self.late = Some(MissedDeadline::Stall);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.refused {
            return Poll::Ready(Err(self.ambiguity_error()));
        }
        let before = buf.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Pending => self.poll_timer(cx),
            Poll::Ready(Ok(())) => {
                let came = buf.filled().get(before..).unwrap_or_default();
                let followed = self.framing.follow_bytes(came);
                if !came.is_empty() && self.activity.state() != BUSY {
                    self.activity.mark_head();
                }
                if let Err(good) = followed {
                    self.refused = true;
                    if good == 0 {
                        return Poll::Ready(Err(self.ambiguity_error()));
                    }
                    buf.set_filled(before + good);
                }
                Poll::Ready(Ok(()))
            }
            failed @ Poll::Ready(Err(_)) => failed,
        }
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.check_write(cx, written)
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
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.check_write(cx, written)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const TIMES: ConnectionTimeouts = ConnectionTimeouts {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        stall: Duration::from_secs(300),
    };

    async fn pair(activity: &Arc<ConnectionActivity>) -> (TcpStream, TimedStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let client = TcpStream::connect(address).await.expect("a connection");
        let (stream, _) = listener.accept().await.expect("a connection");
        (client, TimedStream::new(ClientConnection::Plain(stream), Arc::clone(activity), TIMES))
    }

    /// Paused time advances whenever nothing else can run: an endless wait ends at once.
    async fn waited(timed: &mut TimedStream) -> (Duration, Option<MissedDeadline>) {
        let began = Instant::now();
        let read = timed.read(&mut [0; 8]).await;
        assert_eq!(read.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        (began.elapsed(), timed.missed_deadline())
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_an_idle_connection_and_a_silent_one_have_their_times() {
        let activity = Arc::new(ConnectionActivity::default());
        let (_client, mut timed) = pair(&activity).await;
        let (time, late) = waited(&mut timed).await;
        assert_eq!(
            (time.as_secs(), late),
            (10, Some(MissedDeadline::Idle)),
            "it never said anything"
        );

        let activity = Arc::new(ConnectionActivity::default());
        let (mut client, mut timed) = pair(&activity).await;
        client.write_all(b"GET").await.expect("written");
        assert_eq!(timed.read(&mut [0; 8]).await.expect("read"), 3);
        let (time, late) = waited(&mut timed).await;
        assert_eq!((time.as_secs(), late), (10, Some(MissedDeadline::Head)));

        let activity = Arc::new(ConnectionActivity::default());
        let (_client, mut timed) = pair(&activity).await;
        activity.mark_busy();
        activity.mark_idle();
        let (time, late) = waited(&mut timed).await;
        assert_eq!((time.as_secs(), late), (75, Some(MissedDeadline::Idle)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_though_nobody_looked_when_its_response_was_over() {
        let activity = Arc::new(ConnectionActivity::default());
        let (_client, mut timed) = pair(&activity).await;
        activity.mark_busy();
        // A long response, at whose end the reading task is not woken.
        let began = Instant::now();
        let over = Arc::clone(&activity);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(200)).await;
            over.mark_idle();
        });
        let waits = tokio::time::timeout(Duration::from_secs(1000), waited(&mut timed));
        assert_eq!(waits.await.expect("it is let go").1, Some(MissedDeadline::Idle));
        let idle = began.elapsed().as_secs() - 200;
        assert!((75..=90).contains(&idle), "{idle} s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_let_go() {
        let activity = Arc::new(ConnectionActivity::default());
        let (_client, mut timed) = pair(&activity).await;
        activity.mark_busy();
        let began = Instant::now();
        let error = loop {
            if let Err(error) = timed.write_all(&[0; 1 << 16]).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(
            (began.elapsed().as_secs(), timed.missed_deadline()),
            (300, Some(MissedDeadline::Stall))
        );
    }
}
