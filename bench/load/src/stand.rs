//! A measured program and the mock behind it, both fresh.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use softland_bench_texts::requests::Kind;
use tempfile::TempDir;

use crate::awake::Awake;
use crate::client::Client;
use crate::drive::Ask;
use crate::mock::Pace;
use crate::process::{GATEWAY_CORE, LOAD_CORE, Running};
use crate::targets::Target;

/// The slowest of them takes 11 s.
const START: Duration = Duration::from_secs(90);

/// A measured program and its mock.
pub(crate) struct Stand {
    pub(crate) target: Target,
    /// From the start of the process to its first answered request; zero for `direct`.
    pub(crate) started: Duration,
    /// Gives each run its number.
    pub(crate) numbers: Rc<Cell<u64>>,
    address: SocketAddr,
    upstream: SocketAddr,
    gateway: Option<Running>,
    mock: Running,
    awake: Option<Awake>,
    folder: TempDir,
}

impl Stand {
    /// Starts both and waits until a request is answered.
    pub(crate) async fn up(target: Target) -> Result<Self, String> {
        Self::under(target, &[]).await
    }

    /// The same with the measured program run by another one that watches it.
    pub(crate) async fn under(target: Target, watcher: &[&str]) -> Result<Self, String> {
        let started = Self::start(target, watcher).await;
        started.map_err(|error| format!("{}: {error}", target.name()))
    }

    async fn start(target: Target, watcher: &[&str]) -> io::Result<Self> {
        let folder = TempDir::new()?;
        let (mock, upstream) = mock()?;
        let numbers = Rc::new(Cell::new(1));
        let mut stand = Self {
            target,
            started: Duration::ZERO,
            numbers,
            address: upstream,
            upstream,
            gateway: None,
            mock,
            awake: None,
            folder,
        };
        if target != Target::Direct {
            stand.launch(watcher).await?;
        }
        Ok(stand)
    }

    async fn launch(&mut self, watcher: &[&str]) -> io::Result<()> {
        let port = free_port()?;
        self.address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let folder = self.folder.path();
        let Some(command) = self.target.command(folder, port, self.upstream)? else {
            return Err(io::Error::other("it is not here"));
        };
        let log = File::create(folder.join("log"))?;
        let (out, err) = (Stdio::from(log.try_clone()?), Stdio::from(log));
        let since = Instant::now();
        let mut gateway = Running::start(watcher, &command, GATEWAY_CORE, out, err)?;
        let ask = self.ask(Kind::Short);
        loop {
            let answer = Client::new(ask.address).ask(ask.template.bytes()).await;
            let Err(error) = answer else { break };
            let ended = gateway.ended();
            // Some listen before they can serve; what is refused now will be refused for ever.
            let refused = error.to_string().starts_with("status 4");
            if refused || ended.is_some() || since.elapsed() > START {
                let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
                let ended = ended.unwrap_or_else(|| "still running".to_owned());
                return Err(io::Error::other(format!("{error} ({ended})\n{}", last_lines(&log))));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.started = since.elapsed();
        self.gateway = Some(gateway);
        Ok(())
    }

    /// What to ask of it.
    pub(crate) fn ask(&self, kind: Kind) -> Ask {
        Ask {
            address: self.address,
            template: self.target.template(kind, self.address, self.upstream),
            end: self.target.end(kind),
        }
    }

    /// The process whose time and memory count: the mock, where there is none before it.
    pub(crate) fn process(&mut self) -> &mut Running {
        self.gateway.as_mut().unwrap_or(&mut self.mock)
    }

    /// Sets the mock's pace.
    pub(crate) async fn pace(&self, pace: Pace) -> Result<(), String> {
        self.control(&format!("pace?{}", pace.query())).await.map(|_| ())
    }

    /// The mock and this process stay awake from now on, or fall asleep again. The mock alone, where
    /// it is what is measured, sleeps: its time would be all the time there is.
    pub(crate) async fn keep_awake(&mut self, awake: bool) -> Result<(), String> {
        if self.gateway.is_some() {
            self.control(if awake { "awake" } else { "asleep" }).await?;
            self.awake = awake.then(Awake::new);
        }
        Ok(())
    }

    /// Requests that reached the mock since this was last asked, and those with a line of ours.
    pub(crate) async fn counts(&self) -> Result<(u64, u64), String> {
        let text = self.control("counts").await?;
        let mut numbers = text.split(' ').filter_map(|number| number.parse().ok());
        match (numbers.next(), numbers.next()) {
            (Some(requests), Some(governed)) => Ok((requests, governed)),
            _ => Err(format!("the mock says {text}")),
        }
    }

    async fn control(&self, what: &str) -> Result<String, String> {
        let request = format!("GET /bench/{what} HTTP/1.1\r\nhost: mock\r\n\r\n");
        let answer = Client::new(self.upstream).ask(request.as_bytes()).await;
        answer.map(|answer| answer.text()).map_err(|error| format!("mock: {error}"))
    }

    /// That what was said to be on was on: each request carried a line upstream.
    pub(crate) async fn check_governed(&self) -> Result<(), String> {
        let (requests, governed) = self.counts().await?;
        let expected = if self.target.governs() { requests } else { 0 };
        if governed == expected {
            return Ok(());
        }
        let name = self.target.name();
        Err(format!("{name}: {governed} of {requests} requests were governed, not {expected}"))
    }

    /// Ends the gateway as a service manager would. For the one with a ledger: the runs that it
    /// holds by `softland runs`, none of those asked for missing.
    pub(crate) fn down(mut self) -> Result<Option<usize>, String> {
        let name = self.target.name();
        let Some(mut gateway) = self.gateway.take() else { return Ok(None) };
        let drained = gateway.terminate(Duration::from_secs(15));
        drop(gateway);
        if !self.target.governs() {
            return Ok(None);
        }
        if !drained {
            return Err(format!("{name}: still running 15 s after SIGTERM"));
        }
        let program = self.target.program().ok_or("softland is not here")?;
        let listed = Command::new(program)
            .args(["runs", "--json", "--limit", "0", "--config"])
            .arg(self.folder.path().join("softland.toml"))
            .current_dir(self.folder.path())
            .output()
            .map_err(|error| format!("{name} runs: {error}"))?;
        let lines = listed.stdout.split(|byte| *byte == b'\n');
        let rows = lines.filter(|line| line.starts_with(b"{")).count();
        // The first number is 1; the request that waited for the start has none.
        let asked = usize::try_from(self.numbers.get() - 1).unwrap_or(usize::MAX);
        if rows > asked {
            return Ok(Some(rows));
        }
        let said = String::from_utf8_lossy(&listed.stderr).into_owned();
        Err(format!("{name}: its ledger lists {rows} of {} runs: {said}", asked + 1))
    }
}

fn mock() -> io::Result<(Running, SocketAddr)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("mock");
    let mut mock = Running::start(&[], &command, LOAD_CORE, Stdio::piped(), Stdio::inherit())?;
    let Some(out) = mock.child().stdout.take() else { return Err(io::Error::other("no pipe")) };
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    let address = line.trim().parse().map_err(|_| io::Error::other("the mock did not start"))?;
    Ok((mock, address))
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}
