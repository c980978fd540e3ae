//! Decides whether a failed request may be sent again, and after which delay.
//!
//! This module is pure: it has no clock and no randomness of its own. It does not know whether a
//! part of the answer was shown. A caller that has shown a part must not retry.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use jiff::Timestamp;

use super::{ResponseHead, TimeoutPhase, TransportError, TransportErrorKind};

/// Statuses that the same request would get again. There is no retry, whatever the server says.
const NEVER: [u16; 5] = [400, 401, 403, 404, 413];

/// The number and the delays of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Retries after the first attempt. Default 4.
    pub max_retries: u32,
    /// The upper bound of the first delay. It doubles with each retry. Default 0.5 s.
    pub base: Duration,
    /// The upper bound of all these delays. Default 8 s.
    pub cap: Duration,
    /// The longest delay that a server may ask for. A server that asks for more gets no retry,
    /// since an earlier one would fail too. Default 60 s.
    pub max_retry_after: Duration,
}

impl Default for RetryPolicy {
    /// Base and cap are those of the Anthropic and OpenAI SDKs (0.5 s and 8 s).
    fn default() -> Self {
        Self {
            max_retries: 4,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(8),
            max_retry_after: Duration::from_secs(60),
        }
    }
}

/// The failure of the last attempt.
#[derive(Clone, Copy, Debug)]
pub enum FailedAttempt<'a> {
    /// A response with an error status.
    Status(u16, &'a ResponseHead),
    /// No response, or a response that broke off.
    Transport(&'a TransportError),
}

impl RetryPolicy {
    /// Returns the delay before retry number `retry` (0 for the first); `None` means to give up.
    ///
    /// Unless the server asks for a delay, it is `jitter` (0 to 1) times the exponential bound
    /// ("full jitter"). Otherwise it is the server's delay plus up to `base`, so that clients do
    /// not return all at once. It is never shorter than the server asks.
    #[must_use]
    pub fn next_delay(
        &self,
        retry: u32,
        failure: FailedAttempt<'_>,
        jitter: f64,
    ) -> Option<Duration> {
        let most = if is_unreachable(failure) { 1 } else { self.max_retries };
        if retry >= most.min(self.max_retries) || !is_retryable(failure) {
            return None;
        }
        // NaN and values outside 0 to 1 get the longest delay.
        let jitter = if (0.0..=1.0).contains(&jitter) { jitter } else { 1.0 };
        if let FailedAttempt::Status(_, ResponseHead { retry_after: Some(wished), .. }) = failure {
            return (*wished <= self.max_retry_after)
                .then(|| wished.saturating_add(self.base.mul_f64(jitter)));
        }
        let bound = self.base.saturating_mul(2_u32.saturating_pow(retry)).min(self.cap);
        Some(bound.mul_f64(jitter))
    }
}

/// Returns true if nobody answered within the connect timeout. Waiting that long again and again
/// helps nobody.
fn is_unreachable(failure: FailedAttempt<'_>) -> bool {
    let connect = TimeoutPhase::Connect;
    matches!(failure, FailedAttempt::Transport(error)
        if matches!(error.kind, TransportErrorKind::Timeout { phase, .. } if phase == connect))
}

/// Returns true for 408, 409, 429 and 5xx, as in the Anthropic and OpenAI SDKs, and for lost
/// connections.
fn is_retryable(failure: FailedAttempt<'_>) -> bool {
    match failure {
        FailedAttempt::Status(status, _) if NEVER.contains(&status) => false,
        FailedAttempt::Status(status, head) => {
            head.should_retry.unwrap_or_else(|| match status {
                408 | 409 | 429 => true,
                // Not implemented; version not supported.
                501 | 505 => false,
                _ => (500..600).contains(&status),
            })
        }
        FailedAttempt::Transport(error) => match error.kind {
            TransportErrorKind::Refused
            | TransportErrorKind::Dns
            | TransportErrorKind::Connect { .. }
            | TransportErrorKind::Timeout { .. }
            | TransportErrorKind::Broken { .. } => true,
            TransportErrorKind::Unusable { .. }
            | TransportErrorKind::Tls { .. }
            | TransportErrorKind::Redirect { .. }
            | TransportErrorKind::TooLarge { .. } => false,
        },
    }
}

/// Parses a `retry-after` header: seconds, whole or not, or an HTTP date (a past date means no
/// delay).
#[must_use]
pub fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if value.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Duration::try_from_secs_f64(value.parse().ok()?).ok();
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// Numbers from 0 to 1 that spread retries; not for secrets.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// Creates a generator that gives the same numbers for the same seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates a generator whose numbers differ from process to process.
    #[must_use]
    pub fn random() -> Self {
        Self(RandomState::new().build_hasher().finish())
    }

    /// Returns the next number, at least 0 and below 1 (SplitMix64).
    pub fn next_number(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        // An f64 holds 53 bits exactly.
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}
