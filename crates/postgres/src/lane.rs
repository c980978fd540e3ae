//! The lane of money: calls that change accounts go one after the other, and all that come while one
//! is under way make up the next one.
//!
//! The row of an account that many requests share is locked until its transaction is on disk. In a
//! lane, one lock and one write to disk serve all requests that wait.

use std::sync::{Arc, Weak};

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use crate::connection::Connections;

/// The number of calls that wait for the lane at most. Beyond it, callers wait to wait.
const WAITING: usize = 1024;
/// The number of operations in one transaction, unless a single call has more.
const AT_ONCE: usize = 64;

/// The answers to a call's operations, each in JSON.
type Answers = Vec<Box<RawValue>>;

/// A call that waits for its turn.
#[derive(Debug)]
struct Waiting {
    host: String,
    operations: Vec<String>,
    answer: oneshot::Sender<Result<Answers, String>>,
}

/// The way into the lane.
#[derive(Clone, Debug)]
pub(crate) struct Lane(mpsc::Sender<Waiting>);

impl Lane {
    /// Opens a lane, which ends with the connections. Has to be called within a runtime.
    pub(crate) fn open(connections: &Arc<Connections>) -> Self {
        let (lane, waiting) = mpsc::channel(WAITING);
        tokio::spawn(serve(Arc::downgrade(connections), waiting));
        Self(lane)
    }

    /// Runs operations in the lane. A caller that gives up before its turn leaves nothing behind.
    pub(crate) async fn run(&self, host: &str, operations: &[String]) -> Result<Answers, String> {
        let (answer, told) = oneshot::channel();
        let call = Waiting { host: host.to_owned(), operations: operations.to_vec(), answer };
        let ended = "the lane has ended".to_owned();
        self.0.send(call).await.map_err(|_| ended.clone())?;
        told.await.unwrap_or(Err(ended))
    }
}

/// Runs what waits until nobody can call any more.
async fn serve(connections: Weak<Connections>, mut waiting: mpsc::Receiver<Waiting>) {
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(call) => call,
            None => match waiting.recv().await {
                Some(call) => call,
                None => return,
            },
        };
        let Some(connections) = connections.upgrade() else { return };
        let mut calls = Vec::new();
        let mut many = 0;
        let mut coming = Some(first);
        while let Some(call) = coming {
            if call.answer.is_closed() {
                // Its caller has given up.
            } else if many > 0 && many + call.operations.len() > AT_ONCE {
                next = Some(call);
                break;
            } else {
                many += call.operations.len();
                calls.push(call);
            }
            coming = waiting.try_recv().ok();
        }
        if !calls.is_empty() {
            run_calls(&connections, calls).await;
        }
    }
}

/// Runs calls in one transaction, and tells each caller its part of the answers.
async fn run_calls(connections: &Connections, calls: Vec<Waiting>) {
    let Some(host) = calls.first().map(|call| call.host.clone()) else { return };
    let operations = calls.iter().flat_map(|call| &call.operations).map(String::as_str);
    let answers = run_operations(connections, &host, operations).await;
    match answers {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for call in calls {
                let own = answers.by_ref().take(call.operations.len()).collect();
                // A caller that has given up since then asks again, or gives up what it got.
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
