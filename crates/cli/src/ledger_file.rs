//! The ledger that a command writes or reads: the one that is named, the one in the current folder,
//! or the one in the user's state folder (`docs/reference/environment.md`).

use std::path::{Path, PathBuf};

#[cfg(not(feature = "postgres"))]
use softland_host::describe_missing_feature;
use softland_ledger::LedgerPlace;

use crate::config::{Config, Env, LEDGER, LedgerSetting};
use crate::failure::Failure;
use crate::platform;

/// The variable that turns the default ledger off, or holds the address of one.
pub(crate) const VARIABLE: &str = "SOFTLAND_LEDGER";

/// The ledger that a gateway writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LedgerChoice {
    /// No ledger, and the setting that turned it off.
    Off(&'static str),
    /// What the config or the variable names. A gateway that cannot use it does not start.
    Named(LedgerPlace),
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
    let by_variable = read_variable(env)?;
    let by_config = config.resolve_ledger(env).map_err(Failure::from_messages)?;
    Ok(match by_config {
        _ if flags.off => LedgerChoice::Off("--no-ledger"),
        Some(LedgerSetting::Off) => LedgerChoice::Off("[ledger] url"),
        Some(LedgerSetting::At(place)) => LedgerChoice::Named(place),
        None if let Some(setting) = by_variable => match setting {
            LedgerSetting::Off => LedgerChoice::Off(VARIABLE),
            LedgerSetting::At(place) => LedgerChoice::Named(place),
        },
        None if flags.here => LedgerChoice::Default(PathBuf::from(LEDGER)),
        None => match default_ledger(env) {
            Some(path) => LedgerChoice::Default(path),
            None => LedgerChoice::NoPlace(
                "neither XDG_STATE_HOME nor HOME names a folder for it".to_owned(),
            ),
        },
    })
}

/// Returns what the variable says, if it says anything.
///
/// # Errors
/// Returns a failure if it has a value that means nothing. A value that may be an address is not shown.
fn read_variable(env: Env<'_>) -> Result<Option<LedgerSetting>, Failure> {
    match env(VARIABLE).as_deref().map(str::trim) {
        None | Some("" | "on") => Ok(None),
        Some("off") => Ok(Some(LedgerSetting::Off)),
        Some(text) if is_address(text) => match parse_address(text) {
            Ok(place) => Ok(Some(LedgerSetting::At(place))),
            Err(message) => Err(Failure::usage(format!("{VARIABLE}: {message}"))),
        },
        Some(other) if other.contains([':', '@']) => Err(Failure::usage(format!(
            "{VARIABLE} must be off, on, or an address that begins with postgres://"
        ))),
        Some(other) => Err(Failure::usage(format!(
            "{VARIABLE} must be off, on, or an address that begins with postgres://, got \"{other}\" \
             ([ledger] url of a config names a file)"
        ))),
    }
}

/// Returns the ledger whose address the variable holds.
///
/// # Errors
/// Returns a failure if the variable has a value that means nothing.
pub(crate) fn read_address(env: Env<'_>) -> Result<Option<LedgerPlace>, Failure> {
    match read_variable(env)? {
        Some(LedgerSetting::At(place)) => Ok(Some(place)),
        Some(LedgerSetting::Off) | None => Ok(None),
    }
}

/// Returns true if a text is the address of a database rather than a path.
pub(crate) fn is_address(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, _)| matches!(scheme, "postgres" | "postgresql"))
}

/// Reads the address of a ledger in a database. The error does not repeat it: it may contain a
/// password.
#[cfg(feature = "postgres")]
pub(crate) fn parse_address(text: &str) -> Result<LedgerPlace, String> {
    match is_address(text) && text.contains("://") {
        true => LedgerPlace::from_url(text),
        false => Err("must be an address that begins with postgres://".to_owned()),
    }
}

#[cfg(not(feature = "postgres"))]
pub(crate) fn parse_address(text: &str) -> Result<LedgerPlace, String> {
    let scheme = if text.starts_with("postgresql:") { "postgresql" } else { "postgres" };
    Err(describe_missing_feature(scheme, "postgres"))
}

/// Returns the ledger that a flag or an argument names: a file, or an address.
///
/// # Errors
/// Returns a failure if it is an address that cannot be used.
pub(crate) fn named_place(named: &Path) -> Result<LedgerPlace, Failure> {
    match named.to_str().filter(|text| is_address(text)) {
        Some(text) => {
            parse_address(text).map_err(|message| Failure::usage(format!("--ledger: {message}")))
        }
        None => Ok(named.into()),
    }
}

/// Returns the path of the default ledger; `None` if the environment names no home folder.
pub(crate) fn default_ledger(env: Env<'_>) -> Option<PathBuf> {
    Some(platform::state_folder(env)?.join(LEDGER))
}

/// Returns the ledgers that are read if no other is named: the one whose address the variable holds, or
/// else the one in the current folder and the default one, those that exist.
///
/// # Errors
/// Returns a failure if the variable has a value that means nothing.
pub(crate) fn list_readable(env: Env<'_>) -> Result<Vec<LedgerPlace>, Failure> {
    if let Some(place) = read_address(env)? {
        return Ok(vec![place]);
    }
    let here = PathBuf::from(LEDGER);
    let same = |a: &Path, b: &Path| match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    let default = default_ledger(env).filter(|path| !same(path, &here));
    let files = [Some(here), default].into_iter().flatten().filter(|path| path.exists());
    Ok(files.map(LedgerPlace::from).collect())
}

impl LedgerChoice {
    /// Returns the place of the ledger; `None` if none is kept.
    pub(crate) fn place(&self) -> Option<LedgerPlace> {
        match self {
            Self::Named(place) => Some(place.clone()),
            Self::Default(path) => Some(path.into()),
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
            (
                named,
                none,
                &[home, (VARIABLE, "off")],
                LedgerChoice::Named(Path::new("a.db").into()),
            ),
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
        assert!(failure.messages[0].contains("must be off, on, or an address"), "{failure:?}");
    }
}
