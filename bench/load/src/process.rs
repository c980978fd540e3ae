//! Child processes, pinned to a core, and what the kernel says of them (Linux's `/proc`).

use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The core of the load tool and the mock.
pub(crate) const LOAD_CORE: usize = 0;
/// The core that the measured program has for itself.
pub(crate) const GATEWAY_CORE: usize = 1;

/// A child that is ended when this is dropped.
pub(crate) struct Running {
    child: Child,
    tick: Duration,
}

impl Running {
    /// Starts a command on one core, by a program that watches it if one is named.
    pub(crate) fn start(
        watcher: &[&str],
        command: &Command,
        core: usize,
        out: Stdio,
        err: Stdio,
    ) -> io::Result<Self> {
        let mut pinned = Command::new("taskset");
        pinned.arg("-c").arg(core.to_string()).args(watcher);
        pinned.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => pinned.env(name, value),
                None => pinned.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            pinned.current_dir(folder);
        }
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"] {
            pinned.env_remove(name);
        }
        let child = pinned.stdin(Stdio::null()).stdout(out).stderr(err).spawn()?;
        Ok(Self { child, tick: tick() })
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// Processor time of the process and its children, user and system.
    pub(crate) fn cpu(&self) -> Duration {
        let ticks: u64 = family(self.child.id()).iter().map(|stat| stat.ticks).sum();
        self.tick * u32::try_from(ticks).unwrap_or(u32::MAX)
    }

    /// Waits until it has done nothing for a while (queues drained, threads asleep), at most 20 s;
    /// its processor time then.
    pub(crate) async fn quiet_cpu(&self) -> Duration {
        let (mut cpu, mut since) = (self.cpu(), Instant::now());
        let begun = since;
        while since.elapsed() < Duration::from_millis(400) && begun.elapsed().as_secs() < 20 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let now = self.cpu();
            if now != cpu {
                (cpu, since) = (now, Instant::now());
            }
        }
        cpu
    }

    /// Pages that the kernel had to find for it.
    pub(crate) fn faults(&self) -> u64 {
        stat(self.child.id()).map_or(0, |stat| stat.faults)
    }

    /// How often its threads gave up their core, or lost it.
    pub(crate) fn switches(&self) -> u64 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let one = |status: String| -> u64 {
            let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
            lines.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum()
        };
        let threads = threads.into_iter().flatten().flatten();
        threads.filter_map(|t| fs::read_to_string(t.path().join("status")).ok()).map(one).sum()
    }

    /// Proportional set size of the process and its children, in KiB.
    pub(crate) fn pss(&self) -> u64 {
        self.memory("Pss:")
    }

    /// Resident set size of the process and its children, in KiB.
    pub(crate) fn rss(&self) -> u64 {
        self.memory("Rss:")
    }

    fn memory(&self, key: &str) -> u64 {
        let one = |stat: &Stat| {
            let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", stat.pid)).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        family(self.child.id()).iter().filter_map(one).sum()
    }

    /// Asks it to end, as a service manager does, and waits; whether it did within the time.
    pub(crate) fn terminate(&mut self, patience: Duration) -> bool {
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status();
        let since = Instant::now();
        while asked.is_ok() && since.elapsed() < patience {
            if self.ended().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for stat in family(self.child.id()).iter().skip(1) {
            let _ = Command::new("kill").args(["-KILL", &stat.pid.to_string()]).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Clone, Copy)]
struct Stat {
    pid: u32,
    parent: u32,
    ticks: u64,
    faults: u64,
}

/// A process and those below it, itself first.
fn family(root: u32) -> Vec<Stat> {
    let Some(first) = stat(root) else { return Vec::new() };
    let mut found = vec![first];
    if !has_children(root) {
        return found;
    }
    let all: Vec<Stat> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
        .filter_map(stat)
        .collect();
    let mut known = vec![root];
    while let Some(parent) = known.pop() {
        for child in all.iter().filter(|child| child.parent == parent) {
            known.push(child.pid);
            found.push(Stat { parent, ..*child });
        }
    }
    found
}

/// Whether any thread of the process has started one that lives.
fn has_children(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.into_iter().any(|thread| {
        fs::read_to_string(thread.path().join("children")).is_ok_and(|text| !text.trim().is_empty())
    })
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold spaces and parentheses; it ends with the last one.
    let rest = text.get(text.rfind(')')? + 2..)?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |n: usize| fields.get(n)?.parse::<u64>().ok();
    // proc(5): state is field 3, here 0; ppid 4, minflt 10, utime 14, stime 15.
    let parent = u32::try_from(number(1)?).ok()?;
    Some(Stat { pid, parent, ticks: number(11)? + number(12)?, faults: number(7)? })
}

/// The unit of processor time in `/proc`.
fn tick() -> Duration {
    let said = Command::new("getconf").arg("CLK_TCK").output();
    let hertz = said.ok().and_then(|out| String::from_utf8(out.stdout).ok()?.trim().parse().ok());
    Duration::from_secs(1) / hertz.unwrap_or(100)
}

/// The machine's load over the last minute.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}
