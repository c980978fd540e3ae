//! Included by the tests of each crate that reads third-party recordings. They lie in `../shared`,
//! beside the checkout, and are not part of this repository: the tests that read them are ignored, so
//! that they show in the count, and run from here where the folder exists.

use std::path::Path;
use std::process::Command;

/// Fails without recordings if `SOFTLAND_RECORDINGS=require` is set.
#[test]
fn tests_of_recordings_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    if !folder.is_dir() {
        let required = std::env::var("SOFTLAND_RECORDINGS").is_ok_and(|value| value == "require");
        assert!(!required, "SOFTLAND_RECORDINGS=require is set, and there is no {folder:?}");
        println!("skipped: there is no {folder:?}");
        return;
    }
    let tests = std::env::current_exe().expect("this program");
    let run = Command::new(tests).args(["--ignored", "record"]).output().expect("it runs");
    let shown = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && !shown.contains("running 0 tests"), "{shown}");
    println!("{shown}");
}
