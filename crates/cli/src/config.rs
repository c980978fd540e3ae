//! Config files: the policies, prices and upstreams in them. The gateway's own tables share the
//! file; they are accepted by name here and not looked into.
//!
//! Every problem names file, line and key; problems come in the order of their lines.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use softland_agent::core::NanoUsd;
use softland_agent::core::models::Price;
use softland_agent::core::nearest;
use softland_agent::core::policy::{KeyError, Policy, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

#[cfg(test)]
mod tests;
mod upstream;

pub(crate) use upstream::Upstream;

/// The largest config that is read, in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Top-level keys of a config (contract, section 8); only the first three matter to a run.
const TABLES: [&str; 13] = [
    "policy",
    "price",
    "upstream",
    "listen",
    "allowed_hosts",
    "admin",
    "clients",
    "route",
    "shape",
    "ledger",
    "log",
    "shared",
    "allow_unmetered",
];

/// Keys of a `[[price]]`.
const PRICE_KEYS: [&str; 5] = ["model", "input", "output", "cache_read", "cache_write"];

/// What a config says that a run needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Config {
    policies: BTreeMap<String, Policy>,
    prices: Vec<(String, Price)>,
    upstreams: BTreeMap<String, Upstream>,
}

impl Config {
    /// Reads a config from disk; `Err` holds at least one problem.
    pub(crate) fn load(path: &Path) -> Result<Self, Vec<String>> {
        let file = path.display().to_string();
        let text = read(path).map_err(|problem| vec![format!("{file}: {problem}")])?;
        Self::parse(&file, &text)
    }

    /// Parses the text of a config; `file` is what problems call it.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Self, Vec<String>> {
        let (config, problems) = (Self::default(), Vec::new());
        let mut reader = Reader { file, text, config, problems };
        match DeTable::parse(text) {
            Ok(table) => reader.top(table.get_ref()),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                let message = error.message().trim().replace('\n', "; ");
                reader.problem(at, "", &message);
            }
        }
        if reader.problems.is_empty() {
            return Ok(reader.config);
        }
        reader.problems.sort_by_key(|(at, _)| *at);
        Err(reader.problems.into_iter().map(|(_, problem)| problem).collect())
    }

    /// The policy of that name.
    pub(crate) fn policy(&self, name: &str) -> Option<&Policy> {
        self.policies.get(name)
    }

    /// Names of the policies, sorted.
    pub(crate) fn policy_names(&self) -> impl Iterator<Item = &str> {
        self.policies.keys().map(String::as_str)
    }

    /// What is said about the provider of that name.
    pub(crate) fn upstream(&self, provider: &str) -> Option<&Upstream> {
        self.upstreams.get(provider)
    }

    /// The first price for a model, named with its provider or without.
    pub(crate) fn price(&self, model: &str) -> Option<Price> {
        let bare = model.split_once('/').map_or(model, |(_, name)| name);
        let named = |name: &String| name == model || name == bare;
        self.prices.iter().find(|(name, _)| named(name)).map(|(_, price)| *price)
    }
}

fn read(path: &Path) -> Result<String, String> {
    use std::io::ErrorKind;
    let explain = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => "the file does not exist".to_owned(),
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

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    config: Config,
    /// Each with the byte of the text where it is.
    problems: Vec<(usize, String)>,
}

impl Reader<'_> {
    /// Notes a problem at a byte of the text; `key` is empty where there is none.
    fn problem(&mut self, at: usize, key: &str, message: &str) {
        let place = self.place(at, key);
        self.problems.push((at, format!("{place}: {message}")));
    }

    /// `FILE:LINE` or `FILE:LINE: KEY`.
    fn place(&self, at: usize, key: &str) -> String {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        let file = self.file;
        match key {
            "" => format!("{file}:{line}"),
            key => format!("{file}:{line}: {key}"),
        }
    }

    fn top(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "policy" => self.policies(value),
                "price" => self.prices(value),
                "upstream" => self.upstreams(value),
                name if TABLES.contains(&name) => {}
                name => self.unknown(key.span().start, name, name, &TABLES),
            }
        }
    }

    fn unknown(&mut self, at: usize, place: &str, key: &str, known: &[&'static str]) {
        let message = match nearest(key, known.iter().copied()) {
            Some(near) => format!("unknown key; did you mean `{near}`?"),
            None => format!("unknown key; known are {}", known.join(", ")),
        };
        self.problem(at, place, &message);
    }

    fn policies(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(policies) = value.get_ref().as_table() else {
            return self.problem(value.span().start, "policy", "must be tables: [policy.NAME]");
        };
        for (name, value) in policies {
            let name = name.get_ref().as_ref();
            let place = format!("policy.{name}");
            match value.get_ref().as_table() {
                Some(table) => {
                    let policy = self.policy(&place, name, table);
                    self.config.policies.insert(name.to_owned(), policy);
                }
                None => {
                    let message = "must be a table: [policy.NAME] with policy keys";
                    self.problem(value.span().start, &place, message);
                }
            }
        }
    }

    /// A table over the built-in policy of its name, or else over the default one.
    fn policy(&mut self, place: &str, name: &str, table: &DeTable<'_>) -> Policy {
        let mut policy = Policy::named(name).unwrap_or_default();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match policy.set(name, &plain(value.get_ref())) {
                Ok(()) => {}
                Err(KeyError::Unknown { nearest, .. }) => {
                    let hint = match nearest {
                        Some(near) => format!("; did you mean `{near}`?"),
                        None => "; see `softland run --help` for those there are".to_owned(),
                    };
                    let key_place = format!("{place}.{name}");
                    let message = format!("unknown key{hint}");
                    self.problem(key.span().start, &key_place, &message);
                }
                Err(KeyError::Value { key: inner, allowed, found }) => {
                    let message = format!("must be {allowed}, got {found}");
                    self.problem(key.span().start, &format!("{place}.{inner}"), &message);
                }
            }
        }
        policy
    }

    fn prices(&mut self, value: &Spanned<DeValue<'_>>) {
        let rows = value.get_ref().as_array();
        let Some(rows) = rows.filter(|rows| rows.iter().all(|row| row.get_ref().is_table())) else {
            return self.problem(value.span().start, "price", "must be tables: [[price]]");
        };
        for row in rows.iter() {
            if let Some(table) = row.get_ref().as_table() {
                self.price(row.span().start, table);
            }
        }
    }

    fn price(&mut self, at: usize, table: &DeTable<'_>) {
        for (key, _) in table {
            if !PRICE_KEYS.contains(&key.get_ref().as_ref()) {
                let name = key.get_ref().as_ref();
                self.unknown(key.span().start, name, name, &PRICE_KEYS);
            }
        }
        let model =
            table.get("model").and_then(|value| value.get_ref().as_str().map(str::to_owned));
        if model.as_deref().is_none_or(|model| model.trim().is_empty()) {
            self.problem(at, "price.model", "is required: the model's name");
        }
        let input = self.per_million(at, table, "input", true);
        let output = self.per_million(at, table, "output", true);
        let read = self.per_million(at, table, "cache_read", false);
        let write = self.per_million(at, table, "cache_write", false);
        let (Some(model), Some(input), Some(output)) = (model, input, output) else { return };
        // What is not given is filled in so that it is never too low (docs/models.md).
        let cache_write_5m = write.unwrap_or_else(|| input.saturating_add(input.div_ceil(4)));
        let cache_write_1h = write.unwrap_or(0).max(input.saturating_mul(2));
        let cache_read = read.unwrap_or(input);
        let price = Price { input, output, cache_read, cache_write_5m, cache_write_1h };
        self.config.prices.push((model.trim().to_owned(), price));
    }

    /// Dollars per million tokens as pico-dollars per token; what is finer is rounded up.
    fn per_million(
        &mut self,
        at: usize,
        table: &DeTable<'_>,
        key: &str,
        required: bool,
    ) -> Option<u64> {
        const ALLOWED: &str = "an amount of dollars per million tokens such as 3 or 0.25";
        let place = format!("price.{key}");
        let Some(value) = table.get(key) else {
            if required {
                self.problem(at, &place, &format!("is required: {ALLOWED}"));
            }
            return None;
        };
        let plain = plain(value.get_ref());
        let nano = match &plain {
            Value::Int(number) => number.to_string().parse::<NanoUsd>().ok(),
            Value::Float(number) => NanoUsd::from_dollars(*number),
            _ => None,
        };
        if nano.is_none() {
            let message = format!("must be {ALLOWED}, got {plain}");
            self.problem(value.span().start, &place, &message);
        }
        nano.map(|nano| nano.0.div_ceil(1000))
    }
}

/// A value as the policy's reader takes it.
fn plain(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            let parsed = i128::from_str_radix(number.as_str(), number.radix());
            parsed.map_or_else(|_| Value::Text(number.as_str().to_owned()), Value::Int)
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().parse();
            parsed.map_or_else(|_| Value::Text(number.as_str().to_owned()), Value::Float)
        }
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(when) => Value::Text(when.to_string()),
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| plain(item.get_ref())).collect())
        }
        DeValue::Table(table) => Value::Map(
            table
                .iter()
                .map(|(key, value)| (key.get_ref().to_string(), plain(value.get_ref())))
                .collect(),
        ),
    }
}
