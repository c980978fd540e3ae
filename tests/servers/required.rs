//! Included by the tests of each crate that need a server. They are ignored, so that they show in the
//! count, and run from here where the program is installed.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "helpers of tests")]

use std::path::Path;
use std::process::Command;

/// Runs the ignored tests whose names contain `name`, if there is such a program. Fails without it if
/// `SOFTLAND_SERVERS=require` is set.
pub(crate) fn run_with_server(name: &str, program: &Path) {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        let required = std::env::var("SOFTLAND_SERVERS").is_ok_and(|value| value == "require");
        assert!(!required, "SOFTLAND_SERVERS=require is set, and {program:?} does not run");
        println!("skipped: {program:?} is not installed");
        return;
    }
    let tests = std::env::current_exe().expect("this program");
    let run = Command::new(tests).args(["--ignored", name]).output().expect("it runs");
    let shown = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && !shown.contains("running 0 tests"), "{shown}");
    println!("{shown}");
}
