//! The hosts that an agent file allows.

use std::fmt;
use std::str::FromStr;

use url::Url;

/// A host that `http_get` may contact (`http_allow`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pattern: Pattern,
    /// The port; `None` is the default port of the scheme.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    /// `*`: any host.
    Any,
    /// `*.example.com`: any name below, not the name itself.
    Below(String),
    /// One name or address.
    Named(String),
}

/// The access that is allowed to a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostAccess {
    No,
    /// Allowed if the address is public.
    Public,
    /// Allowed at any address, since the host is named itself.
    Named,
}

impl FromStr for Host {
    type Err = ();

    /// Parses `HOST`, `HOST:PORT`, `*.HOST` or `*`.
    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "*" {
            return Ok(Self { pattern: Pattern::Any, port: None });
        }
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if rest.is_empty() || rest.contains(['/', '@', '*', '?', '#', '\\', ' ', '%']) {
            return Err(());
        }
        let url = Url::parse(&format!("http://{rest}/")).map_err(|_| ())?;
        // A URL leaves out the default port of its scheme, but here a written port counts.
        let port = Url::parse(&format!("any://{rest}/")).map_err(|_| ())?.port();
        let host = host_name(&url).ok_or(())?;
        let pattern = if below { Pattern::Below(host) } else { Pattern::Named(host) };
        Ok(Self { pattern, port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Any => f.write_str("*")?,
            Pattern::Below(host) => write!(f, "*.{host}")?,
            Pattern::Named(host) => f.write_str(host)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// Returns the access that the hosts allow to a URL.
pub(super) fn host_access(hosts: &[Host], url: &Url) -> HostAccess {
    let Some(name) = host_name(url) else { return HostAccess::No };
    let mut allows = HostAccess::No;
    let is_asked = |host: &&Host| match host.port {
        None => url.port().is_none(),
        port => port == url.port_or_known_default(),
    };
    for host in hosts.iter().filter(is_asked) {
        match &host.pattern {
            Pattern::Named(named) if *named == name => return HostAccess::Named,
            Pattern::Any => allows = HostAccess::Public,
            Pattern::Below(above) if is_below(&name, above) => allows = HostAccess::Public,
            Pattern::Named(_) | Pattern::Below(_) => {}
        }
    }
    allows
}

fn is_below(name: &str, above: &str) -> bool {
    name.strip_suffix(above).is_some_and(|below| below.len() > 1 && below.ends_with('.'))
}

/// Returns the host of a URL in one form: lower case, punycode, numbers as an address, no final
/// dot.
fn host_name(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty()).then(|| host.to_owned())
}
