//! Tests of the pure retry policy.

use jiff::Timestamp;
use proptest::prelude::*;

use crate::http::retry::{FailedAttempt, Jitter, RetryPolicy, parse_retry_after};
use crate::http::*;

fn delay(status: u16, head: &ResponseHead) -> Option<Duration> {
    RetryPolicy::default().next_delay(0, FailedAttempt::Status(status, head), 0.5)
}

#[test]
fn what_may_be_repeated() {
    let none = ResponseHead::default();
    let yes = ResponseHead { should_retry: Some(true), ..none.clone() };
    let no = ResponseHead { should_retry: Some(false), ..none.clone() };
    for status in [408, 409, 429, 500, 502, 503, 504, 522, 529] {
        assert_eq!(delay(status, &none), Some(Duration::from_millis(250)), "{status}");
        assert_eq!(delay(status, &no), None, "{status}");
    }
    for status in [400, 401, 403, 404, 413] {
        assert_eq!(delay(status, &none), None, "{status}");
        assert_eq!(delay(status, &yes), None, "{status}");
    }
    for status in [402, 422, 501, 505] {
        assert_eq!(delay(status, &none), None, "{status}");
        assert!(delay(status, &yes).is_some(), "{status}");
    }
    let transport = |kind| {
        let error = TransportError::new("", kind);
        RetryPolicy::default().next_delay(0, FailedAttempt::Transport(&error), 1.0).is_some()
    };
    assert!(transport(TransportErrorKind::Refused));
    assert!(transport(TransportErrorKind::Broken { detail: String::new() }));
    assert!(!transport(TransportErrorKind::Tls { detail: String::new() }));
    assert!(!transport(TransportErrorKind::Redirect { status: 302, to: None }));
}

#[test]
fn waits_double_up_to_the_cap_and_end() {
    let policy = RetryPolicy { max_retries: 7, ..RetryPolicy::default() };
    let head = ResponseHead::default();
    let waits = |jitter| -> Vec<Option<u128>> {
        let delay = |n| policy.next_delay(n, FailedAttempt::Status(529, &head), jitter);
        (0..8).map(|n| delay(n).map(|wait| wait.as_millis())).collect()
    };
    let full = [500, 1000, 2000, 4000, 8000, 8000, 8000].map(Some);
    assert_eq!(waits(1.0), [&full[..], &[None]].concat());
    assert_eq!(waits(f64::NAN), waits(1.0));
    assert_eq!(waits(0.0)[..7], [Some(0); 7]);
}

#[test]
fn a_servers_wish_is_kept_or_not_waited_for_at_all() {
    let wish = |seconds| {
        let head = ResponseHead {
            retry_after: Some(Duration::from_secs(seconds)),
            ..ResponseHead::default()
        };
        delay(429, &head).map(|wait| wait.as_millis())
    };
    assert_eq!(wish(0), Some(250));
    assert_eq!(wish(60), Some(60_250));
    assert_eq!(wish(61), None);
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    let parse = |text| parse_retry_after(text, now).map(|wait| wait.as_millis());
    assert_eq!(parse(" 12 "), Some(12_000));
    assert_eq!(parse("0.5"), Some(500));
    assert_eq!(parse("Sat, 21 Nov 2026 12:00:30 GMT"), Some(30_000));
    assert_eq!(parse("Sat, 21 Nov 2026 11:00:00 GMT"), Some(0));
    for bad in ["", "soon", "-1", "1.2.3", "9".repeat(400).as_str(), "2026-11-21"] {
        assert_eq!(parse(bad), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn never_more_retries_nor_longer_waits_than_allowed(
        retry in 0_u32..100,
        status in 100_u16..700,
        wish in proptest::option::of(0_u64..200),
        should_retry in proptest::option::of(any::<bool>()),
        jitter in any::<f64>(),
    ) {
        let policy = RetryPolicy::default();
        let retry_after = wish.map(Duration::from_secs);
        let head = ResponseHead { retry_after, should_retry, ..ResponseHead::default() };
        if let Some(wait) = policy.next_delay(retry, FailedAttempt::Status(status, &head), jitter) {
            prop_assert!(retry < policy.max_retries);
            prop_assert!(wait >= retry_after.unwrap_or_default());
            prop_assert!(wait <= policy.max_retry_after.max(policy.cap) + policy.base);
        }
    }

    #[test]
    fn no_retry_after_makes_the_parser_panic(text in "[0-9.,: a-zA-Z+-]{0,40}") {
        let _ = parse_retry_after(&text, Timestamp::UNIX_EPOCH);
    }

    #[test]
    fn jitter_is_a_share_and_repeats_for_a_seed(seed in any::<u64>()) {
        let (mut one, mut two) = (Jitter::from_seed(seed), Jitter::from_seed(seed));
        for _ in 0..20 {
            let number = one.next_number();
            prop_assert!((0.0..1.0).contains(&number));
            prop_assert_eq!(number, two.next_number());
        }
    }
}

#[test]
fn jitter_spreads() {
    let mut jitter = Jitter::from_seed(1);
    let low = (0..1000).filter(|_| jitter.next_number() < 0.5).count();
    assert!((400..600).contains(&low), "{low}");
}
