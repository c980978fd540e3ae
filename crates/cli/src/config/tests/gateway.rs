use std::num::NonZeroU32;
use std::time::Duration;

use softland_gateway::{PartialBlocks, Shape, StopAfter, Tags};

use super::*;
use crate::config::gateway::LedgerSetting;

/// A config with all keys.
pub(super) const WHOLE: &str = r#"
listen = "127.0.0.1:0"
allowed_hosts = ["Gateway.example", "10.0.0.7:4141"]
allow_unmetered = true
header_policies = ["strict"]
[admin]
listen = "localhost:4143"
token_env = "ADMIN"
[clients]
tokens_env = "TOKENS"
[upstream.anthropic]
api_key_env = "KEY"
[upstream.local]
base_url = "http://127.0.0.1:11434/v1/"
[[price]]
model = "my-model"
input = 3.0
output = 15.0
[policy.default]
tool_calls_limit = 60
[policy.strict]
tool_calls_limit = 5
[[route]]
model = "claude-*"
policy = "strict"
[[route]]
model = "*"
policy = "coding"
upstream = "local"
shape = "tags"
[shape.tags]
tags = ["use_tool"]
suppress_tail_after_tools = true
stop_after_tools = "burst"
burst_ms = 300
max_tools = 4
drop_repeated_blocks = false
partial_blocks = "drop"
keepalive = "20s"
[ledger]
url = "sqlite:runs/softland.db"
content = "full"
retention = "12h"
[log]
events = "softland.ndjson"
[shared]
url = "memory:"
"#;

#[test]
fn every_key_of_the_gateway_is_read() {
    let config = Config::parse("c.toml", WHOLE).unwrap();
    let gateway = &config.gateway;
    let (listen, place) = gateway.listen.clone().unwrap();
    assert_eq!((listen.to_string().as_str(), place.as_str()), ("127.0.0.1:0", "c.toml:2: listen"));
    assert_eq!(gateway.allowed_hosts, ["gateway.example", "10.0.0.7:4141"]);
    assert!(gateway.allow_unmetered && gateway.ledger_full);
    assert_eq!(gateway.header_policies.as_deref(), Some(&["strict".to_owned()][..]));
    assert_eq!(gateway.admin_listen.unwrap().to_string(), "127.0.0.1:4143");
    assert_eq!(gateway.admin_token.as_ref().unwrap().name, "ADMIN");
    assert_eq!(gateway.client_tokens.as_ref().unwrap().name, "TOKENS");
    assert_eq!(gateway.routes.len(), 2);
    assert_eq!(gateway.routes[1].upstream.as_deref(), Some("local"));
    assert_eq!(gateway.ledger, Some(LedgerSetting::At(Path::new("runs/softland.db").into())));
    assert_eq!(gateway.events.as_deref(), Some(Path::new("softland.ndjson")));
    assert_eq!(config.upstream_names(), ["anthropic", "local", "openai"]);
    assert_eq!(gateway.routes[1].shape.as_deref(), Some("tags"));
    let shaping = &gateway.shapes["tags"];
    let shape = Shape {
        suppress_tail: true,
        stop_after: StopAfter::Burst { burst_ms: 300 },
        max_tools: NonZeroU32::new(4),
        partial: PartialBlocks::Drop,
        ..Shape::watch_only(Tags::new(["use_tool"]).unwrap())
    };
    assert_eq!(*shaping.shape, shape);
    assert_eq!(shaping.keepalive, Duration::from_secs(20));
}

#[test]
fn wrong_values_say_where_and_what_is_allowed() {
    for (text, wanted) in [
        ("listen = 4141", "c.toml:1: listen: must be an address and a port such as 127.0.0.1:4141"),
        ("listen = 'gateway:4141'", "got \"gateway:4141\""),
        ("allowed_hosts = 'a'", "c.toml:1: allowed_hosts: must be a list of host names"),
        ("allowed_hosts = ['https://a']", "c.toml:1: allowed_hosts: must be a list of host names"),
        ("allow_unmetered = 1", "c.toml:1: allow_unmetered: must be true or false, got 1"),
        (
            "[policy.x]\ntool_limits = { grep = 3, code_execution = 2 }",
            "c.toml:2: policy.x.tool_limits: the limit of `code_execution` cannot be enforced: \
             Anthropic's Messages API runs this tool itself and takes no limit for it",
        ),
        (
            "[policy.x]\ntool_limits = { web_search_call = 3 }",
            "no tool has this name: calls of it are counted as `web_search`",
        ),
        ("[tls]\ncert = 'c.pem'", "tls: needs both: cert = \"FILE\" and key = \"FILE\""),
        ("[tls]", "c.toml:1: tls: needs both: "),
        ("[tls]\ncert = 1\nkey = 'k'", "c.toml:2: tls.cert: must be "),
        ("[tls]\ncertificate = 'c'", "c.toml:2: tls.certificate: unknown key"),
        ("header_policies = 'a'", "c.toml:1: header_policies: must be a list of names of policies"),
        ("header_policies = [1]", "c.toml:1: header_policies: must be a list of names of policies"),
        (
            "header_policies = ['coding']",
            "c.toml:1: header_policies: no policy of this file is named `coding`; there is none \
             (others come from [policy.NAME])",
        ),
        (
            "header_policies = ['strict', 'lax']\n[policy.strict]",
            "no policy of this file is named `lax`; there are strict",
        ),
        ("admin = 1", "c.toml:1: admin: must be a table: [admin] with listen, token_env"),
        ("[admin]\nlisten = ':4143'", "c.toml:2: admin.listen: must be an address"),
        (
            "[admin]\ntokens_env = 'x'",
            "c.toml:2: admin.tokens_env: unknown key; did you mean `token_env`?",
        ),
        ("[admin]\ntoken_env = 'a b'", "c.toml:2: admin.token_env: must be the name of an env"),
        ("[clients]\ntokens_env = 3", "c.toml:2: clients.tokens_env: must be the name of an env"),
        ("[clients]\nx = 3", "c.toml:2: clients.x: unknown key; known are tokens_env"),
        ("[upstream.mine]", "c.toml:1: upstream.mine.base_url: is required: where the provider"),
        ("[upstream.sim]", "c.toml:1: upstream.sim.base_url: is required"),
        ("upstream = []", "c.toml:1: upstream: must be tables: [upstream.NAME]"),
        ("[route]\nmodel = 'a'", "c.toml:1: route: must be tables: [[route]]"),
        ("[[route]]\npolicy = 'coding'", "c.toml:1: route.model: is required: a model's name"),
        ("[[route]]\nmodel = ' '", "c.toml:2: route.model: must be a model's name in quotes"),
        ("[[route]]\nmodel = 'a'\nmodels = 1", "c.toml:3: route.models: unknown key; did you"),
        ("[ledger]\nurl = 'softland.db'", "c.toml:2: ledger.url: must be \"sqlite:PATH\", "),
        ("[ledger]\nurl = 'sqlite://x'", "c.toml:2: ledger.url: must be \"sqlite:PATH\", "),
        ("[ledger]\nurl = 'sqlite::memory:'", "c.toml:2: ledger.url: must be"),
        ("[ledger]\nurl = 'sqlite:'", "c.toml:2: ledger.url: must be"),
        ("[ledger]\ncontent = 'all'", "c.toml:2: ledger.content: must be \"digests\" or \"full\""),
        ("[ledger]\nretention = 30", "c.toml:2: ledger.retention: must be a time such as \"30d\""),
        ("[ledger]\nretention = '0s'", "c.toml:2: ledger.retention: must be a time"),
        ("[ledger]\nretentoin = '1d'", "c.toml:2: ledger.retentoin: unknown key; did you mean"),
        ("[log]\nevents = false", "c.toml:2: log.events: must be a file's path in quotes"),
        ("[log]\nlevel = 'x'", "c.toml:2: log.level: unknown key; known are events"),
        ("[shared]\nurl = 'disk:'", "c.toml:2: shared.url: must be \"memory:\""),
        ("[shape.t]\ntags = 'x'", "c.toml:2: shape.t.tags: must be a list of names such as"),
        ("[shape.t]\nburst_ms = -1", "c.toml:2: shape.t.burst_ms: must be a whole number, 0 or"),
        ("[shape.t]\nkeepalive = '15s'", "c.toml:1: shape.t.tags: is required: a list of names"),
        ("[shape.t]\ntags = ['a b']", "c.toml:2: shape.t.tags: must be a list of names such as"),
        ("[shape.t]\ntag = 1", "c.toml:2: shape.t.tag: unknown key; did you mean `tags`?"),
        ("[shape.t]\npartial_blocks = 'x'", "must be \"pass\" or \"drop\", got \"x\""),
        ("[shape.t]\nkeepalive = 15", "c.toml:2: shape.t.keepalive: must be a time such as"),
        ("[shape.t]\nstop_after_tools = true", "must be \"off\", \"first\" or \"burst\", got true"),
        ("shape = 1", "c.toml:1: shape: must be tables: [shape.NAME]"),
        ("listn = 'x'", "c.toml:1: listn: unknown key; did you mean `listen`?"),
    ] {
        let problems = problems(text);
        assert!(problems.len() == 1 && problems[0].contains(wanted), "{text}\n{problems:?}");
    }
}

#[test]
fn an_address_that_is_wrong_is_not_missing_too() {
    for (address, wanted) in [
        ("'ftp://x'", "c.toml:2: upstream.mine.base_url: "),
        ("3", "c.toml:2: upstream.mine.base_url: must be a URL in quotes"),
        ("'http://h/?a=b'", "c.toml:2: upstream.mine.base_url: "),
    ] {
        let problems = problems(&format!("[upstream.mine]\nbase_url = {address}"));
        assert!(problems.len() == 1 && problems[0].starts_with(wanted), "{address}\n{problems:?}");
        assert!(!problems[0].contains("is required"), "{problems:?}");
    }
}

#[test]
fn an_upstreams_name_can_stand_in_a_path() {
    let long = "x".repeat(65);
    for name in ["a b/c", "../x", "", ".", "..", "-a", "a%20b", "a?b", "käse", &*long] {
        let problems = problems(&format!("[upstream.'{name}']\nbase_url = 'http://h'"));
        let named = problems.len() == 1
            && problems[0].starts_with(&format!("c.toml:1: upstream.{name}: an upstream's name"));
        assert!(named, "{name}: {problems:?}");
    }
    for name in ["a", "7b", "my-gw_2.eu", &long[1..]] {
        let config = Config::parse("c", &format!("[upstream.'{name}']\nbase_url = 'http://h'"));
        assert!(config.is_ok_and(|config| config.find_upstream(name).is_some()), "{name}");
    }
}

#[test]
fn a_key_in_a_foreign_table_is_sent_where_it_belongs() {
    for (text, wanted) in [
        (
            "[policy.default]\nallow_unmetered = true",
            "c.toml:2: policy.default.allow_unmetered: unknown key here; `allow_unmetered` stands \
             at the top of the file, before all tables",
        ),
        (
            "[ledger]\nlisten = '127.0.0.1:0'",
            "c.toml:2: ledger.listen: unknown key here; `listen` stands at the top of the file, \
             before all tables",
        ),
        (
            "[policy.x]\nledger = 'off'",
            "c.toml:2: policy.x.ledger: unknown key here; `[ledger]` is a table of its own",
        ),
        (
            "[[route]]\nmodel = 'a'\nprice = 3",
            "c.toml:3: route.price: unknown key here; `[[price]]` is a table of its own",
        ),
        (
            "[log]\nupstream = 'a'",
            "c.toml:2: log.upstream: unknown key here; `[upstream.NAME]` is a table of its own",
        ),
    ] {
        assert_eq!(problems(text), [wanted], "{text}");
    }
}

#[test]
fn what_comes_later_is_refused_by_name_and_unseen() {
    for (text, wanted) in [
        ("[ledger]\nurl = 'postgres://u:hunter2@x'", "ledger.url: may not carry a user or a"),
        ("[ledger]\nurl = 'postgresql://u:hunter2@x'", "may not carry a user or a password"),
        ("[ledger]\nurl = 'postgres://x/b?password=hunter2'", "may not carry a user or a"),
        ("[shared]\nurl = 'redis://:hunter2@x'", "shared.url: may not carry a user or a password"),
        ("[shared]\nurl = 'postgres://x?password=hunter2'", "may not carry a user or a password"),
    ] {
        let problems = problems(text);
        assert!(problems.len() == 1 && problems[0].contains(wanted), "{text}\n{problems:?}");
        assert!(!problems[0].contains("hunter2"), "{problems:?}");
    }
}

#[test]
fn what_routes_name_must_be_there() {
    let text = "[[route]]\nmodel = 'a'\npolicy = 'strict'\nupstream = 'mine'\n[policy.other]\n";
    assert_eq!(
        problems(text),
        [
            "c.toml:3: route.policy: no policy is named `strict`; there are coding, default, \
             other, specialist (others come from [policy.NAME])",
            "c.toml:4: route.upstream: no upstream is named `mine`; there are anthropic, openai \
             (others come from [upstream.NAME])"
        ]
    );
    let text = "[[route]]\nmodel = 'a'\nshape = 'tags'\n";
    assert_eq!(
        problems(text),
        ["c.toml:3: route.shape: no shape is named `tags`; there is none (others come from \
          [shape.NAME])"]
    );
    let text = "[[route]]\nmodel = 'a'\npolicy = 'strict'\nupstream = 'openai'\n[policy.strict]\n";
    assert!(Config::parse("c.toml", text).is_ok());
}

/// Checks the example config, also with its commented keys enabled.
#[test]
fn the_config_of_the_documents_is_right_and_names_every_key() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/config.md");
    let page = std::fs::read_to_string(page).unwrap();
    let whole = page.split("## A config with every key\n").nth(1).unwrap();
    let shown = whole.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let key = |line: &&str| line.split(" = ").next().is_some_and(|key| !key.contains(' '));
    let uncommented = |line: &str| match line.strip_prefix("# ").filter(key) {
        Some(key) => format!("{key}\n"),
        None => format!("{line}\n"),
    };
    let all: String = shown.lines().map(uncommented).collect();
    for text in [shown, all.as_str()] {
        assert_eq!(Config::parse("config.md", text).err(), None);
    }
    let keys = ["tokens_env", "api_key_env", "base_url", "allowed_hosts", "allow_unmetered"];
    let more = ["content", "retention", "events", "model", "upstream", "policy", "cache_write"];
    for key in keys.iter().chain(&more).chain(&TABLES.map(|table| table)) {
        assert!(page.contains(key), "{key}");
        assert!(shown.contains(key) || *key == "shape", "{key}");
    }
    let config = Config::parse("config.md", &all).unwrap();
    assert!(config.gateway.client_tokens.is_some() && config.gateway.events.is_some());
    assert_eq!(config.gateway.routes[0].upstream.as_deref(), Some("mine"));
}
