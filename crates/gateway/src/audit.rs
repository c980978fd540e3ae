//! What the pages need to show an audit. Reading recordings is not the gateway's: who fills in its
//! settings brings it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Makes reports on recorded sessions.
pub trait Audit: fmt::Debug + Send + Sync {
    /// The report on a file. Blocks; what cannot be read stands in it.
    fn report(&self, asked: &AuditAsked<'_>) -> String;

    /// A file that the page with a report needs, by its path: its type and its bytes.
    fn file(&self, path: &str) -> Option<(&'static str, &'static [u8])>;

    /// Where recordings are kept that browsers hand over, until they are read.
    fn folder(&self) -> PathBuf {
        std::env::temp_dir()
    }
}

/// What a report is asked for.
#[derive(Clone, Copy, Debug)]
pub struct AuditAsked<'a> {
    /// The file.
    pub path: &'a Path,
    /// What it is called in the report, where it is none of this machine's.
    pub name: Option<&'a str>,
    /// What the report is for.
    pub form: AuditForm,
    /// Set once nobody wants it any more.
    pub stop: &'a AtomicBool,
}

/// What a report is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditForm {
    /// Programs: the JSON of the contract.
    Json,
    /// A part of a page.
    Page,
}
