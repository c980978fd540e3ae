//! Workers as processes, which the tests kill.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use softland_restate::{Worker, WorkerSettings};
use tokio_util::sync::CancellationToken;

use crate::agents::Loader;

const FOLDER: &str = "SOFTLAND_TEST_FOLDER";
const LISTEN: &str = "SOFTLAND_TEST_LISTEN";

/// Returns the addresses of the server, ingress and administration; `None` if there is no server.
pub(crate) fn server() -> Option<(String, String)> {
    let Ok(both) = std::env::var("SOFTLAND_RESTATE") else {
        eprintln!("skipped: SOFTLAND_RESTATE names no server (tests/engine/run starts one)");
        return None;
    };
    let (ingress, admin) = both.split_once(' ').unwrap();
    Some((ingress.to_owned(), admin.to_owned()))
}

/// Returns true if there is time for more.
pub(crate) fn is_long() -> bool {
    std::env::var_os("SOFTLAND_LONG").is_some()
}

/// Not a test by itself: the worker that the other tests start and kill.
#[ignore = "started by the other tests, with an environment"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = PathBuf::from(folder);
    let listen = std::env::var(LISTEN).unwrap().parse().unwrap();
    let settings = WorkerSettings { restate: server().unwrap().1, listen, advertise: None };
    let loader = Arc::new(Loader { folder: folder.clone() });
    let worker = Worker::bind(&settings, loader).await.unwrap();
    let registered = || std::fs::write(folder.join("registered"), "").unwrap();
    worker.serve(registered, CancellationToken::new()).await.unwrap();
}

/// A worker's process.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Waits until the process has ended by itself.
    pub(crate) fn wait_for_end(mut self) {
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < Duration::from_secs(60), "the worker does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns an address on which nothing listens.
pub(crate) fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Starts a worker and waits until it has registered.
pub(crate) fn start(folder: &Path, listen: &str) -> Process {
    let mark = folder.join("registered");
    let _ = std::fs::remove_file(&mark);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "workers::worker", "--ignored"])
        .env(FOLDER, folder)
        .env(LISTEN, listen)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let process = Process { child };
    let began = Instant::now();
    while !mark.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "the worker does not register");
        std::thread::sleep(Duration::from_millis(10));
    }
    process
}
