//! Restrictions in the forms of other programs: carried out, or refused by name.

use super::*;

/// Returns the tools that the file allows, or the first word of each error.
fn allowed(lines: &str) -> String {
    match AgentFile::parse("a.md", &with(lines)).0 {
        Ok(agent) => agent.tools.join(" "),
        Err(errors) => {
            let keys = errors.iter().map(|error| error.key.clone().unwrap_or_default());
            format!("refused: {}", keys.collect::<Vec<_>>().join(" "))
        }
    }
}

#[test]
fn no_restriction_is_dropped() {
    for (lines, wanted) in [
        ("tools: Read, Write, Bash\ndisallowedTools: Write, Bash", "read_file"),
        ("disallowedTools: [Bash, Write]\ntools: [Read, Write]", "read_file"),
        ("tools: Read\ndisallowedTools: Unheard, mcp__s__t", "read_file"),
        ("tools: Read, mcp__s__t, mcp__s__u\ndisallowedTools: mcp__s__t", "read_file mcp__s__u"),
        ("tools: Read, mcp__s\ndisallowedTools: mcp__s", "read_file"),
        ("tools: Read, mcp__s\ndisallowedTools: mcp__s__t", "refused: disallowedTools"),
        ("tools: Read, Bash\ndisallowedTools: Bash(rm:*)", "refused: disallowedTools"),
        ("tools: Read\ndisallowedTools:", "read_file"),
        ("tools: Bash(git:*)", "refused: tools"),
        ("tools: Read(./src/**), Bash(*)", "refused: tools"),
        ("tools: Read, Bash(*)", "read_file shell"),
        ("tools: Read, Bash()", "read_file shell"),
        ("tools: Agent(worker)", "refused: tools"),
        ("tools: read_file, edit_file\npermission:\n  edit: deny", "read_file"),
        ("tools: read_file, shell\npermission:\n  bash: allow\n  edit: deny", "read_file shell"),
        ("tools: read_file, shell\npermission:\n  bash: ask", "refused: permission"),
        (
            "tools: read_file, shell\npermission:\n  bash:\n    \"git *\": allow\n    \"*\": deny",
            "refused: permission",
        ),
        ("tools: read_file, shell\npermission:\n  bash:\n    \"*\": deny", "read_file"),
        ("tools: read_file, shell\npermission:\n  bash:\n    \"*\": allow", "read_file shell"),
        ("tools: read_file\npermission: deny", ""),
        ("tools: read_file\npermission: allow", "read_file"),
        ("tools: read_file\npermission: ask", "refused: permission"),
        ("tools: read_file\npermission: 3", "refused: permission"),
        ("tools:\n  write: false\n  bash: false\n  grep: false", "read_file glob list_dir"),
        ("tools:\n  \"*\": false\n  read: true", "read_file"),
        ("tools:\n  write: true\ndisallowedTools: Write", "read_file grep glob list_dir"),
        ("tools:\n  bash: true\n  todowrite: false", "read_file grep glob list_dir shell"),
        ("tools:\n  todowrite: true", "refused: tools"),
        ("tools:\n  bash: ask", "refused: tools"),
        ("tools:\n  mymcp_*: false", "read_file grep glob list_dir"),
        ("tools: Read, Edit, Bash\nreadonly: true", "read_file"),
        ("tools: Read, Edit\nreadonly: false", "read_file edit_file"),
        ("tools: read_file\npermissionMode: plan", "refused: permissionMode"),
        ("tools: read_file\npermissionMode: default", "read_file"),
        ("tools: read_file\ndisable: true", "refused: disable"),
        ("tools: read_file\ndisable: false", "read_file"),
        ("tools: read_file\ndisable:", "read_file"),
        ("tools: read_file\ndisable: 'true'", "refused: disable"),
        ("tools: read_file\ndisable: 'false'", "read_file"),
        ("tools: read_file\ndisable: perhaps", "refused: disable"),
        ("tools: Read, Edit\nreadonly: 'true'", "read_file"),
        ("tools: Read, Edit\nreadonly: 1", "refused: readonly"),
        ("tools: read_file\npermissionMode: Plan", "refused: permissionMode"),
        ("tools: read_file\npermissionMode: paln", "refused: permissionMode"),
        ("tools: read_file\npermissionMode: [plan]", "refused: permissionMode"),
        ("tools: read_file\npermissionMode: bypassPermissions", "read_file"),
    ] {
        assert_eq!(allowed(lines), wanted, "{lines}");
    }
    // Without `tools` the agent has the tools of every agent, less those.
    assert!(!allowed("disallowedTools: Read").split(' ').any(|tool| tool == "read_file"));
}

#[test]
fn c142_names_in_restrictions_are_carried_out_or_refused() {
    for (lines, wanted) in [
        ("tools: Read, Bash\ndisallowedTools: bash", "read_file"),
        ("tools: Read, Bash\ndisallowedTools: BASH", "read_file"),
        ("tools: Read, Bash\ndisallowedTools: shell", "read_file"),
        ("tools: Read, Write\ndisallowedTools: write", "read_file"),
        ("tools: Read, Write\ndisallowedTools: Wrtie", "refused: disallowedTools"),
        ("tools: Read, Write\ndisallowedTools: write_fiel", "refused: disallowedTools"),
        ("tools: Read, Write\ndisallowedTools: '*'", ""),
        ("tools: Read, Write\ndisallowedTools: 'w*'", "read_file"),
        ("tools: Read, Bash\ndisallowedTools: Bash(*)", "read_file"),
        // Tools of Claude Code that nobody has here.
        ("tools: Read\ndisallowedTools: TodoWrite, NotebookEdit, WebSearch", "read_file"),
        ("tools: Write, Edit\ndisallowedTools: edit", "write_file"),
        ("tools: Read, Write, Edit\npermission:\n  write: deny", "read_file edit_file"),
        ("tools: Read, Write, Edit\npermission:\n  patch: deny", "read_file write_file"),
        ("tools: Read, Write, Edit\npermission:\n  edit: deny", "read_file"),
        ("tools: Read, Bash\npermission:\n  Bash: deny", "read_file"),
        ("tools: Read, Bash\npermission:\n  shell: deny", "read_file"),
        ("tools: Read, Write\npermission:\n  'w*': deny", "read_file"),
        ("tools: Read, Write\npermission:\n  wriet: deny", "refused: permission"),
        (
            "tools: Read, WebFetch\nhttp_allow: [a.b]\npermission:\n  websearch: deny",
            "read_file http_get",
        ),
        // The last rule about a tool holds.
        ("tools: Read, Write\npermission:\n  '*': deny\n  read: allow", "read_file"),
        ("tools: Read, Write\npermission:\n  read: allow\n  '*': deny", ""),
        ("tools: Read, Bash\npermission:\n  '*': deny\n  bash: {'*': allow}", "shell"),
        ("tools: Read, Bash\npermission:\n  '*': deny\n  bash: {'git *': allow}", ""),
        // Of servers.
        ("tools: Read, mcp__s\npermission:\n  's_*': deny", "read_file"),
        ("tools: Read, mcp__s\npermission:\n  s_drop: deny", "refused: permission"),
        ("tools: Read, mcp__s__t\npermission:\n  'mcp__*': deny", "read_file"),
        ("tools: Read, mcp__s\ndisallowedTools: mcp__other", "read_file mcp__s"),
        // Switches.
        ("tools:\n  'bash*': false\n  bash: true", "read_file grep glob list_dir shell"),
        ("tools:\n  bash: true\n  'b*': false", "read_file grep glob list_dir"),
        ("tools:\n  Read: false\n  '?rep': false", "glob list_dir"),
        ("tools:\n  wrtie: false", "refused: tools"),
    ] {
        assert_eq!(allowed(lines), wanted, "{lines}");
    }
    let commands = |lines: &str| {
        let run = "commands:\n  deploy: {description: d, schema: {type: object}, run: echo}\n";
        AgentFile::parse("a.md", &with(&format!("{run}{lines}"))).0.unwrap().commands.len()
    };
    for (lines, left) in [
        ("tools: Read\ndisallowedTools: deploy", 0),
        ("tools: Read\npermission: deny", 0),
        ("tools: Read\ndisallowedTools: Read", 1),
    ] {
        assert_eq!(commands(lines), left, "{lines}");
    }
    let told = check(&with("disallowedTools: TodoWrite"));
    assert_eq!(told, "warning: a.md:4: disallowedTools: `TodoWrite` is no tool of the agent");
    let told = check(&with("permission: {wriet: deny}"));
    assert_eq!(told, "a.md:4: permission: unknown tool `wriet`; did you mean `write`?");
}

#[test]
fn limits_of_other_programs_are_limits() {
    let policy = |lines: &str| {
        let mut policy = Policy::default();
        AgentFile::parse("a.md", &with(lines)).0.unwrap().apply_policy(&mut policy);
        (policy.turns_limit, policy.time_limit.map(|limit| limit.0))
    };
    for key in ["maxTurns", "max_turns", "steps", "maxSteps"] {
        assert_eq!(policy(&format!("{key}: 2")), (Some(2), None), "{key}");
    }
    assert_eq!(policy("steps: 5\nmaxSteps: 3"), (Some(3), None));
    assert_eq!(policy("timeout_mins: 4"), (None, Some(240_000)));
    assert_eq!(policy("maxTurns:"), (None, None));
    assert_eq!(allowed("maxTurns: 2\nturns_limit: 3"), "refused: maxTurns");
    assert_eq!(allowed("maxTurns: few"), "refused: maxTurns");
}

#[test]
fn what_is_not_supported_is_told() {
    let told = check(&with("hooks: {a: [b]}\nisolation: worktree"));
    assert_eq!(
        told,
        "warning: a.md:4: hooks: is not supported: the agent runs without it\n\
         warning: a.md:5: isolation: is not supported: the agent runs without it"
    );
    let told = check(&with("allowed-tools: Bash(git:*)"));
    assert!(told.starts_with("warning: a.md:4: allowed-tools: restricts nothing here"), "{told}");
    let told = check(&with("maxTurns: 2"));
    let wanted = "warning: a.md:4: maxTurns: is taken as `turns_limit`, at which the run still ends in an answer";
    assert_eq!(told, wanted);
    let told = check(&with("tools: Bash(git:*)"));
    assert!(told.contains("`Bash(git:*)` allows single calls of `shell` only"), "{told}");
}
