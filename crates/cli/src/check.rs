//! `softland check`: validates agent files and configs, and runs nothing.

use std::path::Path;
use std::process::ExitCode;

use softland_agent::AgentFile;

use crate::args::CheckArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::render::Writer;

/// Checks every file; says which are right, and every error and warning.
pub(crate) fn run(args: &CheckArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    let mut problems = Vec::new();
    for file in &args.files {
        let found = check(file, writer);
        if found.is_empty() {
            writer.result(&format!("{}: ok\n", file.display()));
        }
        problems.extend(found);
    }
    if problems.is_empty() { Ok(ExitCode::SUCCESS) } else { Err(Failure::all(problems)) }
}

fn check(file: &Path, writer: &Writer) -> Vec<String> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("md") => {
            let (agent, warnings) = AgentFile::load(file);
            for warning in warnings {
                writer.warning(&warning.to_string());
            }
            let errors = agent.err().unwrap_or_default();
            errors.iter().map(ToString::to_string).collect()
        }
        Some("toml") => Config::load(file).err().unwrap_or_default(),
        _ => vec![format!(
            "{}: not known what to check it as; agent files end in .md, configs in .toml",
            file.display()
        )],
    }
}
