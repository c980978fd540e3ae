//! Finds kernels: kernelspecs in Jupyter's folders, and Python's own without a kernelspec.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::platform;

/// The command and the settings of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KernelSpec {
    pub(super) name: String,
    pub(super) program: Vec<String>,
    pub(super) environment: HashMap<String, String>,
    /// True if the kernel is interrupted by a message, not by a signal.
    pub(super) by_message: bool,
}

/// The placeholder for the connection file in a kernel's command.
const PLACE: &str = "{connection_file}";

/// The kernel of Python's `ipykernel`, by its name in Jupyter.
const PYTHON: &str = "python3";

/// `kernel.json`, with the members that are needed.
#[derive(Debug, Deserialize)]
struct KernelJson {
    argv: Vec<String>,
    #[serde(default)]
    env: HashMap<String, String>,
    #[serde(default)]
    interrupt_mode: String,
}

impl KernelSpec {
    /// Returns the command with a connection file in it.
    pub(super) fn build_command(&self, connection: &Path) -> Vec<String> {
        let connection = connection.to_string_lossy();
        self.program.iter().map(|word| word.replace(PLACE, &connection)).collect()
    }
}

/// Finds the kernel of a name, or Python's kernel if no name is given.
///
/// # Errors
/// There is no such kernel; the message lists the existing ones.
pub(super) fn find_spec(
    name: Option<&str>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<KernelSpec, String> {
    let name = name.unwrap_or(PYTHON);
    let folders = spec_folders(env);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.chars().all(plain) || name.starts_with('.') {
        return Err(format!("`{name}` cannot name a kernel"));
    }
    for folder in &folders {
        for name in [name, &name.to_lowercase()] {
            let place = folder.join(name);
            let Ok(text) = std::fs::read_to_string(place.join("kernel.json")) else { continue };
            return read_spec(name, &place, &text);
        }
    }
    if name == PYTHON {
        let program = [platform::PYTHON_COMMAND, "-m", "ipykernel_launcher", "-f", PLACE];
        return Ok(KernelSpec {
            name: name.to_owned(),
            program: program.map(str::to_owned).into(),
            environment: HashMap::new(),
            by_message: false,
        });
    }
    let mut others = list_names(&folders);
    others.insert(PYTHON.to_owned());
    let others: Vec<String> = others.into_iter().collect();
    Err(format!(
        "there is no kernel `{name}`; there are: {}. `--kernel NAME` takes one of them",
        others.join(", ")
    ))
}

fn read_spec(name: &str, place: &Path, text: &str) -> Result<KernelSpec, String> {
    let wrong = |why: String| format!("{}: {why}", place.join("kernel.json").display());
    let file: KernelJson = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    if !file.argv.iter().any(|word| word.contains(PLACE)) {
        return Err(wrong(format!("`argv` has no {PLACE}")));
    }
    let resources = place.to_string_lossy();
    let program = file.argv.iter().map(|word| word.replace("{resource_dir}", &resources)).collect();
    let by_message = file.interrupt_mode == "message";
    Ok(KernelSpec { name: name.to_owned(), program, environment: file.env, by_message })
}

fn list_names(folders: &[PathBuf]) -> BTreeSet<String> {
    let names = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let named = names.flatten().filter(|entry| entry.path().join("kernel.json").is_file());
    named.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Returns the folders of kernelspecs, in order of precedence.
fn spec_folders(env: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Some(paths) = set("JUPYTER_PATH") {
        folders.extend(std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()));
    }
    let user = set("JUPYTER_DATA_DIR")
        .map(PathBuf::from)
        .or_else(|| set("XDG_DATA_HOME").map(|folder| PathBuf::from(folder).join("jupyter")))
        .or_else(|| platform::user_jupyter(env));
    folders.extend(user);
    for prefix in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        folders.extend(set(prefix).map(|prefix| PathBuf::from(prefix).join("share/jupyter")));
    }
    folders.extend(platform::shared_jupyter(env));
    folders.into_iter().map(|folder| folder.join("kernels")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(folder: &Path, name: &str, text: &str) {
        let place = folder.join("kernels").join(name);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("kernel.json"), text).unwrap();
    }

    #[test]
    fn kernels_are_found_where_jupyter_finds_them() {
        let (first, user) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let r = r#"{"argv":["R","{resource_dir}/x","{connection_file}"],"display_name":"R",
                    "language":"R","env":{"A":"1"},"interrupt_mode":"message"}"#;
        spec(user.path(), "ir", r);
        spec(user.path(), "both", r#"{"argv":["second","{connection_file}"]}"#);
        spec(first.path(), "both", r#"{"argv":["first","{connection_file}"]}"#);
        spec(first.path(), "bad", r#"{"argv":["first"]}"#);
        let paths = format!("/nowhere:{}", first.path().display());
        let data = user.path().display().to_string();
        let env = |name: &str| match name {
            "JUPYTER_PATH" => Some(paths.clone()),
            "JUPYTER_DATA_DIR" => Some(data.clone()),
            _ => None,
        };
        let ir = find_spec(Some("ir"), &env).unwrap();
        assert!(ir.by_message && ir.environment["A"] == "1");
        let resource = format!("{data}/kernels/ir/x");
        assert_eq!(ir.build_command(Path::new("/c.json")), ["R", &resource, "/c.json"]);
        assert_eq!(find_spec(Some("both"), &env).unwrap().program[0], "first");
        assert_eq!(find_spec(Some("IR"), &env).unwrap().name, "ir");
        assert!(find_spec(Some("bad"), &env).unwrap_err().contains("argv"));
        assert!(find_spec(Some("../ir"), &env).unwrap_err().contains("cannot name"));
        let missing = find_spec(Some("julia"), &env).unwrap_err();
        assert!(missing.contains("bad, both, ir, python3"), "{missing}");
    }

    #[test]
    fn python_needs_no_kernelspec() {
        let empty = tempfile::tempdir().unwrap();
        let data = empty.path().display().to_string();
        let env = |name: &str| (name == "JUPYTER_DATA_DIR").then(|| data.clone());
        let Ok(spec) = find_spec(None, &env) else { panic!("no python3") };
        assert_eq!(spec.name, "python3");
    }
}
