//! Servers of a test's own: `softland sim` and `softland serve` as processes on free ports, ended
//! with the test, and a plain HTTP client for them.

#![expect(clippy::panic, reason = "what goes wrong here fails the test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::{SECRET, softland};

/// The most time for any step before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server as a process.
pub(crate) struct Server {
    child: Child,
    /// `HOST:PORT`.
    pub(crate) address: String,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Server {
    /// `softland sim` with that scenario.
    pub(crate) fn sim(scenario: &str) -> Self {
        let mut command = softland();
        command.args(["sim", "--listen", "127.0.0.1:0", "--scenario", scenario]);
        Self::start(&mut command)
    }

    /// `softland serve` in a folder, which is the state folder's parent, too, on a free port.
    pub(crate) fn serve(folder: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = softland();
        command.current_dir(folder).args(["serve", "--listen", "127.0.0.1:0"]).args(flags);
        command.env("XDG_STATE_HOME", folder).envs(variables.iter().copied());
        Self::start(&mut command)
    }

    /// A command that says where it listens.
    pub(crate) fn start(command: &mut std::process::Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    return;
                }
            }
        });
        let mut server = Self { child, address: String::new(), lines, said: Vec::new() };
        let line = server.until("listening on http://");
        let address = line.split("http://").nth(1).unwrap();
        server.address = address.split_whitespace().next().unwrap().to_owned();
        server
    }

    /// Its address as a base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for a line of standard error that holds this text.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no `{text}` in:\n{}", self.said.join("\n"))
                }
            }
        }
    }

    /// Sends it a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        super::kill(self.child.id(), name);
    }

    /// Returns true if the server still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end, and returns the exit status and the whole output.
    #[track_caller]
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.said.join("\n"));
            std::thread::sleep(Duration::from_millis(5));
        };
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.said.push(line);
        }
        (status, self.said.join("\n"))
    }

    /// Sends a request for a model's turn and leaves the response to be read.
    pub(crate) fn ask(&self, model: &str, stream: bool) -> TcpStream {
        self.ask_with(model, stream, "")
    }

    /// Sends the request of an agent: it has a tool, so that it begins a run.
    pub(crate) fn ask_as_agent(&self, model: &str, stream: bool) -> TcpStream {
        let tool = "\"tools\":[{\"name\":\"list_dir\",\"input_schema\":{\"type\":\"object\",\
            \"properties\":{\"path\":{\"type\":\"string\"}}}}],";
        self.ask_with(model, stream, tool)
    }

    fn ask_with(&self, model: &str, stream: bool, members: &str) -> TcpStream {
        let body = format!(
            "{{\"model\":\"{model}\",\"max_tokens\":1000,\"stream\":{stream},{members}\
             \"messages\":[{{\"role\":\"user\",\"content\":\"What did we decide about \
             pricing?\"}}]}}"
        );
        self.send(&format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {}\r\nx-api-key: {SECRET}\r\n\
             anthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        ))
    }

    /// The status of `GET PATH` under that name.
    pub(crate) fn status(&self, path: &str, host: &str) -> u16 {
        status(&self.address, path, host)
    }

    /// The response to `GET PATH`.
    pub(crate) fn get(&self, path: &str) -> String {
        rest(self.open(path))
    }

    /// Sends `GET PATH` and leaves the response to be read.
    pub(crate) fn open(&self, path: &str) -> TcpStream {
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            self.address
        ))
    }

    fn send(&self, request: &str) -> TcpStream {
        send(&self.address, request)
    }
}

/// The status of `GET PATH` at an address.
pub(crate) fn status_at(address: &str, path: &str) -> u16 {
    status(address, path, address)
}

fn status(address: &str, path: &str, host: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    let text = rest(send(address, &request));
    text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
}

fn send(address: &str, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads until the text was there.
#[track_caller]
pub(crate) fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let (mut read, mut buffer) = (String::new(), [0; 1024]);
    while !read.contains(text) {
        let size = stream.read(&mut buffer).unwrap();
        assert!(size > 0, "no `{text}` in:\n{read}");
        read.push_str(&String::from_utf8_lossy(&buffer[..size]));
    }
    read
}

/// All that is left, to the end of the connection.
pub(crate) fn rest(mut stream: TcpStream) -> String {
    let mut read = Vec::new();
    // A connection that is cut ends here, too; the received bytes count.
    let _ = stream.read_to_end(&mut read);
    String::from_utf8_lossy(&read).into_owned()
}
