//! The identity of this build. A run stays with the build that began it.

use softland_agent::core::Digest;

/// Returns the version and a digest of this program's file.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub(crate) fn build_id() -> std::io::Result<String> {
    let program = std::fs::read(std::env::current_exe()?)?;
    let digest = Digest::from_bytes(&program).to_string();
    let digest = digest.get(..12).unwrap_or(&digest);
    Ok(format!("{}-{digest}", env!("CARGO_PKG_VERSION")))
}
