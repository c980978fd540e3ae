//! Included by tests: a Redis on a loopback port of its own, in a folder of its own, which ends with
//! the value that holds it.
//!
//! `SOFTLAND_REDIS_SERVER` names another server for the tests that do not care which: `cluster`, which is
//! a cluster of three masters, or a program with the arguments of `redis-server`, such as Valkey's.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::outage::TestServer;

/// The variable that names the server.
const SERVER: &str = "SOFTLAND_REDIS_SERVER";
/// The time within which a server starts, and a cluster is ready, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running Redis, or a cluster of several.
#[derive(Debug)]
pub(crate) struct RedisServer {
    nodes: Vec<RedisNode>,
    /// The index of the node that has the keys.
    holder: usize,
}

/// One process.
#[derive(Debug)]
struct RedisNode {
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

/// Returns the server's program.
pub(crate) fn find_program() -> PathBuf {
    let named = std::env::var_os(SERVER).filter(|name| name != "cluster");
    named.unwrap_or_else(|| "redis-server".into()).into()
}

/// Calls this until it returns true.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

impl RedisServer {
    /// Starts the server. It keeps what it is told over a restart.
    pub(crate) fn start() -> Self {
        let is_cluster = std::env::var_os(SERVER).is_some_and(|name| name == "cluster");
        if is_cluster { Self::start_cluster() } else { Self::start_with(&[]) }
    }

    /// Starts a single Redis with further arguments.
    pub(crate) fn start_with(more: &[&str]) -> Self {
        Self {
            nodes: vec![RedisNode::start(|| more.iter().map(|&word| word.to_owned()).collect())],
            holder: 0,
        }
    }

    /// Starts a cluster of three masters, of which the first has none of the gateways' keys.
    pub(crate) fn start_cluster() -> Self {
        let mut nodes: Vec<RedisNode> =
            (0..3).map(|_| RedisNode::start(cluster_arguments)).collect();
        let addresses: Vec<String> = nodes.iter().map(RedisNode::cluster_address).collect();
        let mut words = vec!["--cluster", "create"];
        words.extend(addresses.iter().map(String::as_str));
        words.extend(["--cluster-yes", "--cluster-replicas", "0"]);
        let said = run_client(&words);
        assert!(said.contains("All 16384 slots covered"), "{said}");
        for node in &nodes {
            wait_until("the cluster is ready", || node.is_ready());
        }
        let holds = |node: &RedisNode| !node.command(&["get", "{softland}"]).contains("MOVED");
        let holder = nodes.iter().position(holds).expect("one of them has the slot");
        nodes.rotate_left(holder);
        nodes.rotate_right(1);
        Self { nodes, holder: 1 }
    }

    /// Returns its address; of a cluster that of a node without the keys.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.nodes[0].port)
    }

    /// Runs a command of `redis-cli` on the node that has the keys, and returns its output.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        self.nodes[self.holder].command(words)
    }

    /// Begins to move the keys to another node of the cluster.
    pub(crate) fn begin_move(&self) {
        let (holder, next) = (&self.nodes[self.holder], &self.nodes[self.next_holder()]);
        next.set_slot("importing", holder);
        holder.set_slot("migrating", next);
    }

    /// Moves the keys, and lets the other node have them.
    pub(crate) fn end_move(&mut self) {
        let (holder, next) = (&self.nodes[self.holder], &self.nodes[self.next_holder()]);
        let keys = self.command(&["keys", "*"]);
        let port = next.port.to_string();
        let mut words = vec!["migrate", "127.0.0.1", &port, "", "0", "5000", "keys"];
        words.extend(keys.lines());
        assert_eq!(holder.command(&words).trim(), "OK");
        next.set_slot("node", next);
        for node in &self.nodes {
            node.set_slot("node", next);
        }
        self.holder = self.next_holder();
    }

    fn next_holder(&self) -> usize {
        (self.holder + 1) % self.nodes.len()
    }
}

/// Returns the arguments of a node of a cluster.
fn cluster_arguments() -> Vec<String> {
    let bus = free_port().to_string();
    let words = ["--cluster-enabled", "yes", "--cluster-port", &bus];
    words.map(str::to_owned).to_vec()
}

/// Runs `redis-cli`, and returns its output.
fn run_client(words: &[&str]) -> String {
    let output = Command::new("redis-cli").args(words).output().expect("redis-cli runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl RedisNode {
    /// Starts a Redis with the arguments that this makes.
    fn start(arguments: impl Fn() -> Vec<String>) -> Self {
        for _ in 0..10 {
            let (port, folder) = (free_port(), tempfile::tempdir().expect("a folder"));
            let mut node = Self { child: None, port, folder, more: arguments() };
            // Another program may have taken the port in between.
            if node.launch() {
                return node;
            }
        }
        panic!("no Redis could be started");
    }

    /// Returns its address as other nodes of its cluster need it.
    fn cluster_address(&self) -> String {
        format!("127.0.0.1:{}@{}", self.port, self.more.last().expect("a port"))
    }

    fn command(&self, words: &[&str]) -> String {
        run_client(&[&["-p", &self.port.to_string()], words].concat())
    }

    /// Tells it what another node does with the slot of the gateways' keys.
    fn set_slot(&self, what: &str, other: &Self) {
        let slot = self.command(&["cluster", "keyslot", "{softland}"]);
        let id = other.command(&["cluster", "myid"]);
        let said = self.command(&["cluster", "setslot", slot.trim(), what, id.trim()]);
        assert_eq!(said.trim(), "OK");
    }

    /// Returns true if all slots of its cluster are served.
    fn is_ready(&self) -> bool {
        self.command(&["cluster", "info"]).contains("cluster_state:ok")
    }

    /// Starts the program. Returns true once it answers.
    fn launch(&mut self) -> bool {
        let (port, folder) = (self.port.to_string(), self.folder.path());
        let mut command = Command::new(find_program());
        command.args(["--port", &port, "--bind", "127.0.0.1", "--appendonly", "yes", "--save", ""]);
        command
            .arg("--dir")
            .arg(folder)
            .args(&self.more)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("the server starts");
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
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

    /// Returns true if it answers, and is not still reading what it has kept.
    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut answer = [0; 5];
        let asked = stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut answer));
        asked.is_ok() && &answer == b"+PONG"
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it runs");
            child.wait().expect("it has ended");
        }
    }
}

/// Of a cluster, the node that has the keys ends and comes back.
impl TestServer for RedisServer {
    fn kill(&mut self) {
        self.nodes[self.holder].kill();
    }

    fn restart(&mut self) {
        self.kill();
        assert!(self.nodes[self.holder].launch(), "it starts again");
        if self.nodes.len() > 1 {
            for node in &self.nodes {
                wait_until("the cluster is ready again", || node.is_ready());
            }
        }
    }
}

impl Drop for RedisNode {
    fn drop(&mut self) {
        self.kill();
    }
}
