//! The environment variables that `wrap` reads, and those that it sets for the program.
//!
//! This module reads no environment itself: the caller passes a function.

use softland_gateway::BaseUrl;

use crate::config::Env;

/// A provider, and the variables by which programs find its address.
struct ProviderVariables {
    upstream: &'static str,
    /// The variables, with sources; the first one that is set names the upstream's address.
    variables: &'static [ProgramVariable],
    /// The path that precedes those that programs append to the address.
    suffix: &'static str,
}

struct ProgramVariable {
    name: &'static str,
    /// True if the variable is set for the program even if it was not set before.
    always: bool,
    /// True if the program appends the provider's own path to the address, the suffix included.
    bare: bool,
    /// The type of provider for which the variable holds the address of this one; `None` if it
    /// always does.
    provider_type: Option<&'static str>,
}

const fn always_set(name: &'static str) -> ProgramVariable {
    ProgramVariable { name, always: true, bare: false, provider_type: None }
}

const fn if_set(name: &'static str) -> ProgramVariable {
    ProgramVariable { name, always: false, bare: false, provider_type: None }
}

/// goose's variables of hosts, behind which it appends the whole path (goose, `openai`
/// and `anthropic` of its providers).
const fn host(name: &'static str) -> ProgramVariable {
    ProgramVariable { name, always: true, bare: true, provider_type: None }
}

/// The Copilot CLI's variable for a provider of the user's own. To set it where it is not set would
/// change the provider. (docs.github.com, "Using your own LLM models in GitHub Copilot CLI")
const fn copilot(provider_type: &'static str) -> ProgramVariable {
    ProgramVariable {
        name: "COPILOT_PROVIDER_BASE_URL",
        always: false,
        bare: false,
        provider_type: Some(provider_type),
    }
}

impl ProgramVariable {
    /// Returns the value of the variable, if it holds the provider's address.
    fn read_from(&self, env: Env<'_>) -> Option<String> {
        let chosen = || {
            let name = read_variable(env, "COPILOT_PROVIDER_TYPE");
            name.unwrap_or_else(|| "openai".to_owned())
        };
        let holds = self.provider_type.is_none_or(|wanted| chosen() == wanted);
        read_variable(env, self.name).filter(|_| holds)
    }
}

/// The providers and their variables, as read in the programs on 2026-11-22.
const FOUND: [ProviderVariables; 2] = [
    // anthropic-sdk-python and -typescript, Claude Code: ANTHROPIC_BASE_URL. langchain-anthropic
    // reads ANTHROPIC_API_URL before it (chat_models.py), LiteLLM reads ANTHROPIC_API_BASE, and
    // Claude Code's file requests read CLAUDE_CODE_API_BASE_URL after it. They append /v1/messages.
    ProviderVariables {
        upstream: "anthropic",
        variables: &[
            always_set("ANTHROPIC_BASE_URL"),
            if_set("ANTHROPIC_API_URL"),
            if_set("ANTHROPIC_API_BASE"),
            if_set("CLAUDE_CODE_API_BASE_URL"),
            host("ANTHROPIC_HOST"),
            copilot("anthropic"),
        ],
        suffix: "",
    },
    // openai-python and -node: OPENAI_BASE_URL; langchain-openai, LiteLLM and aider:
    // OPENAI_API_BASE. They append /chat/completions and /responses.
    ProviderVariables {
        upstream: "openai",
        variables: &[
            always_set("OPENAI_BASE_URL"),
            always_set("OPENAI_API_BASE"),
            host("OPENAI_HOST"),
            copilot("openai"),
        ],
        suffix: "/v1",
    },
];

/// Claude Code's switches to clouds whose requests ignore the base URL, with the clouds' names
/// (code.claude.com/docs/en/env-vars, third-party integrations).
const ELSEWHERE: [(&str, &str); 6] = [
    ("CLAUDE_CODE_USE_BEDROCK", "Amazon Bedrock"),
    ("CLAUDE_CODE_USE_MANTLE", "Amazon Bedrock (Mantle)"),
    ("CLAUDE_CODE_USE_ANTHROPIC_AWS", "Claude Platform on AWS"),
    ("CLAUDE_CODE_USE_VERTEX", "Google Vertex AI"),
    ("CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD", "Google Cloud"),
    ("CLAUDE_CODE_USE_FOUNDRY", "Microsoft Foundry"),
];

/// The variables that send requests through a proxy, in lower case.
const PROXIES: [&str; 3] = ["http_proxy", "https_proxy", "all_proxy"];
/// The hosts that must not go through a proxy.
const LOOPBACK: [&str; 2] = ["127.0.0.1", "localhost"];

/// The upstreams that the environment names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EnvUpstreams {
    /// The upstreams whose address a variable names.
    pub(super) upstreams: Vec<(&'static str, BaseUrl)>,
    /// Ambiguities that the user should know of.
    pub(super) warnings: Vec<String>,
}

/// Reads the upstreams that the environment names.
///
/// # Errors
/// Returns a message for each variable that does not hold a base URL. Messages do not show the
/// value: people paste keys.
pub(super) fn read_upstreams(env: Env<'_>) -> Result<EnvUpstreams, Vec<String>> {
    let (mut named, mut problems) = (EnvUpstreams::default(), Vec::new());
    for found in &FOUND {
        let mut first: Option<(&str, BaseUrl)> = None;
        for variable in found.variables {
            let Some(text) = variable.read_from(env) else { continue };
            let name = variable.name;
            match (BaseUrl::parse(&text), &first) {
                (Err(problem), _) => problems.push(format!("the variable {name} {problem}")),
                (Ok(url), None) => first = Some((name, url)),
                (Ok(url), Some((counts, other))) if url != *other => {
                    named.warnings.push(format!(
                        "{counts} and {name} name different addresses; requests go to that of {counts}"
                    ));
                }
                (Ok(_), Some(_)) => {}
            }
        }
        if let Some((_, url)) = first {
            named.upstreams.push((found.upstream, url));
        }
    }
    if problems.is_empty() { Ok(named) } else { Err(problems) }
}

/// Returns the reason for which the program's requests would bypass the gateway, if one is known.
pub(super) fn find_bypass(env: Env<'_>) -> Option<String> {
    let on = |variable: &str| {
        read_variable(env, variable).is_some_and(|value| {
            !matches!(value.to_ascii_lowercase().as_str(), "0" | "false" | "no" | "off")
        })
    };
    let (variable, cloud) = ELSEWHERE.iter().find(|(variable, _)| on(variable))?;
    Some(format!(
        "{variable} is set, so Claude Code sends its requests directly to {cloud}, past ANTHROPIC_BASE_URL, and softland would see none of them; unset it (env -u {variable} softland wrap …) and use an API \
         key or a claude.ai login"
    ))
}

/// Returns the variables that are set for the program, for a gateway at `url` (`http://HOST:PORT`).
pub(super) fn program_variables(env: Env<'_>, url: &str) -> Vec<(String, String)> {
    let mut changed = Vec::new();
    for found in &FOUND {
        for variable in found.variables {
            if variable.always || variable.read_from(env).is_some() {
                let suffix = if variable.bare { "" } else { found.suffix };
                changed.push((variable.name.to_owned(), format!("{url}{suffix}")));
            }
        }
    }
    changed.extend(no_proxy_variables(env));
    changed
}

/// Returns `NO_PROXY` in both spellings if a proxy is set. Some programs read only one of them, and
/// most of those would send loopback requests to the proxy.
fn no_proxy_variables(env: Env<'_>) -> Vec<(String, String)> {
    let either = |name: &str| {
        read_variable(env, name).or_else(|| read_variable(env, &name.to_ascii_uppercase()))
    };
    if !PROXIES.iter().any(|name| either(name).is_some()) {
        return Vec::new();
    }
    let old = either("no_proxy").unwrap_or_default();
    let mut hosts: Vec<&str> = old.split(',').map(str::trim).filter(|h| !h.is_empty()).collect();
    if hosts.contains(&"*") {
        return Vec::new();
    }
    let missing: Vec<&str> = LOOPBACK.into_iter().filter(|host| !hosts.contains(host)).collect();
    hosts.extend(missing);
    let value = hosts.join(",");
    ["no_proxy", "NO_PROXY"].map(|name| (name.to_owned(), value.clone())).into()
}

/// Returns the value of a variable, if it is not blank.
pub(super) fn read_variable(env: Env<'_>, name: &str) -> Option<String> {
    env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an environment of these variables.
    fn with<T>(variables: &[(&str, &str)], read: impl Fn(Env<'_>) -> T) -> T {
        read(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn url(text: &str) -> BaseUrl {
        BaseUrl::parse(text).unwrap()
    }

    #[test]
    fn upstreams_are_those_that_variables_name() {
        assert_eq!(with(&[], read_upstreams), Ok(EnvUpstreams::default()));
        let variables = [
            ("ANTHROPIC_BASE_URL", " "),
            ("ANTHROPIC_API_URL", "https://corp.example/v1/"),
            ("OPENAI_API_BASE", "http://127.0.0.1:9/v1"),
        ];
        let named = with(&variables, read_upstreams).unwrap();
        let wanted =
            [("anthropic", url("https://corp.example")), ("openai", url("http://127.0.0.1:9"))];
        assert_eq!(named.upstreams, wanted);
        assert!(named.warnings.is_empty());
    }

    #[test]
    fn of_two_addresses_the_first_counts_and_that_is_said() {
        let same = [("OPENAI_BASE_URL", "http://a/v1"), ("OPENAI_API_BASE", "http://a")];
        assert!(with(&same, read_upstreams).unwrap().warnings.is_empty());
        let two = [("OPENAI_BASE_URL", "http://a"), ("OPENAI_API_BASE", "http://b")];
        let named = with(&two, read_upstreams).unwrap();
        assert_eq!(named.upstreams, [("openai", url("http://a"))]);
        assert_eq!(
            named.warnings,
            ["OPENAI_BASE_URL and OPENAI_API_BASE name different addresses; requests go \
              to that of OPENAI_BASE_URL"]
        );
    }

    #[test]
    fn what_is_no_url_is_refused_unseen() {
        for value in ["sk-ant-hunter2", "http://u:hunter2@x", "http://x?hunter2"] {
            let problems = with(&[("ANTHROPIC_BASE_URL", value)], read_upstreams).unwrap_err();
            assert!(problems.len() == 1 && problems[0].contains("ANTHROPIC_BASE_URL"));
            assert!(!problems[0].contains("hunter2"), "{problems:?}");
        }
    }

    #[test]
    fn logins_that_go_elsewhere_are_named() {
        for (variable, _) in ELSEWHERE {
            for value in ["1", "true"] {
                let said = with(&[(variable, value)], find_bypass).unwrap();
                assert!(said.contains(variable) && said.contains("past ANTHROPIC_BASE_URL"));
            }
            for value in ["", "0", "False"] {
                assert_eq!(with(&[(variable, value)], find_bypass), None);
            }
        }
        assert_eq!(with(&[("ANTHROPIC_API_KEY", "k")], find_bypass), None);
    }

    #[test]
    fn the_program_is_pointed_at_the_gateway() {
        let variables = [("ANTHROPIC_API_URL", "http://old")];
        let changed = with(&variables, |env| program_variables(env, "http://127.0.0.1:5"));
        let wanted = [
            ("ANTHROPIC_BASE_URL", "http://127.0.0.1:5"),
            ("ANTHROPIC_API_URL", "http://127.0.0.1:5"),
            ("ANTHROPIC_HOST", "http://127.0.0.1:5"),
            ("OPENAI_BASE_URL", "http://127.0.0.1:5/v1"),
            ("OPENAI_API_BASE", "http://127.0.0.1:5/v1"),
            ("OPENAI_HOST", "http://127.0.0.1:5"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(changed, wanted);
    }

    #[test]
    fn programs_that_name_a_provider_of_their_own_keep_it() {
        let name = "COPILOT_PROVIDER_BASE_URL";
        let own = (name, "http://own.example/v1");
        let typed = |provider| [own, ("COPILOT_PROVIDER_TYPE", provider)];
        for (variables, upstream, address) in [
            (&[own][..], "openai", Some("http://127.0.0.1:5/v1")),
            (&typed("openai")[..], "openai", Some("http://127.0.0.1:5/v1")),
            (&typed("anthropic")[..], "anthropic", Some("http://127.0.0.1:5")),
            (&typed("azure")[..], "", None),
            (&[][..], "", None),
        ] {
            let changed = with(variables, |env| program_variables(env, "http://127.0.0.1:5"));
            let found = changed.iter().find(|(changed, _)| changed == name);
            assert_eq!(found.map(|(_, address)| &**address), address, "{variables:?}");
            let named = with(variables, read_upstreams).unwrap().upstreams;
            let named = named.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("");
            assert_eq!(named, upstream, "{variables:?}");
        }
        let goose = [("OPENAI_HOST", "http://own.example")];
        let named = with(&goose, read_upstreams).unwrap();
        assert_eq!(named.upstreams, [("openai", url("http://own.example"))]);
    }

    #[test]
    fn loopback_goes_past_a_proxy() {
        let both = |value: &str| {
            [("no_proxy", value), ("NO_PROXY", value)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec()
        };
        for (variables, wanted) in [
            (&[][..], vec![]),
            (&[("NO_PROXY", "x")][..], vec![]),
            (&[("https_proxy", "p")][..], both("127.0.0.1,localhost")),
            (&[("HTTP_PROXY", "p"), ("NO_PROXY", "x, y")][..], both("x,y,127.0.0.1,localhost")),
            (&[("ALL_PROXY", "p"), ("no_proxy", "localhost,x")][..], both("localhost,x,127.0.0.1")),
            (&[("https_proxy", "p"), ("NO_PROXY", "*")][..], vec![]),
        ] {
            assert_eq!(with(variables, no_proxy_variables), wanted, "{variables:?}");
        }
    }
}
