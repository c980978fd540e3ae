//! opencode. Its config holds the addresses of its providers; `OPENCODE_CONFIG_CONTENT` holds a
//! config that takes precedence over all files. Read and tried with 1.18.33, 2026-11-22. Providers
//! that the user has defined are not changed.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{Client, ClientNeeds, SettingsLookup};

const VARIABLE: &str = "OPENCODE_CONFIG_CONTENT";
/// opencode's providers that are softland's upstreams, with the variables that name their
/// addresses.
const PROVIDERS: [(&str, &str); 2] =
    [("anthropic", "ANTHROPIC_BASE_URL"), ("openai", "OPENAI_BASE_URL")];

pub(super) fn find_client(place: SettingsLookup<'_>) -> Result<Client, String> {
    let config = match place.read_variable(VARIABLE) {
        Some(text) => {
            serde_json::from_str(&text).ok().filter(Value::is_object).ok_or_else(|| {
                format!("the variable {VARIABLE} holds no JSON object without comments to add to")
            })?
        }
        None => json!({}),
    };
    for (provider, variable) in PROVIDERS {
        if place.read_variable(variable).is_some() {
            continue;
        }
        let files =
            read_config_files(place).into_iter().filter(|(_, text)| names_address(text, provider));
        let files = files.map(|(path, _)| format!("`{}`", path.display()));
        let own =
            config_names_address(&config, provider).then(|| format!("the variable {VARIABLE}"));
        if let Some(place) = own.into_iter().chain(files).next() {
            return Err(format!(
                "{place} has a baseURL for opencode's provider `{provider}`, which wrap would replace, so that the key would go to another address; set {variable} to that address instead"
            ));
        }
    }
    Ok(Client { upstreams: Vec::new(), needs: ClientNeeds::Opencode(config) })
}

/// Returns the variable with the config, in which the gateway's address is set.
pub(super) fn config_variable(config: &Value, url: &str) -> (String, String) {
    let mut config = config.clone();
    for (provider, _) in PROVIDERS {
        let base_url = Value::String(format!("{url}/v1"));
        set_path(&mut config, &["provider", provider, "options", "baseURL"], base_url);
    }
    (VARIABLE.to_owned(), config.to_string())
}

/// Sets a value at a path below an object. Values on the path that are not objects are replaced.
fn set_path(config: &mut Value, path: &[&str], value: Value) {
    let Some((key, rest)) = path.split_first() else {
        *config = value;
        return;
    };
    if !config.is_object() {
        *config = Value::Object(Map::new());
    }
    if let Value::Object(fields) = config {
        set_path(fields.entry(*key).or_insert(Value::Null), rest, value);
    }
}

fn config_names_address(config: &Value, provider: &str) -> bool {
    config.pointer(&format!("/provider/{provider}/options/baseURL")).is_some()
}

/// Returns true if a file has an address for a provider. A file that is not plain JSON is only
/// searched.
fn names_address(text: &str, provider: &str) -> bool {
    match serde_json::from_str(text) {
        Ok(config) => config_names_address(&config, provider),
        Err(_) => text.contains("baseURL") && text.contains(&format!("\"{provider}\"")),
    }
}

/// Reads the existing config files of opencode.
fn read_config_files(place: SettingsLookup<'_>) -> Vec<(PathBuf, String)> {
    let global = place.home_folder("XDG_CONFIG_HOME", ".config").map(|home| home.join("opencode"));
    let home = place.user_home().map(|home| home.join(".opencode"));
    let own = place.read_variable("OPENCODE_CONFIG_DIR").map(PathBuf::from);
    let here = place.folder.ancestors().flat_map(|at| [at.to_owned(), at.join(".opencode")]);
    let folders = global.into_iter().chain(home).chain(own).chain(here);
    let names = ["config.json", "opencode.json", "opencode.jsonc"];
    let files = folders.flat_map(|folder| names.map(|name| folder.join(name)));
    let one = place.read_variable("OPENCODE_CONFIG").map(PathBuf::from);
    let there = one.into_iter().chain(files);
    there.filter_map(|path| (place.read)(&path).map(|text| (path, text))).collect()
}
