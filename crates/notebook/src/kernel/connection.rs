//! The connection to one kernel: requests on `shell` and `control`, messages on `iopub`, and which
//! of them belong to the current run.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::time::Duration;

use jupyter_protocol::connection_info::ConnectionInfo;
use serde_json::{Value, json};
use softland_agent::tools::BackgroundProgram;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use zeromq::{
    DealerRecvHalf, DealerSendHalf, DealerSocket, Socket as _, SocketRecv, SocketSend as _,
    SubSocket, ZmqError, ZmqResult,
};

use super::signed::{JupyterMessage, SigningKey, encode_hex};
use super::{KernelCommand, KernelEvent, heartbeat, messages};

/// The pause between requests to a kernel that has not answered yet.
const AGAIN: Duration = Duration::from_millis(250);

/// The longest time to wait for the end of outputs once a run has been replied to.
const OUTPUT_WAIT: Duration = Duration::from_secs(10);

/// The longest time that a kernel may take to end after a shutdown request.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(1);

/// The time without a message after which a kernel that has ended is done.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The number of ended runs whose outputs are still taken: a cell's threads may go on.
const REMEMBERED: usize = 256;

/// The number of messages that may wait.
const WAITING: usize = 4096;

/// The kind of socket on which a message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageSource {
    Reply,
    Published,
}

/// A kernel's sockets.
pub(super) struct KernelConnection {
    key: SigningKey,
    session: String,
    asked: u64,
    /// The newest runs that have ended: the id of each request, and the run.
    ended: VecDeque<(String, u64)>,
    shell: DealerSendHalf,
    control: DealerSendHalf,
    received: mpsc::Receiver<(MessageSource, JupyterMessage)>,
    /// The time for which the kernel has not answered, if that is too long.
    silent: watch::Receiver<Option<Duration>>,
    /// The tasks that read the sockets; they end with this value.
    _readers: JoinSet<()>,
}

/// The run that the kernel has.
#[derive(Debug)]
struct CurrentRun {
    run: u64,
    id: String,
    /// The reply: true without an error, and the execution count.
    reply: Option<(bool, Option<u64>)>,
    /// True if all outputs have been received.
    idle: bool,
    /// The error in the reply: not every kernel sends it on `iopub` as well.
    reply_error: Option<Value>,
    /// True if an error came on `iopub`.
    errored: bool,
    /// True if the user knows that the kernel cannot be interrupted.
    refused: bool,
    /// The time until which the end of the outputs is waited for.
    until: Option<Instant>,
}

impl KernelConnection {
    pub(super) async fn connect(info: &ConnectionInfo, silence: Duration) -> ZmqResult<Self> {
        let key = SigningKey::new(&info.key);
        let (sender, received) = mpsc::channel(WAITING);
        let mut readers = JoinSet::new();
        let mut iopub = SubSocket::new();
        iopub.subscribe("").await?;
        iopub.connect(&info.iopub_url()).await?;
        readers.spawn(forward_messages(
            iopub,
            key.clone(),
            MessageSource::Published,
            sender.clone(),
        ));
        let (shell, replies) = connect_dealer(&info.shell_url()).await?;
        readers.spawn(forward_messages(replies, key.clone(), MessageSource::Reply, sender.clone()));
        let (control, replies) = connect_dealer(&info.control_url()).await?;
        readers.spawn(forward_messages(replies, key.clone(), MessageSource::Reply, sender));
        let (quiet, silent) = watch::channel(None);
        readers.spawn(heartbeat::watch_heartbeat(info.hb_url(), silence, quiet));
        let mut session = [0; 16];
        let random = ring::rand::SystemRandom::new();
        ring::rand::SecureRandom::fill(&random, &mut session)
            .map_err(|_| ZmqError::Other("no random numbers"))?;
        let session = encode_hex(&session);
        let ended = VecDeque::new();
        Ok(Self {
            key,
            session,
            asked: 0,
            ended,
            shell,
            control,
            received,
            silent,
            _readers: readers,
        })
    }

    /// Sends requests until the kernel has answered and sends on `iopub`, too: messages before a
    /// subscription takes effect are lost.
    ///
    /// # Errors
    /// The kernel cannot be asked. Without an answer, this does not return.
    pub(super) async fn wait_for_answer(&mut self) -> Result<(), String> {
        let (mut replied, mut published) = (false, false);
        while !(replied && published) {
            let id = self.next_id();
            let asked = JupyterMessage::new(&self.session, &id, "kernel_info_request", json!({}));
            self.shell
                .send(self.key.sign_message(&asked))
                .await
                .map_err(|error| error.to_string())?;
            let until = Instant::now() + AGAIN;
            while !(replied && published) {
                let next = tokio::time::timeout_at(until, self.received.recv());
                match next.await {
                    Ok(Some((MessageSource::Reply, message))) => {
                        replied |= message.kind() == "kernel_info_reply";
                    }
                    Ok(Some((MessageSource::Published, _))) => published = true,
                    Ok(None) => return Err("its sockets are closed".to_owned()),
                    Err(_) => break,
                }
            }
        }
        Ok(())
    }

    /// Forwards commands and reports events, until the commands or the kernel end.
    pub(super) async fn run_loop(
        mut self,
        mut program: BackgroundProgram,
        by_message: bool,
        mut orders: mpsc::UnboundedReceiver<KernelCommand>,
        tell: mpsc::Sender<KernelEvent>,
    ) {
        let mut current: Option<CurrentRun> = None;
        loop {
            let until = current.as_ref().and_then(|current| current.until);
            tokio::select! {
                order = orders.recv() => match order {
                    None => return self.shut_down(program).await,
                    Some(KernelCommand::Run(run, code)) => current = self.run_code(run, code).await,
                    Some(KernelCommand::Interrupt) if by_message => {
                        let id = self.next_id();
                        let asked = JupyterMessage::new(&self.session, &id, "interrupt_request", json!({}));
                        // If it cannot be asked, the kernel has ended.
                        let _ = self.control.send(self.key.sign_message(&asked)).await;
                    }
                    Some(KernelCommand::Interrupt) => {
                        let refused = program.interrupt().await.err();
                        let refused = refused.filter(|e| e.kind() == ErrorKind::Unsupported);
                        if let Some((error, run)) = refused.zip(current.as_mut()) {
                            run.refuse_interrupt(&error.to_string(), &tell).await;
                        }
                    }
                },
                Some((source, message)) = self.received.recv() => {
                    match &mut current {
                        Some(run) if run.id == message.parent_id() => {
                            run.take_message(source, &message, &tell).await;
                        }
                        _ => self.take_late_message(source, &message, &tell).await,
                    }
                }
                Ok(()) = self.silent.changed() => {
                    let silent = *self.silent.borrow_and_update();
                    let _ = tell.send(KernelEvent::Silent(silent)).await;
                }
                how = program.wait_until_ended() => {
                    return self.report_death(current, how, &tell).await;
                }
                () = tokio::time::sleep_until(until.unwrap_or_else(Instant::now)),
                    if until.is_some() =>
                {
                    if let Some(run) = &mut current {
                        run.idle = true;
                    }
                }
            }
            if let Some(run) = current.take_if(|run| run.idle && run.reply.is_some()) {
                self.remember_ended(&run);
                run.end_run(&tell).await;
            }
        }
    }

    async fn run_code(&mut self, run: u64, code: String) -> Option<CurrentRun> {
        let id = self.next_id();
        let content = json!({
            "code": code,
            "silent": false,
            "store_history": true,
            "user_expressions": {},
            // Nobody could answer: the kernel refuses `input()` with an error that says so.
            "allow_stdin": false,
            "stop_on_error": false,
        });
        let asked = JupyterMessage::new(&self.session, &id, "execute_request", content);
        // If it cannot be asked, the kernel has ended, which is reported.
        let _ = self.shell.send(self.key.sign_message(&asked)).await;
        let (reply, reply_error, until) = (None, None, None);
        let (idle, errored, refused) = (false, false, false);
        Some(CurrentRun { run, id, reply, idle, reply_error, errored, refused, until })
    }

    fn remember_ended(&mut self, run: &CurrentRun) {
        if self.ended.len() == REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back((run.id.clone(), run.run));
    }

    /// Takes the output of a run that has ended, such as that of a thread which goes on.
    async fn take_late_message(
        &self,
        source: MessageSource,
        message: &JupyterMessage,
        tell: &mpsc::Sender<KernelEvent>,
    ) {
        let output = source == MessageSource::Published && message.kind() != "execute_input";
        let run = self.ended.iter().find(|(id, _)| output && id == message.parent_id());
        let event = run.and_then(|(_, run)| messages::event_from_message(message, *run));
        if let Some(event) = event {
            let _ = tell.send(event).await;
        }
    }

    /// Handles a kernel that has ended: takes its remaining messages, then reports its end.
    async fn report_death(
        &mut self,
        mut current: Option<CurrentRun>,
        how: String,
        tell: &mpsc::Sender<KernelEvent>,
    ) {
        while let Ok(Some((source, message))) =
            tokio::time::timeout(LAST_WORDS, self.received.recv()).await
        {
            if let Some(run) = &mut current {
                run.take_message(source, &message, tell).await;
            }
        }
        if let Some(run) = current {
            run.end_run(tell).await;
        }
        let _ = tell.send(KernelEvent::Dead(how)).await;
    }

    /// Asks the kernel to end, and ends it.
    async fn shut_down(mut self, mut program: BackgroundProgram) {
        let id = self.next_id();
        let content = json!({ "restart": false });
        let asked = JupyterMessage::new(&self.session, &id, "shutdown_request", content);
        if self.control.send(self.key.sign_message(&asked)).await.is_ok() {
            let _ = tokio::time::timeout(SHUTDOWN_WAIT, program.wait_until_ended()).await;
        }
    }

    fn next_id(&mut self) -> String {
        self.asked += 1;
        format!("{}_{}", self.session, self.asked)
    }
}

impl CurrentRun {
    /// Tells once, in the cell's output, why the run goes on.
    async fn refuse_interrupt(&mut self, why: &str, tell: &mpsc::Sender<KernelEvent>) {
        if !std::mem::replace(&mut self.refused, true) {
            let text = format!("{why}: restart the kernel to end this cell\n");
            let _ = tell.send(KernelEvent::Text(self.run, "stderr".to_owned(), text)).await;
        }
    }

    async fn take_message(
        &mut self,
        source: MessageSource,
        message: &JupyterMessage,
        tell: &mpsc::Sender<KernelEvent>,
    ) {
        if message.parent_id() != self.id {
            return;
        }
        match (source, message.kind()) {
            (MessageSource::Reply, "execute_reply") => {
                let content = &message.content;
                for page in messages::page_outputs(content) {
                    let _ = tell.send(KernelEvent::Output(self.run, page, None)).await;
                }
                let ok = content.get("status").and_then(Value::as_str) == Some("ok");
                self.reply_error = (!ok).then(|| messages::reply_error(content));
                self.reply = Some((ok, messages::read_count(content)));
                self.until = Some(Instant::now() + OUTPUT_WAIT);
            }
            (MessageSource::Published, "status") => {
                self.idle |= message.content["execution_state"] == "idle";
            }
            (MessageSource::Published, kind) => {
                self.errored |= kind == "error";
                if let Some(event) = messages::event_from_message(message, self.run) {
                    let _ = tell.send(event).await;
                }
            }
            (MessageSource::Reply, _) => {}
        }
    }

    /// Ends the run, if it was replied to. Its error is among its outputs, wherever it was sent.
    async fn end_run(self, tell: &mpsc::Sender<KernelEvent>) {
        let Some((ok, count)) = self.reply else { return };
        if let Some(error) = self.reply_error.filter(|_| !self.errored) {
            let _ = tell.send(KernelEvent::Output(self.run, error, None)).await;
        }
        let _ = tell.send(KernelEvent::Ended(self.run, ok, count)).await;
    }
}

async fn connect_dealer(url: &str) -> ZmqResult<(DealerSendHalf, DealerRecvHalf)> {
    let mut socket = DealerSocket::new();
    socket.connect(url).await?;
    Ok(socket.split())
}

/// Forwards the messages of a socket. Messages that are not signed with the key are not the
/// kernel's.
async fn forward_messages(
    mut socket: impl SocketRecv + Send,
    key: SigningKey,
    source: MessageSource,
    sender: mpsc::Sender<(MessageSource, JupyterMessage)>,
) {
    loop {
        match socket.recv().await {
            Ok(frames) => {
                if let Some(message) = key.verify_message(frames)
                    && sender.send((source, message)).await.is_err()
                {
                    return;
                }
            }
            // The peer is gone for now. The process tells whether the kernel still lives.
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}
