//! A kernel, as a notebook sees it: commands go in, events come out.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::mpsc;

mod connection;
mod heartbeat;
mod jupyter;
mod messages;
mod signed;
mod specs;

pub(crate) use jupyter::JupyterStarter;
pub(crate) use messages::error_output;

/// A starter of kernels.
#[async_trait]
pub(crate) trait KernelStarter: Send + Sync {
    /// Starts a kernel, and waits until it can run cells.
    ///
    /// # Errors
    /// Returns the reason why there is none.
    async fn start_kernel(&self, wanted: KernelRequest) -> Result<KernelHandle, String>;
}

/// The kernel to start, and its settings.
#[derive(Clone, Debug)]
pub(crate) struct KernelRequest {
    /// The kernel's name; `None` stands for Python's kernel.
    pub(crate) name: Option<String>,
    /// The kernel's working folder.
    pub(crate) folder: PathBuf,
    /// The longest time that the kernel may take to answer a heartbeat.
    pub(crate) silence: Duration,
}

/// A running kernel. It ends when `orders` is dropped.
#[derive(Debug)]
pub(crate) struct KernelHandle {
    /// The name of its kernelspec.
    pub(crate) name: String,
    pub(crate) orders: mpsc::UnboundedSender<KernelCommand>,
    pub(crate) events: mpsc::Receiver<KernelEvent>,
}

/// A command to a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KernelCommand {
    /// Runs this source; its events carry the number. One run at a time.
    Run(u64, String),
    /// Interrupts the current run.
    Interrupt,
}

/// An event from a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KernelEvent {
    /// A run has begun, with its execution count.
    Begun(u64, Option<u64>),
    /// Text on a stream.
    Text(u64, String, String),
    /// An output, as in nbformat, and the name by which it may be replaced.
    Output(u64, Value, Option<String>),
    /// New data and metadata for the output displayed under a name.
    Update(u64, String, Value, Value),
    /// Clear the outputs; with `true`, once the next one comes.
    Clear(u64, bool),
    /// A run has ended: true without an error, and its execution count.
    Ended(u64, bool, Option<u64>),
    /// The kernel has not answered for this time, or answers again.
    Silent(Option<Duration>),
    /// The kernel is gone, with the reason. Nothing follows.
    Dead(String),
}

/// A starter that has no kernels.
#[derive(Debug)]
pub(crate) struct NoKernels;

#[async_trait]
impl KernelStarter for NoKernels {
    async fn start_kernel(&self, _: KernelRequest) -> Result<KernelHandle, String> {
        Err("there is no kernel here".to_owned())
    }
}
