//! The top-level members by which a request changes its price, or asks for what no body shows.

use crate::{
    Served,
    anthropic::is_country,
    json::{Cursor, Error, Kind, Span},
};

/// What a request says of its price beside its tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// `speed`, else `service_tier`: how it asks to be served.
    pub served: Served,
    /// `inference_geo`: in one country only.
    pub in_one_country: bool,
    /// `mcp_servers`, where there are any: the provider runs their tools.
    pub mcp_servers: bool,
    /// `prompt`, an object: text that the provider keeps.
    pub stored_prompt: bool,
    /// `web_search_options` of Chat Completions: a search before the answer.
    pub search: bool,
    /// `search_parameters` of xAI: a search whose sources are billed one by one.
    pub live_search: bool,
    /// `plugins` of OpenRouter, where there are any.
    pub plugins: bool,
    /// `context_management`, where there is any: the history may be compacted, which is billed.
    pub manages_context: bool,
    /// `prompt_cache_retention` or `prompt_cache_options`: what is written to the cache may be kept
    /// for long, for which there is a price of its own.
    pub keeps_cache: bool,
    /// `modalities` other than text: what it answers in has a price of its own.
    pub speaks: bool,
    /// `fallbacks`, where there are any: other models may answer, at their own prices.
    pub fallbacks: bool,
    /// `max_tool_calls`, and where its value stands.
    pub max_tool_calls: Option<(u64, Span)>,
}

impl Terms {
    /// Reads a member, if it is one of these; `anthropic` in Anthropic's words.
    pub(crate) fn read(
        &mut self,
        key: &str,
        cursor: &mut Cursor<'_>,
        anthropic: bool,
    ) -> Result<(), Error> {
        match key {
            "service_tier" => self.serve(|tier| Served::by_tier(tier, anthropic), cursor)?,
            "speed" => self.serve(Served::by_speed, cursor)?,
            "inference_geo" => self.in_one_country = text(cursor, is_country)?,
            "mcp_servers" => self.mcp_servers = holds(cursor)?,
            "prompt" => self.stored_prompt = holds(cursor)?,
            "web_search_options" => self.search = cursor.skip_unless_null()?.is_some(),
            "search_parameters" => self.live_search = cursor.skip_unless_null()?.is_some(),
            "plugins" => self.plugins = holds(cursor)?,
            "context_management" => self.manages_context = holds(cursor)?,
            "prompt_cache_retention" => {
                self.keeps_cache |= text(cursor, |kept| !matches!(kept, "" | "in_memory"))?;
            }
            "prompt_cache_options" => self.keeps_cache |= holds(cursor)?,
            "modalities" => self.speaks = speaks(cursor)?,
            "fallbacks" => self.fallbacks = holds(cursor)?,
            _ => {}
        }
        Ok(())
    }

    /// The dearer of two counts: a later provider reads either.
    fn serve(&mut self, by: impl Fn(&str) -> Served, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        // What is no text is refused, or read by a server that says how it served.
        let asked = cursor.string_or_skip()?.map(|(text, _)| by(&text.unescape()));
        self.served = self.served.max(asked.unwrap_or_default());
        Ok(())
    }
}

fn text(cursor: &mut Cursor<'_>, of: impl Fn(&str) -> bool) -> Result<bool, Error> {
    Ok(cursor.string_or_skip()?.is_some_and(|(text, _)| of(&text.unescape())))
}

/// Whether a value holds anything: it is not `null`, and no empty list, object or text.
fn holds(cursor: &mut Cursor<'_>) -> Result<bool, Error> {
    let mut any = false;
    match cursor.peek()? {
        Kind::Null => cursor.skip_value().map(drop)?,
        Kind::Array => {
            cursor.elements(|cursor| {
                any = true;
                cursor.skip_value().map(drop)
            })?;
        }
        Kind::Object => {
            cursor.members(|_, _| {
                any = true;
                Ok::<_, Error>(())
            })?;
        }
        Kind::String => any = text(cursor, |text| !text.is_empty())?,
        Kind::Number | Kind::Bool => {
            any = true;
            cursor.skip_value()?;
        }
    }
    Ok(any)
}

fn speaks(cursor: &mut Cursor<'_>) -> Result<bool, Error> {
    let mut speaks = false;
    if cursor.peek()? != Kind::Array {
        return cursor.skip_value().map(|_| false);
    }
    cursor.elements(|cursor| {
        speaks |= text(cursor, |modality| modality != "text")?;
        Ok::<_, Error>(())
    })?;
    Ok(speaks)
}
