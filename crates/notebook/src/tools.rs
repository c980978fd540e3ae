//! The assistant's tools over a room.

use std::sync::Arc;

use softland_agent::ToolSet;

use crate::room::Room;

/// The five tools of one conversation over a notebook; they hold which revisions it has seen.
#[must_use]
pub fn tools(_room: &Arc<Room>) -> ToolSet {
    ToolSet::new()
}
