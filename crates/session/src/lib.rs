//! One client request and its response, observed and governed: bytes in, bytes and verdicts out.
//!
//! [`Exchange`] takes the request a client sent, and says what to send upstream; it takes what
//! comes back, and says what the client gets, until the turn is the client's again or the run has
//! ended. What was not changed keeps its bytes.
//!
//! This is the only place where a protocol's words become the core's. It opens no connection,
//! keeps no store (records go in and out as values) and knows no clock.

mod anthropic;
mod block_view;
pub mod bound;
mod chain;
mod chat;
mod exchange;
mod facts;
mod framing;
mod history;
mod kept;
mod local;
mod media;
mod out;
mod outline;
mod passages;
mod past;
pub mod price;
mod protocols;
mod relay;
mod remembered;
mod reply;
mod responses;
pub mod retold;
mod rewrite;
mod sealed;
pub mod summary;
mod tags;
mod tail;

pub use chain::{Chain, ChainLink, ShownResponse};
pub use exchange::{
    BeginError, Context, Done, Exchange, ExchangeEnded, KnownFacts, KnownMoney, OpenedRequest,
    PendingCall, Step, UnfinishedResponse, UnreadableResponse, error_event, local_response,
    ping_event,
};
pub use facts::{ResultReader, TextReader, read_result};
pub use kept::{Kept, RunMemory};
pub use local::{find_local_answer, read_local_reason};
pub use out::{Event, Intervention, Output, ShapeNote};
pub use outline::{ModelTurn, Outline, ShownCall};
pub use past::Past;
pub use remembered::{SeenResult, StoredConversation, StoredTail};
pub use softland_core as core;
pub use softland_wire as wire;
pub use tags::{results_text, uses_tags};
