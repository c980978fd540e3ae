//! `[upstream.NAME]`: where a provider is, and which variable holds its key.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use softland_agent::http::provider::base_url_problem;

use super::Reader;

/// Keys of an `[upstream.NAME]`.
const KEYS: [&str; 2] = ["base_url", "api_key_env"];

/// What a config says about a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Upstream {
    /// A base URL, and where it stands (`FILE:LINE: upstream.NAME.base_url`).
    pub(crate) base_url: Option<(String, String)>,
    /// The variable that holds the key.
    pub(crate) key_variable: Option<String>,
}

impl Reader<'_> {
    pub(super) fn upstreams(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(tables) = value.get_ref().as_table() else {
            return self.problem(value.span().start, "upstream", "must be tables: [upstream.NAME]");
        };
        for (name, value) in tables {
            let place = format!("upstream.{}", name.get_ref());
            match value.get_ref().as_table() {
                Some(table) => {
                    let upstream = self.upstream(&place, table);
                    self.config.upstreams.insert(name.get_ref().to_string(), upstream);
                }
                None => {
                    let message = "must be a table: [upstream.NAME] with base_url";
                    self.problem(value.span().start, &place, message);
                }
            }
        }
    }

    /// Values are not shown in problems: people write keys where they do not belong.
    fn upstream(&mut self, place: &str, table: &DeTable<'_>) -> Upstream {
        let mut upstream = Upstream::default();
        for (key, value) in table {
            let (at, name) = (key.span().start, key.get_ref().as_ref());
            let place = format!("{place}.{name}");
            let text = value.get_ref().as_str();
            match name {
                "base_url" => match text.map(|url| (url, base_url_problem(url))) {
                    Some((url, None)) => {
                        let from = self.place(at, &place);
                        upstream.base_url = Some((url.to_owned(), from));
                    }
                    Some((_, Some(problem))) => self.problem(at, &place, problem),
                    None => self.problem(at, &place, "must be a URL in quotes"),
                },
                "api_key_env" => match text.filter(|name| is_variable(name)) {
                    Some(name) => upstream.key_variable = Some(name.to_owned()),
                    None => {
                        let message = "must be the name of an environment variable, such as \
                                       ANTHROPIC_API_KEY; the key itself does not belong here";
                        self.problem(at, &place, message);
                    }
                },
                _ => self.unknown(at, &place, name, &KEYS),
            }
        }
        upstream
    }
}

fn is_variable(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(plain) && name.starts_with(|c: char| !c.is_ascii_digit())
}
