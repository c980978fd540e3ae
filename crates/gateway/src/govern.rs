//! One governed request of any protocol, from its arrival to the end of its response: its
//! conversation, what is sent for it, what the client gets, and what is stored of it.
//!
//! [`softland_session`] decides what to send and what to show; this module carries it out.

mod above;
mod account;
mod alive;
mod count;
mod end;
mod flow;
mod head;
mod history;
mod open;
mod policy;
mod scope;
#[cfg(test)]
mod tests;
mod told;
mod unread;

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use softland_session::wire::Api;
use softland_session::wire::request::{Request, RequestError};

use crate::body::{Body, Share};
use crate::gate::Gate;
use crate::pass;
use crate::route::Target;

pub(crate) use count::Counts;
pub(crate) use end::ends;
use open::Opening;
pub(crate) use told::{Told, Word};
pub(crate) use unread::stop as stop_unread;

/// A client's request whose body has been read.
pub(crate) struct Asked {
    pub(crate) gate: Arc<Gate>,
    /// Its API.
    pub(crate) api: Api,
    pub(crate) target: Target,
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
    /// The memory of its body, until the body is no longer needed.
    #[expect(dead_code, reason = "it is held, and given back when it is dropped")]
    pub(crate) share: Share,
    pub(crate) told: Told,
}

/// Answers a turn. A request that is not valid for the API is passed on unchanged, and the upstream
/// says what is wrong with it.
pub(crate) async fn turn(asked: Asked) -> Response<Body> {
    let asked = Arc::new(asked);
    // Built in place: the future is large, and moving it would copy it whole.
    let making = Box::write(Box::new_uninit(), make(Arc::clone(&asked)));
    let mut making: alive::Making = Box::into_pin(making);
    tokio::select! {
        biased;
        response = &mut making => response,
        word = asked.told.any() => match word {
            Word::Stop => open::cancelled(&asked.target),
            Word::Loud => alive::keep(&asked, making),
        },
    }
}

async fn make(asked: Arc<Asked>) -> Response<Body> {
    let body = asked.body.clone();
    let request = match Request::of(asked.api, &body) {
        Ok(request) => request,
        Err(error) => return unread(&asked, &error).await,
    };
    let turn = history::turn(&asked, &request).await;
    let joined = history::joined(&asked, &request).await;
    let (whole, chain) = joined.map_or((body.clone(), None), |(whole, chain)| (whole, Some(chain)));
    // A request joined from valid parts is valid.
    let request = match &chain {
        Some(_) => Request::of(asked.api, &whole).unwrap_or(request),
        None => request,
    };
    let mut opening = match Opening::of(&asked, &request).await {
        Ok(opening) => opening,
        Err(answer) => return *answer,
    };
    opening.join((whole.clone(), chain));
    opening.turn = turn;
    if let Some(member) = request.apart {
        return opening.apart(member).await;
    }
    match opening.begin(&request).await {
        Ok(flow) => flow.respond().await,
        Err(answer) => *answer,
    }
}

/// Passes on a request that cannot be read, unless a limit holds. It may be served all the same:
/// upstreams accept more or less, and OpenAI's API needs neither model nor input if a stored prompt
/// names them.
async fn unread(asked: &Asked, error: &RequestError) -> Response<Body> {
    let Asked { gate, api, target, parts, body, .. } = asked;
    match unread::stop(gate, (target, *api), parts, body, &error.to_string()) {
        Ok(Some(stopped)) => return stopped,
        Err(refusal) => return refusal.response(),
        Ok(None) => {}
    }
    tracing::warn!(id = %target.id, %error, "passed on ungoverned");
    pass::as_unmetered(pass::whole(gate, target, parts.clone(), body.clone()).await)
}

/// Answers `POST /v1/messages/count_tokens` with the tokens of what would be sent. Nothing is spent
/// and nothing is stored.
pub(crate) async fn count_tokens(asked: Asked) -> Response<Body> {
    let asked = Arc::new(asked);
    let body = asked.body.clone();
    let (target, governed) = match Request::of(asked.api, &body) {
        Ok(request) => match Opening::of(&asked, &request).await {
            Ok(opening) => (opening.target.clone(), opening.governed(&request)),
            Err(answer) => return *answer,
        },
        Err(_) => (asked.target.clone(), body.clone()),
    };
    pass::whole(&asked.gate, &target, asked.parts.clone(), governed).await
}
