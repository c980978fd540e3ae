//! All that is printed. What events look like is a pure function ([`Tree`], [`summary()`]) of the
//! events, a width and a few settings; [`Writer`] carries it to the two streams.
//!
//! It moves no cursor, but for a progress bar on a terminal: what was printed stays, on terminals
//! and in logs alike.

mod markdown;
mod pieces;
mod progress;
mod summary;
mod text;
mod tree;
mod view;
mod writer;

pub(crate) use summary::summary;
pub(crate) use text::{MIN_WIDTH, count, flow, grouped, harmless_char, harmless_line};
pub(crate) use tree::Tree;
pub(crate) use view::{Kept, Show};
pub(crate) use writer::{Lost, Writer};
