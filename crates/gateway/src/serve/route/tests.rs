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
        assert_eq!(sound("", path), Ok(()), "{path}");
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
        "/v1/messages%3Fbeta=true",
        "/v1/messages%23x",
        "/to/x/v1/messages/count%5ftokens",
        "/v1/chat%2fcompletions",
    ] {
        assert!(sound("", path).is_err(), "{path}");
    }
}

#[test]
fn a_slash_or_a_v1_too_many_is_what_was_meant() {
    for (path, known) in [
        ("/v1/messages", Some("/v1/messages")),
        ("/v1/messages/", Some("/v1/messages")),
        ("//v1/messages", Some("/v1/messages")),
        ("/v1//messages//", Some("/v1/messages")),
        ("/v1/v1/messages", Some("/v1/messages")),
        ("/v1/v1/v1/messages/count_tokens/", Some("/v1/messages/count_tokens")),
        ("/v1/v1//chat/completions", Some("/v1/chat/completions")),
        ("/v1/responses/", Some("/v1/responses")),
        ("/v1/responses/compact", Some("/v1/responses/compact")),
        ("/v1//responses/compact/", Some("/v1/responses/compact")),
        ("/messages", None),
        ("/v1", None),
        ("/v1/", None),
        ("/v1/v1", None),
        ("/v1/message", None),
        ("/v1/messages/batches", None),
        ("/v1/messages/v1", None),
        ("/v1/chat", None),
        ("/v1/chat/completions/chatcmpl-1", None),
        ("/v1/responses/resp_1/cancel", None),
        ("/v1/threads/thread_1/messages", None),
        ("/v1/x/v1/messages", None),
        ("/V1/messages", None),
    ] {
        assert_eq!(find_governed(path).map(|(known, _)| known), known, "{path}");
    }
}

#[test]
fn what_another_reader_takes_for_a_governed_path_is_refused() {
    for path in [
        "/V1/messages",
        "/v1/Messages",
        "/v1/chat/COMPLETIONS/",
        "/v1/messages;v=1",
        "/v1/messages%20",
        "/v1/messages%2F",
        "/v1/x/v1/messages",
        "/v1/openai/v1/responses",
        "/v1/openai/chat/completions",
        "/v1/engines/gpt-5/chat/completions",
    ] {
        assert!(find_governed(path).is_none() && sound("", path).is_err(), "{path}");
    }
    for path in [
        "/v1/messages/batches",
        "/v1/messages/batches/msgbatch_1/cancel",
        "/v1/threads/thread_1/messages",
        "/v1/chat/completions/chatcmpl-1",
        "/v1/responses/input_tokens",
        "/v1/completions",
        "/v1/models/",
    ] {
        assert!(find_governed(path).is_none() && sound("", path).is_ok(), "{path}");
    }
}

/// Writes a segment in one of the ways that some server reads as the plain segment.
fn written(segment: &str, how: u8, at: usize) -> String {
    let at = at % segment.len();
    let (before, rest) = segment.split_at(at);
    let (byte, after) = rest.split_at(1);
    match how {
        0 => [before, &byte.to_uppercase(), after].concat(),
        1 => format!("{before}%{:02x}{after}", byte.as_bytes()[0]),
        2 => format!("{segment};a=b"),
        3 => format!("{segment}%20"),
        4 => format!("{segment}/"),
        5 => format!("/{segment}"),
        _ => segment.to_owned(),
    }
}

proptest! {
    /// A governed path that is misspelt in a way that some server accepts is governed under its own
    /// name, or refused.
    #[test]
    fn no_near_miss_passes(
        route in proptest::sample::select(GOVERNED.map(|(known, _)| known).to_vec()),
        v1 in 0_usize..3,
        before in proptest::option::of("[a-z]{1,5}"),
        spelt in proptest::collection::vec((0_u8..12, any::<usize>()), 8),
    ) {
        let segments = before.as_deref().into_iter().chain(std::iter::repeat_n("v1", v1));
        let segments = segments.chain(route.split('/').skip(1));
        let path: String = segments
            .zip(spelt)
            .map(|(segment, (how, at))| ["/", &written(segment, how, at)].concat())
            .collect();
        match find_governed(&path) {
            Some((known, _)) => prop_assert_eq!(known, route),
            None => prop_assert!(sound("", &path).is_err() || !path.starts_with("/v1/"), "{}", path),
        }
    }

    /// If a server that decodes escapes, or one that then removes dot segments, finds a governed
    /// route at the end of an escaped path, the path is that route or is refused.
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
        prop_assert_eq!(sound("", &path).is_ok(), path == route, "{}", path);
    }

    #[test]
    fn any_path_is_judged(path in "(/|%|\\.|[0-9a-f]|\\\\|v1|é){0,20}") {
        let _ = sound("", &path);
        prop_assert_eq!(decode_percent(&path).len() <= path.len(), true);
    }
}

#[test]
fn a_refused_path_is_told_as_it_must_be_written() {
    let told = sound("/to/east", "/chat/completions").unwrap_err();
    assert!(told.starts_with("the path must be written /to/east/v1/chat/completions: "), "{told}");
}
