//! The token of the pages, for a configuration that names none.

use softland_session::core::Digest;

use crate::secret::Secret;

/// Returns a token that cannot be guessed, and a short name of this process that does not reveal
/// it.
pub(crate) fn make_secrets() -> (Secret, String) {
    let mut token = [0_u8; 24];
    // Without randomness the token is empty: then nothing can be changed through the pages.
    let provider = rustls::crypto::ring::default_provider();
    let token = match provider.secure_random.fill(&mut token) {
        Ok(()) => token.iter().map(|byte| format!("{byte:02x}")).collect(),
        Err(_) => String::new(),
    };
    let mut stamp =
        Digest::from_bytes(token.as_bytes()).followed_by(Digest::from_bytes(b"stamp")).to_string();
    stamp.truncate(8);
    (Secret::new(token), stamp)
}
