//! The gateway's log. `SOFTLAND_LOG` is a filter such as `debug` or `softland_gateway=debug`; the
//! default is `info`.
//!
//! Lines of other crates below `info` are never written, whatever the filter says: they may contain
//! headers, and with them credentials. softland's own lines contain none.

mod queue;

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::Failure;
use crate::platform::make_private;
use crate::render::Writer;
pub(crate) use queue::LogGuard;

/// The variable that holds the filter.
const VARIABLE: &str = "SOFTLAND_LOG";

/// Logs to standard error.
///
/// # Errors
/// Returns a failure if the filter is invalid.
pub(crate) fn log_to_stderr() -> Result<LogGuard, Failure> {
    start_log(std::io::stderr(), Writer::for_process().colour())
}

/// Appends the log to a file. A new file can be read by its owner only.
///
/// # Errors
/// Returns a failure if the filter is invalid or the file cannot be written.
pub(crate) fn log_to_file(path: &Path) -> Result<LogGuard, Failure> {
    let file = make_private(OpenOptions::new().create(true).append(true)).open(path);
    let file = file.map_err(|error| {
        Failure::usage(format!("--log {}: the file cannot be written: {error}", path.display()))
    })?;
    start_log(file, false)
}

fn start_log(out: impl Write + Send + 'static, colour: bool) -> Result<LogGuard, Failure> {
    let cannot =
        |error: &dyn Display| Failure::usage(format!("the log cannot be started: {error}"));
    let filter = parse_filter()?;
    let (lines, log) = queue::start_writer(out).map_err(|error| cannot(&error))?;
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(lines)
        .with_ansi(colour)
        .with_target(false)
        // A log that cannot be written is written nowhere else.
        .log_internal_errors(false)
        .with_filter(filter.and(filter_fn(may_be_logged)));
    let started = tracing_subscriber::registry().with(layer).try_init();
    started.map_err(|error| cannot(&error))?;
    Ok(log)
}

fn parse_filter() -> Result<EnvFilter, Failure> {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let builder = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    builder.parse(&text).map_err(|error| {
        Failure::usage(format!(
            "{VARIABLE} must be a level (error, warn, info, debug, trace or off) or a filter such \
             as softland_gateway=debug: {error}"
        ))
    })
}

fn may_be_logged(what: &Metadata<'_>) -> bool {
    let own = what.target().starts_with("softland");
    own || *what.level() <= Level::INFO
}
