use std::collections::BTreeMap;

use super::*;

const URL: &str = "http://127.0.0.1:5";

/// Detects the client of a command, with these variables and files below `/me` and `/src/repo`.
fn of(
    command: &[&str],
    variables: &[(&str, &str)],
    files: &[(&str, &str)],
) -> Result<Client, String> {
    let mut variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    variables.entry("HOME").or_insert("/me");
    let files: BTreeMap<&Path, &str> =
        files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
    let env = |name: &str| variables.get(name).map(|value| (*value).to_owned());
    let read = |path: &Path| files.get(path).map(|text| (*text).to_owned());
    let command: Vec<OsString> = command.iter().map(Into::into).collect();
    let place = SettingsLookup { env: &env, folder: Path::new("/src/repo"), read: &read };
    detect_client(&command, place)
}

fn given(command: &[&str], variables: &[(&str, &str)], files: &[(&str, &str)]) -> LaunchOptions {
    of(command, variables, files).unwrap().launch_options(URL)
}

fn codex(variables: &[(&str, &str)], files: &[(&str, &str)]) -> Vec<String> {
    let given = given(&["/usr/bin/codex", "exec", "hi"], variables, files);
    assert!(given.variables.is_empty());
    let strings = given.arguments.into_iter().map(|one| one.into_string().unwrap());
    strings.collect()
}

fn ours(key: &str) -> [String; 4] {
    let provider = format!(
        "model_providers.softland={{name=\"softland\",base_url=\"http://127.0.0.1:5/v1\",{key}}}"
    );
    ["-c".into(), "model_provider=\"softland\"".into(), "-c".into(), provider]
}

#[test]
fn other_programs_get_nothing() {
    for command in [&["claude"][..], &["node", "codex"], &["/opt/codex/run"], &["aider"]] {
        assert_eq!(given(command, &[], &[]), LaunchOptions::default(), "{command:?}");
    }
}

#[test]
fn codex_gets_a_provider_with_the_key_that_it_would_use() {
    let auth = "/me/.codex/auth.json";
    let login = (auth, r#"{"auth_mode":"apikey","OPENAI_API_KEY":"sk-hunter2"}"#);
    let chatgpt = (auth, r#"{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"tokens":{}}"#);
    let (own, key) = (("CODEX_API_KEY", "k"), ("OPENAI_API_KEY", "k"));
    let by_login = "requires_openai_auth=true";
    for (variables, files, wanted) in [
        (&[][..], &[][..], by_login),
        (&[key], &[], "env_key=\"OPENAI_API_KEY\""),
        (&[key], &[login], by_login),
        (&[key, own], &[login], "env_key=\"CODEX_API_KEY\""),
        (&[own], &[chatgpt], "env_key=\"CODEX_API_KEY\""),
    ] {
        assert_eq!(codex(variables, files), ours(wanted), "{variables:?} {files:?}");
    }
    let refused = of(&["codex"], &[key], &[chatgpt]).unwrap_err();
    assert!(refused.contains("logged in with ChatGPT") && refused.contains("CODEX_API_KEY"));
    let elsewhere = [("CODEX_HOME", "/me/else"), key];
    assert_eq!(codex(&elsewhere, &[chatgpt]), ours("env_key=\"OPENAI_API_KEY\""));
}

#[test]
fn codexs_own_provider_keeps_all_but_its_address() {
    let text = "model_provider = \"corp\"\nopenai_base_url = \"https://eu.example/v1\"\n\
                [model_providers.corp]\nbase_url = \"https://corp.example/v1/\"\n\
                env_key = \"CORP_KEY\"\n[profiles.mine]\nmodel_provider = \"openai\"\n\
                [model_providers.far]\nbase_url = \"https://far.example/api\"\n\
                [model_providers.none]\nname = \"none\"\n";
    let files = [
        ("/me/.codex/config.toml", text),
        ("/me/.codex/other.config.toml", "model_provider = \"openai\"\n"),
    ];
    let url = |text: &str| BaseUrl::parse(text).unwrap();
    let client = of(&["codex"], &[], &files).unwrap();
    assert_eq!(client.upstreams, [("openai", url("https://corp.example"))]);
    let set = ["base_url=\"http://127.0.0.1:5/v1\"", "supports_websockets=false"]
        .map(|set| format!("model_providers.corp.{set}"));
    let wanted = set.iter().flat_map(|set| ["-c".to_owned(), set.clone()]);
    assert_eq!(codex(&[], &files), wanted.collect::<Vec<_>>());
    for arguments in [
        &["codex", "-c", "model_provider=openai"][..],
        &["codex", "--config=model_provider = \"openai\"", "exec"],
        &["codex", "--profile", "mine"],
        &["codex", "-p", "other"],
    ] {
        let client = of(arguments, &[], &files).unwrap();
        assert_eq!(client.upstreams, [("openai", url("https://eu.example"))], "{arguments:?}");
        assert_eq!(client.launch_options(URL).arguments[1], "model_provider=\"softland\"");
    }
    for (arguments, wanted) in [
        (&["codex", "-c", "model_provider=far"][..], "does not end with /v1"),
        (&["codex", "-c", "model_provider=none"], "`none` has no base_url"),
        (&["codex", "-c", "model_provider=ollama"], "`ollama` has no base_url"),
        (&["codex", "--oss"], "--oss"),
    ] {
        let refused = of(arguments, &[], &files).unwrap_err();
        assert!(refused.contains(wanted), "{refused}");
        assert!(refused.contains("nothing would be governed"), "{refused}");
    }
    assert!(of(&["codex", "exec", "--", "--oss"], &[], &[]).is_ok(), "it is the prompt");
}

#[test]
fn opencode_gets_addresses_in_its_config() {
    let both = |config: &str| {
        let mut variables = vec![];
        if !config.is_empty() {
            variables.push(("OPENCODE_CONFIG_CONTENT", config));
        }
        let given = given(&["opencode", "run"], &variables, &[]);
        assert!(given.arguments.is_empty());
        let [(name, value)] = given.variables.try_into().unwrap();
        assert_eq!(name, "OPENCODE_CONFIG_CONTENT");
        serde_json::from_str::<serde_json::Value>(&value).unwrap()
    };
    let options = serde_json::json!({"options": {"baseURL": "http://127.0.0.1:5/v1"}});
    let providers = serde_json::json!({"anthropic": options, "openai": options});
    assert_eq!(both(""), serde_json::json!({"provider": providers}));
    let kept = both(r#"{"model":"m","provider":{"openai":{"options":{"timeout":1}},"mine":{}}}"#);
    assert_eq!(kept["model"], "m");
    assert_eq!(kept["provider"]["mine"], serde_json::json!({}));
    assert_eq!(kept["provider"]["openai"]["options"]["timeout"], 1);
    assert_eq!(kept["provider"]["openai"]["options"]["baseURL"], "http://127.0.0.1:5/v1");
    let refused = of(&["opencode"], &[("OPENCODE_CONFIG_CONTENT", "{ // x\n}")], &[]).unwrap_err();
    assert!(refused.contains("no JSON object"), "{refused}");
}

#[test]
fn opencodes_own_addresses_are_not_passed_over() {
    let plain = r#"{"provider":{"anthropic":{"options":{"baseURL":"https://corp.example/v1"}}}}"#;
    let commented = r#"{ // hunter2
        "provider":{"anthropic":{"options":{"baseURL":"https://corp.example/v1"}}}}"#;
    let other = r#"{"provider":{"mine":{"options":{"baseURL":"https://mine.example/v1"}}}}"#;
    let named = [("ANTHROPIC_BASE_URL", "https://corp.example")];
    for path in [
        "/src/repo/opencode.json",
        "/src/opencode.jsonc",
        "/src/repo/.opencode/opencode.json",
        "/me/.config/opencode/opencode.json",
    ] {
        for text in [plain, commented] {
            let refused = of(&["opencode"], &[], &[(path, text)]).unwrap_err();
            assert!(refused.contains(path) && refused.contains("set ANTHROPIC_BASE_URL"));
            assert!(!refused.contains("corp.example") && !refused.contains("hunter2"));
            assert!(of(&["opencode"], &named, &[(path, text)]).is_ok());
        }
        assert!(of(&["opencode"], &[], &[(path, other)]).is_ok());
    }
    let content = [("OPENCODE_CONFIG_CONTENT", plain)];
    assert!(of(&["opencode"], &content, &[]).unwrap_err().contains("OPENCODE_CONFIG_CONTENT"));
}

#[test]
fn aiders_own_addresses_are_named() {
    for (path, text) in [
        ("/src/repo/.env", "# x\nOPENAI_API_BASE=https://hunter2.example\n"),
        ("/src/.env", "export ANTHROPIC_BASE_URL = https://hunter2.example\n"),
        ("/me/.aider.conf.yml", "model: x\nopenai-api-base: https://hunter2.example\n"),
    ] {
        let refused = of(&["aider"], &[], &[(path, text)]).unwrap_err();
        assert!(refused.contains(path) && !refused.contains("hunter2"), "{refused}");
    }
    let argument = ["aider", "--openai-api-base", "https://hunter2.example"];
    assert!(of(&argument, &[], &[]).unwrap_err().contains("the argument --openai-api-base"));
    let variable = [("AIDER_OPENAI_API_BASE", "https://hunter2.example")];
    assert!(of(&["aider"], &variable, &[]).unwrap_err().contains("AIDER_OPENAI_API_BASE"));
    let harmless = "# OPENAI_API_BASE=x\nOPENAI_API_KEY=k\nMY_OPENAI_API_BASE=x\n";
    assert!(of(&["aider"], &[], &[("/src/repo/.env", harmless)]).is_ok());
}
