//! The ledger that a command writes or reads: the one that is named, the one in the current folder,
//! or the one in the user's state folder (`docs/reference/environment.md`).

use std::path::{Path, PathBuf};

use crate::config::{Config, Env, LEDGER, LedgerSetting};
use crate::failure::Failure;
use crate::platform;

/// The variable that turns the default ledger off.
pub(crate) const VARIABLE: &str = "SOFTLAND_LEDGER";

/// The ledger that a gateway writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LedgerChoice {
    /// No ledger, and the setting that turned it off.
    Off(&'static str),
    /// The file that the config names. A gateway that cannot use it does not start.
    Named(PathBuf),
    /// The file that is used if nothing names one. A gateway that cannot use it goes on without.
    Default(PathBuf),
    /// There is no place for the default file, and the reason.
    NoPlace(String),
}

/// The parts of a command line that decide on the ledger.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LedgerFlags {
    /// True for `--no-ledger`.
    pub(crate) off: bool,
    /// True if the default is `softland.db` in the current folder.
    pub(crate) here: bool,
}

/// Chooses the ledger that a gateway writes. The first of these decides: `--no-ledger`, the config,
/// the variable, the default.
///
/// # Errors
/// Returns a failure if the variable has a value that means nothing.
pub(crate) fn choose_ledger(
    config: &Config,
    flags: LedgerFlags,
    env: Env<'_>,
) -> Result<LedgerChoice, Failure> {
    let off_by_variable = read_variable(env)?;
    Ok(match config.ledger_setting() {
        _ if flags.off => LedgerChoice::Off("--no-ledger"),
        Some(LedgerSetting::Off) => LedgerChoice::Off("[ledger] url"),
        Some(LedgerSetting::Sqlite(path)) => LedgerChoice::Named(path.clone()),
        None if off_by_variable => LedgerChoice::Off(VARIABLE),
        None if flags.here => LedgerChoice::Default(PathBuf::from(LEDGER)),
        None => match default_ledger(env) {
            Some(path) => LedgerChoice::Default(path),
            None => LedgerChoice::NoPlace(
                "neither XDG_STATE_HOME nor HOME names a folder for it".to_owned(),
            ),
        },
    })
}

/// Returns true if the variable turns the default ledger off.
fn read_variable(env: Env<'_>) -> Result<bool, Failure> {
    match env(VARIABLE).as_deref().map(str::trim) {
        None | Some("" | "on") => Ok(false),
        Some("off") => Ok(true),
        Some(other) => Err(Failure::usage(format!(
            "{VARIABLE} must be off or on, got \"{other}\" ([ledger] url of a config names a file)"
        ))),
    }
}

/// Returns the path of the default ledger; `None` if the environment names no home folder.
pub(crate) fn default_ledger(env: Env<'_>) -> Option<PathBuf> {
    Some(platform::state_folder(env)?.join(LEDGER))
}

/// Returns the ledgers that are read if no other is named, those that exist: the one in the current
/// folder, and the default one.
pub(crate) fn list_readable(env: Env<'_>) -> Vec<PathBuf> {
    let here = PathBuf::from(LEDGER);
    let same = |a: &Path, b: &Path| match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    let default = default_ledger(env).filter(|path| !same(path, &here));
    [Some(here), default].into_iter().flatten().filter(|path| path.exists()).collect()
}

impl LedgerChoice {
    /// Returns the file; `None` if no ledger is kept.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Named(path) | Self::Default(path) => Some(path),
            Self::Off(_) | Self::NoPlace(_) => None,
        }
    }

    /// Creates the folder of a default ledger. Without the folder there is no place for the file.
    pub(crate) fn with_folder(self) -> Self {
        let Self::Default(path) = &self else { return self };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        match folder.map(|folder| (folder, platform::create_folder(folder))) {
            Some((folder, Err(error))) => {
                Self::NoPlace(format!("the folder {} cannot be created: {error}", folder.display()))
            }
            Some((_, Ok(()))) | None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::is_separator;

    use super::*;

    fn choose(text: &str, flags: LedgerFlags, vars: &[(&str, &str)]) -> LedgerChoice {
        let config = Config::parse("c.toml", text).unwrap();
        let env = |name: &str| {
            vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        choose_ledger(&config, flags, &env).unwrap()
    }

    #[test]
    fn the_first_that_says_something_decides() {
        let (none, here) = (LedgerFlags::default(), LedgerFlags { off: false, here: true });
        let off = LedgerFlags { off: true, here: true };
        let home = ("XDG_STATE_HOME", if is_separator('\\') { "C:\\me" } else { "/me" });
        let named = "[ledger]\nurl = 'sqlite:a.db'\n";
        let default = LedgerChoice::Default(Path::new(home.1).join("softland").join(LEDGER));
        for (text, flags, vars, wanted) in [
            ("", none, &[home][..], default.clone()),
            ("", none, &[home, (VARIABLE, "on")], default),
            ("", here, &[home], LedgerChoice::Default("softland.db".into())),
            ("", none, &[home, (VARIABLE, " off ")], LedgerChoice::Off(VARIABLE)),
            ("", here, &[home, (VARIABLE, "off")], LedgerChoice::Off(VARIABLE)),
            (named, none, &[home, (VARIABLE, "off")], LedgerChoice::Named("a.db".into())),
            (named, off, &[home], LedgerChoice::Off("--no-ledger")),
            ("[ledger]\nurl = 'off'\n", none, &[home], LedgerChoice::Off("[ledger] url")),
        ] {
            assert_eq!(choose(text, flags, vars), wanted, "{text} {flags:?} {vars:?}");
        }
        assert!(matches!(choose("", none, &[]), LedgerChoice::NoPlace(_)));
    }

    #[test]
    fn a_value_that_means_nothing_is_an_error() {
        let env = |name: &str| (name == VARIABLE).then(|| "false".to_owned());
        let failure = choose_ledger(&Config::default(), LedgerFlags::default(), &env).unwrap_err();
        assert!(failure.messages[0].contains("must be off or on"), "{failure:?}");
    }
}
