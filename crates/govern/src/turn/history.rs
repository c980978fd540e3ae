//! Histories that a request only names. softland stores what the provider stores of them, so that
//! the run is governed as if its client had sent everything.

use bytes::Bytes;
use http::{Response, StatusCode};
use softland_session::core::Digest;
use softland_session::wire::request::Request;
use softland_session::{Chain, ChainLink, ShownResponse};
use tokio::sync::OwnedMutexGuard;

use super::open::RequestSetup;
use super::scope::report_store_loss;
use crate::body::Body;
use crate::errors::Refusal;
use crate::key::ClientKey;
use crate::request::ClientRequest;

/// The largest stored history that is joined, in bytes: twice the largest request of Anthropic's
/// API.
const LARGEST: usize = 64 << 20;

/// The beginning of the name under which a stored response is known to all keys.
const ANYBODY: &str = "anybody:";

/// Joins a request with the history that it names, if that is known. Otherwise the request is
/// passed on, and counting begins with it.
///
/// # Errors
/// Returns the response for a request that names another key's history.
pub(super) async fn join_history(
    asked: &ClientRequest,
    request: &Request<'_>,
) -> Result<Option<(Bytes, Chain)>, Box<Response<Body>>> {
    let previous = request.previous.map(|(id, _)| response_key(asked, &id.unescape()));
    let named = previous.or_else(|| conversation_name(asked, request));
    if named.is_none() && !request.elsewhere {
        return Ok(None);
    }
    if let Some(id) = &named {
        if let Some(links) = collect_links(asked, id, LARGEST).await {
            if let Some(joined) = Chain::join_links(request, &asked.active.body, &links) {
                return Ok(Some(joined));
            }
        } else if is_of_others(asked, request, id).await {
            return Err(Box::new(refuse_foreign(asked)));
        }
    }
    asked.services.meter.count_event("history_unknown");
    tracing::info!(id = %asked.target.id, "history_unknown: counted from here");
    Ok(None)
}

/// Returns true if another key was shown what the request goes on from. The provider, which sees
/// one key for all, would go on from it.
async fn is_of_others(asked: &ClientRequest, request: &Request<'_>, own: &str) -> bool {
    if asked.target.key.is_none() {
        return false;
    }
    let response = request.previous.map(|(id, _)| [ANYBODY, &id.unescape()].concat());
    let stored = || Some(conversation_of_anybody(asked, &request.conversation?.unescape()));
    let Some(name) = response.or_else(stored) else { return false };
    // What is too large to be joined may be the key's own.
    collect_links(asked, own, usize::MAX).await.is_none()
        && collect_links(asked, &name, usize::MAX).await.is_some()
}

fn refuse_foreign(asked: &ClientRequest) -> Response<Body> {
    let message = "softland: no response or conversation of this id was made with this key";
    Refusal::new(StatusCode::NOT_FOUND, asked.target.protocol, message).to_response()
}

/// Returns the store's name for the response with this id.
fn response_key(asked: &ClientRequest, id: &str) -> String {
    ClientKey::scope_name(asked.target.key.as_deref(), id)
}

/// Returns the name under which all keys know that a conversation is somebody's.
fn conversation_of_anybody(asked: &ClientRequest, id: &str) -> String {
    format!("{ANYBODY}conversation:{}:{id}", asked.target.upstream)
}

/// Returns the store's name for a request's conversation. Ids belong to one upstream.
fn conversation_name(asked: &ClientRequest, request: &Request<'_>) -> Option<String> {
    Some(conversation_key(asked, &request.conversation?.unescape()))
}

/// Returns the store's name for the conversation with this id.
fn conversation_key(asked: &ClientRequest, id: &str) -> String {
    let name = format!("conversation:{}:{id}", asked.target.upstream);
    ClientKey::scope_name(asked.target.key.as_deref(), &name)
}

/// Returns what a client was shown, with the store's names for it and its conversation.
pub(super) fn with_stored_name(asked: &ClientRequest, shown: ShownResponse) -> ShownResponse {
    let ShownResponse { ids, conversation, mut link } = shown;
    let mut names: Vec<String> = ids.iter().map(|id| response_key(asked, id)).collect();
    if asked.target.key.is_some() {
        names.extend(ids.iter().map(|id| [ANYBODY, id].concat()));
        names.extend(conversation.iter().map(|id| conversation_of_anybody(asked, id)));
        link.before = link.before.map(|id| response_key(asked, &id));
    }
    let conversation = conversation.map(|id| conversation_key(asked, &id));
    ShownResponse { ids: names, conversation, link }
}

/// Waits for a request's turn in its conversation, since each request continues from the result of
/// the one before it. The vendor refuses a second request while the first is being answered; here
/// it waits.
pub(super) async fn wait_turn(
    asked: &ClientRequest,
    request: &Request<'_>,
) -> Option<OwnedMutexGuard<()>> {
    let name = conversation_name(asked, request)?;
    Some(asked.services.conversations.wait_turn(name).await)
}

/// Returns the history before a request, oldest first; `None` if a part of it is unknown.
async fn collect_links(asked: &ClientRequest, id: &str, most: usize) -> Option<Vec<ChainLink>> {
    match asked.services.state.recall_links(id, most).await {
        Ok(links) => links,
        Err(error) => {
            report_store_loss(&asked.services, &error);
            None
        }
    }
}

impl RequestSetup {
    /// Notes a history of a model's turns of which none is known and none shows a call. Its client
    /// may tell in texts what was called, in a form in which nothing can be found again.
    pub(super) fn note_unknown_history(&self) {
        let tells = !self.outline.answered.is_empty() && self.outline.calls.is_empty();
        if self.metered || !tells || !self.place.is_unknown() {
            return;
        }
        self.asked.services.meter.count_event("not_continued");
        tracing::info!(
            id = %self.target.id,
            "not_continued: no turn of this history is known, and its run is counted from here; if \
             its client writes calls into texts, name the run by x-softland-run and limit its cost"
        );
    }

    /// Counts a run whose turns were answered before, but which the store does not know. Its lines
    /// are made by the current policy, and text that stood behind a turn (`docs/governing.md` §1)
    /// is not sent again.
    pub(super) fn count_repinned(&self, run: &Digest, turns: u64) {
        let known = self.place.is_changed() || self.place.kept.pins.contains_key(run);
        if self.metered || turns == 0 || known {
            return;
        }
        self.asked.services.meter.count_event("repinned");
        tracing::info!(id = %self.target.id, turns, "the store knows nothing of this run's turns");
    }
}
