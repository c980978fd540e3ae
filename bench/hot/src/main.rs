//! The hot paths as a plain program: does the work of one a number of times, so that its
//! instructions can be counted; and counts them, and compares with those that are kept.
//!
//! `hot run NAME TIMES` does the work. `hot check FILE` and `hot update FILE` run that under
//! Callgrind, twice per path: what so many times more cost, divided by them, is the path alone,
//! without the start of the process and the making of its input. `hot grow NAME LENGTH` does
//! another kind of work once, with an input of that length; `hot check` compares two lengths of it.

mod count;
mod growth;
mod paths;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str =
    "usage: hot run NAME TIMES | hot grow NAME LENGTH | hot check FILE | hot update FILE";

#[expect(clippy::print_stderr, reason = "a program for the command line")]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["run", name, times] => times
            .parse()
            .map_err(|_| format!("{times} is no number"))
            .and_then(|times| paths::run(name, times)),
        ["grow", name, length] => length
            .parse()
            .map_err(|_| format!("{length} is no number"))
            .and_then(|length| growth::run(name, length)),
        ["check", file] => count::check(Path::new(file)),
        ["update", file] => count::update(Path::new(file)),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
