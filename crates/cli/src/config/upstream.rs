//! `[upstream.NAME]`: the address of a provider, and the variable that holds its key.

use toml::Spanned;
use toml::de::DeValue;

use std::time::Duration;

use softland_agent::core::Millis;
use softland_agent::http::provider::base_url_problem;
use softland_gateway::{BaseUrl, Upstream};

use super::entry::Entry;
use super::resolve::default_address;
use super::{ConfigReader, Variable};

/// The keys of an `[upstream.NAME]`.
const KEYS: [&str; 3] = ["base_url", "api_key_env", "silence_timeout"];

/// The most characters of an upstream's name.
const LONGEST: usize = 64;
/// The allowed names, for messages. A name is part of the paths that clients request, and no path
/// is unescaped.
const NAME: &str = "an upstream's name must be 1 to 64 of the characters a-z, A-Z, 0-9, `-`, `_` \
                    and `.`, the first a letter or a digit: clients reach it at /to/NAME/v1/";

/// A provider's part of a config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UpstreamConfig {
    /// The provider's address.
    pub(crate) base_url: Option<UpstreamAddress>,
    /// The variable that holds the key.
    pub(crate) key: Option<Variable>,
    /// The longest silence of a stream.
    pub(crate) silence: SilenceLimit,
}

/// The time for which a stream may bring nothing but signs of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SilenceLimit(pub(crate) Option<Duration>);

impl Default for SilenceLimit {
    fn default() -> Self {
        Self(Some(Upstream::SILENCE))
    }
}

/// A base URL, as written and as parsed for the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpstreamAddress {
    pub(crate) text: String,
    pub(super) parsed: BaseUrl,
    /// The place of the key (`FILE:LINE: upstream.NAME.base_url`).
    pub(crate) place: String,
}

impl ConfigReader<'_> {
    pub(super) fn read_upstreams(&mut self, value: &Spanned<DeValue<'_>>) {
        for named in self.read_named_tables("upstream", value, "[upstream.NAME] with base_url") {
            if !is_upstream_name(named.name) {
                self.note_problem(named.at, &named.place, NAME);
            }
            let upstream = self.read_upstream(&named);
            // An address that is present but invalid has been noted already.
            let given = named.value.get("base_url").is_some();
            if !given && default_address(named.name).is_none() {
                let message = "is required: where the provider is, such as \"https://host/v1\"";
                let place = format!("{}.base_url", named.place);
                self.note_problem(named.at, &place, message);
            }
            self.config.upstreams.insert(named.name.to_owned(), upstream);
        }
    }

    /// Reads an upstream. Problems do not show values: people paste keys in the wrong place.
    fn read_upstream(&mut self, named: &Entry<'_, '_>) -> UpstreamConfig {
        let mut upstream = UpstreamConfig::default();
        for entry in self.read_entries(&named.place, named.value, &KEYS) {
            match entry.name {
                "base_url" => upstream.base_url = self.read_base_url(&entry),
                "silence_timeout" => match entry.value.as_str().map(str::trim) {
                    Some("off") => upstream.silence = SilenceLimit(None),
                    Some(text) if let Ok(time @ Millis(1..)) = text.parse::<Millis>() => {
                        upstream.silence = SilenceLimit(Some(Duration::from_millis(time.0)));
                    }
                    _ => self.note_wrong_value(&entry, "a time such as \"30m\", or \"off\""),
                },
                _ => {
                    upstream.key = self.read_variable(
                        &entry,
                        "ANTHROPIC_API_KEY; the key itself does not belong here",
                    );
                }
            }
        }
        upstream
    }

    fn read_base_url(&mut self, entry: &Entry<'_, '_>) -> Option<UpstreamAddress> {
        let Some(text) = entry.value.as_str() else {
            self.note_problem(entry.at, &entry.place, "must be a URL in quotes");
            return None;
        };
        if let Some(problem) = base_url_problem(text) {
            self.note_problem(entry.at, &entry.place, problem);
            return None;
        }
        match BaseUrl::parse(text) {
            Ok(parsed) => {
                let place = self.format_place(entry.at, &entry.place);
                Some(UpstreamAddress { text: text.to_owned(), parsed, place })
            }
            Err(problem) => {
                self.note_problem(entry.at, &entry.place, &problem.to_string());
                None
            }
        }
    }
}

fn is_upstream_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= LONGEST
        && name.chars().all(plain)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}
