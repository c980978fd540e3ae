//! Governing: one client's request and its response, with everything that softland remembers between
//! requests. It takes the bytes of a request with its head, asks a [`Transport`] for upstream
//! responses, and returns the client's bytes.
//!
//! It opens no socket and no file. The wall clock, the way to the upstreams, the store and those who
//! are told what happens come from the host: a gateway, or another program. Waits use tokio's timer.

pub mod active;
mod body;
pub mod budget;
mod content_store;
mod conversations;
pub mod errors;
pub mod headers;
mod held;
mod identify;
mod key;
pub mod key_store;
mod learned;
pub mod money;
mod names;
mod pass;
pub mod recall;
pub mod records;
mod request;
mod request_id;
mod running;
pub mod runs;
mod services;
mod settings;
pub mod shared;
pub mod signals;
pub mod store;
pub mod suite;
mod target;
mod token_counts;
pub mod transport;
mod turn;
mod unbooked;
mod unmetered;
pub mod watcher;

pub use active::ActiveRequest;
pub use body::{Body, BodyObserver, BodySender, ClientGone, CutReason};
pub use content_store::ContentStore;
pub use conversations::Conversations;
pub use errors::Refusal;
pub use held::HeldLeases;
pub use key::{ClientKey, TokenDigest, is_account, is_account_part, is_key_name};
pub use key_store::{KeyStore, LocalKeyStore, StoredKey, StoredKeys};
pub use learned::{KnownModel, KnownModels, LearnedLimit, ModelLessons};
pub use names::NameGenerator;
pub use pass::{pass_request, respond_with_upstream};
pub use request::{BudgetAround, ClientRequest};
pub use request_id::{RequestId, RequestIds};
pub use running::RunningRequests;
pub use services::{Clock, Services};
pub use settings::{GovernSettings, NotSelectable, Prices, Protocol, Route, Shaping};
pub use shared::{Closed, Closing, LocalState, SharedState, StateNote};
pub use signals::{RequestSignal, RequestSignals};
pub use target::Target;
pub use token_counts::TokenCounts;
pub use transport::{Transport, TransportError, UpstreamRequest, UpstreamResponse, is_failure};
pub use turn::{count_tokens, govern_turn, stop_opaque};
pub use unbooked::UnbookedSpend;
pub use unmetered::{check_unmetered, is_unmetered, mark_unmetered, unmetered_refusal};
pub use watcher::{BilledRequest, Meter, RunPlace, Unwatched, UsageLabels, Watcher};
