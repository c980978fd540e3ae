//! Calls into Rust without the interpreter's lock, and without a panic that leaves.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::{PyResult, Python};

/// Runs `work` while other threads of Python run.
///
/// # Errors
/// Returns a `RuntimeError` if it panics.
pub(crate) fn run_detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    done.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        PyRuntimeError::new_err(format!("softland has a fault, which should be reported: {text}"))
    })
}
