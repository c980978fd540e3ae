//! `http_get`: fetches one page from a host that the agent file allows.
//!
//! Every hop of a redirect is checked like the first address. The addresses of a host are checked
//! when the connection is made, so that the checked address is the one that is used. Proxies of the
//! environment are not used: behind a proxy nobody could say where a connection leads.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::{Client, Response, Url};
use serde_json::{Value, json};

use super::hosts::{self, Host, HostAccess};
use crate::tool::{Tool, ToolContext, ToolDef, ToolOutput, cut_line, cut_middle};

mod address;
#[cfg(test)]
mod tests;

/// The bytes of a body that are read. The rest is left out, and the output says so.
const MAX_BYTES: usize = 2 * 1024 * 1024;
/// The bytes of a body that the model sees.
const SHOWN: usize = 48 * 1024;
/// The bytes of an error page that the model sees.
const SHOWN_OF_ERROR: usize = 4 * 1024;
const MAX_REDIRECTS: usize = 5;
const CONNECT: Duration = Duration::from_secs(10);
const ALL: Duration = Duration::from_secs(30);
const USER_AGENT: &str = concat!("softland/", env!("CARGO_PKG_VERSION"));

pub(super) struct HttpGet {
    pub(super) allowed: Vec<Host>,
}

#[async_trait]
impl Tool for HttpGet {
    fn def(&self) -> ToolDef {
        let hosts: Vec<String> = self.allowed.iter().map(ToString::to_string).collect();
        ToolDef {
            name: "http_get".to_owned(),
            description: format!(
                "Fetches a text over HTTP or HTTPS with GET and returns status, content type and \
                 body, at most {} KiB of it. Follows up to {MAX_REDIRECTS} redirects. Allowed hosts: {}.",
                SHOWN / 1024,
                hosts.join(", ")
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "url": {"type": "string", "description": "Such as https://example.com/page"}
                },
                "required": ["url"],
                "additionalProperties": false
            }),
            reads: true,
            repeatable: true,
        }
    }

    async fn call(&self, input: Value, _: &ToolContext) -> ToolOutput {
        let given = input.get("url").and_then(Value::as_str).unwrap_or_default();
        match self.fetch_page(given).await {
            Ok(output) => output,
            Err(message) => ToolOutput::error(message),
        }
    }

    fn timeout(&self) -> Option<Duration> {
        Some(ALL + Duration::from_secs(5))
    }
}

impl HttpGet {
    async fn fetch_page(&self, given: &str) -> Result<ToolOutput, String> {
        let mut url = Url::parse(given.trim()).map_err(|error| {
            format!(
                "`{}` is not a URL ({error}): give one such as https://example.com/page",
                cut_line(given, 200)
            )
        })?;
        let until = tokio::time::Instant::now() + ALL;
        for _ in 0..=MAX_REDIRECTS {
            let private = self.check_url(&url)?;
            let asked = Box::pin(send_request(&url, private));
            let response = match tokio::time::timeout_at(until, asked).await {
                Ok(response) => response?,
                Err(_) => return Err(timeout_message(&url)),
            };
            let Some(next) = redirect_target(&response) else {
                let shown = Box::pin(render_response(response));
                return tokio::time::timeout_at(until, shown)
                    .await
                    .unwrap_or_else(|_| Err(timeout_message(&url)));
            };
            url = next.map_err(|to| {
                format!(
                    "{} redirects to `{}`, which is not a URL",
                    display_url(&url),
                    cut_line(&to, 200)
                )
            })?;
        }
        Err(format!("more than {MAX_REDIRECTS} redirects, the last to {}", display_url(&url)))
    }

    /// Checks that the URL may be fetched. Returns true if its address need not be public.
    fn check_url(&self, url: &Url) -> Result<bool, String> {
        let name = display_url(url);
        if !["http", "https"].contains(&url.scheme()) {
            return Err(format!("{name}: only http and https can be fetched"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!("{name}: an address with a user or password is not fetched"));
        }
        let private = match hosts::host_access(&self.allowed, url) {
            HostAccess::No => {
                let hosts: Vec<String> = self.allowed.iter().map(ToString::to_string).collect();
                let port = url.port().map(|port| format!(" (port {port} only where it is named)"));
                return Err(format!(
                    "{name} is not allowed; allowed are: {}{}",
                    hosts.join(", "),
                    port.unwrap_or_default()
                ));
            }
            HostAccess::Public => false,
            HostAccess::Named => true,
        };
        // Literal addresses are connected to without a lookup.
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        match host.parse::<IpAddr>() {
            Ok(ip) if !private && !address::is_public(ip) => Err(not_public_message(host)),
            _ => Ok(private),
        }
    }
}

async fn send_request(url: &Url, private: bool) -> Result<Response, String> {
    // An embedding program may have installed a crypto provider already, which is used then.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut client = Client::builder()
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .no_proxy()
        .dns_resolver(Arc::new(CheckedResolver { private }));
    if url.scheme() == "http" {
        // A plain address must work on systems without root certificates.
        client = client.tls_certs_only([]);
    }
    let client = client.build().map_err(|error| explain_error(url, &error))?;
    client.get(url.clone()).send().await.map_err(|error| explain_error(url, &error))
}

/// Resolves names, without the addresses that may not be connected to.
struct CheckedResolver {
    private: bool,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let private = self.private;
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let mut usable: Vec<SocketAddr> = found.collect();
            if !private {
                usable.retain(|address| address::is_public(address.ip()));
                if usable.is_empty() {
                    return Err(NotPublic(not_public_message(&host)).into());
                }
            }
            Ok(Box::new(usable.into_iter()) as Addrs)
        })
    }
}

/// A name without any address that may be connected to.
#[derive(Debug)]
struct NotPublic(String);

impl std::fmt::Display for NotPublic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for NotPublic {}

fn not_public_message(host: &str) -> String {
    format!(
        "`{}` is an address of this machine or a private network: http_allow must name it to \
         allow that",
        cut_line(host, 100)
    )
}

/// Returns the target of a redirect; `Err` holds a target that is not a URL.
fn redirect_target(response: &Response) -> Option<Result<Url, String>> {
    if ![301, 302, 303, 307, 308].contains(&response.status().as_u16()) {
        return None;
    }
    let to = String::from_utf8_lossy(response.headers().get(LOCATION)?.as_bytes()).into_owned();
    Some(response.url().join(&to).map_err(|_| to))
}

async fn render_response(mut response: Response) -> Result<ToolOutput, String> {
    let status = response.status();
    let url = response.url().clone();
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.map(|kind| cut_line(&String::from_utf8_lossy(kind.as_bytes()), 100));
    let mut body = Vec::new();
    let mut whole = true;
    while let Some(chunk) = response.chunk().await.map_err(|error| explain_error(&url, &error))? {
        let room = MAX_BYTES - body.len();
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if chunk.len() > room {
            whole = false;
            break;
        }
    }
    let kind = kind.unwrap_or_else(|| "no content type".to_owned());
    let head = format!("HTTP {} · {kind} · {}", status.as_u16(), display_url(&url));
    if super::root::is_binary(&body) {
        return Err(format!("{head}\n[binary, {} bytes: only text can be shown]", body.len()));
    }
    let room = if status.is_success() { SHOWN } else { SHOWN_OF_ERROR };
    let mut content = format!("{head}\n\n{}", cut_middle(&String::from_utf8_lossy(&body), room));
    if !whole {
        content
            .push_str(&format!("\n[the page is longer than the {MAX_BYTES} bytes that are read]"));
    }
    Ok(ToolOutput { content, is_error: !status.is_success() })
}

fn timeout_message(url: &Url) -> String {
    format!("{} took longer than {} s", display_url(url), ALL.as_secs())
}

/// Explains an error by its innermost cause.
fn explain_error(url: &Url, error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    format!("{} cannot be fetched: {}", display_url(url), cut_line(&cause.to_string(), 300))
}

/// Returns a URL for a message, without user name and password.
fn display_url(url: &Url) -> String {
    let mut url = url.clone();
    // These calls fail for URLs that cannot have a user name or password.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    cut_line(url.as_str(), 300)
}
