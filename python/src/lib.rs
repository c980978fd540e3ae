//! The module `softland._native`: the governor of `softland-host` for Python.
//!
//! There is glue here and nothing else: Python's values in, Python's values out. Nothing decides here
//! what happens to a request. While Rust works, other threads of Python run. No panic leaves.

mod call;
mod convert;
mod governor;
mod guard;

/// What `softland` is made of; the package `softland` is what to use.
#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::call::Call;
    #[pymodule_export]
    use crate::governor::{
        Governor, Settings, check_shared, find_endpoint, is_provider_host, policy_keys,
        take_messages,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        softland_host::keep_log_messages();
        module.add("__version__", softland_host::VERSION)
    }
}
