//! Bad input: every error says what, where and what is allowed, and has its exit status.

use std::path::Path;

use crate::support::*;

const AGENT: &str = "---\nname: a\ndescription: d\n---\nGo.\n";

#[test]
fn agent_files_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let none = here.join("none.md").to_str().unwrap().to_owned();
    let bad =
        file(here, "bad.md", "---\nname: a\ndescription: d\ntool_calls_limit: many\n---\nGo.\n");
    let nameless = file(here, "nameless.md", "---\ndescription: d\n---\nGo.\n");
    let shell = file(here, "shell.md", "---\nname: a\ndescription: d\ntools: shell\n---\nGo.\n");
    for (path, wanted) in [
        (none.as_str(), "none.md: the file does not exist"),
        (here.to_str().unwrap(), "is a folder; an agent file is needed"),
        (&bad, "bad.md:4: tool_calls_limit: must be a whole number, 0 or more"),
        (&nameless, "nameless.md:1: name: is required"),
        (
            &shell,
            "shell.md:4: tools: `shell` runs command lines on this machine, which is not confined to --root: it needs --allow-shell",
        ),
    ] {
        let said = said(&["run", path, "hi", "--model", "sim/reader"]).status(2).says(wanted);
        assert!(said.stderr.starts_with("error: ") && said.stdout.is_empty(), "{}", said.stderr);
    }
}

#[cfg(unix)]
#[test]
fn an_unreadable_agent_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "a.md", AGENT);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&path).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    said(&["run", &path, "hi"]).status(2).says("a.md: the file may not be read");
}

#[test]
fn unknown_keys_are_warned_of_and_do_not_stop_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let text = "---\nname: a\ndescription: d\ntool_call_limit: 3\n---\nGo.\n";
    let path = file(folder.path(), "a.md", text);
    let root = folder.path().to_str().unwrap();
    said(&["run", &path, "hi", "--model", "sim/reader", "--root", root])
        .status(0)
        .says("warning: ")
        .says("a.md:4: tool_call_limit: unknown key, ignored; did you mean `tool_calls_limit`?");
}

#[test]
fn a_model_must_be_named_and_known() {
    let folder = tempfile::tempdir().unwrap();
    let agent = file(folder.path(), "a.md", AGENT);
    said(&["run", &agent, "hi"]).status(2).says("no model: give one with --model").says("a.md");
    for (model, wanted) in [
        ("reader", "the model `reader` must be written PROVIDER/MODEL"),
        ("sim/raeder", "unknown scenario `raeder`; there are: reader, "),
        ("nowhere/x", "unknown provider `nowhere`"),
        ("anthropic/x", "no key for `anthropic`: set ANTHROPIC_API_KEY"),
        ("openai/gpt-5", "no key for `openai`: set OPENAI_API_KEY"),
    ] {
        said(&["run", &agent, "hi", "--model", model]).status(2).says(wanted);
    }
    said(&["run", &agent, "hi", "--model", "anthropic/x", "--base-url", "ftp://x"])
        .status(2)
        .says("the base URL of --base-url must begin with http:// or https://");
}

#[test]
fn a_root_must_be_a_folder() {
    let none = "/nonexistent-root-of-a-test";
    said_by(softland().arg("run").arg(analyst()).args(["hi", "--root", none]))
        .status(2)
        .says(&format!("--root: the folder `{none}` does not exist"));
    said_by(softland().arg("run").arg(analyst()).arg("hi").arg("--root").arg(analyst()))
        .status(2)
        .says("is not a folder");
}

#[test]
fn a_prompt_must_say_something() {
    run("", &[]).status(2).says("the prompt is empty: say what to do");
    // Standard input is empty, and no terminal.
    said_by(softland().arg("run").arg(analyst())).status(2).says("standard input is empty");
}

#[test]
fn configs_and_policies() {
    let folder = tempfile::tempdir().unwrap();
    let bad = file(folder.path(), "bad.toml", "[policy.default]\ntool_call_limit = 3\n");
    run("hi", &["--config", &bad]).status(2).says(
        "bad.toml:2: policy.default.tool_call_limit: unknown key; did you mean `tool_calls_limit`?",
    );
    run("hi", &["--config", "/none.toml"]).status(2).says("/none.toml: the file does not exist");
    run("hi", &["--policy", "strict"])
        .status(2)
        .says("no policy is named `strict`; there are default, coding, specialist");
    run("hi", &["--tool-calls-limit", "1.5"])
        .status(2)
        .says("--tool-calls-limit must be a whole number, 0 or more, got \"1.5\"");
}

/// A budget of a gateway is not the account at the provider.
#[test]
fn a_402_of_softland_is_told_from_one_of_the_provider() {
    let credit = "the provider's account has no credit left";
    Provider::refusing(402, "billing_error").asked().status(4).says(credit);
    let budget = "softland: the budget of acme ($5 a day) has no room for a further request";
    let said = Provider::refusing_with(402, "billing_error", budget).asked().status(4).says(budget);
    assert!(!said.stderr.contains(credit), "{}", said.stderr);
}

#[test]
fn the_configs_upstream_is_where_the_key_goes() {
    let folder = tempfile::tempdir().unwrap();
    let right = Provider::refusing(404, "not_found_error");
    let wrong = Provider::refusing(402, "billing_error");
    let text = |url: &str| format!("[upstream.anthropic]\nbase_url = '{url}'\n");
    let config = file(folder.path(), "c.toml", &text(&right.url));
    let ask = |flags: &[&str]| {
        let mut command = softland();
        command.env("ANTHROPIC_API_KEY", SECRET).env("ANTHROPIC_BASE_URL", &wrong.url);
        command.arg("run").arg(analyst()).args(["hi", "--model", "anthropic/x"]).args(flags);
        said_by(&mut command).status(4)
    };
    ask(&["--config", &config]).says(&format!("anthropic at {}: not_found_error", right.url));
    let config = file(folder.path(), "d.toml", &text(&wrong.url));
    ask(&["--config", &config, "--base-url", &right.url]).says(&right.url);
    let bad = file(folder.path(), "e.toml", &text("gw.example"));
    run("hi", &["--config", &bad]).status(2).says("e.toml:2: upstream.anthropic.base_url: is not");
}

#[test]
fn a_config_may_name_the_variable_of_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Provider::refusing(404, "not_found_error");
    let text = format!("[upstream.own]\nbase_url = '{}'\napi_key_env = 'MINE'\n", provider.url);
    let config = file(folder.path(), "c.toml", &text);
    let ask = |key: Option<&str>| {
        let mut command = softland();
        command.envs(key.map(|key| ("MINE", key))).arg("run").arg(analyst());
        command.args(["hi", "--model", "own/m", "--api", "anthropic", "--config", &config]);
        said_by(&mut command)
    };
    ask(None).status(2).says("no key for `own`: set MINE");
    ask(Some("k")).status(4).says(&provider.url);
}

#[test]
fn a_money_limit_needs_a_price() {
    let provider = Provider::refusing(500, "api_error");
    let said = said_by(
        softland()
            .arg("run")
            .arg(analyst())
            .args(["hi", "--model", "ollama/some-model", "--base-url", &provider.url])
            .args(["--cost-limit-usd", "1"]),
    );
    said.status(2).says("the price of `ollama/some-model` is not known").says("[[price]]");
}

#[test]
fn wrong_flags_of_a_notebook_and_files_of_servers() {
    said(&["notebook"]).status(2).says("<FILE.ipynb>");
    said(&["notebook", "n.ipynb"]).status(2).says("no model: give one with --model");
    said(&["notebook", "n.ipynb", "--listen", "here"]).status(2).says("--listen must be");
    run("hi", &["--mcp=f"]).status(2).says("f: the file cannot be read");
}

#[test]
fn refusals_of_a_provider() {
    for (status, kind, wanted) in [
        (
            401,
            "authentication_error",
            "is the key in ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN right?",
        ),
        (404, "not_found_error", "is the model's name right"),
        (413, "request_too_large", "too large for the provider"),
        (429, "rate_limit_error", "rate limit"),
        (529, "overloaded_error", "try again later"),
    ] {
        let provider = Provider::refusing(status, kind);
        let said = provider.asked().status(4).says(wanted);
        let place = format!("error: anthropic at {}: {kind} (HTTP {status})", provider.url);
        let said = said
            .says(&place)
            .says("as the test wants it")
            .says("failed: the provider gave no answer");
        assert!(said.stdout.is_empty());
    }
}

#[test]
fn the_last_event_explains_a_refusal_too() {
    let provider = Provider::refusing(404, "not_found_error");
    let said = said_by(
        softland()
            .arg("run")
            .arg(analyst())
            .args(["hi", "--format", "json", "--model", "anthropic/nope"])
            .args(["--base-url", &provider.url]),
    )
    .status(4);
    let events = said.events();
    let message = events.last().unwrap()["message"].as_str().unwrap();
    assert!(message.contains(&provider.url) && message.contains("is the model's name right"));
    assert!(said.stderr.is_empty());
}

#[test]
fn nobody_listens() {
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let provider = Provider { url };
    provider.asked().status(4).says(&format!("{} refused the connection", provider.url));
}

#[test]
fn a_proxy_that_refuses_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = listener.local_addr().unwrap();
    drop(listener);
    let mut command = softland();
    command.env("HTTP_PROXY", format!("http://someone:{SECRET}@{proxy}"));
    command.env("ANTHROPIC_API_KEY", "k").arg("run").arg(analyst());
    command.args(["hi", "--model", "anthropic/x", "--base-url", "http://gw.example"]);
    let said = said_by(&mut command).status(4);
    let said = said.says("http://gw.example").says(&format!("http://{proxy} (HTTP_PROXY)"));
    assert!(!said.stderr.contains(SECRET), "{}", said.stderr);
}

#[test]
fn an_address_without_tls() {
    let plain = Provider::rash("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    let provider = Provider { url: plain.url.replace("http://", "https://") };
    let said = provider.asked();
    if said.stderr.contains("root certificate") {
        println!("skipped: this system has no root certificates to check with");
        return;
    }
    said.status(4).says("no secure connection to https://127.0.0.1");
}

#[test]
fn what_comes_back_is_no_stream() {
    for (kind, body) in [
        ("text/event-stream", "event: message_start\ndata: {not json}\n\n"),
        ("text/event-stream", "<html><body>Welcome to the captive portal</body></html>"),
        ("text/html", "<html><body>Welcome to the captive portal</body></html>"),
        ("application/json", "{\"hello\": \"world\"}"),
        ("text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n"),
        ("application/json", "{\"choices\":[{\"message\":{\"content\":\"hi\"}}]}"),
        ("application/octet-stream", "\u{1}\u{2}\u{3}"),
        ("text/event-stream", ""),
        ("application/json", ""),
    ] {
        let provider = Provider::raw(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ));
        let said = provider.asked().status(4).says("error: ");
        let said = said.says(&provider.url).says("base URL");
        assert!(said.stdout.is_empty(), "{kind} {body}");
        assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
    }
}

#[test]
fn what_answers_speaks_no_http() {
    let provider = Provider::raw("SSH-2.0-OpenSSH_9.6\r\n");
    provider.asked().status(4).says("broke").says(&provider.url).says("is the base URL right?");
}

#[test]
fn a_stream_without_a_byte() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 0\r\n\r\n";
    Provider::raw(head).asked().status(4).says("error: ");
}

#[test]
fn a_stream_that_is_cut_is_no_answer() {
    let start = r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}"#;
    let block =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Half an ans"}}"#;
    let mut body = String::new();
    for (event, data) in
        [("message_start", start), ("content_block_start", block), ("content_block_delta", delta)]
    {
        body.push_str(&format!("event: {event}\ndata: {data}\n\n"));
    }
    // The announced length is longer than the body.
    let provider = Provider::raw(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n{body}"
    ));
    let said = provider.asked().status(4).says("error: ").says(&provider.url).says("try again");
    let said = said.says("Half an ans").says("the text above is partial, not an answer");
    assert!(said.stdout.is_empty(), "{}", said.stdout);
}

#[test]
fn an_error_in_the_middle_of_a_stream_names_the_place() {
    let start = r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}"#;
    let error = r#"{"type":"error","error":{"type":"invalid_request_error","message":"no more"}}"#;
    let body = format!("event: message_start\ndata: {start}\n\nevent: error\ndata: {error}\n\n");
    let provider = Provider::raw(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ));
    provider.asked().status(4).says(&format!("anthropic at {}: ", provider.url)).says("no more");
}

#[test]
fn escapes_in_files_and_names_reach_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let evil = "price \u{1b}[2J\u{1b}]0;owned\u{7}\n";
    file(folder.path(), "evil.md", evil);
    let agent = analyst();
    let said =
        said_by(softland().arg("run").arg(agent).args(["the price?", "--root"]).arg(folder.path()))
            .status(0);
    assert!(!said.stderr.contains('\u{1b}') && said.stderr.contains("␛[2J"), "{}", said.stderr);
    let missing = Path::new("no\u{1b}[2Jfile.md");
    let said = said_by(softland().arg("run").arg(missing).arg("hi")).status(2);
    assert!(!said.stderr.contains('\u{1b}'), "{}", said.stderr);
}
