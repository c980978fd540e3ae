//! The hosts of providers, and the paths at which they serve what is governed.

use softland_session::wire::Api;

/// The hosts that are governed unless a program says otherwise: those of the vendors whose SDKs
/// speak one of the governed protocols. Each is the host of the vendor's base URL.
pub const PROVIDER_HOSTS: [&str; 12] = [
    // anthropic-sdk-python, src/anthropic/_client.py
    "api.anthropic.com",
    // openai-python, src/openai/_client.py, and the regional hosts of platform.openai.com/docs
    "api.openai.com",
    "us.api.openai.com",
    "eu.api.openai.com",
    // openrouter.ai/docs/quickstart
    "openrouter.ai",
    // api-docs.deepseek.com
    "api.deepseek.com",
    // console.groq.com/docs/openai
    "api.groq.com",
    // docs.x.ai
    "api.x.ai",
    // docs.mistral.ai
    "api.mistral.ai",
    // docs.together.ai, docs.fireworks.ai, inference-docs.cerebras.ai
    "api.together.xyz",
    "api.fireworks.ai",
    "api.cerebras.ai",
];

/// The suffixes of hosts that a vendor gives to each of its customers
/// (learn.microsoft.com/azure/ai-services/openai).
const CUSTOMER_HOSTS: [&str; 2] = [".openai.azure.com", ".services.ai.azure.com"];

/// Returns true for the host of a known provider. Hosts are compared without their case.
#[must_use]
pub fn is_provider_host(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    PROVIDER_HOSTS.contains(&host.as_str())
        || CUSTOMER_HOSTS.iter().any(|suffix| host.ends_with(suffix))
}

/// An endpoint that is governed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// One turn of a conversation.
    Turn(Api),
    /// A token count of Anthropic's API.
    Count,
}

impl Endpoint {
    /// Returns the API.
    #[must_use]
    pub fn api(self) -> Api {
        match self {
            Self::Turn(api) => api,
            Self::Count => Api::Anthropic,
        }
    }

    /// Returns the path of the endpoint from `/v1/` on.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Turn(Api::Anthropic) => "/v1/messages",
            Self::Turn(Api::Chat) => "/v1/chat/completions",
            Self::Turn(Api::Responses) => "/v1/responses",
            Self::Count => "/v1/messages/count_tokens",
        }
    }
}

/// The ends of paths that are governed. A base URL may have any path in front, with or without
/// `/v1`; Anthropic's paths are too short to be told without it.
const PATHS: [(&str, Endpoint); 4] = [
    ("/v1/messages", Endpoint::Turn(Api::Anthropic)),
    ("/v1/messages/count_tokens", Endpoint::Count),
    ("/chat/completions", Endpoint::Turn(Api::Chat)),
    ("/responses", Endpoint::Turn(Api::Responses)),
];

/// Returns the endpoint that a POST to this path asks; `None` if it is not governed.
#[must_use]
pub fn find_endpoint(path: &str) -> Option<Endpoint> {
    PATHS.iter().find(|(end, _)| path.ends_with(end)).map(|(_, endpoint)| *endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_known_whatever_their_case() {
        for (host, known) in [
            ("api.anthropic.com", true),
            ("API.OpenAI.com", true),
            ("my-team.openai.azure.com", true),
            ("openai.azure.com.example.org", false),
            ("api.anthropic.com.example.org", false),
            ("localhost", false),
        ] {
            assert_eq!(is_provider_host(host), known, "{host}");
        }
    }

    #[test]
    fn paths_are_known_by_their_end() {
        for (path, endpoint) in [
            ("/v1/messages", Some("/v1/messages")),
            ("/anthropic/v1/messages", Some("/v1/messages")),
            ("/v1/messages/count_tokens", Some("/v1/messages/count_tokens")),
            ("/v1/messages/batches", None),
            ("/openai/v1/chat/completions", Some("/v1/chat/completions")),
            ("/openai/deployments/x/chat/completions", Some("/v1/chat/completions")),
            ("/v1/responses", Some("/v1/responses")),
            ("/v1/responses/resp_1/cancel", None),
            ("/v1/embeddings", None),
            ("/messages", None),
        ] {
            assert_eq!(find_endpoint(path).map(Endpoint::path), endpoint, "{path}");
        }
    }
}
