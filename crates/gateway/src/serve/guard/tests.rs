use proptest::prelude::*;

use super::*;

#[test]
fn hosts_are_split_from_their_ports() {
    for (name, wanted) in [
        ("a", Some(("a", None))),
        ("a:1", Some(("a", Some(1)))),
        ("[::1]:65535", Some(("::1", Some(65535)))),
        ("[::1]", Some(("::1", None))),
        ("::1", None),
        ("a:", None),
        ("a:65536", None),
        ("a:+1", None),
        ("a:1:2", None),
        ("[::1]x", None),
        ("[::1", None),
        ("u@a:1", None),
        ("", None),
        (":1", None),
        ("[]:1", None),
    ] {
        assert_eq!(split_host(name), wanted, "{name:?}");
    }
}

#[test]
fn tokens_are_compared_to_their_ends() {
    for (wanted, given, equal) in [
        ("abc", "abc", true),
        ("abc", "abd", false),
        ("abc", "ab", false),
        ("abc", "abcd", false),
        ("abc", "", false),
        ("", "", false),
        ("a\0", "a", false),
        ("a", "a\0", false),
    ] {
        assert_eq!(
            equals_secret(wanted.as_bytes(), given.as_bytes()),
            equal,
            "{wanted:?} {given:?}"
        );
    }
}

#[test]
fn websockets_are_known_in_any_spelling() {
    for (value, wanted) in [
        ("websocket", true),
        ("WebSocket", true),
        ("h2c, websocket/13", true),
        ("h2c", false),
        ("TLS/1.0", false),
        ("websockets", false),
    ] {
        let headers = HeaderMap::from_iter([(UPGRADE, HeaderValue::from_static(value))]);
        assert_eq!(wants_websocket(&headers), wanted, "{value}");
    }
}

proptest! {
    #[test]
    fn only_equal_tokens_are_the_same(wanted in "[a-c]{1,4}", given in "[a-c]{0,5}") {
        prop_assert_eq!(equals_secret(wanted.as_bytes(), given.as_bytes()), wanted == given);
    }

    #[test]
    fn a_name_that_is_split_is_put_together_again(name in "[a-z.@:\\[\\]0-9]{0,12}") {
        if let Some((host, port)) = split_host(&name) {
            let port = port.map(|port| format!(":{port}")).unwrap_or_default();
            let again = if name.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
            prop_assert!(name.starts_with(&again));
            prop_assert_eq!(name.contains(':') && port.is_empty() && !name.starts_with('['), false);
        }
    }
}
