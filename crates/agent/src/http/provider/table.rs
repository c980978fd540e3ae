//! The listed providers: facts, each row with its source (read 2026-11-21).

use crate::http::Api;

/// The header that carries a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `x-api-key: KEY`.
    XApiKey,
    /// `authorization: Bearer KEY`.
    Bearer,
}

/// A provider.
#[derive(Debug)]
#[non_exhaustive]
pub struct Provider {
    /// The name before the `/` of a model.
    pub name: &'static str,
    /// The default protocol.
    pub api: Api,
    /// The environment variables for the key, in order of precedence, and the header for each.
    pub keys: &'static [(&'static str, Auth)],
    /// True if the provider takes no request without a key.
    pub needs_key: bool,
    /// The environment variable that sets the base URL, if the provider's SDK has one.
    pub base_url_variable: Option<&'static str>,
    /// The default address, without `/v1`.
    pub base_url: &'static str,
    /// The default address for Anthropic Messages, if the provider speaks it.
    pub anthropic_base_url: Option<&'static str>,
}

/// All listed providers, in the order of `docs/reference/commands.md`.
pub const PROVIDERS: &[Provider] = &[
    // anthropic-sdk-python, src/anthropic/_client.py: the three variables. If both credentials are
    // set, the SDK sends both; softland sends only the key.
    Provider {
        name: "anthropic",
        api: Api::Anthropic,
        keys: &[("ANTHROPIC_API_KEY", Auth::XApiKey), ("ANTHROPIC_AUTH_TOKEN", Auth::Bearer)],
        needs_key: true,
        base_url_variable: Some("ANTHROPIC_BASE_URL"),
        base_url: "https://api.anthropic.com",
        anthropic_base_url: Some("https://api.anthropic.com"),
    },
    // openai-python, src/openai/_client.py.
    Provider {
        name: "openai",
        api: Api::OpenAiResponses,
        keys: &[("OPENAI_API_KEY", Auth::Bearer)],
        needs_key: true,
        base_url_variable: Some("OPENAI_BASE_URL"),
        base_url: "https://api.openai.com",
        anthropic_base_url: None,
    },
    // openrouter.ai/docs/quickstart; its `POST /messages` is Anthropic Messages.
    Provider {
        name: "openrouter",
        api: Api::OpenAiChat,
        keys: &[("OPENROUTER_API_KEY", Auth::Bearer)],
        needs_key: true,
        base_url_variable: None,
        base_url: "https://openrouter.ai/api",
        anthropic_base_url: Some("https://openrouter.ai/api"),
    },
    // api-docs.deepseek.com/guides/anthropic_api (no SDK of its own): the Anthropic form under
    // /anthropic, by x-api-key; the OpenAI form takes a bearer.
    Provider {
        name: "deepseek",
        api: Api::OpenAiChat,
        keys: &[("DEEPSEEK_API_KEY", Auth::XApiKey)],
        needs_key: true,
        base_url_variable: None,
        base_url: "https://api.deepseek.com",
        anthropic_base_url: Some("https://api.deepseek.com/anthropic"),
    },
    // groq-python, src/groq/_client.py; its paths begin with /openai/v1.
    Provider {
        name: "groq",
        api: Api::OpenAiChat,
        keys: &[("GROQ_API_KEY", Auth::Bearer)],
        needs_key: true,
        base_url_variable: Some("GROQ_BASE_URL"),
        base_url: "https://api.groq.com/openai",
        anthropic_base_url: None,
    },
    // docs.x.ai; xai-sdk reads XAI_API_KEY.
    Provider {
        name: "xai",
        api: Api::OpenAiChat,
        keys: &[("XAI_API_KEY", Auth::Bearer)],
        needs_key: true,
        base_url_variable: None,
        base_url: "https://api.x.ai",
        anthropic_base_url: None,
    },
    // docs.mistral.ai; mistralai reads MISTRAL_API_KEY.
    Provider {
        name: "mistral",
        api: Api::OpenAiChat,
        keys: &[("MISTRAL_API_KEY", Auth::Bearer)],
        needs_key: true,
        base_url_variable: None,
        base_url: "https://api.mistral.ai",
        anthropic_base_url: None,
    },
    // docs.ollama.com/api/anthropic-compatibility and /api/introduction: /v1/messages without a
    // key on one's own machine, by bearer at ollama.com. ollama-python reads OLLAMA_HOST.
    Provider {
        name: "ollama",
        api: Api::Anthropic,
        keys: &[("OLLAMA_API_KEY", Auth::Bearer)],
        needs_key: false,
        base_url_variable: Some("OLLAMA_HOST"),
        base_url: "http://127.0.0.1:11434",
        anthropic_base_url: Some("http://127.0.0.1:11434"),
    },
];
