//! The supervisor of one program: a process that outlives the program and kills what it leaves
//! behind.
//!
//! On Linux the supervisor is the reaper of all descendants of the program. No group, session or
//! double fork escapes it. On other systems it kills the program's process group. It cannot end
//! processes of another user (`sudo`) or processes that a service was asked to start
//! (`systemd-run`, `at`, a container daemon). A program that kills its supervisor first has
//! escaped.

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, wait, waitid,
};

use super::ProgramSpec;

/// The longest program spec, in bytes.
const MAX_ORDER: u64 = 64 * 1024 * 1024;

/// The time for killed processes to disappear.
const PATIENCE: Duration = Duration::from_secs(3);

/// The pause between checks whether killed processes have disappeared.
const PAUSE: Duration = Duration::from_millis(2);

/// The byte behind the program spec that asks for an interrupt. Other bytes mean nothing.
pub(super) const INTERRUPT: u8 = b'i';

/// The exit code of a supervisor that failed, or of a program that could not be run.
const NOT_RUN: u8 = 126;
/// The exit code of a program that does not exist.
const NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended a program, as shells do.
const BY_SIGNAL: i32 = 128;

/// Runs the program that the first line of `orders` describes, as a child of this process.
/// Interrupts it if `orders` asks for that, and ends it if `orders` ends first. Returns the exit
/// code, in the way of shells, once the program and everything that it started have ended. Only for
/// a process that does nothing else.
pub fn supervise_program(orders: impl Read + Send + 'static) -> u8 {
    let mut orders = BufReader::new(orders);
    match read_spec(&mut orders).and_then(|order| run_program(order, orders)) {
        Ok(code) => code,
        Err(error) => {
            // The output belongs to the program. The program would report its own failure there
            // too.
            let _ = writeln!(io::stderr(), "the command cannot be run: {error}");
            if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN }
        }
    }
}

fn read_spec(orders: &mut impl BufRead) -> io::Result<ProgramSpec> {
    let mut line = Vec::new();
    orders.take(MAX_ORDER).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}

fn run_program(order: ProgramSpec, orders: impl BufRead + Send + 'static) -> io::Result<u8> {
    use std::os::unix::process::CommandExt as _;

    // Starts a session without a terminal. Ctrl-C in the terminal is for the user of this process.
    // The program can neither write to the terminal behind the display nor wait for typed input. A
    // process that already leads a session has no terminal either.
    let _ = rustix::process::setsid();
    adopt_orphans()?;
    let (program, arguments) = order.program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(if order.input.is_some() { Stdio::piped() } else { Stdio::null() })
        // `kill 0` in a script must not reach the supervisor.
        .process_group(0)
        .spawn()?;
    let input = child.stdin.take().zip(order.input);
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
        for order in orders.bytes().map_while(Result::ok) {
            if order == INTERRUPT {
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

#[cfg(target_os = "linux")]
fn kill_children() {
    let me = rustix::process::getpid();
    let Ok(processes) = std::fs::read_dir("/proc") else { return };
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        let stat = std::fs::read(process.path().join("stat")).unwrap_or_default();
        if parse_parent(&stat) == Some(me) {
            let _ = rustix::process::kill_process(id, Signal::KILL);
        }
    }
}

/// Does nothing: the program's group has been killed, and other descendants are unknown.
#[cfg(not(target_os = "linux"))]
fn kill_children() {}

/// Returns the parent in `/proc/PID/stat`: the second word behind the name, which may contain
/// anything.
#[cfg(target_os = "linux")]
fn parse_parent(stat: &[u8]) -> Option<Pid> {
    let behind = stat.get(stat.iter().rposition(|byte| *byte == b')')? + 1..)?;
    let word = std::str::from_utf8(behind).ok()?.split_ascii_whitespace().nth(1)?;
    Pid::from_raw(word.parse().ok()?)
}
