//! Headers, steps and values of policy keys between Rust and Python.

use http::{HeaderMap, HeaderName, HeaderValue};
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use softland_host::Step;
use softland_host::core::policy::PolicyValue;

/// Headers as Python's HTTP clients have them.
pub(crate) type RawHeaders = Vec<(Vec<u8>, Vec<u8>)>;

/// Headers that carry credentials. Governing does not need them.
const CREDENTIALS: [&str; 5] =
    ["authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"];

/// Returns the headers, without those that are not valid and those that carry credentials.
pub(crate) fn read_headers(raw: RawHeaders) -> HeaderMap {
    let named = raw.into_iter().filter_map(|(name, value)| {
        let name = HeaderName::from_bytes(&name).ok()?;
        let value = HeaderValue::from_bytes(&value).ok()?;
        (!CREDENTIALS.contains(&name.as_str())).then_some((name, value))
    });
    let mut headers = HeaderMap::new();
    named.for_each(|(name, value)| {
        headers.append(name, value);
    });
    headers
}

/// Returns headers as a list of pairs.
pub(crate) fn write_headers<'py>(
    py: Python<'py>,
    headers: &HeaderMap,
) -> PyResult<Bound<'py, PyAny>> {
    let pairs = headers.iter().map(|(name, value)| {
        (PyBytes::new(py, name.as_str().as_bytes()), PyBytes::new(py, value.as_bytes()))
    });
    PyList::new(py, pairs.collect::<Vec<_>>())?.into_bound_py_any(py)
}

/// Returns a step as a tuple, whose first member is its kind: `softland/_steps.py` names them.
pub(crate) fn write_step<'py>(py: Python<'py>, step: Step) -> PyResult<Bound<'py, PyTuple>> {
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
    match step {
        Step::Send(sent) => {
            let left = sent.time_left.map(|left| left.as_secs_f64());
            (0, bytes(&sent.body), sent.path, left).into_pyobject(py)
        }
        Step::Head(status, headers) => {
            (1, status.as_u16(), write_headers(py, &headers)?).into_pyobject(py)
        }
        Step::Answer { status, headers, body, failed } => {
            let headers = write_headers(py, &headers)?;
            (2, status.as_u16(), headers, bytes(&body), failed).into_pyobject(py)
        }
        Step::Read(out) => (3, bytes(&out)).into_pyobject(py),
        Step::Give(out) => (4, bytes(&out)).into_pyobject(py),
        Step::End { bytes: out, broken } => (5, bytes(&out), broken).into_pyobject(py),
        Step::Wait => (6,).into_pyobject(py),
    }
}

/// Reads the value of a policy key.
///
/// # Errors
/// Returns a `TypeError` for a value that is no `Decimal` and of another type than JSON has.
pub(crate) fn read_value(value: &Bound<'_, PyAny>) -> PyResult<PolicyValue> {
    if value.is_none() {
        return Ok(PolicyValue::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(PolicyValue::Bool(value.is_true()));
    }
    if let Ok(value) = value.cast::<PyInt>() {
        return Ok(PolicyValue::Int(value.extract()?));
    }
    if let Ok(value) = value.cast::<PyFloat>() {
        return Ok(PolicyValue::Float(value.extract()?));
    }
    if let Ok(value) = value.cast::<PyString>() {
        return Ok(PolicyValue::Text(value.extract()?));
    }
    if let Ok(table) = value.cast::<PyDict>() {
        let members =
            table.iter().map(|(name, value)| Ok((name.extract::<String>()?, read_value(&value)?)));
        return members.collect::<PyResult<_>>().map(PolicyValue::Map);
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| read_value(&item?));
        return items.collect::<PyResult<_>>().map(PolicyValue::List);
    }
    let kind = value.get_type().name()?;
    if kind == "Decimal" {
        // An exact amount of money, in the text that policy keys allow for one.
        return Ok(PolicyValue::Text(value.str()?.extract()?));
    }
    Err(PyTypeError::new_err(format!("a policy key cannot have a value of the type {kind}")))
}
