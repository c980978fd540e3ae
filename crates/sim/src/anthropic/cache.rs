//! Prompt-cache billing: what a request reads from the cache, what it writes, and with which TTL.
//! The rules are the provider's; the token counts are estimates (`content`). The automatic
//! breakpoint of server-tool results is left out.

use crate::anthropic::content;
use crate::anthropic::request::{Block, Prompt, read_blocks};
use crate::digest::Digest;
use crate::history::{Choice, Role};
use crate::json::Json;
use crate::usage::Usage;
use std::collections::BTreeMap;

/// The number of positions that a read looks back over from each breakpoint, itself included.
const LOOKBACK: usize = 20;
const FIVE_MINUTES: u64 = 5 * 60 * 1000;
const HOUR: u64 = 60 * 60 * 1000;
/// The maximum number of entries; beyond it, those that expire first are dropped.
const MAX_ENTRIES: usize = 50_000;

#[derive(Clone, Copy, Debug)]
struct CacheEntry {
    ttl: u64,
    readable_at: u64,
    expires: u64,
}

/// The cached prefixes.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnthropicCache {
    entries: BTreeMap<u128, CacheEntry>,
}

/// A position at which a prefix may be cached.
#[derive(Clone, Copy, Debug)]
struct Position {
    digest: u128,
    /// The tokens of the prefix, this position included.
    tokens: u64,
    /// The TTL of a breakpoint here.
    mark: Option<u64>,
}

/// Blocks that were sent but are not part of the prompt.
type DroppedBlocks = BTreeMap<(usize, usize), &'static str>;

/// The prefixes of a prompt.
pub(crate) struct Prefixes(Vec<Position>);

impl Prefixes {
    pub(crate) fn from_prompt(prompt: &Prompt<'_>, dropped: &DroppedBlocks) -> Self {
        let mut walk = PrefixWalker { digest: Digest::new(0), tokens: 0, positions: Vec::new() };
        walk.digest.add_field(prompt.model.id);
        let (late, early): (Vec<&Json>, Vec<&Json>) =
            prompt.tools.iter().partition(|t| is_web_search(t));
        walk.add_tools(&early);
        walk.digest.add_field("system");
        walk.digest.add_field(prompt.body.str_at("speed").unwrap_or(""));
        walk.add_tools(&late);
        for block in &prompt.system {
            walk.add_block(block);
        }
        fold_parameters(&mut walk.digest, prompt);
        walk.add_messages(prompt, dropped);
        walk.mark_automatic(prompt);
        Self(walk.positions)
    }

    /// Returns the estimated tokens of the whole prompt.
    pub(crate) fn tokens(&self) -> u64 {
        self.0.last().map_or(0, |p| p.tokens)
    }
}

impl AnthropicCache {
    /// Bills a prompt and writes what its breakpoints ask for. `started` is when its response
    /// begins: its entries can be read from then on.
    pub(crate) fn bill_prompt(
        &mut self,
        prompt: &Prompt<'_>,
        prefixes: &Prefixes,
        now: u64,
        started: u64,
    ) -> Usage {
        let total = prefixes.tokens();
        let read = self.read_prefix(&prefixes.0, now);
        let mut written = 0;
        let mut hour = 0;
        for position in &prefixes.0 {
            let Some(ttl) = position.mark else { continue };
            if position.tokens < prompt.model.cache_min {
                continue;
            }
            self.write_prefix(position.digest, ttl, now, started);
            written = position.tokens;
            if ttl == HOUR {
                hour = position.tokens;
            }
        }
        self.trim_entries(now);
        let one_hour = hour.saturating_sub(read);
        let five = written.saturating_sub(read.max(hour));
        Usage {
            input: total - read - one_hour - five,
            cache_read: read,
            cache_write_5m: five,
            cache_write_1h: one_hour,
            ..Usage::default()
        }
    }

    /// Returns the tokens of the longest readable prefix. Reading renews it.
    fn read_prefix(&mut self, positions: &[Position], now: u64) -> u64 {
        let marks = (0..positions.len())
            .rev()
            .filter(|i| positions.get(*i).is_some_and(|p| p.mark.is_some()));
        for mark in marks {
            let from = (mark + 1).saturating_sub(LOOKBACK);
            for position in positions.get(from..=mark).unwrap_or(&[]).iter().rev() {
                if let Some(entry) = self.entries.get_mut(&position.digest)
                    && entry.readable_at <= now
                    && now < entry.expires
                {
                    entry.expires = now.saturating_add(entry.ttl);
                    return position.tokens;
                }
            }
        }
        0
    }

    fn write_prefix(&mut self, digest: u128, ttl: u64, now: u64, started: u64) {
        let fresh = CacheEntry { ttl, readable_at: started, expires: now.saturating_add(ttl) };
        let entry = self.entries.entry(digest).or_insert(fresh);
        if entry.expires <= now {
            *entry = fresh;
        }
        entry.readable_at = entry.readable_at.min(started);
        entry.ttl = entry.ttl.max(ttl);
        entry.expires = entry.expires.max(now.saturating_add(ttl));
    }

    fn trim_entries(&mut self, now: u64) {
        if self.entries.len() <= MAX_ENTRIES {
            return;
        }
        self.entries.retain(|_, entry| entry.expires > now);
        while self.entries.len() > MAX_ENTRIES {
            let first = self.entries.iter().min_by_key(|(_, e)| e.expires).map(|(k, _)| *k);
            first.map(|key| self.entries.remove(&key));
        }
    }
}

struct PrefixWalker {
    digest: Digest,
    tokens: u64,
    positions: Vec<Position>,
}

impl PrefixWalker {
    fn push_position(&mut self, tokens: u64, mark: Option<&Json>) {
        self.tokens += tokens;
        let mark = mark.filter(|m| m.is_map()).map(|m| match m.str_at("ttl") {
            Some("1h") => HOUR,
            _ => FIVE_MINUTES,
        });
        self.positions.push(Position { digest: self.digest.finish(), tokens: self.tokens, mark });
    }

    fn add_tools(&mut self, tools: &[&Json]) {
        for tool in tools {
            let tokens = content::feed_json(&mut self.digest, tool);
            self.push_position(tokens, tool.get("cache_control"));
        }
    }

    fn add_block(&mut self, block: &Block<'_>) {
        let tokens = content::feed_block(&mut self.digest, block);
        let inner = block.get("content").filter(|_| block.is_kind("tool_result"));
        let inner = inner.map(|c| read_blocks(c, 0)).unwrap_or_default();
        let inner = inner.iter().rev().find_map(|b| b.get("cache_control"));
        self.push_position(tokens, block.get("cache_control").or(inner));
    }

    fn add_messages(&mut self, prompt: &Prompt<'_>, dropped: &DroppedBlocks) {
        let human = |i: usize| {
            prompt.turns.get(i).is_some_and(|t| {
                t.role == Role::User && t.blocks.iter().any(|b| !b.is_kind("tool_result"))
            })
        };
        let last_human = (0..prompt.turns.len()).rev().find(|i| human(*i)).unwrap_or(0);
        let last_user = prompt.turns.iter().rposition(|t| t.role == Role::User).unwrap_or(0);
        for (i, turn) in prompt.turns.iter().enumerate() {
            if turn.clears && i < last_user {
                continue;
            }
            self.digest.add_field(turn.role.name());
            let strip = !prompt.model.keeps_thinking && i < last_human;
            for block in &turn.blocks {
                let gone = dropped.contains_key(&block.at) || (strip && block.is_thinking());
                if !gone {
                    self.add_block(block);
                }
            }
        }
    }

    /// Puts the top-level mark on the last block that can carry one.
    fn mark_automatic(&mut self, prompt: &Prompt<'_>) {
        let Some(mark) = prompt.body.get("cache_control").filter(|m| m.is_map()) else { return };
        let ttl = if mark.str_at("ttl") == Some("1h") { HOUR } else { FIVE_MINUTES };
        let thinking = prompt.last_turn().map_or(&[][..], |t| &t.blocks);
        let skip = thinking.iter().rev().take_while(|b| b.is_thinking()).count();
        let at = self.positions.len().checked_sub(1 + skip);
        if let Some(position) = at.and_then(|i| self.positions.get_mut(i)) {
            position.mark.get_or_insert(ttl);
        }
    }
}

/// True for web search. Turning it on or off keeps the tools' prefix and loses the system's.
fn is_web_search(tool: &Json) -> bool {
    tool.str_at("type").is_some_and(|t| t.starts_with("web_search_"))
}

/// Adds the parameters whose change loses the messages' prefix and keeps that of tools and system.
fn fold_parameters(digest: &mut Digest, prompt: &Prompt<'_>) {
    digest.add_field("messages");
    match prompt.choice {
        Choice::Auto => digest.add_field("auto"),
        Choice::Any => digest.add_field("any"),
        Choice::None => digest.add_field("none"),
        Choice::Tool(name) => {
            digest.add_field("tool");
            digest.add_field(name);
        }
    }
    digest.add_word(u64::from(prompt.parallel));
    let thinking = prompt.body.get("thinking");
    digest.add_field(thinking.and_then(|t| t.str_at("type")).unwrap_or(""));
    digest.add_word(
        thinking.and_then(|t| t.get("budget_tokens")).and_then(Json::as_u64).unwrap_or(0),
    );
    let config = prompt.body.get("output_config");
    let effort = config.and_then(|c| c.str_at("effort")).unwrap_or(prompt.model.default_effort);
    digest.add_field(effort);
    for key in ["format", "task_budget"] {
        digest.add_field(&config.and_then(|c| c.get(key)).map(Json::to_text).unwrap_or_default());
    }
    let images = prompt.turns.iter().flat_map(|t| &t.blocks).any(|b| b.is_kind("image"));
    digest.add_word(u64::from(images));
}
