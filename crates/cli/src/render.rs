//! All output of the program. The view of a run's events is a pure function of the events, a width
//! and a few options; a writer prints it to the two streams.
//!
//! Printed output is never changed, on terminals and in logs alike. Below it a terminal may have a
//! line with the current [`status`] of the runs, or the [`progress`] of a long reading.

mod markdown;
mod pieces;
mod progress;
pub(crate) mod status;
mod summary;
mod text;
mod tree;
mod view;
mod writer;

pub(crate) use summary::{SIMULATED, render_summary};
pub(crate) use text::{
    MIN_WIDTH, flow_items, format_count, format_token_sums, group_digits, harmless_char,
    harmless_line,
};
pub(crate) use tree::RunTreeView;
pub(crate) use view::{CallLocator, ViewOptions};
pub(crate) use writer::{OutputLoss, Writer};
