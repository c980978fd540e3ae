//! Histories that a request only names. softland stores what the provider stores of them, so that
//! the run is governed as if its client had sent everything.

use bytes::Bytes;
use softland_session::core::Digest;
use softland_session::wire::request::Request;
use softland_session::{Chain, ChainLink, ShownResponse};
use tokio::sync::OwnedMutexGuard;

use super::open::RequestSetup;
use super::scope::report_store_loss;
use crate::request::ClientRequest;

/// The largest stored history that is joined, in bytes: twice the largest request of Anthropic's
/// API.
const LARGEST: usize = 64 << 20;

/// Joins a request with the history that it names, if that is known. Otherwise the request is
/// passed on, and counting begins with it.
pub(super) async fn join_history(
    asked: &ClientRequest,
    request: &Request<'_>,
) -> Option<(Bytes, Chain)> {
    let previous = request.previous.map(|(id, _)| id.unescape().into_owned());
    let named = previous.or_else(|| conversation_name(asked, request));
    if named.is_none() && !request.elsewhere {
        return None;
    }
    if let Some(id) = &named
        && let Some(links) = collect_links(asked, id).await
        && let Some(joined) = Chain::join_links(request, &asked.active.body, &links)
    {
        return Some(joined);
    }
    asked.services.meter.count_event("history_unknown");
    tracing::info!(id = %asked.target.id, "history_unknown: counted from here");
    None
}

/// Returns the store's name for a request's conversation. Ids belong to one upstream.
fn conversation_name(asked: &ClientRequest, request: &Request<'_>) -> Option<String> {
    Some(conversation_key(asked, &request.conversation?.unescape()))
}

/// Returns the store's name for the conversation with this id.
fn conversation_key(asked: &ClientRequest, id: &str) -> String {
    format!("conversation:{}:{id}", asked.target.upstream)
}

/// Returns what a client was shown, with the store's name for its conversation.
pub(super) fn with_stored_name(asked: &ClientRequest, shown: ShownResponse) -> ShownResponse {
    let conversation = shown.conversation.map(|id| conversation_key(asked, &id));
    ShownResponse { conversation, ..shown }
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
async fn collect_links(asked: &ClientRequest, id: &str) -> Option<Vec<ChainLink>> {
    match asked.services.state.recall_links(id, LARGEST).await {
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
