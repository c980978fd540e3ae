use super::gateway::WHOLE;
use super::*;

fn parse(text: &str) -> Config {
    Config::parse("c.toml", text).unwrap()
}

/// The config with every key of the docs, with its examples taken in.
fn documented() -> String {
    let page = include_str!("../../../../../docs/reference/config.md");
    let (_, rest) = page.split_once("## A config with every key").unwrap();
    let (_, rest) = rest.split_once("```toml\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

fn examples() -> Vec<(&'static str, String)> {
    vec![
        ("init", include_str!("../../init/softland.toml").to_owned()),
        ("deploy", include_str!("../../../../../deploy/softland.toml").to_owned()),
        ("docs", documented()),
        ("tests", WHOLE.to_owned()),
        ("rows", ROWS.to_owned()),
    ]
}

const ROWS: &str = "\
[[key]]
name = \"ana\"
token_env = \"ANA\"
policies = [\"default\"]
[[key]]
name = \"ben\"
token_env = \"BEN\"
policies = [
    \"default\",
]
[policy.default]
tool_calls_limit = 60
tool_limits = { grep = 20, glob = 3 }
[[budget]]
account = \"acme\"
window = \"day\"
limit_usd = 50
[[budget]]
account = \"acme\"
window = \"month\"
limit_usd = 500
";

/// Returns true if a config holds nothing in this part.
fn is_nothing(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
}

/// Cuts a text at each of these places, and checks that each cut that is taken lost nothing.
fn cut_at(places: impl Fn(&str) -> bool, name: &str, in_force: &str, written: &str) {
    let old = parse(in_force);
    assert_eq!(old.list_lost(&parse(written)), [""; 0], "{name}: the whole file is taken");
    for at in (0..written.len()).filter(|at| written.is_char_boundary(*at)) {
        let (kept, cut) = written.split_at(at);
        if !places(kept) {
            continue;
        }
        let Ok(next) = Config::parse("c.toml", kept) else { continue };
        let taken = old.list_lost(&next).is_empty();
        assert!(!taken || is_nothing(cut), "{name} is taken without its end:\n{cut}");
    }
}

#[test]
fn c150_a_cut_at_any_place_is_not_taken() {
    // Of the changed texts only cuts between lines: others lack the end of their last line.
    let behind_a_line = |kept: &str| kept.ends_with('\n') || kept.is_empty();
    for (name, text) in examples() {
        cut_at(|_| true, name, &text, &text);
        let changed = [
            text.replace("60", "7").replace("127.0.0.1", "127.0.0.2"),
            format!("timezone = \"UTC\"\n{}", text.replace("timezone", "# ")),
        ];
        for written in changed {
            cut_at(behind_a_line, name, &text, &written);
        }
        cut_at(behind_a_line, name, &text.replace('#', "# was"), &text);
    }
}

#[test]
fn c150_what_is_taken_away_before_the_end_is_taken() {
    let old = parse(ROWS);
    let without_ana = ROWS.split_at(ROWS.rfind("[[key]]").unwrap()).1;
    let other_order = "[[budget]]\naccount = \"acme\"\nwindow = \"month\"\nlimit_usd = 5\n\
        [[budget]]\naccount = \"acme\"\nwindow = \"day\"\nlimit_usd = 5\n[policy.default]\n";
    for (text, lost) in [
        (without_ana.to_owned(), ""),
        (other_order.to_owned(), ""),
        (ROWS.replace("= 500", "= 400"), ""),
        (format!("{ROWS}[[price]]\nmodel = \"m\"\ninput = 1\noutput = 2\n"), ""),
        (
            ROWS.replace("[[budget]]\naccount = \"acme\"\nwindow = \"day\"\nlimit_usd = 50\n", ""),
            "limit_usd",
        ),
        (ROWS.replace("limit_usd = 500\n", "limit_tokens = 1\n"), "limit_usd"),
    ] {
        let gone = old.list_lost(&parse(&text)).join(", ");
        assert!(gone.is_empty() == lost.is_empty() && gone.contains(lost), "{gone}: {text}");
    }
}

#[test]
fn c150_a_token_at_the_end_is_revoked_while_others_are_left() {
    let key = |name: &str| format!("[[key]]\nname = \"{name}\"\ntoken_env = \"{name}\"\n");
    let policy = "[policy.default]\ntool_calls_limit = 60\n";
    let (ana, ben) = (key("ANA"), key("BEN"));
    let store = "[shared]\nurl_env = \"STORE\"\n";
    for (old, new, taken) in [
        (format!("{policy}{ana}{ben}"), format!("{policy}{ana}"), true),
        // Everybody could ask without any key.
        (format!("{policy}{ana}"), policy.to_owned(), false),
        // A store may hold keys, and can refuse everybody.
        (format!("{store}{policy}{ana}"), format!("{store}{policy}"), true),
        (
            format!("{policy}{ana}{ben}"),
            format!("{policy}{ana}{}", ben.replace("BEN", "EVE")),
            true,
        ),
        (
            format!("{policy}{ana}{ben}policies = [\"default\"]\n"),
            format!("{policy}{ana}{ben}"),
            false,
        ),
    ] {
        let lost = parse(&old).list_lost(&parse(&new));
        assert_eq!(lost.is_empty(), taken, "{lost:?}: {new}");
    }
}

#[test]
fn c150_a_comment_at_the_end_shows_that_a_file_is_whole() {
    let (before, last) = ROWS.split_at(ROWS.rfind("[[budget]]").unwrap());
    let old = parse(&format!("{before}{last}# The end.\n"));
    for (text, taken) in [
        (format!("{before}# The end.\n"), true),
        (format!("{before}# The end.\n\n"), true),
        (before.to_owned(), false),
        (format!("{before}# Another end.\n"), false),
    ] {
        assert_eq!(old.list_lost(&parse(&text)).is_empty(), taken, "{text}");
    }
    // One that stands in two places shows nothing.
    let twice = parse(&format!("# The end.\n{before}# The end.\n{last}# The end.\n"));
    assert!(!twice.list_lost(&parse(&format!("{before}# The end.\n"))).is_empty());
    // And policies, tokens and addresses stay in any case.
    let bare = old.list_lost(&parse("# The end.\n"));
    assert_eq!(bare, ["[policy.default]"]);
}
