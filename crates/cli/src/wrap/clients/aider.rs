//! aider. It follows the variables. Variables of its `.env` files take precedence over ours, and an
//! address in its other settings would bypass softland. Read and tried with 0.86.2, 2026-11-22.

use std::path::{Path, PathBuf};

use super::{Client, SettingsLookup};

/// The keys of aider's settings, of their variables and of its `.env` files that hold an address.
const SETTINGS: [&str; 6] = [
    "openai-api-base",
    "AIDER_OPENAI_API_BASE",
    "OPENAI_API_BASE",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_BASE",
    "ANTHROPIC_BASE_URL",
];
const FILES: [&str; 2] = [".aider.conf.yml", ".env"];

pub(super) fn find_client(arguments: &[&str], place: SettingsLookup<'_>) -> Result<Client, String> {
    let argument = arguments.iter().any(|one| one.starts_with("--openai-api-base"));
    let argument = argument.then(|| "the argument --openai-api-base".to_owned());
    let variable = place.read_variable("AIDER_OPENAI_API_BASE");
    let variable = variable.map(|_| "the variable AIDER_OPENAI_API_BASE".to_owned());
    let mut files = settings_files(place)
        .into_iter()
        .filter(|path| (place.read)(path).is_some_and(|text| text.lines().any(is_address)));
    let file = || files.next().map(|path| format!("`{}`", path.display()));
    match argument.or(variable).or_else(file) {
        None => Ok(Client::default()),
        Some(setting) => Err(format!(
            "{setting} has the address of a provider, so aider's requests would not go through softland; remove it and set OPENAI_BASE_URL or ANTHROPIC_BASE_URL instead"
        )),
    }
}

/// Returns true if a line of a file sets an address.
fn is_address(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches("export ");
    let Some(key) = line.split([':', '=']).next().filter(|_| !line.starts_with('#')) else {
        return false;
    };
    SETTINGS.contains(&key.trim())
}

/// Lists the possible files of settings: in the home folder, in the current folder and in the
/// folders above it, which include the root of the repository.
fn settings_files(place: SettingsLookup<'_>) -> Vec<PathBuf> {
    let home = place.user_home();
    let folders = home.into_iter().chain(place.folder.ancestors().map(Path::to_owned));
    folders.flat_map(|folder| FILES.map(|name| folder.join(name))).collect()
}
