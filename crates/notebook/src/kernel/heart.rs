//! A kernel's heartbeat: what is sent to it comes back, whatever it runs, as long as its process
//! goes on at all. It has a thread of its own for that.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use zeromq::{ReqSocket, Socket as _, SocketRecv as _, SocketSend as _};

/// Between an answer and the next beat, and between tries.
const BEAT: Duration = Duration::from_secs(3);

/// Says when a kernel has not answered for `silence`, and when it does again. Of one that never
/// has, nothing is said: not every kernel has a heart.
pub(super) async fn beat(url: String, silence: Duration, silent: watch::Sender<Option<Duration>>) {
    let pause = BEAT.min(silence);
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
