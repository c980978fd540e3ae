use std::time::Duration;

use softland_agent::core::policy::Mode;
use softland_gateway::{BaseUrl, Settings};

use super::gateway::WHOLE;
use super::*;

pub(super) fn env(name: &str) -> Option<String> {
    Some(match name {
        "ADMIN" => "admin-hunter2".to_owned(),
        "TOKENS" => "one, two\n".to_owned(),
        "KEY" => " sk-hunter2\n".to_owned(),
        "SPLIT" => "sk-\nhunter2".to_owned(),
        "BLANK" => " ,".to_owned(),
        _ => return None,
    })
}

pub(super) fn settings(text: &str, asked: &Overrides) -> Result<Settings, Vec<String>> {
    Config::parse("c.toml", text).unwrap().resolve_settings(asked, &env)
}

fn key(name: &'static str, value: &str) -> (&'static str, PolicyValue) {
    (name, PolicyValue::Text(value.to_owned()))
}

#[test]
fn without_a_config_there_are_defaults() {
    let settings = Config::default().resolve_settings(&Overrides::default(), &env).unwrap();
    assert_eq!(settings.listen.to_string(), "127.0.0.1:4141");
    let upstreams: Vec<_> = settings
        .upstreams
        .iter()
        .map(|(name, up)| (name.as_str(), up.base_url.to_string()))
        .collect();
    assert_eq!(
        upstreams,
        [
            ("anthropic", "https://api.anthropic.com".to_owned()),
            ("openai", "https://api.openai.com".to_owned())
        ]
    );
    assert!(settings.upstreams.values().all(|upstream| upstream.key.is_none()));
    assert_eq!(settings.ledger, None, "the caller chooses the default one");
    assert_eq!(settings.retention, Some(Duration::from_secs(30 * 86_400)));
    assert!(settings.policies.is_empty() && settings.forced_policy.is_none());
    assert!(settings.keys.is_empty() && !settings.ledger_full);
}

#[test]
fn a_whole_config_is_what_the_gateway_is_told() {
    let settings = settings(WHOLE, &Overrides::default()).unwrap();
    assert_eq!(settings.keys.len(), 2);
    assert!(settings.admin.token.is_some());
    assert!(settings.upstreams["anthropic"].key.is_some());
    assert_eq!(settings.upstreams["local"].base_url.to_string(), "http://127.0.0.1:11434");
    assert_eq!(settings.policies["default"].tool_calls_limit, Some(60));
    assert!(settings.prices.find_price(None, "my-model", 0).is_some());
    assert_eq!(settings.retention, Some(Duration::from_secs(12 * 3600)));
    let shown = format!("{settings:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    let forever = "[ledger]\nurl = 'off'\nretention = 'forever'\n";
    let kept =
        Config::parse("c", forever).unwrap().resolve_settings(&Overrides::default(), &env).unwrap();
    assert_eq!((kept.retention, kept.ledger), (None, None));
}

#[test]
fn variables_that_hold_nothing_useful_are_named_with_their_places() {
    for (text, wanted) in [
        (
            "[upstream.openai]\napi_key_env = 'GONE'",
            "c.toml:2: upstream.openai.api_key_env: the variable GONE is not set; it must hold \
             the value",
        ),
        (
            "[upstream.openai]\napi_key_env = 'SPLIT'",
            "c.toml:2: upstream.openai.api_key_env: the value of SPLIT has characters that no \
             header may have (line breaks or spaces?)",
        ),
        (
            "[clients]\ntokens_env = 'BLANK'\n[upstream.own]\nbase_url = 'http://127.0.0.1:9'",
            "c.toml:2: clients.tokens_env: the variable BLANK is not set; it must hold the value",
        ),
        (
            "[admin]\ntoken_env = 'GONE'",
            "c.toml:2: admin.token_env: the variable GONE is not set; it must hold the value",
        ),
    ] {
        assert_eq!(settings(text, &Overrides::default()).unwrap_err(), [wanted], "{text}");
    }
    let all = "[upstream.openai]\napi_key_env = 'GONE'\n[upstream.anthropic]\napi_key_env = 'X'";
    assert_eq!(settings(all, &Overrides::default()).unwrap_err().len(), 2);
}

#[test]
fn c84_tokens_in_the_place_of_a_key_need_a_key() {
    let with = |text: &str| format!("[clients]\ntokens_env = 'TOKENS'\n{text}");
    let wanted = "c.toml:2: clients.tokens_env: no upstream has a key";
    for text in [
        "",
        "[upstream.anthropic]\n",
        "[upstream.openai]\nbase_url = 'https://api.openai.com/v1'\n",
        "[upstream.groq]\n",
    ] {
        let problems = settings(&with(text), &Overrides::default()).unwrap_err();
        assert!(problems.len() == 1 && problems[0].starts_with(wanted), "{text}: {problems:?}");
        assert_eq!(Config::parse("c.toml", &with(text)).unwrap().serve_problems(), problems);
    }
    // A key, or a provider that needs none, and a gateway that asks for no token.
    for text in [
        "[upstream.anthropic]\napi_key_env = 'KEY'\n",
        "[upstream.own]\nbase_url = 'http://127.0.0.1:9'\n",
        "[upstream.ollama]\n",
    ] {
        assert!(settings(&with(text), &Overrides::default()).is_ok(), "{text}");
    }
    let private = Overrides { private: true, ..Overrides::default() };
    assert!(settings(&with(""), &private).is_ok());
    let own = BaseUrl::parse("http://127.0.0.1:9").unwrap();
    let at = Overrides { upstreams: vec![("openai", own)], ..Overrides::default() };
    assert!(settings(&with(""), &at).is_ok());
}

#[test]
fn a_key_behind_an_open_door_is_refused() {
    let open = "listen = '0.0.0.0:4141'\n[upstream.openai]\napi_key_env = 'KEY'\n";
    let problems = settings(open, &Overrides::default()).unwrap_err();
    assert_eq!(
        problems,
        ["c.toml:1: listen: 0.0.0.0:4141 can be reached from other machines, and anybody there \
             could spend the key of c.toml:3: upstream.openai.api_key_env; name the tokens that \
             clients must show with [[key]] or [clients] tokens_env, keep keys in a [shared] \
             store (softland keys), or listen on 127.0.0.1"]
    );
    let config = Config::parse("c.toml", open).unwrap();
    assert_eq!(config.serve_problems(), problems[..1]);
    // A flag may open or close the gateway to other machines; tokens, or the lack of a key, make it
    // safe.
    let at = |text: &str| Overrides {
        listen: Some((text.parse().unwrap(), "--listen")),
        ..Overrides::default()
    };
    assert!(settings(open, &at("127.0.0.1:0")).is_ok());
    assert!(settings(open, &at("[::1]:0")).is_ok());
    let shut = open.replace("0.0.0.0", "127.0.0.1");
    let problems = settings(&shut, &at("[::]:1")).unwrap_err();
    assert!(problems[0].starts_with("--listen: [::]:1 can be reached"), "{problems:?}");
    assert!(
        settings(&format!("{open}[clients]\ntokens_env = 'TOKENS'\n"), &Overrides::default())
            .is_ok()
    );
    assert!(settings("listen = '0.0.0.0:4141'", &Overrides::default()).is_ok());
}

/// A shared store may have keys, so clients need one even while it has none.
#[test]
fn a_shared_store_closes_the_door() {
    let with = |shared: &str, at: &str| {
        let text = format!(
            "listen = '{at}'\n[upstream.openai]\napi_key_env = 'KEY'\n[shared]\n{shared}\n"
        );
        settings(&text, &Overrides::default())
    };
    let memory = with("url = 'memory:'", "0.0.0.0:4141").unwrap_err();
    assert!(memory[0].contains("can be reached from other machines"), "{memory:?}");
    if cfg!(feature = "redis") {
        let far = with("url = 'redis://127.0.0.1:1'", "0.0.0.0:4141").unwrap();
        assert!(far.needs_key);
        let near = with("url = 'redis://127.0.0.1:1'", "127.0.0.1:4141").unwrap();
        assert!(!near.needs_key, "on loopback only once the store has had a key");
    }
}

#[test]
fn another_address_does_not_get_the_key() {
    let text = "[upstream.anthropic]\nbase_url = 'https://a.example'\napi_key_env = 'KEY'\n";
    let asked = |url: &str| Overrides {
        upstreams: vec![("anthropic", BaseUrl::parse(url).unwrap())],
        ..Overrides::default()
    };
    let other = settings(text, &asked("https://b.example")).unwrap();
    assert_eq!(other.upstreams["anthropic"].base_url.to_string(), "https://b.example");
    assert!(other.upstreams["anthropic"].key.is_none());
    let config = Config::parse("c.toml", text).unwrap();
    assert_eq!(
        config.list_warnings(&asked("https://b.example")),
        ["c.toml:3: upstream.anthropic.api_key_env: is not used: the key belongs to \
             https://a.example, and requests go to https://b.example"]
    );
    // The same address, given twice.
    let same = settings(text, &asked("https://a.example/v1")).unwrap();
    assert!(same.upstreams["anthropic"].key.is_some());
    assert!(config.list_warnings(&asked("https://a.example/v1")).is_empty());
    // The variable of an unused key need not be set.
    let unset = text.replace("KEY", "GONE");
    assert!(settings(&unset, &asked("https://b.example")).is_ok());
}

#[test]
fn metrics_that_nobody_may_read_are_named() {
    let warned = |text: &str| {
        let config = Config::parse("c.toml", text).unwrap();
        assert!(
            config.list_warnings(&Overrides { private: true, ..Overrides::default() }).is_empty()
        );
        config.list_warnings(&Overrides::default())
    };
    let off = "listen = '0.0.0.0:4141'\n";
    for (text, says) in [
        (off, Some("[admin]: 0.0.0.0:4141 can be reached from other machines")),
        (
            "[admin]\nlisten = '10.0.0.7:4143'\n",
            Some("c.toml:2: admin.listen: 10.0.0.7:4143 can be reached from other machines"),
        ),
        ("[admin]\n", None),
        ("listen = '0.0.0.0:4141'\n[admin]\nlisten = '127.0.0.1:4143'\n", None),
        ("listen = '0.0.0.0:4141'\n[admin]\ntoken_env = 'ADMIN'\n", None),
        (WHOLE, None),
    ] {
        let warnings = warned(text);
        assert_eq!(warnings.len(), usize::from(says.is_some()), "{text}: {warnings:?}");
        let said = says.is_none_or(|says| warnings[0].starts_with(says));
        assert!(said, "{text}: {warnings:?}");
    }
}

#[test]
fn flags_hold_whichever_policy_is_picked() {
    let asked = Overrides { keys: vec![key("turns_limit", "7")], ..Overrides::default() };
    let settings = settings(WHOLE, &asked).unwrap();
    let names: Vec<_> = settings.policies.keys().map(String::as_str).collect();
    assert_eq!(names, ["coding", "default", "specialist", "strict"]);
    assert!(settings.policies.values().all(|policy| policy.turns_limit == Some(7)));
    assert_eq!(settings.policies["coding"].tool_calls_limit, Some(150));
    assert_eq!(settings.policies["strict"].tool_calls_limit, Some(5));
    assert!(settings.forced_policy.is_none());
}

#[test]
fn a_header_selects_policies_of_the_file_only() {
    let flags = Overrides { keys: vec![key("turns_limit", "7")], ..Overrides::default() };
    for (top, allowed) in [
        ("", &["default", "strict"][..]),
        ("header_policies = [\"strict\"]", &["strict"]),
        ("header_policies = []", &[]),
    ] {
        let text = WHOLE.replace("header_policies = [\"strict\"]", top);
        for asked in [&Overrides::default(), &flags] {
            assert_eq!(settings(&text, asked).unwrap().header_policies, allowed, "{top}");
        }
    }
    assert!(Config::default().resolve_settings(&flags, &env).unwrap().header_policies.is_empty());
}

#[test]
fn a_certificate_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.pem");
    let text = format!("[tls]\ncert = '{0}'\nkey = '{0}'", file.display());
    let problems = settings(&text, &Overrides::default()).unwrap_err();
    assert!(problems[0].starts_with("c.toml:2: tls.cert: ") && problems.len() == 2, "{problems:?}");
    std::fs::write(&file, "no certificate").unwrap();
    let problems = settings(&text, &Overrides::default()).unwrap_err();
    assert!(problems[0].contains("the certificate is not readable as PEM"), "{problems:?}");
    // A private gateway is on loopback, for one program that speaks no TLS to it.
    let private = Overrides { private: true, ..Overrides::default() };
    assert!(settings(&text, &private).unwrap().tls.is_none());
}

#[test]
fn comments_in_streams_can_be_left_out() {
    for (top, none) in
        [("", false), ("stream_comments = true", false), ("stream_comments = false", true)]
    {
        let text = WHOLE.replace("header_policies = [\"strict\"]", top);
        let settings = settings(&text, &Overrides::default()).unwrap();
        assert_eq!(settings.no_comments, none, "{top}");
    }
}

#[test]
fn a_policy_that_is_asked_for_is_everybodys() {
    let asked = |name: &str| Overrides {
        policy: Some(name.to_owned()),
        keys: vec![key("mode", "observe")],
        ..Overrides::default()
    };
    for (name, calls) in [("strict", 5), ("specialist", 30), ("default", 60)] {
        let settings = settings(WHOLE, &asked(name)).unwrap();
        assert_eq!(settings.forced_policy.as_deref(), Some(name));
        let policy = &settings.policies[name];
        assert_eq!((policy.tool_calls_limit, policy.mode), (Some(calls), Mode::Observe), "{name}");
    }
    let problems = settings(WHOLE, &asked("lax")).unwrap_err();
    assert!(problems[0].starts_with("no policy is named `lax`; there are default, coding"));
}

#[test]
fn a_private_gateway_has_no_pages_no_tokens_and_leaves_no_file() {
    let asked = Overrides { private: true, ..Overrides::default() };
    let settings = Config::default().resolve_settings(&asked, &env).unwrap();
    assert_eq!(settings.ledger, None);
    let whole = Config::parse("c.toml", WHOLE)
        .unwrap()
        .resolve_settings(&asked, &|name| (name == "KEY").then(|| "k".to_owned()));
    let whole = whole.unwrap();
    assert!(whole.keys.is_empty() && whole.admin.listen.is_none());
    assert!(whole.ledger.is_some() && whole.log.events.is_some());
}
