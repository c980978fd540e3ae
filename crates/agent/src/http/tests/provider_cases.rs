//! The address and the key that a model gets.

use crate::http::provider::{Endpoint, PROVIDERS, ProviderError, ProviderOverrides, resolve_model};
use crate::http::{Api, Secret};

/// Returns `ADDRESS HEADER: VALUE` of a model, or the text of the error.
fn check(model: &str, api: Option<Api>, base_url: Option<&str>, env: &[(&str, &str)]) -> String {
    let look = |name: &str| {
        env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    let base_url = base_url.map(|url| (url, "--base-url"));
    shown(resolve_model(
        model,
        &ProviderOverrides { api, base_url, ..ProviderOverrides::default() },
        &look,
    ))
}

fn shown(resolved: Result<Endpoint, ProviderError>) -> String {
    match resolved {
        Ok(endpoint) => {
            let (name, value) = endpoint.credential_header().unwrap_or(("no key", String::new()));
            let url = endpoint.url_for(endpoint.api().path());
            format!("{url} {} {name}: {value}", endpoint.model())
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn anthropic_reads_the_variables_of_its_sdk_and_sends_one_credential() {
    let key = ("ANTHROPIC_API_KEY", "k");
    let token = ("ANTHROPIC_AUTH_TOKEN", "t");
    let base = ("ANTHROPIC_BASE_URL", "http://gw.example:81/v1/");
    let check = |base_url, env: &[_]| check("anthropic/m", None, base_url, env);
    let home = "https://api.anthropic.com/v1/messages m";
    assert_eq!(check(None, &[key]), format!("{home} x-api-key: k"));
    assert_eq!(check(None, &[token]), format!("{home} authorization: Bearer t"));
    assert_eq!(check(None, &[token, key]), format!("{home} x-api-key: k"));
    assert_eq!(
        check(None, &[("ANTHROPIC_API_KEY", " "), token]),
        format!("{home} authorization: Bearer t")
    );
    assert_eq!(check(None, &[key, base]), "http://gw.example:81/v1/messages m x-api-key: k");
    assert_eq!(
        check(Some("https://flag.example/a/v1"), &[key, base]),
        "https://flag.example/a/v1/messages m x-api-key: k",
    );
    assert_eq!(
        check(None, &[]),
        "no key for `anthropic`: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"
    );
    assert_eq!(check(Some("https://gw.example"), &[]), check(None, &[]));
    // On this machine, a gateway or simulator has keys of its own.
    assert_eq!(check(Some("http://localhost:1"), &[]), "http://localhost:1/v1/messages m no key: ");
    assert_eq!(check(Some("http://[::1]:1"), &[]), "http://[::1]:1/v1/messages m no key: ");
}

#[test]
fn other_providers_that_speak_the_same_api() {
    let anthropic = Some(Api::Anthropic);
    for (model, env, wanted) in [
        ("ollama/q", vec![], "http://127.0.0.1:11434/v1/messages q no key: "),
        ("ollama/q", vec![("OLLAMA_HOST", "box")], "http://box:11434/v1/messages q no key: "),
        ("ollama/q", vec![("OLLAMA_HOST", "box:99")], "http://box:99/v1/messages q no key: "),
        (
            "ollama/q",
            vec![("OLLAMA_HOST", "https://ollama.com"), ("OLLAMA_API_KEY", "k")],
            "https://ollama.com/v1/messages q authorization: Bearer k",
        ),
        (
            "openrouter/anthropic/claude-x",
            vec![("OPENROUTER_API_KEY", "k")],
            "https://openrouter.ai/api/v1/messages anthropic/claude-x authorization: Bearer k",
        ),
        (
            "deepseek/d",
            vec![("DEEPSEEK_API_KEY", "k")],
            "https://api.deepseek.com/anthropic/v1/messages d x-api-key: k",
        ),
        (
            "groq/g",
            vec![],
            "`groq` has no known address for the API `anthropic`; give one with --base-url",
        ),
    ] {
        assert_eq!(check(model, anthropic, None, &env), wanted);
    }
}

#[test]
fn no_key_goes_to_another_providers_address() {
    let env: Vec<(&str, &str)> =
        PROVIDERS.iter().flat_map(|p| p.keys).map(|(name, _)| (*name, *name)).collect();
    for provider in PROVIDERS {
        let got = check(
            &format!("{}/m", provider.name),
            Some(Api::Anthropic),
            Some("https://x.example"),
            &env,
        );
        let own = provider.keys.first().map_or("no key: ", |(name, _)| name);
        assert!(got.starts_with("https://x.example/v1/messages m ") && got.ends_with(own), "{got}");
        assert_eq!(got.matches("_KEY").count(), provider.keys.len().min(1), "{got}");
    }
    assert_eq!(
        check("mine/m", Some(Api::Anthropic), Some("https://x.example"), &env),
        "https://x.example/v1/messages m no key: ",
    );
    assert_eq!(
        check(
            "my-own/m",
            Some(Api::Anthropic),
            Some("https://x.example"),
            &[("MY_OWN_API_KEY", "k")]
        ),
        "https://x.example/v1/messages m authorization: Bearer k",
    );
}

#[test]
fn chat_completions_are_asked_for_at_each_provider_by_bearer() {
    for (model, variable, wanted) in [
        ("openai/m", "OPENAI_API_KEY", "https://api.openai.com/v1/chat/completions m"),
        (
            "openrouter/a/b",
            "OPENROUTER_API_KEY",
            "https://openrouter.ai/api/v1/chat/completions a/b",
        ),
        ("deepseek/m", "DEEPSEEK_API_KEY", "https://api.deepseek.com/v1/chat/completions m"),
        ("groq/m", "GROQ_API_KEY", "https://api.groq.com/openai/v1/chat/completions m"),
        ("xai/m", "XAI_API_KEY", "https://api.x.ai/v1/chat/completions m"),
        ("mistral/m", "MISTRAL_API_KEY", "https://api.mistral.ai/v1/chat/completions m"),
        ("ollama/m", "OLLAMA_API_KEY", "http://127.0.0.1:11434/v1/chat/completions m"),
        ("anthropic/m", "ANTHROPIC_API_KEY", "https://api.anthropic.com/v1/chat/completions m"),
    ] {
        let got = check(model, Some(Api::OpenAiChat), None, &[(variable, "k")]);
        assert_eq!(got, format!("{wanted} authorization: Bearer k"));
    }
    for model in ["openrouter/m", "deepseek/m", "groq/m", "xai/m", "mistral/m"] {
        let provider = model.strip_suffix("/m").unwrap();
        let key = format!("{}_API_KEY", provider.to_uppercase());
        assert!(check(model, None, None, &[(&key, "k")]).contains("/v1/chat/completions m"));
    }
    assert_eq!(
        check("mine/m", Some(Api::OpenAiChat), Some("http://localhost:1/v1"), &[]),
        "http://localhost:1/v1/chat/completions m no key: ",
    );
}

#[test]
fn openai_is_asked_by_responses_where_nothing_else_is_said() {
    let key = [("OPENAI_API_KEY", "k")];
    assert_eq!(
        check("openai/gpt", None, None, &key),
        "https://api.openai.com/v1/responses gpt authorization: Bearer k",
    );
}

#[test]
fn providers_of_the_caller_are_known_to_messages() {
    let given = ProviderOverrides { own: &["sim"], ..ProviderOverrides::default() };
    let error = resolve_model("sin/reader", &given, &|_| None).unwrap_err().to_string();
    assert!(error.contains("did you mean `sim`?") && error.contains("ollama, sim;"), "{error}");
}

#[test]
fn bad_models_and_addresses_say_what_is_allowed() {
    for model in ["", "claude", "/x", "anthropic/"] {
        let error = check(model, None, None, &[]);
        assert!(
            error.contains("must be written PROVIDER/MODEL") && error.contains("mistral"),
            "{error}"
        );
    }
    assert_eq!(
        check("antropic/m", None, None, &[]),
        "unknown provider `antropic`; did you mean `anthropic`? Known: anthropic, openai, openrouter, \
         deepseek, groq, xai, mistral, ollama; any other with --base-url (or [upstream.NAME] of a config) and --api",
    );
    assert!(
        check("mine/m", None, Some("http://h"), &[]).starts_with("the provider `mine` needs --api")
    );
    for (url, problem) in [
        ("nonsense", "is not a URL"),
        ("ftp://h", "must begin with http"),
        ("https://me:hunter2@h", "must not hold a user name"),
        ("https://h/?key=hunter2", "must not have a query"),
    ] {
        for error in [
            check("anthropic/m", None, Some(url), &[]),
            check("anthropic/m", None, None, &[("ANTHROPIC_BASE_URL", url)]),
        ] {
            assert!(error.contains(problem), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}

#[test]
fn keys_are_not_shown() {
    let secret = "sk-hunter2";
    let env = |name: &str| (name == "ANTHROPIC_API_KEY").then(|| format!("{secret}\n"));
    let target = resolve_model("anthropic/m", &ProviderOverrides::default(), &env).unwrap();
    assert!(!format!("{target:?} {target:#?}").contains("hunter2"));
    assert_eq!(
        format!("{} {:?}", Secret::new(secret), Secret::new(secret)),
        "[redacted] Secret([redacted])"
    );
    let env = |name: &str| (name == "ANTHROPIC_API_KEY").then(|| format!("{secret}\nx"));
    let error = resolve_model("anthropic/m", &ProviderOverrides::default(), &env).unwrap_err();
    assert_eq!(error, ProviderError::InvalidKey { variable: "ANTHROPIC_API_KEY".to_owned() });
    assert!(!error.to_string().contains("hunter2"));
}

#[test]
fn a_named_key_is_the_only_one() {
    let env = |name: &str| match name {
        "MINE" => Some("mine".to_owned()),
        "ANTHROPIC_API_KEY" | "OWN_API_KEY" => Some("other".to_owned()),
        _ => None,
    };
    let ask = |model: &str, key_variable| {
        let base_url = Some(("https://gw.example", "c.toml:2: upstream.x.base_url"));
        shown(resolve_model(
            model,
            &ProviderOverrides {
                api: Some(Api::Anthropic),
                base_url,
                key_variable,
                ..ProviderOverrides::default()
            },
            &env,
        ))
    };
    let there = "https://gw.example/v1/messages m";
    assert_eq!(ask("anthropic/m", Some("MINE")), format!("{there} x-api-key: mine"));
    assert_eq!(ask("own/m", Some("MINE")), format!("{there} authorization: Bearer mine"));
    assert_eq!(ask("own/m", None), format!("{there} authorization: Bearer other"));
    assert_eq!(ask("anthropic/m", Some("UNSET")), "no key for `anthropic`: set UNSET");
}
