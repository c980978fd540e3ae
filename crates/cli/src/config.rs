//! Config files, with one reader for all commands. `run` uses the policies, prices and upstreams;
//! `serve` and `wrap` use everything.
//!
//! Every problem names file, line and key; problems are in the order of their lines. No environment
//! is read here, and a config holds no credential: it names variables.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use softland_agent::core::find_nearest;
use softland_agent::core::models::{self, Price};
use softland_agent::core::policy::{Policy, PolicyValue};
use toml::de::{DeTable, DeValue};

mod budget;
mod entry;
mod gateway;
mod key;
mod policy;
mod price;
mod reload;
mod resolve;
mod shape;
mod shared;
#[cfg(test)]
mod tests;
mod upstream;
mod weak;

pub(crate) use entry::{LISTEN, parse_listen_address};
pub(crate) use gateway::LedgerSetting;
pub(crate) use key::{ACCOUNT, KEY_NAME};
pub(crate) use policy::find_unlimitable_tools;
pub(crate) use resolve::{Env, LEDGER, Overrides};
pub(crate) use upstream::{SilenceLimit, UpstreamConfig};

/// The largest config file that is read, in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The top-level keys of a config (`docs/reference/config.md`); a run uses the first three only.
const TABLES: [&str; 19] = [
    "policy",
    "price",
    "upstream",
    "listen",
    "allowed_hosts",
    "admin",
    "clients",
    "key",
    "budget",
    "route",
    "shape",
    "ledger",
    "log",
    "shared",
    "allow_unmetered",
    "stream_comments",
    "tls",
    "header_policies",
    "timezone",
];

/// The upstreams that always exist: the one for `/v1/messages`, and the one for the other routes.
const STANDING: [&str; 2] = ["anthropic", "openai"];

/// A parsed config file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Config {
    policies: BTreeMap<String, Policy>,
    prices: Vec<(String, Price)>,
    upstreams: BTreeMap<String, UpstreamConfig>,
    gateway: gateway::GatewayConfig,
    /// What a reload compares.
    extent: reload::Extent,
}

/// An environment variable that a config names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// The place where the config names it (`FILE:LINE: KEY`).
    place: String,
}

impl Config {
    /// Returns the names under which clients reach a proxy in front of softland.
    #[cfg(feature = "notebook")]
    pub(crate) fn allowed_hosts(&self) -> &[String] {
        &self.gateway.allowed_hosts
    }

    /// Reads a config from disk. An error holds at least one problem.
    pub(crate) fn load(path: &Path) -> Result<Self, Vec<String>> {
        let file = path.display().to_string();
        let text = read_file(path).map_err(|problem| vec![format!("{file}: {problem}")])?;
        Self::parse(&file, &text)
    }

    /// Parses the text of a config; `file` is its name in problems.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Self, Vec<String>> {
        let (config, problems) = (Self::default(), Vec::new());
        let mut reader = ConfigReader { file, text, config, timezone: "UTC".to_owned(), problems };
        match DeTable::parse(text) {
            Ok(table) => {
                reader.config.extent = reload::Extent::read(text, table.get_ref());
                reader.read_top_level(table.get_ref());
                reader.check_references();
            }
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                let message = error.message().trim().replace('\n', "; ");
                reader.note_problem(at, "", &message);
            }
        }
        if reader.problems.is_empty() {
            return Ok(reader.config);
        }
        reader.problems.sort_by_key(|(at, _)| *at);
        Err(reader.problems.into_iter().map(|(_, problem)| problem).collect())
    }

    /// Returns the policy of that name.
    pub(crate) fn find_policy(&self, name: &str) -> Option<&Policy> {
        self.policies.get(name)
    }

    /// Returns the names of the policies, sorted.
    pub(crate) fn policy_names(&self) -> impl Iterator<Item = &str> {
        self.policies.keys().map(String::as_str)
    }

    /// Returns the config of the provider of that name.
    pub(crate) fn find_upstream(&self, provider: &str) -> Option<&UpstreamConfig> {
        self.upstreams.get(provider)
    }

    /// Returns the names of the variables that hold credentials.
    pub(crate) fn key_variables(&self) -> impl Iterator<Item = &str> {
        let upstreams = self.upstreams.values().filter_map(|upstream| upstream.key.as_ref());
        let shared = self.gateway.shared.variable();
        let gateway = [&self.gateway.admin_token, &self.gateway.client_tokens];
        let keys = self.gateway.keys.iter().filter_map(|key| key.token_variable());
        let stores = shared.into_iter().chain(&self.gateway.ledger_variable);
        let variables = upstreams.chain(gateway.into_iter().flatten()).chain(keys).chain(stores);
        variables.map(|variable| variable.name.as_str())
    }

    /// Returns the names of the upstreams, sorted, including the two that always exist.
    fn upstream_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.upstreams.keys().map(String::as_str).collect();
        names.extend(STANDING.into_iter().filter(|name| !self.upstreams.contains_key(*name)));
        names.sort_unstable();
        names
    }

    /// Returns the prices by model, in the order of the file.
    pub(crate) fn prices(&self) -> &[(String, Price)] {
        &self.prices
    }

    /// Returns the first price for a model, with or without its provider's name. A price for `*`
    /// applies to a model without a built-in price.
    pub(crate) fn find_price(&self, model: &str) -> Option<Price> {
        let bare = model.split_once('/').map_or(model, |(_, name)| name);
        let named = |name: &String| name == model || name == bare;
        let find =
            |named: &dyn Fn(&String) -> bool| self.prices.iter().find(|(name, _)| named(name));
        let any = || find(&|name| name == "*").filter(|_| models::find_model(None, bare).is_none());
        find(&named).or_else(any).map(|(_, price)| *price)
    }
}

/// Returns a message about an unknown policy, which lists the known ones.
pub(crate) fn unknown_policy_message(name: &str, config: &Config) -> String {
    let mut names: Vec<&str> = Policy::NAMES.to_vec();
    names.extend(config.policy_names().filter(|name| !Policy::NAMES.contains(name)));
    let near = find_nearest(name, names.iter().copied());
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    format!(
        "no policy is named `{name}`; there are {} (others come from --config FILE, \
         [policy.NAME]){near}",
        names.join(", ")
    )
}

fn read_file(path: &Path) -> Result<String, String> {
    use std::io::ErrorKind;
    let explain = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => {
            "the file does not exist (`softland init` writes a first softland.toml)".to_owned()
        }
        ErrorKind::PermissionDenied => "the file may not be read (permission denied)".to_owned(),
        ErrorKind::IsADirectory => "is a folder; a config file is needed".to_owned(),
        ErrorKind::InvalidData => "is not UTF-8 text; save it as UTF-8".to_owned(),
        _ => format!("the file cannot be read: {error}"),
    };
    if path.metadata().map_err(explain)?.is_dir() {
        return Err("is a folder; a config file is needed".to_owned());
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(explain)?;
    let size = file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(explain)?;
    if size as u64 > MAX_BYTES {
        return Err(format!("is larger than the {MAX_BYTES} bytes a config may have"));
    }
    Ok(text)
}

struct ConfigReader<'a> {
    file: &'a str,
    text: &'a str,
    config: Config,
    /// The time zone of calendar windows.
    timezone: String,
    /// The problems, each with its byte offset in the text.
    problems: Vec<(usize, String)>,
}

impl ConfigReader<'_> {
    /// Notes a problem at a byte offset of the text; `key` is empty if the problem is not about a
    /// key.
    fn note_problem(&mut self, at: usize, key: &str, message: &str) {
        let place = self.format_place(at, key);
        self.problems.push((at, format!("{place}: {message}")));
    }

    /// Formats a place as `FILE:LINE` or `FILE:LINE: KEY`.
    fn format_place(&self, at: usize, key: &str) -> String {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        let file = self.file;
        match key {
            "" => format!("{file}:{line}"),
            key => format!("{file}:{line}: {key}"),
        }
    }

    fn read_top_level(&mut self, table: &DeTable<'_>) {
        // Budgets have the time zone of the file, which may stand after them.
        let (zone, others): (Vec<_>, Vec<_>) =
            table.iter().partition(|(key, _)| key.get_ref().as_ref() == "timezone");
        for (key, value) in zone.into_iter().chain(others) {
            match key.get_ref().as_ref() {
                "policy" => self.read_policies(value),
                "price" => self.read_prices(value),
                "upstream" => self.read_upstreams(value),
                name if self.read_gateway_key(name, key.span().start, value) => {}
                name => self.note_unknown_key(key.span().start, name, name, &TABLES),
            }
        }
    }
}

/// Converts a TOML value to a value for the policy's reader.
fn to_policy_value(value: &DeValue<'_>) -> PolicyValue {
    match value {
        DeValue::String(text) => PolicyValue::Text(text.to_string()),
        DeValue::Integer(number) => {
            let parsed = i128::from_str_radix(number.as_str(), number.radix());
            parsed.map_or_else(|_| PolicyValue::Text(number.as_str().to_owned()), PolicyValue::Int)
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().parse();
            parsed
                .map_or_else(|_| PolicyValue::Text(number.as_str().to_owned()), PolicyValue::Float)
        }
        DeValue::Boolean(value) => PolicyValue::Bool(*value),
        DeValue::Datetime(when) => PolicyValue::Text(when.to_string()),
        DeValue::Array(items) => {
            PolicyValue::List(items.iter().map(|item| to_policy_value(item.get_ref())).collect())
        }
        DeValue::Table(table) => PolicyValue::Map(
            table
                .iter()
                .map(|(key, value)| (key.get_ref().to_string(), to_policy_value(value.get_ref())))
                .collect(),
        ),
    }
}
