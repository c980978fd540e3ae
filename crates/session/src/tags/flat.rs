//! Histories that their clients have flattened: the calls of a turn and their results stand in
//! texts, although the model made its calls through the API. The core's tables name such clients.

use std::borrow::Cow;

use softland_core::tables::{FLAT, FlatFormat};
use softland_wire::request::{Message as RequestMessage, Role};
use softland_wire::tags::parse_listed_calls;

use super::{TagCall, call_id};

/// Returns the calls of a turn that its client has flattened, and the client's format. Calls count
/// only if the next message answers them in that format: a text that quotes calls is a text.
pub(crate) fn calls_of(
    turn: &RequestMessage<'_>,
    next: Option<&RequestMessage<'_>>,
) -> Option<(&'static FlatFormat, Vec<TagCall>)> {
    let next = next.filter(|next| next.role == Role::User)?;
    FLAT.iter().find_map(|flat| {
        // In JSON the heading may end in an escaped line break.
        let may_hold = flat.calls.trim_end();
        let calls: Vec<_> = turn
            .texts()
            .map(|text| text.unescape())
            .filter(|text| text.contains(may_hold))
            .flat_map(|text| parse_listed_calls(&text, flat.calls))
            .enumerate()
            .map(|(at, call)| {
                let id = if call.id.is_empty() { call_id(None, at) } else { call.id };
                TagCall { id, name: call.name, input: call.input, unfit: None }
            })
            .collect();
        let answers = || next.texts().any(|text| flat.parse_results(&text.unescape()).is_some());
        (!calls.is_empty() && answers()).then_some((flat, calls))
    })
}

/// Returns the ids of a turn's flattened calls.
pub(crate) fn ids_of(
    turn: &RequestMessage<'_>,
    next: Option<&RequestMessage<'_>>,
) -> Vec<Cow<'static, str>> {
    let calls = calls_of(turn, next).map(|(_, calls)| calls).unwrap_or_default();
    calls.into_iter().map(|call| Cow::Owned(call.id)).collect()
}
