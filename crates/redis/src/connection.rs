//! The connection: one script, sent by its digest, over one connection that reconnects by itself.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Script, Value};
use softland_remote::{Answer, ScriptStore};
use tokio::time::timeout;

/// The time that a call may take, also while the connection is made anew.
const CALL: Duration = Duration::from_secs(5);
/// The time for a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(1);
/// The shortest and the longest pause between two attempts to connect.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(200)];

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
    include_str!("lua/main.lua"),
);

/// A Redis or Valkey, and the way to it.
pub struct RedisStore {
    manager: ConnectionManager,
    script: Script,
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
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(CALL))
            .set_min_delay(PAUSES[0])
            .set_max_delay(PAUSES[1]);
        let manager = ConnectionManager::new_lazy_with_config(client, config)
            .map_err(|error| ConnectError(describe(&error)))?;
        Ok(Self { manager, script: Script::new(SCRIPT) })
    }
}

#[async_trait]
impl ScriptStore for RedisStore {
    async fn run(&self, host: &str, operations: &[String]) -> Result<Vec<Answer>, String> {
        let mut invocation = self.script.key(TAG);
        invocation.arg(host);
        for operation in operations {
            invocation.arg(operation);
        }
        let mut manager = self.manager.clone();
        let answers = timeout(CALL, invocation.invoke_async::<Vec<Value>>(&mut manager)).await;
        match answers {
            Ok(Ok(answers)) => Ok(answers.into_iter().map(to_answer).collect()),
            Ok(Err(error)) => Err(describe(&error)),
            Err(_) => Err(format!("no answer within {CALL:?}")),
        }
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
fn describe(error: &redis::RedisError) -> String {
    match error.code() {
        Some(code) => {
            let detail = error.detail().unwrap_or_default();
            format!("{} ({code} {detail})", error.category())
        }
        None if error.is_io_error() => error.to_string(),
        None => error.category().to_owned(),
    }
}
