//! The cases of the adversaries, which the tests of other crates share.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    clippy::allow_attributes,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "shared with other crates"
)]

#[path = "../../../session/tests/it/common/case.rs"]
pub(crate) mod case;
#[path = "../../../agent/tests/it/adversary/cases.rs"]
pub(crate) mod cases;
#[path = "../../../agent/tests/it/adversary/checks.rs"]
pub(crate) mod checks;
#[path = "../../../session/tests/it/common/hostile.rs"]
pub(crate) mod hostile;
#[path = "../../../session/tests/it/common/reading.rs"]
mod reading;
#[path = "../../../session/tests/it/common/seeds.rs"]
pub(crate) mod seeds;
#[path = "../../../agent/tests/it/adversary/watch.rs"]
pub(crate) mod watch;
