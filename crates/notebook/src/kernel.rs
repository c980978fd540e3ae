//! A kernel, seen from a room: orders go in, what happens comes out.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::mpsc;

mod heart;
mod jupyter;
mod signed;
mod specs;
mod talk;
mod told;

pub(crate) use jupyter::Jupyter;
pub(crate) use told::error;

/// Starts kernels.
#[async_trait]
pub(crate) trait Kernels: Send + Sync {
    /// Starts one, and waits until it can run cells.
    ///
    /// # Errors
    /// Why there is none.
    async fn start(&self, wanted: Wanted) -> Result<Link, String>;
}

/// Which kernel is wanted, and where.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Its name; any for Python where nobody said.
    pub(crate) name: Option<String>,
    /// Its working folder.
    pub(crate) folder: PathBuf,
    /// How long it may take to answer a heartbeat.
    pub(crate) silence: Duration,
}

/// A running kernel. It ends when `orders` is dropped.
#[derive(Debug)]
pub(crate) struct Link {
    /// Its kernelspec's name.
    pub(crate) name: String,
    pub(crate) orders: mpsc::UnboundedSender<Order>,
    pub(crate) events: mpsc::Receiver<Event>,
}

/// What a kernel is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    /// Run this; what comes of it bears the number. One at a time.
    Run(u64, String),
    /// Break off what runs.
    Interrupt,
}

/// What a kernel tells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// It has begun a run, with its count.
    Begun(u64, Option<u64>),
    /// Text on a stream.
    Text(u64, String, String),
    /// An output as nbformat has it; and the name by which it may be replaced.
    Output(u64, Value, Option<String>),
    /// Replace what was shown under a name: its data and metadata.
    Update(String, Value, Value),
    /// Forget the outputs; or with `true`, once the next comes.
    Clear(u64, bool),
    /// A run has ended: without an error, and with its count.
    Ended(u64, bool, Option<u64>),
    /// The kernel has not answered for so long, or answers again.
    Silent(Option<Duration>),
    /// The kernel is gone, and why. Nothing follows.
    Dead(String),
}

/// No kernel at all.
#[derive(Debug)]
pub(crate) struct NoKernels;

#[async_trait]
impl Kernels for NoKernels {
    async fn start(&self, _: Wanted) -> Result<Link, String> {
        Err("there is no kernel here".to_owned())
    }
}
