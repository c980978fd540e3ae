//! `softland notebook` from outside. Its page is tested in the notebook crate and, in a browser, by
//! `tests/notebook/run`.

#![cfg(feature = "notebook")]

use crate::support::server::*;
use crate::support::*;
use serde_json::Value;
use tempfile::tempdir;

#[test]
fn it_serves_a_page_until_it_is_told_to_stop() {
    let folder = tempdir().unwrap();
    let command = || {
        let mut command = softland();
        command.current_dir(folder.path()).env("XDG_STATE_HOME", folder.path().join("state"));
        command.args(["notebook", "new.ipynb", "--model", "sim/notebook", "--listen"]);
        command
    };
    let mut server = Server::start(command().arg("127.0.0.1:0"));
    let line = server.until("notebook: http://");
    assert!(line.contains("/#token="), "{line}");
    assert_eq!(server.status("/", &server.address), 200);
    assert_eq!(server.status("/app.js", &server.address), 200);
    assert_eq!(server.status("/nothing", &server.address), 404);
    assert_eq!(server.status("/", "evil.example"), 403);
    said_by(command().arg("127.0.0.1:0")).status(2).says("is open in another softland");
    server.signal("TERM");
    let (status, said) = server.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    let text = std::fs::read_to_string(folder.path().join("new.ipynb")).unwrap();
    let notebook: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(notebook["nbformat"], 4);
    said_by(command().arg("0.0.0.0:0")).status(2).says("is not a loopback address");
}

#[test]
fn a_start_that_is_refused_leaves_nothing_behind() {
    let folder = tempdir().unwrap();
    let refused = |file: &str, more: &[&str]| {
        let mut command = softland();
        command.current_dir(folder.path()).env("XDG_STATE_HOME", folder.path().join("state"));
        command.args(["notebook", file, "--model", "sim/notebook"]).args(more);
        let said = said_by(&mut command).status(2);
        assert!(!folder.path().join(file).exists(), "{file} {more:?}");
        said
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    refused("new.ipynb", &["--listen", &taken]).says("another program uses this port");
    refused("new.ipynb", &["--listen", "0.0.0.0:0"]).says("is not a loopback address");
    let free = ["--listen", "127.0.0.1:0"];
    refused("new.ipynb", &["--kernel", "nowhere", free[0], free[1]]).says("there are: ");
    refused("a.txt", &free).says("a.txt does not end in .ipynb");
}
