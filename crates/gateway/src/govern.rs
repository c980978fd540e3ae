//! One governed request of Anthropic's Messages API, from its arrival to the end of its answer:
//! whose it is, what is sent for it, what the client gets, and what is kept of it.
//!
//! What to send and what to show is decided by [`softland_session`]; here it is carried out.

mod account;
mod alive;
mod end;
mod flow;
mod head;
mod open;
mod policy;
mod scope;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use softland_session::wire::anthropic::Request;
use tokio::sync::Notify;

use crate::body::Body;
use crate::gate::Gate;
use crate::pass;
use crate::route::Target;

pub(crate) use end::ends;
use open::Opening;

/// A client's request, read whole.
pub(crate) struct Asked {
    pub(crate) gate: Arc<Gate>,
    pub(crate) target: Target,
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
    /// Told when a stream has been silent for long enough.
    pub(crate) loud: Notify,
}

/// `POST /v1/messages`. What is no such request passes as it is: the upstream says what is wrong
/// with it.
pub(crate) async fn messages(asked: Asked) -> Response<Body> {
    let asked = Arc::new(asked);
    let mut making: alive::Making = Box::pin(make(Arc::clone(&asked)));
    tokio::select! {
        biased;
        response = &mut making => response,
        () = asked.loud.notified() => alive::keep(making),
    }
}

async fn make(asked: Arc<Asked>) -> Response<Body> {
    let body = asked.body.clone();
    let Ok(request) = Request::scan(&body) else {
        return pass::whole(&asked.gate, &asked.target, asked.parts.clone(), body).await;
    };
    let opening = match Opening::of(&asked, &request).await {
        Ok(opening) => opening,
        Err(answer) => return *answer,
    };
    match opening.begin(&request).await {
        Ok(flow) => flow.respond().await,
        Err(answer) => *answer,
    }
}

/// `POST /v1/messages/count_tokens`: the tokens of what would be sent. Nothing is spent and
/// nothing is kept.
pub(crate) async fn count_tokens(asked: Asked) -> Response<Body> {
    let asked = Arc::new(asked);
    let body = asked.body.clone();
    let (target, governed) = match Request::scan(&body) {
        Ok(request) => match Opening::of(&asked, &request).await {
            Ok(opening) => (opening.target.clone(), opening.governed(&request)),
            Err(answer) => return *answer,
        },
        Err(_) => (asked.target.clone(), body.clone()),
    };
    pass::whole(&asked.gate, &target, asked.parts.clone(), governed).await
}
