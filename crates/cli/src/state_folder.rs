//! The user's state folder, which holds journals, notebooks' lists and the default ledger.

use std::path::{Path, PathBuf};

/// Returns the state folder by the platform's convention; `None` if the environment names no home
/// folder.
pub(crate) fn find_state_folder(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |name| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| {
        if cfg!(windows) {
            absolute("LOCALAPPDATA")
        } else if cfg!(target_os = "macos") {
            absolute("HOME").map(|home| home.join("Library/Application Support"))
        } else {
            absolute("HOME").map(|home| home.join(".local/state"))
        }
    })?;
    Some(state.join("softland"))
}

/// Creates a folder below the state folder, with access for its owner only.
pub(crate) fn create_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(unix, not(target_os = "macos")))]
    fn the_folder_is_the_users() {
        let of = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> =
                set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            find_state_folder(&move |name| {
                set.iter().find(|(key, _)| key == name).map(|(_, v)| v.clone())
            })
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(of(&[("HOME", "/me")]), path("/me/.local/state/softland"));
        let both = [("HOME", "/me"), ("XDG_STATE_HOME", "/state")];
        assert_eq!(of(&both), path("/state/softland"));
        // The XDG specification requires relative paths to be ignored.
        let relative = [("HOME", "/me"), ("XDG_STATE_HOME", "state")];
        assert_eq!(of(&relative), path("/me/.local/state/softland"));
        assert_eq!(of(&[]), None);
    }
}
