use super::*;
use crate::tools::BY_DEFAULT;

mod foreign;
mod programs;

/// Returns the problems and warnings of `text`, one a line, warnings after `warning: `.
fn check(text: &str) -> String {
    let (result, warnings) = AgentFile::parse("a.md", text);
    let errors = result.err().unwrap_or_default();
    let errors = errors.iter().map(ToString::to_string);
    let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
    errors.chain(warnings).collect::<Vec<_>>().join("\n")
}

fn with(lines: &str) -> String {
    format!("---\nname: a\ndescription: b\n{lines}\n---\nBody\n")
}

fn parse_ok(text: &str) -> AgentFile {
    let (result, warnings) = AgentFile::parse("a.md", text);
    assert_eq!(warnings, []);
    result.unwrap()
}

#[test]
fn the_documented_example_is_read() {
    let agent = parse_ok(
        "---\n\
         name: thoughts-analyzer                    # required\n\
         description: \"Searches brainstorm notes\"   # required\n\
         tools: read_file, grep, list_dir           # list or comma-separated\n\
         model: anthropic/claude-sonnet-5-5         # or inherit\n\
         tool_calls_limit: 30\n\
         tool_format: native\n\
         ---\n\
         \n\
         You search notes.\n\
         Be brief.\n",
    );
    assert_eq!(agent.name, "thoughts-analyzer");
    assert_eq!(agent.description, "Searches brainstorm notes");
    assert_eq!(agent.tools, ["read_file", "grep", "list_dir"]);
    assert_eq!(agent.model.as_deref(), Some("anthropic/claude-sonnet-5-5"));
    assert_eq!(agent.system, "You search notes.\nBe brief.");
    let mut policy = Policy::default();
    agent.apply_policy(&mut policy);
    assert_eq!(policy, Policy { tool_calls_limit: Some(30), ..Policy::default() });
}

#[test]
fn every_way_of_writing_the_same_file_is_the_same() {
    let plain = "---\nname: a\ndescription: b\ntools: grep, glob\n---\n\nOne\n\nTwo\n";
    let wanted = parse_ok(plain);
    for other in [
        plain.replace('\n', "\r\n"),
        format!("\u{feff}{plain}"),
        plain.replace("grep, glob", "[grep, glob]"),
        plain.replace("tools: grep, glob", "tools:\n  - grep\n  - glob"),
        plain.replace("---\n\n", "---   \n"),
        plain.trim_end().to_owned(),
    ] {
        assert_eq!(parse_ok(&other), wanted, "{other:?}");
    }
}

#[test]
fn limits_are_whole_numbers_quoted_or_not() {
    for value in ["30", "\"30\"", "'30'"] {
        let mut policy = Policy::default();
        parse_ok(&with(&format!("tool_calls_limit: {value}"))).apply_policy(&mut policy);
        assert_eq!(policy.tool_calls_limit, Some(30), "{value}");
    }
    let mut policy = Policy::default();
    parse_ok(&with("tool_calls_limit: 0")).apply_policy(&mut policy);
    assert_eq!(policy.tool_calls_limit, Some(0));
    for (value, found) in [
        ("-1", "-1"),
        ("1.5", "1.5"),
        ("true", "true"),
        ("many", "\"many\""),
        ("1_000", "\"1_000\""),
        ("[1]", "a list"),
        ("1e20", "100000000000000000000"),
    ] {
        assert_eq!(
            check(&with(&format!("tool_calls_limit: {value}"))),
            format!("a.md:4: tool_calls_limit: must be a whole number, 0 or more, got {found}"),
        );
    }
}

#[test]
fn words_that_yaml_once_took_for_booleans_are_words() {
    let mut policy = Policy::default();
    parse_ok(&with("countdown: off")).apply_policy(&mut policy);
    assert_eq!(policy.countdown.word(), "off");
}

#[test]
fn errors_name_line_and_key_of_nested_values() {
    let text = with("tool_limits:\n  grep: 5\n  glob: few\nbatch: some");
    assert_eq!(
        check(&text),
        "a.md:4: tool_limits.glob: must be a whole number, 0 or more, got \"few\"\n\
         a.md:7: batch: must be first, all or none, got \"some\"",
    );
}

#[test]
fn required_keys_are_asked_for_together() {
    assert_eq!(
        check("---\n# nothing\n---\nBody"),
        "a.md:1: name: is required\na.md:1: description: is required",
    );
    assert_eq!(
        check("---\nname: ''\ndescription: 7\n---\nBody"),
        "a.md:2: name: must be text that is not empty, got \"\"\n\
         a.md:3: description: must be text that is not empty, got 7",
    );
}

#[test]
fn broken_frames_are_told_apart() {
    let begins = "a.md:1: an agent file begins with a line `---`";
    for text in ["", "Hello", "\n---\nname: a\n---\n", "--- \tx\n---\n"] {
        assert!(check(text).starts_with(begins), "{text:?}: {}", check(text));
    }
    let open = "a.md:1: the front matter is not closed: a second line `---` is missing";
    assert_eq!(check("---\nname: a\n"), open);
    assert_eq!(check("---"), open);
    assert_eq!(
        check("---\nname: a\ndescription: b\n---\n \n"),
        "warning: a.md:5: the body is empty: the agent has no system prompt",
    );
}

#[test]
fn broken_yaml_names_its_line() {
    for (text, line) in [
        ("---\nname: a\ndescription: b\nname: c\n---\nx", "a.md:4: name: is there twice"),
        (
            "---\nname: a\n\tdescription: b\n---\nx",
            "a.md:3: is indented with a tab; YAML takes spaces only",
        ),
        ("---\nname: [a\ndescription: b\n---\nx", "a.md:"),
        ("---\n- name\n---\nx", "a.md:2: the front matter is not valid YAML: "),
        ("---\njust text\n---\nx", "a.md:2: the front matter is not valid YAML: "),
        ("---\nname: a\ndescription: b\n<<: {x: 1}\n---\nx", "a.md:4: "),
    ] {
        assert!(check(text).starts_with(line), "{text:?}: {}", check(text));
    }
}

/// YAML ends a line there, so all later line numbers would be wrong. Found by fuzzing.
#[test]
fn a_carriage_return_within_a_line_is_refused_where_it_stands() {
    let wanted = "holds a carriage return in the middle of the line; lines end in LF or CRLF";
    for text in [
        "---\nname: a\r\r\ndescription: \0\n---\n",
        "---\r\nname: a\rdescription: b\r\n---\r\n",
        "---\nname: a\r\r\r\r\ndescription: b: c\ntool_limits: x\n---\n",
    ] {
        assert_eq!(check(text), format!("a.md:2: {wanted}"), "{text:?}");
    }
    assert_eq!(parse_ok("---\nname: a\ndescription: b\n---\nOne\rTwo\n").system, "One\rTwo");
}

#[test]
fn bombs_are_refused_quickly() {
    let mut text =
        String::from("---\nname: a\ndescription: b\nx0: &x0 [a, a, a, a, a, a, a, a, a]\n");
    for n in 1..12 {
        let before = format!("*x{}", n - 1);
        let nine = vec![before; 9].join(", ");
        text.push_str(&format!("x{n}: &x{n} [{nine}]\n"));
    }
    text.push_str("---\nBody");
    assert!(check(&text).contains("not valid YAML"), "{}", check(&text));
    let deep = with(&format!("x: {}{}", "[".repeat(5_000), "]".repeat(5_000)));
    assert!(check(&deep).contains("not valid YAML"));
    let big = with(&format!("x: {}", "a".repeat(MAX_BYTES)));
    assert!(check(&big).contains("larger than"));
}

#[test]
fn bytes_that_are_no_text_name_their_line() {
    let (result, _) = AgentFile::parse_bytes("a.md", b"---\nname: a\n\xff\n---\n");
    let problems = result.unwrap_err();
    assert_eq!(problems[0].to_string(), "a.md:3: is not UTF-8 text from here on; save it as UTF-8");
}

#[test]
fn keys_of_other_agents_are_silent_and_typos_are_not() {
    parse_ok(&with(
        "color: green\npermissionMode: acceptEdits\nskills: [a]\neffort: high\nmode: subagent",
    ));
    assert_eq!(
        check(&with("tool_call_limit: 3\nzzzzzzzzzz: 1")),
        "warning: a.md:4: tool_call_limit: unknown key, ignored; did you mean `tool_calls_limit`?\n\
         warning: a.md:5: zzzzzzzzzz: unknown key, ignored; known are name, description, tools, \
         model, tool_format, commands, http_allow, depth_limit, and the policy keys that `softland run --help` has as flags",
    );
}

#[test]
fn what_is_no_tool_is_refused_by_name() {
    let there =
        "there are read_file, grep, glob, list_dir, write_file, edit_file, shell, http_get, agent";
    let text = with("tools: grep, mcp__, greb\ntool_format: xml");
    assert_eq!(
        check(&text),
        format!(
            "a.md:4: tools: `mcp__`: an MCP tool is named mcp__SERVER__TOOL, all of a server \
             mcp__SERVER\n\
             a.md:4: tools: unknown tool `greb`; did you mean `grep`? T{}\n\
             a.md:5: tool_format: must be native or tags, got \"xml\"",
            there.trim_start_matches('t'),
        ),
    );
}

#[test]
fn agents_may_call_agents_so_deep() {
    let agent = parse_ok(&with("tools: agent, grep\ndepth_limit: \"2\""));
    assert_eq!((agent.tools, agent.depth_limit), (vec!["agent".into(), "grep".into()], Some(2)));
    assert_eq!(parse_ok(&with("depth_limit: ~")).depth_limit, None);
    for bad in ["-1", "1.5", "true", "deep", "17"] {
        let text = check(&with(&format!("depth_limit: {bad}")));
        assert!(
            text.starts_with("a.md:4: depth_limit: must be a whole number from 0 to 16"),
            "{text}"
        );
    }
}

#[test]
fn unknown_tools_name_the_one_that_was_meant() {
    let there = "read_file, grep, glob, list_dir, write_file, edit_file, shell, http_get, agent";
    for (given, wanted) in [
        ("zzz", format!("unknown tool `zzz`; there are {there}")),
        ("grpe", format!("unknown tool `grpe`; did you mean `grep`? There are {there}")),
        ("Golb", format!("unknown tool `Golb`; did you mean `glob`? There are {there}")),
    ] {
        assert_eq!(check(&with(&format!("tools: [{given}]"))), format!("a.md:4: tools: {wanted}"));
    }
}

#[test]
fn numbers_that_are_none_name_key_and_what_is_allowed() {
    for value in [".nan", ".inf", "-.inf"] {
        let text = check(&with(&format!("warn_at: {value}\nbatch: some")));
        assert!(text.starts_with("a.md:4: warn_at: must be a share from 0 to 1, got "), "{text}");
        assert!(text.contains("a.md:5: batch: must be"), "{text}");
    }
}

#[test]
fn nothing_leaves_the_default() {
    let mut policy = Policy::default();
    let text = with("repeat_limit: null\ncountdown:\ntool_calls_limit: ~\nreserve_time: null");
    parse_ok(&text).apply_policy(&mut policy);
    assert_eq!(policy, Policy::default());
}

#[test]
fn files_of_claude_code_are_read() {
    let (result, warnings) = AgentFile::parse(
        "a.md",
        "---\nname: reviewer\ndescription: Use when: code changed. Examples: <example>it's</example>\n\
         tools: Read, Grep\nmodel: sonnet\ncolor: blue\n---\nYou review.\n",
    );
    let agent = result.unwrap();
    assert_eq!(agent.description, "Use when: code changed. Examples: <example>it's</example>");
    assert_eq!(agent.tools, ["read_file", "grep"]);
    assert_eq!(agent.model, None);
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "a.md:3: description: taken as text to the end of the line; quote it to be valid YAML",
            "a.md:4: tools: `Read` is taken as `read_file`",
            "a.md:4: tools: `Grep` is taken as `grep`",
            "a.md:5: model: `sonnet` is an alias of another program and taken as `inherit`; write PROVIDER/MODEL",
        ],
    );
}

#[test]
fn a_limit_on_a_misspelt_tool_is_warned_of() {
    let text = with("tools: grep, read_file\ntool_limits: {grap: 3, grep: 2, search: 1}");
    assert_eq!(
        check(&text),
        "warning: a.md:5: tool_limits: the agent has no tool `grap`; did you mean `grep`?"
    );
    let one_line = with("tool_limits: {read_fil: 3}");
    assert!(check(&one_line).contains("did you mean `read_file`?"), "{}", check(&one_line));
}

#[test]
fn tools_may_be_none_or_all() {
    assert_eq!(parse_ok(&with("tools: []")).tools, [""; 0]);
    assert_eq!(parse_ok(&with("tools:")).tools, BY_DEFAULT);
    assert_eq!(parse_ok(&with("color: red")).tools, BY_DEFAULT);
    for bad in ["tools: ''", "tools: grep,,glob", "tools: 7", "tools: [7]"] {
        let text = check(&with(bad));
        assert!(text.starts_with("a.md:4: tools: must be a list of tool names"), "{bad}: {text}");
    }
}

#[test]
fn models_have_a_provider() {
    assert_eq!(parse_ok(&with("model: inherit")).model, None);
    let agent = parse_ok(&with("model: claude-opus-5-5"));
    assert_eq!(agent.model.as_deref(), Some("anthropic/claude-opus-5-5"));
    for bad in ["model: gpt", "model: /x", "model: x/", "model: 'a/b c'", "model: 4"] {
        assert!(check(&with(bad)).starts_with("a.md:4: model: must be inherit or"), "{bad}");
    }
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let problem = |path: &Path| AgentFile::load(path).0.unwrap_err()[0].to_string();
    assert!(problem(&dir.path().join("no.md")).ends_with("no.md: the file does not exist"));
    assert!(problem(dir.path()).ends_with(": is a folder; an agent file is needed"));
}

#[tokio::test]
async fn another_run_of_an_agent_has_read_no_files() {
    use crate::tool::ToolCall;
    use crate::tools::{Root, ToolResources};
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "one\n").unwrap();
    let file = parse_ok(&with("tools: read_file, edit_file"));
    let first = file.tool_set("a.md", ToolResources::new(Root::open(dir.path()).unwrap())).unwrap();
    let second = first.for_another_run();
    let call = |name: &str, input: &str| ToolCall {
        id: "t".to_owned(),
        name: name.to_owned(),
        input_raw: input.to_owned(),
    };
    let edit = call("edit_file", r#"{"path": "a.txt", "old": "one", "new": "two"}"#);
    let cancel = tokio_util::sync::CancellationToken::new();
    assert!(!first.run_call(&call("read_file", r#"{"path": "a.txt"}"#), &cancel).await.is_error);
    assert!(second.run_call(&edit, &cancel).await.is_error, "it has not read it");
    assert!(!first.run_call(&edit, &cancel).await.is_error);
}
