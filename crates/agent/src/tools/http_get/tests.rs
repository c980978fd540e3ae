use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use super::*;
use crate::tool::{ToolCall, ToolSet};
use tokio_util::sync::CancellationToken;

fn hosts(texts: &[&str]) -> Vec<Host> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn addresses_that_are_not_public_are_known() {
    for ip in [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:c0a8:1::1",
        "3fff::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(!address::is_public(ip.parse().unwrap()), "{ip}");
    }
    for ip in [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.0.1",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.167.0.1",
        "198.17.0.1",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2a00:1450::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::1",
        "2001:200::1",
    ] {
        assert!(address::is_public(ip.parse().unwrap()), "{ip}");
    }
}

#[test]
fn hosts_are_names_ports_and_stars() {
    use HostAccess::{Named, No, Public};

    let allowed = hosts(&[
        "Docs.RS",
        "*.example.com",
        "localhost:3000",
        "bücher.example",
        "127.1",
        "x.org:80",
        "y.org:443",
    ]);
    let shown: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown.join(" "),
        "docs.rs *.example.com localhost:3000 xn--bcher-kva.example 127.0.0.1 x.org:80 y.org:443"
    );
    for (url, wanted) in [
        ("https://docs.rs/tokio", Named),
        ("http://DOCS.rs./", Named),
        ("https://docs.rs:8443/", No),
        ("https://docs.rs.evil.example/", No),
        ("https://evildocs.rs/", No),
        ("https://a.example.com/", Public),
        ("https://a.b.example.com/", Public),
        ("https://example.com/", No),
        ("https://notexample.com/", No),
        ("http://localhost:3000/", Named),
        ("http://localhost/", No),
        ("https://b\u{fc}cher.example/", Named),
        ("http://0x7f000001/", Named),
        ("http://x.org/", Named),
        ("https://x.org/", No),
        ("https://x.org:80/", Named),
        ("https://y.org/", Named),
        ("http://y.org/", No),
        ("http://y.org:443/", Named),
    ] {
        assert_eq!(allows(&allowed, url), wanted, "{url}");
    }
    assert_eq!(allows(&hosts(&["*"]), "https://anything.example/"), Public);
    assert_eq!(allows(&hosts(&["*"]), "https://anything.example:81/"), No);
    assert_eq!(allows(&hosts(&["*", "a.example"]), "https://a.example/"), Named);
    for bad in
        ["", "*.", "https://docs.rs", "docs.rs/x", "a@b", "a.*.b", "**", "a b", "a:x", "[::1", "."]
    {
        assert!(bad.parse::<Host>().is_err(), "{bad}");
    }
}

fn allows(hosts: &[Host], url: &str) -> HostAccess {
    hosts::host_access(hosts, &Url::parse(url).unwrap())
}

/// Answers each path of a table with its response, on a free port.
fn serve(answers: Vec<(&'static str, String)>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.windows(4).any(|four| four == b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(count @ 1..) => request.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let request = String::from_utf8_lossy(&request).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let answer = answers.iter().find(|(known, _)| *known == path);
            let answer = answer.map_or("HTTP/1.1 404 No\r\n\r\nnothing here", |(_, text)| text);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

fn ok(kind: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n{body}")
}

fn to(location: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\nconnection: close\r\n\r\n")
}

async fn get(allowed: &[&str], url: &str) -> ToolOutput {
    let tools = ToolSet::new().with_tool(HttpGet { allowed: hosts(allowed) }).unwrap();
    let input_raw = json!({"url": url}).to_string();
    let call = ToolCall { id: "t".into(), name: "http_get".into(), input_raw };
    tools.run_call(&call, &CancellationToken::new()).await
}

#[tokio::test]
async fn a_page_is_fetched_where_its_host_is_named() {
    let long = "x".repeat(3 * 1024 * 1024);
    let port = serve(vec![
        ("/page", ok("text/html", "<p>hé</p>")),
        ("/long", ok("text/plain", &long)),
        ("/binary", ok("image/png", "\u{0}\u{1}")),
        ("/there", to("page")),
        ("/loop", to("/loop")),
    ]);
    let named = format!("127.0.0.1:{port}");
    let base = format!("http://{named}");
    let page = get(&[&named], &format!("{base}/page")).await;
    assert_eq!(page, ToolOutput::ok(format!("HTTP 200 · text/html · {base}/page\n\n<p>hé</p>")));
    let there = get(&[&named], &format!("{base}/there")).await;
    assert_eq!(there, page);
    let localhost = format!("localhost:{port}");
    assert!(!get(&[&localhost], &format!("http://{localhost}/page")).await.is_error);
    let none = get(&[&named], &format!("{base}/none")).await;
    assert!(none.is_error && none.content.starts_with("HTTP 404 · no content type · "), "{none:?}");
    assert!(none.content.ends_with("\n\nnothing here"));
    let looped = get(&[&named], &format!("{base}/loop")).await;
    assert!(looped.content.starts_with("more than 5 redirects"), "{looped:?}");
    let long = get(&[&named], &format!("{base}/long")).await;
    assert!(long.content.len() < 50 * 1024 && long.content.contains("characters left out"));
    assert!(long.content.ends_with("[the page is longer than the 2097152 bytes that are read]"));
    let binary = get(&[&named], &format!("{base}/binary")).await;
    assert!(
        binary.is_error && binary.content.ends_with("[binary, 2 bytes: only text can be shown]")
    );
}

#[tokio::test]
async fn what_is_not_allowed_is_not_connected_to() {
    let port = serve(vec![("/", ok("text/plain", "TREASURE"))]);
    let inner = format!("http://127.0.0.1:{port}/");
    let hop = serve(vec![
        ("/inner", to(&inner)),
        ("/name", to(&format!("http://localhost:{port}/"))),
        ("/file", to("file:///etc/passwd")),
    ]);
    let named = format!("127.0.0.1:{hop}");
    let star = format!("*.localhost:{port}");
    for (allowed, url, wanted) in [
        (&["*"][..], "file:///etc/passwd".to_owned(), "only http and https"),
        (&["*"], "nowhere".to_owned(), "is not a URL"),
        (&["*"], "https://me:hunter2@example.com/".to_owned(), "with a user or password"),
        (&["docs.rs"], "https://crates.io/".to_owned(), "is not allowed; allowed are: docs.rs"),
        (&["docs.rs"], "https://docs.rs:8443/".to_owned(), "(port 8443 only where it is named)"),
        (&["*"], "http://127.0.0.1/".to_owned(), "private network"),
        (&["*"], "http://2130706433/".to_owned(), "private network"),
        (&["*"], "http://[::ffff:127.0.0.1]/".to_owned(), "private network"),
        (&["*"], "http://169.254.169.254/latest/".to_owned(), "private network"),
        // Names are resolved, and their addresses are checked.
        (&["*"], "http://localhost/".to_owned(), "private network"),
        (&[&star], format!("http://a.localhost:{port}/"), "cannot be fetched"),
        // Redirects lead no further than a call could.
        (&[&named], format!("http://{named}/inner"), "is not allowed"),
        (&[&named, "*"], format!("http://{named}/name"), "is not allowed"),
        (&[&named, "*"], format!("http://{named}/file"), "only http and https"),
    ] {
        let output = get(allowed, &url).await;
        assert!(output.is_error && output.content.contains(wanted), "{url}: {output:?}");
        assert!(!output.content.contains("TREASURE") && !output.content.contains("hunter2"));
    }
    let reached =
        get(&[&named, &format!("127.0.0.1:{port}")], &format!("http://{named}/inner")).await;
    assert!(reached.content.ends_with("TREASURE"), "{reached:?}");
}

/// Connects to the address that was checked, even if the name resolves differently later.
#[tokio::test]
async fn the_address_that_is_connected_to_is_the_one_that_is_checked() {
    let look = |private: bool| async move {
        let found = CheckedResolver { private }.resolve("localhost".parse().unwrap()).await;
        found.map(Iterator::count).map_err(|error| error.to_string())
    };
    assert!(look(true).await.unwrap() > 0);
    assert_eq!(look(false).await, Err(not_public_message("localhost")));
}
