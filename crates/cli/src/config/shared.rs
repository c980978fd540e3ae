//! `[shared]`: where the state is that the gateways of a fleet share.

use std::path::Path;

use softland_host::SharedUrl;
use toml::Spanned;
use toml::de::DeValue;

use super::entry::Entry;
use super::{Config, ConfigReader, Env, Variable};

/// The keys of the table.
const KEYS: [&str; 2] = ["url", "url_env"];

/// The value of `[shared]`. A key that the config lacks is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SharedConfig {
    url: Option<SharedUrl>,
    /// The variable that holds the address, with its password.
    variable: Option<Variable>,
}

impl SharedConfig {
    /// Returns true if the state is in a store, which may hold keys, too.
    pub(super) fn is_store(&self) -> bool {
        self.variable.is_some() || self.url.as_ref().is_some_and(|url| *url != SharedUrl::Memory)
    }

    /// Returns the variable that holds the address.
    pub(super) fn variable(&self) -> Option<&Variable> {
        self.variable.as_ref()
    }
}

impl ConfigReader<'_> {
    pub(super) fn read_shared(&mut self, value: &Spanned<DeValue<'_>>) {
        for entry in self.read_section("shared", value, &KEYS) {
            match entry.name {
                "url" => self.config.gateway.shared.url = self.read_shared_url(&entry),
                _ => {
                    let such_as = "SOFTLAND_SHARED_URL";
                    self.config.gateway.shared.variable = self.read_variable(&entry, such_as);
                }
            }
        }
    }

    fn read_shared_url(&mut self, entry: &Entry<'_, '_>) -> Option<SharedUrl> {
        let text = entry.value.as_str().unwrap_or_default();
        let parsed = match text.contains('@') || text.contains("password=") {
            true => Err("may not carry a user or a password; use url_env".to_owned()),
            false => SharedUrl::parse(text),
        };
        match parsed {
            Ok(url) => Some(url),
            Err(message) => {
                self.note_problem(entry.at, &entry.place, &message);
                None
            }
        }
    }
}

impl Config {
    /// Returns true if the file names a store that gateways share, or a variable that may.
    pub(super) fn names_store(&self) -> bool {
        let SharedConfig { url, variable } = &self.gateway.shared;
        variable.is_some() || url.as_ref().is_some_and(|url| *url != SharedUrl::Memory)
    }

    /// Returns the place of the shared state.
    ///
    /// # Errors
    /// Returns a problem if the variable that should hold it is not set, or holds no address.
    pub(crate) fn resolve_shared(&self, env: Env<'_>) -> Result<SharedUrl, Vec<String>> {
        let SharedConfig { url, variable } = &self.gateway.shared;
        let Some(Variable { name, place }) = variable else {
            return Ok(url.clone().unwrap_or(SharedUrl::Memory));
        };
        let Some(text) = env(name).filter(|text| !text.trim().is_empty()) else {
            return Err(vec![format!("{place}: the variable {name} is not set")]);
        };
        SharedUrl::parse(&text).map_err(|message| vec![format!("{place}: {name} {message}")])
    }

    /// Returns the event log that the config names.
    pub(crate) fn event_log(&self) -> Option<&Path> {
        self.gateway.events.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_holds_what_a_config_may_not() {
        let parse = |text: &str| Config::parse("c.toml", text);
        let refused = parse("[shared]\nurl = 'redis://:hunter2@x'").expect_err("a password");
        assert_eq!(
            refused,
            ["c.toml:2: shared.url: may not carry a user or a password; use url_env"]
        );
        let asked = parse("[shared]\nurl = 'postgres://x/y?password=hunter2'");
        assert_eq!(asked.expect_err("a password"), refused);
        for address in ["redis://x:99999", "redis://x:0", "postgres://x:1,y:z/d"] {
            let refused = parse(&format!("[shared]\nurl = '{address}'")).expect_err("no port");
            assert_eq!(refused, ["c.toml:2: shared.url: must have a port from 1 to 65535"]);
        }
        let config = parse("[shared]\nurl_env = 'AT'").expect("a config");
        let at = |text: &'static str| move |_: &str| Some(text.to_owned());
        assert_eq!(config.resolve_shared(&at("memory:")), Ok(SharedUrl::Memory));
        let missing = config.resolve_shared(&|_| None).expect_err("it is not set");
        assert_eq!(missing, ["c.toml:2: shared.url_env: the variable AT is not set"]);
        let wrong = config.resolve_shared(&at("hunter2")).expect_err("no address");
        assert!(wrong[0].contains("AT must be") && !wrong[0].contains("hunter2"), "{wrong:?}");
    }
}
