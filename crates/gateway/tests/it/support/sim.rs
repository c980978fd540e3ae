//! The strict simulator behind a socket, and settings with a policy.

use std::sync::Arc;

use softland_gateway::Settings;
use softland_session::core::policy::{Policy, PolicyValue};
use softland_sim::{Config, Scenario, Sim};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A simulator behind a socket.
pub(crate) struct Simulated {
    pub(crate) sim: Arc<Sim>,
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Simulated {
    /// One of the built-in scenarios.
    pub(crate) async fn playing(scenario: &str) -> Self {
        Self::of(Config::new(Scenario::from_name(scenario).expect("a scenario"))).await
    }

    pub(crate) async fn of(config: Config) -> Self {
        let sim = Arc::new(Sim::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let served = Arc::clone(&sim);
        let task = tokio::spawn(async move {
            let _ = softland_sim::serve_http(listener, served, std::future::pending()).await;
        });
        Self { sim, url, task }
    }

    /// Requests for turns that a rule refused. The simulator does not count the tokens of OpenAI's
    /// requests, which the gateway may ask for.
    pub(crate) fn refused(&self) -> u64 {
        let refusals = self.sim.stats().refusals;
        let counts =
            refusals.iter().filter(|note| note.message.contains("/v1/responses/input_tokens"));
        self.sim.refused_requests().saturating_sub(counts.count() as u64)
    }

    /// Returns the nano-dollars that it has billed.
    pub(crate) fn billed(&self) -> u64 {
        self.sim.stats().cost_nano
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Settings with one provider, and these keys as the policy of everything.
pub(crate) fn governed(url: &str, keys: &[(&str, PolicyValue)]) -> Settings {
    let mut settings = super::settings(url);
    settings.policies.insert("default".to_owned(), policy(keys));
    settings
}

/// The default policy with these keys.
pub(crate) fn policy(keys: &[(&str, PolicyValue)]) -> Policy {
    let mut policy = Policy::default();
    for (key, value) in keys {
        policy.set_key(key, value).expect("a key and its value");
    }
    policy
}

/// A value of text.
pub(crate) fn text(text: &str) -> PolicyValue {
    PolicyValue::Text(text.to_owned())
}
