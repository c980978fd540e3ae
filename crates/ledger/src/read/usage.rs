//! Sums of requests by groups that the reader of a bill asks for.

use rusqlite::params;
use softland_core::NanoUsd;

use super::{ReadError, Reader, Usage, below_account};

/// A group by which requests are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageGroup {
    /// The day on which the request arrived, in UTC.
    Day,
    /// The account that pays.
    Account,
    /// The key that asked.
    Key,
    /// The model.
    Model,
    /// The agent within the session, of requests that belong to a run.
    Agent,
    /// The policy, of requests that belong to a run.
    Policy,
}

impl UsageGroup {
    /// All groups.
    pub const ALL: [Self; 6] =
        [Self::Day, Self::Account, Self::Key, Self::Model, Self::Agent, Self::Policy];

    /// Returns the group of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }

    /// Returns the name of the group.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Account => "account",
            Self::Key => "key",
            Self::Model => "model",
            Self::Agent => "agent",
            Self::Policy => "policy",
        }
    }

    /// Returns the expression of the group's name.
    const fn expression(self) -> &'static str {
        match self {
            Self::Day => "strftime('%Y-%m-%d', at / 1000, 'unixepoch')",
            Self::Account => "account",
            Self::Key => "key",
            Self::Model => "model",
            Self::Agent => "(SELECT agent FROM runs WHERE id = run_id)",
            Self::Policy => "(SELECT policy FROM runs WHERE id = run_id)",
        }
    }
}

/// The requests to sum.
#[derive(Clone, Debug, Default)]
pub struct UsageQuery {
    /// The groups, in the order in which the rows are sorted.
    pub by: Vec<UsageGroup>,
    /// Only requests that arrived at this time or later, in milliseconds since 1970.
    pub from: Option<u64>,
    /// Only requests that arrived before this time.
    pub to: Option<u64>,
    /// Only requests of this account and those below it.
    pub account: Option<String>,
    /// The maximum number of rows.
    pub limit: usize,
}

/// The sums of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// The names of the group, in the order of [`UsageQuery::by`]; `None` for requests without one.
    pub names: Vec<Option<String>>,
    /// The number of requests, hidden ones included.
    pub requests: u64,
    /// The tokens used.
    pub usage: Usage,
    /// The sum of the known costs.
    pub cost: NanoUsd,
    /// The number of requests without a known price.
    pub unpriced: u64,
}

impl Reader {
    /// Returns the sums of requests by groups, sorted by their names.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn sum_usage(&self, query: &UsageQuery) -> Result<Vec<UsageRow>, ReadError> {
        let names = query.by.len();
        let groups: String =
            query.by.iter().map(|group| format!("{}, ", group.expression())).collect();
        let order: Vec<String> = (1..=names).map(|at| at.to_string()).collect();
        let order = match order.join(", ") {
            order if order.is_empty() => String::new(),
            order => format!("GROUP BY {order} ORDER BY {order}"),
        };
        let sql = format!(
            "SELECT {groups} count(*), coalesce(sum(input), 0), coalesce(sum(output), 0), \
             coalesce(sum(cache_read), 0), coalesce(sum(cache_write), 0), coalesce(sum(cost), 0), \
             count(*) - count(cost) FROM requests WHERE at >= ?1 AND at < ?2 AND {} {order} LIMIT ?4",
            below_account("?3")
        );
        let time = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
        let (from, to) = (time(query.from.unwrap_or(0)), time(query.to.unwrap_or(u64::MAX)));
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let row = |row: &rusqlite::Row<'_>| {
            let count = |at| row.get::<_, i64>(names + at).map(|n| u64::try_from(n).unwrap_or(0));
            Ok(UsageRow {
                names: (0..names).map(|at| row.get(at)).collect::<Result<_, _>>()?,
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
        };
        let read = || {
            let mut sums = self.connection.prepare_cached(&sql)?;
            sums.query_map(params![from, to, query.account, limit], row)?.collect::<Result<_, _>>()
        };
        read().map_err(|error| self.read_error(error))
    }
}
