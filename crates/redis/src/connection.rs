//! The connection: one script, sent by its digest, over one connection that reconnects by itself. In a
//! cluster it goes to the node that has the keys, as the node of the address says.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, ConnectionAddr, ConnectionInfo, RedisError, Script, Value};
use softland_remote::{Answer, ScriptStore};
use tokio::time::timeout;

/// The time that a call may take, also while the connection is made anew.
const CALL: Duration = Duration::from_secs(5);
/// The time for a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(1);
/// The shortest and the longest pause between two attempts to connect.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(200)];
/// The most nodes that one call is sent on to.
const REDIRECTS: usize = 3;

/// The hash tag of all keys.
const TAG: &str = "{softland}";

/// The script. Its parts share one scope, in this order.
const SCRIPT: &str = concat!(
    include_str!("lua/base.lua"),
    include_str!("lua/store.lua"),
    include_str!("lua/recall.lua"),
    include_str!("lua/runs.lua"),
    include_str!("lua/money.lua"),
    include_str!("lua/keys.lua"),
    include_str!("lua/content.lua"),
    include_str!("lua/main.lua"),
);

/// A Redis or Valkey, and the way to it.
pub struct RedisStore {
    info: ConnectionInfo,
    /// The connection to the node of the address.
    first: ConnectionManager,
    /// The node of a cluster that has the keys, if it is another one.
    other: Mutex<Option<OtherNode>>,
    script: Script,
}

/// A node that the node of the address has named.
struct OtherNode {
    address: ConnectionAddr,
    manager: ConnectionManager,
}

/// An address that cannot be used.
#[derive(Debug)]
pub struct ConnectError(String);

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConnectError {}

impl RedisStore {
    /// Prepares a connection to this address (`redis://` or `rediss://`), which is made with the
    /// first call. So a gateway starts without the store.
    ///
    /// # Errors
    /// Returns an error if the address cannot be used.
    pub fn open(url: &str) -> Result<Self, ConnectError> {
        // The connection takes the provider of the process, which may have none yet.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::open(url).map_err(|error| ConnectError(describe(&error)))?;
        let info = client.get_connection_info().clone();
        let first = prepare(client).map_err(|error| ConnectError(describe(&error)))?;
        Ok(Self { info, first, other: Mutex::new(None), script: Script::new(SCRIPT) })
    }

    /// Returns the connection to the node that has the keys, as far as it is known.
    fn current_node(&self) -> ConnectionManager {
        let other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
        other.as_ref().map_or(&self.first, |node| &node.manager).clone()
    }

    /// Goes on with the node that an answer names. Its user, password and TLS are those of the
    /// address.
    fn follow_redirect(&self, moved: &RedisError) -> Result<(), RedisError> {
        let Some(address) = read_redirect(moved, self.info.addr()) else { return Ok(()) };
        let mut other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
        if &address == self.info.addr() {
            *other = None;
        } else if other.as_ref().is_none_or(|node| node.address != address) {
            let manager = prepare(Client::open(self.info.clone().set_addr(address.clone()))?)?;
            *other = Some(OtherNode { address, manager });
        }
        Ok(())
    }

    /// Asks the node of the address again: the other one may have gone, and another taken its place.
    fn forget_redirect(&self) {
        *self.other.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Runs the script on the node that has the keys.
    async fn run_script(
        &self,
        host: &str,
        operations: &[String],
    ) -> Result<Vec<Value>, RedisError> {
        let mut invocation = self.script.key(TAG);
        invocation.arg(host);
        for operation in operations {
            invocation.arg(operation);
        }
        for _ in 0..REDIRECTS {
            match invocation.invoke_async(&mut self.current_node()).await {
                // Nothing has been run.
                Err(error) if error.code() == Some("MOVED") => self.follow_redirect(&error)?,
                answer => return answer,
            }
        }
        invocation.invoke_async(&mut self.current_node()).await
    }
}

/// Prepares a connection, which is made with the first call.
fn prepare(client: Client) -> Result<ConnectionManager, RedisError> {
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(Some(CALL))
        .set_min_delay(PAUSES[0])
        .set_max_delay(PAUSES[1]);
    ConnectionManager::new_lazy_with_config(client, config)
}

/// Returns the address of the node that an answer names. Without a host it is that of the node which
/// was asked.
fn read_redirect(moved: &RedisError, asked: &ConnectionAddr) -> Option<ConnectionAddr> {
    let (host, port) = moved.redirect_node()?.0.rsplit_once(':')?;
    let (host, port) = (host.trim_matches(['[', ']']), port.parse().ok()?);
    let named = |first: &str| if host.is_empty() { first.to_owned() } else { host.to_owned() };
    let mut address = asked.clone();
    match &mut address {
        ConnectionAddr::Tcp(host, at) | ConnectionAddr::TcpTls { host, port: at, .. } => {
            (*host, *at) = (named(host), port);
        }
        _ => return None,
    }
    Some(address)
}

#[async_trait]
impl ScriptStore for RedisStore {
    async fn run(&self, host: &str, operations: &[String]) -> Result<Vec<Answer>, String> {
        let failure = match timeout(CALL, self.run_script(host, operations)).await {
            Ok(Ok(answers)) => return Ok(answers.into_iter().map(to_answer).collect()),
            Ok(Err(error)) if error.code().is_some() => return Err(describe(&error)),
            Ok(Err(error)) => describe(&error),
            Err(_) => format!("no answer within {CALL:?}"),
        };
        self.forget_redirect();
        Err(failure)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}

/// Returns what a script has returned. It returns nothing but these.
fn to_answer(value: Value) -> Answer {
    match value {
        Value::Int(number) => Answer::Number(u64::try_from(number).unwrap_or(0)),
        Value::BulkString(bytes) => Answer::Text(String::from_utf8(bytes).unwrap_or_default()),
        Value::SimpleString(text) => Answer::Text(text),
        Value::Array(values) => Answer::List(values.into_iter().map(to_answer).collect()),
        _ => Answer::Nil,
    }
}

/// Returns an error's text without an address, which may carry a password.
fn describe(error: &RedisError) -> String {
    match error.code() {
        Some(code) => {
            let detail = error.detail().unwrap_or_default();
            format!("{} ({code} {detail})", error.category())
        }
        None if error.is_io_error() => error.to_string(),
        None => error.category().to_owned(),
    }
}
