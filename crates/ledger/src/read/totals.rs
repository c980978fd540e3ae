//! Queries of the gateway's pages: signals, the cost of a turn, and the newest request.

use softland_core::NanoUsd;

use super::{ReadError, Reader};
use crate::columns::Columns as _;
use crate::sql::TableNames;

/// The newest request of a run among those with kept contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredContent {
    /// The turn of the request.
    pub turn: u64,
    /// The path, without its query.
    pub path: String,
    /// The body sent upstream.
    pub body: Vec<u8>,
}

/// A recorded signal of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedSignal {
    /// The run.
    pub run: String,
    /// The fields of the event, a JSON object.
    pub fields: String,
}

impl Reader {
    /// Returns the first request of the newest turn of a run among those with kept contents. Behind
    /// the history of a later one stands what softland itself said in that turn.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read.
    pub fn read_newest_content(&self, run: &str) -> Result<Option<StoredContent>, ReadError> {
        let TableNames { runs, requests, contents, .. } = self.dialect().tables();
        let mut asked = self.conditions();
        asked.equal("run", Some(run));
        // Only the content of the newest is read.
        let joined = format!("{contents} JOIN {requests} USING (run_id, seq)");
        let of_run = format!("run_id = (SELECT id FROM {runs} WHERE {asked})");
        let sql = format!(
            "SELECT turn, path, content FROM {joined} WHERE {of_run} AND seq = \
             (SELECT seq FROM {joined} WHERE {of_run} ORDER BY turn DESC, seq LIMIT 1)"
        );
        let mut newest = self.list(&sql, &asked, |row| {
            Ok(StoredContent { turn: row.count(0)?, path: row.text(1)?, body: row.bytes(2)? })
        })?;
        Ok(newest.pop())
    }

    /// Returns true if the ledger holds contents of requests.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read.
    pub fn has_contents(&self) -> Result<bool, ReadError> {
        let contents = self.dialect().tables().contents;
        let sql = format!("SELECT run_id FROM {contents} LIMIT 1");
        Ok(!self.list(&sql, &self.conditions(), |_| Ok(()))?.is_empty())
    }

    /// Returns the signals of all runs that began at `since` or later.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read.
    pub fn list_signals(&self, since: u64) -> Result<Vec<RecordedSignal>, ReadError> {
        let TableNames { runs, signals, .. } = self.dialect().tables();
        let mut asked = self.conditions();
        asked.add("event = 'signal'");
        asked.at_least("started", Some(since));
        let sql = format!(
            "SELECT run, fields FROM {signals} JOIN {runs} ON id = run_id \
             WHERE {asked} ORDER BY run_id, seq"
        );
        self.list(&sql, &asked, |row| {
            Ok(RecordedSignal { run: row.text(0)?, fields: row.text(1)? })
        })
    }

    /// Returns the sum of the known costs of one turn of a run.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read.
    pub fn turn_cost(&self, run: &str, turn: u64) -> Result<NanoUsd, ReadError> {
        let TableNames { runs, requests, .. } = self.dialect().tables();
        let mut asked = self.conditions();
        let (run, turn) = (asked.bind_text(run), asked.bind_int(turn));
        let sql = format!(
            "SELECT {} FROM {requests} \
             WHERE run_id = (SELECT id FROM {runs} WHERE run = {run}) AND turn = {turn}",
            self.dialect().sum_of("cost")
        );
        let cost = self.list(&sql, &asked, |row| row.count(0))?.pop();
        Ok(NanoUsd(cost.unwrap_or(0)))
    }
}
