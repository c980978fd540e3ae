//! All that is printed. What events look like is a pure function ([`Tree`], [`summary()`]) of the
//! events, a width and a few settings; [`Writer`] carries it to the two streams.
//!
//! What was printed stays, on terminals and in logs alike; below it a terminal has a line that says
//! what is waited for ([`status`]), or how far a long reading has come ([`progress`]).

mod markdown;
mod pieces;
mod progress;
pub(crate) mod status;
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
