//! The differences between operating systems: signals, the program that `wrap` runs, the user's
//! folders, who may read a file, and the terminal. Nothing else in this crate asks on which system
//! it runs.

use std::fs::DirBuilder;
use std::path::{Path, PathBuf};

use crate::config::Env;

#[cfg(any(windows, test))]
mod changes;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// Returns the user's home folder; `None` if the environment names none.
pub(crate) fn home_folder(env: Env<'_>) -> Option<PathBuf> {
    HOME_VARIABLES
        .iter()
        .find_map(|name| env(name).filter(|set| !set.is_empty()).map(PathBuf::from))
}

/// Returns softland's state folder by the system's convention; `None` if the environment names no
/// home folder.
pub(crate) fn state_folder(env: Env<'_>) -> Option<PathBuf> {
    let absolute = |name| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| {
        let (variable, below) = STATE_FOLDER;
        absolute(variable).map(|folder| folder.join(below))
    })?;
    Some(state.join("softland"))
}

/// Creates a folder below the state folder, with access for its owner only.
pub(crate) fn create_folder(folder: &Path) -> std::io::Result<()> {
    make_folder_private(DirBuilder::new().recursive(true)).create(folder)
}

/// Describes why there is no state folder.
pub(crate) fn missing_state_folder() -> String {
    format!("{} is not set", STATE_FOLDER.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_those_of_the_user() {
        let (variable, below) = STATE_FOLDER;
        let root = if cfg!(windows) { "C:\\" } else { "/" };
        let (me, own) = (format!("{root}me"), format!("{root}state"));
        let of = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> =
                set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            state_folder(&move |name| {
                set.iter().find(|(key, _)| key == name).map(|(_, v)| v.clone())
            })
        };
        let default = PathBuf::from(&me).join(below).join("softland");
        assert_eq!(of(&[(variable, &me)]), Some(default.clone()));
        let both = [(variable, me.as_str()), ("XDG_STATE_HOME", &own)];
        assert_eq!(of(&both), Some(PathBuf::from(&own).join("softland")));
        // The XDG specification requires relative paths to be ignored.
        let relative = [(variable, me.as_str()), ("XDG_STATE_HOME", "state")];
        assert_eq!(of(&relative), Some(default));
        assert_eq!(of(&[]), None);
        let home = |name: &str| (name == HOME_VARIABLES[0]).then(|| me.clone());
        assert_eq!(home_folder(&home), Some(PathBuf::from(&me)));
        assert_eq!(home_folder(&|_| Some(String::new())), None);
    }
}
