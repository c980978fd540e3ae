//! Redis behind TLS.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::process::Command;

use rcgen::{CertificateParams, KeyPair};
use softland_govern::SharedState as _;

use crate::server::{RedisServer, free_port};

/// The variable that gives the address to [`asks_under_a_root_of_its_own`].
const ADDRESS: &str = "SOFTLAND_TEST_REDIS";

/// Asks a Redis by TLS, in a process whose roots are those of `SSL_CERT_FILE`.
#[tokio::test]
#[ignore = "a part of the test by TLS, which names the address"]
async fn asks_under_a_root_of_its_own() {
    let address = std::env::var(ADDRESS).expect("an address");
    let state = softland_redis::connect(&address).expect("an address");
    assert_eq!(state.find_run("nobody").await, Ok(None));
}

/// Runs [`asks_under_a_root_of_its_own`] with a root. Returns what it has printed where it failed.
fn ask(address: &str, root: &std::path::Path) -> Result<(), String> {
    let mut tests = Command::new(std::env::current_exe().expect("this program"));
    tests.args(["--ignored", "--exact", "tls::asks_under_a_root_of_its_own"]);
    let run = tests.env(ADDRESS, address).env("SSL_CERT_FILE", root).env_remove("SSL_CERT_DIR");
    let run = run.output().expect("it runs");
    let shown = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(shown.contains("running 1 test"), "{shown}");
    if run.status.success() { Ok(()) } else { Err(shown) }
}

#[test]
#[ignore = "needs redis-server"]
fn a_redis_by_tls_is_asked_if_its_root_is_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut roots = Vec::new();
    for name in ["own", "other"] {
        let key = KeyPair::generate().expect("a key");
        let parts = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]);
        let certificate = parts.expect("names").self_signed(&key).expect("signed");
        let root = folder.path().join(name);
        std::fs::write(&root, certificate.pem()).expect("written");
        std::fs::write(root.with_extension("key"), key.serialize_pem()).expect("written");
        roots.push(root);
    }
    let (root, key, port) = (&roots[0], roots[0].with_extension("key"), free_port().to_string());
    let [root_text, key] = [root, &key].map(|path| path.to_str().expect("a path"));
    let server = RedisServer::start_with(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        root_text,
        "--tls-key-file",
        key,
        "--tls-auth-clients",
        "no",
    ]);
    for host in ["127.0.0.1", "localhost"] {
        ask(&format!("rediss://{host}:{port}"), root).expect("its root is known");
    }
    let stranger = ask(&format!("rediss://127.0.0.1:{port}"), &roots[1]).expect_err("not known");
    assert!(stranger.to_lowercase().contains("certificate"), "{stranger}");
    // Without TLS the same port says nothing of use.
    assert!(ask(&format!("redis://127.0.0.1:{port}"), root).is_err());
    drop(server);
}
