//! Ledgers in a database: they are copied to a file, which is read like any other.

use std::path::{Path, PathBuf};

use softland_ledger::Reader;
use tempfile::TempDir;

use crate::failure::Failure;
use crate::ledger_file;

/// Paths to read, and the folder of copies among them, which is deleted when this is dropped.
#[derive(Debug)]
pub(super) struct ReadablePaths {
    pub(super) paths: Vec<PathBuf>,
    _copies: Option<TempDir>,
}

impl ReadablePaths {
    /// Copies the ledgers whose addresses are among the paths to files that only this user can read.
    ///
    /// # Errors
    /// Returns a failure if a ledger cannot be read, or a copy cannot be written.
    pub(super) fn copy_ledgers(mut paths: Vec<PathBuf>) -> Result<Self, Failure> {
        let mut copies = None;
        for (at, path) in paths.iter_mut().enumerate().filter(|(_, path)| is_address(path)) {
            let failed = |error: &dyn std::fmt::Display| Failure::usage(error.to_string());
            let folder = match &copies {
                Some(folder) => folder,
                None => copies.insert(tempfile::tempdir().map_err(|error| failed(&error))?),
            };
            let place = ledger_file::named_place(path)?;
            let copy = folder.path().join(format!("ledger-{}.db", at + 1));
            let reader = Reader::open(&place).map_err(|error| failed(&error))?;
            reader.copy_to_file(&copy).map_err(|error| failed(&error))?;
            *path = copy;
        }
        Ok(Self { paths, _copies: copies })
    }
}

/// Returns a path as it is shown: an address without user and password.
pub(super) fn describe_path(path: &Path) -> String {
    match is_address(path) {
        true => ledger_file::named_place(path)
            .map_or_else(|_| "an address of PostgreSQL".to_owned(), |place| place.to_string()),
        false => path.display().to_string(),
    }
}

fn is_address(path: &Path) -> bool {
    path.to_str().is_some_and(ledger_file::is_address)
}
