//! What a run has used so far, as its transcript shows it.

use alloc::collections::BTreeMap;
use alloc::string::String;

use serde::{Deserialize, Serialize};

/// What a run has used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Tool calls that were admitted; answer tools and provider-run tools apart.
    pub calls: u64,
    /// The same by tool name.
    pub by_tool: BTreeMap<String, u64>,
    /// Turns of the model.
    pub turns: u64,
    /// Rounds that were answered.
    pub rounds: u64,
    /// Characters of tool results.
    pub result_chars: u64,
    /// The tool last refused by its own limit, and how many turns were so refused in all.
    pub refused_tool: Option<(String, u64)>,
}
