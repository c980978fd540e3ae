//! Environment variables that hold credentials.

use std::collections::HashSet;
use std::ffi::OsString;

/// Words that mark a variable as a credential anywhere in its name.
const ANYWHERE: [&str; 7] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY"];

/// Words that mark a variable as a credential between underscores and other signs.
const WORDS: [&str; 12] = [
    "KEY",
    "KEYS",
    "PASS",
    "PWD",
    "AUTH",
    "AUTHORIZATION",
    "PAT",
    "JWT",
    "COOKIE",
    "DSN",
    "BEARER",
    "SIGNATURE",
];

/// Names that look like credentials but are not: the working folder.
const HARMLESS: [&str; 2] = ["PWD", "OLDPWD"];

/// Returns true if a variable holds a credential or the way to one, by its name (`…_KEY`,
/// `…_TOKEN`, `SSH_AUTH_SOCK`, …) or because its value is an address with a password.
#[must_use]
pub fn is_credential(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    if HARMLESS.contains(&name.as_str()) {
        return false;
    }
    ANYWHERE.iter().any(|word| name.contains(word))
        || name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| WORDS.contains(&word))
        || has_password(value)
}

/// Returns true for `scheme://user:password@host`, and for a token in the user's place.
fn has_password(value: &str) -> bool {
    value.split("://").skip(1).any(|behind| {
        let authority = behind.split(['/', '?', '#', ' ']).next().unwrap_or_default();
        authority.contains('@')
    })
}

/// Returns the variables without credentials and without copies of their values.
pub(super) fn without_credentials(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    withheld: &[String],
) -> Vec<(OsString, OsString)> {
    let is_secret = |(name, value): &(OsString, OsString)| {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        withheld.iter().any(|other| *other == name) || is_credential(&name, &value)
    };
    let (secret, open): (Vec<_>, Vec<_>) = variables.into_iter().partition(is_secret);
    // A short value (`1`, `true`) may occur elsewhere by chance.
    let values: HashSet<OsString> =
        secret.into_iter().map(|(_, value)| value).filter(|value| value.len() >= 8).collect();
    open.into_iter().filter(|(_, value)| !values.contains(value)).collect()
}
