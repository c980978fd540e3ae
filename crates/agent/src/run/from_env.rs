//! An agent on the provider that its model names, with the key from the environment.

use std::fmt;
use std::sync::Arc;

use super::Agent;
use crate::http::provider::{ProviderError, ProviderOverrides, resolve_model};
use crate::http::{HttpTransport, Timeouts, TransportError};

/// The reason why an agent has no way to its model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The provider is unknown, or its key or address is missing or wrong.
    Provider(ProviderError),
    /// No HTTP client can be created.
    Transport(TransportError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Provider(error) => error.fmt(f),
            Self::Transport(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {}

impl Agent {
    /// Creates an agent named `agent`, without tools, that asks `model` (`PROVIDER/MODEL`) over
    /// HTTP.
    ///
    /// The key, and the provider's base URL if it is set, come from the environment variables that
    /// the provider's own SDK reads, such as `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`
    /// ([`PROVIDERS`](crate::http::provider::PROVIDERS) lists them).
    ///
    /// ```no_run
    /// use softland_agent::Agent;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut agent = Agent::from_env("anthropic/claude-sonnet-5-5")?;
    /// agent.policy.tool_calls_limit = Some(30);
    /// let report = agent.run("Why is the sky blue?", &mut |_| {}).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the provider is unknown or its variables hold no key that can be used;
    /// the message names the variables.
    pub fn from_env(model: impl Into<String>) -> Result<Self, ConnectError> {
        Self::from_variables(model.into(), &|name| std::env::var(name).ok())
    }

    /// Creates the agent from these variables.
    fn from_variables(
        model: String,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConnectError> {
        let endpoint = resolve_model(&model, &ProviderOverrides::default(), env);
        let endpoint = endpoint.map_err(ConnectError::Provider)?;
        let api = endpoint.api();
        let transport = HttpTransport::new(endpoint, Timeouts::default());
        let transport = transport.map_err(ConnectError::Transport)?;
        let mut agent = Self::new("agent", model, Arc::new(transport));
        agent.options.api = api;
        Ok(agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Api;

    #[test]
    fn the_key_decides_and_the_error_names_its_variable() {
        let with = |name: &'static str| move |asked: &str| (asked == name).then(|| "k".to_owned());
        let agent = Agent::from_variables("openai/gpt-5.2".into(), &with("OPENAI_API_KEY"));
        assert_eq!(agent.map(|agent| agent.options.api).ok(), Some(Api::OpenAiResponses));
        let error = Agent::from_variables("anthropic/m".into(), &with("OPENAI_API_KEY"));
        let error = error.map(|agent| agent.name).unwrap_err().to_string();
        assert_eq!(error, "no key for `anthropic`: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN");
        let error = Agent::from_variables("gpt".into(), &|_| None).map(|agent| agent.name);
        assert!(error.unwrap_err().to_string().contains("PROVIDER/MODEL"));
    }
}
