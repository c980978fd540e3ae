//! Clients that find their provider by more than variables: the arguments and variables that lead
//! each of them to the gateway, the upstreams of its own settings, and the settings that would
//! bypass the gateway.
//!
//! This module reads neither the environment nor files itself: the caller passes functions. A
//! client's settings are never printed: they contain keys.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use softland_gateway::BaseUrl;

use crate::config::Env;
use crate::platform;

mod aider;
mod codex;
mod opencode;
#[cfg(test)]
mod tests;

/// The environment and files in which a client looks for its settings.
#[derive(Clone, Copy)]
pub(super) struct SettingsLookup<'a> {
    pub(super) env: Env<'a>,
    /// The folder in which the client runs.
    pub(super) folder: &'a Path,
    /// A function that returns the text of a file, if the file exists.
    pub(super) read: &'a dyn Fn(&Path) -> Option<String>,
}

/// A client, and the known part of its settings.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Client {
    /// The upstreams that the client's own settings name; they take precedence over those of the
    /// variables.
    pub(super) upstreams: Vec<(&'static str, BaseUrl)>,
    needs: ClientNeeds,
}

/// The needs of a client beside the variables.
#[derive(Debug, Default, PartialEq)]
enum ClientNeeds {
    #[default]
    Nothing,
    Codex(codex::CodexProvider),
    Opencode(serde_json::Value),
}

/// The arguments and variables that a client is started with.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LaunchOptions {
    /// The arguments that precede the client's own.
    pub(super) arguments: Vec<OsString>,
    pub(super) variables: Vec<(String, String)>,
}

/// Detects the client that a command runs, by the program's name.
///
/// # Errors
/// Returns the reason for which the client's requests would bypass the gateway, or its key would be
/// sent to the wrong provider.
pub(super) fn detect_client(
    command: &[OsString],
    place: SettingsLookup<'_>,
) -> Result<Client, String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(Client::default()) };
    let name = Path::new(program).file_stem().map(|name| name.to_string_lossy());
    let arguments: Vec<_> = arguments.iter().map(|one| one.to_string_lossy()).collect();
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    match name.as_deref() {
        Some("codex") => codex::find_client(&arguments, place),
        Some("opencode") => opencode::find_client(place),
        Some("aider") => aider::find_client(&arguments, place),
        _ => Ok(Client::default()),
    }
}

impl Client {
    /// Returns the arguments and variables for a gateway at `url` (`http://HOST:PORT`).
    pub(super) fn launch_options(&self, url: &str) -> LaunchOptions {
        match &self.needs {
            ClientNeeds::Nothing => LaunchOptions::default(),
            ClientNeeds::Codex(provider) => {
                LaunchOptions { arguments: provider.to_arguments(url), variables: Vec::new() }
            }
            ClientNeeds::Opencode(config) => LaunchOptions {
                arguments: Vec::new(),
                variables: vec![opencode::config_variable(config, url)],
            },
        }
    }
}

impl SettingsLookup<'_> {
    fn read_variable(&self, name: &str) -> Option<String> {
        super::environment::read_variable(self.env, name)
    }

    /// Returns the folder that a variable names, or else one below the home folder.
    fn home_folder(&self, variable: &str, below: &str) -> Option<PathBuf> {
        let own = self.read_variable(variable).map(PathBuf::from);
        own.or_else(|| Some(self.user_home()?.join(below)))
    }

    /// Returns the user's home folder.
    fn user_home(&self) -> Option<PathBuf> {
        platform::home_folder(self.env)
    }
}
