//! Tools that a provider runs itself, and the bounds on their uses that its API takes.

use alloc::format;
use alloc::string::String;

/// A tool that a provider runs.
struct HostedRow {
    /// The name that its calls are counted under.
    name: &'static str,
    /// The API.
    api: HostingApi,
    /// The member of a request that bounds its uses.
    bound: Option<&'static str>,
    #[cfg_attr(not(test), expect(dead_code, reason = "kept beside its row; tests read it"))]
    source: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HostingApi {
    Anthropic,
    OpenAi,
}

const fn hosted_row(
    name: &'static str,
    api: HostingApi,
    bound: Option<&'static str>,
    source: &'static str,
) -> HostedRow {
    HostedRow { name, api, bound, source }
}

use HostingApi::{Anthropic, OpenAi};

const SDK: &str = "anthropic-sdk-python@009b0353, types of tools";
const RESPONSES: &str =
    "openai-python@e43b4224, `max_tool_calls`: all built-in calls of a response";

const ROWS: [HostedRow; 11] = [
    hosted_row("web_search", Anthropic, Some("max_uses"), SDK),
    hosted_row("web_fetch", Anthropic, Some("max_uses"), SDK),
    hosted_row("code_execution", Anthropic, None, SDK),
    hosted_row("bash_code_execution", Anthropic, None, SDK),
    hosted_row("text_editor_code_execution", Anthropic, None, SDK),
    hosted_row("tool_search_tool_regex", Anthropic, None, SDK),
    hosted_row("tool_search_tool_bm25", Anthropic, None, SDK),
    hosted_row("file_search", OpenAi, Some("max_tool_calls"), RESPONSES),
    hosted_row("code_interpreter", OpenAi, Some("max_tool_calls"), RESPONSES),
    hosted_row("image_generation", OpenAi, Some("max_tool_calls"), RESPONSES),
    hosted_row("mcp", OpenAi, None, RESPONSES),
];

/// Returns the name under which calls of a provider's tool are counted. Items of the Responses API
/// have the tool's name with `_call` behind it.
#[must_use]
pub fn hosted_name(name: &str) -> &str {
    name.strip_suffix("_call").unwrap_or(name)
}

/// Returns the reason, in words, why `tool_limits` cannot hold for a tool of this name: its
/// provider runs it and the API takes no bound, or the tool has another name. Returns `None` if a
/// limit can hold.
#[must_use]
pub fn explain_unlimitable(name: &str) -> Option<String> {
    let row = ROWS.iter().find(|row| row.name == hosted_name(name))?;
    if row.name != name {
        return Some(format!("no tool has this name: calls of it are counted as `{}`", row.name));
    }
    let api = match row.api {
        Anthropic => "Anthropic's Messages API",
        OpenAi => "OpenAI's Responses API",
    };
    let why = "runs this tool itself and takes no limit for it";
    row.bound.is_none().then(|| format!("cannot be enforced: {api} {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_no_api_takes_is_named() {
        for (name, wanted) in [
            ("web_search", None),
            ("web_fetch", None),
            ("file_search", None),
            ("grep", None),
            ("function_call", None),
            ("code_execution", Some("Anthropic's Messages API runs this tool itself")),
            ("bash_code_execution", Some("Anthropic's Messages API")),
            ("mcp", Some("OpenAI's Responses API")),
            ("web_search_call", Some("counted as `web_search`")),
            ("code_interpreter_call", Some("counted as `code_interpreter`")),
        ] {
            let said = explain_unlimitable(name);
            match wanted {
                None => assert_eq!(said, None, "{name}"),
                Some(words) => assert!(said.is_some_and(|said| said.contains(words)), "{name}"),
            }
        }
        assert!(ROWS.iter().all(|row| !row.source.is_empty()));
    }
}
