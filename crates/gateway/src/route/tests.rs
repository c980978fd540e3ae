use proptest::prelude::*;

use super::*;

#[test]
fn a_path_has_one_reading() {
    for path in [
        "/v1/messages",
        "/v1/models/claude-3.5",
        "/v1/models/a%2Fb",
        "/v1/a..b",
        "/v1/...",
        "/v1/%zz%4",
        "/v1/x%20y",
    ] {
        assert_eq!(sound(path), Ok(()), "{path}");
    }
    for path in [
        "/v1//x",
        "/v1/.",
        "/v1/../x",
        "/v1/%2e%2E/x",
        "/v1/x%2f..%2fy",
        "/v1/x%5c..",
        "/v1/x\\y",
        "/v1/%00",
        "/v1/%7f",
        "/v1/mess%61ges",
        "/to/x/v1/messages/count%5ftokens",
        "/v1/chat%2fcompletions",
    ] {
        assert!(sound(path).is_err(), "{path}");
    }
}

proptest! {
    /// However a path is escaped: if a server that reads escapes, and one that then removes dot
    /// segments, finds a governed route at its end, either it is written so or it is refused.
    #[test]
    fn no_escape_leads_to_a_governed_route(
        route in proptest::sample::select(vec![
            "/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions", "/v1/responses",
        ]),
        escaped in proptest::collection::vec(any::<bool>(), 32),
        climbs in proptest::option::of(0_usize..3),
    ) {
        let climb = climbs.map(|n| ["/x/..", "/.", "/x/%2e%2E"][n]).unwrap_or_default();
        let mut path = String::from(climb);
        for (byte, escaped) in route.bytes().zip(escaped.into_iter().chain([false; 32])) {
            if escaped {
                path += &format!("%{byte:02x}");
            } else {
                path.push(char::from(byte));
            }
        }
        prop_assert_eq!(sound(&path).is_ok(), path == route);
    }

    #[test]
    fn any_path_is_judged(path in "(/|%|\\.|[0-9a-f]|\\\\|v1|é){0,20}") {
        let _ = sound(&path);
        prop_assert_eq!(unescape(&path).len() <= path.len(), true);
    }
}
