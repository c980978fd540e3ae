//! A gateway that serves TLS.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::Arc;

use crate::support::Running;
use crate::support::script::{Scripted, says};
use crate::support::sim::governed;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use softland_gateway::{ReloadProblem, ServerTls, Settings, TlsProblem};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A certificate that vouches for itself, and its key, as PEM.
fn certificate() -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let names = vec!["gateway.example".to_owned()];
    let certificate = CertificateParams::new(names).expect("names").self_signed(&key);
    (certificate.expect("signed").pem(), key.serialize_pem())
}

fn with_tls(url: &str, (chain, key): &(String, String)) -> Settings {
    let mut settings = governed(url, &[]);
    settings.allowed_hosts = vec!["gateway.example".to_owned()];
    settings.tls = Some(ServerTls::from_pem(chain.as_bytes(), key.as_bytes()).expect("a pair"));
    settings
}

/// Asks for the gateway's health as a client that trusts only this certificate.
async fn ask(gateway: &Running, trusted: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    let own = CertificateDer::from_pem_slice(trusted.as_bytes()).expect("PEM");
    roots.add(own).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("gateway.example").expect("a name");
    let stream = TcpStream::connect(gateway.address).await?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let head = "GET /healthz HTTP/1.1\r\nhost: gateway.example\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn k19_a_certificate_serves_and_is_replaced_without_a_restart() {
    let upstream = Scripted::plays(vec![says("so")]).await;
    let (first, second) = (certificate(), certificate());
    let gateway = Running::with(with_tls(&upstream.url(), &first)).await;
    assert!(gateway.handle.pages_url().starts_with("https://"));
    assert!(ask(&gateway, &first.0).await.expect("an answer").starts_with("HTTP/1.1 200"));
    assert!(ask(&gateway, &second.0).await.is_err(), "another certificate");
    let renewed = with_tls(&upstream.url(), &second);
    gateway.handle.reload(renewed).expect("in force");
    assert!(ask(&gateway, &second.0).await.expect("an answer").starts_with("HTTP/1.1 200"));
    assert!(ask(&gateway, &first.0).await.is_err(), "the old certificate is gone");
    let plain = Settings { tls: None, ..with_tls(&upstream.url(), &second) };
    assert_eq!(gateway.handle.reload(plain), Err(ReloadProblem::Tls));
}

/// A client without TLS gets nothing, and does not stop the gateway.
#[tokio::test]
async fn a_client_without_tls_is_turned_away() {
    let upstream = Scripted::plays(vec![says("so")]).await;
    let pair = certificate();
    let gateway = Running::with(with_tls(&upstream.url(), &pair)).await;
    let mut plain = TcpStream::connect(gateway.address).await.expect("a connection");
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: gateway.example\r\n\r\n").await.expect("sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert!(ask(&gateway, &pair.0).await.expect("an answer").starts_with("HTTP/1.1 200"));
}

#[test]
fn what_cannot_serve_is_named() {
    let ((chain, key), (_, other)) = (certificate(), certificate());
    let read =
        |chain: &str, key: &str| ServerTls::from_pem(chain.as_bytes(), key.as_bytes()).map(|_| ());
    assert_eq!(read(&chain, &key), Ok(()));
    assert!(matches!(read("", &key), Err(TlsProblem::Chain(_))));
    assert!(matches!(read(&key, &key), Err(TlsProblem::Chain(_))), "no certificate");
    assert!(matches!(read(&chain, &chain), Err(TlsProblem::Key(_))));
    assert!(matches!(read(&chain, &other), Err(TlsProblem::Pair(_))), "another's key");
    let said = read(&chain, &key[..key.len() / 2]).expect_err("half a key").to_string();
    assert!(said.starts_with("the private key is not readable as PEM: "), "{said}");
}
