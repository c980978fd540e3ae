//! The bodies that go upstream: the client's, with the edits that govern it.

use bytes::Bytes;
use softland_core::Rung;
use softland_wire::json::write_str;
use softland_wire::{Api, Splice};

use super::plan;
use super::reading::RequestReading;
use crate::chain;
use crate::framing::JsonBytes;

/// The changes that a request makes to the governed history.
#[derive(Debug)]
pub(super) struct UpstreamChange<'p> {
    /// The rung of the request.
    pub(super) rung: Option<Rung>,
    /// Messages behind the history.
    pub(super) tail: &'p [JsonBytes],
    /// The number of times that the output limit was doubled.
    pub(super) grown: u32,
    /// The output limit in tokens, where the caller has lowered it.
    pub(super) limit: Option<u64>,
}

impl RequestReading {
    /// Returns the request with its history governed and nothing behind it.
    pub(super) fn governed_body(&self) -> Bytes {
        self.apply_edits(&self.lines)
    }

    /// Returns the body of a request. `unlogged` returns the items of the tail that a provider's
    /// log does not have, where the log has the rest of the request.
    pub(super) fn upstream_body(
        &self,
        change: &UpstreamChange<'_>,
        unlogged: impl FnOnce() -> Option<String>,
    ) -> Bytes {
        let tokens = change.limit.or_else(|| self.changed_limit(change.grown));
        let keeps_choice = !matches!(change.rung, Some(Rung::None | Rung::Respond));
        if change.tail.is_empty() && keeps_choice && tokens.is_none() {
            return self.governed_body();
        }
        let request = self.request.view();
        let mut splice = self.lines.clone();
        let log = request.elsewhere.then(unlogged).flatten();
        if log.is_none() {
            splice.append_messages(&request, change.tail);
        }
        match (change.rung, &self.forced_answer) {
            (Some(Rung::None), _) if plan::declares_tools(&request) => {
                splice.set_tool_choice(&request, choice_of_none(self.api()));
            }
            (Some(Rung::Respond), Some(tool)) => {
                splice.set_tool_choice(&request, &choice_of_tool(self.api(), tool));
            }
            _ => {}
        }
        if let Some(tokens) = tokens {
            splice.set_max_tokens(&request, tokens);
        }
        if let Some(items) = log {
            let body = chain::continued_body(&request, &splice, &items);
            return body.unwrap_or_else(|| self.body().clone());
        }
        self.apply_edits(&splice)
    }

    /// Returns the output limit of a request, in tokens, if it has one.
    pub(super) fn sent_limit(&self, change: &UpstreamChange<'_>) -> Option<u64> {
        let changed = change.limit.or_else(|| self.changed_limit(change.grown));
        let changed = changed.map(|tokens| tokens.max(self.api().min_output_tokens()));
        changed.or_else(|| self.request.output_limit())
    }

    /// Returns the body with these edits; where there are none, the very same bytes.
    fn apply_edits(&self, splice: &Splice) -> Bytes {
        let body = self.body();
        if let Some(chain) = &self.chain {
            return chain.cut_body(splice, body);
        }
        if splice.is_empty() {
            return body.clone();
        }
        // The edits come from the reading of this very body, each at a place of its own.
        splice.apply(body).map_or_else(|_| body.clone(), Bytes::from)
    }

    /// Returns the output limit in tokens, where it has to differ from the client's.
    fn changed_limit(&self, grown: u32) -> Option<u64> {
        let asked = self.request.output_limit();
        // Where the maximum is not known, more than the client asked for may be refused.
        let most = self.most.output.unwrap_or(0);
        let grown = asked.map(|asked| {
            let doubled = asked.saturating_mul(1 << grown.min(16));
            if grown == 0 { asked } else { doubled.min(most.max(asked)) }
        });
        let enforced = !self.is_observing();
        let room = self.run.request_allowance(&self.facts, asked).output_room.filter(|_| enforced);
        let wanted = match (grown, room) {
            (Some(grown), Some(room)) => Some(grown.min(room.max(1))),
            // Without a limit of the client's the model's holds, and a larger limit may be refused.
            (None, room) => {
                let most = self.most.output.or(self.most.window);
                room.filter(|room| most.is_none_or(|most| *room < most))
            }
            (grown, None) => grown,
        };
        wanted.filter(|wanted| Some(*wanted) != asked)
    }
}

/// Returns the tool choice that allows no tool.
fn choice_of_none(api: Api) -> &'static str {
    match api {
        Api::Anthropic => r#"{"type":"none"}"#,
        Api::Chat | Api::Responses => r#""none""#,
    }
}

/// Returns the tool choice that forces one tool.
fn choice_of_tool(api: Api, tool: &str) -> String {
    let (before, after): (&[u8], &[u8]) = match api {
        Api::Anthropic => (br#"{"type":"tool","name":"#, b"}"),
        Api::Chat => (br#"{"type":"function","function":{"name":"#, b"}}"),
        Api::Responses => (br#"{"type":"function","name":"#, b"}"),
    };
    let mut choice = before.to_vec();
    write_str(&mut choice, tool);
    choice.extend_from_slice(after);
    // The choice is written from text.
    String::from_utf8(choice).unwrap_or_default()
}
