//! Resolves a config, flags and the environment to the settings of the gateway.
//!
//! This module reads no environment itself: the caller passes a function.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use softland_agent::core::policy::{Policy, PolicyValue};
use softland_agent::http::provider::PROVIDERS;
use softland_gateway::{
    Admin, BaseUrl, ClientKey, KeyEntry, Limits, LogSettings, Prices, Secret, ServerTls, Settings,
    Upstream,
};
use softland_host::SharedUrl;

use super::gateway::{LedgerSetting, RetentionSetting};
use super::key::KeyToken;
use super::{
    Config, SilenceLimit, UpstreamConfig, Variable, find_unlimitable_tools, unknown_policy_message,
};
use crate::audit::PageReports;
use crate::ledger_file;

/// The default address of the gateway.
const LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4141);
/// The name of a ledger that is not named: of `serve` with a config in the current folder, else in
/// the user's state folder.
pub(crate) const LEDGER: &str = "softland.db";
/// The default time for which a ledger keeps a run.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A function that looks up an environment variable.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The settings that override the config.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    /// The address, and the flag that set it.
    pub(crate) listen: Option<(SocketAddr, &'static str)>,
    /// Upstreams with their addresses. The key in the config belongs to the address in the config;
    /// it is not used if the address here differs.
    pub(crate) upstreams: Vec<(&'static str, BaseUrl)>,
    /// The policy of every request, by name.
    pub(crate) policy: Option<String>,
    /// Policy keys that are set on the policy of every request.
    pub(crate) keys: Vec<(&'static str, PolicyValue)>,
    /// True for a gateway that one person runs for one program: it listens on loopback, ignores the
    /// config's `[admin]` and `[clients]`, and recaps its runs at the end.
    pub(crate) private: bool,
}

impl Config {
    /// Returns the gateway's settings. The ledger is the one that the file names; the caller sets
    /// the default one.
    ///
    /// # Errors
    /// Returns at least one problem, each with its place in the file: a variable that is not set or
    /// holds an invalid header value, an unknown policy, an address that other machines could
    /// reach.
    pub(crate) fn resolve_settings(
        &self,
        asked: &Overrides,
        env: Env<'_>,
    ) -> Result<Settings, Vec<String>> {
        let mut reading = SettingsResolver { config: self, asked, env, problems: Vec::new() };
        let upstreams = reading.resolve_upstreams();
        let store = self.resolve_shared(env).is_ok_and(|url| url != SharedUrl::Memory);
        let (admin, keys) = if asked.private {
            Default::default()
        } else {
            (reading.resolve_admin(), reading.resolve_keys())
        };
        let tls = if asked.private { None } else { reading.resolve_tls() };
        let forced_policy = reading.resolve_forced_policy();
        let mut problems = reading.problems;
        let ledger = self.resolve_ledger(env).unwrap_or_else(|found| {
            problems.extend(found);
            None
        });
        problems.extend(self.check_reachable(asked, store));
        problems.extend(self.check_client_keys(asked));
        problems.extend(check_tool_limit_flags(&asked.keys));
        if !problems.is_empty() {
            return Err(problems);
        }
        let gateway = &self.gateway;
        let mut policies = self.policies_with(&asked.keys);
        policies.extend(forced_policy.clone());
        Ok(Settings {
            listen: self.resolve_listen(asked),
            allowed_hosts: gateway.allowed_hosts.clone(),
            admin,
            keys,
            // Without the store this would be a problem.
            needs_key: self.check_reachable(asked, false).is_some(),
            upstreams,
            prices: Prices::new(self.prices.clone()),
            routes: gateway.routes.clone(),
            shapes: gateway.shapes.clone(),
            forced_policy: forced_policy.map(|(name, _)| name),
            header_policies: self.header_policies(),
            budgets: gateway.budgets.iter().map(|budget| Arc::clone(&budget.rule)).collect(),
            allow_unmetered: gateway.allow_unmetered,
            tls,
            no_comments: !gateway.stream_comments.unwrap_or(true),
            ledger: match ledger {
                Some(LedgerSetting::At(place)) => Some(place),
                Some(LedgerSetting::Off) | None => None,
            },
            ledger_read_only: false,
            recap: asked.private,
            ledger_full: gateway.ledger_full,
            retention: match gateway.retention {
                None => Some(RETENTION),
                Some(RetentionSetting::For(time)) => Some(time),
                Some(RetentionSetting::Forever) => None,
            },
            audit: Some(self.audit_reports(asked, &policies)),
            shared: None,
            key_store: None,
            policies,
            log: LogSettings { events: gateway.events.clone() },
            limits: Limits::default(),
        })
    }

    /// Returns the source of the pages' audit reports, which apply the policy that most requests
    /// have.
    fn audit_reports(
        &self,
        asked: &Overrides,
        policies: &BTreeMap<String, Policy>,
    ) -> Arc<PageReports> {
        let named = asked.policy.as_deref().unwrap_or("default");
        let only = || policies.values().next().filter(|_| policies.len() == 1);
        let policy = policies.get(named).or_else(only).cloned().unwrap_or_default();
        Arc::new(PageReports::new(policy, self.prices.clone()))
    }

    /// Returns the problems that `serve` would have with the file, independent of flags and
    /// environment.
    pub(crate) fn serve_problems(&self) -> Vec<String> {
        let asked = Overrides::default();
        let reachable = self.check_reachable(&asked, self.names_store());
        reachable.into_iter().chain(self.check_client_keys(&asked)).collect()
    }

    /// Returns a message for each setting that has no effect.
    pub(crate) fn list_warnings(&self, asked: &Overrides) -> Vec<String> {
        let unread = if asked.private { None } else { self.warn_unread_metrics(asked) };
        let keys = asked.upstreams.iter().filter_map(|(name, url)| self.warn_unused_key(name, url));
        unread.into_iter().chain(keys).chain(self.warn_idle_budgets()).collect()
    }

    /// Warns if nobody can read the metrics: on an address that other machines can reach they
    /// require a token.
    fn warn_unread_metrics(&self, asked: &Overrides) -> Option<String> {
        let (own, gateway) = (self.resolve_listen(asked), &self.gateway);
        let at = gateway.admin_listen.unwrap_or(own);
        if at.ip().is_loopback() || gateway.admin_token.is_some() {
            return None;
        }
        let place = gateway.admin.as_deref().unwrap_or("[admin]");
        Some(format!(
            "{place}: {at} can be reached from other machines, and /metrics is read there with a \
             token only; name one with [admin] token_env, or read it on a loopback address with \
             [admin] listen"
        ))
    }

    /// Warns if a key is not used because a flag names another address than the key's own.
    fn warn_unused_key(&self, upstream: &str, asked: &BaseUrl) -> Option<String> {
        let own = self.upstream_address(upstream)?;
        let place = &self.find_upstream(upstream)?.key.as_ref()?.place;
        (own != *asked).then(|| {
            format!("{place}: is not used: the key belongs to {own}, and requests go to {asked}")
        })
    }

    /// Returns what the file says of the ledger, if it says anything.
    ///
    /// # Errors
    /// Returns a problem if the variable that should hold the address is not set, or holds none.
    pub(crate) fn resolve_ledger(
        &self,
        env: Env<'_>,
    ) -> Result<Option<LedgerSetting>, Vec<String>> {
        let Some(Variable { name, place }) = &self.gateway.ledger_variable else {
            return Ok(self.gateway.ledger.clone());
        };
        let Some(text) = env(name).filter(|text| !text.trim().is_empty()) else {
            return Err(vec![format!("{place}: the variable {name} is not set")]);
        };
        let address = ledger_file::parse_address(text.trim());
        let found = address.map_err(|message| vec![format!("{place}: {name} {message}")])?;
        Ok(Some(LedgerSetting::At(found)))
    }

    pub(super) fn resolve_listen(&self, asked: &Overrides) -> SocketAddr {
        let own = self.gateway.listen.as_ref().map(|(address, _)| *address);
        asked.listen.map(|(address, _)| address).or(own).unwrap_or(LISTEN)
    }

    /// Returns a problem if other machines can reach the gateway without a token: anybody there
    /// could spend the gateway's own keys. With a shared store, tokens can be there.
    fn check_reachable(&self, asked: &Overrides, store: bool) -> Option<String> {
        let listen = self.resolve_listen(asked);
        if listen.ip().is_loopback() || self.gateway.has_keys() || store {
            return None;
        }
        let (_, key) = self
            .upstreams
            .iter()
            .filter(|(name, _)| self.overridden_address(asked, name).is_none())
            .find_map(|(name, upstream)| Some((name, upstream.key.as_ref()?)))?;
        let place = match (asked.listen, &self.gateway.listen) {
            (Some((_, flag)), _) => flag,
            (None, Some((_, place))) => place,
            (None, None) => "listen",
        };
        Some(format!(
            "{place}: {listen} can be reached from other machines, and anybody there could spend \
             the key of {}; name the tokens that clients must show with [[key]] or [clients] \
             tokens_env, keep keys in a [shared] store (softland keys), or listen on 127.0.0.1",
            key.place
        ))
    }

    /// Returns a problem if clients must show a token where the provider's key would be, and no
    /// upstream has a key: every request would be refused. An upstream at an address of the user's
    /// own may need none.
    fn check_client_keys(&self, asked: &Overrides) -> Option<String> {
        let tokens = self.gateway.client_tokens.as_ref().filter(|_| !asked.private)?;
        let works = |(name, upstream): (&String, &UpstreamConfig)| {
            upstream.key.is_some()
                || self.upstream_address(name).is_some_and(|url| !needs_key(&url))
        };
        let works = self.upstreams.iter().any(works)
            || asked.upstreams.iter().any(|(_, url)| !needs_key(url));
        (!works).then(|| {
            format!(
                "{}: no upstream has a key, and clients that show a token there cannot show one; \
                 name the variable with the provider's key, such as [upstream.anthropic] \
                 api_key_env = \"ANTHROPIC_API_KEY\"",
                tokens.place
            )
        })
    }

    /// Returns the requested address of an upstream if it differs from the upstream's own.
    fn overridden_address(&self, asked: &Overrides, name: &str) -> Option<BaseUrl> {
        let (_, url) = asked.upstreams.iter().find(|(known, _)| *known == name)?;
        (self.upstream_address(name).as_ref() != Some(url)).then(|| url.clone())
    }

    /// Returns the address of an upstream from the config, or else the provider's default.
    fn upstream_address(&self, name: &str) -> Option<BaseUrl> {
        let own = self.find_upstream(name).and_then(|own| own.base_url.as_ref());
        own.map(|own| own.parsed.clone()).or_else(|| default_address(name))
    }

    /// Returns the policies that `x-softland-policy` may select. By default these are the policies
    /// of the file, since only those are the operator's choice: flags are set on built-in policies,
    /// too.
    fn header_policies(&self) -> Vec<String> {
        let own = || self.policy_names().map(str::to_owned).collect();
        self.gateway.header_policies.clone().unwrap_or_else(own)
    }

    /// Returns the policies by name, with the requested keys set. If there are such keys, the
    /// built-in policies are included, since the keys apply to any policy that a request selects.
    fn policies_with(&self, keys: &[(&'static str, PolicyValue)]) -> BTreeMap<String, Policy> {
        let mut policies = self.policies.clone();
        if !keys.is_empty() {
            for name in Policy::NAMES {
                let built_in = || Policy::built_in(name).unwrap_or_default();
                policies.entry(name.to_owned()).or_insert_with(built_in);
            }
        }
        let with_keys = |(name, policy)| (name, with_keys(policy, keys));
        policies.into_iter().map(with_keys).collect()
    }
}

/// The state of resolving a config with flags and environment.
struct SettingsResolver<'a> {
    config: &'a Config,
    asked: &'a Overrides,
    env: Env<'a>,
    problems: Vec<String>,
}

impl SettingsResolver<'_> {
    fn resolve_upstreams(&mut self) -> BTreeMap<String, Upstream> {
        let mut upstreams = BTreeMap::new();
        for name in self.config.upstream_names() {
            let other = self.config.overridden_address(self.asked, name);
            let own = self.config.find_upstream(name);
            let key = match (&other, own) {
                (None, Some(own)) => self.resolve_secret(own.key.as_ref()),
                _ => None,
            };
            let SilenceLimit(silence) = own.map(|own| own.silence).unwrap_or_default();
            // The config reader accepts no upstream without an address.
            if let Some(base_url) = other.or_else(|| self.config.upstream_address(name)) {
                upstreams.insert(name.to_owned(), Upstream { base_url, key, silence });
            }
        }
        upstreams
    }

    fn resolve_admin(&mut self) -> Admin {
        let token = self.resolve_secret(self.config.gateway.admin_token.as_ref());
        Admin { listen: self.config.gateway.admin_listen, token }
    }

    /// Reads the certificate and its key.
    fn resolve_tls(&mut self) -> Option<ServerTls> {
        let tls = self.config.gateway.tls.as_ref()?;
        let ((cert, place), key) = (tls.cert.as_ref()?, tls.key.as_ref()?);
        let mut read = |file: &Path, place: &str| {
            let read = std::fs::read(file);
            read.map_err(|error| {
                self.problems.push(format!("{place}: {} cannot be read: {error}", file.display()));
            })
            .ok()
        };
        let (chain, key) = (read(cert, place), read(&key.0, &key.1));
        ServerTls::from_pem(&chain?, &key?)
            .map_err(|problem| self.problems.push(format!("{place}: {problem}")))
            .ok()
    }

    /// Reads the keys of which each client must present one.
    fn resolve_keys(&mut self) -> Vec<KeyEntry> {
        let mut keys: Vec<KeyEntry> = Vec::new();
        for key in &self.config.gateway.keys {
            let digest = match &key.token {
                Some(KeyToken::Digest(digest)) => Some(*digest),
                Some(KeyToken::Variable(variable)) => {
                    let token = self.resolve_secret(Some(variable));
                    token.map(|token| token.to_digest())
                }
                None => None,
            };
            let Some(digest) = digest else { continue };
            let policies = key.policies.clone();
            let policies = policies.unwrap_or_else(|| key.policy.iter().cloned().collect());
            let client = ClientKey {
                name: key.name.as_str().into(),
                account: key.account.as_deref().map(Into::into),
                policy: key.policy.clone(),
                policies: Some(policies),
            };
            self.add_key(&mut keys, &key.place, KeyEntry { digest, key: client });
        }
        let place = self.config.gateway.client_tokens.as_ref().map(|tokens| tokens.place.clone());
        for token in self.resolve_tokens().unwrap_or_default() {
            self.add_key(&mut keys, place.as_deref().unwrap_or_default(), token.to_key());
        }
        keys
    }

    /// Adds a key. Two keys with one token, or with one name, are a problem.
    fn add_key(&mut self, keys: &mut Vec<KeyEntry>, place: &str, key: KeyEntry) {
        let same = |known: &&KeyEntry| known.digest == key.digest || known.key.name == key.key.name;
        if let Some(known) = keys.iter().find(same) {
            let (own, other) = (&key.key.name, &known.key.name);
            let what = if known.digest == key.digest { "token" } else { "name" };
            self.problems.push(format!("{place}: the keys {other} and {own} have one {what}"));
        } else {
            keys.push(key);
        }
    }

    fn resolve_tokens(&mut self) -> Option<Vec<Secret>> {
        let variable = self.config.gateway.client_tokens.as_ref()?;
        let tokens = variable.read_value(self.env).and_then(|text| {
            let tokens = text.split([',', '\n']).map(str::trim).filter(|token| !token.is_empty());
            let tokens: Vec<_> =
                tokens.map(|token| parse_secret(variable, token)).collect::<Result<_, _>>()?;
            if tokens.is_empty() { Err(variable.describe_unset()) } else { Ok(tokens) }
        });
        self.note_problem(tokens)
    }

    fn resolve_secret(&mut self, variable: Option<&Variable>) -> Option<Secret> {
        let variable = variable?;
        let read = variable.read_value(self.env).and_then(|text| parse_secret(variable, &text));
        self.note_problem(read)
    }

    fn resolve_forced_policy(&mut self) -> Option<(String, Policy)> {
        let name = self.asked.policy.as_ref()?;
        let own = self.config.find_policy(name).cloned();
        let policy = own.or_else(|| Policy::built_in(name));
        let policy = policy.ok_or_else(|| unknown_policy_message(name, self.config));
        let policy = self.note_problem(policy)?;
        Some((name.clone(), with_keys(policy, &self.asked.keys)))
    }

    fn note_problem<T>(&mut self, read: Result<T, String>) -> Option<T> {
        read.map_err(|problem| self.problems.push(problem)).ok()
    }
}

impl Variable {
    /// Reads the value of the variable.
    ///
    /// # Errors
    /// Returns a message if the variable is not set, or blank.
    fn read_value(&self, env: Env<'_>) -> Result<String, String> {
        env(&self.name)
            .filter(|value| !value.trim().is_empty())
            .ok_or_else(|| self.describe_unset())
    }

    fn describe_unset(&self) -> String {
        format!("{}: the variable {} is not set; it must hold the value", self.place, self.name)
    }
}

/// Checks that a credential can be sent in a header. Messages do not show the credential.
fn parse_secret(variable: &Variable, text: &str) -> Result<Secret, String> {
    let text = text.trim();
    if text.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
        return Ok(Secret::new(text));
    }
    Err(format!(
        "{}: the value of {} has characters that no header may have (line breaks or spaces?)",
        variable.place, variable.name
    ))
}

/// Returns the problems of `--tool-limits`. The limits of the config were checked when it was read.
fn check_tool_limit_flags(keys: &[(&'static str, PolicyValue)]) -> Vec<String> {
    let limits = keys.iter().filter(|(key, _)| *key == "tool_limits").cloned().collect::<Vec<_>>();
    let wrong = find_unlimitable_tools(&with_keys(Policy::default(), &limits));
    wrong.into_iter().map(|problem| format!("--tool-limits: {problem}")).collect()
}

fn with_keys(mut policy: Policy, keys: &[(&'static str, PolicyValue)]) -> Policy {
    for (key, value) in keys {
        // Each key was validated when it was parsed.
        let _ = policy.set_key(key, value);
    }
    policy
}

/// Returns true for the address of a listed provider that takes no request without a key.
fn needs_key(address: &BaseUrl) -> bool {
    PROVIDERS.iter().filter(|provider| provider.needs_key).any(|provider| {
        let urls = [Some(provider.base_url), provider.anthropic_base_url];
        urls.into_iter().flatten().any(|url| BaseUrl::parse(url).is_ok_and(|url| url == *address))
    })
}

/// Returns the address of a listed provider. If a provider has two, it is the one that speaks
/// Anthropic's Messages, the protocol that is governed.
pub(super) fn default_address(name: &str) -> Option<BaseUrl> {
    let provider = PROVIDERS.iter().find(|provider| provider.name == name)?;
    BaseUrl::parse(provider.anthropic_base_url.unwrap_or(provider.base_url)).ok()
}
