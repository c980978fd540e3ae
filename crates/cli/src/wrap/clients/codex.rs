//! Codex. It reads no variable for its base URL: its provider is defined in its settings, which
//! arguments of the form `-c KEY=VALUE` override. Read and tried with 0.169.0, 2026-11-22.
//!
//! Codex's own provider `openai` first tries a WebSocket, which cannot be governed. Providers with
//! other names do not.

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;
use softland_gateway::BaseUrl;

use super::{Client, ClientNeeds, SettingsLookup};

/// The provider that the arguments set for Codex.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CodexProvider {
    /// A provider of softland's that replaces `openai`, with a key from this source.
    Ours(KeySource),
    /// The user's own provider, by name, with the gateway's address.
    Users(String),
}

/// The source of Codex's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeySource {
    /// The variable of this name.
    Variable(&'static str),
    /// Codex's own login.
    Login,
}

/// The arguments of Codex that matter.
#[derive(Debug, Default)]
struct CodexArguments<'a> {
    provider: Option<&'a str>,
    profile: Option<&'a str>,
    is_local: bool,
}

pub(super) fn find_client(arguments: &[&str], place: SettingsLookup<'_>) -> Result<Client, String> {
    let said = read_arguments(arguments);
    if said.is_local {
        return Err(bypass_message("with --oss it asks a model of this machine"));
    }
    let home = place.home_folder("CODEX_HOME", ".codex");
    let table = |name: &str| {
        let text = (place.read)(&home.as_deref()?.join(name))?;
        text.parse::<toml::Table>().ok()
    };
    let config = table("config.toml").unwrap_or_default();
    let profile = said.profile.and_then(|name| {
        let own = || table(&format!("{name}.config.toml"));
        config.get("profiles").and_then(|all| all.get(name)?.as_table().cloned()).or_else(own)
    });
    let settings = [profile.as_ref(), Some(&config)];
    let text = |key: &str| settings.into_iter().flatten().find_map(|one| one.get(key)?.as_str());
    match said.provider.or_else(|| text("model_provider")).unwrap_or("openai") {
        "openai" => {
            let key = find_key(home.as_deref(), place)?;
            let upstreams = parse_upstream("openai_base_url", text("openai_base_url"))?;
            Ok(Client { upstreams, needs: ClientNeeds::Codex(CodexProvider::Ours(key)) })
        }
        name => {
            let provider = config.get("model_providers").and_then(|all| all.get(name));
            let url = provider.and_then(|one| one.get("base_url")?.as_str());
            if url.is_none() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
            {
                return Err(bypass_message(&format!(
                    "its provider `{name}` has no base_url in config.toml that arguments could \
                     replace"
                )));
            }
            let upstreams = parse_upstream(&format!("model_providers.{name}.base_url"), url)?;
            Ok(Client {
                upstreams,
                needs: ClientNeeds::Codex(CodexProvider::Users(name.to_owned())),
            })
        }
    }
}

impl CodexProvider {
    pub(super) fn to_arguments(&self, url: &str) -> Vec<OsString> {
        let set = match self {
            Self::Ours(key) => {
                let key = match key {
                    KeySource::Variable(name) => format!("env_key=\"{name}\""),
                    KeySource::Login => "requires_openai_auth=true".to_owned(),
                };
                vec![
                    "model_provider=\"softland\"".to_owned(),
                    format!(
                        "model_providers.softland={{name=\"softland\",base_url=\"{url}/v1\",{key}}}"
                    ),
                ]
            }
            Self::Users(name) => vec![
                format!("model_providers.{name}.base_url=\"{url}/v1\""),
                format!("model_providers.{name}.supports_websockets=false"),
            ],
        };
        set.into_iter().flat_map(|one| ["-c".into(), one.into()]).collect()
    }
}

fn read_arguments<'a>(arguments: &[&'a str]) -> CodexArguments<'a> {
    let mut said = CodexArguments::default();
    for (at, argument) in arguments.iter().enumerate() {
        let (flag, given) = match argument.split_once('=').filter(|_| argument.starts_with("--")) {
            Some((flag, given)) => (flag, Some(given)),
            None => (*argument, arguments.get(at + 1).copied()),
        };
        match (flag, given) {
            ("--", _) => break,
            ("--oss" | "--local-provider", _) => said.is_local = true,
            ("-p" | "--profile", Some(name)) => said.profile = Some(name),
            ("-c" | "--config", Some(set)) => {
                let (key, value) = set.split_once('=').unwrap_or((set, ""));
                if key.trim() == "model_provider" {
                    said.provider = Some(value.trim().trim_matches(['"', '\'']));
                }
            }
            _ => {}
        }
    }
    said
}

/// Returns the address of a setting, as an upstream.
fn parse_upstream(
    setting: &str,
    url: Option<&str>,
) -> Result<Vec<(&'static str, BaseUrl)>, String> {
    let Some(url) = url else { return Ok(Vec::new()) };
    let parsed = BaseUrl::parse(url);
    let parsed = parsed.map_err(|problem| format!("Codex's setting {setting} {problem}"))?;
    if !url.trim_end_matches('/').ends_with("/v1") {
        return Err(bypass_message(&format!(
            "the address in its setting {setting} does not end with /v1"
        )));
    }
    Ok(vec![("openai", parsed)])
}

/// Returns the source of the key that Codex would use by itself. Codex does not read
/// `OPENAI_API_KEY`; softland uses that variable if there is no login.
fn find_key(home: Option<&Path>, place: SettingsLookup<'_>) -> Result<KeySource, String> {
    if place.read_variable("CODEX_API_KEY").is_some() {
        return Ok(KeySource::Variable("CODEX_API_KEY"));
    }
    let login = home.and_then(|home| (place.read)(&home.join("auth.json")));
    let login = login.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let there = |key: &str| login.as_ref().and_then(|l| l.get(key)).is_some_and(|v| !v.is_null());
    if there("OPENAI_API_KEY") {
        return Ok(KeySource::Login);
    }
    if there("tokens") {
        return Err(bypass_message(
            "it is logged in with ChatGPT, whose requests go to chatgpt.com with a login that \
             api.openai.com does not take",
        ) + "; set CODEX_API_KEY to use a key for once, which is billed by its own account");
    }
    Ok(match place.read_variable("OPENAI_API_KEY") {
        Some(_) => KeySource::Variable("OPENAI_API_KEY"),
        None => KeySource::Login,
    })
}

fn bypass_message(why: &str) -> String {
    format!("Codex's requests would not come by, and nothing would be governed: {why}")
}
