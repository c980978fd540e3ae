//! One request, step by step.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::StatusCode;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use softland_host::Step;

use crate::convert::{RawHeaders, read_headers, write_step};
use crate::guard::run_detached;

/// One request. Each method returns the next step. With `waits`, a method waits until there is one.
#[pyclass(frozen, weakref, module = "softland._native")]
pub(crate) struct Call(Mutex<Option<softland_host::Call>>);

impl Call {
    pub(crate) fn new(call: softland_host::Call) -> Self {
        Self(Mutex::new(Some(call)))
    }

    /// Takes a step. After a fault, there is no call any more.
    fn take_step<'py>(
        &self,
        py: Python<'py>,
        step: impl FnOnce(&mut softland_host::Call) -> Step + Send,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let taken = run_detached(py, || {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut call = kept.take()?;
            let step = step(&mut call);
            *kept = Some(call);
            Some(step)
        })?;
        let taken = taken.ok_or_else(|| PyValueError::new_err("this request was closed"))?;
        write_step(py, taken)
    }
}

#[pymethods]
impl Call {
    /// Returns the next step.
    fn advance<'py>(&self, py: Python<'py>, waits: bool) -> PyResult<Bound<'py, PyTuple>> {
        self.take_step(py, |call| call.advance(waits))
    }

    /// Takes the head of the upstream's response, and its body unless that is read in pieces.
    fn respond<'py>(
        &self,
        py: Python<'py>,
        status: u16,
        headers: RawHeaders,
        body: Option<&[u8]>,
        waits: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let status = StatusCode::from_u16(status);
        let status = status.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let (headers, body) = (read_headers(headers), body.map(Bytes::copy_from_slice));
        self.take_step(py, |call| call.respond(status, headers, body, waits))
    }

    /// Takes the next bytes of the upstream's response.
    fn push<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
        waits: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let data = Bytes::copy_from_slice(data);
        self.take_step(py, |call| call.push(data, waits))
    }

    /// Notes the end of the upstream's response.
    fn finish<'py>(&self, py: Python<'py>, waits: bool) -> PyResult<Bound<'py, PyTuple>> {
        self.take_step(py, |call| call.finish(waits))
    }

    /// Notes that the upstream's response does not come, or broke off.
    fn fail<'py>(
        &self,
        py: Python<'py>,
        message: &str,
        is_late: bool,
        waits: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        self.take_step(py, |call| call.fail(message, is_late, waits))
    }

    /// Returns the seconds until the run's deadline, if it has one.
    fn time_left(&self) -> Option<f64> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref()?.time_left().map(|left| left.as_secs_f64())
    }

    /// Gives the request up, and books what came of it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        run_detached(py, || {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(kept);
        })
    }

    /// Does the same, unless another thread takes a step.
    fn try_close(&self, py: Python<'_>) -> PyResult<()> {
        run_detached(py, || {
            let kept = self.0.try_lock().ok().and_then(|mut kept| kept.take());
            drop(kept);
        })
    }

    /// Lets it live as long as the process, which was forked from the one that will book it.
    fn abandon(slf: Py<Self>) {
        if let Ok(mut kept) = slf.get().0.try_lock() {
            std::mem::forget(kept.take());
        }
        std::mem::forget(slf);
    }
}
