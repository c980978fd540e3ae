//! Queries of the gateway's pages: signals, the cost of a turn, and the newest request.

use rusqlite::{OptionalExtension as _, params};
use softland_core::NanoUsd;

use super::{ReadError, Reader};

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
    /// Returns an error if the file cannot be read.
    pub fn read_newest_content(&self, run: &str) -> Result<Option<StoredContent>, ReadError> {
        let sql = "SELECT requests.turn, requests.path, contents.content FROM contents \
                   JOIN requests USING (run_id, seq) \
                   WHERE run_id = (SELECT id FROM runs WHERE run = ?1) AND seq = \
                   (SELECT seq FROM contents JOIN requests USING (run_id, seq) \
                    WHERE run_id = (SELECT id FROM runs WHERE run = ?1) \
                    ORDER BY requests.turn DESC, seq LIMIT 1)";
        let read = || {
            let mut newest = self.connection.prepare_cached(sql)?;
            let found = newest.query_row([run], |row| {
                let turn = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0);
                Ok(StoredContent { turn, path: row.get(1)?, body: row.get(2)? })
            });
            found.optional()
        };
        read().map_err(|error| self.read_error(error))
    }

    /// Returns true if the ledger holds contents of requests.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn has_contents(&self) -> Result<bool, ReadError> {
        let sql = "SELECT EXISTS(SELECT 1 FROM contents)";
        let found = self.connection.query_row(sql, [], |row| row.get(0));
        found.map_err(|error| self.read_error(error))
    }

    /// Returns the signals of all runs that began at `since` or later.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn list_signals(&self, since: u64) -> Result<Vec<RecordedSignal>, ReadError> {
        let sql = "SELECT runs.run, events.fields FROM events JOIN runs ON runs.id = events.run_id \
                   WHERE events.event = 'signal' AND runs.started >= ?1 \
                   ORDER BY events.run_id, events.seq";
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let read = || {
            let mut rows = self.connection.prepare_cached(sql)?;
            let signal = |row: &rusqlite::Row<'_>| {
                Ok(RecordedSignal { run: row.get(0)?, fields: row.get(1)? })
            };
            rows.query_map([since], signal)?.collect::<rusqlite::Result<_>>()
        };
        read().map_err(|error| self.read_error(error))
    }

    /// Returns the sum of the known costs of one turn of a run.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn turn_cost(&self, run: &str, turn: u64) -> Result<NanoUsd, ReadError> {
        let sql = "SELECT coalesce(sum(cost), 0) FROM requests \
                   WHERE run_id = (SELECT id FROM runs WHERE run = ?1) AND turn = ?2";
        let turn = i64::try_from(turn).unwrap_or(i64::MAX);
        let read = || {
            let mut sum = self.connection.prepare_cached(sql)?;
            sum.query_row(params![run, turn], |row| row.get::<_, i64>(0))
        };
        let cost = read().map_err(|error| self.read_error(error))?;
        Ok(NanoUsd(u64::try_from(cost).unwrap_or(0)))
    }
}
