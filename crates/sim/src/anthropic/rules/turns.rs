//! Rules for the order of turns, and for the result of every tool call.

use crate::anthropic::error::{AnthropicResult, ensure, refuse_with};
use crate::anthropic::request::{Block, MessageTurn, Prompt};
use crate::history::Role;
use crate::models::Model;
use std::collections::BTreeSet;

pub(super) fn check_turns(prompt: &Prompt<'_>) -> AnthropicResult {
    check_system_places(prompt)?;
    for (i, turn) in prompt.turns.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| prompt.turns.get(i));
        match turn.role {
            Role::Assistant => check_answered(turn, prompt.turns.get(i + 1))?,
            Role::User => check_results_match_calls(turn, before)?,
            Role::System => {}
        }
    }
    check_ending(prompt)
}

fn check_system_places(prompt: &Prompt<'_>) -> AnthropicResult {
    for (i, turn) in prompt.turns.iter().enumerate() {
        if turn.role != Role::System {
            continue;
        }
        ensure(prompt.model.mid_system, || {
            "role 'system' is not supported on this model".to_owned()
        })?;
        let other = |t: &&MessageTurn<'_>| t.role != Role::System;
        let before = prompt.turns.iter().take(i).rev().find(other);
        let after = prompt.turns.iter().skip(i + 1).find(other);
        let fits = before.is_some_and(|t| t.role == Role::User || t.is_paused());
        ensure(fits && after.is_none_or(|t| t.role == Role::Assistant), || {
            format!(
                "messages.{}: a `system` message must follow a `user` message or an `assistant` \
                 message that ends in server tool use, and be last or followed by an `assistant` \
                 message",
                turn.at
            )
        })?;
        ensure(!turn.clears || turn.blocks.iter().all(|b| is_plain(b)), || {
            format!("messages.{}: clear_at allows text only, without cache_control", turn.at)
        })?;
    }
    Ok(())
}

fn is_plain(block: &Block<'_>) -> bool {
    block.is_kind("text") && block.get("cache_control").is_none()
}

/// Checks that every call of an assistant turn has one result at the head of the next user turn.
fn check_answered(turn: &MessageTurn<'_>, next: Option<&MessageTurn<'_>>) -> AnthropicResult {
    let calls: Vec<&str> = block_ids(turn, "tool_use", "id");
    let unique: BTreeSet<&str> = calls.iter().copied().collect();
    ensure(unique.len() == calls.len(), || {
        format!("messages.{}: `tool_use` ids must be unique", turn.at)
    })?;
    let next = next.filter(|t| t.role == Role::User);
    let head: BTreeSet<&str> = next
        .map(|t| t.blocks.iter().take_while(|b| b.is_kind("tool_result")))
        .into_iter()
        .flatten()
        .map(|b| b.str_at("tool_use_id"))
        .collect();
    let missing: Vec<&str> = calls.iter().copied().filter(|id| !head.contains(id)).collect();
    ensure(missing.is_empty(), || {
        format!(
            "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately \
             after: {}. Each `tool_use` block must have a corresponding `tool_result` block in \
             the next message.",
            turn.at,
            missing.join(", ")
        )
    })?;
    check_server_tools(turn, next, !calls.is_empty())
}

/// Checks server tools. One without a result pauses the turn, and only results of client tools may
/// follow it.
fn check_server_tools(
    turn: &MessageTurn<'_>,
    next: Option<&MessageTurn<'_>>,
    mixed: bool,
) -> AnthropicResult {
    let used: Vec<&Block<'_>> =
        turn.blocks.iter().filter(|b| b.is_kind("server_tool_use")).collect();
    let done = turn.blocks.iter().filter(|b| b.kind.ends_with("_tool_result")).count();
    let (Some(open), Some(next)) = (used.get(done), next) else { return Ok(()) };
    let results_only = next.blocks.iter().all(|b| b.is_kind("tool_result"));
    let (name, id) = (open.str_at("name"), open.str_at("id"));
    ensure(mixed && results_only, || {
        format!(
            "messages.{}: `{name}` tool use with id `{id}` was found without a corresponding \
             `{name}_tool_result` block",
            turn.at
        )
    })
}

fn block_ids<'a>(turn: &MessageTurn<'a>, kind: &str, key: &str) -> Vec<&'a str> {
    turn.blocks.iter().filter(|b| b.is_kind(kind)).map(|b| b.str_at(key)).collect()
}

/// Checks that every result of a user turn belongs to a call of the turn before, once.
fn check_results_match_calls(
    turn: &MessageTurn<'_>,
    before: Option<&MessageTurn<'_>>,
) -> AnthropicResult {
    let calls: BTreeSet<&str> = before
        .filter(|t| t.role == Role::Assistant)
        .map(|t| block_ids(t, "tool_use", "id").into_iter().collect())
        .unwrap_or_default();
    let mut seen = BTreeSet::new();
    for block in turn.blocks.iter().filter(|b| b.is_kind("tool_result")) {
        let id = block.str_at("tool_use_id");
        ensure(calls.contains(id), || {
            format!(
                "{}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                 `tool_result` block must have a corresponding `tool_use` block in the previous \
                 message.",
                block.path()
            )
        })?;
        ensure(seen.insert(id), || {
            format!(
                "{}: each tool_use must have a single result. Found multiple `tool_result` blocks \
                 with id: {id}",
                block.path()
            )
        })?;
    }
    Ok(())
}

fn check_ending(prompt: &Prompt<'_>) -> AnthropicResult {
    let Some(last) = prompt.last_turn() else { return Ok(()) };
    if last.role != Role::Assistant || last.is_paused() {
        return Ok(());
    }
    check_prefill(prompt.model, last)
}

fn check_prefill(model: &Model, last: &MessageTurn<'_>) -> AnthropicResult {
    if !model.prefill {
        return refuse_with(
            "This model does not support assistant message prefill. The conversation must \
                    end with a user message.",
        );
    }
    let text = last.blocks.last().filter(|b| b.is_kind("text")).map_or("", |b| b.text);
    ensure(!text.ends_with(char::is_whitespace), || {
        "messages: final assistant content cannot end with trailing whitespace".to_owned()
    })
}
