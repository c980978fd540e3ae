//! One JSON-RPC message a line, over a pair of pipes: bounded, and never silent about what is
//! wrong. `rmcp`'s own transport drops lines that are too long, so that a call waits in vain.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The longest message, in bytes.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// Why nothing more is read, for whoever waits for an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Why(Arc<Mutex<Option<String>>>);

impl Why {
    /// The reason, where there is one besides the end of the stream.
    pub(super) fn said(&self) -> Option<String> {
        self.0.lock().ok()?.clone()
    }

    fn say(&self, why: String) {
        if let Ok(mut said) = self.0.lock() {
            said.get_or_insert(why);
        }
    }
}

/// A transport over pipes.
pub(super) struct Lines<R, W> {
    reader: BufReader<R>,
    writer: Arc<tokio::sync::Mutex<Option<W>>>,
    line: Vec<u8>,
    why: Why,
    /// Cancelled when nothing more comes.
    ended: CancellationToken,
    /// Whether what cannot be read is answered: a server does, a client does not.
    answers: bool,
    /// The refusal that is being written; nothing more is read before it is.
    refusing: Option<JoinHandle<()>>,
    /// The requests that are to be answered yet.
    open: Open,
}

/// Ids of requests under way. Of two with one id, `rmcp` answers one.
#[derive(Clone, Debug, Default)]
struct Open(Arc<Mutex<HashSet<RequestId>>>);

impl Open {
    /// Whether there is none of this id; then there is one.
    fn begin(&self, id: &RequestId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone())
    }

    fn end(&self, id: &RequestId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// What a request is told whose id another one has.
pub(super) const SAME_ID: &str = "a request with this id is under way";

/// A line, or why there is none.
enum Read {
    Line,
    End,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Lines<R, W> {
    /// Over these pipes; `ended` is cancelled when nothing more comes.
    pub(super) fn new(reader: R, writer: W, ended: CancellationToken, answers: bool) -> Self {
        Self {
            reader: BufReader::new(reader),
            writer: Arc::new(tokio::sync::Mutex::new(Some(writer))),
            line: Vec::new(),
            why: Why::default(),
            ended,
            answers,
            refusing: None,
            open: Open::default(),
        }
    }

    /// Where it will stand why nothing more is read.
    pub(super) fn why(&self) -> Why {
        self.why.clone()
    }

    /// Writes a refusal.
    fn refuse(&mut self, refusal: Vec<u8>) {
        // What waits for it may be dropped at any time: it is written by a task.
        let writer = Arc::clone(&self.writer);
        self.refusing = Some(tokio::spawn(async move {
            // Whoever does not read will be found out by the next message.
            let _ = write(&writer, refusal).await;
        }));
    }

    /// Reads on to the end of a line. May be dropped and called again.
    async fn read(&mut self) -> Read {
        loop {
            let available = match self.reader.fill_buf().await {
                Ok([]) => return Read::End,
                Ok(available) => available,
                Err(error) => {
                    self.why.say(format!("its output cannot be read: {error}"));
                    return Read::End;
                }
            };
            let end = memchr::memchr(b'\n', available);
            let taken = end.map_or(available.len(), |at| at + 1);
            if self.line.len() + taken > MAX_MESSAGE {
                self.why.say(format!("it sent a message of more than {} MiB", MAX_MESSAGE >> 20));
                return Read::End;
            }
            self.line.extend_from_slice(available.get(..taken).unwrap_or_default());
            self.reader.consume(taken);
            if end.is_some() {
                return Read::Line;
            }
        }
    }
}

/// The answer to what cannot be read, with the id that it has, if any.
fn refusal(code: i64, message: &str, id: Value) -> Vec<u8> {
    let error = serde_json::json!({
        "jsonrpc": "2.0",
        "id": id,
        "error": {"code": code, "message": message},
    });
    format!("{error}\n").into_bytes()
}

async fn write<W: AsyncWrite + Unpin>(
    writer: &tokio::sync::Mutex<Option<W>>,
    bytes: Vec<u8>,
) -> io::Result<()> {
    let mut writer = writer.lock().await;
    let Some(writer) = writer.as_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
    writer.write_all(&bytes).await?;
    writer.flush().await
}

impl<Role, R, W> Transport<Role> for Lines<R, W>
where
    Role: ServiceRole,
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<Role>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let writer = Arc::clone(&self.writer);
        let bytes = serde_json::to_vec(&item);
        let answered = match item {
            JsonRpcMessage::Response(response) => Some(response.id),
            JsonRpcMessage::Error(error) => error.id,
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = answered {
            self.open.end(&id);
        }
        async move {
            let mut bytes = bytes?;
            bytes.push(b'\n');
            write(&writer, bytes).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<Role>> {
        loop {
            if let Some(refusing) = self.refusing.as_mut() {
                let _ = refusing.await;
                self.refusing = None;
            }
            // What stands behind the last line's end is a line, too, unless it was given up.
            if matches!(self.read().await, Read::End)
                && (self.line.is_empty() || self.why.said().is_some())
            {
                self.ended.cancel();
                return None;
            }
            let line = std::mem::take(&mut self.line);
            if line.trim_ascii().is_empty() {
                continue;
            }
            if let Ok(message) = serde_json::from_slice::<RxJsonRpcMessage<Role>>(&line) {
                match &message {
                    JsonRpcMessage::Request(request)
                        if self.answers && !self.open.begin(&request.id) =>
                    {
                        let id = serde_json::to_value(&request.id).unwrap_or_default();
                        self.refuse(refusal(-32600, SAME_ID, id));
                        continue;
                    }
                    _ => {}
                }
                return Some(message);
            }
            // Some servers print words where only messages belong; they are passed over.
            if !self.answers {
                continue;
            }
            let refusal = match serde_json::from_slice::<Value>(&line) {
                Err(error) => refusal(-32700, &format!("Parse error: {error}"), Value::Null),
                Ok(value) => match value.get("id") {
                    Some(id) => refusal(-32600, "Invalid request", id.clone()),
                    // A notification that is not known is not answered.
                    None if value.is_object() => continue,
                    None => refusal(-32600, "Invalid request", Value::Null),
                },
            };
            self.refuse(refusal);
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        drop(self.writer.lock().await.take());
        Ok(())
    }
}
