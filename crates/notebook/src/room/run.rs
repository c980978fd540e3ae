//! Running cells: the queue before the kernel, and what the kernel tells.

use std::sync::Arc;

use super::Room;
use crate::types::{By, KernelState, KernelStatus, Ran, Refused, RefusedCode};

/// One run of a cell.
#[derive(Debug)]
pub(super) struct Run {}

impl Room {
    pub(super) async fn run_cell(self: &Arc<Self>, cell: &str, _by: By) -> Result<Ran, Refused> {
        self.shared().cell(cell)?;
        self.start_again().await?;
        Err(Refused::new(RefusedCode::Kernel, "cells cannot be run yet"))
    }

    pub(super) fn break_off(&self) {}

    pub(super) async fn start_again(self: &Arc<Self>) -> Result<(), Refused> {
        let _one = self.starting.lock().await;
        let link = self.kernels.start(self.wanted(None)).await;
        link.map(|_| ()).map_err(|why| Refused::new(RefusedCode::Kernel, why))
    }

    pub(super) fn end_kernel(&self, why: &str, state: KernelStatus) {
        let mut shared = self.shared();
        let name = shared.state.kernel.name.clone();
        shared.tell_kernel(KernelState { name, state, why: Some(why.to_owned()) });
    }
}
