//! Included by tests: a Redis on a loopback port of its own, in a folder of its own, which ends with
//! the value that holds it.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::outage::TestServer;

/// A running Redis.
#[derive(Debug)]
pub(crate) struct RedisServer {
    child: Option<Child>,
    port: u16,
    folder: tempfile::TempDir,
    /// Arguments beside those of every server.
    more: Vec<String>,
}

/// Returns a port of the loopback address that nobody has now.
pub(crate) fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|at| at.local_addr());
    free.expect("a free port").port()
}

impl RedisServer {
    /// Starts a Redis. It keeps what it is told over a restart.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a Redis with further arguments.
    pub(crate) fn start_with(more: &[&str]) -> Self {
        for _ in 0..10 {
            let (port, folder) = (free_port(), tempfile::tempdir().expect("a folder"));
            let more = more.iter().map(|word| (*word).to_owned()).collect();
            let mut server = Self { child: None, port, folder, more };
            // Another program may have taken the port in between.
            if server.launch() {
                return server;
            }
        }
        panic!("no Redis could be started");
    }

    /// Returns its address.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Runs a command of `redis-cli`, and returns its output.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]).args(words);
        let output = command.output().expect("redis-cli runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts the program. Returns true once it answers.
    fn launch(&mut self) -> bool {
        let (port, folder) = (self.port.to_string(), self.folder.path());
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--appendonly", "yes", "--save", ""]);
        command
            .arg("--dir")
            .arg(folder)
            .args(&self.more)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("redis-server starts");
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(20) {
            if child.try_wait().expect("its state").is_some() {
                return false;
            }
            if self.answers() {
                self.child = Some(child);
                return true;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        self.child = Some(child);
        self.kill();
        false
    }
}

impl RedisServer {
    /// Returns true if it answers, and is not still reading what it has kept.
    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut answer = [0; 5];
        let asked = stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut answer));
        asked.is_ok() && &answer == b"+PONG"
    }
}

impl TestServer for RedisServer {
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it runs");
            child.wait().expect("it has ended");
        }
    }

    fn restart(&mut self) {
        self.kill();
        assert!(self.launch(), "it starts again");
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}
