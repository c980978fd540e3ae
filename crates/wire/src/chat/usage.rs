//! Token counts as the vendors report them, converted to softland's units.
//!
//! `prompt_tokens` includes the tokens read from and written to the cache; here the three are
//! separate. Reasoning is part of the output: xAI and Gemini's layer leave it out of
//! `completion_tokens`, and only `total_tokens` includes it. This module knows no prices. It takes
//! a cost only if the vendor states it.

mod cost;
#[cfg(test)]
mod tests;

use crate::{
    ExtraCharges, Tokens,
    json::{Cursor, Error, Kind},
    tokens::read_token_count,
};

/// The usage of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The tokens that the response reports, in softland's units: `input` is uncached.
    pub tokens: Tokens,
    /// Tokens spent on reasoning; part of the output.
    pub reasoning: u64,
    /// The cost stated by the vendor, in billionths of a US dollar: OpenRouter's `cost` (including
    /// the inference billed to the user's own key) or xAI's `cost_in_usd_ticks`.
    pub cost_nano_usd: Option<u64>,
    /// True if any usage was reported. If false, the counts are 0 and have no meaning.
    pub present: bool,
}

impl Usage {
    /// Reads a `usage` object. Returns `None` for any other value.
    ///
    /// # Errors
    /// Fails if the value is not JSON.
    pub fn from_cursor(cursor: &mut Cursor<'_>) -> Result<Option<Self>, Error> {
        if cursor.peek()? != Kind::Object {
            cursor.skip_value()?;
            return Ok(None);
        }
        let mut report = UsageReport::default();
        cursor.read_members(|cursor, member| report.read_member(&member.key.unescape(), cursor))?;
        Ok(Some(report.to_usage()))
    }

    /// Returns the tokens billed for the request, with the cost stated by the vendor.
    #[must_use]
    pub fn billed_tokens(&self) -> Tokens {
        let beside = ExtraCharges { stated: self.cost_nano_usd, ..self.tokens.beside };
        Tokens { beside, ..self.tokens }
    }

    /// Replaces the counts of an earlier report. A cost stays if the later report states none.
    pub fn apply_update(&mut self, later: &Self) {
        let cost = later.cost_nano_usd.or(self.cost_nano_usd);
        let beside = ExtraCharges {
            served: later.tokens.beside.served.max(self.tokens.beside.served),
            ..later.tokens.beside
        };
        let tokens = Tokens { beside, ..later.tokens };
        *self = Self { cost_nano_usd: cost, tokens, ..*later };
    }

    /// Returns the members of a usage as received that state the output, with this output: a JSON
    /// object to lay over it.
    #[must_use]
    pub fn output_members(&self) -> String {
        let (output, prompt) = (self.tokens.output, self.tokens.input_total());
        let total = prompt.saturating_add(output);
        format!(r#"{{"completion_tokens":{output},"total_tokens":{total}}}"#)
    }

    /// Appends the JSON object that OpenAI would send, with OpenRouter's `cost` if it is known.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let tokens = &self.tokens;
        let prompt = tokens.input_total();
        let written = tokens.cache_write_5m.saturating_add(tokens.cache_write_1h);
        let text = format!(
            concat!(
                r#"{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},"#,
                r#""prompt_tokens_details":{{"cached_tokens":{},"cache_write_tokens":{}}},"#,
                r#""completion_tokens_details":{{"reasoning_tokens":{}}}"#
            ),
            prompt,
            tokens.output,
            prompt.saturating_add(tokens.output),
            tokens.cache_read,
            written,
            self.reasoning
        );
        out.extend_from_slice(text.as_bytes());
        if let Some(nano) = self.cost_nano_usd {
            out.extend_from_slice(br#","cost":"#);
            out.extend_from_slice(cost::format_usd(nano).as_bytes());
        }
        out.push(b'}');
    }
}

/// A `usage` object as received. A value it does not state is `None`.
#[derive(Debug, Default)]
struct UsageReport {
    prompt: Option<u64>,
    completion: Option<u64>,
    total: Option<u64>,
    cached: Option<u64>,
    written: Option<u64>,
    reasoning: Option<u64>,
    hit: Option<u64>,
    miss: Option<u64>,
    cost: Option<u64>,
    ticks: Option<u64>,
    upstream_cost: Option<u64>,
    own_key: bool,
    sources: u64,
}

impl UsageReport {
    fn read_member(&mut self, key: &str, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let target = match key {
            "prompt_tokens" => &mut self.prompt,
            "completion_tokens" => &mut self.completion,
            "total_tokens" => &mut self.total,
            // At the top level: Moonshot. The older names for writes: proxies for Anthropic.
            "cached_tokens" | "cache_read_input_tokens" => &mut self.cached,
            "cache_write_tokens" | "cache_creation_tokens" | "cache_creation_input_tokens" => {
                &mut self.written
            }
            "reasoning_tokens" => &mut self.reasoning,
            "prompt_cache_hit_tokens" => &mut self.hit,
            "prompt_cache_miss_tokens" => &mut self.miss,
            "cost_in_usd_ticks" => &mut self.ticks,
            "cost" => return cost::read_cost(cursor, &mut self.cost),
            "upstream_inference_cost" => return cost::read_cost(cursor, &mut self.upstream_cost),
            "num_sources_used" => {
                self.sources = cursor.read_uint_or_skip()?.unwrap_or_default();
                return Ok(());
            }
            "is_byok" => {
                self.own_key = cursor.read_bool_or_skip()? == Some(true);
                return Ok(());
            }
            "prompt_tokens_details" | "completion_tokens_details" | "cost_details" => {
                return self.read_nested(cursor);
            }
            _ => return Ok(()),
        };
        // A cost is not a token count.
        let known = if key == "cost_in_usd_ticks" {
            cursor.read_uint_or_skip()?
        } else {
            read_token_count(cursor)?
        };
        *target = known.or(*target);
        Ok(())
    }

    fn read_nested(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Object {
            return Ok(());
        }
        cursor.read_members(|cursor, member| match &*member.key.unescape() {
            // Details contain no details, whatever a hostile upstream nests.
            "prompt_tokens_details" | "completion_tokens_details" | "cost_details" => Ok(()),
            key => self.read_member(key, cursor),
        })?;
        Ok(())
    }

    fn to_usage(&self) -> Usage {
        let read = self.cached.or(self.hit).unwrap_or(0);
        let written = self.written.unwrap_or(0);
        let from_cache = read.saturating_add(written);
        let split = || self.miss.map(|miss| miss.saturating_add(from_cache));
        let prompt = self.prompt.or_else(split).unwrap_or(0);
        let completion = self.completion.unwrap_or(0);
        // The excess of the total over its parts is reasoning that they leave out. If it equals the
        // cached tokens, it is instead the cached input that the prompt leaves out.
        let beyond = self.total.map_or(0, |t| t.saturating_sub(prompt.saturating_add(completion)));
        let apart = beyond > 0 && beyond == from_cache;
        let input = if apart { prompt } else { prompt.saturating_sub(from_cache) };
        let output = if apart { completion } else { completion.saturating_add(beyond) };
        let cost_nano_usd = self.stated_cost();
        let beside = ExtraCharges {
            sources: u32::try_from(self.sources).unwrap_or(u32::MAX),
            ..ExtraCharges::default()
        };
        let tokens = Tokens {
            input,
            output,
            cache_read: read,
            cache_write_5m: written,
            cache_write_1h: 0,
            beside,
        };
        Usage { tokens, reasoning: self.reasoning.unwrap_or(0), cost_nano_usd, present: true }
    }

    /// Returns the stated cost. With the user's own key, OpenRouter's `cost` is its fee alone, and
    /// the vendor bills the inference separately. Otherwise the inference is part of the cost (both
    /// recorded or documented).
    fn stated_cost(&self) -> Option<u64> {
        let upstream = if self.own_key { self.upstream_cost } else { None };
        match (self.cost, upstream) {
            (Some(cost), Some(upstream)) => Some(cost.saturating_add(upstream)),
            (cost, upstream) => {
                cost.or(upstream).or_else(|| self.ticks.map(|ticks| ticks.div_ceil(10)))
            }
        }
    }
}
