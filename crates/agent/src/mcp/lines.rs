//! A transport of JSON-RPC messages, one a line, over a pair of pipes: bounded, and never silent
//! about errors. `rmcp`'s own transport drops lines that are too long, so that a call waits in
//! vain.

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

use super::odd;

/// The longest message, in bytes.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// The reason why nothing more is read, for callers that wait for an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct CloseReason(Arc<Mutex<Option<String>>>);

impl CloseReason {
    /// Returns the reason, unless it is just the end of the stream.
    pub(super) fn reason(&self) -> Option<String> {
        self.0.lock().ok()?.clone()
    }

    fn set_reason(&self, why: String) {
        if let Ok(mut said) = self.0.lock() {
            said.get_or_insert(why);
        }
    }
}

/// A transport over pipes.
pub(super) struct LineTransport<R, W> {
    reader: BufReader<R>,
    writer: Arc<tokio::sync::Mutex<Option<W>>>,
    line: Vec<u8>,
    why: CloseReason,
    /// Cancelled when nothing more comes.
    ended: CancellationToken,
    /// True if unreadable messages are answered, as by a server but not by a client.
    answers: bool,
    /// The refusal that is being written. Nothing more is read before that is done.
    refusing: Option<JoinHandle<()>>,
    /// The requests that are yet to be answered.
    open: OpenIds,
}

/// The ids of open requests. Of two requests with one id, `rmcp` answers only one.
#[derive(Clone, Debug, Default)]
struct OpenIds(Arc<Mutex<HashSet<RequestId>>>);

impl OpenIds {
    /// Adds an id. Returns false if a request with this id is open.
    fn add_id(&self, id: &RequestId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone())
    }

    fn remove_id(&self, id: &RequestId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// The message to a request with the id of another open request.
pub(super) const SAME_ID: &str = "a request with this id is under way";

/// The result of reading a line.
enum LineRead {
    Line,
    End,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> LineTransport<R, W> {
    /// Creates a transport over these pipes; `ended` is cancelled when nothing more comes.
    pub(super) fn new(reader: R, writer: W, ended: CancellationToken, answers: bool) -> Self {
        Self {
            reader: BufReader::new(reader),
            writer: Arc::new(tokio::sync::Mutex::new(Some(writer))),
            line: Vec::new(),
            why: CloseReason::default(),
            ended,
            answers,
            refusing: None,
            open: OpenIds::default(),
        }
    }

    /// Returns a handle to the reason why nothing more is read.
    pub(super) fn close_reason(&self) -> CloseReason {
        self.why.clone()
    }

    /// Starts to write a refusal.
    fn send_refusal(&mut self, refusal: Vec<u8>) {
        // The future that waits for the refusal may be dropped at any time, so a task writes it.
        let writer = Arc::clone(&self.writer);
        self.refusing = Some(tokio::spawn(async move {
            // A client that does not read is noticed with the next message.
            let _ = write_bytes(&writer, refusal).await;
        }));
    }

    /// Reads on to the end of a line. Cancel safe.
    async fn read_line(&mut self) -> LineRead {
        loop {
            let available = match self.reader.fill_buf().await {
                Ok([]) => return LineRead::End,
                Ok(available) => available,
                Err(error) => {
                    self.why.set_reason(format!("its output cannot be read: {error}"));
                    return LineRead::End;
                }
            };
            let end = memchr::memchr(b'\n', available);
            let taken = end.map_or(available.len(), |at| at + 1);
            if self.line.len() + taken > MAX_MESSAGE {
                self.why.set_reason(format!(
                    "it sent a message of more than {} MiB",
                    MAX_MESSAGE >> 20
                ));
                return LineRead::End;
            }
            self.line.extend_from_slice(available.get(..taken).unwrap_or_default());
            self.reader.consume(taken);
            if end.is_some() {
                return LineRead::Line;
            }
        }
    }
}

/// Returns the answer to an unreadable message, with the message's id if it has one.
fn error_line(code: i64, message: &str, id: Value) -> Vec<u8> {
    let error = serde_json::json!({
        "jsonrpc": "2.0",
        "id": id,
        "error": {"code": code, "message": message},
    });
    format!("{error}\n").into_bytes()
}

async fn write_bytes<W: AsyncWrite + Unpin>(
    writer: &tokio::sync::Mutex<Option<W>>,
    bytes: Vec<u8>,
) -> io::Result<()> {
    let mut writer = writer.lock().await;
    let Some(writer) = writer.as_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
    writer.write_all(&bytes).await?;
    writer.flush().await
}

impl<Role, R, W> Transport<Role> for LineTransport<R, W>
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
            self.open.remove_id(&id);
        }
        async move {
            let mut bytes = bytes?;
            bytes.push(b'\n');
            write_bytes(&writer, bytes).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<Role>> {
        loop {
            if let Some(refusing) = self.refusing.as_mut() {
                let _ = refusing.await;
                self.refusing = None;
            }
            // Text behind the last line end is a line too, unless reading was given up.
            if matches!(self.read_line().await, LineRead::End)
                && (self.line.is_empty() || self.why.reason().is_some())
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
                        if self.answers && !self.open.add_id(&request.id) =>
                    {
                        let id = serde_json::to_value(&request.id).unwrap_or_default();
                        self.send_refusal(error_line(-32600, SAME_ID, id));
                        continue;
                    }
                    _ => {}
                }
                return Some(message);
            }
            if !self.answers {
                // Some servers print text where only messages belong. A client skips it.
                let odd = odd::read_answer(&line).and_then(|odd| serde_json::from_value(odd).ok());
                match odd {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            let refusal = match serde_json::from_slice::<Value>(&line) {
                Err(error) => match odd::id_beside_half_a_character(&line) {
                    Some(id) => error_line(-32600, odd::HALF, id),
                    None => error_line(-32700, &format!("Parse error: {error}"), Value::Null),
                },
                Ok(value) => match value.get("id") {
                    Some(id) => error_line(-32600, "Invalid request", id.clone()),
                    // An unknown notification is not answered.
                    None if value.is_object() => continue,
                    None => error_line(-32600, "Invalid request", Value::Null),
                },
            };
            self.send_refusal(refusal);
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        drop(self.writer.lock().await.take());
        Ok(())
    }
}
