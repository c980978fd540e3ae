//! Runs the real binary, in an environment of its own, and fakes providers on the loopback.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

pub(crate) mod mcp;
pub(crate) mod server;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The repository's root.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The example folder of notes.
pub(crate) fn notes() -> PathBuf {
    repository().join("examples/notes")
}

/// The example agent.
pub(crate) fn analyst() -> PathBuf {
    repository().join("examples/analyst.md")
}

/// The binary with a cleared environment, but for where runs are kept.
pub(crate) fn softland() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softland"));
    command.env_clear().env("XDG_STATE_HOME", state()).stdin(Stdio::null());
    command
}

/// The state folder of the tests.
pub(crate) fn state() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("state")
}

/// The output of a command, and its exit status.
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: Option<i32>,
}

impl Said {
    fn of(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            status: output.status.code(),
        }
    }

    /// Asserts the exit status, and shows the whole output if it differs.
    #[track_caller]
    pub(crate) fn status(self, wanted: i32) -> Self {
        assert_eq!(self.status, Some(wanted), "{}\n---\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts what standard error holds.
    #[track_caller]
    pub(crate) fn says(self, wanted: &str) -> Self {
        assert!(self.stderr.contains(wanted), "no `{wanted}` in:\n{}", self.stderr);
        self
    }

    /// Standard output as events.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Runs with these arguments.
pub(crate) fn said(args: &[&str]) -> Said {
    Said::of(softland().args(args).output().unwrap())
}

/// Runs a prepared command.
pub(crate) fn said_by(command: &mut Command) -> Said {
    Said::of(command.output().unwrap())
}

/// Runs with these arguments and this standard input.
pub(crate) fn said_with_input(args: &[&str], input: &[u8]) -> Said {
    let mut command = softland();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that refuses before it reads closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(input);
    Said::of(child.wait_with_output().unwrap())
}

/// Runs the example agent on the example notes.
pub(crate) fn run(prompt: &str, flags: &[&str]) -> Said {
    said_by(softland().arg("run").arg(analyst()).arg(prompt).arg("--root").arg(notes()).args(flags))
}

/// A provider that answers every request with the same bytes and closes the connection.
pub(crate) struct Provider {
    pub(crate) url: String,
}

impl Provider {
    /// Creates a provider whose responses are these bytes.
    pub(crate) fn raw(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &response);
            }
        });
        Self { url }
    }

    /// Creates a provider that answers before it has read anything.
    pub(crate) fn rash(response: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(response.as_bytes());
            }
        });
        Self { url }
    }

    /// Creates a provider that refuses with a status, in the provider's format.
    pub(crate) fn refusing(status: u16, kind: &str) -> Self {
        Self::refusing_with(status, kind, "as the test wants it")
    }

    /// Creates a provider that refuses every request with this message.
    pub(crate) fn refusing_with(status: u16, kind: &str, message: &str) -> Self {
        let body = format!(
            "{{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"{message}\"}}}}"
        );
        Self::raw(format!(
            "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\nretry-after: 0\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ))
    }

    /// Runs the example agent against it, with a key that must show nowhere.
    pub(crate) fn asked(&self) -> Said {
        let said = said_by(
            softland()
                .env("ANTHROPIC_API_KEY", SECRET)
                .arg("run")
                .arg(analyst())
                .args(["hello", "--model", "anthropic/claude-sonnet-5-5", "--base-url", &self.url])
                .arg("--root")
                .arg(notes()),
        );
        assert!(!said.stdout.contains(SECRET) && !said.stderr.contains(SECRET));
        said
    }
}

/// A key.
pub(crate) const SECRET: &str = "sk-test-7c1f0a9e";

fn answer(mut stream: TcpStream, response: &[u8]) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !is_whole(&request) {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(size) => request.extend_from_slice(&buffer[..size]),
        }
    }
    let _ = stream.write_all(response);
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    body.len() >= length.unwrap_or(0)
}

/// Sends a signal by its name; a process that is gone hears nothing.
pub(crate) fn kill(process: u32, signal: &str) {
    let line = format!("kill -s {signal} {process}");
    Command::new("sh").args(["-c", &line]).output().unwrap();
}

/// Writes a file into a folder and returns its path as text.
pub(crate) fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}
