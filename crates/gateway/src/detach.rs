//! Heads of messages in memory of their own. A head as the HTTP library gives it is slices of the
//! buffer that its connection reads into: as long as one of them is kept, so are its 8 KiB, and the
//! connection takes a further buffer. Those who keep a head for as long as a stream detach it.
//!
//! It changes no value and no order.

use bytes::{Bytes, BytesMut};
use http::header::HeaderValue;
use http::request::Parts;
use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, uri};

/// Detaches a request's head.
pub(crate) fn request(parts: &mut Parts) {
    headers(&mut parts.headers);
    if let Some(own) = copied(&parts.uri) {
        parts.uri = own;
    }
}

/// Detaches these headers: all values then share one allocation.
fn headers(headers: &mut HeaderMap) {
    let bytes = headers.values().map(HeaderValue::len).sum();
    let mut own = BytesMut::with_capacity(bytes);
    for value in headers.values() {
        own.extend_from_slice(value.as_bytes());
    }
    let mut own = own.freeze();
    for value in headers.values_mut() {
        let length = value.len().min(own.len());
        // What was a value still is one.
        let Ok(mut copy) = HeaderValue::from_maybe_shared(own.split_to(length)) else { continue };
        copy.set_sensitive(value.is_sensitive());
        *value = copy;
    }
}

/// The path of a request; an address with scheme and host is a proxy's, and seldom.
fn copied(uri: &Uri) -> Option<Uri> {
    let path = uri.path_and_query()?;
    let path = PathAndQuery::from_maybe_shared(Bytes::copy_from_slice(path.as_str().as_bytes()));
    let mut parts = uri::Parts::default();
    parts.path_and_query = Some(path.ok()?);
    parts.scheme = uri.scheme().cloned();
    parts.authority = uri.authority().cloned();
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a library reads into.
    fn buffer() -> Bytes {
        Bytes::from(b"/v1/messages?beta=true one two \xff".to_vec())
    }

    #[test]
    fn nothing_of_the_buffer_is_held() {
        let buffer = buffer();
        let (mut parts, ()) = http::Request::new(()).into_parts();
        parts.uri = Uri::from_maybe_shared(buffer.slice(..22)).expect("a path");
        for (name, range) in [("a", 23..26), ("b", 27..30), ("a", 31..32), ("c", 0..0)] {
            let value = HeaderValue::from_maybe_shared(buffer.slice(range)).expect("a value");
            parts.headers.append(name, value);
        }
        parts.headers.get_mut("b").expect("there").set_sensitive(true);
        let before = (parts.uri.clone(), parts.headers.clone());
        request(&mut parts);
        assert_eq!((&parts.uri, &parts.headers), (&before.0, &before.1));
        assert!(parts.headers["b"].is_sensitive() && !parts.headers["a"].is_sensitive());
        drop(before);
        assert!(buffer.is_unique(), "something still holds it");
    }

    #[test]
    fn addresses_of_any_form_stay_what_they_are() {
        for text in ["/", "*", "/v1/a?b=c", "http://h:80/v1/x", "http://h", "host:443"] {
            let uri: Uri = text.parse().expect("an address");
            let (mut parts, ()) = http::Request::new(()).into_parts();
            parts.uri = uri.clone();
            request(&mut parts);
            assert_eq!(parts.uri, uri, "{text}");
        }
    }
}
