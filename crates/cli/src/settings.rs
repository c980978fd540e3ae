//! Arguments, files and environment resolved to one agent that can run.

use std::io::{IsTerminal as _, Read as _};
use std::sync::Arc;

use softland_agent::core::policy::Policy;
use softland_agent::http::provider::{Api, Given, Target, resolve};
use softland_agent::http::{HttpTransport, Timeouts, Transport};
use softland_agent::tools::Means;
use softland_agent::{Agent, AgentFile, Options, Problem, Root, ToolSet};

use crate::args::RunArgs;
use crate::config::{Config, no_policy};
use crate::failure::Failure;
use crate::place::Place;
use crate::programs;
use crate::sim::InProcess;

/// The longest prompt that is read from standard input, in bytes.
const MAX_PROMPT: u64 = 8 * 1024 * 1024;

/// An agent that can run, and what to ask it.
pub(crate) struct Settings {
    pub(crate) agent: Agent,
    pub(crate) prompt: String,
    pub(crate) place: Place,
    /// Nothing real is paid.
    pub(crate) simulated: bool,
    /// Worth saying, in the way of nothing.
    pub(crate) warnings: Vec<String>,
}

impl Settings {
    /// Looks everything up, in the order in which a person would want to hear of a mistake.
    ///
    /// # Errors
    /// The first part with mistakes, all of its mistakes.
    pub(crate) fn of(args: &RunArgs) -> Result<Self, Failure> {
        let (file, warnings) = AgentFile::load(&args.agent);
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let file = file
            .map_err(|problems| Failure::all(problems.iter().map(ToString::to_string).collect()))?;
        let config = match &args.config {
            Some(path) => Config::load(path).map_err(Failure::all)?,
            None => Config::default(),
        };
        let policy = policy(args, &config, &file)?;
        let model = model(args, &file)?;
        let Way { transport, place, api } = way(args, &config, &model)?;
        let tools = tools(args, &config, &file)?;
        let options = Options {
            api,
            show_thinking: args.show_thinking,
            price: config.price(&model),
            tool_format: file.tool_format,
            ..Options::default()
        };
        let prompt = prompt(args.prompt.as_deref())?;
        let simulated = model.starts_with("sim/");
        let AgentFile { name, system, .. } = file;
        let agent = Agent { name, system, model, tools, policy, transport, options };
        Ok(Self { agent, prompt, place, simulated, warnings })
    }
}

/// Built-in default, then the config's, then the agent file's keys, then the flags.
fn policy(args: &RunArgs, config: &Config, file: &AgentFile) -> Result<Policy, Failure> {
    let mut policy = match &args.policy {
        None => config.policy("default").cloned().unwrap_or_default(),
        Some(name) => match config.policy(name).cloned().or_else(|| Policy::named(name)) {
            Some(policy) => policy,
            None => return Err(Failure::usage(no_policy(name, config))),
        },
    };
    file.apply_policy(&mut policy);
    for (key, value) in &args.keys {
        policy.set(key, value).map_err(|error| Failure::usage(error.to_string()))?;
    }
    Ok(policy)
}

fn model(args: &RunArgs, file: &AgentFile) -> Result<String, Failure> {
    args.model.clone().or_else(|| file.model.clone()).ok_or_else(|| {
        Failure::usage(format!(
            "no model: give one with --model PROVIDER/MODEL or with `model:` in {} \
             (without a key: --model sim/reader)",
            args.agent.display()
        ))
    })
}

/// The way to a model.
struct Way {
    transport: Arc<dyn Transport>,
    place: Place,
    api: Api,
}

/// A base URL of the flag goes before the config's, that before the environment's. All name the
/// origin of the provider's key.
fn way(args: &RunArgs, config: &Config, model: &str) -> Result<Way, Failure> {
    let env = |name: &str| std::env::var(name).ok();
    let provider = model.split_once('/').map_or(model, |(provider, _)| provider);
    let upstream = config.upstream(provider).cloned().unwrap_or_default();
    let of_flag = args.base_url.as_deref().map(|url| (url, "--base-url"));
    let of_config = upstream.base_url.as_ref().map(|url| (url.text.as_str(), url.place.as_str()));
    let key_variable = upstream.key.as_ref().map(|variable| variable.name.as_str());
    let given = Given { api: args.api, base_url: of_flag.or(of_config), key_variable };
    let target = resolve(model, &given, &env).map_err(|error| Failure::usage(error.to_string()))?;
    let api = target.api();
    let (transport, place): (Arc<dyn Transport>, _) = match target {
        Target::Sim { model, .. } => (Arc::new(InProcess::new(&model)?), Place::simulator()),
        Target::Http(endpoint) => {
            let place = Place::of(&endpoint, key_variable);
            let transport = HttpTransport::new(endpoint, Timeouts::default())
                .map_err(|error| Failure::usage(error.to_string()))?;
            (Arc::new(transport), place)
        }
    };
    Ok(Way { transport: place.watch(transport), place, api })
}

fn tools(args: &RunArgs, config: &Config, file: &AgentFile) -> Result<ToolSet, Failure> {
    let root = Root::open(&args.root).map_err(|e| Failure::usage(format!("--root: {e}")))?;
    let mut means = Means::new(root);
    if args.allow_shell {
        means = means.with_programs(programs::allowed(config)?);
    }
    let problems = |all: Vec<Problem>| Failure::all(all.iter().map(ToString::to_string).collect());
    file.tool_set(&args.agent.display().to_string(), means).map_err(problems)
}

/// The prompt as given, or standard input's where it is `-` or there is none.
fn prompt(given: Option<&str>) -> Result<String, Failure> {
    let (prompt, from) = match given {
        Some(text) if text != "-" => (text.to_owned(), "the prompt"),
        given => {
            let stdin = std::io::stdin();
            if given.is_none() && stdin.is_terminal() {
                return Err(Failure::usage(
                    "no prompt: give it as an argument, or pipe it in \
                     (softland run AGENT.md \"a question\")",
                ));
            }
            (piped(stdin.lock())?, "the prompt from standard input")
        }
    };
    if prompt.trim().is_empty() {
        return Err(Failure::usage(format!("{from} is empty: say what to do")));
    }
    Ok(prompt)
}

fn piped(input: impl std::io::Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let fail = |error| Failure::usage(format!("standard input cannot be read: {error}"));
    let size = input.take(MAX_PROMPT + 1).read_to_end(&mut bytes).map_err(fail)?;
    if size as u64 > MAX_PROMPT {
        let message = format!("the prompt from standard input is larger than {MAX_PROMPT} bytes");
        return Err(Failure::usage(message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::usage(format!("the prompt from standard input is not UTF-8 text (byte {at})"))
    })
}
