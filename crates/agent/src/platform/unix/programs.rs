//! Programs that tools run, and everything that they start.

use std::io::{self, PipeReader, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, wait, waitid,
};
use tokio::process::ChildStdout;

/// The shell that runs command lines, as models are told.
pub(crate) const SHELL: &str = "sh -c";

/// The byte in the orders that asks for an interrupt. Other bytes mean nothing.
const INTERRUPT: u8 = b'i';

/// The time for killed processes to disappear.
const PATIENCE: Duration = Duration::from_secs(3);

/// The pause between checks whether killed processes have disappeared.
const PAUSE: Duration = Duration::from_millis(2);

/// Added to the number of the signal that ended a program, as shells do.
const BY_SIGNAL: i32 = 128;

/// Returns the command of a command line.
pub(crate) fn shell_command(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    command
}

/// Returns the reason why a command line cannot be run on this system.
pub(crate) fn check_command_line(_: &str) -> Result<(), &'static str> {
    Ok(())
}

/// Returns the orders that interrupt a program.
///
/// # Errors
/// Returns an error where programs cannot be interrupted.
pub(crate) fn interrupt_orders() -> io::Result<&'static [u8]> {
    Ok(&[INTERRUPT])
}

/// Prepares the command of a supervisor. It leaves the terminal by itself.
pub(crate) fn prepare_supervisor(_: &mut tokio::process::Command) {}

/// Lets a supervisor go on that was stopped.
pub(crate) fn wake_supervisor(id: Option<u32>) {
    if let Some(id) = id.and_then(to_pid) {
        let _ = rustix::process::kill_process(id, Signal::CONT);
    }
}

/// Kills a supervisor that does not end, and on Linux all that is below it.
pub(crate) fn kill_tree(id: Option<u32>) {
    let Some(supervisor) = id.and_then(to_pid) else { return };
    let until = Instant::now() + PATIENCE;
    while kill_below(supervisor) && Instant::now() < until {
        std::thread::sleep(PAUSE);
    }
    let _ = rustix::process::kill_process(supervisor, Signal::KILL);
}

fn to_pid(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}

/// Returns the reading end of a pipe, for tokio.
pub(crate) fn read_pipe(reader: PipeReader) -> io::Result<ChildStdout> {
    ChildStdout::from_std(OwnedFd::from(reader).into())
}

/// Describes the exit code of a supervisor.
pub(crate) fn describe_exit_code(code: i32) -> String {
    match code {
        129..=192 => format!("it was killed by signal {}", code - BY_SIGNAL),
        _ => format!("it ended with exit code {code}"),
    }
}

/// Runs a program to its end, with `input` as its standard input, and then ends everything that it
/// has started. Ends it earlier if `orders` ends. Returns its exit code, in the way of shells.
///
/// # Errors
/// Returns an error if the program cannot be started.
pub(crate) fn run_tree(
    mut command: Command,
    input: Option<String>,
    mut orders: impl Read + Send + 'static,
) -> io::Result<u8> {
    // Starts a session without a terminal. Ctrl-C in the terminal is for the user of this process.
    // The program can neither write to the terminal behind the display nor wait for typed input. A
    // process that already leads a session has no terminal either.
    let _ = rustix::process::setsid();
    adopt_orphans()?;
    wake_behind_parent();
    let mut child = command
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        // `kill 0` in a script must not reach the supervisor.
        .process_group(0)
        .spawn()?;
    let input = child.stdin.take().zip(input);
    std::thread::spawn(move || {
        if let Some((mut pipe, input)) = input {
            // A program need not read all of it.
            let _ = pipe.write_all(input.as_bytes());
        }
    });
    let program = Pid::from_child(&child);
    let running = Arc::new(Mutex::new(true));
    let ending = Arc::clone(&running);
    std::thread::spawn(move || {
        // The process id stays taken until the program is reaped. That happens after `running` is
        // set to false.
        let signal = |signal| {
            if *ending.lock().unwrap_or_else(PoisonError::into_inner) {
                let _ = kill_process_group(program, signal);
            }
        };
        let mut order = [0];
        while orders.read_exact(&mut order).is_ok() {
            if order == [INTERRUPT] {
                signal(Signal::INT);
            }
        }
        signal(Signal::KILL);
    });
    let code = wait_for_exit(program)?;
    *running.lock().unwrap_or_else(PoisonError::into_inner) = false;
    let _ = kill_process_group(program, Signal::KILL);
    kill_descendants();
    Ok(code)
}

/// Waits for the exit code of the program. The program remains to be reaped.
fn wait_for_exit(program: Pid) -> io::Result<u8> {
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(program), options) {
            Ok(Some(status)) => {
                let signal = status.terminating_signal().map(|signal| BY_SIGNAL + signal);
                let code = status.exit_status().or(signal).unwrap_or_default();
                return Ok(u8::try_from(code).unwrap_or(u8::MAX));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills children until there are none. When a child dies, its children become children of this
/// process, and its process id is not reused before it is reaped here.
fn kill_descendants() {
    let until = Instant::now() + PATIENCE;
    loop {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => break,
                // There are no children.
                Err(_) => return,
            }
        }
        kill_children();
        if Instant::now() > until {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(target_os = "linux")]
fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

#[cfg(not(target_os = "linux"))]
fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// Makes this process go on when its parent dies, if the program has stopped it: the end of the
/// orders is seen only then.
#[cfg(target_os = "linux")]
fn wake_behind_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::CONT));
}

#[cfg(not(target_os = "linux"))]
fn wake_behind_parent() {}

#[cfg(target_os = "linux")]
fn kill_children() {
    let me = rustix::process::getpid();
    for (id, parent, _) in list_processes() {
        if parent == me {
            let _ = rustix::process::kill_process(id, Signal::KILL);
        }
    }
}

/// Kills the processes below one. Returns true if there were any.
#[cfg(target_os = "linux")]
fn kill_below(top: Pid) -> bool {
    let processes = list_processes();
    let mut below = vec![top];
    let mut at = 0;
    while let Some(parent) = below.get(at).copied() {
        below.extend(processes.iter().filter(|(_, of, _)| *of == parent).map(|(id, ..)| *id));
        at += 1;
    }
    let lives = |id: &Pid| processes.iter().any(|(of, _, dead)| of == id && !dead);
    let killed = below.iter().skip(1).filter(|id| lives(id)).map(|id| {
        let _ = rustix::process::kill_process(*id, Signal::KILL);
    });
    killed.count() > 0
}

#[cfg(not(target_os = "linux"))]
fn kill_below(_: Pid) -> bool {
    false
}

/// Returns all processes, each with its parent, and true for one that is dead and not reaped.
#[cfg(target_os = "linux")]
fn list_processes() -> Vec<(Pid, Pid, bool)> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let read = |process: std::fs::DirEntry| {
        let name = process.file_name();
        let id = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)?;
        let stat = std::fs::read(process.path().join("stat")).ok()?;
        let (parent, dead) = parse_stat(&stat)?;
        Some((id, parent, dead))
    };
    processes.flatten().filter_map(read).collect()
}

/// Does nothing: the program's group has been killed, and other descendants are unknown.
#[cfg(not(target_os = "linux"))]
fn kill_children() {}

/// Returns the parent in `/proc/PID/stat`, and true for a process that is dead: the second word and
/// the first one behind the name, which may contain anything.
#[cfg(target_os = "linux")]
fn parse_stat(stat: &[u8]) -> Option<(Pid, bool)> {
    let behind = stat.get(stat.iter().rposition(|byte| *byte == b')')? + 1..)?;
    let mut words = std::str::from_utf8(behind).ok()?.split_ascii_whitespace();
    let dead = matches!(words.next()?, "Z" | "X");
    Some((Pid::from_raw(words.next()?.parse().ok()?)?, dead))
}
