//! Included by tests: a PostgreSQL on a loopback port of its own, in a folder of its own, which ends
//! with the value that holds it.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::outage::TestServer;

/// A running PostgreSQL.
#[derive(Debug)]
pub(crate) struct PostgresServer {
    child: Option<Child>,
    port: u16,
    folder: tempfile::TempDir,
}

/// A session that has begun a transaction. It is rolled back at the end.
#[derive(Debug)]
pub(crate) struct Session {
    child: Child,
}

impl Session {
    /// Commits the transaction, and ends the session.
    pub(crate) fn commit(mut self) {
        let mut input = self.child.stdin.take().expect("its input");
        input.write_all(b"COMMIT;\n").expect("it reads");
        drop(input);
        assert!(self.child.wait().expect("it ends").success(), "it commits");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the path of a program of PostgreSQL's: Debian puts it where no path leads.
pub(crate) fn postgres_program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|at| at.path().join("bin").join(name)).collect();
    found.retain(|path| path.exists());
    found.sort();
    found.pop().unwrap_or_else(|| PathBuf::from(name))
}

/// Returns a command of PostgreSQL's, which refuses to run as root.
fn command(name: &str) -> Command {
    let program = postgres_program(name);
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    command
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id runs");
    id.stdout.trim_ascii() == b"0"
}

impl PostgresServer {
    /// Starts an empty PostgreSQL. It keeps what it is told over a restart.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        if is_root() {
            let given = Command::new("chown").arg("postgres").arg(folder.path()).status();
            assert!(given.expect("chown runs").success());
        }
        let mut init = command("initdb");
        init.args(["--auth=trust", "--username=softland", "--no-sync", "-D"]);
        let made = init.arg(folder.path().join("data")).output().expect("initdb runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut server = Self { child: None, port: 0, folder };
        for _ in 0..10 {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|at| at.local_addr());
            server.port = free.expect("a free port").port();
            // Another program may have taken the port in between.
            if server.launch() {
                return server;
            }
        }
        panic!("no PostgreSQL could be started");
    }

    /// Returns its address.
    pub(crate) fn url(&self) -> String {
        format!("postgres://softland@127.0.0.1:{}/postgres", self.port)
    }

    /// Runs statements, and returns what they print.
    pub(crate) fn sql(&self, statements: &str) -> String {
        let mut psql = Command::new(postgres_program("psql"));
        psql.args(["-qAt", "-v", "ON_ERROR_STOP=1", "-c", statements]).arg(self.url());
        let output = psql.output().expect("psql runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Runs statements in a session that stays, once they are done.
    pub(crate) fn begin(&self, statements: &str) -> Session {
        let mut psql = Command::new(postgres_program("psql"));
        psql.args(["-qAt", "-v", "ON_ERROR_STOP=1"]).arg(self.url());
        psql.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut session = Session { child: psql.spawn().expect("psql runs") };
        let input = session.child.stdin.as_mut().expect("its input");
        writeln!(input, "{statements}\nSELECT 1;").expect("it reads");
        let mut done = [0; 2];
        let output = session.child.stdout.as_mut().expect("its output");
        output.read_exact(&mut done).expect("it is done");
        session
    }

    /// Starts the program. Returns true once it answers.
    fn launch(&mut self) -> bool {
        let folder = self.folder.path();
        let mut server = command("postgres");
        server.arg("-D").arg(folder.join("data")).args(["-p", &self.port.to_string()]);
        server.args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"]);
        server.arg("-c").arg(socket_folder(folder)).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = server.spawn().expect("postgres starts");
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(30) {
            if child.try_wait().expect("its state").is_some() {
                return false;
            }
            if self.answers() {
                self.child = Some(child);
                return true;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        self.child = Some(child);
        self.kill();
        false
    }

    /// Returns true if it accepts sessions, and is not still recovering.
    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        // A startup message of protocol 3 without a password; `R` is its acceptance.
        let parameters = b"user\0softland\0database\0postgres\0\0";
        let length = u32::try_from(8 + parameters.len()).expect("short");
        let start = [&length.to_be_bytes()[..], &196_608_u32.to_be_bytes(), parameters].concat();
        let mut answer = [0];
        let asked = stream.write_all(&start).and_then(|()| stream.read_exact(&mut answer));
        asked.is_ok() && &answer == b"R"
    }
}

fn socket_folder(folder: &Path) -> String {
    format!("unix_socket_directories={}", folder.display())
}

/// Kills a server and the processes that serve its sessions. Those outlive the server for a moment, and
/// answer meanwhile. The server is stopped first, so that it starts no others.
fn kill_with_children(server: u32) {
    let script = "kill -STOP $0; kill -KILL $(ps -o pid= --ppid $0) $0";
    let killed = Command::new("sh").args(["-c", script, &server.to_string()]).status();
    assert!(killed.expect("sh runs").success(), "the server runs");
}

impl TestServer for PostgresServer {
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill_with_children(child.id());
            child.wait().expect("it has ended");
        }
    }

    fn restart(&mut self) {
        self.kill();
        let since = Instant::now();
        // Its processes go one after the other, and it does not start beside them.
        while !self.launch() {
            assert!(since.elapsed() < Duration::from_secs(60), "it starts again");
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
    }
}
