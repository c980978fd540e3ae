//! The top-level members that change a request's price or refer to content outside of the body.

use crate::{
    ServiceTier,
    anthropic::is_country,
    json::{Cursor, Error, Kind, Span},
};

/// The members of a request that affect its price, apart from its tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PricingTerms {
    /// The service tier, from `speed` and `service_tier`.
    pub served: ServiceTier,
    /// True if `inference_geo` restricts the request to one country.
    pub in_one_country: bool,
    /// True if `mcp_servers` is not empty: the provider runs their tools.
    pub mcp_servers: bool,
    /// True if `prompt` is not empty: the provider stores a part of the prompt.
    pub stored_prompt: bool,
    /// True if there are `web_search_options` of Chat Completions: a search before the answer.
    pub search: bool,
    /// True if there are `search_parameters` of xAI: a search with sources billed individually.
    pub live_search: bool,
    /// True if `plugins` of OpenRouter is not empty.
    pub plugins: bool,
    /// True if `context_management` is not empty: the history may be compacted, which is billed.
    pub manages_context: bool,
    /// True if `prompt_cache_retention` or `prompt_cache_options` may keep cached input for long,
    /// which has its own price.
    pub keeps_cache: bool,
    /// True if `modalities` asks for output other than text, which has its own price.
    pub speaks: bool,
    /// True if `fallbacks` is not empty: other models may answer, at their own prices.
    pub fallbacks: bool,
    /// `max_tool_calls`, and the span of its value.
    pub max_tool_calls: Option<(u64, Span)>,
}

impl PricingTerms {
    /// Reads a member if it is one of these. `anthropic` is true for a body in Anthropic's format.
    pub(crate) fn read_member(
        &mut self,
        key: &str,
        cursor: &mut Cursor<'_>,
        anthropic: bool,
    ) -> Result<(), Error> {
        match key {
            "service_tier" => {
                self.read_tier(|tier| ServiceTier::from_tier(tier, anthropic), cursor)?
            }
            "speed" => self.read_tier(ServiceTier::from_speed, cursor)?,
            "inference_geo" => self.in_one_country = read_text_matches(cursor, is_country)?,
            "mcp_servers" => self.mcp_servers = read_is_nonempty(cursor)?,
            "prompt" => self.stored_prompt = read_is_nonempty(cursor)?,
            "web_search_options" => self.search = cursor.skip_unless_null()?.is_some(),
            "search_parameters" => self.live_search = cursor.skip_unless_null()?.is_some(),
            "plugins" => self.plugins = read_is_nonempty(cursor)?,
            "context_management" => self.manages_context = read_is_nonempty(cursor)?,
            "prompt_cache_retention" => {
                self.keeps_cache |=
                    read_text_matches(cursor, |kept| !matches!(kept, "" | "in_memory"))?;
            }
            "prompt_cache_options" => self.keeps_cache |= read_is_nonempty(cursor)?,
            "modalities" => self.speaks = read_other_modalities(cursor)?,
            "fallbacks" => self.fallbacks = read_is_nonempty(cursor)?,
            _ => {}
        }
        Ok(())
    }

    /// Reads a tier and keeps the more expensive one: a later provider may read either member.
    fn read_tier(
        &mut self,
        by: impl Fn(&str) -> ServiceTier,
        cursor: &mut Cursor<'_>,
    ) -> Result<(), Error> {
        // A value that is not a text is refused, or read by a server that reports the tier it used.
        let asked = cursor.read_string_or_skip()?.map(|(text, _)| by(&text.unescape()));
        self.served = self.served.max(asked.unwrap_or_default());
        Ok(())
    }
}

fn read_text_matches(cursor: &mut Cursor<'_>, of: impl Fn(&str) -> bool) -> Result<bool, Error> {
    Ok(cursor.read_string_or_skip()?.is_some_and(|(text, _)| of(&text.unescape())))
}

/// Returns true unless the value is `null` or an empty list, object or text.
fn read_is_nonempty(cursor: &mut Cursor<'_>) -> Result<bool, Error> {
    let mut any = false;
    match cursor.peek()? {
        Kind::Null => cursor.skip_value().map(drop)?,
        Kind::Array => {
            cursor.read_elements(|cursor| {
                any = true;
                cursor.skip_value().map(drop)
            })?;
        }
        Kind::Object => {
            cursor.read_members(|_, _| {
                any = true;
                Ok::<_, Error>(())
            })?;
        }
        Kind::String => any = read_text_matches(cursor, |text| !text.is_empty())?,
        Kind::Number | Kind::Bool => {
            any = true;
            cursor.skip_value()?;
        }
    }
    Ok(any)
}

fn read_other_modalities(cursor: &mut Cursor<'_>) -> Result<bool, Error> {
    let mut speaks = false;
    if cursor.peek()? != Kind::Array {
        return cursor.skip_value().map(|_| false);
    }
    cursor.read_elements(|cursor| {
        speaks |= read_text_matches(cursor, |modality| modality != "text")?;
        Ok::<_, Error>(())
    })?;
    Ok(speaks)
}
