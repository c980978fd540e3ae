//! The integration tests of this crate, in one binary: to link each file alone takes longer than to
//! run it.

#[path = "../../../../tests/recordings_required.rs"]
mod recordings_required;

mod above;
mod adversary;
mod audit_page;
mod bodies;
mod budgets;
mod chained;
mod compaction;
mod deep;
mod ends;
mod faults;
mod fees;
mod garbled;
mod governed;
mod hidden;
mod human;
mod identity;
mod kept;
mod keys;
mod ledger_faults;
mod manners;
mod money;
mod observed;
mod pages;
mod replayed;
mod request_limits;
mod retold;
mod sealed;
mod security;
mod shaped;
mod shown_usage;
mod smuggling;
mod stored_keys;
mod summaries;
mod support;
mod tls;
mod told;
mod transparent;
mod truths;
mod upstreams;
mod usage;
mod watching;
mod windows;
