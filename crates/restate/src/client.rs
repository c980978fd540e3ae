//! Requests to the engine over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Url};
use serde::de::DeserializeOwned;

use crate::SERVICE;
use crate::service::RunRequest;
use crate::status::{EngineState, RunDeletion, RunRow};

const USER_AGENT: &str = concat!("softland/", env!("CARGO_PKG_VERSION"));
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for an answer that a worker gives at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The most characters that are shown of an answer.
const MOST_SHOWN: usize = 500;
/// The longest id of a run.
const MOST_ID: usize = 200;

/// A failed request to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFailure {
    message: String,
    /// True if nothing answered, so that it may help to try again.
    passing: bool,
    /// The status of the answer, if there was one.
    status: Option<u16>,
}

impl EngineFailure {
    pub(crate) fn new(message: impl Into<String>, passing: bool) -> Self {
        Self { message: message.into(), passing, status: None }
    }

    /// Returns the status of the engine's answer, if there was one.
    pub(crate) fn status(&self) -> Option<u16> {
        self.status
    }

    /// Returns true if the same request may succeed later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.passing
    }
}

impl std::fmt::Display for EngineFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EngineFailure {}

/// The client of an engine: the address at which it takes requests.
#[derive(Clone, Debug)]
pub struct EngineClient {
    http: Client,
    base: Url,
    /// True once anything has answered at the address.
    reached: Arc<AtomicBool>,
}

impl EngineClient {
    /// Creates a client of the engine at an address, such as `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// Returns a failure if the text is no address of HTTP.
    pub fn new(address: &str) -> Result<Self, EngineFailure> {
        let base = parse_address(address, "an engine")?;
        // An embedding program may have installed a crypto provider already, which is used then.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .no_proxy();
        if base.scheme() == "http" {
            // A plain address must work on systems without root certificates.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| {
            let shown = show_address(address);
            EngineFailure::new(format!("nothing can be asked at {shown}: {error}"), false)
        })?;
        Ok(Self { http, base, reached: Arc::default() })
    }

    /// Returns true once anything has answered at the engine's address.
    pub(crate) fn was_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// Has the client think that the engine has answered.
    #[cfg(test)]
    pub(crate) fn mark_reached(&self) {
        self.reached.store(true, Ordering::Relaxed);
    }

    /// Starts a run. A run that was started before goes on as it is.
    ///
    /// # Errors
    /// Returns a failure if the engine does not take it.
    pub async fn start_run(&self, run: &str, request: &RunRequest) -> Result<(), EngineFailure> {
        let path = run_path(run, "run/send")?;
        let body = serde_json::to_string(request).map_err(unreadable)?;
        self.post_json(&path, body).await.map(drop)
    }

    /// Returns a piece of a run's events; empty if it is not there yet.
    pub(crate) async fn fetch_piece(&self, run: &str, n: u64) -> Result<Bytes, EngineFailure> {
        self.post_json(&run_path(run, "piece")?, n.to_string()).await
    }

    /// Returns the state of a run.
    ///
    /// # Errors
    /// Returns a failure if the engine, or a worker behind it, does not answer.
    pub async fn find_state(&self, run: &str) -> Result<EngineState, EngineFailure> {
        self.ask(&run_path(run, "state")?).await
    }

    /// Cancels a run and the whole tree below it. Tools are not waited for. A run that cannot end by
    /// itself, since no worker is at work on it, is ended by the engine after [`CANCEL_GRACE`].
    ///
    /// [`CANCEL_GRACE`]: crate::CANCEL_GRACE
    ///
    /// # Errors
    /// Returns a failure if the engine does not take it.
    pub async fn cancel_run(&self, run: &str) -> Result<(), EngineFailure> {
        self.post(&run_path(run, "cancel")?, None, ANSWER_TIMEOUT).await.map(drop)
    }

    /// Waits until a run is cancelled or over. Returns true if it was cancelled.
    pub(crate) async fn wait_for_cancel(&self, run: &str) -> Result<bool, EngineFailure> {
        // The answer comes when it comes; a lost connection is noticed.
        let most = Duration::from_secs(26 * 3600);
        let answer = self.post(&run_path(run, "wait_for_cancel")?, None, most).await?;
        serde_json::from_slice(&answer).map_err(unreadable)
    }

    /// Returns the newest runs that the engine knows.
    ///
    /// # Errors
    /// Returns a failure if the engine, or a worker behind it, does not answer.
    pub async fn list_runs(&self) -> Result<Vec<RunRow>, EngineFailure> {
        self.ask(&format!("{SERVICE}List/list")).await
    }

    /// Deletes what the engine keeps of a run that has ended: prompts, results and events.
    ///
    /// # Errors
    /// Returns a failure if the engine, or a worker behind it, does not answer.
    pub async fn delete_run(&self, run: &str) -> Result<RunDeletion, EngineFailure> {
        check_run_id(run)?;
        let body = serde_json::to_string(run).map_err(unreadable)?;
        let answer = self.post_json(&format!("{SERVICE}List/delete"), body).await?;
        serde_json::from_slice(&answer).map_err(unreadable)
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, EngineFailure> {
        let answer = self.post(path, None, ANSWER_TIMEOUT).await?;
        serde_json::from_slice(&answer).map_err(unreadable)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Bytes, EngineFailure> {
        let request = self.http.get(self.url_of(path)?).timeout(ANSWER_TIMEOUT);
        self.send(request).await
    }

    /// Sends a request that changes an invocation, to the engine's administration.
    pub(crate) async fn patch(&self, path: &str) -> Result<Bytes, EngineFailure> {
        let request = self.http.patch(self.url_of(path)?).timeout(ANSWER_TIMEOUT);
        self.send(request.header(ACCEPT, "application/json")).await
    }

    pub(crate) async fn post_json(&self, path: &str, body: String) -> Result<Bytes, EngineFailure> {
        self.post(path, Some(body), ANSWER_TIMEOUT).await
    }

    async fn post(
        &self,
        path: &str,
        json: Option<String>,
        most: Duration,
    ) -> Result<Bytes, EngineFailure> {
        let mut request = self.http.post(self.url_of(path)?).timeout(most);
        if let Some(json) = json {
            request = request.header(CONTENT_TYPE, "application/json").body(json);
        }
        self.send(request.header(ACCEPT, "application/json")).await
    }

    /// Returns the engine's address as it is shown to people.
    pub(crate) fn shown_address(&self) -> String {
        show_address(self.base.as_str())
    }

    fn url_of(&self, path: &str) -> Result<Url, EngineFailure> {
        self.base.join(path).map_err(unreadable)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Bytes, EngineFailure> {
        let place = self.shown_address();
        let unreached = |error: reqwest::Error| {
            let message = match error.is_timeout() && !error.is_connect() {
                true => {
                    self.reached.store(true, Ordering::Relaxed);
                    no_worker_answers(&place)
                }
                false => format!("the engine at {place}: {}", root_cause(&error)),
            };
            EngineFailure::new(message, true)
        };
        let response = request.send().await.map_err(unreached)?;
        self.reached.store(true, Ordering::Relaxed);
        let status = response.status();
        let body = response.bytes().await.map_err(unreached)?;
        if status.is_success() {
            return Ok(body);
        }
        let message = match (status.as_u16(), error_message(&body)) {
            (404, Some(why)) if why.contains("not found") => format!(
                "the engine at {place} knows no worker of softland: start one with softland worker"
            ),
            (404 | 405, None) => format!(
                "{place} is not the address at which Restate takes requests (port 8080 by default; \
                 its administration, on port 9070, takes none): it answers {status}"
            ),
            (_, Some(why)) => format!("the engine at {place}: {status}: {why}"),
            (_, None) => {
                let text: String =
                    String::from_utf8_lossy(&body).chars().take(MOST_SHOWN).collect();
                format!("the engine at {place}: {status}: {text}")
            }
        };
        let passing = status.is_server_error();
        Err(EngineFailure { message, passing, status: Some(status.as_u16()) })
    }
}

/// Describes an engine that has taken a request and gives no answer: it waits for a worker.
pub(crate) fn no_worker_answers(place: &str) -> String {
    format!(
        "the engine at {place} waits for a worker, and none answers: start one with softland worker. \
         Nothing was done"
    )
}

/// Parses the address of something that speaks HTTP.
///
/// # Errors
/// Returns a failure that says how such an address begins.
pub(crate) fn parse_address(address: &str, what: &str) -> Result<Url, EngineFailure> {
    let text = format!("{}/", address.trim_end_matches('/'));
    let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    match url {
        Some(url) if url.query().is_none() && url.fragment().is_none() => Ok(url),
        Some(_) => Err("it may have a path, and no ? or #".to_owned()),
        None if address.contains("://") => Err("it must begin with http:// or https://".to_owned()),
        None => {
            let shown = show_address(address);
            Err(format!("it must begin with http:// or https://, such as http://{shown}"))
        }
    }
    .map_err(|why| {
        let shown = show_address(address);
        EngineFailure::new(format!("`{shown}` is not the address of {what}: {why}"), false)
    })
}

/// Returns an address as it is shown to people: without user and password.
#[must_use]
pub fn show_address(address: &str) -> String {
    let address = address.trim_end_matches('/');
    let (scheme, rest) =
        address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let Some((_, host)) = host.rsplit_once('@') else { return address.to_owned() };
    match scheme {
        "" => format!("{host}{path}"),
        scheme => format!("{scheme}://{host}{path}"),
    }
}

/// Returns the path of a handler of a run.
fn run_path(run: &str, handler: &str) -> Result<String, EngineFailure> {
    check_run_id(run)?;
    Ok(format!("{SERVICE}/{run}/{handler}"))
}

/// Checks that a text can be the id of a run.
pub(crate) fn check_run_id(run: &str) -> Result<(), EngineFailure> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=MOST_ID).contains(&run.len()) && run.bytes().all(plain) {
        return Ok(());
    }
    let message = match run.split_once('.') {
        Some((first, rest)) if check_run_id(first).is_ok() && rest.split('.').all(is_number) => {
            format!(
                "`{run}` is the run of a sub-agent, which is kept with the run that began it: {first}"
            )
        }
        _ => format!(
            "`{run}` is not the id of a run that an engine keeps: such an id has letters, digits, - \
             and _, at most {MOST_ID}, as run-20261127T102520-39f2ec13 has"
        ),
    };
    Err(EngineFailure::new(message, false))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn unreadable(error: impl std::fmt::Display) -> EngineFailure {
    EngineFailure::new(format!("the engine's answer cannot be read: {error}"), false)
}

/// Returns the engine's own message; `None` if the answer is not one of an engine.
fn error_message(body: &[u8]) -> Option<String> {
    let json: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some(json.get("message")?.as_str()?.chars().take(MOST_SHOWN).collect())
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeEngine;

    #[tokio::test]
    async fn an_address_is_shown_without_user_and_password() {
        for (address, shown) in [
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("http://user:hunter2@127.0.0.1:1/base/", "http://127.0.0.1:1/base"),
            ("https://hunter2@[::1]:1", "https://[::1]:1"),
            ("user:hunter2@host:1", "host:1"),
            ("http://user:a@hunter2@host", "http://host"),
        ] {
            assert_eq!(show_address(address), shown);
            let told = match EngineClient::new(address) {
                Err(failure) => failure.to_string(),
                Ok(client) if address.contains(":1") => {
                    client.list_runs().await.unwrap_err().to_string()
                }
                Ok(_) => continue,
            };
            assert!(!told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn e23_an_address_that_is_none_is_told_with_what_is_allowed() {
        for (address, why) in [
            (
                "10.0.0.5:9080",
                "it must begin with http:// or https://, such as http://10.0.0.5:9080",
            ),
            (
                "localhost:8080",
                "it must begin with http:// or https://, such as http://localhost:8080",
            ),
            ("redis://10.0.0.5", "it must begin with http:// or https://"),
            ("http://10.0.0.5/?a", "it may have a path, and no ? or #"),
        ] {
            let said = parse_address(address, "a worker").unwrap_err().to_string();
            assert_eq!(said, format!("`{address}` is not the address of a worker: {why}"));
        }
        for fit in ["http://10.0.0.5:9080/", "https://workers.example/softland", "http://[::1]:1"] {
            assert!(parse_address(fit, "a worker").is_ok(), "{fit}");
        }
    }

    #[test]
    fn e23_a_text_that_is_no_id_of_a_run_is_told_with_what_one_looks_like() {
        let said = |run: &str| check_run_id(run).unwrap_err().to_string();
        assert_eq!(
            said("run-1.2.3"),
            "`run-1.2.3` is the run of a sub-agent, which is kept with the run that began it: run-1"
        );
        for run in ["", "a/b", "run-1.", ".1", "run-1.x", "run 1"] {
            let looks =
                "letters, digits, - and _, at most 200, as run-20261127T102520-39f2ec13 has";
            assert!(said(run).contains(looks), "{}", said(run));
        }
    }

    /// Asks an engine that answers so for its runs. Returns the failure.
    async fn answered(status: u16, body: &'static str) -> String {
        let fake = FakeEngine::start_with_status(move |_, _| (status, body.into())).await;
        let said = fake.client.list_runs().await.unwrap_err().to_string();
        said.replace(&fake.client.shown_address(), "HERE")
    }

    #[tokio::test]
    async fn e23_an_address_that_takes_no_requests_is_told_as_such() {
        let said = answered(404, "").await;
        assert!(
            said.starts_with("HERE is not the address at which Restate takes requests"),
            "{said}"
        );
        let said = answered(404, r#"{"message":"service 'SoftlandRun' not found"}"#).await;
        assert!(said.contains("knows no worker of softland"), "{said}");
        assert_eq!(answered(500, "oh").await, "the engine at HERE: 500 Internal Server Error: oh");
    }
}
