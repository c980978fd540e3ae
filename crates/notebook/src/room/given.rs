//! What a cell gives, kept within bounds.

use super::shared::Shared;
use crate::document::Read;
use crate::types::{By, Cell};

/// A cell of a file, as it is shown.
pub(super) fn shown(read: Read) -> Cell {
    Cell {
        id: read.id,
        kind: read.kind,
        source: read.source,
        rev: 0,
        outputs: read.outputs,
        execution_count: read.count,
        running: false,
        by: By::Human,
    }
}

impl Shared {
    /// What a cell has displayed under names is no longer there.
    pub(super) fn forget_displays(&mut self, id: &str) {
        for places in self.displays.values_mut() {
            places.retain(|(cell, _)| cell != id);
        }
        self.displays.retain(|_, places| !places.is_empty());
    }
}
