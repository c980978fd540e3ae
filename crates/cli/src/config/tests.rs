use super::*;

mod budgets;
mod gateway;
mod keys;
mod reload;
mod settings;

fn problems(text: &str) -> Vec<String> {
    Config::parse("c.toml", text).unwrap_err()
}

#[test]
fn the_gateways_file_serves_here_too() {
    let text = r#"
listen = "127.0.0.1:4141"
allowed_hosts = []
allow_unmetered = false
[admin]
[clients]
[upstream.anthropic]
base_url = "https://api.anthropic.com"
[[price]]
model = "my-model"
input = 3.0
output = 15
cache_read = 0.30
cache_write = 3.75
[policy.default]
tool_calls_limit = 60
[policy.strict]
tool_calls_limit = 5
tool_limits = { grep = 2 }
countdown = "off"
[policy.coding]
turns_limit = 9
[[route]]
model = "claude-*"
[shape.tags]
tags = ["use_tool"]
[ledger]
[log]
[shared]
"#;
    let config = Config::parse("c.toml", text).unwrap();
    assert_eq!(config.find_policy("default").unwrap().tool_calls_limit, Some(60));
    let strict = config.find_policy("strict").unwrap();
    assert_eq!(strict.tool_limits.get("grep"), Some(&2));
    let coding = config.find_policy("coding").unwrap();
    assert_eq!((coding.tool_calls_limit, coding.turns_limit), (Some(150), Some(9)));
    assert!(config.find_policy("other").is_none());
    let price = Price {
        input: 3_000_000,
        output: 15_000_000,
        cache_read: 300_000,
        cache_write_5m: 3_750_000,
        cache_write_1h: 6_000_000,
    };
    for model in ["my-model", "ollama/my-model"] {
        assert_eq!(config.find_price(model), Some(price), "{model}");
    }
    assert_eq!(config.find_price("my-model-2"), None);
}

#[test]
fn a_price_that_says_less_is_never_too_low() {
    let config = Config::parse("c", "[[price]]\nmodel = 'm'\ninput = 2\noutput = 4\n").unwrap();
    let price = config.find_price("m").unwrap();
    assert_eq!(price.cache_read, price.input);
    assert_eq!((price.cache_write_5m, price.cache_write_1h), (2_500_000, 4_000_000));
}

#[test]
fn every_problem_names_file_line_and_key() {
    for (text, wanted) in [
        (
            "\n[policy.default]\ntool_call_limit = 3\n",
            "c.toml:3: policy.default.tool_call_limit: unknown key; did you mean \
             `tool_calls_limit`?",
        ),
        (
            "[policy.x]\ntool_calls_limit = -1",
            "c.toml:2: policy.x.tool_calls_limit: must be a whole number, 0 or more, got -1",
        ),
        (
            "[policy.x]\ntool_limits = { grep = 1.5 }",
            "c.toml:2: policy.x.tool_limits.grep: must be a whole number, 0 or more, got 1.5",
        ),
        (
            "[policy.x]\ntime_limit = true",
            "c.toml:2: policy.x.time_limit: must be a time such as \"30s\", \"10m\" or \
             \"1h30m\", got true",
        ),
        ("[polcy.x]\n", "c.toml:1: polcy: unknown key; did you mean `policy`?"),
        ("policy = 3", "c.toml:1: policy: must be tables: [policy.NAME]"),
        (
            "[[price]]\ninput = 1\noutput = 1",
            "c.toml:1: price.model: is required: the model's name",
        ),
        (
            "[[price]]\nmodel = 'm'\noutput = 1",
            "c.toml:1: price.input: is required: an amount of dollars per million tokens such as \
             3 or 0.25",
        ),
        (
            "[[price]]\nmodel = 'm'\ninput = -2\noutput = 1",
            "c.toml:3: price.input: must be an amount of dollars per million tokens such as 3 or \
             0.25, got -2",
        ),
        (
            "[[price]]\nmodel = 'm'\ninput = 2\noutput = 1\ncache_reads = 1",
            "c.toml:5: cache_reads: unknown key; did you mean `cache_read`?",
        ),
        (
            "[[price]]\nmodel = '*'\ninput = 2\noutput = 1\n[[price]]\nmodel = '*'\ninput = 3\noutput = 1",
            "c.toml:5: price.model: names a model that an earlier row names already",
        ),
    ] {
        assert_eq!(problems(text), [wanted], "{text}");
    }
    let syntax = problems("a = 1\n[policy\n");
    assert!(syntax.len() == 1 && syntax[0].starts_with("c.toml:2: "), "{syntax:?}");
}

#[test]
fn all_problems_are_told_at_once() {
    let text = "[policy.x]\nmode = 'fast'\nbatch = 1\n[policy.y]\nlanding = 'soft'\n";
    assert_eq!(problems(text).len(), 3);
}

#[test]
fn problems_come_in_the_order_of_their_lines() {
    let text = "[price]\nx = 1\n[policy.x]\nmode = 'fast'\nbatch = 1\n[upstream.a]\nbase = 1\n";
    let lines: Vec<String> =
        problems(text).iter().map(|p| p.split(':').nth(1).unwrap().to_owned()).collect();
    assert_eq!(lines, ["1", "4", "5", "6", "7"]);
}

#[test]
fn upstreams_are_read_and_no_value_of_theirs_is_shown() {
    let text = "[upstream.anthropic]\nbase_url = 'https://gw.example/v1'\napi_key_env = 'MINE'\n";
    let config = Config::parse("c.toml", text).unwrap();
    let upstream = config.find_upstream("anthropic").unwrap();
    let address = upstream.base_url.as_ref().unwrap();
    assert_eq!(address.text, "https://gw.example/v1");
    assert_eq!(address.place, "c.toml:2: upstream.anthropic.base_url");
    let place = "c.toml:3: upstream.anthropic.api_key_env".to_owned();
    assert_eq!(upstream.key, Some(Variable { name: "MINE".to_owned(), place }));
    assert_eq!(config.find_upstream("openai"), None);
    for (line, wanted) in [
        ("base_url = 'gw.example'", "c.toml:2: upstream.openai.base_url: is not a URL"),
        ("base_url = 'https://u:hunter2@x'", "must not hold a user name or password"),
        ("base_url = 3", "c.toml:2: upstream.openai.base_url: must be a URL in quotes"),
        (
            "api_key_env = 'sk-hunter2'",
            "c.toml:2: upstream.openai.api_key_env: must be the name of an",
        ),
        (
            "bse_url = 'hunter2'",
            "c.toml:2: upstream.openai.bse_url: unknown key; did you mean `base_url`?",
        ),
    ] {
        let problems = problems(&format!("[upstream.openai]\n{line}\n"));
        assert!(problems.len() == 1 && problems[0].contains(wanted), "{problems:?}");
        assert!(!problems[0].contains("hunter2"), "{problems:?}");
    }
}
