use softland_agent::core::NanoUsd;
use softland_gateway::{BudgetWindow, OnExhausted, WindowLength};

use super::settings::settings;
use super::*;

const ROW: &str = "account = 'acme'\nlimit_usd = 50\nwindow = 'day'\n";

#[test]
fn budgets_become_what_the_gateway_is_told() {
    let text = "[[budget]]\naccount = 'acme/search/*'\nlimit_usd = 0.5\nlimit_tokens = 7\n\
                window = '5h'\non_exhausted = 'refuse'\nnotify_at = [1, 0.5, 0.95, 0.5]\n\
                [[budget]]\naccount = 'acme'\nlimit_usd = 9000000\nwindow = 'month'\n\
                [[budget]]\naccount = '*'\nlimit_tokens = 1\nwindow = 'day'\n";
    let settings = settings(&format!("timezone = 'Europe/Berlin'\n{text}"), &Overrides::default());
    let settings = settings.unwrap();
    let [child, acme, all] = &settings.budgets[..] else { panic!("{:?}", settings.budgets) };
    assert_eq!(child.pattern(), "acme/search/*");
    assert_eq!((child.limit, child.tokens_limit), (Some(NanoUsd(500_000_000)), Some(7)));
    assert_eq!(child.on_exhausted, OnExhausted::Refuse);
    assert_eq!((&child.notify_at, &all.notify_at), (&vec![0.5, 0.95, 1.0], &Vec::new()));
    let month = BudgetWindow::new(WindowLength::Month, "Europe/Berlin").unwrap();
    assert_eq!((&acme.window, acme.pattern()), (&month, "acme".to_owned()));
    assert_eq!(acme.on_exhausted, OnExhausted::Land);
    assert_eq!((all.pattern(), all.limit), ("*".to_owned(), None));
}

#[test]
fn each_mistake_in_a_budget_is_named() {
    for (rows, wanted) in [
        ("limit_usd = 1\nwindow = 'day'", "c.toml:1: budget.account: is required"),
        ("account = 'a'\nlimit_usd = 1", "c.toml:1: budget.window: is required"),
        ("account = 'a'\nwindow = 'day'", "needs limit_usd or limit_tokens"),
        ("account = 'a//b'\nlimit_usd = 1\nwindow = 'day'", "c.toml:2: budget.account: must be"),
        ("account = '/a'\nlimit_usd = 1\nwindow = 'day'", "budget.account: must be"),
        ("account = 'a/../b'\nlimit_usd = 1\nwindow = 'day'", "budget.account: must be"),
        ("account = 'a*'\nlimit_usd = 1\nwindow = 'day'", "budget.account: must be"),
        ("account = 'a/*/b'\nlimit_usd = 1\nwindow = 'day'", "budget.account: must be"),
        ("account = 'a'\nlimit_usd = 0\nwindow = 'day'", "budget.limit_usd: must be"),
        ("account = 'a'\nlimit_usd = -1\nwindow = 'day'", "budget.limit_usd: must be"),
        ("account = 'a'\nlimit_usd = 9000001\nwindow = 'day'", "budget.limit_usd: must be"),
        ("account = 'a'\nlimit_tokens = 1.5\nwindow = 'day'", "budget.limit_tokens: must be"),
        ("account = 'a'\nlimit_tokens = 0\nwindow = 'day'", "budget.limit_tokens: must be"),
        ("account = 'a'\nlimit_usd = 1\nwindow = 'year'", "budget.window: must be"),
        ("account = 'a'\nlimit_usd = 1\nwindow = 'day'\non_exhausted = 'x'", "must be \"land\""),
        ("account = 'a'\nlimit_usd = 1\nwindow = 'day'\nnotify_at = 0.5", "must be a list of"),
        ("account = 'a'\nlimit_usd = 1\nwindow = 'day'\nnotify_at = [0]", "must be a list of"),
        (
            "account = 'a'\nlimit_usd = 1\nwindow = 'day'\nnotify_at = [0.5, 80]",
            "got 80 in the list",
        ),
        ("account = 'a'\nlimit_usd = 1\nwindow = 'day'\nnotify_at = [80.0]", "above 0 and up to 1"),
        ("account = 'a'\nlimit_usd = 1\nwindow = 'day'\nlimit = 1", "budget.limit"),
    ] {
        let problems = problems(&format!("[[budget]]\n{rows}\n"));
        assert_eq!(problems.len(), 1, "{rows}\n{problems:?}");
        assert!(problems[0].contains(wanted), "{problems:?}");
    }
    let twice = problems(&format!("[[budget]]\n{ROW}[[budget]]\n{ROW}"));
    let wanted = "c.toml:5: budget.account: \"acme\" has a budget for this window in c.toml:1: \
                  budget, too";
    assert_eq!(twice, [wanted]);
    let zone = problems("timezone = 'Mars/Olympus'\n");
    assert!(zone[0].starts_with("c.toml:1: timezone: must be the name of a time zone"), "{zone:?}");
}

#[test]
fn a_budget_that_no_key_spends_from_is_told() {
    let key = "[[key]]\nname = 'ana'\ntoken_env = 'KEY'\naccount = 'acme/ana'\n";
    for (account, told) in [("acme/*", false), ("acme", false), ("acme/bo", true), ("x/*", true)] {
        let budget = format!("[[budget]]\naccount = '{account}'\nlimit_usd = 1\nwindow = 'day'\n");
        let config = Config::parse("c.toml", &format!("{key}{budget}")).unwrap();
        let warnings = config.list_warnings(&Overrides::default());
        let wanted =
            format!("c.toml:5: budget: no [[key]] has an account for which {account} is a budget");
        assert_eq!(warnings, if told { vec![wanted] } else { Vec::new() });
    }
}
