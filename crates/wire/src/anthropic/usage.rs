//! Token counts as the API reports them.
//!
//! `input` is the uncached part only. The whole input is [`Tokens::input_total`]. The numbers of a
//! `message_delta` are cumulative and override those of `message_start`, even downwards. Some
//! proxies write zeros there for what they do not know: a report of no input at all says nothing
//! of it. This module knows no prices.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::{
    ServiceTier, Tokens,
    json::{Cursor, Error, Kind},
    tokens::read_token_count,
};

/// A model call within a request, as listed in `usage.iterations`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Iteration {
    /// `type`: `message`, `compaction`, `fallback_message`, `advisor_message`, or newer.
    pub kind: String,
    /// The model, if it is named.
    pub model: Option<String>,
    /// The tokens of the call.
    pub tokens: Tokens,
}

/// The usage of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The tokens that the response reports for itself.
    pub tokens: Tokens,
    /// `output_tokens_details.thinking_tokens`; part of the output.
    pub thinking: u64,
    /// `server_tool_use.web_search_requests`
    pub web_searches: u64,
    /// `server_tool_use.web_fetch_requests`
    pub web_fetches: u64,
    /// The underlying model calls, if they are listed.
    pub iterations: Vec<Iteration>,
}

impl Usage {
    /// Returns the tokens billed for the request: the sum of the iterations if they are listed (a
    /// compaction's tokens appear only there), otherwise the response's own tokens.
    #[must_use]
    pub fn billed_tokens(&self) -> Tokens {
        let searches = u32::try_from(self.web_searches).unwrap_or(u32::MAX);
        let mut beside = self.tokens.beside;
        beside.web_searches = beside.web_searches.max(searches);
        if self.iterations.is_empty() {
            return Tokens { beside, ..self.tokens };
        }
        let sum =
            self.iterations.iter().fold(Tokens::default(), |sum, i| sum.saturating_add(i.tokens));
        Tokens { beside, ..sum }.clamp_counts()
    }

    /// Overrides the counts that a later report states, and keeps the others.
    pub fn apply_update(&mut self, report: &UsageUpdate) {
        let tokens = &mut self.tokens;
        let set = |target: &mut u64, value: Option<u64>| {
            if let Some(value) = value {
                *target = value;
            }
        };
        set(&mut tokens.output, report.output);
        if report.names_input() {
            set(&mut tokens.input, report.input);
            set(&mut tokens.cache_read, report.cache_read);
            if let Some((five_minutes, hour)) = report.merge_cache_writes(tokens) {
                tokens.cache_write_5m = five_minutes;
                tokens.cache_write_1h = hour;
            }
        }
        set(&mut self.thinking, report.thinking);
        set(&mut self.web_searches, report.web_searches);
        set(&mut self.web_fetches, report.web_fetches);
        let beside = &mut tokens.beside;
        beside.served = beside.served.max(report.served);
        beside.in_one_country |= report.in_one_country;
        if let Some(iterations) = &report.iterations {
            self.iterations.clone_from(iterations);
        }
    }

    /// Appends the JSON object that the API would send.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        write_tokens(out, &self.tokens);
        if self.thinking > 0 {
            let details =
                format!(r#","output_tokens_details":{{"thinking_tokens":{}}}"#, self.thinking);
            out.extend_from_slice(details.as_bytes());
        }
        if self.web_searches > 0 || self.web_fetches > 0 {
            let tools = format!(
                r#","server_tool_use":{{"web_search_requests":{},"web_fetch_requests":{}}}"#,
                self.web_searches, self.web_fetches
            );
            out.extend_from_slice(tools.as_bytes());
        }
        self.write_iterations(out);
        out.push(b'}');
    }

    /// Returns the members in which the output and the iterations differ from those of a usage as
    /// received: a JSON object to lay over it.
    #[must_use]
    pub fn changed_members(&self, received: &Self) -> String {
        let mut out = b"{".to_vec();
        if self.tokens.output != received.tokens.output {
            let output = format!(r#""output_tokens":{}"#, self.tokens.output);
            out.extend_from_slice(output.as_bytes());
        }
        if self.iterations != received.iterations {
            let at = out.len();
            self.write_iterations(&mut out);
            if at == 1 {
                // Without a member before it, the list needs no comma.
                out.remove(at);
            }
        }
        out.push(b'}');
        // It is written from text.
        String::from_utf8(out).unwrap_or_default()
    }

    fn write_iterations(&self, out: &mut Vec<u8>) {
        if self.iterations.is_empty() {
            return;
        }
        out.extend_from_slice(br#","iterations":["#);
        for (n, iteration) in self.iterations.iter().enumerate() {
            out.extend_from_slice(if n == 0 { b"{" } else { b",{" });
            iteration.write_members(out);
        }
        out.push(b']');
    }
}

impl Iteration {
    fn write_members(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#""type":"#);
        crate::json::write_str(out, &self.kind);
        if let Some(model) = &self.model {
            out.extend_from_slice(br#","model":"#);
            crate::json::write_str(out, model);
        }
        out.push(b',');
        write_tokens(out, &self.tokens);
        out.push(b'}');
    }
}

fn write_tokens(out: &mut Vec<u8>, tokens: &Tokens) {
    let written = tokens.cache_write_5m.saturating_add(tokens.cache_write_1h);
    let text = format!(
        concat!(
            r#""input_tokens":{},"cache_creation_input_tokens":{},"cache_read_input_tokens":{},"#,
            r#""cache_creation":{{"ephemeral_5m_input_tokens":{},"ephemeral_1h_input_tokens":{}}},"#,
            r#""output_tokens":{}"#
        ),
        tokens.input,
        written,
        tokens.cache_read,
        tokens.cache_write_5m,
        tokens.cache_write_1h,
        tokens.output
    );
    out.extend_from_slice(text.as_bytes());
}

/// A `usage` object as received. A value it does not state is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageUpdate {
    /// `input_tokens`
    pub input: Option<u64>,
    /// `output_tokens`
    pub output: Option<u64>,
    /// `cache_read_input_tokens`
    pub cache_read: Option<u64>,
    /// `cache_creation_input_tokens`
    pub cache_write: Option<u64>,
    /// `cache_creation.ephemeral_5m_input_tokens`
    pub cache_write_5m: Option<u64>,
    /// `cache_creation.ephemeral_1h_input_tokens`
    pub cache_write_1h: Option<u64>,
    /// `output_tokens_details.thinking_tokens`
    pub thinking: Option<u64>,
    /// `server_tool_use.web_search_requests`
    pub web_searches: Option<u64>,
    /// `server_tool_use.web_fetch_requests`
    pub web_fetches: Option<u64>,
    /// The service tier, from `speed` and `service_tier`.
    pub served: ServiceTier,
    /// True if `inference_geo` names a country.
    pub in_one_country: bool,
    /// `iterations`
    pub iterations: Option<Vec<Iteration>>,
}

impl UsageUpdate {
    /// Reads a `usage` object. Any other value counts as an empty report.
    ///
    /// # Errors
    /// Fails if the value is not JSON.
    pub fn from_cursor(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        let mut usage = Self::default();
        if cursor.peek()? != Kind::Object {
            cursor.skip_value()?;
            return Ok(usage);
        }
        cursor.read_members(|cursor, member| {
            match &*member.key.unescape() {
                "output_tokens_details" => usage.read_nested(cursor)?,
                "server_tool_use" | "cache_creation" => usage.read_nested(cursor)?,
                "iterations" => usage.iterations = read_iterations(cursor)?,
                "speed" => usage.raise_tier(ServiceTier::from_speed(&read_text(cursor)?)),
                "service_tier" => {
                    usage.raise_tier(ServiceTier::from_tier(&read_text(cursor)?, true))
                }
                "inference_geo" => usage.in_one_country = is_country(&read_text(cursor)?),
                key => usage.read_count(key, cursor)?,
            }
            Ok::<_, Error>(())
        })?;
        Ok(usage)
    }

    fn raise_tier(&mut self, served: ServiceTier) {
        self.served = self.served.max(served);
    }

    fn read_count(&mut self, key: &str, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let target = match key {
            "input_tokens" => &mut self.input,
            "output_tokens" => &mut self.output,
            "cache_read_input_tokens" => &mut self.cache_read,
            "cache_creation_input_tokens" => &mut self.cache_write,
            "ephemeral_5m_input_tokens" => &mut self.cache_write_5m,
            "ephemeral_1h_input_tokens" => &mut self.cache_write_1h,
            "thinking_tokens" => &mut self.thinking,
            "web_search_requests" => &mut self.web_searches,
            "web_fetch_requests" => &mut self.web_fetches,
            _ => return Ok(()),
        };
        *target = read_token_count(cursor)?;
        Ok(())
    }

    fn read_nested(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Object {
            return Ok(());
        }
        cursor.read_members(|cursor, member| self.read_count(&member.key.unescape(), cursor))?;
        Ok(())
    }

    /// Returns true unless the report counts no input at all.
    fn names_input(&self) -> bool {
        let cached = [self.cache_read, self.cache_write, self.cache_write_5m, self.cache_write_1h];
        self.input != Some(0) || cached.into_iter().flatten().any(|tokens| tokens > 0)
    }

    /// Returns both kinds of cache writes after this report, or `None` if it does not state them.
    /// The part of the total beyond its components counts as written for five minutes.
    fn merge_cache_writes(&self, before: &Tokens) -> Option<(u64, u64)> {
        match (self.cache_write, self.cache_write_5m, self.cache_write_1h) {
            (None, None, None) => None,
            (None, five, hour) => {
                Some((five.unwrap_or(before.cache_write_5m), hour.unwrap_or(before.cache_write_1h)))
            }
            (Some(total), None, None) => {
                // A bare total that repeats a known sum keeps its split.
                let known = before.cache_write_5m.saturating_add(before.cache_write_1h);
                let hour = if known == total { before.cache_write_1h } else { 0 };
                Some((total.saturating_sub(hour), hour))
            }
            (Some(total), five, hour) => {
                let hour = hour.unwrap_or(0);
                Some((five.unwrap_or(0).max(total.saturating_sub(hour)), hour))
            }
        }
    }

    fn to_tokens(&self) -> Tokens {
        let mut usage = Usage::default();
        usage.apply_update(self);
        usage.tokens
    }
}

/// Returns true if an `inference_geo` of a request or response names a country.
pub(crate) fn is_country(geo: &str) -> bool {
    !matches!(geo, "" | "global" | "not_available")
}

fn read_text<'a>(cursor: &mut Cursor<'a>) -> Result<Cow<'a, str>, Error> {
    Ok(cursor.read_string_or_skip()?.map(|(text, _)| text.unescape()).unwrap_or_default())
}

fn read_iterations(cursor: &mut Cursor<'_>) -> Result<Option<Vec<Iteration>>, Error> {
    if cursor.peek()? != Kind::Array {
        cursor.skip_value()?;
        return Ok(None);
    }
    let mut list = Vec::new();
    cursor.read_elements(|cursor| {
        if cursor.peek()? == Kind::Object {
            list.push(read_iteration(cursor)?);
        }
        Ok::<_, Error>(())
    })?;
    Ok(Some(list))
}

fn read_iteration(cursor: &mut Cursor<'_>) -> Result<Iteration, Error> {
    let tokens = UsageUpdate::read_flat(&mut cursor.clone())?.to_tokens();
    let mut iteration = Iteration { tokens, ..Iteration::default() };
    cursor.read_members(|cursor, member| {
        let target = match &*member.key.unescape() {
            "type" => &mut iteration.kind,
            "model" => iteration.model.get_or_insert_default(),
            _ => return Ok(()),
        };
        *target = cursor.read_string_or_skip()?.unwrap_or_default().0.unescape().into_owned();
        Ok::<_, Error>(())
    })?;
    iteration.model = iteration.model.filter(|model| !model.is_empty());
    Ok(iteration)
}

impl UsageUpdate {
    /// Reads like [`from_cursor`](Self::from_cursor), but ignores the iterations of an iteration,
    /// which do not exist.
    fn read_flat(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        let mut usage = Self::default();
        cursor.read_members(|cursor, member| match &*member.key.unescape() {
            "cache_creation" => usage.read_nested(cursor),
            key => usage.read_count(key, cursor),
        })?;
        Ok(usage)
    }
}
