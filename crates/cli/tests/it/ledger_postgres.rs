//! Gateways whose ledger is in a PostgreSQL, and the commands that read it.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use crate::outage::TestServer as _;
use crate::postgres_server::{PostgresServer, postgres_program};
use crate::support::server::*;
use crate::support::*;
use serde_json::{Value, json};
use tempfile::tempdir;

/// The model that the tests ask for.
const MODEL: &str = "claude-sonnet-5-5";

#[test]
fn commands_on_postgres_pass() {
    crate::required::run_with_server("on_postgres_", &postgres_program("postgres"));
}

fn body_of(gateway: &Server, path: &str) -> Value {
    let text = gateway.get(path);
    serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// The address with a password, which nothing may show. The server asks for none.
fn secret_url(server: &PostgresServer) -> String {
    server.url().replace("softland@", "softland:hunter2@")
}

#[test]
#[ignore = "needs postgres"]
fn k46_on_postgres_gateways_share_a_ledger_and_all_commands_read_it() {
    let (folder, sim, server) =
        (tempdir().unwrap(), Server::sim("reader"), PostgresServer::start());
    let config = format!(
        "[upstream.anthropic]\nbase_url = \"{}/v1\"\n[ledger]\nurl_env = \"LEDGER\"\ncontent = \"full\"\n",
        sim.url()
    );
    let config = file(folder.path(), "c.toml", &config);
    let url = secret_url(&server);
    let serve = || Server::serve(folder.path(), &["--config", &config], &[("LEDGER", &url)]);
    let gateways = [serve(), serve()];
    for gateway in &gateways {
        let mut command = softland();
        command.env("ANTHROPIC_API_KEY", SECRET).arg("run").arg(analyst());
        command.args(["prices?", "--base-url", &gateway.url(), "--root"]).arg(notes());
        said_by(command.args(["--model", &format!("anthropic/{MODEL}")])).status(0);
        rest(gateway.ask(MODEL, false));
    }
    let mut told = Vec::new();
    for gateway in gateways {
        gateway.signal("INT");
        let (status, said) = gateway.ended();
        assert_eq!(status.code(), Some(0), "{said}");
        assert!(said.contains("ledger: postgres://127.0.0.1:"), "{said}");
        told.push(said);
    }
    let read = |args: &[&str]| said_by(softland().args(args).env("LEDGER", &url)).status(0);
    let listed = read(&["runs", "--json", "--config", &config]).events();
    assert_eq!(listed.len(), 3, "two runs, and the requests of none: {listed:?}");
    assert!(listed[..2].iter().all(|run| run["outcome"].is_string()), "{listed:?}");
    assert_eq!(listed[2]["requests"], 2, "one of each gateway");
    let named = read(&["runs", "--json", "--ledger", &url]).events();
    let mut by_variable = said_by(softland().args(["runs", "--json"]).env("SOFTLAND_LEDGER", &url))
        .status(0)
        .events();
    // Where nothing is named, runs that `softland run` has kept are listed, too.
    by_variable.retain(|run| run["journal"].is_null());
    assert_eq!((&named, &by_variable), (&listed, &listed));
    let run = listed[0]["run"].as_str().unwrap();
    let shown = read(&["show", run, "--ledger", &url]).stdout;
    assert!(shown.contains("prices?") && shown.contains(run), "{shown}");
    let latest = read(&["show", "last", "--ledger", &url]).stdout;
    assert!(latest.contains(run), "{latest}");
    let audited = read(&["audit", "--format", "json", &url]);
    let report: Value = serde_json::from_str(&audited.stdout).unwrap();
    let runs = report["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &report["unreadable"]), (2, &json!([])), "{report}");
    assert_eq!(runs[0]["turns"], listed[0]["turns"], "{report}");
    let pages =
        Server::start(softland().args(["pages", "--listen", "127.0.0.1:0", "--ledger", &url]));
    let ask = |path: &str| body_of(&pages, path);
    assert_eq!(ask("/api/runs")["runs"].as_array().unwrap().len(), 2);
    assert_eq!(ask(&format!("/api/runs/{run}"))["run"], run);
    let usage = ask("/api/usage?by=model");
    assert_eq!(usage["rows"][0]["model"], MODEL, "{usage}");
    let totals = ask("/api/totals?days=30");
    assert!(totals["all"]["spend_usd"].as_f64() > Some(0.0), "{totals}");
    told.push(read(&["runs", "--delete", run, "--ledger", &url]).stderr);
    assert_eq!(read(&["runs", "--json", "--ledger", &url]).events().len(), 2);
    told.push(read(&["runs", "--delete", "--before", "0s", "--ledger", &url]).stderr);
    assert_eq!(read(&["runs", "--json", "--ledger", &url]).events(), Vec::<Value>::new());
    pages.signal("INT");
    told.extend([pages.ended().1, shown, latest, audited.stdout, audited.stderr]);
    let nowhere =
        said_by(softland().args(["runs", "--ledger", "postgres://a:hunter2@127.0.0.1:1/b"]));
    told.push(nowhere.status(2).says("postgres://127.0.0.1:1/b").stderr);
    assert!(told.iter().all(|said| !said.contains("hunter2")), "{told:?}");
}

#[test]
#[ignore = "needs postgres"]
fn k47_on_postgres_that_is_away_a_gateway_goes_on_and_counts() {
    let (folder, sim) = (tempdir().unwrap(), Server::sim("reader"));
    let mut server = PostgresServer::start();
    let url = secret_url(&server);
    let flags = ["--anthropic-base-url", &sim.url()];
    let mut gateway = Server::serve(folder.path(), &flags, &[("SOFTLAND_LEDGER", &url)]);
    let answers =
        |gateway: &Server| rest(gateway.ask_as_agent(MODEL, false)).starts_with("HTTP/1.1 200");
    assert!(answers(&gateway));
    server.kill();
    assert!(answers(&gateway), "it answers as before");
    gateway.until("the ledger cannot be written, records wait");
    assert!(gateway.get("/metrics").contains("softland_ledger_waiting "));
    server.restart();
    gateway.until("the ledger is written again");
    gateway.signal("INT");
    let (status, said) = gateway.ended();
    assert!(status.code() == Some(0) && !said.contains("hunter2"), "{said}");
    let listed = said_by(softland().args(["runs", "--json", "--ledger", &url])).status(0).events();
    let requests: u64 = listed.iter().filter_map(|run| run["requests"].as_u64()).sum();
    assert_eq!(requests, 2, "nothing was lost: {listed:?}");
    server.kill();
    let gateway = Server::serve(folder.path(), &flags, &[("SOFTLAND_LEDGER", &url)]);
    assert!(answers(&gateway), "it begins without");
    gateway.signal("INT");
    let (status, said) = gateway.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("the ledger lacks records of this process"), "{said}");
}
