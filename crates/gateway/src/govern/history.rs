//! The history that a request only names: what the provider keeps of it, softland keeps too, so
//! that the run is governed as if its client had sent everything.

use std::sync::Arc;

use bytes::Bytes;
use softland_session::wire::request::Request;
use softland_session::{Chain, Link, Shown};
use tokio::sync::OwnedMutexGuard;

use super::Asked;
use super::scope::lost;

/// The largest history that is joined, in bytes: twice what a request may have.
const LARGEST: usize = 64 << 20;

/// A request with the history that it names, where that is known. Where it is not, the request
/// passes on, and is counted from here.
pub(super) async fn joined(asked: &Asked, request: &Request<'_>) -> Option<(Bytes, Chain)> {
    let previous = request.previous.map(|(id, _)| id.unescape().into_owned());
    let named = previous.or_else(|| conversation(asked, request));
    if named.is_none() && !request.elsewhere {
        return None;
    }
    if let Some(id) = &named
        && let Some(links) = links(asked, id).await
        && let Some(joined) = Chain::join(&asked.body, &links)
    {
        return Some(joined);
    }
    asked.gate.metrics.event("history_unknown");
    tracing::info!(id = %asked.target.id, "history_unknown: counted from here");
    None
}

/// The name in the store of a request's conversation: ids are an upstream's own.
fn conversation(asked: &Asked, request: &Request<'_>) -> Option<String> {
    Some(conversation_of(asked, &request.conversation?.unescape()))
}

/// The name in the store of the conversation of an id.
fn conversation_of(asked: &Asked, id: &str) -> String {
    format!("conversation:{}:{id}", asked.target.origin.label())
}

/// What a client was shown, with the name in the store of the conversation that it belongs to.
pub(super) fn kept_as(asked: &Asked, shown: Shown) -> Shown {
    let conversation = shown.conversation.map(|id| conversation_of(asked, &id));
    Shown { conversation, ..shown }
}

/// The turn of a request in its conversation: each goes on from what the one before it led to. The
/// vendor refuses a second one while the first is answered; here it waits.
pub(super) async fn turn(asked: &Asked, request: &Request<'_>) -> Option<OwnedMutexGuard<()>> {
    let name = conversation(asked, request)?;
    Some(asked.gate.conversations.turn(name).await)
}

/// What stands before a request, oldest first; `None` where a part of it is not known.
async fn links(asked: &Asked, id: &str) -> Option<Vec<Link>> {
    let mut links = Vec::new();
    let (mut next, mut bytes) = (Some(id.to_owned()), 0);
    while let Some(id) = next {
        if bytes > LARGEST {
            tracing::warn!(id = %asked.target.id, bytes, "the history is too large");
            return None;
        }
        let link = match asked.gate.store.link(&id).await {
            Ok(link) => link?,
            Err(error) => {
                lost(&asked.gate, &error);
                return None;
            }
        };
        // As many as are empty do not add up to nothing.
        bytes += link.items.len() + id.len();
        next = link.before.clone();
        links.push(Arc::unwrap_or_clone(link));
    }
    links.reverse();
    Some(links)
}
