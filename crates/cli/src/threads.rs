//! The threads that serve.

use std::io;
use std::num::NonZero;
use std::thread;

use tokio::runtime::{Builder, Runtime};

/// A runtime with a thread for each core that the process may use. Where that is one, it is the
/// caller's own, and what threads need to share work is left out; tasks go on only while it waits
/// for one of them.
pub(crate) fn serving() -> io::Result<Runtime> {
    let alone = thread::available_parallelism().is_ok_and(|cores| cores == NonZero::<usize>::MIN);
    let mut builder =
        if alone { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build()
}
