//! The tables that only the gateway reads: its addresses, its clients, its routes and its records.
//! Keys that come with a later version are rejected by name.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use softland_agent::core::Millis;
use softland_agent::core::policy::Policy;
use softland_gateway::{LedgerPlace, Route, Shaping};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::budget::BudgetConfig;
use super::entry::Entry;
use super::key::KeyConfig;
use super::shared::SharedConfig;
use super::{ConfigReader, Variable};
use crate::ledger_file;

/// The gateway's part of a config. A key that the config lacks is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GatewayConfig {
    /// The address, and its place in the file.
    pub(super) listen: Option<(SocketAddr, String)>,
    pub(super) allowed_hosts: Vec<String>,
    /// The place of `[admin]` in the file, if it has keys.
    pub(super) admin: Option<String>,
    pub(super) admin_listen: Option<SocketAddr>,
    pub(super) admin_token: Option<Variable>,
    pub(super) client_tokens: Option<Variable>,
    pub(super) keys: Vec<KeyConfig>,
    pub(super) budgets: Vec<BudgetConfig>,
    pub(super) routes: Vec<Route>,
    pub(super) shapes: BTreeMap<String, Shaping>,
    /// The names that routes and `header_policies` refer to; checked when the whole file has been
    /// read.
    mentions: Vec<NameReference>,
    pub(super) ledger: Option<LedgerSetting>,
    /// The variable that holds the ledger's address, with its password.
    pub(super) ledger_variable: Option<Variable>,
    pub(super) ledger_full: bool,
    pub(super) retention: Option<RetentionSetting>,
    pub(super) events: Option<PathBuf>,
    pub(super) tls: Option<TlsConfig>,
    pub(super) allow_unmetered: bool,
    /// Whether streams get comments of softland's; `None`: they do.
    pub(super) stream_comments: Option<bool>,
    pub(super) shared: SharedConfig,
    /// The policies that `x-softland-policy` may select; `None` for each policy of the file.
    pub(super) header_policies: Option<Vec<String>>,
}

impl GatewayConfig {
    /// Returns true if each client must show a key.
    pub(super) fn has_keys(&self) -> bool {
        self.client_tokens.is_some() || !self.keys.is_empty()
    }
}

/// `[tls]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TlsConfig {
    /// The file of the certificate chain, and its place in the config.
    pub(super) cert: Option<(PathBuf, String)>,
    /// The file of the private key, and its place in the config.
    pub(super) key: Option<(PathBuf, String)>,
}

/// The value of `[ledger] url`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LedgerSetting {
    /// No ledger is kept.
    Off,
    /// A SQLite file or a PostgreSQL.
    At(LedgerPlace),
}

/// The value of `[ledger] retention`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetentionSetting {
    Forever,
    For(Duration),
}

/// A reference by name to a policy, an upstream or a shape that the file defines elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NameReference {
    at: usize,
    place: String,
    of: ReferenceKind,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferenceKind {
    Policy,
    /// A policy of the file itself.
    OwnPolicy,
    Upstream,
    Shape,
}

/// The allowed values of keys, for messages.
const LEDGER_URL: &str = "\"sqlite:PATH\", \"postgres://HOST:PORT/DATABASE\" or \"off\"";
const CONTENT: &str = "\"digests\" or \"full\"";
const RETENTION: &str = "a time such as \"30d\" or \"12h\", or \"forever\"";
const HOST: &str = "a list of host names such as [\"gateway.example\", \"10.0.0.7:4141\"]";
const NAMES: &str = "a list of names of policies such as [\"coding\", \"strict\"], or []";
const FILE: &str = "a file's path in quotes";
const NAME: &str = "a name in quotes";

impl ConfigReader<'_> {
    /// Reads a top-level key of the gateway. Returns false if `key` is not one of them.
    pub(super) fn read_gateway_key(
        &mut self,
        key: &str,
        at: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> bool {
        let entry = Entry { name: key, place: key.to_owned(), at, value: value.get_ref() };
        match key {
            "listen" => {
                let place = self.format_place(at, key);
                self.config.gateway.listen =
                    self.read_address(&entry).map(|address| (address, place));
            }
            "allowed_hosts" => self.config.gateway.allowed_hosts = self.read_hosts(&entry),
            "allow_unmetered" => {
                self.config.gateway.allow_unmetered = self.read_bool(&entry).unwrap_or(false);
            }
            "stream_comments" => self.config.gateway.stream_comments = self.read_bool(&entry),
            "header_policies" => {
                self.config.gateway.header_policies = self.read_policy_names(&entry);
            }
            "admin" => self.read_admin(value),
            "clients" => self.read_clients(value),
            "key" => self.read_keys(value),
            "budget" => self.read_budgets(value),
            "timezone" => self.read_timezone(&entry),
            "route" => self.read_routes(value),
            "shape" => self.read_shapes(value),
            "ledger" => self.read_ledger(value),
            "log" => self.read_log(value),
            "shared" => self.read_shared(value),
            "tls" => self.read_tls(at, value),
            _ => return false,
        }
        true
    }

    fn read_hosts(&mut self, entry: &Entry<'_, '_>) -> Vec<String> {
        let hosts = entry.value.as_array().and_then(|hosts| {
            hosts
                .iter()
                .map(|host| host.get_ref().as_str().filter(|host| is_host(host)))
                .map(|host| host.map(str::to_ascii_lowercase))
                .collect::<Option<Vec<_>>>()
        });
        if hosts.is_none() {
            self.note_wrong_value(entry, HOST);
        }
        hosts.unwrap_or_default()
    }

    /// Reads the names of policies, each of which the file must define, before or after this key.
    pub(super) fn read_policy_names(&mut self, entry: &Entry<'_, '_>) -> Option<Vec<String>> {
        let names = entry.value.as_array().and_then(|names| {
            let names = names.iter().map(|name| name.get_ref().as_str().map(str::to_owned));
            names.collect::<Option<Vec<_>>>()
        });
        if names.is_none() {
            self.note_wrong_value(entry, NAMES);
        }
        for name in names.iter().flatten() {
            let (at, place, of) = (entry.at, entry.place.clone(), ReferenceKind::OwnPolicy);
            self.config.gateway.mentions.push(NameReference { at, place, of, name: name.clone() });
        }
        names
    }

    fn read_admin(&mut self, value: &Spanned<DeValue<'_>>) {
        for entry in self.read_section("admin", value, &["listen", "token_env"]) {
            let place = self.format_place(entry.at, &entry.place);
            self.config.gateway.admin.get_or_insert(place);
            match entry.name {
                "listen" => self.config.gateway.admin_listen = self.read_address(&entry),
                _ => {
                    let such_as = "SOFTLAND_ADMIN_TOKEN";
                    self.config.gateway.admin_token = self.read_variable(&entry, such_as);
                }
            }
        }
    }

    fn read_clients(&mut self, value: &Spanned<DeValue<'_>>) {
        for entry in self.read_section("clients", value, &["tokens_env"]) {
            let such_as = "SOFTLAND_TOKENS; it holds one or more tokens with commas between";
            self.config.gateway.client_tokens = self.read_variable(&entry, such_as);
        }
    }

    fn read_routes(&mut self, value: &Spanned<DeValue<'_>>) {
        for (at, table) in self.read_rows("route", value) {
            let route = self.read_route(at, table);
            self.config.gateway.routes.push(route);
        }
    }

    fn read_route(&mut self, at: usize, table: &DeTable<'_>) -> Route {
        let mut route = Route { model: String::new(), policy: None, upstream: None, shape: None };
        let whole = DeValue::Table(table.clone());
        for entry in self.read_entries("route", &whole, &["model", "policy", "upstream", "shape"]) {
            match entry.name {
                "model" => {
                    let allowed = "a model's name in quotes, with * for any characters";
                    route.model = self.read_text(&entry, allowed).unwrap_or_default();
                }
                "policy" => route.policy = self.read_reference(&entry, ReferenceKind::Policy),
                "upstream" => route.upstream = self.read_reference(&entry, ReferenceKind::Upstream),
                _ => route.shape = self.read_reference(&entry, ReferenceKind::Shape),
            }
        }
        if !table.contains_key("model") {
            let message = "is required: a model's name in quotes, with * for any characters";
            self.note_problem(at, "route.model", message);
        }
        route
    }

    /// Reads a name, which the file must define, before or after this key.
    pub(super) fn read_reference(
        &mut self,
        entry: &Entry<'_, '_>,
        of: ReferenceKind,
    ) -> Option<String> {
        let name = self.read_text(entry, NAME)?;
        let (at, place) = (entry.at, entry.place.clone());
        self.config.gateway.mentions.push(NameReference { at, place, of, name: name.clone() });
        Some(name)
    }

    /// Checks the collected references, once the whole file has been read.
    pub(super) fn check_references(&mut self) {
        for mention in std::mem::take(&mut self.config.gateway.mentions) {
            let NameReference { at, place, of, name } = mention;
            let (what, how, known): (_, _, Vec<&str>) = match of {
                ReferenceKind::Policy => (
                    "policy",
                    "[policy.NAME]",
                    Policy::NAMES.into_iter().chain(self.config.policy_names()).collect(),
                ),
                ReferenceKind::OwnPolicy => {
                    ("policy of this file", "[policy.NAME]", self.config.policy_names().collect())
                }
                ReferenceKind::Upstream => {
                    ("upstream", "[upstream.NAME]", self.config.upstream_names())
                }
                ReferenceKind::Shape => {
                    let shapes = self.config.gateway.shapes.keys();
                    ("shape", "[shape.NAME]", shapes.map(String::as_str).collect())
                }
            };
            if !known.contains(&name.as_str()) {
                let mut known = known;
                known.sort_unstable();
                known.dedup();
                let there = match known.as_slice() {
                    [] => "there is none".to_owned(),
                    known => format!("there are {}", known.join(", ")),
                };
                let message =
                    format!("no {what} is named `{name}`; {there} (others come from {how})");
                self.note_problem(at, &place, &message);
            }
        }
    }

    fn read_ledger(&mut self, value: &Spanned<DeValue<'_>>) {
        for entry in self.read_section("ledger", value, &["url", "url_env", "content", "retention"])
        {
            match entry.name {
                "url" => self.config.gateway.ledger = self.read_ledger_url(&entry),
                "url_env" => {
                    let variable = self.read_variable(&entry, ledger_file::VARIABLE);
                    self.config.gateway.ledger_variable = variable;
                }
                "content" => match entry.value.as_str() {
                    Some("digests") => self.config.gateway.ledger_full = false,
                    Some("full") => self.config.gateway.ledger_full = true,
                    _ => self.note_wrong_value(&entry, CONTENT),
                },
                _ => self.config.gateway.retention = self.read_retention(&entry),
            }
        }
    }

    fn read_ledger_url(&mut self, entry: &Entry<'_, '_>) -> Option<LedgerSetting> {
        let url = entry.value.as_str().map(str::trim).unwrap_or_default();
        if url == "off" {
            return Some(LedgerSetting::Off);
        }
        if ledger_file::is_address(url) {
            // The address is not shown: it may contain a password.
            let place = match url.contains('@') || url.contains("password=") {
                true => Err("may not carry a user or a password; use url_env".to_owned()),
                false => ledger_file::parse_address(url),
            };
            return match place {
                Ok(place) => Some(LedgerSetting::At(place)),
                Err(message) => {
                    self.note_problem(entry.at, &entry.place, &message);
                    None
                }
            };
        }
        let path = url.strip_prefix("sqlite:").filter(|path| {
            // Programs disagree on the meaning of `//`; `:memory:` would become the name of a file.
            !path.is_empty() && !path.starts_with("//") && !path.starts_with(':')
        });
        if path.is_none() {
            let message = format!("must be {LEDGER_URL}; a path has no // before it");
            self.note_problem(entry.at, &entry.place, &message);
        }
        path.map(|path| LedgerSetting::At(PathBuf::from(path).into()))
    }

    fn read_retention(&mut self, entry: &Entry<'_, '_>) -> Option<RetentionSetting> {
        match entry.value.as_str().map(str::trim) {
            Some("forever") => return Some(RetentionSetting::Forever),
            Some(text) if let Ok(time @ Millis(1..)) = text.parse::<Millis>() => {
                return Some(RetentionSetting::For(Duration::from_millis(time.0)));
            }
            _ => self.note_wrong_value(entry, RETENTION),
        }
        None
    }

    fn read_log(&mut self, value: &Spanned<DeValue<'_>>) {
        for entry in self.read_section("log", value, &["events"]) {
            self.config.gateway.events = self.read_text(&entry, FILE).map(PathBuf::from);
        }
    }

    fn read_tls(&mut self, at: usize, value: &Spanned<DeValue<'_>>) {
        let mut tls = TlsConfig::default();
        let before = self.problems.len();
        for entry in self.read_section("tls", value, &["cert", "key"]) {
            let place = self.format_place(entry.at, &entry.place);
            let file = self.read_text(&entry, FILE).map(|file| (PathBuf::from(file), place));
            match entry.name {
                "cert" => tls.cert = file,
                _ => tls.key = file,
            }
        }
        let whole = tls.cert.is_some() && tls.key.is_some();
        if !whole && self.problems.len() == before {
            self.note_problem(at, "tls", "needs both: cert = \"FILE\" and key = \"FILE\"");
        }
        self.config.gateway.tls = Some(tls);
    }
}

/// Returns true if the text may stand in a `Host` header, including a port.
fn is_host(text: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    !text.is_empty() && text.chars().all(part)
}
