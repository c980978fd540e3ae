//! Providers: the address of a model, its protocol, and the key that goes there.
//!
//! This module reads no environment (the caller passes a function) and opens no connection. Facts
//! about providers are rows of [`PROVIDERS`], each with its source.

use std::fmt;

use reqwest::Url;

use super::client::is_loopback;
use super::{Api, Secret, TransportErrorKind};
use crate::tool::cut_line;
use softland_session::core::find_nearest;

mod table;

pub use table::{Auth, PROVIDERS, Provider};

/// A model at a provider: address, protocol, credential. `Debug` shows no credential.
#[derive(Clone, Debug)]
pub struct Endpoint {
    provider: String,
    model: String,
    api: Api,
    base_url: Url,
    credential: Option<(Auth, Secret)>,
}

/// The reason why a model cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderError {
    /// The model is not written `PROVIDER/MODEL`.
    ModelForm {
        /// The model as given, shortened.
        given: String,
        /// The names of the known providers.
        known: Vec<String>,
    },
    /// The provider is unknown, and there is no base URL.
    UnknownProvider {
        /// The provider as given, shortened.
        given: String,
        /// The names of the known providers.
        known: Vec<String>,
    },
    /// The provider is reached by its base URL and needs a protocol.
    MissingApi {
        /// The provider.
        provider: String,
    },
    /// The default address of the provider does not speak the protocol.
    NoSuchApi {
        /// The provider.
        provider: String,
        /// The protocol.
        api: Api,
    },
    /// The base URL cannot be used.
    BaseUrl {
        /// The flag, variable or config entry that sets it.
        from: String,
        /// The problem with it.
        problem: &'static str,
    },
    /// No key is in the environment.
    MissingKey {
        /// The provider.
        provider: String,
        /// The variables that may hold the key.
        variables: Vec<String>,
    },
    /// The key cannot be sent in a header.
    InvalidKey {
        /// The variable that holds the key.
        variable: String,
    },
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ModelForm { given, known } => write!(
                f,
                "the model `{given}` must be written PROVIDER/MODEL, such as \
                 anthropic/claude-sonnet-5-5; providers: {}",
                known.join(", ")
            ),
            Self::UnknownProvider { given, known } => {
                write!(f, "unknown provider `{given}`")?;
                if let Some(near) = find_nearest(given, known.iter().map(String::as_str)) {
                    write!(f, "; did you mean `{near}`?")?;
                } else {
                    f.write_str(".")?;
                }
                write!(
                    f,
                    " Known: {}; any other with --base-url (or [upstream.NAME] of a config) and --api",
                    known.join(", ")
                )
            }
            Self::MissingApi { provider } => write!(
                f,
                "the provider `{provider}` needs --api: anthropic, openai-chat or openai-responses"
            ),
            Self::NoSuchApi { provider, api } => write!(
                f,
                "`{provider}` has no known address for the API `{}`; give one with --base-url",
                api.name()
            ),
            Self::BaseUrl { from, problem } => write!(f, "the base URL of {from} {problem}"),
            Self::MissingKey { provider, variables } => {
                write!(f, "no key for `{provider}`: set {}", variables.join(" or "))
            }
            Self::InvalidKey { variable } => write!(
                f,
                "the key in {variable} has characters that no header may have (line breaks?)"
            ),
        }
    }
}

impl std::error::Error for ProviderError {}

/// Returns the names of the listed providers and of those that the caller serves itself.
fn provider_names(given: &ProviderOverrides<'_>) -> Vec<String> {
    let listed = PROVIDERS.iter().map(|provider| provider.name);
    listed.chain(given.own.iter().copied()).map(str::to_owned).collect()
}

/// Checks that the model of an agent file can be reached without further flags or config. Reads no
/// environment, and so no key.
///
/// # Errors
/// Returns the errors of [`resolve_model`], except those that depend on the environment.
pub fn check_model(model: &str, given: &ProviderOverrides<'_>) -> Result<(), ProviderError> {
    match resolve_model(model, given, &|_| None) {
        Ok(_) | Err(ProviderError::MissingKey { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The caller's settings for the way to a model. They take precedence over the environment.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProviderOverrides<'a> {
    /// The protocol.
    pub api: Option<Api>,
    /// A base URL and its origin (`--base-url`), for errors.
    pub base_url: Option<(&'a str, &'a str)>,
    /// The only variable that may hold the key, instead of the provider's own. It must be set.
    pub key_variable: Option<&'a str>,
    /// The names of providers that the caller serves itself and resolves first, for messages.
    pub own: &'a [&'a str],
}

/// Finds the destination of the requests for `model` (`PROVIDER/MODEL`).
///
/// A given base URL takes precedence over the provider's variable, and the variable over the
/// default address. The provider's key belongs to the address found in this way and goes to no
/// other. A provider that is not listed needs a base URL and a protocol; its key, if any, is in
/// `NAME_API_KEY`. On loopback addresses a key is optional.
///
/// # Errors
/// Returns a [`ProviderError`]. No message holds a key, or more of a URL than its origin.
pub fn resolve_model(
    model: &str,
    given: &ProviderOverrides<'_>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Endpoint, ProviderError> {
    let shortened = || cut_line(model, 80);
    let (name, model) = model
        .split_once('/')
        .filter(|(name, model)| !name.is_empty() && !model.is_empty())
        .ok_or_else(|| ProviderError::ModelForm {
            given: shortened(),
            known: provider_names(given),
        })?;
    let env = |variable: &str| env(variable).filter(|value| !value.trim().is_empty());
    let Some(provider) = PROVIDERS.iter().find(|provider| provider.name == name) else {
        return resolve_unlisted(name, model, given, &env);
    };
    let api = given.api.unwrap_or(provider.api);
    let base_url = match (given.base_url, provider.base_url_variable) {
        (Some((url, from)), _) => parse_base_url(url, from)?,
        (None, Some(variable)) if let Some(url) = env(variable) => {
            parse_base_url(&with_scheme(provider, &url), variable)?
        }
        (None, _) => default_base_url(provider, api)?,
    };
    let auth = provider.keys.first().map_or(Auth::Bearer, |(_, auth)| *auth);
    let credential = match given.key_variable {
        Some(variable) => Some(named_key(name, variable, auth, &env)?),
        None => find_key(provider.keys, &env)?,
    };
    let credential = credential.map(|(auth, key)| (auth_of(api, auth), key));
    if credential.is_none() && provider.needs_key && !is_loopback(&base_url) {
        let variables = provider.keys.iter().map(|(name, _)| (*name).to_owned()).collect();
        return Err(ProviderError::MissingKey { provider: name.to_owned(), variables });
    }
    let (provider, model) = (name.to_owned(), model.to_owned());
    Ok(Endpoint { provider, model, api, base_url, credential })
}

/// OpenAI's APIs take a bearer token on every provider.
fn auth_of(api: Api, auth: Auth) -> Auth {
    match api {
        Api::Anthropic => auth,
        Api::OpenAiChat | Api::OpenAiResponses => Auth::Bearer,
    }
}

type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

fn resolve_unlisted(
    name: &str,
    model: &str,
    given: &ProviderOverrides<'_>,
    env: Env<'_>,
) -> Result<Endpoint, ProviderError> {
    let provider = cut_line(name, 60);
    let Some((base_url, from)) = given.base_url else {
        return Err(ProviderError::UnknownProvider {
            given: provider,
            known: provider_names(given),
        });
    };
    let Some(api) = given.api else {
        return Err(ProviderError::MissingApi { provider });
    };
    let base_url = parse_base_url(base_url, from)?;
    let variable = format!("{}_API_KEY", name.to_uppercase().replace('-', "_"));
    let credential = match given.key_variable {
        Some(variable) => Some(named_key(name, variable, Auth::Bearer, env)?),
        None => find_key(&[(variable.as_str(), Auth::Bearer)], env)?,
    };
    Ok(Endpoint { provider, model: model.to_owned(), api, base_url, credential })
}

/// Returns the key in the variable that a config names. No other key takes its place.
fn named_key(
    provider: &str,
    variable: &str,
    auth: Auth,
    env: Env<'_>,
) -> Result<(Auth, Secret), ProviderError> {
    find_key(&[(variable, auth)], env)?.ok_or_else(|| ProviderError::MissingKey {
        provider: cut_line(provider, 60),
        variables: vec![variable.to_owned()],
    })
}

/// Returns the first key that is set. Only one credential is sent, because servers treat two
/// differently.
fn find_key(keys: &[(&str, Auth)], env: Env<'_>) -> Result<Option<(Auth, Secret)>, ProviderError> {
    for (variable, auth) in keys {
        let Some(key) = env(variable) else { continue };
        let key = key.trim();
        if !key.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
            return Err(ProviderError::InvalidKey { variable: (*variable).to_owned() });
        }
        return Ok(Some((*auth, Secret::new(key))));
    }
    Ok(None)
}

/// Adds a scheme: `OLLAMA_HOST` may be just a host and port.
fn with_scheme(provider: &Provider, url: &str) -> String {
    let url = url.trim();
    if provider.name != "ollama" || url.contains("://") {
        return url.to_owned();
    }
    let has_port = url.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { format!("http://{url}") } else { format!("http://{url}:11434") }
}

fn default_base_url(provider: &Provider, api: Api) -> Result<Url, ProviderError> {
    let url = match api {
        Api::Anthropic => provider.anthropic_base_url,
        Api::OpenAiChat | Api::OpenAiResponses => Some(provider.base_url),
    };
    let Some(url) = url else {
        return Err(ProviderError::NoSuchApi { provider: provider.name.to_owned(), api });
    };
    parse_base_url(url, "the built-in table")
}

/// Returns the problem with a base URL, in words that follow its name. Nothing of the URL is shown.
#[must_use]
pub fn base_url_problem(text: &str) -> Option<&'static str> {
    read_base_url(text).err()
}

fn parse_base_url(text: &str, from: &str) -> Result<Url, ProviderError> {
    read_base_url(text).map_err(|problem| ProviderError::BaseUrl { from: from.to_owned(), problem })
}

/// Parses a base URL and removes the `/v1` that some people write and others do not.
fn read_base_url(text: &str) -> Result<Url, &'static str> {
    let mut url = Url::parse(text.trim())
        .map_err(|_| "is not a URL; it must look like https://host or https://host/v1")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user name or password: use the provider's key variable");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must not have a query or fragment (? or #)");
    }
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/v1").unwrap_or(path).trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// Returns scheme, host and port of a URL, for messages.
pub(super) fn origin_of(url: &Url) -> String {
    url.origin().ascii_serialization()
}

impl Endpoint {
    /// Returns the provider's name.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Returns the model's name at the provider.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the protocol.
    #[must_use]
    pub fn api(&self) -> Api {
        self.api
    }

    /// Returns scheme, host and port of the address.
    #[must_use]
    pub fn origin(&self) -> String {
        origin_of(&self.base_url)
    }

    pub(super) fn base_url(&self) -> &Url {
        &self.base_url
    }

    /// Returns the URL of `path` (`/v1/…`) at this endpoint.
    pub(super) fn url_for(&self, path: &str) -> Url {
        let mut url = self.base_url.clone();
        let joined = format!("{}{path}", url.path().trim_end_matches('/'));
        url.set_path(&joined);
        url
    }

    /// Returns the headers that every request of the protocol carries.
    pub(super) fn fixed_headers(&self) -> &'static [(&'static str, &'static str)] {
        match self.api {
            // The only version since 2023; a request without it is refused.
            Api::Anthropic => &[("anthropic-version", "2023-06-01")],
            Api::OpenAiChat | Api::OpenAiResponses => &[],
        }
    }

    /// Returns name and value of the header that carries the credential.
    pub(super) fn credential_header(&self) -> Option<(&'static str, String)> {
        let (auth, key) = self.credential.as_ref()?;
        Some(match auth {
            Auth::XApiKey => ("x-api-key", key.expose().to_owned()),
            Auth::Bearer => ("authorization", format!("Bearer {}", key.expose())),
        })
    }

    /// Removes the credential from an error, in case a server or library has echoed it.
    pub(super) fn redact_error(&self, kind: TransportErrorKind) -> TransportErrorKind {
        let Some((_, key)) = &self.credential else { return kind };
        match kind {
            TransportErrorKind::Unusable { detail } => {
                TransportErrorKind::Unusable { detail: key.redact_text(&detail) }
            }
            TransportErrorKind::Connect { detail } => {
                TransportErrorKind::Connect { detail: key.redact_text(&detail) }
            }
            TransportErrorKind::Tls { detail } => {
                TransportErrorKind::Tls { detail: key.redact_text(&detail) }
            }
            TransportErrorKind::Broken { detail } => {
                TransportErrorKind::Broken { detail: key.redact_text(&detail) }
            }
            TransportErrorKind::Redirect { status, to } => {
                TransportErrorKind::Redirect { status, to: to.map(|to| key.redact_text(&to)) }
            }
            TransportErrorKind::Refused
            | TransportErrorKind::Dns
            | TransportErrorKind::Timeout { .. }
            | TransportErrorKind::TooLarge { .. } => kind,
        }
    }
}
