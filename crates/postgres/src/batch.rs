//! The batch queue: calls that change accounts run in batches, one batch after the other. The calls
//! that arrive while a batch runs make up the next one.
//!
//! The row of an account that many requests share is locked until its transaction is on disk. In a
//! batch, one lock and one write to disk serve all requests that wait.

use std::sync::{Arc, Weak};

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use crate::connection::Connections;

/// The most calls that the queue holds. Beyond it, callers wait for a place in it.
const QUEUE_LENGTH: usize = 1024;
/// The most operations in one batch, unless a single call has more.
const BATCH_SIZE: usize = 64;

/// The answers to a call's operations, each in JSON.
type Answers = Vec<Box<RawValue>>;

/// A call in the queue.
#[derive(Debug)]
struct QueuedCall {
    host: String,
    operations: Vec<String>,
    answer: oneshot::Sender<Result<Answers, String>>,
}

/// The queue, as callers have it.
#[derive(Clone, Debug)]
pub(crate) struct BatchQueue(mpsc::Sender<QueuedCall>);

impl BatchQueue {
    /// Opens a queue, which ends with the connections. Has to be called within a runtime.
    pub(crate) fn open(connections: &Arc<Connections>) -> Self {
        let (queue, calls) = mpsc::channel(QUEUE_LENGTH);
        tokio::spawn(run_batches(Arc::downgrade(connections), calls));
        Self(queue)
    }

    /// Runs operations in a batch. Those of a caller that gives up before its batch are not run.
    pub(crate) async fn run(&self, host: &str, operations: &[String]) -> Result<Answers, String> {
        let (answer, received) = oneshot::channel();
        let call = QueuedCall { host: host.to_owned(), operations: operations.to_vec(), answer };
        let ended = "the queue of calls has ended".to_owned();
        self.0.send(call).await.map_err(|_| ended.clone())?;
        received.await.unwrap_or(Err(ended))
    }
}

/// Runs queued calls in batches, until the queue and the connections are dropped.
async fn run_batches(connections: Weak<Connections>, mut queue: mpsc::Receiver<QueuedCall>) {
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(call) => call,
            None => match queue.recv().await {
                Some(call) => call,
                None => return,
            },
        };
        let Some(connections) = connections.upgrade() else { return };
        let mut batch = Vec::new();
        let mut size = 0;
        let mut queued = Some(first);
        while let Some(call) = queued {
            if call.answer.is_closed() {
                // Its caller has given up.
            } else if size > 0 && size + call.operations.len() > BATCH_SIZE {
                next = Some(call);
                break;
            } else {
                size += call.operations.len();
                batch.push(call);
            }
            queued = queue.try_recv().ok();
        }
        if !batch.is_empty() {
            run_batch(&connections, batch).await;
        }
    }
}

/// Runs calls in one transaction, and sends each caller the answers to its operations.
async fn run_batch(connections: &Connections, calls: Vec<QueuedCall>) {
    let Some(host) = calls.first().map(|call| call.host.clone()) else { return };
    let operations = calls.iter().flat_map(|call| &call.operations).map(String::as_str);
    let answers = run_operations(connections, &host, operations).await;
    match answers {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for call in calls {
                let own = answers.by_ref().take(call.operations.len()).collect();
                // The caller may have given up meanwhile. It then asks again.
                let _ = call.answer.send(Ok(own));
            }
        }
        Err(because) => {
            for call in calls {
                let _ = call.answer.send(Err(because.clone()));
            }
        }
    }
}

/// Runs operations in one transaction. Returns an answer for each.
pub(crate) async fn run_operations<'a>(
    connections: &Connections,
    host: &str,
    operations: impl Iterator<Item = &'a str>,
) -> Result<Answers, String> {
    let operations: Vec<&str> = operations.collect();
    let answers = connections.run(host, &format!("[{}]", operations.join(","))).await?;
    let answers: Answers =
        serde_json::from_str(&answers).map_err(|error| format!("its answer: {error}"))?;
    if answers.len() != operations.len() {
        return Err("its answer cannot be read".to_owned());
    }
    Ok(answers)
}
