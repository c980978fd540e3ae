//! The governor of the process, and the settings of its requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use softland_host::core::policy::KEYS;
use softland_host::govern::GovernSettings;
use softland_host::{
    CallRequest, Endpoint, GovernorOptions, PolicySource, RunAround, RunName, RunReport, SharedUrl,
    make_settings,
};

use crate::call::Call;
use crate::convert::{RawHeaders, read_headers, read_value, write_headers, write_step};
use crate::guard::run_detached;

/// The limits and other settings of requests.
#[pyclass(frozen, module = "softland._native")]
pub(crate) struct Settings(Arc<GovernSettings>);

#[pymethods]
impl Settings {
    /// Makes settings of a policy's name, of policy keys, of prices and of tags. `is_configured` says
    /// that the name is one of a config.
    #[new]
    fn new(
        policy: Option<&str>,
        is_configured: bool,
        keys: &Bound<'_, PyDict>,
        prices: Vec<(String, BTreeMap<String, f64>)>,
        tags: Vec<String>,
        allow_unmetered: bool,
    ) -> PyResult<Self> {
        let keys = keys.iter().map(|(name, value)| Ok((name.extract()?, read_value(&value)?)));
        let keys = keys.collect::<PyResult<Vec<_>>>()?;
        let name = policy;
        let source = PolicySource { name, is_configured, keys, prices, tags, allow_unmetered };
        let made = make_settings(&source);
        let made = made.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self(Arc::new(made)))
    }

    /// True if anything is limited.
    #[getter]
    fn limits(&self) -> bool {
        softland_host::Governor::limits_anything(&self.0)
    }

    /// True if money is limited.
    #[getter]
    fn limits_money(&self) -> bool {
        softland_host::Governor::limits_money(&self.0)
    }
}

/// The governor of the process.
#[pyclass(frozen, module = "softland._native")]
pub(crate) struct Governor(softland_host::Governor);

/// A request as Python hands it over: host, path, query, headers and body.
type RawRequest<'a> = (String, &'a str, Option<String>, RawHeaders, &'a [u8]);
/// A run's name, and the runs around it with their settings, the innermost first.
type RawName<'py> = (String, Vec<(String, Option<Bound<'py, Settings>>)>);
/// A response of softland's: status, headers and body.
type RawResponse<'py> = (u16, Bound<'py, PyAny>, Vec<u8>);
/// What is told of a run: outcome, reason, answered_by, cost in dollars, tool calls, turns, names.
type RawReport =
    (Option<String>, Option<String>, Option<&'static str>, Option<f64>, u64, u64, Vec<String>);

#[pymethods]
impl Governor {
    /// Makes a governor. Its state is in the store at the address `shared`, or in memory.
    #[new]
    fn new(
        py: Python<'_>,
        events: bool,
        ledger: Option<std::path::PathBuf>,
        shared: Option<&str>,
    ) -> PyResult<Self> {
        let shared = shared.map(read_shared).transpose()?;
        let options = GovernorOptions { events, ledger, shared };
        let opened = run_detached(py, || softland_host::Governor::open(options))?;
        opened.map(Self).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Begins a request to a governed path. Returns the call and its first step.
    fn begin<'py>(
        &self,
        py: Python<'py>,
        settings: &Settings,
        request: RawRequest<'_>,
        run: Option<RawName<'py>>,
        waits: bool,
    ) -> PyResult<(Call, Bound<'py, PyTuple>)> {
        let (host, path, query, headers, body) = request;
        let endpoint = softland_host::find_endpoint(path)
            .ok_or_else(|| PyValueError::new_err("this path is not governed"))?;
        let request = CallRequest {
            endpoint,
            host: host.into(),
            query,
            headers: read_headers(headers),
            body: Bytes::copy_from_slice(body),
            run: run.map(read_name),
        };
        let begun = run_detached(py, || {
            let mut call = self.0.begin_call(&settings.0, request)?;
            let step = call.advance(waits);
            Ok((call, step))
        })?;
        let (call, step) = begun.map_err(PyRuntimeError::new_err::<String>)?;
        Ok((Call::new(call), write_step(py, step)?))
    }

    /// Returns the refusal of a POST to a path that is not governed, as status, headers and body;
    /// `None` if it passes.
    fn refuse_unmetered<'py>(
        &self,
        py: Python<'py>,
        settings: &Settings,
        host: String,
        path: &str,
        headers: RawHeaders,
    ) -> PyResult<Option<RawResponse<'py>>> {
        let refusal =
            self.0.refuse_unmetered(&settings.0, (host.into(), path), read_headers(headers));
        let refusal = refusal.map_err(PyRuntimeError::new_err::<String>)?;
        let Some((status, headers, body)) = refusal else { return Ok(None) };
        Ok(Some((status.as_u16(), write_headers(py, &headers)?, body.to_vec())))
    }

    /// Sets whether events are kept for `take_events`.
    fn set_events(&self, wanted: bool) {
        self.0.set_events(wanted);
    }

    /// Sets the file of the ledger.
    fn set_ledger(&self, py: Python<'_>, path: Option<std::path::PathBuf>) -> PyResult<()> {
        let opened = run_detached(py, || self.0.set_ledger(path))?;
        opened.map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Closes the ledger's file until it is set again, and loses no record meanwhile.
    fn pause_ledger(&self, py: Python<'_>) -> PyResult<()> {
        run_detached(py, || self.0.pause_ledger())
    }

    /// Lets it live as long as the process, in which no thread of it runs: after a fork.
    fn abandon(&self) {
        self.0.abandon();
    }

    /// Ends what is open, and closes the ledger.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        run_detached(py, || self.0.close())
    }

    /// Returns the events since the last time, each a JSON object.
    fn take_events(&self) -> Vec<String> {
        self.0.take_events()
    }

    /// Begins to note what belongs to a run. `around` are the runs around it, the innermost first.
    fn open_run(&self, name: String, around: Vec<String>) {
        let around = around.into_iter().map(|name| (name, None)).collect();
        self.0.open_run(&read_name((name, around)));
    }

    /// Returns what is known of a run, as a tuple.
    fn report_run(&self, py: Python<'_>, name: &str) -> PyResult<Option<RawReport>> {
        Ok(run_detached(py, || self.0.report_run(name))?.map(write_report))
    }

    /// Forgets a run.
    fn close_run(&self, name: &str) {
        self.0.close_run(name);
    }
}

/// Returns the name of the API that a POST to this path asks; `None` if the path is not governed.
#[pyfunction]
pub(crate) fn find_endpoint(path: &str) -> Option<&'static str> {
    softland_host::find_endpoint(path).map(Endpoint::path)
}

/// Returns the names of all policy keys.
#[pyfunction]
pub(crate) fn policy_keys() -> Vec<&'static str> {
    KEYS.iter().map(|key| key.name).collect()
}

/// Returns true for the host of a known provider.
#[pyfunction]
pub(crate) fn is_provider_host(host: &str) -> bool {
    softland_host::is_provider_host(host)
}

/// Returns what was logged since the last time: whether each message is an error, and its text.
#[pyfunction]
pub(crate) fn take_messages() -> Vec<(bool, String)> {
    let messages = softland_host::take_log_messages();
    messages.into_iter().map(|message| (message.is_error, message.text)).collect()
}

/// Checks the address of a shared state.
#[pyfunction]
pub(crate) fn check_shared(url: &str) -> PyResult<()> {
    read_shared(url).map(drop)
}

fn read_shared(url: &str) -> PyResult<SharedUrl> {
    SharedUrl::parse(url).map_err(|message| PyValueError::new_err(format!("shared: {message}")))
}

fn read_name((name, around): RawName<'_>) -> RunName {
    let around = around.into_iter().map(|(name, settings)| {
        let settings = settings.map(|settings| Arc::clone(&settings.get().0));
        RunAround { name: name.into(), settings }
    });
    RunName { name: name.into(), around: around.collect() }
}

fn write_report(report: RunReport) -> RawReport {
    let RunReport { outcome, reason, answered_by, cost, tool_calls, turns, runs } = report;
    let cost = cost.map(|cost| cost.to_dollars());
    let runs = runs.iter().map(|run| run.to_string()).collect();
    (outcome, reason, answered_by, cost, tool_calls, turns, runs)
}
