//! `softland keys` without a store: each wrong invocation names the mistake and the way out. What it
//! does with one is in `tests/fleet`.

use crate::support::{file, said, said_by, softland};

const CONFIG: &str = "[policy.coding]\ntool_calls_limit = 9\n[[key]]\nname = 'ana'\ntoken_sha256 = \
    'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'\n";

/// The arguments behind `keys`, the words for the mistake, and those for the way out.
const WRONG: &[(&[&str], &str, &str)] = &[
    (&["ad", "bo"], "'ad'", "'add'"),
    (&["list"], "`softland keys list` needs --config FILE", "[shared] url"),
    (&["add"], "`softland keys add` needs the NAME", "softland keys --help"),
    (&["revoke", "--config", "c.toml"], "`softland keys revoke` needs the NAME", "keys --help"),
    (&["list", "ana"], "`softland keys list` lists all keys", "takes no NAME"),
    (&["revoke", "a", "--grace", "1h"], "takes no --grace", "`softland keys rotate` does"),
    (&["rotate", "a", "--policy", "x"], "takes no --policy", "`softland keys add` does"),
    (&["rotate", "a", "--grace", "soon"], "got \"soon\"", "such as \"1h\""),
    (
        &["add", "bo", "--config", "none.toml"],
        "none.toml: the file does not exist",
        "softland init",
    ),
    // Names with separators, of the config's own keys, and of nothing.
    (&["add", "a/b", "--config", "c.toml"], "got \"a/b\"", "a name of up to 64 letters"),
    (&["add", "a:b", "--config", "c.toml"], "got \"a:b\"", "a name of up to 64 letters"),
    (&["add", "", "--config", "c.toml"], "got \"\"", "a name of up to 64 letters"),
    (&["add", "ana", "--config", "c.toml"], "c.toml:3: key: the config has", "choose another name"),
    (
        &["add", "bo", "--account", "acme//bo", "--config", "c.toml"],
        "--account must be a path",
        "got \"acme//bo\"",
    ),
    (
        &["add", "bo", "--account", "../bo", "--config", "c.toml"],
        "--account must be a path",
        "got \"../bo\"",
    ),
    (&["add", "..", "--config", "c.toml"], "got \"..\"", "a name of up to 64 letters"),
    (
        &["add", "bo", "--policy", "codign", "--config", "c.toml"],
        "--policy: no policy is named `codign`",
        "did you mean `coding`?",
    ),
    // A built-in policy is selected by a header only if the config has it.
    (
        &["add", "bo", "--policies", "coding,strict", "--config", "c.toml"],
        "--policies: the config does not define `strict`",
        "it defines coding",
    ),
    (
        &["add", "bo", "--policy", "coding", "--config", "c.toml"],
        "c.toml: names no shared store",
        "add [shared] url = \"redis://HOST:PORT\"",
    ),
    (&["list", "--config", "c.toml"], "c.toml: names no shared store", "[[key]]"),
];

#[test]
fn k38_keys_names_the_mistake_and_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "c.toml", CONFIG);
    for (args, mistake, way_out) in WRONG {
        let said = said_by(softland().current_dir(folder.path()).arg("keys").args(*args));
        let named = said.stderr.contains(mistake) && said.stderr.contains(way_out);
        assert!(said.status == Some(2) && named, "{args:?}: {:?}\n{}", said.status, said.stderr);
        assert_eq!(said.stdout, "", "{args:?}: no token is shown");
    }
}

/// A store that does not answer is told apart from a mistake, and no token is shown that it may not
/// have.
#[cfg(feature = "redis")]
#[test]
fn k38_a_store_that_is_away_is_told() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens at this port: it was free, and the listener is gone.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = file(folder.path(), "c.toml", &format!("[shared]\nurl = 'redis://{free}'\n"));
    for action in [&["add", "bo"][..], &["list"], &["rotate", "bo"], &["revoke", "bo"]] {
        let said = said_by(softland().arg("keys").args(action).args(["--config", &config]));
        assert_eq!(
            (said.status, said.stdout.as_str()),
            (Some(4), ""),
            "{action:?}: {}",
            said.stderr
        );
        assert!(said.stderr.contains("the shared store cannot be reached"), "{}", said.stderr);
    }
}

#[test]
fn the_help_of_keys_says_what_each_action_does() {
    let help = said(&["keys", "--help"]).status(0).stdout;
    for action in ["add", "list", "rotate", "revoke"] {
        assert!(help.contains(&format!("\n  {action}  ")), "{action}: {help}");
        assert!(help.contains(&format!("softland keys {action} ")), "{action}: {help}");
    }
}
