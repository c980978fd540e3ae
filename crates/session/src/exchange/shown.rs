//! The response that a client was shown, where the provider keeps the history, and the link from
//! which the next request goes on.

use std::collections::BTreeSet;

use softland_core::{Admission, Role, lines};
use softland_wire::Api;
use softland_wire::request::Request;

use super::Exchange;
use super::done::{self, Done};
use crate::chain::{self, Chain, ChainLink, ShownResponse};
use crate::reply::{self, Reply};

/// The provider's newest words, whether the client was shown them or not.
pub(super) struct NewestResponse<'a> {
    /// The newest response.
    pub(super) reply: Option<&'a Reply>,
    /// Items that should have followed the response, and were not sent.
    pub(super) unsent: String,
    /// True if nothing of softland's stood behind the history when its last part was asked for.
    pub(super) bare: bool,
}

impl Exchange {
    /// Returns the response that the client has now, to be remembered. `reply` is the provider's
    /// part of it.
    pub(super) fn shown_response(
        &self,
        reply: Option<&Reply>,
        newest: &NewestResponse<'_>,
        done: &Done,
    ) -> Option<ShownResponse> {
        let Self { reading, relay, .. } = self;
        if reading.role != Role::Gateway || reading.api() != Api::Responses {
            return None;
        }
        let request = reading.request.view();
        let conversation = request.conversation.map(|id| id.unescape().into_owned());
        let kept = if request.elsewhere { conversation.is_some() } else { request.stored };
        if !kept {
            return None;
        }
        let (head, blocks) = relay.shown_message();
        let said = String::from_utf8(relay.framing().assistant_message(blocks)).ok()?;
        let chain = reading.chain.as_ref();
        let new = match chain {
            Some(chain) => chain.new_items(&request),
            None => chain::new_items(&request, None),
        };
        let stays = reply.filter(|_| !done.local && (newest.bare || done.tail.is_some()));
        let (upstream, add) = match stays {
            _ if conversation.is_some() => (None, self.missing_log_items(newest, &said, done)?),
            Some(reply) => (Some(reply.id.clone()), self.unrun_answers(reply, done)?),
            None => {
                let unknown = || Some(request.previous?.0.unescape().into_owned());
                let upstream = match chain {
                    Some(chain) => chain.upstream_id().map(str::to_owned),
                    None => unknown(),
                };
                (upstream, join_items(&self.sent_items()?, &said))
            }
        };
        let mut ids = vec![head.to_owned()];
        ids.extend(reply.filter(|_| !done.local).map(|reply| reply.id.clone()));
        ids.retain(|id| !id.is_empty());
        ids.dedup();
        let items = join_items(&new.unwrap_or_default(), &said);
        let before = chain.and_then(Chain::response_id).map(str::to_owned);
        Some(ShownResponse { ids, conversation, link: ChainLink { before, items, upstream, add } })
    }

    /// Returns the items of the governed request, as the provider gets them.
    fn sent_items(&self) -> Option<String> {
        let governed = self.governed_body();
        let governed = Request::from_body(self.reading.api(), &governed).ok()?;
        Some(chain::new_items(&governed, None).unwrap_or_default())
    }

    /// Returns the items that a conversation's log lacks: what the client was shown, and what the
    /// log waits for.
    fn missing_log_items(
        &self,
        newest: &NewestResponse<'_>,
        said: &str,
        done: &Done,
    ) -> Option<String> {
        if self.progress.log.told.is_none() {
            // Nothing of this request has reached the provider.
            return Some(join_items(&self.sent_items()?, said));
        }
        let waited_for = match newest.reply {
            Some(reply) => self.unrun_answers(reply, done)?,
            None => newest.unsent.clone(),
        };
        Some(if done.local { join_items(&waited_for, said) } else { waited_for })
    }

    /// Returns the answers to the calls that the client was not shown. The provider waits for them.
    fn unrun_answers(&self, reply: &Reply, done: &Done) -> Option<String> {
        let Self { reading, progress, relay, .. } = self;
        let (_, blocks) = relay.shown_message();
        let shown: BTreeSet<_> = reply::block_calls(blocks).map(|(call, _)| call.id).collect();
        let calls: Vec<_> = reply::block_calls(&reply.blocks).map(|(call, _)| call).collect();
        let admissions = reading.run.admit_calls(&calls);
        let because = done::end_reason(reading, progress, done.ended.as_ref());
        let hidden = calls
            .iter()
            .zip(&admissions)
            .filter(|(call, _)| !call.server && !shown.contains(call.id));
        let answers = hidden.map(|(call, admission)| {
            let own = match admission {
                Admission::Refused(because) | Admission::ToolRefused(because) => Some(because),
                _ => because.as_ref(),
            };
            (*call, own.map_or_else(|| lines::NO_ANSWER.to_owned(), lines::format_not_run))
        });
        let answers: Vec<_> = answers.collect();
        if answers.is_empty() {
            return Some(String::new());
        }
        String::from_utf8(relay.framing().result_messages(&answers)).ok()
    }
}

fn join_items(first: &str, second: &str) -> String {
    let parts: Vec<&str> = [first, second].into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(",")
}
