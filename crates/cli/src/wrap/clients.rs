//! Clients that find their provider by more than the variables: what each is given so that it finds
//! the gateway, whom the gateway then asks, and what stands in the way of that.
//!
//! It reads neither the environment nor files itself: the caller passes functions. What a client's
//! settings say is never printed: they hold keys.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use softland_gateway::BaseUrl;

use crate::config::Env;

mod aider;
mod codex;
mod opencode;
#[cfg(test)]
mod tests;

/// Where a client looks for its settings.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) env: Env<'a>,
    /// The folder that it runs in.
    pub(super) folder: &'a Path,
    /// The text of a file that is there.
    pub(super) read: &'a dyn Fn(&Path) -> Option<String>,
}

/// A client, and what is known of its settings.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Client {
    /// Upstreams that its own settings name; they go before those of the variables.
    pub(super) upstreams: Vec<(&'static str, BaseUrl)>,
    needs: Needs,
}

/// What a client needs beside the variables.
#[derive(Debug, Default, PartialEq)]
enum Needs {
    #[default]
    Nothing,
    Codex(codex::Provider),
    Opencode(serde_json::Value),
}

/// What a client is given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    /// Stand before its other arguments.
    pub(super) arguments: Vec<OsString>,
    pub(super) variables: Vec<(String, String)>,
}

/// The client that a command runs, told by the program's name.
///
/// # Errors
/// Why its requests would not come by, or would go to whom its key is not meant for.
pub(super) fn of(command: &[OsString], place: Place<'_>) -> Result<Client, String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(Client::default()) };
    let name = Path::new(program).file_stem().map(|name| name.to_string_lossy());
    let arguments: Vec<_> = arguments.iter().map(|one| one.to_string_lossy()).collect();
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    match name.as_deref() {
        Some("codex") => codex::find(&arguments, place),
        Some("opencode") => opencode::find(place),
        Some("aider") => aider::find(&arguments, place),
        _ => Ok(Client::default()),
    }
}

impl Client {
    /// What it is given, for a gateway at `url` (`http://HOST:PORT`).
    pub(super) fn given(&self, url: &str) -> Given {
        match &self.needs {
            Needs::Nothing => Given::default(),
            Needs::Codex(provider) => {
                Given { arguments: provider.arguments(url), variables: Vec::new() }
            }
            Needs::Opencode(config) => {
                Given { arguments: Vec::new(), variables: vec![opencode::variable(config, url)] }
            }
        }
    }
}

impl Place<'_> {
    fn set(&self, name: &str) -> Option<String> {
        super::environment::set(self.env, name)
    }

    /// The folder of a variable, or one below the home folder.
    fn home(&self, variable: &str, below: &str) -> Option<PathBuf> {
        let own = self.set(variable).map(PathBuf::from);
        own.or_else(|| Some(Path::new(&self.set("HOME")?).join(below)))
    }
}
