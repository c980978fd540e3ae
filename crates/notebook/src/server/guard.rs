//! Checks `Host` and `Origin` of requests.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};

use super::is_same_machine;

pub(super) const FOREIGN: &str = "requests of web pages of another origin are refused\n";

/// The names by which the server is reached.
#[derive(Debug)]
pub(super) struct ServedNames {
    pub(super) listen: SocketAddr,
    /// The names of a proxy before the server; without a port, they hold at any port.
    pub(super) hosts: Vec<String>,
}

/// Checks whether a request may be answered.
///
/// # Errors
/// Returns the status and the reason.
pub(super) fn check_request(
    headers: &HeaderMap,
    uri: &Uri,
    names: &ServedNames,
) -> Result<(), (StatusCode, &'static str)> {
    let Some(host) = single_header(headers, HOST.as_str()) else {
        return Err((StatusCode::BAD_REQUEST, "a request must have one Host header\n"));
    };
    let named = uri.authority().is_none_or(|named| is_ours(named.as_str(), names));
    if !named || !host.to_str().is_ok_and(|host| is_ours(host, names)) {
        let why = "this Host is not served: use the address that softland has printed, or add a \
                   proxy's name to allowed_hosts of the config\n";
        return Err((StatusCode::FORBIDDEN, why));
    }
    if !headers.contains_key(ORIGIN) {
        return Ok(());
    }
    let origin = single_header(headers, ORIGIN.as_str()).and_then(|origin| origin.to_str().ok());
    let own = origin.is_some_and(|origin| match origin.split_once("://") {
        Some(("http", host)) => is_ours(host, names),
        // Only a proxy speaks TLS.
        Some(("https", host)) => is_allowed(host, &names.hosts),
        _ => false,
    });
    match own {
        true => Ok(()),
        false => Err((StatusCode::FORBIDDEN, FOREIGN)),
    }
}

/// Returns the value of a header that occurs exactly once.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

fn is_ours(name: &str, names: &ServedNames) -> bool {
    is_own_address(name, names.listen) || is_allowed(name, &names.hosts)
}

/// Returns true if a name is among the allowed ones. A name without a port holds at any port.
fn is_allowed(name: &str, hosts: &[String]) -> bool {
    let host = match name.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit()) => host,
        _ => name,
    };
    hosts.iter().any(|own| own.eq_ignore_ascii_case(name) || own.eq_ignore_ascii_case(host))
}

/// Returns true if `host:port` is this server, by a name that a foreign page cannot point here.
fn is_own_address(name: &str, listen: SocketAddr) -> bool {
    let (host, port) = match name.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (name, Some(80)),
    };
    if port != Some(listen.port()) {
        return false;
    }
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    host.parse::<IpAddr>().is_ok_and(|host| is_same_machine(host, listen.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_names_are_served() {
        let listen: SocketAddr = "127.0.0.1:4144".parse().unwrap();
        for good in ["127.0.0.1:4144", "localhost:4144", "LOCALHOST:4144"] {
            assert!(is_own_address(good, listen), "{good}");
        }
        for bad in ["127.0.0.1", "localhost:4145", "evil.example:4144", "127.0.0.2:4144", "", ":"] {
            assert!(!is_own_address(bad, listen), "{bad}");
        }
        assert!(is_own_address("[::1]:80", "[::1]:80".parse().unwrap()));
        assert!(is_own_address("[::1]", "[::1]:80".parse().unwrap()));
    }

    #[test]
    fn a_foreign_origin_is_refused() {
        let listen: SocketAddr = "127.0.0.1:4144".parse().unwrap();
        let names = ServedNames { listen, hosts: Vec::new() };
        let asks = |origins: &[&'static str]| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("127.0.0.1:4144"));
            for origin in origins {
                headers.append(ORIGIN, HeaderValue::from_static(origin));
            }
            check_request(&headers, &Uri::from_static("/api/ws"), &names).is_ok()
        };
        assert!(asks(&[]) && asks(&["http://127.0.0.1:4144"]) && asks(&["http://localhost:4144"]));
        for bad in ["https://evil.example", "http://127.0.0.1:4145", "null", "", "http://"] {
            assert!(!asks(&[bad]), "{bad}");
        }
        assert!(!asks(&["http://127.0.0.1:4144", "https://evil.example"]));
    }

    #[test]
    fn a_proxy_is_known_by_the_names_that_were_allowed() {
        let hosts = ["Notes.example", "10.0.0.7:8443"].map(str::to_owned).to_vec();
        let names = ServedNames { listen: "127.0.0.1:4144".parse().unwrap(), hosts };
        let asks = |host: &'static str, origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
            check_request(&headers, &Uri::from_static("/api/ws"), &names).is_ok()
        };
        assert!(asks("notes.example", "https://notes.example"));
        assert!(asks("notes.example:81", "http://notes.example:81"));
        assert!(asks("10.0.0.7:8443", "https://10.0.0.7:8443"));
        assert!(!asks("10.0.0.7", "https://10.0.0.7:8443"), "only at its port");
        assert!(!asks("notes.example", "https://evil.example"));
        assert!(!asks("notes.example.evil.example", "https://notes.example"));
        assert!(!asks("notes.example", "https://127.0.0.1:4144"), "it speaks no TLS itself");
        assert!(!asks("notes.example", "ws://notes.example"));
    }
}
