//! New tokens: of the pages, for a configuration that names none, and of keys.

use softland_session::core::Digest;

use crate::secret::Secret;

/// Returns a token that cannot be guessed, and a short name of this process that does not reveal
/// it.
pub(crate) fn make_secrets() -> (Secret, String) {
    // Without randomness the token is empty: then nothing can be changed through the pages.
    let token = random_digits::<24>().unwrap_or_default();
    let mut stamp =
        Digest::from_bytes(token.as_bytes()).followed_by(Digest::from_bytes(b"stamp")).to_string();
    stamp.truncate(8);
    (Secret::new(token), stamp)
}

/// Returns a new token for a key, which cannot be guessed; `None` if the system has no randomness. It
/// begins with `sl-`, so that people and secret scanners recognise it.
#[must_use]
pub fn make_key_token() -> Option<String> {
    random_digits::<32>().map(|digits| format!("sl-{digits}"))
}

/// Returns so many random bytes in hexadecimal digits, from the system's source of randomness.
fn random_digits<const BYTES: usize>() -> Option<String> {
    let mut bytes = [0_u8; BYTES];
    let provider = rustls::crypto::ring::default_provider();
    provider.secure_random.fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_is_a_new_one_and_as_long_as_can_not_be_guessed() {
        let [one, other] =
            [make_key_token(), make_key_token()].map(|token| token.expect("a token"));
        assert_ne!(one, other);
        let digits = one.strip_prefix("sl-").expect("the mark");
        assert!(digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
    }
}
