//! The interface through which the pages show an audit. The gateway itself reads no recordings: the
//! program that fills in its settings brings the reader.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Makes reports on recorded sessions.
pub trait Audit: fmt::Debug + Send + Sync {
    /// Returns the report on a file. Blocks. Parts that cannot be read are listed in the report.
    fn write_report(&self, asked: &AuditRequest<'_>) -> String;

    /// Returns the media type and the bytes of a file that the page with a report needs, by its
    /// path.
    fn find_file(&self, path: &str) -> Option<(&'static str, &'static [u8])>;

    /// Returns the folder for recordings that browsers upload, until they are read.
    fn upload_folder(&self) -> PathBuf {
        std::env::temp_dir()
    }
}

/// A request for a report.
#[derive(Clone, Copy, Debug)]
pub struct AuditRequest<'a> {
    /// The recording.
    pub path: &'a Path,
    /// The file's name in the report, if it is none of this machine's files.
    pub name: Option<&'a str>,
    /// The format of the report.
    pub form: AuditFormat,
    /// Set to true when nobody waits for the report any more.
    pub stop: &'a AtomicBool,
}

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditFormat {
    /// The JSON of `softland audit --format json`, for programs.
    Json,
    /// A part of a page.
    Page,
}
