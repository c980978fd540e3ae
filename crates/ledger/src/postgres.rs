//! The ledger in a PostgreSQL, to which several processes write at once.
//!
//! A batch is one transaction. It locks the rows of its runs before it reads them, so that what
//! several processes add to one run is added up.

mod client;
mod delete;
mod place;
mod reader;
mod rows;
mod store;

pub(crate) use delete::{delete_runs, find_runs_to_delete};
pub use place::PostgresPlace;
pub(crate) use reader::{PostgresReader, count_batches};
pub(crate) use store::PostgresStore;

use softland_postgres::{DatabaseError, Tables};

use crate::options::OpenProblem;
use crate::store::{FaultKind, StoreFault};

/// The tables of the ledger.
static TABLES: Tables = Tables {
    name: "ledger",
    meta: "softland_ledger_meta",
    lock: 4_850_181,
    schemas: &[include_str!("postgres/1.sql")],
    functions: &[],
    takes_newer: false,
};

/// Returns the problem of a database that cannot be opened. What may pass by itself is told apart
/// from what does not.
fn to_problem(error: DatabaseError) -> OpenProblem {
    if let DatabaseError::Newer { found, known } = error {
        let version = |number| i64::try_from(number).unwrap_or(i64::MAX);
        return OpenProblem::Newer { found: version(found), known: version(known) };
    }
    let code = error.code().map_or("", |code| code.code());
    // The user is refused, there is no such database, and the user may not make or use the tables.
    let is_refused = code.starts_with("28") || code == "3D000" || code == "42501";
    match is_refused {
        true => OpenProblem::Refused(error.to_string()),
        false => OpenProblem::Away(error.to_string()),
    }
}

impl From<DatabaseError> for StoreFault {
    fn from(error: DatabaseError) -> Self {
        let code = error.code().map_or("", |code| code.code());
        // A value that no column takes, or that is too large.
        let is_data = ["22", "23", "54"].iter().any(|class| code.starts_with(class));
        let kind = match is_data && !error.is_conflict() {
            true => FaultKind::Record,
            false => FaultKind::Passing,
        };
        Self { kind, why: error.to_string() }
    }
}

impl From<softland_postgres::tokio_postgres::Error> for StoreFault {
    fn from(error: softland_postgres::tokio_postgres::Error) -> Self {
        DatabaseError::from(error).into()
    }
}
