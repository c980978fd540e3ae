//! The integration tests of this crate: whole requests, without a socket, over a scripted transport.

mod broken;
mod budgets;
mod cache;
mod keys;
mod landing;
mod lost;
mod money;
mod shared;
mod support;
mod windows;

#[path = "../../../../tests/servers/windows.rs"]
mod model;
