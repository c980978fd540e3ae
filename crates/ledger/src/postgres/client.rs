//! Connections for callers that are not asynchronous: a thread drives them.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use softland_postgres::{Database, DatabaseError, DatabaseOptions};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::TABLES;

/// The bounds of one process's connections: one writes, the others read.
const OPTIONS: DatabaseOptions = DatabaseOptions {
    connections: 4,
    statement: Duration::from_secs(30),
    wait: Duration::from_secs(5),
};

/// Connections, and the thread that drives them until this is dropped.
pub(super) struct Client {
    pub(super) database: Arc<Database>,
    handle: Handle,
    /// Ends the thread when dropped.
    _running: oneshot::Sender<()>,
}

impl Client {
    /// Prepares connections to an address, which are made with the first statements.
    pub(super) fn start(url: &str) -> Result<Self, String> {
        let database = Database::new(url, OPTIONS, &TABLES).map_err(|error| error.to_string())?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let handle = runtime.handle().clone();
        let (running, over) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("ledger-postgres".to_owned())
            .spawn(move || {
                // Nothing is sent: this waits for the other end to be dropped.
                let _ = runtime.block_on(over);
                runtime.shutdown_background();
            })
            .map_err(|error| error.to_string())?;
        Ok(Self { database: Arc::new(database), handle, _running: running })
    }

    /// Waits for an answer, up to `time`. May be called on any thread, which it blocks.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        time: Duration,
        work: impl Future<Output = Result<T, DatabaseError>> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        let (sender, answer) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // If the caller's thread has ended, nobody waits.
            let _ = sender.send(within(time, work).await);
        });
        answer.recv().unwrap_or_else(|_| Err(DatabaseError::Other("it was closed".to_owned())))
    }

    /// Does work on borrowed data on the calling thread, which must not be one of a runtime.
    pub(super) fn work<T>(
        &self,
        time: Duration,
        work: impl Future<Output = Result<T, DatabaseError>>,
    ) -> Result<T, DatabaseError> {
        self.handle.block_on(within(time, work))
    }
}

async fn within<T>(
    time: Duration,
    work: impl Future<Output = Result<T, DatabaseError>>,
) -> Result<T, DatabaseError> {
    let done = timeout(time, work).await;
    done.unwrap_or_else(|_| Err(DatabaseError::Other(format!("no answer within {time:?}"))))
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
