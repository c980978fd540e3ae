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
}

/// Returns the response that the client has now, to be remembered. `reply` is the provider's part
/// of it. `bare` is true if nothing of softland's stood behind the history when its last part was
/// asked for.
pub(super) fn shown_response(
    exchange: &Exchange,
    reply: Option<&Reply>,
    newest: &NewestResponse<'_>,
    bare: bool,
    done: &Done,
) -> Option<ShownResponse> {
    if exchange.role != Role::Gateway || exchange.api != Api::Responses {
        return None;
    }
    // The body was scanned when the exchange began.
    let request = Request::from_body(exchange.api, &exchange.body).ok()?;
    let conversation = request.conversation.map(|id| id.unescape().into_owned());
    let kept = if request.elsewhere { conversation.is_some() } else { request.stored };
    if !kept {
        return None;
    }
    let (head, blocks) = exchange.relay.shown_message();
    let said = String::from_utf8(exchange.relay.framing().assistant_message(blocks)).ok()?;
    let chain = exchange.chain.as_ref();
    let new = match chain {
        Some(chain) => chain.new_items(&request),
        None => chain::new_items(&request, None),
    };
    let stays = reply.filter(|_| !done.local && (bare || done.tail.is_some()));
    let (upstream, add) = match stays {
        _ if conversation.is_some() => (None, missing_log_items(exchange, newest, &said, done)?),
        Some(reply) => (Some(reply.id.clone()), unrun_answers(exchange, reply, done)?),
        None => {
            let governed = exchange.governed_body();
            let governed = Request::from_body(exchange.api, &governed).ok()?;
            let sent = chain::new_items(&governed, None).unwrap_or_default();
            let unknown = || Some(request.previous?.0.unescape().into_owned());
            let upstream = match chain {
                Some(chain) => chain.upstream_id().map(str::to_owned),
                None => unknown(),
            };
            (upstream, join_items(&sent, &said))
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

/// Returns the items that a conversation's log lacks: what the client was shown, and what the log
/// waits for.
fn missing_log_items(
    exchange: &Exchange,
    newest: &NewestResponse<'_>,
    said: &str,
    done: &Done,
) -> Option<String> {
    if exchange.log.told.is_none() {
        // Nothing of this request has reached the provider.
        let governed = exchange.governed_body();
        let governed = Request::from_body(exchange.api, &governed).ok()?;
        return Some(join_items(&chain::new_items(&governed, None).unwrap_or_default(), said));
    }
    let waited_for = match newest.reply {
        Some(reply) => unrun_answers(exchange, reply, done)?,
        None => newest.unsent.clone(),
    };
    Some(if done.local { join_items(&waited_for, said) } else { waited_for })
}

/// Returns the answers to the calls that the client was not shown. The provider waits for them.
fn unrun_answers(exchange: &Exchange, reply: &Reply, done: &Done) -> Option<String> {
    let (_, blocks) = exchange.relay.shown_message();
    let shown: BTreeSet<_> = reply::block_calls(blocks).map(|(call, _)| call.id).collect();
    let calls: Vec<_> = reply::block_calls(&reply.blocks).map(|(call, _)| call).collect();
    let admissions = exchange.run.admit_calls(&calls);
    let because = done::end_reason(exchange, done.ended.as_ref());
    let hidden =
        calls.iter().zip(&admissions).filter(|(call, _)| !call.server && !shown.contains(call.id));
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
    String::from_utf8(exchange.relay.framing().result_messages(&answers)).ok()
}

fn join_items(first: &str, second: &str) -> String {
    let parts: Vec<&str> = [first, second].into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(",")
}
