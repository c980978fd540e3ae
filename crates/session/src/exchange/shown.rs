//! The response that a client was shown, where the provider keeps the history, and the link from
//! which the next request goes on.

use std::collections::BTreeSet;

use softland_core::{Admission, Role, lines};
use softland_wire::Api;
use softland_wire::request::Request;

use super::Exchange;
use super::done::{self, Done};
use crate::chain::{self, Chain, Link, Shown};
use crate::reply::{self, Reply};

/// The provider's newest words, whether the client was shown them or not.
pub(super) struct Newest<'a> {
    /// The newest response.
    pub(super) reply: Option<&'a Reply>,
    /// Items that should have followed the response, and were not sent.
    pub(super) unsent: String,
}

/// Returns the response that the client has now, to be remembered. `reply` is the provider's part
/// of it. `bare` is true if nothing of softland's stood behind the history when its last part was
/// asked for.
pub(super) fn shown(
    exchange: &Exchange,
    reply: Option<&Reply>,
    newest: &Newest<'_>,
    bare: bool,
    done: &Done,
) -> Option<Shown> {
    if exchange.role != Role::Gateway || exchange.api != Api::Responses {
        return None;
    }
    // The body was scanned when the exchange began.
    let request = Request::of(exchange.api, &exchange.body).ok()?;
    let conversation = request.conversation.map(|id| id.unescape().into_owned());
    let kept = if request.elsewhere { conversation.is_some() } else { request.stored };
    if !kept {
        return None;
    }
    let (head, blocks) = exchange.relay.shown();
    let said = String::from_utf8(exchange.relay.framing().assistant(blocks)).ok()?;
    let chain = exchange.chain.as_ref();
    let new = match chain {
        Some(chain) => chain.new_items(&request),
        None => chain::new_items(&request, None),
    };
    let stays = reply.filter(|_| !done.local && (bare || done.tail.is_some()));
    let (upstream, add) = match stays {
        _ if conversation.is_some() => (None, not_in_log(exchange, newest, &said, done)?),
        Some(reply) => (Some(reply.id.clone()), not_run(exchange, reply, done)?),
        None => {
            let governed = exchange.governed();
            let governed = Request::of(exchange.api, &governed).ok()?;
            let sent = chain::new_items(&governed, None).unwrap_or_default();
            let unknown = || Some(request.previous?.0.unescape().into_owned());
            let upstream = match chain {
                Some(chain) => chain.upstream().map(str::to_owned),
                None => unknown(),
            };
            (upstream, join(&sent, &said))
        }
    };
    let mut ids = vec![head.to_owned()];
    ids.extend(reply.filter(|_| !done.local).map(|reply| reply.id.clone()));
    ids.retain(|id| !id.is_empty());
    ids.dedup();
    let items = join(&new.unwrap_or_default(), &said);
    let before = chain.and_then(Chain::id).map(str::to_owned);
    Some(Shown { ids, conversation, link: Link { before, items, upstream, add } })
}

/// Returns the items that a conversation's log lacks: what the client was shown, and what the log
/// waits for.
fn not_in_log(exchange: &Exchange, newest: &Newest<'_>, said: &str, done: &Done) -> Option<String> {
    if exchange.log.told.is_none() {
        // Nothing of this request has reached the provider.
        let governed = exchange.governed();
        let governed = Request::of(exchange.api, &governed).ok()?;
        return Some(join(&chain::new_items(&governed, None).unwrap_or_default(), said));
    }
    let waited_for = match newest.reply {
        Some(reply) => not_run(exchange, reply, done)?,
        None => newest.unsent.clone(),
    };
    Some(if done.local { join(&waited_for, said) } else { waited_for })
}

/// Returns the answers to the calls that the client was not shown. The provider waits for them.
fn not_run(exchange: &Exchange, reply: &Reply, done: &Done) -> Option<String> {
    let (_, blocks) = exchange.relay.shown();
    let shown: BTreeSet<_> = reply::calls(blocks).map(|(call, _)| call.id).collect();
    let calls: Vec<_> = reply::calls(&reply.blocks).map(|(call, _)| call).collect();
    let admissions = exchange.run.admit(&calls);
    let because = done::because_of(exchange, done.ended.as_ref());
    let hidden =
        calls.iter().zip(&admissions).filter(|(call, _)| !call.server && !shown.contains(call.id));
    let answers = hidden.map(|(call, admission)| {
        let own = match admission {
            Admission::Refused(because) | Admission::ToolRefused(because) => Some(because),
            _ => because.as_ref(),
        };
        (*call, own.map_or_else(|| lines::NO_ANSWER.to_owned(), lines::beyond))
    });
    let answers: Vec<_> = answers.collect();
    if answers.is_empty() {
        return Some(String::new());
    }
    String::from_utf8(exchange.relay.framing().results(&answers)).ok()
}

fn join(first: &str, second: &str) -> String {
    let parts: Vec<&str> = [first, second].into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(",")
}
