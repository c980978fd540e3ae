//! What programs share that govern requests: the records of governing as a ledger keeps them, and a
//! governor that lives in the program that makes the requests.
//!
//! [`Governor`] needs no thread, no socket and no runtime of its own, unless its state is in a store
//! that processes share ([`SharedUrl`]): then one thread works for that store. A [`Call`] is one request: it
//! says step by step what is to be sent, read and given, and the program does that in its own way,
//! waiting or not. How a run is bounded is decided by [`softland_govern`] alone.

mod call;
mod governor;
mod hosts;
mod link;
mod messages;
mod named;
mod records;
mod runtimes;
mod settings;
mod shared;
mod watch;
mod worker;

pub use call::{Call, Outgoing, Step};
pub use governor::{CallRequest, Governor, GovernorOptions, StartError};
pub use hosts::{Endpoint, PROVIDER_HOSTS, find_endpoint, is_provider_host};
pub use messages::{LogMessage, keep_log_messages, take_log_messages};
pub use named::{RunAround, RunName, RunReport};
pub use records::ledger_record;
pub use settings::{PolicyError, PolicyKeys, PolicySource, make_settings};
pub use shared::{SharedStores, SharedUrl, connect_shared, describe_missing_feature};
pub use softland_govern as govern;
pub use softland_session::{core, wire};

/// The version of softland.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
