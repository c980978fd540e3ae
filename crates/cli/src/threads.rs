//! The runtime of the gateway's threads.

use std::io;
use std::num::NonZero;
use std::thread;

use tokio::runtime::{Builder, Runtime};

/// Builds a runtime with a thread for each core that the process may use. With a single core the
/// runtime uses the caller's thread, without the overhead of sharing work; tasks then make progress
/// only while the caller waits in `block_on`.
pub(crate) fn build_serving_runtime() -> io::Result<Runtime> {
    let alone = thread::available_parallelism().is_ok_and(|cores| cores == NonZero::<usize>::MIN);
    let mut builder =
        if alone { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build()
}
