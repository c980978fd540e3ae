//! Real kernels: programs that speak Jupyter's protocol over ZeroMQ.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jupyter_protocol::connection_info::{ConnectionInfo, Transport};
use ring::rand::SecureRandom as _;
use softland_agent::tools::{BackgroundProgram, ProgramRunner};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::connection::KernelConnection;
use super::signed::encode_hex;
use super::specs::{self, KernelSpec};
use super::{KernelHandle, KernelRequest, KernelStarter};
use crate::platform::make_private;

/// The longest time that a kernel may take until it answers.
const START: Duration = Duration::from_secs(60);

/// The pause between checks whether the kernel listens.
const PAUSE: Duration = Duration::from_millis(25);

/// The number of attempts if another program took one of the ports.
const TRIES: usize = 3;

/// The number of events that a notebook may be behind.
const EVENTS: usize = 1024;

/// Starts the kernels that are installed on this machine.
#[derive(Debug)]
pub(crate) struct JupyterStarter {
    programs: ProgramRunner,
    /// The folder of connection files. Only their owner may read them, and each is removed with its
    /// kernel.
    folder: PathBuf,
    /// The prefix of these files' names, which no other notebook uses.
    key: String,
    started: AtomicU64,
}

#[async_trait]
impl KernelStarter for JupyterStarter {
    async fn start_kernel(&self, wanted: KernelRequest) -> Result<KernelHandle, String> {
        let spec = find_spec(&self.programs, wanted.name.as_deref())?;
        let mut why = String::new();
        for _ in 0..TRIES {
            match self.try_start(&spec, &wanted).await {
                Ok(link) => return Ok(link),
                Err(error) => why = error,
            }
            if !why.contains("Address already in use") {
                break;
            }
        }
        Err(format!("the kernel `{}` cannot be started: {why}", spec.name))
    }
}

fn find_spec(programs: &ProgramRunner, name: Option<&str>) -> Result<KernelSpec, String> {
    let variables: Vec<_> = programs.environment().collect();
    let env = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.to_string_lossy().into_owned())
    };
    specs::find_spec(name, &env)
}

impl JupyterStarter {
    /// Creates a starter for the notebook of this `key`.
    pub(crate) fn new(programs: ProgramRunner, folder: PathBuf, key: String) -> Self {
        Self { programs, folder, key, started: AtomicU64::new(0) }
    }

    /// Checks that there is a kernel of this name.
    ///
    /// # Errors
    /// Returns the list of existing kernels.
    pub(crate) fn check_kernel(programs: &ProgramRunner, name: &str) -> Result<(), String> {
        find_spec(programs, Some(name)).map(|_| ())
    }

    /// Returns the path of the next kernel's file. Removes files of kernels that were killed with
    /// their softland.
    fn next_path(&self) -> PathBuf {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let begin = format!("{}-kernel-", self.key);
        if number == 0 {
            let files = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
            let ours = files.filter(|file| file.file_name().to_string_lossy().starts_with(&begin));
            for file in ours {
                let _ = std::fs::remove_file(file.path());
            }
        }
        self.folder.join(format!("{begin}{number}.json"))
    }

    async fn try_start(
        &self,
        spec: &KernelSpec,
        wanted: &KernelRequest,
    ) -> Result<KernelHandle, String> {
        let io = |error: std::io::Error| error.to_string();
        let info = choose_connection(&spec.name).await.map_err(io)?;
        let file = ConnectionFile(self.next_path());
        file.write_info(&info).map_err(io)?;
        let command = spec.build_command(&file.0);
        let environment = spec.environment.iter().map(|(name, value)| (name.into(), value.into()));
        let program = self.programs.start_background(&wanted.folder, command, environment).await;
        let mut program = program.map_err(io)?;
        let started = tokio::select! {
            talk = tokio::time::timeout(START, wait_until_ready(&info, wanted.silence)) => talk.unwrap_or_else(|_| {
                Err(format!("it did not answer within {} s", START.as_secs()))
            }),
            how = program.wait_until_ended() => Err(how),
        };
        let talk = started.map_err(|why| describe_failure(&why, &program))?;
        let (orders, heard) = mpsc::unbounded_channel();
        let (tell, events) = mpsc::channel(EVENTS);
        let by_message = spec.by_message;
        tokio::spawn(async move {
            let _file = file;
            talk.run_loop(program, by_message, heard, tell).await;
        });
        Ok(KernelHandle { name: spec.name.clone(), orders, events })
    }
}

/// A connection file, which is removed when the value is dropped.
struct ConnectionFile(PathBuf);

impl ConnectionFile {
    /// Writes the file. Only its owner may read the key.
    fn write_info(&self, info: &ConnectionInfo) -> std::io::Result<()> {
        if let Some(folder) = self.0.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut options = std::fs::OpenOptions::new();
        let options = options.write(true).create_new(true);
        let mut file = make_private(options).open(&self.0)?;
        file.write_all(&serde_json::to_vec(info)?)
    }
}

impl Drop for ConnectionFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Chooses five free ports and a key.
async fn choose_connection(name: &str) -> std::io::Result<ConnectionInfo> {
    let mut listeners = Vec::new();
    let mut ports = [0; 5];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        *port = listener.local_addr()?.port();
        // All are bound at the same time, so that the five differ.
        listeners.push(listener);
    }
    let mut key = [0; 32];
    let random = ring::rand::SystemRandom::new();
    random.fill(&mut key).map_err(|_| std::io::Error::other("no random numbers"))?;
    let [shell_port, iopub_port, stdin_port, control_port, hb_port] = ports;
    Ok(ConnectionInfo {
        ip: "127.0.0.1".to_owned(),
        transport: Transport::TCP,
        shell_port,
        iopub_port,
        stdin_port,
        control_port,
        hb_port,
        key: encode_hex(&key),
        signature_scheme: "hmac-sha256".to_owned(),
        kernel_name: Some(name.to_owned()),
    })
}

/// Waits until a kernel listens and answers.
async fn wait_until_ready(
    info: &ConnectionInfo,
    silence: Duration,
) -> Result<KernelConnection, String> {
    for port in [info.shell_port, info.iopub_port, info.control_port] {
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    let mut talk =
        KernelConnection::connect(info, silence).await.map_err(|error| format!("{error}"))?;
    talk.wait_for_answer().await?;
    Ok(talk)
}

fn describe_failure(how: &str, program: &BackgroundProgram) -> String {
    let words = program.last_output();
    let hint = if words.contains("No module named ipykernel") {
        "; `python3 -m pip install ipykernel` installs what is missing"
    } else {
        ""
    };
    let line = words.lines().last().unwrap_or("it said nothing");
    format!("{how}: {}{hint}", softland_agent::tool::cut_middle(line, 400))
}
