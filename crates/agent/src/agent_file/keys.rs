//! The keys of front matter besides the policy's: softland's own keys and those of other programs.

use softland_session::core::policy::KEYS;

/// softland's own keys.
const OWN: [&str; 8] = [
    "name",
    "description",
    "tools",
    "model",
    "tool_format",
    "commands",
    "http_allow",
    "depth_limit",
];

/// Short names of models in Claude Code's files, which mean nothing elsewhere.
pub(super) const MODEL_ALIASES: [&str; 6] =
    ["sonnet", "opus", "haiku", "fable", "opusplan", "default"];

/// Keys of other programs' agent files, with the documents that define them (read 2026-11-21).
const FOREIGN: &[(&str, &[&str])] = &[
    // Claude Code, "Create custom subagents", frontmatter fields.
    (
        "Claude Code sub-agents",
        &["color", "skills", "mcpServers", "memory", "background", "effort", "initialPrompt"],
    ),
    // OpenCode, "Agents", options of Markdown agents.
    ("OpenCode agents", &["temperature", "top_p", "hidden", "disable", "prompt"]),
    // VS Code and GitHub Copilot, "Custom agents", header fields.
    (
        "Copilot custom agents",
        &[
            "target",
            "handoffs",
            "argument-hint",
            "infer",
            "mcp-servers",
            "user-invocable",
            "disable-model-invocation",
        ],
    ),
    // Gemini CLI, "Subagents", configuration schema.
    ("Gemini CLI sub-agents", &["kind", "display_name"]),
    // Agent Skills specification, frontmatter; `version` and `author` are customary there.
    ("Agent Skills", &["license", "compatibility", "metadata", "version", "author"]),
];

/// Returns true if agent files of another program have the key.
pub(super) fn is_foreign(key: &str) -> bool {
    FOREIGN.iter().any(|(_, keys)| keys.contains(&key))
}

/// Returns softland's own keys, for messages.
pub(super) fn own_keys() -> String {
    OWN.join(", ")
}

/// Returns every key that has a meaning here.
pub(super) fn known_keys() -> impl Iterator<Item = &'static str> {
    OWN.into_iter().chain(KEYS.iter().map(|key| key.name))
}
