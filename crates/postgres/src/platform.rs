//! What depends on the system: databases behind sockets in a folder.

use tokio_postgres::config::Host;

/// Returns a host as it stands in an address.
pub(crate) fn describe_host(host: &Host) -> String {
    match host {
        Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(folder) => folder.display().to_string(),
    }
}
