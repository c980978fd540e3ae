//! Where the state is that processes share: the address of a store, and the way to it.

use std::fmt;
use std::sync::Arc;

use softland_govern::{ContentStore, KeyStore, SharedState};
use tokio::runtime::Handle;

/// The allowed addresses.
const URL: &str = "\"memory:\", \"redis://HOST:PORT\", \"rediss://HOST:PORT\" or \
    \"postgres://HOST:PORT/DATABASE\"";

/// The place of the shared state.
#[derive(Clone, PartialEq, Eq)]
pub enum SharedUrl {
    /// This process's memory.
    Memory,
    /// A Redis or Valkey at this address, which may contain a password.
    Redis(String),
    /// A PostgreSQL at this address, which may contain a password.
    Postgres(String),
}

impl fmt::Debug for SharedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory:",
            Self::Redis(_) => "redis:",
            Self::Postgres(_) => "postgres:",
        })
    }
}

impl SharedUrl {
    /// Parses an address.
    ///
    /// # Errors
    /// Returns what the address must be, or what this program lacks for it. The text does not repeat
    /// the address: it may contain a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
        if !has_usable_ports(text) {
            return Err("must have a port from 1 to 65535".to_owned());
        }
        match scheme {
            "memory" if text == "memory:" => Ok(Self::Memory),
            "redis" | "rediss" if !cfg!(feature = "redis") => {
                Err(describe_missing_feature(scheme, "redis"))
            }
            "redis" | "rediss" if text.contains("://") => Ok(Self::Redis(text.to_owned())),
            "postgres" | "postgresql" if !cfg!(feature = "postgres") => {
                Err(describe_missing_feature(scheme, "postgres"))
            }
            "postgres" | "postgresql" if text.contains("://") => {
                Ok(Self::Postgres(text.to_owned()))
            }
            _ => Err(format!("must be {URL}")),
        }
    }
}

/// Returns false if a host of an address has a port at which nothing can listen.
fn has_usable_ports(address: &str) -> bool {
    let Some((_, rest)) = address.split_once("://") else { return true };
    let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
    let hosts = hosts.split(['/', '?', '#']).next().unwrap_or_default();
    hosts.split(',').all(|host| {
        let behind_brackets = host.rsplit_once(']').map_or(host, |(_, port)| port);
        let port = behind_brackets.rsplit_once(':').map(|(_, port)| port);
        port.is_none_or(|port| port.is_empty() || port.parse::<u16>().is_ok_and(|port| port > 0))
    })
}

/// Says that this program lacks a feature, and where there is one that has it.
#[must_use]
pub fn describe_missing_feature(at: &str, feature: &str) -> String {
    format!(
        "{at}: this softland was built without the feature `{feature}`; the packages have it, and \
         so has `cargo install --locked --path crates/cli --features {feature}`"
    )
}

/// The store that processes share, by what it is used for.
#[derive(Clone, Debug)]
pub struct SharedStores {
    /// The state.
    pub state: Arc<dyn SharedState>,
    /// The keys.
    pub keys: Arc<dyn KeyStore>,
    /// What is stored of runs.
    pub content: Arc<dyn ContentStore>,
}

/// Prepares the shared state; `None` for this process's memory. A store that is away is no failure:
/// a policy's `on_store_loss` says what happens meanwhile. Has to be called within a runtime with
/// sockets and timers, on which the store works.
///
/// # Errors
/// Returns the reason if the address cannot be used.
pub fn connect_shared(url: &SharedUrl) -> Result<Option<SharedStores>, String> {
    connect(url, None)
}

/// Does the same for calls from other runtimes, which need neither sockets nor a thread: the store
/// works on `worker`.
///
/// # Errors
/// Returns the reason if the address cannot be used.
pub(crate) fn connect_through(
    url: &SharedUrl,
    worker: &Handle,
) -> Result<Option<SharedStores>, String> {
    let _context = worker.enter();
    connect(url, Some(worker))
}

#[cfg_attr(
    not(any(feature = "redis", feature = "postgres")),
    expect(unused_variables, reason = "there is no store without these features")
)]
fn connect(url: &SharedUrl, worker: Option<&Handle>) -> Result<Option<SharedStores>, String> {
    match url {
        SharedUrl::Memory => Ok(None),
        #[cfg(feature = "redis")]
        SharedUrl::Redis(url) => {
            let store = softland_redis::RedisStore::open(url);
            store.map(|store| Some(share(store, worker))).map_err(|error| error.to_string())
        }
        #[cfg(feature = "postgres")]
        SharedUrl::Postgres(url) => {
            let store = softland_postgres::PostgresStore::open(url);
            store.map(|store| Some(share(store, worker))).map_err(|error| error.to_string())
        }
        #[cfg(not(feature = "redis"))]
        SharedUrl::Redis(_) => Err(describe_missing_feature("redis", "redis")),
        #[cfg(not(feature = "postgres"))]
        SharedUrl::Postgres(_) => Err(describe_missing_feature("postgres", "postgres")),
    }
}

#[cfg(any(feature = "redis", feature = "postgres"))]
use through::share;

#[cfg(any(feature = "redis", feature = "postgres"))]
mod through {
    use std::sync::Arc;

    use async_trait::async_trait;
    use softland_remote::{Answer, RemoteState, ScriptStore};
    use tokio::runtime::Handle;

    use super::SharedStores;

    /// A store that works on another runtime than its callers'.
    #[derive(Debug)]
    struct StoreElsewhere<S> {
        store: Arc<S>,
        worker: Handle,
    }

    #[async_trait]
    impl<S: ScriptStore> ScriptStore for StoreElsewhere<S> {
        async fn run(&self, host: &str, operations: &[String]) -> Result<Vec<Answer>, String> {
            let store = Arc::clone(&self.store);
            let (host, operations) = (host.to_owned(), operations.to_vec());
            let running = self.worker.spawn(async move { store.run(&host, &operations).await });
            running.await.unwrap_or_else(|_| Err("this process ends".to_owned()))
        }
    }

    /// Makes the state and the keys of a store.
    pub(super) fn share(store: impl ScriptStore, worker: Option<&Handle>) -> SharedStores {
        let Some(worker) = worker else { return to_stores(RemoteState::new(store)) };
        let (store, worker) = (Arc::new(store), worker.clone());
        to_stores(RemoteState::new(StoreElsewhere { store, worker }))
    }

    fn to_stores<S: ScriptStore>(state: RemoteState<S>) -> SharedStores {
        let state = Arc::new(state);
        SharedStores { keys: Arc::clone(&state) as _, content: Arc::clone(&state) as _, state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_store_and_shows_no_password() {
        assert_eq!(SharedUrl::parse("memory:"), Ok(SharedUrl::Memory));
        for (text, told) in [
            ("disk:", "must be \"memory:\""),
            ("memory:x", "must be \"memory:\""),
            ("hunter2", "must be"),
        ] {
            let message = SharedUrl::parse(text).expect_err(text);
            assert!(message.contains(told) && !message.contains("hunter2"), "{message}");
        }
        for (url, feature, is_built) in [
            ("rediss://:hunter2@x:6379", "redis", cfg!(feature = "redis")),
            ("postgres://a:hunter2@x/b", "postgres", cfg!(feature = "postgres")),
            ("postgresql://a:hunter2@x", "postgres", cfg!(feature = "postgres")),
        ] {
            let parsed = SharedUrl::parse(url);
            assert!(!format!("{parsed:?}").contains("hunter2") && parsed.is_ok() == is_built);
            let told = format!("the feature `{feature}`");
            assert!(parsed.is_ok() || parsed.is_err_and(|message| message.contains(&told)));
        }
    }

    #[test]
    fn a_port_at_which_nothing_can_listen_is_told() {
        for usable in [
            "memory:",
            "redis://host",
            "redis://host:6379/0",
            "rediss://user:pa:ss/w?ord@host:1",
            "redis://[::1]:6379",
            "redis://[::1]",
            "postgres://user:word@one:5432,two/data",
            "postgres:///data?host=/run/postgresql",
        ] {
            assert!(has_usable_ports(usable), "{usable}");
        }
        for wrong in [
            "redis://host:0",
            "redis://:word@host:99999",
            "redis://[::1]:x",
            "postgres://one:5432,two:65536/data",
        ] {
            let told = SharedUrl::parse(wrong).expect_err("no port");
            assert_eq!(told, "must have a port from 1 to 65535", "{wrong}");
        }
    }
}
