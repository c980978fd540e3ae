//! Recorded sessions through the detectors, beside other projects' rules: the tables of
//! docs/detectors.md.
//!
//! `detectors FOLDER [--list]`: FOLDER holds what `bench/detectors/run` puts there. `--list` names
//! the flagged sessions that are no failures, and what was seen in them, instead.

mod baselines;
mod choose;
mod group;
mod inject;
mod read;
mod replay;
mod report;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: detectors FOLDER [--list]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [folder] => read::folder(Path::new(folder)).map(report::print),
        [folder, "--list"] => read::folder(Path::new(folder)).map(|all| report::list(&all)),
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
