//! A reader for ledgers, also while they are written: lists of runs, and the steps of one run.

use std::fmt;

use serde::Serialize;
use softland_core::{NanoUsd, RunEnding};

use crate::columns::{AnyRow, Columns as _};
use crate::db;
use crate::fields;
use crate::options::OpenError;
use crate::place::LedgerPlace;
use crate::registry::RunRow;
use crate::sql::{Conditions, Dialect};
use crate::step::Step;
use crate::store::StoreFault;

mod copy;
mod source;
mod spend;
mod totals;
mod usage;

use source::Source;
pub use spend::AccountSpend;
pub use totals::{RecordedSignal, StoredContent};
pub use usage::{UsageGroup, UsageQuery, UsageRow};

/// The maximum number of run ids that an ambiguous prefix returns.
const NAMED: usize = 10;

/// A ledger that is open for reading.
#[derive(Debug)]
pub struct Reader {
    source: Source,
    place: LedgerPlace,
}

/// A filter for the runs to list.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Only runs of this session.
    pub session: Option<String>,
    /// Only runs of the key with this name.
    pub key: Option<String>,
    /// Only runs of this account and those below it.
    pub account: Option<String>,
    /// Only runs under the policy of this name.
    pub policy: Option<String>,
    /// Only runs of the agent with this name.
    pub agent: Option<String>,
    /// Only runs that began with this model.
    pub model: Option<String>,
    /// Only runs that began at this time or later, in milliseconds since 1970.
    pub since: Option<u64>,
    /// Only runs in this state: an outcome, for example `landed`, or `open` for those that have not
    /// ended.
    pub state: Option<String>,
    /// Only runs with this text in their id, session, agent, model, policy, key, account, client or
    /// client's name, or in their outcome or its reason. The case of ASCII letters does not matter.
    pub text: Option<String>,
    /// The maximum number of runs.
    pub limit: Option<usize>,
}

/// The state of a run that has not ended.
const OPEN: &str = "open";

impl Query {
    /// The states by which runs are listed: `open`, and the words of outcomes.
    pub const STATES: [&str; 6] = [OPEN, "answered", "landed", "stopped", "failed", "cancelled"];

    /// Returns true if a run with this outcome, `None` for an open one, is in the state that is asked
    /// for.
    #[must_use]
    pub fn matches_state(&self, outcome: Option<&str>) -> bool {
        self.state.as_deref().is_none_or(|state| outcome.unwrap_or(OPEN) == state)
    }
}

/// A run as recorded in the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The id of the run.
    pub run: String,
    /// The session, which shares money.
    pub session: Option<String>,
    /// The agent within the session.
    pub agent: Option<String>,
    /// The client's name for the run (`x-softland-run`). Several runs may share a name.
    pub name: Option<String>,
    /// True if the run is only observed: its interventions were not applied.
    pub observed: bool,
    /// The ended run that this run continues.
    pub continues: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The policy's name.
    pub policy: Option<String>,
    /// The client.
    pub client: Option<String>,
    /// The name of the key that asked.
    pub key: Option<String>,
    /// The account that pays.
    pub account: Option<String>,
    /// The time of its first record, in milliseconds since 1970.
    pub started: u64,
    /// The time of its last record.
    pub last: u64,
    /// The time at which the run ended, if it has.
    pub ended: Option<u64>,
    /// The outcome and its reason, if the run has ended.
    pub end: Option<RunEnding>,
    /// True if the answer was softland's own.
    pub local: bool,
    /// The number of turns so far.
    pub turns: u64,
    /// The number of tool calls; known once the run has ended.
    pub tool_calls: Option<u64>,
    /// The number of requests, hidden ones included.
    pub requests: u64,
    /// The tokens used.
    pub usage: Usage,
    /// The cost. For an open run, the sum of the known costs, if any is. `None` for an ended run that used a
    /// model without a known price.
    pub cost: Option<NanoUsd>,
    /// The number of requests without a known price.
    pub unpriced: u64,
}

/// Token counts by the price at which they are billed. `input` is the uncached part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "described in docs/reference/events.md")]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// Totals of the requests that belong to no run: requests without tools, and requests that could
/// not be metered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnassignedTotals {
    /// The number of requests.
    pub requests: u64,
    /// The tokens used.
    pub usage: Usage,
    /// The sum of the known costs.
    pub cost: NanoUsd,
    /// The number of requests without a known price.
    pub unpriced: u64,
}

/// The result of looking up a run by the beginning of its id.
#[derive(Clone, Debug, PartialEq)]
pub enum RunLookup {
    /// Exactly one run.
    One(Box<Run>),
    /// No run.
    Nothing,
    /// Several runs; some of their ids.
    Several(Vec<String>),
}

impl Reader {
    /// Opens a ledger, which another process may be writing to.
    ///
    /// # Errors
    /// Returns an error if there is no ledger, it cannot be read, it belongs to another program, or
    /// a newer version wrote it.
    pub fn open(place: impl Into<LedgerPlace>) -> Result<Self, OpenError> {
        let place = place.into();
        Ok(Self { source: Source::open(&place)?, place })
    }

    /// Returns the runs that match the query, newest first.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read.
    pub fn list_runs(&self, query: &Query) -> Result<Vec<Run>, ReadError> {
        let mut asked = self.conditions();
        asked.equal("session", query.session.as_deref());
        asked.at_least("started", query.since);
        match query.state.as_deref() {
            Some(OPEN) => asked.add("ended IS NULL"),
            outcome => asked.equal("outcome", outcome),
        }
        let names =
            "run, name, agent, model, client, policy, session, reason, outcome, key, account";
        asked.contain(names, query.text.as_deref());
        asked.equal("key", query.key.as_deref());
        asked.below_account(query.account.as_deref());
        asked.equal("policy", query.policy.as_deref());
        asked.equal("agent", query.agent.as_deref());
        asked.equal("model", query.model.as_deref());
        let sql = format!(
            "SELECT {} FROM {} WHERE {asked} ORDER BY started DESC, id DESC {}",
            db::COLUMNS,
            self.dialect().tables().runs,
            Dialect::limit(query.limit)
        );
        self.list(&sql, &asked, Run::read)
    }

    /// Returns the run with the newest record.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read.
    pub fn find_latest(&self) -> Result<Option<Run>, ReadError> {
        let runs = self.dialect().tables().runs;
        let sql = format!("SELECT {} FROM {runs} ORDER BY last DESC, id DESC LIMIT 1", db::COLUMNS);
        Ok(self.list(&sql, &self.conditions(), Run::read)?.pop())
    }

    /// Returns the totals of the requests that belong to no run. Of the query, only `session`,
    /// `since`, `key`, `account` and `model` apply.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read.
    pub fn sum_unassigned(&self, query: &Query) -> Result<UnassignedTotals, ReadError> {
        let mut asked = self.conditions();
        asked.add("run_id = 0");
        asked.equal("session", query.session.as_deref());
        asked.at_least("at", query.since);
        asked.equal("key", query.key.as_deref());
        asked.below_account(query.account.as_deref());
        asked.equal("model", query.model.as_deref());
        let sql = format!(
            "SELECT {} FROM {} WHERE {asked}",
            usage::sums(self.dialect()),
            self.dialect().tables().requests
        );
        let totals = self.list(&sql, &asked, |row| UnassignedTotals::read(row, 0))?.pop();
        Ok(totals.unwrap_or_default())
    }

    /// Returns the runs that a client gave this name, oldest first.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read.
    pub fn find_named(&self, name: &str) -> Result<Vec<Run>, ReadError> {
        let mut asked = self.conditions();
        asked.equal("name", Some(name));
        let runs = self.dialect().tables().runs;
        let sql = format!("SELECT {} FROM {runs} WHERE {asked} ORDER BY started, id", db::COLUMNS);
        self.list(&sql, &asked, Run::read)
    }

    /// Finds the run with this id, or else the only run whose id begins with it.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read.
    pub fn find_run(&self, prefix: &str) -> Result<RunLookup, ReadError> {
        let mut asked = self.conditions();
        let begin = asked.bind_text(prefix);
        asked.add(format!("run >= {begin} AND substr(run, 1, length({begin})) = {begin}"));
        let sql = format!(
            "SELECT {} FROM {} WHERE {asked} ORDER BY run {}",
            db::COLUMNS,
            self.dialect().tables().runs,
            Dialect::limit(Some(NAMED))
        );
        let mut runs = self.list(&sql, &asked, Run::read)?;
        // In text order, the full id sorts before every longer one.
        let whole = runs.first().is_some_and(|run| run.run == prefix);
        if whole || runs.len() == 1 {
            let run = runs.swap_remove(0);
            return Ok(RunLookup::One(Box::new(run)));
        }
        if runs.is_empty() {
            return Ok(RunLookup::Nothing);
        }
        Ok(RunLookup::Several(runs.into_iter().map(|run| run.run).collect()))
    }

    /// Returns the steps of a run, in order. Returns none if there is no such run.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read.
    pub fn read_steps(&self, run: &str) -> Result<Vec<Step>, ReadError> {
        let found = self.source.read_lines(run).map_err(|fault| self.read_error(&fault))?;
        let Some((row, lines)) = found else { return Ok(Vec::new()) };
        let last = row.end.as_ref().map_or(u64::MAX, |end| end.seq);
        Ok(lines.into_iter().map(|kept| step_from_stored(kept, last)).collect())
    }

    fn dialect(&self) -> Dialect {
        self.source.dialect()
    }

    fn conditions(&self) -> Conditions {
        Conditions::new(self.dialect())
    }

    /// Asks a question, and returns what `read` makes of each row.
    fn list<T>(
        &self,
        sql: &str,
        asked: &Conditions,
        read: impl Fn(&AnyRow<'_>) -> Result<T, StoreFault>,
    ) -> Result<Vec<T>, ReadError> {
        let mut rows = Vec::new();
        self.visit(sql, asked, |row| {
            rows.push(read(row)?);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Asks a question, and shows each row to `visit`.
    fn visit(
        &self,
        sql: &str,
        asked: &Conditions,
        mut visit: impl FnMut(&AnyRow<'_>) -> Result<(), StoreFault>,
    ) -> Result<(), ReadError> {
        let read = self.source.query(sql, &asked.values, &mut visit);
        read.map_err(|fault| self.read_error(&fault))
    }

    fn read_error(&self, fault: &StoreFault) -> ReadError {
        ReadError::new(&self.place, fault)
    }
}

impl Run {
    fn read(row: &AnyRow<'_>) -> Result<Self, StoreFault> {
        db::read_run_row(row).map(Self::from_row)
    }

    fn from_row(row: RunRow) -> Self {
        let RunRow { input, output, cache_read, cache_write, .. } = row;
        let ended = row.end.as_ref().map(|end| end.at);
        let local = row.end.as_ref().is_some_and(|end| end.local);
        // The sum of an open run's known costs says nothing if none is known.
        let known = row.end.is_some() || row.unpriced == 0 || row.unpriced < row.requests;
        Self {
            run: row.run.to_string(),
            session: row.session.as_deref().map(str::to_owned),
            agent: row.agent.as_deref().map(str::to_owned),
            name: row.name.as_deref().map(str::to_owned),
            observed: row.observed,
            continues: row.continues.as_deref().map(str::to_owned),
            model: row.model.as_deref().map(str::to_owned),
            policy: row.policy,
            client: row.client,
            key: row.payer.key.as_deref().map(str::to_owned),
            account: row.payer.account.as_deref().map(str::to_owned),
            started: row.started,
            last: row.last,
            ended,
            end: row.end.and_then(|end| serde_json::from_str(&end.ended).ok()),
            local,
            turns: row.turns,
            tool_calls: row.tool_calls,
            requests: row.requests,
            usage: Usage { input, output, cache_read, cache_write },
            cost: row.cost.filter(|_| known).map(NanoUsd),
            unpriced: row.unpriced,
        }
    }

    /// Returns the run as a JSON object on one line, without the line end. Keys are named as in
    /// `docs/reference/events.md`. `outcome` and the keys that go with it are absent while the run
    /// is open.
    #[must_use]
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct RunLine<'a> {
            v: u32,
            run: &'a str,
            session: Option<&'a str>,
            agent: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            name: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            mode: Option<&'static str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            continues: Option<&'a str>,
            model: Option<&'a str>,
            policy: Option<&'a str>,
            client: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            key: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            account: Option<&'a str>,
            started: String,
            last: String,
            #[serde(skip_serializing_if = "Option::is_none")]
            ended: Option<String>,
            #[serde(flatten)]
            end: Option<&'a RunEnding>,
            #[serde(skip_serializing_if = "Option::is_none")]
            answered_by: Option<&'static str>,
            turns: u64,
            tool_calls: Option<u64>,
            requests: u64,
            usage: Usage,
            cost_usd: Option<NanoUsd>,
            unpriced_requests: u64,
        }
        let done = self.end.as_ref().is_some_and(|end| end.outcome.is_done());
        fields::to_json(&RunLine {
            v: 1,
            run: &self.run,
            session: self.session.as_deref(),
            agent: self.agent.as_deref(),
            name: self.name.as_deref(),
            mode: fields::mode_name(self.observed),
            continues: self.continues.as_deref(),
            model: self.model.as_deref(),
            policy: self.policy.as_deref(),
            client: self.client.as_deref(),
            key: self.key.as_deref(),
            account: self.account.as_deref(),
            started: fields::format_timestamp(self.started),
            last: fields::format_timestamp(self.last),
            ended: self.ended.map(fields::format_timestamp),
            end: self.end.as_ref(),
            answered_by: done.then_some(if self.local { "local" } else { "model" }),
            turns: self.turns,
            tool_calls: self.tool_calls,
            requests: self.requests,
            usage: self.usage,
            cost_usd: self.cost,
            unpriced_requests: self.unpriced,
        })
    }
}

impl UnassignedTotals {
    /// Reads the sums of a row, which begin with this column.
    fn read(row: &AnyRow<'_>, from: usize) -> Result<Self, StoreFault> {
        let count = |at| row.count(from + at);
        Ok(Self {
            requests: count(0)?,
            usage: Usage {
                input: count(1)?,
                output: count(2)?,
                cache_read: count(3)?,
                cache_write: count(4)?,
            },
            cost: NanoUsd(count(5)?),
            unpriced: count(6)?,
        })
    }

    /// Returns the sum of the known costs; `None` if there are requests and none has one.
    #[must_use]
    pub fn known_cost(&self) -> Option<NanoUsd> {
        (self.unpriced == 0 || self.unpriced < self.requests).then_some(self.cost)
    }

    /// Returns the totals as a JSON object on one line, without the line end, in the form that runs
    /// have. Its `run` is `null`.
    #[must_use]
    pub fn to_json(&self, session: Option<&str>) -> String {
        #[derive(Serialize)]
        struct UnassignedLine<'a> {
            v: u32,
            run: Option<()>,
            session: Option<&'a str>,
            requests: u64,
            usage: Usage,
            cost_usd: Option<NanoUsd>,
            unpriced_requests: u64,
        }
        let Self { requests, usage, unpriced, .. } = *self;
        let (cost_usd, unpriced_requests) = (self.known_cost(), unpriced);
        fields::to_json(&UnassignedLine {
            v: 1,
            run: None,
            session,
            requests,
            usage,
            cost_usd,
            unpriced_requests,
        })
    }
}

fn step_from_stored(kept: db::StoredLine, last: u64) -> Step {
    let db::StoredLine { seq, at, turn, event, fields } = kept;
    Step { seq, at, turn, event, fields, late: seq > last }
}

/// The error of a ledger that could not be read, or from which runs could not be deleted.
#[derive(Debug)]
pub struct ReadError {
    place: LedgerPlace,
    why: String,
}

impl ReadError {
    pub(crate) fn new(place: &LedgerPlace, fault: &StoreFault) -> Self {
        Self { place: place.clone(), why: fault.why.clone() }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

impl std::error::Error for ReadError {}
