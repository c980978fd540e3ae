//! Where a ledger is: in a file, or in a database that several gateways share.

use std::fmt;
use std::path::{Path, PathBuf};

#[cfg(feature = "postgres")]
use crate::postgres::PostgresPlace;

/// Where a ledger is.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LedgerPlace {
    /// In this SQLite file.
    File(PathBuf),
    /// In a PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(PostgresPlace),
}

impl LedgerPlace {
    /// Returns the place at an address that begins with `postgres:` or `postgresql:`. Nothing is
    /// connected yet.
    ///
    /// # Errors
    /// Returns a message that repeats nothing of the address, which may contain a password.
    #[cfg(feature = "postgres")]
    pub fn from_url(url: &str) -> Result<Self, String> {
        PostgresPlace::new(url).map(Self::Postgres)
    }

    /// Returns the file, if the ledger is one.
    #[must_use]
    pub fn as_file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => None,
        }
    }
}

impl From<PathBuf> for LedgerPlace {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl From<&Path> for LedgerPlace {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

impl From<&PathBuf> for LedgerPlace {
    fn from(path: &PathBuf) -> Self {
        Self::File(path.clone())
    }
}

impl From<&Self> for LedgerPlace {
    fn from(place: &Self) -> Self {
        place.clone()
    }
}

/// The file's path, or the address without user and password.
impl fmt::Display for LedgerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            #[cfg(feature = "postgres")]
            Self::Postgres(place) => place.fmt(f),
        }
    }
}

impl fmt::Debug for LedgerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.fmt(f),
            #[cfg(feature = "postgres")]
            Self::Postgres(place) => place.fmt(f),
        }
    }
}
