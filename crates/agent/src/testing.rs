//! A model that plays a script: for examples, and for the tests of a program with an agent in it.
//! It needs no provider, no key and no network, and speaks every [`Api`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use softland_agent::Agent;
//! use softland_agent::testing::{ScriptedModel, ScriptedReply};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Arc::new(ScriptedModel::new([ScriptedReply::from_text("Twelve.")]));
//! let agent = Agent::new("shop", "test/script", Arc::clone(&model) as _);
//! let report = agent.run("How many lamps are there?", &mut |_| {}).await?;
//! assert_eq!(report.answer.as_deref(), Some("Twelve."));
//! assert_eq!(model.requests().len(), 1);
//! # Ok(())
//! # }
//! ```

mod respond;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use softland_session::core::models::{self, Price};

use crate::http::{
    Api, Request, Response, ResponseHead, ServedModel, Transport, TransportError,
    TransportErrorKind,
};

/// The name of the script in errors.
const ORIGIN: &str = "the scripted model";

/// The price of a model that is in no table: nothing is paid for a script.
const FREE: Price =
    Price { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };

/// A [`Transport`] whose model gives prepared replies, one for each request. It counts roughly one
/// token for four bytes. A request beyond the script fails, and so does the run.
#[derive(Debug)]
pub struct ScriptedModel {
    state: Mutex<ScriptState>,
}

#[derive(Debug)]
struct ScriptState {
    replies: VecDeque<ScriptedReply>,
    requests: Vec<Bytes>,
    /// The number of calls so far, for their ids.
    calls: usize,
}

/// One reply of a [`ScriptedModel`].
///
/// ```
/// use serde_json::json;
/// use softland_agent::testing::ScriptedReply;
///
/// ScriptedReply::from_text("I look.").with_call("stock", json!({"article": "lamps"}));
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedReply(ReplyKind);

#[derive(Clone, Debug)]
enum ReplyKind {
    /// A turn: text, if any, and then calls.
    Turn { text: String, calls: Vec<(String, Value)> },
    /// A response with an error status.
    Error { status: u16, message: String },
}

impl ScriptedReply {
    /// Creates a reply that is an answer.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(ReplyKind::Turn { text: text.into(), calls: Vec::new() })
    }

    /// Creates a reply that calls a tool.
    #[must_use]
    pub fn from_call(tool: impl Into<String>, input: Value) -> Self {
        Self::from_text("").with_call(tool, input)
    }

    /// Creates a reply with an error status. Requests with some statuses are sent again, after a
    /// delay that `Options::retry` decides.
    #[must_use]
    pub fn from_error(status: u16, message: impl Into<String>) -> Self {
        Self(ReplyKind::Error { status, message: message.into() })
    }

    /// Adds a call to the turn, beside those that it has. An error stays as it is.
    #[must_use]
    pub fn with_call(mut self, tool: impl Into<String>, input: Value) -> Self {
        if let ReplyKind::Turn { calls, .. } = &mut self.0 {
            calls.push((tool.into(), input));
        }
        self
    }
}

impl ScriptedModel {
    /// Creates a model that gives these replies, in order.
    #[must_use]
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        let replies = replies.into_iter().collect();
        Self { state: Mutex::new(ScriptState { replies, requests: Vec::new(), calls: 0 }) }
    }

    /// Returns the bodies of the requests that have come, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        let state = self.lock_state();
        let parse = |body: &Bytes| serde_json::from_slice(body).unwrap_or_default();
        state.requests.iter().map(parse).collect()
    }

    fn lock_state(&self) -> MutexGuard<'_, ScriptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Transport for ScriptedModel {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let failed = |detail: &str| {
            let detail = detail.to_owned();
            TransportError::new(ORIGIN, TransportErrorKind::Unusable { detail })
        };
        let api = Api::ALL.into_iter().find(|api| api.path() == request.path);
        let api = api.ok_or_else(|| failed("the path is of no known API"))?;
        let mut state = self.lock_state();
        let reply = state.replies.pop_front();
        let ScriptedReply(reply) = reply.ok_or_else(|| failed("the script has no reply left"))?;
        let (begun, bytes) = (state.calls, request.body.len());
        state.requests.push(request.body);
        let (status, content_type, body) = match reply {
            ReplyKind::Error { status, message } => {
                (status, "application/json", respond::error_body(api, &message))
            }
            ReplyKind::Turn { text, calls } => {
                state.calls += calls.len();
                (200, "text/event-stream", respond::stream_body(api, &text, &calls, begun, bytes))
            }
        };
        let content_type = Some(content_type.to_owned());
        let head = ResponseHead { content_type, ..ResponseHead::default() };
        Ok(Response { status, head, body: stream::iter([Ok(body.into())]).boxed() })
    }

    fn served_model(&self, _: Api, model: &str) -> Option<ServedModel> {
        let served = ServedModel::from_name(model);
        let listed = models::find_model(served.provider.as_deref(), &served.name).is_some();
        Some(if listed { served } else { served.with_price(FREE) })
    }
}
