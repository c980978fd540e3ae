//! Access to `/metrics`, `/readyz` and the admin address, and the time for which they are served.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::net::SocketAddr;
use std::sync::Arc;

use crate::support::{Message, Provider, Running, Wire, response, settings};
use softland_gateway::{KeyEntry, Secret, Settings};
use tokio::net::TcpStream;
use tokio::sync::Notify;

async fn running(change: impl FnOnce(&mut Settings)) -> (Provider, Running) {
    let provider = Provider::says(response("200 OK", &[], "ok")).await;
    let mut settings = settings(&provider.url());
    change(&mut settings);
    let gateway = Running::with(settings).await;
    (provider, gateway)
}

/// Asks at an address, by the name under which it is reached.
async fn get(address: SocketAddr, path: &str, headers: &[&str]) -> Message {
    let at = SocketAddr::new("127.0.0.1".parse().expect("an address"), address.port());
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {at}\r\n{headers}\r\n");
    Wire::to(at).await.ask(request).await
}

fn everywhere() -> SocketAddr {
    "0.0.0.0:0".parse().expect("an address")
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

#[tokio::test]
async fn off_loopback_the_numbers_need_a_token_and_the_health_does_not() {
    let (_provider, gateway) = running(|settings| {
        settings.listen = everywhere();
        settings.admin.token = Some(Secret::new("admin-token"));
        settings.keys = vec![KeyEntry::from_token("client-token")];
    })
    .await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(gateway.address, path, &[]).await.status(), 200, "{path}");
    }
    for headers in [
        &[][..],
        &["authorization: Bearer wrong"],
        &["authorization: Bearer client-token"],
        &["authorization: Bearer admin-toke"],
        &["authorization: Basic admin-token"],
        &["x-api-key: admin-token"],
        &["authorization: Bearer admin-token", "authorization: Bearer other"],
    ] {
        let got = get(gateway.address, "/metrics", headers).await;
        assert_eq!(got.status(), 401, "{headers:?}");
        assert!(!got.text().contains("token\":") && !got.text().contains("softland_requests"));
    }
    let got = get(gateway.address, "/metrics", &["authorization: Bearer admin-token"]).await;
    assert_eq!(got.status(), 200);
    assert!(got.text().contains("softland_requests_total"), "{}", got.text());
    // It opens nothing else.
    let got = get(gateway.address, "/v1/models", &["authorization: Bearer admin-token"]).await;
    assert_eq!(got.status(), 401);
}

#[tokio::test]
async fn without_a_token_nobody_reads_them_off_loopback_and_everybody_on_it() {
    let (_provider, gateway) = running(|settings| settings.listen = everywhere()).await;
    let got = get(gateway.address, "/metrics", &["authorization: Bearer x"]).await;
    assert_eq!(got.status(), 403);
    assert!(got.text().contains("token_env"), "{}", got.text());
    // A token is no duty on loopback.
    let token = |settings: &mut Settings| settings.admin.token = Some(Secret::new("t"));
    let (_provider, gateway) = running(token).await;
    assert_eq!(get(gateway.address, "/metrics", &[]).await.status(), 200);
}

#[tokio::test]
async fn an_admin_address_has_its_own_rule_and_asks_no_provider() {
    let (provider, gateway) = running(|settings| {
        settings.listen = everywhere();
        settings.admin.listen = Some(loopback());
    })
    .await;
    let admin = gateway.admin.expect("an admin address");
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/metrics", 200)] {
        assert_eq!(get(admin, path, &[]).await.status(), status, "{path}");
    }
    for path in ["/v1/models", "/to/other/v1/models"] {
        let got = get(admin, path, &["x-api-key: k", "anthropic-version: 2023-06-01"]).await;
        assert_eq!(got.status(), 404, "{path}");
    }
    assert_eq!(provider.count(), 0);
    assert_eq!(get(gateway.address, "/metrics", &[]).await.status(), 403);
    assert_eq!(get(gateway.address, "/v1/models", &[]).await.status(), 200);
    // Web pages of other names are refused there too.
    let evil = "GET /metrics HTTP/1.1\r\nhost: evil.example\r\n\r\n";
    assert_eq!(Wire::to(admin).await.ask(evil).await.status(), 403);

    let (_provider, gateway) = running(|settings| {
        settings.admin.listen = Some(everywhere());
        settings.admin.token = Some(Secret::new("t"));
    })
    .await;
    let admin = gateway.admin.expect("an admin address");
    assert_eq!(get(admin, "/metrics", &[]).await.status(), 401);
    assert_eq!(get(admin, "/metrics", &["authorization: bearer t"]).await.status(), 200);
    assert_eq!(get(gateway.address, "/metrics", &[]).await.status(), 200);
}

#[tokio::test]
async fn while_it_drains_the_admin_address_says_so_and_then_is_gone() {
    let (came, goes_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, waits) = (Arc::clone(&came), Arc::clone(&goes_on));
    let provider = Provider::does(move |_, wire| {
        let (told, waits) = (Arc::clone(&told), Arc::clone(&waits));
        async move {
            let mut wire = wire.lock().await;
            told.notify_one();
            waits.notified().await;
            wire.send(response("200 OK", &[], "at last")).await;
            true
        }
    })
    .await;
    let mut settings = settings(&provider.url());
    settings.admin.listen = Some(loopback());
    let mut gateway = Running::with(settings).await;
    let admin = gateway.admin.expect("an admin address");
    let mut busy = gateway.client().await;
    busy.send(gateway.request("POST /v1/messages", &[], "{}")).await;
    let mut kept = Wire::to(admin).await;
    let ready = format!("GET /readyz HTTP/1.1\r\nhost: {admin}\r\n\r\n");
    assert_eq!(kept.ask(&ready).await.status(), 200);
    came.notified().await;
    gateway.tell_to_stop();
    // Clients are told by the closed door, at once.
    gateway.until_closed().await;
    for client in [&mut kept, &mut Wire::to(admin).await] {
        let got = client.ask(&ready).await;
        assert_eq!((got.status(), got.text()), (503, "draining\n"));
    }
    assert_eq!(get(admin, "/healthz", &[]).await.status(), 200);
    assert_eq!(get(admin, "/metrics", &[]).await.status(), 200);
    goes_on.notify_one();
    assert_eq!(busy.message().await.expect("its answer").text(), "at last");
    gateway.stopped().await;
    assert!(TcpStream::connect(admin).await.is_err(), "it is gone with the gateway");
}
