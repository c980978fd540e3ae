//! The columns of a row, whichever database it is from.

use std::sync::Arc;

use crate::store::StoreFault;

/// The columns of a row, counted from 0.
pub(crate) trait Columns {
    /// The error of a column that cannot be read.
    type Error;

    /// Returns an integer.
    fn optional_int(&self, at: usize) -> Result<Option<i64>, Self::Error>;

    /// Returns a text.
    fn optional_text(&self, at: usize) -> Result<Option<String>, Self::Error>;

    /// Returns a text to share.
    fn name(&self, at: usize) -> Result<Option<Arc<str>>, Self::Error>;

    /// Returns bytes.
    fn bytes(&self, at: usize) -> Result<Vec<u8>, Self::Error>;

    /// Returns a count. A negative number becomes 0.
    fn count(&self, at: usize) -> Result<u64, Self::Error> {
        Ok(self.optional_count(at)?.unwrap_or(0))
    }

    /// Returns a count that may be unknown.
    fn optional_count(&self, at: usize) -> Result<Option<u64>, Self::Error> {
        Ok(self.optional_int(at)?.map(|number| u64::try_from(number).unwrap_or(0)))
    }

    /// Returns a truth value, which is kept as a number.
    fn flag(&self, at: usize) -> Result<bool, Self::Error> {
        Ok(self.optional_int(at)?.is_some_and(|number| number != 0))
    }

    /// Returns a text; empty if there is none.
    fn text(&self, at: usize) -> Result<String, Self::Error> {
        Ok(self.optional_text(at)?.unwrap_or_default())
    }
}

impl Columns for rusqlite::Row<'_> {
    type Error = rusqlite::Error;

    fn optional_int(&self, at: usize) -> rusqlite::Result<Option<i64>> {
        self.get(at)
    }

    fn optional_text(&self, at: usize) -> rusqlite::Result<Option<String>> {
        self.get(at)
    }

    fn name(&self, at: usize) -> rusqlite::Result<Option<Arc<str>>> {
        self.get(at)
    }

    fn bytes(&self, at: usize) -> rusqlite::Result<Vec<u8>> {
        self.get(at)
    }
}

#[cfg(feature = "postgres")]
impl Columns for softland_postgres::tokio_postgres::Row {
    type Error = softland_postgres::tokio_postgres::Error;

    fn optional_int(&self, at: usize) -> Result<Option<i64>, Self::Error> {
        self.try_get(at)
    }

    fn optional_text(&self, at: usize) -> Result<Option<String>, Self::Error> {
        self.try_get(at)
    }

    fn name(&self, at: usize) -> Result<Option<Arc<str>>, Self::Error> {
        Ok(self.try_get::<_, Option<&str>>(at)?.map(Arc::from))
    }

    fn bytes(&self, at: usize) -> Result<Vec<u8>, Self::Error> {
        self.try_get(at)
    }
}

/// A row of any database.
pub(crate) enum AnyRow<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    #[cfg(feature = "postgres")]
    Postgres(&'a softland_postgres::tokio_postgres::Row),
}

macro_rules! of_either {
    ($self:ident, $row:ident => $value:expr) => {
        match $self {
            AnyRow::Sqlite($row) => $value.map_err(StoreFault::from),
            #[cfg(feature = "postgres")]
            AnyRow::Postgres($row) => $value.map_err(StoreFault::from),
        }
    };
}

impl Columns for AnyRow<'_> {
    type Error = StoreFault;

    fn optional_int(&self, at: usize) -> Result<Option<i64>, StoreFault> {
        of_either!(self, row => row.optional_int(at))
    }

    fn optional_text(&self, at: usize) -> Result<Option<String>, StoreFault> {
        of_either!(self, row => row.optional_text(at))
    }

    fn name(&self, at: usize) -> Result<Option<Arc<str>>, StoreFault> {
        of_either!(self, row => row.name(at))
    }

    fn bytes(&self, at: usize) -> Result<Vec<u8>, StoreFault> {
        of_either!(self, row => row.bytes(at))
    }
}
