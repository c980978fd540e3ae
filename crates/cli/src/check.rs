//! `softland check`: validates agent files and configs, and runs nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use softland_agent::AgentFile;
use softland_agent::core::policy::Policy;
use softland_agent::http::provider::{ProviderOverrides, check_model};

use crate::args::CheckArgs;
use crate::config::{Config, Overrides, find_unlimitable_tools};
use crate::failure::{Failure, status};
use crate::mcp;
use crate::render::{OutputLoss, Writer, format_count};
use crate::settings::folder;
use crate::sim::{InProcessSim, SIMULATOR, simulated_name};

/// Checks every file, and reports the valid ones and every error and warning.
pub(crate) fn run_command(args: &CheckArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    let mut problems = Vec::new();
    for file in &args.files {
        let files = match file.is_dir() {
            true => folder::list_agent_files(file).unwrap_or_else(|problem| {
                problems.push(problem);
                Vec::new()
            }),
            false => vec![file.clone()],
        };
        for file in &files {
            let (found, warnings) = check_file(file, writer);
            if found.is_empty() {
                let warned = match warnings {
                    0 => String::new(),
                    warnings => format!(", with {}", format_count(warnings, "warning")),
                };
                writer.write_result(&format!("{}: ok{warned}\n", file.display()));
            }
            problems.extend(found);
        }
        if file.is_dir() {
            problems.extend(folder::find_same_names(&load_readable(files)));
        }
    }
    if problems.is_empty() && writer.output_loss() == OutputLoss::Failed {
        return Ok(ExitCode::from(status::USAGE));
    }
    if problems.is_empty() { Ok(ExitCode::SUCCESS) } else { Err(Failure::from_messages(problems)) }
}

/// Loads the agent files that can be read.
fn load_readable(files: Vec<PathBuf>) -> Vec<(PathBuf, AgentFile)> {
    files
        .into_iter()
        .filter_map(|file| Some((file.clone(), AgentFile::load(&file).0.ok()?)))
        .collect()
}

/// Returns the errors of a file, and how many warnings were written for it.
fn check_file(file: &Path, writer: &Writer) -> (Vec<String>, u64) {
    let mut warned = 0;
    let problems = match file.extension().and_then(|extension| extension.to_str()) {
        Some("md") => {
            let (agent, warnings) = AgentFile::load(file);
            for warning in warnings {
                warned += 1;
                writer.write_warning(&warning.to_string());
            }
            match agent {
                Ok(agent) => {
                    let limits = unlimitable_tools(file, &agent);
                    let name = mcp::check_tool_name(file, &agent);
                    let model = unreachable_model(file, &agent);
                    name.into_iter().chain(model).chain(limits).collect()
                }
                Err(errors) => errors.iter().map(ToString::to_string).collect(),
            }
        }
        Some("toml") => match Config::load(file) {
            Ok(config) => {
                let env = |name: &str| std::env::var(name).ok();
                for warning in config.list_weak_tokens(&Overrides::default(), &env) {
                    warned += 1;
                    writer.write_warning(&warning);
                }
                config.serve_problems()
            }
            Err(problems) => problems,
        },
        _ => {
            vec![format!("{}: is neither an agent file (.md) nor a config (.toml)", file.display())]
        }
    };
    (problems, warned)
}

/// Returns the tool limits that `run` would refuse because no API can enforce them.
fn unlimitable_tools(file: &Path, agent: &AgentFile) -> Vec<String> {
    let mut policy = Policy::default();
    agent.apply_policy(&mut policy);
    let wrong = find_unlimitable_tools(&policy).into_iter();
    wrong.map(|problem| format!("{}: tool_limits: {problem}", file.display())).collect()
}

/// Returns the reason for which `run` would refuse the model that the file names.
fn unreachable_model(file: &Path, agent: &AgentFile) -> Option<String> {
    let model = agent.model.as_deref()?;
    let given = ProviderOverrides { own: &[SIMULATOR], ..ProviderOverrides::default() };
    let problem = match simulated_name(model) {
        Some(name) => InProcessSim::find_scenario(name).err()?,
        None => check_model(model, &given).err()?.to_string(),
    };
    let line = agent.model_line.map(|line| format!(":{line}")).unwrap_or_default();
    Some(format!("{}{line}: model: {problem}", file.display()))
}
