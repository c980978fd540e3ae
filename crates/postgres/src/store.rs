//! The store: decides which operations of a call go through the batch queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use softland_remote::{Answer, ScriptStore};
use tokio::time::{Instant, timeout};

use crate::batch::{BatchQueue, run_operations};
use crate::connection::{CALL, Connections};
use crate::database::ConnectError;

/// The interval at which rows that have not been used for long are deleted.
const SWEEP: Duration = Duration::from_secs(60);
/// The number of parts that one sweep deletes at most, each in a transaction of its own.
const PARTS: usize = 50;
/// The operations that change accounts, besides the notes.
const MONEY: [&str; 3] = ["reserve", "poll", "renew"];

/// A shared store on PostgreSQL.
#[derive(Debug)]
pub struct PostgresStore {
    connections: Arc<Connections>,
    batches: BatchQueue,
    opened: Instant,
    /// The time of the last sweep, in seconds since `opened`.
    swept: AtomicU64,
}

/// The members of an operation that say whether it changes accounts.
#[derive(Deserialize)]
struct OperationKind<'a> {
    op: &'a str,
    note: Option<u64>,
}

impl PostgresStore {
    /// Prepares connections to this address (`postgres://`), which are made with the first calls.
    /// So a gateway starts without the database. Has to be called within a runtime.
    ///
    /// # Errors
    /// Returns an error if the address cannot be used.
    pub fn open(url: &str) -> Result<Self, ConnectError> {
        let connections = Arc::new(Connections::new(url)?);
        let batches = BatchQueue::open(&connections);
        Ok(Self { connections, batches, opened: Instant::now(), swept: AtomicU64::new(0) })
    }

    /// Runs a call: its notes and operations on accounts in a batch, and then, if its last operation
    /// changes no account, that one alone.
    async fn run_call(
        &self,
        host: &str,
        operations: &[String],
    ) -> Result<Vec<Box<RawValue>>, String> {
        let (last, notes) = match operations.split_last() {
            Some((last, notes)) if !changes_accounts(last) => (Some(last), notes),
            _ => (None, operations),
        };
        let mut answers = match notes {
            [] if last.is_some() => Vec::new(),
            notes => self.batches.run(host, notes).await?,
        };
        if let Some(last) = last {
            let single = std::iter::once(last.as_str());
            answers.extend(run_operations(&self.connections, host, single).await?);
        }
        Ok(answers)
    }

    /// Starts to delete rows that have not been used for long, if the last sweep is long enough ago.
    fn sweep_if_due(&self) {
        let now = self.opened.elapsed().as_secs();
        let before = self.swept.load(Ordering::Relaxed);
        let is_time = now.saturating_sub(before) >= SWEEP.as_secs();
        let order = Ordering::Relaxed;
        if !is_time || self.swept.compare_exchange(before, now, order, order).is_err() {
            return;
        }
        let connections = Arc::clone(&self.connections);
        tokio::spawn(async move {
            for _ in 0..PARTS {
                match connections.sweep().await {
                    Ok(0) => return,
                    Ok(_) => {}
                    Err(because) => {
                        tracing::debug!(because, "old rows stay in the shared database");
                        return;
                    }
                }
            }
        });
    }
}

#[async_trait]
impl ScriptStore for PostgresStore {
    async fn run(&self, host: &str, operations: &[String]) -> Result<Vec<Answer>, String> {
        let answers = timeout(CALL, self.run_call(host, operations)).await;
        let answers = answers.map_err(|_| format!("no answer within {CALL:?}"))??;
        self.sweep_if_due();
        Ok(answers.iter().map(|answer| read(answer)).collect())
    }
}

/// Returns true for an operation on accounts, and for a note: a note may settle a reservation.
fn changes_accounts(operation: &str) -> bool {
    serde_json::from_str::<OperationKind<'_>>(operation)
        .is_ok_and(|kind| kind.note.is_some() || MONEY.contains(&kind.op))
}

/// Returns an answer, whose JSON the database has made.
fn read(answer: &RawValue) -> Answer {
    serde_json::from_str(answer.get()).map(to_answer).unwrap_or_default()
}

fn to_answer(value: Value) -> Answer {
    match value {
        Value::Null | Value::Object(_) => Answer::Nil,
        Value::Bool(is_true) => Answer::Number(is_true.into()),
        Value::Number(number) => Answer::Number(number.as_u64().unwrap_or(0)),
        Value::String(text) => Answer::Text(text),
        Value::Array(values) => Answer::List(values.into_iter().map(to_answer).collect()),
    }
}
