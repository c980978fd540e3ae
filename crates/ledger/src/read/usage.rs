//! Sums of requests by groups that the reader of a bill asks for.

use softland_core::NanoUsd;

use super::{ReadError, Reader, UnassignedTotals, Usage};
use crate::columns::{AnyRow, Columns as _};
use crate::sql::Dialect;
use crate::store::StoreFault;

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
    fn expression(self, dialect: Dialect) -> String {
        let runs = dialect.tables().runs;
        match self {
            Self::Day => dialect.day_of("at"),
            Self::Account | Self::Key | Self::Model => self.name().to_owned(),
            Self::Agent | Self::Policy => {
                format!("(SELECT {} FROM {runs} WHERE id = run_id)", self.name())
            }
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
    /// Returns an error if the ledger cannot be read.
    pub fn sum_usage(&self, query: &UsageQuery) -> Result<Vec<UsageRow>, ReadError> {
        let (dialect, names) = (self.dialect(), query.by.len());
        let mut asked = self.conditions();
        asked.at_least("at", query.from);
        asked.less_than("at", query.to);
        asked.below_account(query.account.as_deref());
        let groups: String =
            query.by.iter().map(|group| format!("{}, ", group.expression(dialect))).collect();
        let places = || (1..=names).map(|at| at.to_string());
        let order = match names {
            0 => String::new(),
            _ => format!(
                "GROUP BY {} ORDER BY {}",
                places().collect::<Vec<_>>().join(", "),
                places().map(|at| at + " NULLS FIRST").collect::<Vec<_>>().join(", ")
            ),
        };
        let sql = format!(
            "SELECT {groups} {} FROM {} WHERE {asked} {order} {}",
            sums(dialect),
            dialect.tables().requests,
            Dialect::limit(Some(query.limit))
        );
        let row = |row: &AnyRow<'_>| -> Result<UsageRow, StoreFault> {
            let UnassignedTotals { requests, usage, cost, unpriced } =
                UnassignedTotals::read(row, names)?;
            let names = (0..names).map(|at| row.optional_text(at)).collect::<Result<_, _>>()?;
            Ok(UsageRow { names, requests, usage, cost, unpriced })
        };
        self.list(&sql, &asked, row)
    }
}

/// Returns the columns with the sums of requests.
pub(super) fn sums(dialect: Dialect) -> String {
    let sums = ["input", "output", "cache_read", "cache_write", "cost"];
    let sums = sums.map(|column| dialect.sum_of(column)).join(", ");
    format!("count(*), {sums}, count(*) - count(cost)")
}
