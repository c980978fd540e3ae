//! Access control: `Host`, `Origin`, keys of clients, and the form of identity headers.
//!
//! Loopback is not authentication: any web page can send requests to it, under its own name or
//! under a name that it points there. So names are checked, not only addresses. A page cannot make
//! a browser send an address that it did not connect to, so the connection's own address is a safe
//! name.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::header::{AUTHORIZATION, HOST, ORIGIN, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use softland_govern::headers::is_forwarded;
use softland_govern::{ClientKey, Protocol, Refusal};

use crate::keys::KeyRing;
use crate::secret::Secret;
use crate::settings::Settings;
use crate::stored_keys::StoredKeyRing;

/// Bytes of an identity header's value.
const IDENTITY_BYTES: usize = 256;

/// Headers that name the run, session or policy of a request.
const IDENTITY: [HeaderName; 3] = [
    HeaderName::from_static("x-softland-run"),
    HeaderName::from_static("x-softland-session"),
    HeaderName::from_static("x-softland-policy"),
];

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The header that carries a key of the gateway beside a provider's credentials.
const X_SOFTLAND_KEY: HeaderName = HeaderName::from_static("x-softland-key");

/// The listener that accepted a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryPoint {
    /// The address for clients, which send requests to models.
    Clients,
    /// The admin address, which shows the state of the gateway only.
    Admin,
}

/// The access rules of one configuration.
#[derive(Debug)]
pub(crate) struct Guard {
    listen: IpAddr,
    /// True if the gateway's own address is reachable from this machine only.
    admin_is_loopback: bool,
    admin_token: Option<Secret>,
    /// Further host names; a name without a port holds for every port.
    allowed: Vec<(String, Option<u16>)>,
    keys: KeyRing,
    /// True if clients need a key although the configuration has none.
    needs_key: bool,
    stored_keys: Arc<StoredKeyRing>,
}

impl Guard {
    pub(crate) fn new(settings: &Settings, stored_keys: Arc<StoredKeyRing>) -> Self {
        let allowed = settings.allowed_hosts.iter().filter_map(|name| {
            let (host, port) = split_host(name)?;
            Some((host.to_ascii_lowercase(), port))
        });
        Self {
            listen: settings.listen.ip(),
            admin_is_loopback: settings.admin.listen.is_some_and(|at| at.ip().is_loopback()),
            admin_token: settings.admin.token.clone(),
            allowed: allowed.collect(),
            keys: KeyRing::from_entries(&settings.keys),
            needs_key: settings.needs_key,
            stored_keys,
        }
    }

    /// Checks that a request on a connection to `local` may be answered at all.
    ///
    /// # Errors
    /// Returns a refusal that names the problem: the host, the origin, the method, or an identity
    /// header.
    pub(crate) fn check_request(
        &self,
        parts: &Parts,
        local: SocketAddr,
        protocol: Protocol,
    ) -> Result<(), Refusal> {
        let refuse = |status, what: &str| Err(Refusal::new(status, protocol, what));
        let Some(host) = single_value(&parts.headers, &HOST) else {
            return refuse(StatusCode::BAD_REQUEST, "a request must have one Host header");
        };
        let named =
            parts.uri.authority().is_none_or(|named| self.serves_name(named.as_str(), 80, local));
        if !named || !self.serves_host(host, local) {
            return refuse(
                StatusCode::FORBIDDEN,
                "this Host is not served: use the listen address or a loopback name with the \
                 port, or add the name to allowed_hosts",
            );
        }
        if parts.headers.contains_key(ORIGIN)
            && !single_value(&parts.headers, &ORIGIN)
                .is_some_and(|origin| self.is_own_origin(origin, local))
        {
            return refuse(
                StatusCode::FORBIDDEN,
                "requests of web pages of another origin are refused",
            );
        }
        if parts.method == Method::CONNECT {
            return refuse(
                StatusCode::METHOD_NOT_ALLOWED,
                "CONNECT is not supported: this gateway is no proxy",
            );
        }
        check_identity(&parts.headers, protocol)
    }

    /// Finds the key that a request shows: in `x-softland-key`, or where the provider's key would
    /// be. `None` if the gateway has no keys.
    ///
    /// # Errors
    /// Returns a refusal if keys are required and the request shows none of them. `now` is in
    /// milliseconds since 1970.
    pub(crate) fn find_key(
        &self,
        headers: &HeaderMap,
        protocol: Protocol,
        now: u64,
    ) -> Result<Option<Arc<ClientKey>>, Refusal> {
        if self.keys.is_empty() && !self.needs_key && !self.stored_keys.needs_key() {
            return Ok(None);
        }
        let known = |value: &HeaderValue| self.find_token(bearer_token(value.as_bytes()), now);
        let found = if headers.contains_key(&X_SOFTLAND_KEY) {
            // Where this header is, no other one counts: its sender has said who asks.
            single_value(headers, &X_SOFTLAND_KEY).and_then(known)
        } else {
            [X_API_KEY, AUTHORIZATION]
                .iter()
                .find_map(|name| headers.get_all(name).iter().find_map(known))
        };
        if found.is_some() {
            return Ok(found);
        }
        if self.stored_keys.is_unread() {
            let what = "the keys of this gateway cannot be read: its shared store does not answer";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, protocol, what));
        }
        let what = "a client token of this gateway is needed, as x-api-key, bearer token or \
                    x-softland-key";
        Err(Refusal::new(StatusCode::UNAUTHORIZED, protocol, what))
    }

    /// Checks that a request may read the gateway's own state. On loopback every request may;
    /// elsewhere it needs the admin token, and without one in the configuration no request may.
    ///
    /// # Errors
    /// Returns a refusal that says which token is needed, or what to configure.
    pub(crate) fn may_look(&self, headers: &HeaderMap, entry: EntryPoint) -> Result<(), Refusal> {
        let loopback = match entry {
            EntryPoint::Clients => self.listen.is_loopback(),
            EntryPoint::Admin => self.admin_is_loopback,
        };
        if loopback {
            return Ok(());
        }
        let refuse = |status, what| Err(Refusal::new(status, Protocol::Anthropic, what));
        let Some(token) = &self.admin_token else {
            let what = "this is read on loopback only, or with a token: name one with [admin] \
                        token_env in the gateway's config";
            return refuse(StatusCode::FORBIDDEN, what);
        };
        let shown = |value: &HeaderValue| {
            equals_secret(token.expose().as_bytes(), bearer_token(value.as_bytes()))
        };
        if single_value(headers, &AUTHORIZATION).is_some_and(shown) {
            return Ok(());
        }
        let what = "the admin token of this gateway is needed here, as bearer token";
        refuse(StatusCode::UNAUTHORIZED, what)
    }

    /// Checks that a request may read the pages' API. On loopback every request may; elsewhere, and
    /// through a proxy that says so, it needs the token.
    ///
    /// # Errors
    /// Returns a refusal that says which token is needed.
    pub(crate) fn may_read(
        &self,
        headers: &HeaderMap,
        entry: EntryPoint,
        token: &Secret,
    ) -> Result<(), Refusal> {
        let loopback = match entry {
            EntryPoint::Clients => self.listen.is_loopback(),
            EntryPoint::Admin => self.admin_is_loopback,
        };
        // A request through a proxy may come from anywhere, wherever the proxy is.
        if loopback && !is_forwarded(headers) { Ok(()) } else { self.may_change(headers, token) }
    }

    /// Checks that a request may change something through the pages' API: it needs the token of the
    /// configuration, or else `token`, as bearer token. No form and no image can send that.
    ///
    /// # Errors
    /// Returns a refusal that says which token is needed.
    pub(crate) fn may_change(&self, headers: &HeaderMap, token: &Secret) -> Result<(), Refusal> {
        let token = self.admin_token.as_ref().unwrap_or(token);
        let shown = |value: &HeaderValue| {
            let (given, value) = (bearer_token(value.as_bytes()), value.as_bytes());
            given.len() < value.len() && equals_secret(token.expose().as_bytes(), given)
        };
        if single_value(headers, &AUTHORIZATION).is_some_and(shown) {
            return Ok(());
        }
        let what = "the token of these pages is needed here, as bearer token: it is in the address \
                    that the gateway has printed, or what [admin] token_env names";
        Err(Refusal::new(StatusCode::UNAUTHORIZED, Protocol::Anthropic, what))
    }

    /// Finds the key of a token. The configuration's keys go before those of the shared store, also
    /// where they have one name.
    fn find_token(&self, token: &[u8], now: u64) -> Option<Arc<ClientKey>> {
        let own = self.keys.find_key(token).cloned();
        own.or_else(|| {
            self.stored_keys.find_key(token, now).filter(|key| !self.has_key_name(&key.name))
        })
    }

    /// Returns true if a key of the configuration has this name.
    pub(crate) fn has_key_name(&self, name: &str) -> bool {
        self.keys.has_name(name)
    }

    /// Returns true if a credential is a token of this gateway, or was one, and so must not go
    /// upstream.
    pub(crate) fn is_token(&self, value: &HeaderValue) -> bool {
        let token = bearer_token(value.as_bytes());
        self.keys.find_key(token).is_some() || self.stored_keys.knows_token(token)
    }

    fn serves_host(&self, host: &HeaderValue, local: SocketAddr) -> bool {
        host.to_str().is_ok_and(|host| self.serves_name(host, 80, local))
    }

    fn serves_name(&self, name: &str, default_port: u16, local: SocketAddr) -> bool {
        let Some((host, port)) = split_host(name) else { return false };
        let here = port.unwrap_or(default_port) == local.port() && self.is_local_name(host, local);
        here || self.allowed.iter().any(|(allowed, at)| {
            allowed.eq_ignore_ascii_case(host) && at.is_none_or(|at| Some(at) == port)
        })
    }

    fn is_local_name(&self, host: &str, local: SocketAddr) -> bool {
        if host.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let Ok(address) = host.parse::<IpAddr>() else { return false };
        let address = address.to_canonical();
        let loopback = ["127.0.0.1", "::1"].contains(&host);
        // A gateway that listens on all addresses prints that address, and clients use it.
        let listened = address == self.listen;
        loopback || listened || address == local.ip().to_canonical()
    }

    fn is_own_origin(&self, origin: &HeaderValue, local: SocketAddr) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        match origin.split_once("://") {
            Some(("http", rest)) => self.serves_name(rest, 80, local),
            Some(("https", rest)) => self.serves_name(rest, 443, local),
            _ => false,
        }
    }
}

/// Returns true if a request asks for a WebSocket. Other upgrades (`h2c`) are offers that a server
/// may ignore.
pub(crate) fn wants_websocket(headers: &HeaderMap) -> bool {
    headers.get_all(UPGRADE).iter().any(|value| {
        let mut protocols = value.as_bytes().split(|byte| matches!(byte, b',' | b'/'));
        protocols.any(|name| name.trim_ascii().eq_ignore_ascii_case(b"websocket"))
    })
}

/// Returns the value of a header that occurs exactly once.
fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

fn check_identity(headers: &HeaderMap, protocol: Protocol) -> Result<(), Refusal> {
    for name in &IDENTITY {
        if !headers.contains_key(name) {
            continue;
        }
        let sound = |value: &HeaderValue| {
            let bytes = value.as_bytes();
            !bytes.is_empty()
                && bytes.len() <= IDENTITY_BYTES
                && bytes.iter().all(u8::is_ascii_graphic)
        };
        if !single_value(headers, name).is_some_and(sound) {
            let what = format!(
                "{name} must be there once, with 1 to {IDENTITY_BYTES} visible ASCII characters"
            );
            return Err(Refusal::new(StatusCode::BAD_REQUEST, protocol, what));
        }
    }
    Ok(())
}

/// Splits `host`, `host:port`, `[v6]` and `[v6]:port` into host and port, without the brackets.
fn split_host(name: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match name.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest)
        }
        None => name.find(':').map_or((name, ""), |at| name.split_at(at)),
    };
    if host.is_empty() || host.contains('@') {
        return None;
    }
    match port.strip_prefix(':') {
        None if port.is_empty() => Some((host, None)),
        None => None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((host, Some(digits.parse().ok()?)))
        }
        Some(_) => None,
    }
}

fn bearer_token(value: &[u8]) -> &[u8] {
    match value.split_at_checked(7) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"bearer ") => rest.trim_ascii(),
        _ => value,
    }
}

/// Compares in a time that reveals only the length of the given value.
fn equals_secret(wanted: &[u8], given: &[u8]) -> bool {
    let length = wanted.len() ^ given.len();
    let differ = given.iter().enumerate().fold(0_u8, |differ, (at, byte)| {
        // Past the end of the wanted value, the length already shows that they differ.
        differ | (byte ^ wanted.get(at).copied().unwrap_or_default())
    });
    std::hint::black_box(length == 0) & (std::hint::black_box(differ) == 0) & !wanted.is_empty()
}

#[cfg(test)]
mod tests;
