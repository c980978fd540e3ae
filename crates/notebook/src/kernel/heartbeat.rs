//! A kernel's heartbeat: the kernel sends back what it receives, whatever it runs, as long as its
//! process lives. A thread of its own does that.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use zeromq::{ReqSocket, Socket as _, SocketRecv as _, SocketSend as _};

/// The pause between an answer and the next beat, and between attempts.
const INTERVAL: Duration = Duration::from_secs(3);

/// Reports when a kernel has not answered for `silence`, and when it answers again. A kernel that
/// has never answered is not reported: not every kernel has a heartbeat.
pub(super) async fn watch_heartbeat(
    url: String,
    silence: Duration,
    silent: watch::Sender<Option<Duration>>,
) {
    let pause = INTERVAL.min(silence);
    let mut answered = false;
    loop {
        let mut socket = ReqSocket::new();
        let mut there = socket.connect(&url).await.is_ok();
        while there && socket.send("beat".into()).await.is_ok() {
            let mut answer = std::pin::pin!(socket.recv());
            let came = match timeout(silence, &mut answer).await {
                Ok(came) => came,
                Err(_) => {
                    if answered {
                        silent.send_replace(Some(silence));
                    }
                    answer.await
                }
            };
            there = came.is_ok();
            if there {
                answered = true;
                silent.send_if_modified(|silent| silent.take().is_some());
                sleep(pause).await;
            }
        }
        sleep(pause).await;
    }
}
