//! The hosts that an agent file allows.

use std::fmt;
use std::str::FromStr;

use reqwest::Url;

/// A host that `http_get` may ask (`http_allow`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pattern: Pattern,
    /// Absent: the port that the scheme has by itself, whichever that is.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    /// `*`: any.
    Any,
    /// `*.example.com`: any name below, not the name itself.
    Below(String),
    /// One name or address.
    Named(String),
}

/// What is allowed of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allows {
    No,
    /// Where it is public.
    Public,
    /// Wherever it leads: it is named itself.
    Named,
}

impl FromStr for Host {
    type Err = ();

    /// `HOST`, `HOST:PORT`, `*.HOST` or `*`.
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
        // A port that a scheme has by itself is left out of its URLs; here it was written.
        let port = Url::parse(&format!("any://{rest}/")).map_err(|_| ())?.port();
        let host = name_of(&url).ok_or(())?;
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

/// What the hosts allow of a URL.
pub(super) fn allows(hosts: &[Host], url: &Url) -> Allows {
    let Some(name) = name_of(url) else { return Allows::No };
    let mut allows = Allows::No;
    let is_asked = |host: &&Host| match host.port {
        None => url.port().is_none(),
        port => port == url.port_or_known_default(),
    };
    for host in hosts.iter().filter(is_asked) {
        match &host.pattern {
            Pattern::Named(named) if *named == name => return Allows::Named,
            Pattern::Any => allows = Allows::Public,
            Pattern::Below(above) if is_below(&name, above) => allows = Allows::Public,
            Pattern::Named(_) | Pattern::Below(_) => {}
        }
    }
    allows
}

fn is_below(name: &str, above: &str) -> bool {
    name.strip_suffix(above).is_some_and(|below| below.len() > 1 && below.ends_with('.'))
}

/// A URL's host in one form: lower case, punycode, numbers as an address, no dot at the end.
fn name_of(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty()).then(|| host.to_owned())
}
