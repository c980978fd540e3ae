//! One governed request of any protocol, from its arrival to the end of its response: its
//! conversation, what is sent for it, what the client gets, and what is stored of it.
//!
//! [`softland_session`] decides what to send and what to show; this module carries it out.

mod above;
mod account;
mod count;
mod end;
mod flow;
mod head;
mod history;
mod keepalive;
mod open;
mod policy;
mod scope;
mod signals;
#[cfg(test)]
mod tests;
mod unread;

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use softland_session::wire::Api;
use softland_session::wire::request::{Request, RequestError};

use crate::body::{Body, BudgetShare};
use crate::pass;
use crate::route::Target;
use crate::state::GatewayState;

pub(crate) use count::TokenCounts;
pub(crate) use end::run_end_record;
use open::RequestSetup;
pub(crate) use signals::{RequestSignal, RequestSignals};
pub(crate) use unread::stop_unread;

/// A client's request whose body has been read.
pub(crate) struct ClientRequest {
    pub(crate) gate: Arc<GatewayState>,
    /// Its API.
    pub(crate) api: Api,
    pub(crate) target: Target,
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
    /// The memory of its body, until the body is no longer needed.
    #[expect(dead_code, reason = "it is held, and given back when it is dropped")]
    pub(crate) share: BudgetShare,
    pub(crate) told: RequestSignals,
}

/// Answers a turn. A request that is not valid for the API is passed on unchanged, and the upstream
/// says what is wrong with it.
pub(crate) async fn govern_turn(asked: ClientRequest) -> Response<Body> {
    let asked = Arc::new(asked);
    // Built in place: the future is large, and moving it would copy it whole.
    let making = Box::write(Box::new_uninit(), make_response(Arc::clone(&asked)));
    let mut making: keepalive::PendingResponse = Box::into_pin(making);
    tokio::select! {
        biased;
        response = &mut making => response,
        word = asked.told.wait_any() => match word {
            RequestSignal::Stop => open::refuse_cancelled(&asked.target),
            RequestSignal::Loud => keepalive::keep_alive(&asked, making),
        },
    }
}

async fn make_response(asked: Arc<ClientRequest>) -> Response<Body> {
    let body = asked.body.clone();
    let request = match Request::from_body(asked.api, &body) {
        Ok(request) => request,
        Err(error) => return pass_unread(&asked, &error).await,
    };
    let turn = history::wait_turn(&asked, &request).await;
    let joined = history::join_history(&asked, &request).await;
    let (whole, chain) = joined.map_or((body.clone(), None), |(whole, chain)| (whole, Some(chain)));
    // A request joined from valid parts is valid.
    let request = match &chain {
        Some(_) => match Request::from_body(asked.api, &whole) {
            Ok(joined) => joined,
            Err(error) => return pass_unread(&asked, &error).await,
        },
        None => request,
    };
    let mut opening = match RequestSetup::open_request(&asked, &request).await {
        Ok(opening) => opening,
        Err(answer) => return *answer,
    };
    opening.set_body((whole.clone(), chain));
    opening.turn = turn;
    if let Some(member) = request.apart {
        return opening.pass_apart(member).await;
    }
    match opening.begin_exchange(&request).await {
        Ok(flow) => flow.answer_client().await,
        Err(answer) => *answer,
    }
}

/// Passes on a request that cannot be read, unless a limit holds. It may be served all the same:
/// upstreams accept more or less, and OpenAI's API needs neither model nor input if a stored prompt
/// names them.
async fn pass_unread(asked: &ClientRequest, error: &RequestError) -> Response<Body> {
    let ClientRequest { gate, api, target, parts, body, .. } = asked;
    match stop_unread(gate, (target, *api), parts, body, &error.to_string()) {
        Ok(Some(stopped)) => return stopped,
        Err(refusal) => return refusal.to_response(),
        Ok(None) => {}
    }
    tracing::warn!(id = %target.id, %error, "passed on ungoverned");
    pass::mark_unmetered(pass::pass_whole(gate, target, parts.clone(), body.clone()).await)
}

/// Answers `POST /v1/messages/count_tokens` with the tokens of what would be sent. Nothing is spent
/// and nothing is stored.
pub(crate) async fn count_tokens(asked: ClientRequest) -> Response<Body> {
    let asked = Arc::new(asked);
    let body = asked.body.clone();
    let (target, governed) = match Request::from_body(asked.api, &body) {
        Ok(request) => match RequestSetup::open_request(&asked, &request).await {
            Ok(opening) => (opening.target.clone(), opening.governed_body(&request)),
            Err(answer) => return *answer,
        },
        Err(_) => (asked.target.clone(), body.clone()),
    };
    pass::pass_whole(&asked.gate, &target, asked.parts.clone(), governed).await
}
