//! Rules for the signatures of thinking: what the simulator issues and accepts. A signature holds a
//! digest of the block's own text. For models that bind, it also holds digests of the exact prefix
//! (system, tools, every earlier turn, without cache marks) and of the thinking block before it. So
//! an edited, moved, filtered or re-bound block is found without a memory of any request.

use crate::anthropic::content;
use crate::anthropic::error::{AnthropicResult, refuse_with};
use crate::anthropic::request::{Block, MessageTurn, Prompt};
use crate::digest::Digest;
use crate::history::Role;
use crate::json::Json;
use crate::models::{self, Model};
use std::collections::{BTreeMap, BTreeSet};

/// Signs and verifies thinking for one simulator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issuer {
    pub(crate) seed: u64,
    pub(crate) binds: bool,
    pub(crate) accept_foreign: bool,
    pub(crate) model: &'static Model,
}

/// The result of verifying the thinking of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct VerifiedThinking {
    /// The blocks that the provider leaves out, with the reason.
    pub(crate) dropped: BTreeMap<(usize, usize), &'static str>,
    /// The digest of the prefix before the next response.
    prefix: u64,
    last: u64,
}

/// The parts of an issued signature.
struct SignatureParts<'a> {
    model: &'a str,
    turn: u64,
    at: u64,
    of: u64,
    before: u64,
    text: u64,
    prefix: u64,
}

impl Issuer {
    /// Verifies all thinking of a request. `drop` is true if the client wants mismatches dropped.
    ///
    /// # Errors
    /// Refuses with 400 and the provider's text.
    pub(crate) fn verify_prompt(
        &self,
        prompt: &Prompt<'_>,
        drop: bool,
    ) -> AnthropicResult<VerifiedThinking> {
        let mut found = VerifiedThinking::default();
        let mut prefix = self.head_digest(prompt);
        let latest = latest_in_loop(prompt);
        for (i, turn) in prompt.turns.iter().enumerate() {
            found.prefix = prefix.finish_short();
            if turn.role == Role::Assistant {
                for block in turn.blocks.iter().filter(|b| b.is_thinking()) {
                    self.verify_block(block, latest == Some(i), drop, &mut found)?;
                }
                if latest == Some(i) {
                    self.check_complete(turn, &found)?;
                }
            }
            add_turn(&mut prefix, turn);
        }
        if prompt.last_turn().is_some_and(|t| t.role != Role::Assistant) {
            found.prefix = prefix.finish_short();
        }
        Ok(found)
    }

    /// Signs block `at` of the `of` thinking blocks of response `turn`, and advances the chain.
    pub(crate) fn sign_block(
        &self,
        found: &mut VerifiedThinking,
        turn: u64,
        at: u64,
        of: u64,
        text: &str,
    ) -> String {
        let prefix = if self.binds { found.prefix } else { 0 };
        let before = found.last;
        let own = self.text_digest(turn, at, of, text);
        let signature = format!(
            "sim1.{}.{turn:x}.{at}.{of}.{before:x}.{own:016x}.{prefix:016x}",
            self.model.id
        );
        found.last = link_digest(&signature);
        signature
    }

    /// Returns the id of a tool call, which tells how many thinking blocks its response had.
    pub(crate) fn tool_id(&self, turn: u64, thinking: usize, at: usize) -> String {
        let model = models::all_models().iter().position(|m| m.id == self.model.id).unwrap_or(0);
        format!("toolu_01Sim{turn:08x}m{model}t{thinking}c{at}")
    }

    fn head_digest(&self, prompt: &Prompt<'_>) -> Digest {
        let mut digest = Digest::new(self.seed);
        for tool in prompt.tools {
            content::feed_json(&mut digest, tool);
        }
        digest.add_field("system");
        for block in &prompt.system {
            content::feed_block(&mut digest, block);
        }
        digest
    }

    fn text_digest(&self, turn: u64, at: u64, of: u64, text: &str) -> u64 {
        let mut digest = Digest::new(self.seed);
        digest.add_field(self.model.id);
        for word in [turn, at, of] {
            digest.add_word(word);
        }
        digest.add_field(text);
        digest.finish_short()
    }

    fn verify_block(
        &self,
        block: &Block<'_>,
        latest: bool,
        drop: bool,
        found: &mut VerifiedThinking,
    ) -> AnthropicResult {
        let (text, signature) = match block.kind {
            "thinking" => (block.str_at("thinking"), block.str_at("signature")),
            _ => ("", block.str_at("data")),
        };
        let previous = std::mem::replace(&mut found.last, link_digest(signature));
        let Some(mark) = SignatureParts::from_signature(signature) else {
            return if self.accept_foreign {
                Ok(())
            } else {
                refuse_with(invalid_signature(block))
            };
        };
        if mark.model != self.model.id {
            found.dropped.insert(block.at, "model_binding_mismatch");
            found.last = previous;
            return Ok(());
        }
        if mark.text != self.text_digest(mark.turn, mark.at, mark.of, text) {
            return refuse_with(if latest {
                modified_thinking(block)
            } else {
                invalid_signature(block)
            });
        }
        let moved = mark.prefix != found.prefix || (previous != 0 && mark.before != previous);
        if !self.binds || !moved {
            return Ok(());
        }
        if drop {
            found.dropped.insert(block.at, "prefix_binding_mismatch");
            found.last = previous;
            return Ok(());
        }
        refuse_with(rebound_thinking(block))
    }

    /// Checks that the thinking of the latest turn of an open loop is whole and in order.
    fn check_complete(&self, turn: &MessageTurn<'_>, found: &VerifiedThinking) -> AnthropicResult {
        let mut seen: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut whole = BTreeSet::new();
        for block in turn.blocks.iter().filter(|b| b.is_thinking()) {
            let signature = if block.is_kind("thinking") { "signature" } else { "data" };
            let Some(mark) = SignatureParts::from_signature(block.str_at(signature)) else {
                continue;
            };
            if found.dropped.contains_key(&block.at) {
                whole.insert(mark.turn);
                continue;
            }
            let (next, of) = seen.entry(mark.turn).or_insert((0, mark.of));
            if mark.at != *next || mark.of != *of {
                return refuse_with(modified_thinking(block));
            }
            *next += 1;
        }
        whole.extend(seen.iter().filter(|(_, (next, of))| next == of).map(|(turn, _)| *turn));
        let index = models::all_models().iter().position(|m| m.id == self.model.id).unwrap_or(0);
        for block in &turn.blocks {
            let cut = match parse_tool_id(block.str_at("id")).filter(|_| block.is_kind("tool_use"))
            {
                Some((turn, model, n)) => model == index && n > 0 && !whole.contains(&turn),
                None => false,
            };
            if cut {
                return refuse_with(modified_thinking(block));
            }
        }
        match seen.iter().find(|(turn, _)| !whole.contains(turn)) {
            Some(_) => refuse_with(turn.blocks.first().map(modified_thinking).unwrap_or_default()),
            None => Ok(()),
        }
    }
}

/// Returns the last assistant turn, if the request ends in its tool results.
fn latest_in_loop(prompt: &Prompt<'_>) -> Option<usize> {
    let speaks = |t: &MessageTurn<'_>| t.role != Role::System;
    let last = prompt.turns.iter().rposition(speaks)?;
    let results = prompt.turns.get(last).is_some_and(|t| t.has_block("tool_result"));
    if results { last.checked_sub(1) } else { None }
}

fn add_turn(prefix: &mut Digest, turn: &MessageTurn<'_>) {
    prefix.add_field(turn.role.name());
    for block in turn.blocks.iter().filter(|b| !b.is_thinking()) {
        content::feed_block(prefix, block);
    }
}

fn link_digest(signature: &str) -> u64 {
    let mut digest = Digest::new(0);
    digest.add_field(signature);
    digest.finish_short() | 1
}

impl<'a> SignatureParts<'a> {
    fn from_signature(signature: &'a str) -> Option<Self> {
        let mut parts = signature.strip_prefix("sim1.")?.split('.');
        let model = parts.next()?;
        let mut number = |radix| u64::from_str_radix(parts.next()?, radix).ok();
        Some(Self {
            model,
            turn: number(16)?,
            at: number(10)?,
            of: number(10)?,
            before: number(16)?,
            text: number(16)?,
            prefix: number(16)?,
        })
    }
}

/// Parses the response, the model and the number of thinking blocks from one of our tool ids.
fn parse_tool_id(id: &str) -> Option<(u64, usize, u64)> {
    let (turn, rest) = id.strip_prefix("toolu_01Sim")?.split_once('m')?;
    let (model, rest) = rest.split_once('t')?;
    let (thinking, _) = rest.split_once('c')?;
    Some((u64::from_str_radix(turn, 16).ok()?, model.parse().ok()?, thinking.parse().ok()?))
}

fn invalid_signature(block: &Block<'_>) -> String {
    format!("{}: Invalid `signature` in `thinking` block", block.path())
}

fn modified_thinking(block: &Block<'_>) -> String {
    format!(
        "{}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be \
         modified. These blocks must remain as they were in the original response.",
        block.path()
    )
}

fn rebound_thinking(block: &Block<'_>) -> String {
    format!(
        "{}: Invalid `signature` in `thinking` block. The block is bound to a different \
         conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` \
         to \"drop_block\". That setting requires the `thinking-binding-controls-2026-08-01` value \
         in the `anthropic-beta` header.",
        block.path()
    )
}

/// True if the request asks for mismatched blocks to be dropped.
pub(crate) fn wants_drop(body: &Json) -> bool {
    body.get("thinking")
        .and_then(|t| t.get("block_binding"))
        .and_then(|b| b.str_at("prefix_mismatch_behavior"))
        == Some("drop_block")
}
