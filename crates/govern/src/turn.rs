//! One governed request of any protocol, from its arrival to the end of its response: its
//! conversation, what is sent for it, what the client gets, and what is stored of it.
//!
//! [`softland_session`] decides what to send and what to show; this module carries it out.

mod above;
mod account;
mod budget;
mod compaction;
mod count;
mod end;
mod end_facts;
mod flow;
mod head;
mod history;
mod keepalive;
mod new_message;
mod open;
mod policy;
mod record;
mod registration;
mod scope;
mod unread;

use std::sync::Arc;

use http::Response;
use softland_session::wire::request::{Request, RequestError};

use crate::body::Body;
use crate::pass;
use crate::request::ClientRequest;
use crate::signals::RequestSignal;
use crate::unmetered::mark_unmetered;

use flow::GovernedRequest;
use open::RequestSetup;
pub use unread::stop_opaque;
use unread::stop_unread;

/// Answers a turn. A request that is not valid for the API is passed on unchanged, and the upstream
/// says what is wrong with it.
pub async fn govern_turn(asked: ClientRequest) -> Response<Body> {
    let asked = Arc::new(asked);
    // Built in place: the future is large, and moving it would copy it whole.
    let making = Box::write(Box::new_uninit(), make_response(Arc::clone(&asked)));
    let mut making: keepalive::PendingResponse = Box::into_pin(making);
    tokio::select! {
        biased;
        response = &mut making => response,
        word = asked.active.signals.wait_any() => match word {
            RequestSignal::Stop => open::refuse_cancelled(&asked.target),
            RequestSignal::EndSilence => keepalive::keep_alive(&asked, making),
        },
    }
}

async fn make_response(asked: Arc<ClientRequest>) -> Response<Body> {
    let body = asked.active.body.clone();
    let request = match Request::from_body(asked.active.api, &body) {
        Ok(request) => request,
        Err(error) => return pass_unread(&asked, &error).await,
    };
    let turn = history::wait_turn(&asked, &request).await;
    let joined = match history::join_history(&asked, &request).await {
        Ok(joined) => joined,
        Err(refused) => return *refused,
    };
    let (whole, chain) = joined.map_or((body.clone(), None), |(whole, chain)| (whole, Some(chain)));
    // A request joined from valid parts is valid.
    let request = match &chain {
        Some(_) => match Request::from_body(asked.active.api, &whole) {
            Ok(joined) => joined,
            Err(error) => return pass_unread(&asked, &error).await,
        },
        None => request,
    };
    let mut opening = match RequestSetup::open_request(&asked, &request).await {
        Ok(opening) => opening,
        Err(answer) => return *answer,
    };
    opening.set_joined_body((whole.clone(), chain));
    opening.turn = turn;
    if let Some(member) = request.apart {
        return opening.pass_ungoverned(member).await;
    }
    match opening.begin_exchange(&request).await {
        Ok(begun) => GovernedRequest::from_begun(*begun).answer_client().await,
        Err(answer) => *answer,
    }
}

/// Passes on a request that cannot be read, unless a limit holds. It may be served all the same:
/// upstreams accept more or less, and OpenAI's API needs neither model nor input if a stored prompt
/// names them.
async fn pass_unread(asked: &ClientRequest, error: &RequestError) -> Response<Body> {
    let ClientRequest { services, target, parts, active, .. } = asked;
    match stop_unread(services, (target, active.api), parts, &active.body, &error.to_string()) {
        Ok(Some(stopped)) => return stopped,
        Err(refusal) => return refusal.to_response(),
        Ok(None) => {}
    }
    tracing::warn!(id = %target.id, %error, "passed on ungoverned");
    mark_unmetered(pass::pass_with_body(asked, target, active.body.clone()).await)
}

/// Answers `POST /v1/messages/count_tokens` with the tokens of what would be sent. Nothing is spent
/// and nothing is stored.
pub async fn count_tokens(asked: ClientRequest) -> Response<Body> {
    let asked = Arc::new(asked);
    let body = asked.active.body.clone();
    let (target, governed) = match Request::from_body(asked.active.api, &body) {
        Ok(request) => match RequestSetup::open_request(&asked, &request).await {
            Ok(opening) => (opening.target.clone(), opening.governed_body(&request)),
            Err(answer) => return *answer,
        },
        Err(_) => (asked.target.clone(), body.clone()),
    };
    pass::pass_with_body(&asked, &target, governed).await
}
