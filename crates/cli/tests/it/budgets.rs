//! Budgets of accounts with `softland serve`: from a config, over a restart.

use crate::support::server::*;
use crate::support::*;
use tempfile::tempdir;

const MODEL: &str = "claude-sonnet-5-5";

/// Asks until a request is refused, and returns the refusal.
fn ask_to_refusal(gateway: &Server) -> String {
    for _ in 0..300 {
        let response = rest(gateway.ask(MODEL, false));
        if !response.starts_with("HTTP/1.1 200 ") {
            return response;
        }
    }
    unreachable!("the budget is reached");
}

#[test]
fn k13_a_budget_of_a_config_holds_over_a_restart() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let config = format!(
        "timezone = 'Europe/Berlin'\n[policy.default]\nreserve_tokens = 100\n\
         [[key]]\nname = 'ana'\ntoken_env = 'ANA_TOKEN'\naccount = 'acme/ana'\n\
         [[budget]]\naccount = 'acme/*'\nlimit_usd = 0.02\nwindow = 'month'\n\
         on_exhausted = 'refuse'\n\
         [upstream.anthropic]\nbase_url = '{}'\napi_key_env = 'KEY'\n\
         [ledger]\nurl = 'sqlite:softland.db'\n",
        sim.url()
    );
    let config = file(folder.path(), "softland.toml", &config);
    let serve = || {
        let variables = [("ANA_TOKEN", SECRET), ("KEY", "of-the-provider")];
        Server::serve(folder.path(), &["--config", &config], &variables)
    };
    let gateway = serve();
    let refused = ask_to_refusal(&gateway);
    assert!(refused.starts_with("HTTP/1.1 402 "), "{refused}");
    assert!(refused.contains("x-should-retry: false"), "{refused}");
    assert!(refused.contains("the budget of acme/ana ($0.02 a month) has no room"), "{refused}");
    gateway.signal("TERM");
    assert_eq!(gateway.ended().0.code(), Some(0));
    let gateway = serve();
    let refused = rest(gateway.ask(MODEL, false));
    assert!(refused.starts_with("HTTP/1.1 402 "), "{refused}");
}
